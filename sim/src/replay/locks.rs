//! The locks that a program names, of a kind that is known when it runs.

use crate::cpu::Cpu;
use crate::engine::LineId;
use crate::locks::{Mutex, RwLock, RwSem, Spinlock};
use crate::replay::program::{Kind, ProgramLock};
use crate::simulation::Simulation;

/// A lock of a program.
pub(super) enum TaskLock {
    Spinlock(Spinlock),
    RwLock(RwLock),
    Mutex(Mutex),
    RwSem(RwSem),
}

impl TaskLock {
    pub fn new(sim: &mut Simulation, lock: &ProgramLock, line: LineId) -> TaskLock {
        let name = lock.name.as_str();
        match lock.kind {
            Kind::Spinlock => TaskLock::Spinlock(Spinlock::on(sim, name, line)),
            Kind::RwLock => TaskLock::RwLock(RwLock::on(sim, name, line)),
            Kind::Mutex => TaskLock::Mutex(Mutex::on(sim, name, line)),
            Kind::RwSem => TaskLock::RwSem(RwSem::on(sim, name, line)),
        }
    }

    /// Acquires it; with `shared`, as a reader if its kind has readers.
    pub async fn acquire(&self, cpu: &Cpu, shared: bool) {
        match (self, shared) {
            (TaskLock::RwLock(lock), true) => cpu.read_lock(lock).await,
            (TaskLock::RwSem(lock), true) => cpu.read_lock(lock).await,
            (TaskLock::Spinlock(lock), _) => cpu.lock(lock).await,
            (TaskLock::RwLock(lock), false) => cpu.lock(lock).await,
            (TaskLock::Mutex(lock), _) => cpu.lock(lock).await,
            (TaskLock::RwSem(lock), false) => cpu.lock(lock).await,
        }
    }

    /// Acquires it if that needs no waiting. Returns whether it has.
    pub async fn try_acquire(&self, cpu: &Cpu, shared: bool) -> bool {
        match (self, shared) {
            (TaskLock::Spinlock(lock), _) => cpu.try_lock(lock).await,
            (TaskLock::RwLock(lock), true) => cpu.try_read_lock(lock).await,
            (TaskLock::RwLock(lock), false) => cpu.try_lock(lock).await,
            (TaskLock::Mutex(lock), _) => cpu.try_lock(lock).await,
            (TaskLock::RwSem(lock), true) => cpu.try_read_lock(lock).await,
            (TaskLock::RwSem(lock), false) => cpu.try_lock(lock).await,
        }
    }

    pub async fn release(&self, cpu: &Cpu, shared: bool) {
        match (self, shared) {
            (TaskLock::RwLock(lock), true) => cpu.read_unlock(lock).await,
            (TaskLock::RwSem(lock), true) => cpu.read_unlock(lock).await,
            (TaskLock::Spinlock(lock), _) => cpu.unlock(lock).await,
            (TaskLock::RwLock(lock), false) => cpu.unlock(lock).await,
            (TaskLock::Mutex(lock), _) => cpu.unlock(lock).await,
            (TaskLock::RwSem(lock), false) => cpu.unlock(lock).await,
        }
    }

    /// Turns the writer of an rwsem into a reader.
    pub async fn downgrade(&self, cpu: &Cpu) {
        if let TaskLock::RwSem(lock) = self {
            cpu.downgrade(lock).await;
        }
    }

    /// Whether a spinlock is held or waited for, as seen when another word of its cache line was read.
    pub fn is_busy(&self, cpu: &Cpu) -> bool {
        matches!(self, TaskLock::Spinlock(lock) if lock.is_busy(cpu))
    }
}
