use std::cell::RefCell;
use std::collections::VecDeque;

use crate::cpu::Cpu;
use crate::engine::{LineId, LockId, Word};
use crate::lock::{Lock, TryLock};
use crate::locks::osq::Osq;
use crate::locks::spinlock::Spinlock;
use crate::simulation::Simulation;
use crate::time::ns;

/// The kernel's mutex. While the owner runs, one waiter spins, and further waiters queue behind it. If the owner
/// sleeps, waiters sleep too.
///
/// Follows `__mutex_lock_common` and `__mutex_unlock_slowpath` in `kernel/locking/mutex.c`, and
/// `kernel/locking/osq_lock.c`, of 6.12. Left out: the deadlines of the scheduler (`need_resched`), as a CPU has one
/// task, and wait/wound mutexes.
pub struct Mutex {
    id: LockId,
    /// The owner, as the number of its CPU plus one, above the flags.
    owner: Word,
    osq: Osq,
    wait_lock: Spinlock,
    /// The CPUs that sleep. Protected by wait_lock, and on its cache line.
    waiters: RefCell<VecDeque<usize>>,
}

const WAITERS: u64 = 1;
/// The next unlock must hand the mutex over to the first waiter.
const HANDOFF: u64 = 2;
const FLAGS: u64 = 7;
const OWNER_SHIFT: u32 = 3;

impl Mutex {
    /// A free mutex in a node's memory. Owner, queues and wait_lock are on one cache line, as in the kernel.
    pub fn new(sim: &mut Simulation, name: &str, node: usize) -> Mutex {
        let line = sim.line(name, node);
        Mutex::on(sim, name, line)
    }

    /// A free mutex on a cache line with other words.
    pub fn on(sim: &mut Simulation, name: &str, line: LineId) -> Mutex {
        Mutex {
            id: sim.lock_id(name),
            owner: sim.word_on(line),
            osq: Osq::on(sim, line),
            wait_lock: Spinlock::on(sim, name, line),
            waiters: RefCell::default(),
        }
    }

    /// `__mutex_trylock_common`: acquires the mutex if it has no owner, and keeps the flags. With `handoff`, requests
    /// the hand-off otherwise. The error is the owner's word.
    async fn trylock_common(&self, cpu: &Cpu, handoff: bool) -> Result<(), u64> {
        let me = (cpu.id() as u64 + 1) << OWNER_SHIFT;
        let mut value = cpu.read(self.owner).await;
        loop {
            let new = match value & !FLAGS {
                0 => me | value & FLAGS & !HANDOFF,
                owner if owner == me => return Ok(()), // it was handed over
                _ if handoff && value & HANDOFF == 0 => value | HANDOFF,
                _ => return Err(value),
            };
            let before = cpu.compare_exchange(self.owner, value, new).await;
            if before == value {
                return if new & !FLAGS == me { Ok(()) } else { Err(new) };
            }
            value = before;
        }
    }

    /// `mutex_optimistic_spin` of a task that has not slept yet.
    async fn spin_in_queue(&self, cpu: &Cpu) -> bool {
        let owner = cpu.read(self.owner).await;
        if !self.owner_runs(cpu, owner) {
            return false;
        }
        let node = self.osq.lock(cpu).await;
        let got = self.spin(cpu).await;
        self.osq.unlock(cpu, node).await;
        got
    }

    /// Spins until it has the mutex, or until the owner does not run. Returns whether it has.
    async fn spin(&self, cpu: &Cpu) -> bool {
        loop {
            match self.trylock_common(cpu, false).await {
                Ok(()) => return true,
                Err(owner) if !self.spin_on_owner(cpu, owner).await => return false,
                Err(_) => {}
            }
        }
    }

    fn owner_runs(&self, cpu: &Cpu, value: u64) -> bool {
        let owner = value >> OWNER_SHIFT;
        owner == 0 || cpu.runs(owner as usize - 1)
    }

    /// Waits while the same owner runs. Returns false if the owner has gone to sleep.
    async fn spin_on_owner(&self, cpu: &Cpu, owner: u64) -> bool {
        while cpu.read(self.owner).await >> OWNER_SHIFT == owner >> OWNER_SHIFT {
            if !self.owner_runs(cpu, owner) {
                return false;
            }
            cpu.relax(ns(50)).await;
        }
        true
    }

    /// Sleeps in the list of waiters until it has the mutex.
    async fn wait(&self, cpu: &Cpu) {
        self.wait_lock.acquire(cpu).await;
        if self.try_acquire(cpu).await {
            self.wait_lock.release(cpu).await;
            return;
        }
        self.waiters.borrow_mut().push_back(cpu.id());
        if self.is_first(cpu) {
            cpu.fetch_or(self.owner, WAITERS).await;
        }
        while !self.try_acquire(cpu).await {
            self.wait_lock.release(cpu).await;
            cpu.sleep().await;
            // The first waiter requests the hand-off if it was woken and still came too late.
            let first = self.is_first(cpu);
            let got = self.trylock_common(cpu, first).await.is_ok() || first && self.spin(cpu).await;
            self.wait_lock.acquire(cpu).await;
            if got {
                break;
            }
        }
        let last = {
            let mut waiters = self.waiters.borrow_mut();
            waiters.retain(|&waiter| waiter != cpu.id());
            waiters.is_empty()
        };
        if last {
            cpu.fetch_and(self.owner, !(WAITERS | HANDOFF)).await;
        }
        self.wait_lock.release(cpu).await;
    }

    fn is_first(&self, cpu: &Cpu) -> bool {
        self.waiters.borrow().front() == Some(&cpu.id())
    }
}

impl TryLock for Mutex {
    /// `__mutex_trylock`.
    async fn try_acquire(&self, cpu: &Cpu) -> bool {
        self.trylock_common(cpu, false).await.is_ok()
    }
}

impl Lock for Mutex {
    fn id(&self) -> LockId {
        self.id
    }

    async fn acquire(&self, cpu: &Cpu) {
        let me = (cpu.id() as u64 + 1) << OWNER_SHIFT;
        if cpu.compare_exchange(self.owner, 0, me).await == 0 {
            return;
        }
        // With sleepers, a mutex without an owner is not zero. A newcomer can steal it.
        if self.try_acquire(cpu).await || self.spin_in_queue(cpu).await {
            return;
        }
        self.wait(cpu).await;
    }

    async fn release(&self, cpu: &Cpu) {
        let me = (cpu.id() as u64 + 1) << OWNER_SHIFT;
        let mut value = cpu.compare_exchange(self.owner, me, 0).await;
        if value == me {
            return;
        }
        while value & HANDOFF == 0 {
            let before = cpu.compare_exchange(self.owner, value, value & FLAGS).await;
            if before != value {
                value = before;
            } else if value & WAITERS != 0 {
                break;
            } else {
                return;
            }
        }
        self.wait_lock.acquire(cpu).await;
        let first = self.waiters.borrow().front().copied();
        if value & HANDOFF != 0 {
            // Only the waiter that requested the hand-off can acquire the mutex now.
            let next = first.map_or(0, |first| (first as u64 + 1) << OWNER_SHIFT);
            cpu.swap_bits(self.owner, !WAITERS, next).await;
        }
        self.wait_lock.release(cpu).await;
        if let Some(first) = first {
            cpu.wake(first);
        }
    }
}
