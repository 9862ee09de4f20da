use crate::cpu::Cpu;
use crate::engine::{LineId, LockId, Word};
use crate::lock::{Lock, ReadLock, TryLock, TryReadLock};
use crate::locks::spinlock::Spinlock;
use crate::simulation::Simulation;

/// The kernel's queueing rwlock: many readers or one writer, in the order in which they came.
///
/// Follows `kernel/locking/qrwlock.c` and `include/asm-generic/qrwlock.h` of 6.12.
pub struct RwLock {
    id: LockId,
    /// The bit LOCKED of the writer, the bit WAITING of a writer that waits for readers to leave, and the number of
    /// readers.
    counts: Word,
    wait_lock: Spinlock,
}

const LOCKED: u64 = 1;
const WAITING: u64 = 1 << 8;
const READER: u64 = 1 << 9;

impl RwLock {
    /// A free lock in a node's memory. The counts and the queue's word are on one cache line, as in the kernel.
    pub fn new(sim: &mut Simulation, name: &str, node: usize) -> RwLock {
        let line = sim.line(name, node);
        RwLock::on(sim, name, line)
    }

    /// A free lock on a cache line with other words.
    pub fn on(sim: &mut Simulation, name: &str, line: LineId) -> RwLock {
        let wait_lock = Spinlock::on(sim, name, line);
        RwLock { id: sim.lock_id(name), counts: sim.word_on(line), wait_lock }
    }
}

impl Lock for RwLock {
    fn id(&self) -> LockId {
        self.id
    }

    async fn acquire(&self, cpu: &Cpu) {
        if cpu.compare_exchange(self.counts, 0, LOCKED).await == 0 {
            return;
        }
        self.wait_lock.acquire(cpu).await;
        if !self.try_acquire(cpu).await {
            cpu.fetch_or(self.counts, WAITING).await;
            loop {
                cpu.spin_while(self.counts, |counts| counts != WAITING).await;
                if cpu.compare_exchange(self.counts, WAITING, LOCKED).await == WAITING {
                    break;
                }
            }
        }
        self.wait_lock.release(cpu).await;
    }

    async fn release(&self, cpu: &Cpu) {
        cpu.write_bits(self.counts, LOCKED, 0).await;
    }
}

impl TryLock for RwLock {
    /// `queued_write_trylock`.
    async fn try_acquire(&self, cpu: &Cpu) -> bool {
        cpu.read(self.counts).await == 0 && cpu.compare_exchange(self.counts, 0, LOCKED).await == 0
    }
}

impl TryReadLock for RwLock {
    /// `queued_read_trylock`.
    async fn try_acquire_read(&self, cpu: &Cpu) -> bool {
        if cpu.read(self.counts).await & (LOCKED | WAITING) != 0 {
            return false;
        }
        if cpu.fetch_add(self.counts, READER).await & (LOCKED | WAITING) == 0 {
            return true;
        }
        cpu.fetch_add(self.counts, READER.wrapping_neg()).await;
        false
    }
}

impl ReadLock for RwLock {
    async fn acquire_read(&self, cpu: &Cpu) {
        if cpu.fetch_add(self.counts, READER).await & (LOCKED | WAITING) == 0 {
            return;
        }
        cpu.fetch_add(self.counts, READER.wrapping_neg()).await;
        self.wait_lock.acquire(cpu).await;
        cpu.fetch_add(self.counts, READER).await;
        cpu.spin_while(self.counts, |counts| counts & LOCKED != 0).await;
        self.wait_lock.release(cpu).await;
    }

    async fn release_read(&self, cpu: &Cpu) {
        cpu.fetch_add(self.counts, READER.wrapping_neg()).await;
    }
}
