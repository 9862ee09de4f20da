use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::cpu::Cpu;
use crate::engine::{LockId, Word};
use crate::lock::{Lock, ReadLock};
use crate::locks::spinlock::Spinlock;
use crate::simulation::Simulation;
use crate::time::{Time, ms, us};

/// Readers count on a line of their own CPU's; a writer makes them look, waits for an RCU grace period, and then
/// until the sum of all their counts is zero. Who has to wait sleeps in a queue, and is given the lock by who wakes it.
///
/// Follows `percpu_down_write`, `percpu_up_write`, `percpu_rwsem_wait` and `percpu_rwsem_wake_function` in
/// `kernel/locking/percpu-rwsem.c`, and `kernel/rcu/sync.c`, of 6.12. The grace period is a time that
/// [`PercpuRwSem::with_grace_period`] sets, 10 ms unless it does; a writer soon after another has none to wait for,
/// as `rcu_sync` keeps readers looking for another grace period.
pub struct PercpuRwSem {
    id: LockId,
    /// Not zero while readers have to look at `block`.
    looking: Word,
    /// One while a writer holds it or waits for readers to leave.
    block: Word,
    counts: Vec<Word>,
    grace_period: Time,
    /// Since when a CPU's reader is between its look at `looking` and its count, if it is. A grace period waits
    /// for those who were there when it began, as they cannot be preempted there.
    entering: Vec<Cell<Time>>,
    /// When the last grace period that a writer asked for will be over.
    grace_ends: Cell<Time>,
    /// Until when readers keep looking after the last writer.
    looking_until: Cell<Time>,
    /// Who sleeps until `block` is zero, in the order in which they came. Guarded by waiters_lock.
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
            looking: sim.word_on(line),
            block: sim.word_on(line),
            counts,
            grace_period: ms(10),
            entering: vec![Cell::new(Time::NEVER); sim.cpus()],
            grace_ends: Cell::new(Time::ZERO),
            looking_until: Cell::new(Time::ZERO),
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

    /// Waits until every reader looks at `block`: also where another writer asked for that.
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

    /// `__percpu_down_read_trylock`, which counts on the CPU that executes it, be it for another.
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

    /// `percpu_rwsem_wait`: tries once more, and then sleeps until it is given the lock.
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

    /// Takes the lock for those who wait, and wakes them: readers until one writer, or until somebody else has it.
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
        if cpu.fetch_add(self.looking, 1).await == 0 && cpu.now() >= self.looking_until.get() {
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
        self.looking_until.set(cpu.now() + self.grace_period);
        cpu.fetch_add(self.looking, 1u64.wrapping_neg()).await;
    }
}

impl ReadLock for PercpuRwSem {
    async fn acquire_read(&self, cpu: &Cpu) {
        self.entering[cpu.id()].set(cpu.now());
        let looking = cpu.read(self.looking).await != 0 || cpu.now() < self.looking_until.get();
        if !looking {
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
        if cpu.read(self.looking).await != 0 {
            self.wake_writer(cpu);
        }
    }
}
