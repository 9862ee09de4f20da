use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::cpu::Cpu;
use crate::engine::{LockId, Word};
use crate::lock::{Lock, ReadLock};
use crate::locks::spinlock::Spinlock;
use crate::simulation::Simulation;
use crate::time::{Time, ms, us};

/// The kernel's percpu_rw_semaphore. A reader counts on a cache line of its CPU. A writer makes readers check for it,
/// waits for an RCU grace period, and then until the sum of all counts is zero. Waiters sleep in a queue. The task
/// that wakes a waiter acquires the lock for it.
///
/// Follows `percpu_down_write`, `percpu_up_write`, `percpu_rwsem_wait` and `percpu_rwsem_wake_function` in
/// `kernel/locking/percpu-rwsem.c`, and `kernel/rcu/sync.c`, of 6.12. [`PercpuRwSem::with_grace_period`]
/// sets the length of a grace period, which is 10 ms by default. A writer soon after another has none to wait for, as
/// `rcu_sync` makes readers check for another grace period.
pub struct PercpuRwSem {
    id: LockId,
    /// Not zero while readers must check `block`.
    checking: Word,
    /// 1 while a writer holds it or waits for readers to leave.
    block: Word,
    counts: Vec<Word>,
    grace_period: Time,
    /// The time since when a CPU's reader is between reading `checking` and counting itself, if it is. It cannot be
    /// preempted there, so a grace period waits for readers that were there when it began.
    entering: Vec<Cell<Time>>,
    /// The end of the last grace period that a writer requested.
    grace_ends: Cell<Time>,
    /// When readers stop checking after the last writer.
    checking_until: Cell<Time>,
    /// The tasks that sleep until `block` is zero, in the order in which they came. Protected by waiters_lock.
    waiters: RefCell<VecDeque<Rc<Waiter>>>,
    waiters_lock: Spinlock,
    /// The writer that waits for readers to leave.
    writer: Cell<Option<usize>>,
}

struct Waiter {
    cpu: usize,
    writes: bool,
    granted: Cell<bool>,
}

impl PercpuRwSem {
    /// A free lock in a node's memory.
    pub fn new(sim: &mut Simulation, name: &str, node: usize) -> PercpuRwSem {
        let machine = sim.machine();
        let counts = (0..sim.cpus()).map(|cpu| sim.word(name, machine.node_of(cpu))).collect();
        let line = sim.line(name, node);
        PercpuRwSem {
            id: sim.lock_id(name),
            checking: sim.word_on(line),
            block: sim.word_on(line),
            counts,
            grace_period: ms(10),
            entering: vec![Cell::new(Time::NEVER); sim.cpus()],
            grace_ends: Cell::new(Time::ZERO),
            checking_until: Cell::new(Time::ZERO),
            waiters: RefCell::default(),
            waiters_lock: Spinlock::on(sim, name, line),
            writer: Cell::new(None),
        }
    }

    /// The same lock with another length of grace periods.
    pub fn with_grace_period(mut self, grace_period: Time) -> PercpuRwSem {
        self.grace_period = grace_period;
        self
    }

    /// Waits until every reader checks `block`. Another writer may have requested that.
    async fn wait_for_grace_period(&self, cpu: &Cpu) {
        let began = cpu.now();
        while cpu.now() < self.grace_ends.get() {
            cpu.sleep_until(self.grace_ends.get()).await;
        }
        while self.entering.iter().any(|since| since.get() <= began) {
            cpu.sleep_until(cpu.now() + us(1)).await;
        }
    }

    /// `__percpu_down_write_trylock`.
    async fn try_write(&self, cpu: &Cpu) -> bool {
        cpu.read(self.block).await == 0 && cpu.swap(self.block, 1).await == 0
    }

    /// `__percpu_down_read_trylock`. It counts on the CPU that executes it, even on behalf of another.
    async fn try_read(&self, cpu: &Cpu) -> bool {
        let count = self.counts[cpu.id()];
        cpu.fetch_add(count, 1).await;
        if cpu.read(self.block).await == 0 {
            return true;
        }
        cpu.fetch_add(count, 1u64.wrapping_neg()).await;
        self.wake_writer(cpu);
        false
    }

    async fn try_for(&self, cpu: &Cpu, writes: bool) -> bool {
        if writes { self.try_write(cpu).await } else { self.try_read(cpu).await }
    }

    /// `percpu_rwsem_wait`: tries once more, then sleeps until the lock is granted.
    async fn wait(&self, cpu: &Cpu, writes: bool) {
        self.waiters_lock.acquire(cpu).await;
        if self.try_for(cpu, writes).await {
            return self.waiters_lock.release(cpu).await;
        }
        let waiter = Rc::new(Waiter { cpu: cpu.id(), writes, granted: Cell::new(false) });
        self.waiters.borrow_mut().push_back(Rc::clone(&waiter));
        self.waiters_lock.release(cpu).await;
        while !waiter.granted.get() {
            cpu.sleep().await;
        }
    }

    /// Acquires the lock for waiters, and wakes them: readers up to one writer, or until acquiring it fails.
    async fn wake_waiters(&self, cpu: &Cpu) {
        self.waiters_lock.acquire(cpu).await;
        loop {
            let first = self.waiters.borrow().front().cloned();
            let Some(first) = first else { break };
            if !self.try_for(cpu, first.writes).await {
                break;
            }
            self.waiters.borrow_mut().pop_front();
            first.granted.set(true);
            cpu.wake(first.cpu);
            if first.writes {
                break;
            }
        }
        self.waiters_lock.release(cpu).await;
    }

    fn wake_writer(&self, cpu: &Cpu) {
        if let Some(writer) = self.writer.get() {
            cpu.wake(writer);
        }
    }

    async fn readers(&self, cpu: &Cpu) -> u64 {
        let mut sum = 0u64;
        for &count in &self.counts {
            sum = sum.wrapping_add(cpu.read(count).await);
        }
        sum
    }
}

impl Lock for PercpuRwSem {
    fn id(&self) -> LockId {
        self.id
    }

    async fn acquire(&self, cpu: &Cpu) {
        if cpu.fetch_add(self.checking, 1).await == 0 && cpu.now() >= self.checking_until.get() {
            self.grace_ends.set(cpu.now() + self.grace_period);
        }
        self.wait_for_grace_period(cpu).await;
        if !self.try_write(cpu).await {
            self.wait(cpu, true).await;
        }
        self.writer.set(Some(cpu.id()));
        while self.readers(cpu).await != 0 {
            cpu.sleep().await;
        }
        self.writer.set(None);
    }

    async fn release(&self, cpu: &Cpu) {
        cpu.write(self.block, 0).await;
        self.wake_waiters(cpu).await;
        self.checking_until.set(cpu.now() + self.grace_period);
        cpu.fetch_add(self.checking, 1u64.wrapping_neg()).await;
    }
}

impl ReadLock for PercpuRwSem {
    async fn acquire_read(&self, cpu: &Cpu) {
        self.entering[cpu.id()].set(cpu.now());
        let checking = cpu.read(self.checking).await != 0 || cpu.now() < self.checking_until.get();
        if !checking {
            cpu.fetch_add(self.counts[cpu.id()], 1).await;
            self.entering[cpu.id()].set(Time::NEVER);
            return;
        }
        self.entering[cpu.id()].set(Time::NEVER);
        if !self.try_read(cpu).await {
            self.wait(cpu, false).await;
        }
    }

    async fn release_read(&self, cpu: &Cpu) {
        cpu.fetch_add(self.counts[cpu.id()], 1u64.wrapping_neg()).await;
        if cpu.read(self.checking).await != 0 {
            self.wake_writer(cpu);
        }
    }
}
