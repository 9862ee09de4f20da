use crate::cpu::Cpu;
use crate::engine::{LineId, Simulation};
use crate::locks::{Cna, Mutex, QSpinlock, RwLock, RwSem, SeqLock};
use crate::replay::program::{Kind, LockOf};

/// What the kernel's spinlocks are in a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpinKind {
    Qspinlock,
    /// NUMA-aware: what would come of it if the kernel had it.
    Cna,
}

/// One of a program's locks.
pub(super) enum TaskLock {
    Spinlock(QSpinlock),
    Cna(Cna),
    RwLock(RwLock),
    Mutex(Mutex),
    RwSem(RwSem),
    SeqLock(SeqLock),
}

impl TaskLock {
    pub fn new(sim: &mut Simulation, lock: &LockOf, line: LineId, spinlocks: SpinKind) -> TaskLock {
        let name = lock.name.as_str();
        match (lock.kind, spinlocks) {
            (Kind::Spinlock, SpinKind::Qspinlock) => TaskLock::Spinlock(QSpinlock::on(sim, name, line)),
            (Kind::Spinlock, SpinKind::Cna) => TaskLock::Cna(Cna::on(sim, name, line)),
            (Kind::RwLock, _) => TaskLock::RwLock(RwLock::on(sim, name, line)),
            (Kind::Mutex, _) => TaskLock::Mutex(Mutex::on(sim, name, line)),
            (Kind::RwSem, _) => TaskLock::RwSem(RwSem::on(sim, name, line)),
            (Kind::SeqLock, _) => TaskLock::SeqLock(SeqLock::on(sim, name, line)),
        }
    }

    /// Takes it, to read with others where its kind can. Gives the sequence number that a seqlock's reader keeps.
    pub async fn take(&self, cpu: &Cpu, shared: bool) -> u64 {
        match (self, shared) {
            (TaskLock::SeqLock(lock), true) => return lock.read_begin(cpu).await,
            (TaskLock::RwLock(lock), true) => cpu.read_lock(lock).await,
            (TaskLock::RwSem(lock), true) => cpu.read_lock(lock).await,
            (TaskLock::Spinlock(lock), _) => cpu.lock(lock).await,
            (TaskLock::Cna(lock), _) => cpu.lock(lock).await,
            (TaskLock::RwLock(lock), false) => cpu.lock(lock).await,
            (TaskLock::Mutex(lock), _) => cpu.lock(lock).await,
            (TaskLock::RwSem(lock), false) => cpu.lock(lock).await,
            (TaskLock::SeqLock(lock), false) => cpu.lock(lock).await,
        }
        0
    }

    /// Gives it back. True if what was read under it is worth nothing, as a writer came.
    pub async fn give(&self, cpu: &Cpu, shared: bool, sequence: u64) -> bool {
        match (self, shared) {
            (TaskLock::SeqLock(lock), true) => return lock.read_retry(cpu, sequence).await,
            (TaskLock::RwLock(lock), true) => cpu.read_unlock(lock).await,
            (TaskLock::RwSem(lock), true) => cpu.read_unlock(lock).await,
            (TaskLock::Spinlock(lock), _) => cpu.unlock(lock).await,
            (TaskLock::Cna(lock), _) => cpu.unlock(lock).await,
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
        match self {
            TaskLock::Spinlock(lock) => lock.is_busy(cpu),
            TaskLock::Cna(lock) => lock.is_busy(cpu),
            _ => false,
        }
    }
}
