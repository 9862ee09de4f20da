use crate::cpu::Cpu;
use crate::engine::{LockId, Word};
use crate::lock::Lock;
use crate::simulation::Simulation;

/// One word, which the holder sets. Waiters read it until the lock is free, then all try at once.
///
/// The kernel's spinlocks were like this until 2.6.24 on x86 (`arch/x86/include/asm/spinlock.h`). In virtual machines
/// without paravirtual locks they still are (`virt_spin_lock`, same file of 6.12).
pub struct TestAndSet {
    id: LockId,
    word: Word,
}

impl TestAndSet {
    /// A free lock in a node's memory.
    pub fn new(sim: &mut Simulation, name: &str, node: usize) -> TestAndSet {
        TestAndSet { id: sim.lock_id(name), word: sim.word(name, node) }
    }
}

impl Lock for TestAndSet {
    fn id(&self) -> LockId {
        self.id
    }

    async fn acquire(&self, cpu: &Cpu) {
        while cpu.swap(self.word, 1).await != 0 {
            cpu.spin_while(self.word, |value| value != 0).await;
        }
    }

    async fn release(&self, cpu: &Cpu) {
        cpu.write(self.word, 0).await;
    }
}
