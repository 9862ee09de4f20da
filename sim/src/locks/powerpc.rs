use std::rc::Rc;

use crate::cpu::Cpu;
use crate::engine::{LineId, LockId, Word};
use crate::lock::{Lock, TryLock};
use crate::locks::queue_nodes::{Node, QueueNodes};
use crate::simulation::Simulation;
use crate::time::ns;

/// POWER's own queued spinlock. A newcomer tries for a while to steal the lock, and then queues. The head of the
/// queue forbids stealing once it has waited for long.
///
/// Follows `queued_spin_lock_slowpath`, `try_to_steal_lock` and `queued_spin_lock_mcs_queue` in
/// `arch/powerpc/lib/qspinlock.c`, and `arch/powerpc/include/asm/qspinlock.h`, of 6.12. POWER has it since 6.2. Left
/// out: shared processors of a hypervisor (`is_shared_processor`), on which it yields to preempted owners.
pub struct PowerpcQSpinlock {
    id: LockId,
    /// The bit LOCKED, above it the owner's CPU, the bit MUST_QUEUE, and above that the CPU of the queue's last node.
    word: Word,
    nodes: Rc<QueueNodes>,
}

const LOCKED: u64 = 1;
const OWNER_SHIFT: u32 = 1;
const OWNER: u64 = 0x7ffe;
/// The two bytes that unlocking clears.
const LOCKED_BYTES: u64 = 0xffff;
const MUST_QUEUE: u64 = 1 << 16;
const TAIL_SHIFT: u32 = 17;
const TAIL: u64 = u64::MAX << TAIL_SHIFT;

/// `steal_spins`, `remote_steal_spins` (the owner is on another node), and `head_spins`.
const STEAL_SPINS: u32 = 1 << 5;
const REMOTE_STEAL_SPINS: u32 = 1 << 2;
const HEAD_SPINS: u32 = 1 << 8;
/// One iteration of spinning. An estimate: a load that hits, and a dozen instructions of a low-priority thread.
const SPIN_NS: f64 = 10.0;

fn owner_cpu(value: u64) -> usize {
    ((value & OWNER) >> OWNER_SHIFT) as usize
}

impl PowerpcQSpinlock {
    /// A free lock in a node's memory.
    pub fn new(sim: &mut Simulation, name: &str, node: usize) -> PowerpcQSpinlock {
        let line = sim.line(name, node);
        PowerpcQSpinlock::on(sim, name, line)
    }

    /// A free lock on a cache line with other words.
    pub fn on(sim: &mut Simulation, name: &str, line: LineId) -> PowerpcQSpinlock {
        PowerpcQSpinlock { id: sim.lock_id(name), word: sim.word_on(line), nodes: QueueNodes::of(sim) }
    }

    /// Whether it is held or waited for, as seen when another word of its cache line was read.
    pub(crate) fn is_busy(&self, cpu: &Cpu) -> bool {
        cpu.peek_same_line(self.word) != 0
    }

    /// `queued_spin_encode_locked_val`.
    fn locked_by(cpu: &Cpu) -> u64 {
        LOCKED | (cpu.id() as u64) << OWNER_SHIFT
    }

    /// `try_to_steal_lock`.
    async fn steal(&self, cpu: &Cpu) -> bool {
        for spins in 1.. {
            let value = cpu.read(self.word).await;
            if value & MUST_QUEUE != 0 {
                break;
            }
            if value & LOCKED == 0 {
                if self.try_acquire(cpu).await {
                    return true;
                }
            } else {
                cpu.relax(ns(SPIN_NS)).await;
            }
            let is_far = cpu.node() != cpu.node_of(owner_cpu(value));
            if spins >= STEAL_SPINS || is_far && spins >= REMOTE_STEAL_SPINS {
                break;
            }
        }
        false
    }

    /// `queued_spin_lock_mcs_queue`.
    async fn queue(&self, cpu: &Cpu) {
        let node = self.nodes.take(cpu.id());
        cpu.write(node.locked, 0).await;
        cpu.write(node.next, 0).await;
        let tail = node.name << TAIL_SHIFT;
        let ahead = cpu.swap_bits(self.word, TAIL, tail).await >> TAIL_SHIFT;
        if ahead != 0 {
            let ahead = self.nodes.node(ahead);
            cpu.read(ahead.next).await; // `get_tail_qnode` searches that CPU's nodes for this lock
            cpu.write(ahead.next, node.name).await;
            cpu.spin_while(node.locked, |locked| locked == 0).await;
        }
        let before = self.acquire_as_head(cpu, tail).await;
        if before & TAIL != tail {
            self.hand_on(cpu, node).await;
        }
        self.nodes.free(node);
    }

    /// Acquires the lock as the head of the queue, in competition with stealers. Returns the previous value of its
    /// word.
    async fn acquire_as_head(&self, cpu: &Cpu, tail: u64) -> u64 {
        let mut spins = 0;
        loop {
            let mut value = cpu.read(self.word).await;
            while value & LOCKED != 0 {
                cpu.relax(ns(SPIN_NS)).await;
                spins += 1;
                if spins == HEAD_SPINS {
                    cpu.fetch_or(self.word, MUST_QUEUE).await;
                }
                value = cpu.read(self.word).await;
            }
            // `trylock_clean_tail`, which clears MUST_QUEUE, too.
            while value & LOCKED == 0 {
                let rest = if value & TAIL == tail { 0 } else { value & TAIL };
                let before = cpu.compare_exchange(self.word, value, rest | Self::locked_by(cpu)).await;
                if before == value {
                    return before;
                }
                value = before;
            }
        }
    }

    async fn hand_on(&self, cpu: &Cpu, node: Node) {
        let next = cpu.spin_while(node.next, |next| next == 0).await;
        cpu.write(self.nodes.node(next).locked, 1).await;
    }
}

impl TryLock for PowerpcQSpinlock {
    /// `__queued_spin_trylock_steal`: also succeeds if other CPUs queue for it.
    async fn try_acquire(&self, cpu: &Cpu) -> bool {
        let mut value = 0;
        while value & !TAIL == 0 {
            let before = cpu.compare_exchange(self.word, value, value | Self::locked_by(cpu)).await;
            if before == value {
                return true;
            }
            value = before;
        }
        false
    }
}

impl Lock for PowerpcQSpinlock {
    fn id(&self) -> LockId {
        self.id
    }

    async fn acquire(&self, cpu: &Cpu) {
        if !(self.try_acquire(cpu).await || self.steal(cpu).await) {
            self.queue(cpu).await;
        }
    }

    async fn release(&self, cpu: &Cpu) {
        cpu.write_bits(self.word, LOCKED_BYTES, 0).await;
    }
}
