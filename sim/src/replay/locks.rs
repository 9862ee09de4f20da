use crate::cpu::Cpu;
use crate::engine::{LineId, Simulation};
use crate::locks::{Mutex, RwLock, RwSem, SeqLock, Spinlock};
use crate::replay::program::{Kind, LockOf};

/// One of a program's locks.
pub(super) enum TaskLock {
    Spinlock(Spinlock),
    RwLock(RwLock),
    Mutex(Mutex),
    RwSem(RwSem),
    SeqLock(SeqLock),
}

impl TaskLock {
    pub fn new(sim: &mut Simulation, lock: &LockOf, line: LineId) -> TaskLock {
        let name = lock.name.as_str();
        match lock.kind {
            Kind::Spinlock => TaskLock::Spinlock(Spinlock::on(sim, name, line)),
            Kind::RwLock => TaskLock::RwLock(RwLock::on(sim, name, line)),
            Kind::Mutex => TaskLock::Mutex(Mutex::on(sim, name, line)),
            Kind::RwSem => TaskLock::RwSem(RwSem::on(sim, name, line)),
            Kind::SeqLock => TaskLock::SeqLock(SeqLock::on(sim, name, line)),
        }
    }

    /// Takes it, to read with others where its kind can. Gives the sequence number that a seqlock's reader keeps.
    pub async fn take(&self, cpu: &Cpu, shared: bool) -> u64 {
        match (self, shared) {
            (TaskLock::SeqLock(lock), true) => return lock.read_begin(cpu).await,
            (TaskLock::RwLock(lock), true) => cpu.read_lock(lock).await,
            (TaskLock::RwSem(lock), true) => cpu.read_lock(lock).await,
            (TaskLock::Spinlock(lock), _) => cpu.lock(lock).await,
            (TaskLock::RwLock(lock), false) => cpu.lock(lock).await,
            (TaskLock::Mutex(lock), _) => cpu.lock(lock).await,
            (TaskLock::RwSem(lock), false) => cpu.lock(lock).await,
            (TaskLock::SeqLock(lock), false) => cpu.lock(lock).await,
        }
        0
    }

    /// Takes it if that needs no waiting, of a kind that has a trylock. Whether the task has it.
    pub async fn try_take(&self, cpu: &Cpu, shared: bool) -> bool {
        match (self, shared) {
            (TaskLock::Spinlock(lock), _) => cpu.try_lock(lock).await,
            (TaskLock::RwLock(lock), true) => cpu.try_read_lock(lock).await,
            (TaskLock::RwLock(lock), false) => cpu.try_lock(lock).await,
            (TaskLock::Mutex(lock), _) => cpu.try_lock(lock).await,
            (TaskLock::RwSem(lock), true) => cpu.try_read_lock(lock).await,
            (TaskLock::RwSem(lock), false) => cpu.try_lock(lock).await,
            (TaskLock::SeqLock(_), _) => false,
        }
    }

    /// Gives it back. True if what was read under it is worth nothing, as a writer came.
    pub async fn give(&self, cpu: &Cpu, shared: bool, sequence: u64) -> bool {
        match (self, shared) {
            (TaskLock::SeqLock(lock), true) => return lock.read_retry(cpu, sequence).await,
            (TaskLock::RwLock(lock), true) => cpu.read_unlock(lock).await,
            (TaskLock::RwSem(lock), true) => cpu.read_unlock(lock).await,
            (TaskLock::Spinlock(lock), _) => cpu.unlock(lock).await,
            (TaskLock::RwLock(lock), false) => cpu.unlock(lock).await,
            (TaskLock::Mutex(lock), _) => cpu.unlock(lock).await,
            (TaskLock::RwSem(lock), false) => cpu.unlock(lock).await,
            (TaskLock::SeqLock(lock), false) => cpu.unlock(lock).await,
        }
        false
    }

    /// Keeps it to read, of a kind that can.
    pub async fn downgrade(&self, cpu: &Cpu) {
        if let TaskLock::RwSem(lock) = self {
            cpu.downgrade(lock).await;
        }
    }

    /// Whether somebody has it or waits for it, of a spinlock, as seen with another word of its line.
    pub fn is_busy(&self, cpu: &Cpu) -> bool {
        matches!(self, TaskLock::Spinlock(lock) if lock.is_busy(cpu))
    }
}
