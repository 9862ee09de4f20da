use std::cell::{Cell, RefCell};

use crate::cpu::Cpu;
use crate::engine::{LockId, Simulation, Word};
use crate::locks::{Lock, ReadLock};
use crate::time::{Time, ms, us};

/// Readers count on a line of their own CPU's; a writer makes them look, waits for an RCU grace period, and then
/// until the sum of all their counts is zero.
///
/// Follows `kernel/locking/percpu-rwsem.c` and `kernel/rcu/sync.c` of 6.12. The grace period is a time that
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
    /// The CPUs that sleep: at `block`, and the writer that waits for readers.
    waiters: RefCell<Vec<usize>>,
    writer: Cell<Option<usize>>,
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

    /// Sleeps until somebody writes a zero to `block`.
    async fn wait_for_block(&self, cpu: &Cpu) {
        loop {
            self.waiters.borrow_mut().push(cpu.id());
            if cpu.read(self.block).await == 0 {
                self.waiters.borrow_mut().retain(|&waiter| waiter != cpu.id());
                return;
            }
            cpu.sleep().await;
        }
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
        while cpu.swap(self.block, 1).await != 0 {
            self.wait_for_block(cpu).await;
        }
        self.writer.set(Some(cpu.id()));
        while self.readers(cpu).await != 0 {
            cpu.sleep().await;
        }
        self.writer.set(None);
    }

    async fn release(&self, cpu: &Cpu) {
        cpu.write(self.block, 0).await;
        cpu.fence().await; // as the wait queue's lock is: who is not on it yet sees the zero
        for waiter in self.waiters.take() {
            cpu.wake(waiter);
        }
        self.looking_until.set(cpu.now() + self.grace_period);
        cpu.fetch_add(self.looking, 1u64.wrapping_neg()).await;
    }
}

impl ReadLock for PercpuRwSem {
    async fn acquire_read(&self, cpu: &Cpu) {
        let count = self.counts[cpu.id()];
        self.entering[cpu.id()].set(cpu.now());
        let looking = cpu.read(self.looking).await != 0 || cpu.now() < self.looking_until.get();
        cpu.fetch_add(count, 1).await;
        self.entering[cpu.id()].set(Time::NEVER);
        if !looking {
            return;
        }
        while cpu.read(self.block).await != 0 {
            cpu.fetch_add(count, 1u64.wrapping_neg()).await;
            self.wake_writer(cpu);
            self.wait_for_block(cpu).await;
            cpu.fetch_add(count, 1).await;
        }
    }

    async fn release_read(&self, cpu: &Cpu) {
        cpu.fetch_add(self.counts[cpu.id()], 1u64.wrapping_neg()).await;
        if cpu.read(self.looking).await != 0 {
            self.wake_writer(cpu);
        }
    }
}
