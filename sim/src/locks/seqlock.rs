use crate::cpu::Cpu;
use crate::engine::{LineId, LockId, Word};
use crate::lock::Lock;
use crate::locks::spinlock::Spinlock;
use crate::simulation::Simulation;

/// A seqlock. Readers write nothing: they read a sequence number before and after, and start again if it has changed.
///
/// Follows `include/linux/seqlock.h` of 6.12. `cpu.lock` acquires it for writing.
///
/// ```
/// # use bigiron_sim::{Cpu, Word, locks::SeqLock};
/// async fn time(cpu: &Cpu, lock: &SeqLock, seconds: Word) -> u64 {
///     loop {
///         let sequence = lock.read_begin(cpu).await;
///         let value = cpu.read(seconds).await;
///         if !lock.read_retry(cpu, sequence).await {
///             return value;
///         }
///     }
/// }
/// ```
pub struct SeqLock {
    /// Odd during a write.
    sequence: Word,
    writers: Spinlock,
}

impl SeqLock {
    /// A free lock in a node's memory. Sequence and spinlock are on one cache line, as in the kernel.
    pub fn new(sim: &mut Simulation, name: &str, node: usize) -> SeqLock {
        let line = sim.line(name, node);
        SeqLock::on(sim, name, line)
    }

    /// A free lock on a cache line with other words.
    pub fn on(sim: &mut Simulation, name: &str, line: LineId) -> SeqLock {
        let writers = Spinlock::on(sim, name, line);
        SeqLock { sequence: sim.word_on(line), writers }
    }

    /// Waits until there is no writer, and returns the sequence number.
    pub async fn read_begin(&self, cpu: &Cpu) -> u64 {
        cpu.spin_while(self.sequence, |sequence| sequence % 2 == 1).await
    }

    async fn advance(&self, cpu: &Cpu) {
        let sequence = cpu.read(self.sequence).await;
        cpu.write(self.sequence, sequence + 1).await;
    }

    /// Whether there was a writer since, so that the reader must read again.
    pub async fn read_retry(&self, cpu: &Cpu, sequence: u64) -> bool {
        cpu.read(self.sequence).await != sequence
    }
}

impl Lock for SeqLock {
    fn id(&self) -> LockId {
        self.writers.id()
    }

    async fn acquire(&self, cpu: &Cpu) {
        self.writers.acquire(cpu).await;
        self.advance(cpu).await;
    }

    async fn release(&self, cpu: &Cpu) {
        self.advance(cpu).await;
        self.writers.release(cpu).await;
    }
}
