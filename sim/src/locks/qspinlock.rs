use std::cell::Cell;
use std::rc::Rc;

use crate::cpu::Cpu;
use crate::engine::{LineId, LockId, Word};
use crate::lock::{Lock, TryLock};
use crate::locks::queue_nodes::{Node, QueueNodes};
use crate::simulation::Simulation;

/// The kernel's spinlock since 4.2: the second CPU waits on the lock's word, the others in a queue behind it.
///
/// Follows `queued_spin_lock_slowpath` in `kernel/locking/qspinlock.c` of 6.12, without paravirtual locks.
pub struct QSpinlock {
    id: LockId,
    /// The bit LOCKED, the bit PENDING, and above them the name of the queue's last node.
    pub(super) word: Word,
    pub(super) nodes: Rc<QueueNodes>,
    pending_loops: u32,
}

/// `_Q_PENDING_LOOPS`: how often a CPU waits for another one that is about to take the lock, before it queues. Here each
/// time ends with a write of the cache line, as on arm64. On x86 and POWER 512 pauses outlast any hand-over.
fn pending_loops(architecture: &str) -> u32 {
    if architecture == "aarch64" { 1 } else { 512 }
}

pub(super) const LOCKED: u64 = 1;
pub(super) const PENDING: u64 = 1 << 8;
pub(super) const TAIL_SHIFT: u32 = 16;
pub(super) const TAIL: u64 = u64::MAX << TAIL_SHIFT;

impl QSpinlock {
    /// A free lock in a node's memory.
    pub fn new(sim: &mut Simulation, name: &str, node: usize) -> QSpinlock {
        let line = sim.line(name, node);
        QSpinlock::on(sim, name, line)
    }

    /// A free lock on a cache line with other words.
    pub fn on(sim: &mut Simulation, name: &str, line: LineId) -> QSpinlock {
        let (word, nodes) = (sim.word_on(line), QueueNodes::of(sim));
        QSpinlock { id: sim.lock_id(name), word, nodes, pending_loops: pending_loops(sim.architecture()) }
    }

    /// The part before the queue: acquires the lock if it is free, or waits with the pending bit. Returns false if
    /// other CPUs wait already, so that this one must queue.
    pub(super) async fn acquire_or_pend(&self, cpu: &Cpu) -> bool {
        let mut value = cpu.compare_exchange(self.word, 0, LOCKED).await;
        if value == 0 {
            return true;
        }
        if value == PENDING {
            let loops = Cell::new(self.pending_loops);
            let waits = |value| value == PENDING && loops.replace(loops.get().saturating_sub(1)) > 0;
            value = cpu.spin_while(self.word, waits).await;
        }
        if value & !LOCKED != 0 {
            return false;
        }
        let before = cpu.fetch_or(self.word, PENDING).await;
        if before & !LOCKED != 0 {
            if before & PENDING == 0 {
                cpu.write_bits(self.word, PENDING, 0).await;
            }
            return false;
        }
        if before & LOCKED != 0 {
            cpu.spin_while(self.word, |value| value & LOCKED != 0).await;
        }
        cpu.write_bits(self.word, PENDING | LOCKED, LOCKED).await;
        true
    }

    /// Whether it is held or waited for, as seen when another word of its cache line was read.
    pub(crate) fn is_busy(&self, cpu: &Cpu) -> bool {
        cpu.peek_same_line(self.word) != 0
    }

    /// Prefetches the next node, which the head of the queue writes once it has the lock.
    pub(super) fn prefetch_next(&self, cpu: &Cpu, node: Node) {
        let next = cpu.prefetch_and_peek(node.next);
        if next != 0 {
            cpu.prefetch_to_write(self.nodes.node(next).locked);
        }
    }
}

impl TryLock for QSpinlock {
    /// `queued_spin_trylock`, which is also the last attempt before queueing.
    async fn try_acquire(&self, cpu: &Cpu) -> bool {
        cpu.read(self.word).await == 0 && cpu.compare_exchange(self.word, 0, LOCKED).await == 0
    }
}

impl Lock for QSpinlock {
    fn id(&self) -> LockId {
        self.id
    }

    async fn acquire(&self, cpu: &Cpu) {
        if self.acquire_or_pend(cpu).await {
            return;
        }
        let node = self.nodes.take(cpu.id());
        cpu.write(node.locked, 0).await;
        cpu.write(node.next, 0).await;
        if self.try_acquire(cpu).await {
            self.nodes.free(node);
            return;
        }
        let tail = node.name << TAIL_SHIFT;
        let ahead = cpu.swap_bits(self.word, TAIL, tail).await >> TAIL_SHIFT;
        if ahead != 0 {
            cpu.write(self.nodes.node(ahead).next, node.name).await;
            cpu.spin_while(node.locked, |locked| locked == 0).await;
            self.prefetch_next(cpu, node);
        }
        let value = cpu.spin_while(self.word, |value| value & (LOCKED | PENDING) != 0).await;
        let alone = value & TAIL == tail && cpu.compare_exchange(self.word, value, LOCKED).await == value;
        if !alone {
            cpu.write_bits(self.word, LOCKED, LOCKED).await;
            let next = cpu.spin_while(node.next, |next| next == 0).await;
            cpu.write(self.nodes.node(next).locked, 1).await;
        }
        self.nodes.free(node);
    }

    async fn release(&self, cpu: &Cpu) {
        cpu.write_bits(self.word, LOCKED, 0).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::simulation::Run;
    use crate::time::us;

    /// Whether a CPU queues if the cache line of a lock that another one is about to take is written without a change.
    fn queues(machine: &str) -> bool {
        let mut sim = Simulation::new(Machine::named(machine).unwrap(), 1);
        let lock = QSpinlock::new(&mut sim, "lock", 0);
        let word = lock.word;
        sim.set(word, PENDING);
        let queued = Rc::new(Cell::new(false));
        let seen = Rc::clone(&queued);
        sim.program(0, move |cpu| async move {
            cpu.lock(&lock).await;
            cpu.unlock(&lock).await;
        });
        sim.program(1, move |cpu| async move {
            cpu.sleep_until(us(1)).await;
            cpu.fetch_or(word, 0).await;
            cpu.sleep_until(us(5)).await;
            seen.set(cpu.read(word).await & TAIL != 0);
            cpu.write_bits(word, PENDING, 0).await;
        });
        sim.run(Run::to_the_end()).unwrap();
        queued.get()
    }

    #[test]
    fn on_arm64_a_cpu_waits_for_one_write_before_it_queues() {
        assert!(queues("graviton3") && !queues("ice-lake-32c-x2"));
    }
}
