//! What a lock is, and how a program uses one.
//!
//! A lock implements the traits. Programs call the methods of [`Cpu`], which also report how long CPUs wait for the
//! lock and hold it, and check that it has one holder.

use std::future::Future;

use crate::cpu::Cpu;
use crate::engine::LockId;

/// A lock that one CPU holds at a time. Programs acquire it with `cpu.lock(&lock)`.
pub trait Lock {
    /// Identifies the lock in reports.
    fn id(&self) -> LockId;
    /// Returns when the CPU has the lock.
    fn acquire(&self, cpu: &Cpu) -> impl Future<Output = ()>;
    /// Returns when the CPU can continue. The lock is free by then, or another CPU has it.
    fn release(&self, cpu: &Cpu) -> impl Future<Output = ()>;
}

/// A lock with a trylock. Programs call it with `cpu.try_lock(&lock)`.
pub trait TryLock: Lock {
    /// Returns whether the CPU has acquired the lock.
    fn try_acquire(&self, cpu: &Cpu) -> impl Future<Output = bool>;
}

/// A lock that many readers can share. Programs acquire it with `cpu.read_lock(&lock)`.
pub trait ReadLock: Lock {
    /// Returns when the CPU may read.
    fn acquire_read(&self, cpu: &Cpu) -> impl Future<Output = ()>;
    /// Returns when the CPU can continue.
    fn release_read(&self, cpu: &Cpu) -> impl Future<Output = ()>;
}

/// A lock with a trylock for readers. Programs call it with `cpu.try_read_lock(&lock)`.
pub trait TryReadLock: ReadLock {
    /// Returns whether the CPU has acquired the lock as a reader.
    fn try_acquire_read(&self, cpu: &Cpu) -> impl Future<Output = bool>;
}

/// A lock whose exclusive holder can become a reader without releasing it. Programs do so with
/// `cpu.downgrade(&lock)`.
pub trait DowngradeLock: ReadLock {
    /// Returns when the CPU can continue. Other readers can share the lock by then.
    fn downgrade(&self, cpu: &Cpu) -> impl Future<Output = ()>;
}

impl Cpu {
    /// Acquires a lock.
    pub async fn lock(&self, lock: &impl Lock) {
        let since = self.wants_lock(lock.id());
        lock.acquire(self).await;
        self.has_acquired(lock.id(), since);
    }

    /// Acquires a lock if it is free. Returns whether it has.
    pub async fn try_lock(&self, lock: &impl TryLock) -> bool {
        let since = self.now();
        let acquired = lock.try_acquire(self).await;
        if acquired {
            self.has_acquired(lock.id(), since);
        }
        acquired
    }

    /// Acquires a lock as a reader if that needs no waiting. Returns whether it has.
    pub async fn try_read_lock(&self, lock: &impl TryReadLock) -> bool {
        let since = self.now();
        let acquired = lock.try_acquire_read(self).await;
        if acquired {
            self.has_acquired_to_read(lock.id(), since);
        }
        acquired
    }

    /// Releases a lock.
    pub async fn unlock(&self, lock: &impl Lock) {
        self.releases(lock.id());
        lock.release(self).await;
    }

    /// Acquires a lock as a reader.
    pub async fn read_lock(&self, lock: &impl ReadLock) {
        let since = self.wants_lock(lock.id());
        lock.acquire_read(self).await;
        self.has_acquired_to_read(lock.id(), since);
    }

    /// Releases a lock as a reader.
    pub async fn read_unlock(&self, lock: &impl ReadLock) {
        self.releases_as_reader(lock.id());
        lock.release_read(self).await;
    }

    /// Turns the exclusive holder of a lock into a reader.
    pub async fn downgrade(&self, lock: &impl DowngradeLock) {
        self.downgrades(lock.id());
        lock.downgrade(self).await;
    }
}
