use crate::cpu::Cpu;
use crate::engine::{LockId, Word};
use crate::lock::Lock;
use crate::simulation::Simulation;

/// First come, first served: a CPU draws a ticket and waits until it is called. All CPUs wait on one cache line.
///
/// Follows `arch/x86/include/asm/spinlock.h` of 2.6.25 to 4.1, where ticket and call share one word.
pub struct Ticket {
    id: LockId,
    /// The next ticket in the high half, the ticket that is called in the low half.
    word: Word,
}

const DRAW: u64 = 1 << 32;

impl Ticket {
    /// A free lock in a node's memory.
    pub fn new(sim: &mut Simulation, name: &str, node: usize) -> Ticket {
        Ticket { id: sim.lock_id(name), word: sim.word(name, node) }
    }
}

impl Lock for Ticket {
    fn id(&self) -> LockId {
        self.id
    }

    async fn acquire(&self, cpu: &Cpu) {
        let drawn = cpu.fetch_add(self.word, DRAW).await;
        let ticket = drawn >> 32;
        if drawn as u32 as u64 != ticket {
            cpu.spin_while(self.word, |value| value as u32 as u64 != ticket).await;
        }
    }

    async fn release(&self, cpu: &Cpu) {
        cpu.fetch_add(self.word, 1).await;
    }
}
