//! What every design of RCU has: readers, callbacks, a tick, and updates.
//!
//! Two invariants are checked while a design runs:
//! - A callback is invoked only after every reader that began before it was queued has ended.
//! - Callbacks of a CPU are invoked in the order in which they were queued, each once. None waits for ever.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use crate::cpu::Cpu;
use crate::designs::design::{Figure, InputError, Values};
use crate::engine::Counter;
use crate::report::Report;
use crate::simulation::Simulation;
use crate::time::{Time, ms};

/// Parameters of several designs.
pub mod parameter {
    use crate::designs::design::Parameter;

    pub const HZ: Parameter = Parameter { name: "hz", default: "1000", meaning: "ticks a second" };
    pub const TICK: Parameter =
        Parameter { name: "tick", default: "1850", meaning: "ns that a tick takes without RCU" };
    pub const LEVELS: Parameter = Parameter { name: "levels", default: "2", meaning: "levels of RCU's tree" };
    pub const LEAF: Parameter = Parameter { name: "leaf", default: "16", meaning: "CPUs in a leaf of it" };
    pub const READ: Parameter =
        Parameter { name: "read", default: "2000", meaning: "ns in a read-side critical section" };
    pub const READS: Parameter = Parameter {
        name: "reads",
        default: "0",
        meaning: "ns between critical sections, mean; 0: updates only",
    };
    pub const CALLBACK: Parameter =
        Parameter { name: "callback", default: "500", meaning: "ns to invoke a callback" };
    pub const BLIMIT: Parameter = Parameter {
        name: "blimit",
        default: "10",
        meaning: "callbacks invoked at a time, until there are 10,000",
    };
    pub const BUG: Parameter = Parameter {
        name: "bug",
        default: "none",
        meaning: "to seed: none, early (a reader is ignored), lost",
    };
}

/// The tag of the tick's timer.
pub const TICK: u64 = 0;

/// A callback that waits for longer fails the run. The kernel would print its CPU stall warning
/// (`CONFIG_RCU_CPU_STALL_TIMEOUT`).
pub const STALL: Time = Time::of_ps(21_000_000_000_000);

/// A seeded bug, to test the checks, like the `busted` RCU of rcutorture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    None,
    /// A CPU reports a quiescent state during a read-side critical section.
    Early,
    /// Waiting callbacks are lost when newer ones are registered.
    Lost,
}

impl Bug {
    /// The value of the parameter `bug`.
    pub fn of(values: &Values) -> Result<Bug, InputError> {
        Ok(match values.choice("bug", &["none", "early", "lost"])? {
            "early" => Bug::Early,
            "lost" => Bug::Lost,
            _ => Bug::None,
        })
    }
}

/// The read-side critical sections, and when they began. They cost nothing, like `rcu_read_lock` without preemption.
pub struct Readers {
    since: Vec<Cell<Option<Time>>>,
}

impl Readers {
    pub fn new(cpus: usize) -> Readers {
        Readers { since: (0..cpus).map(|_| Cell::new(None)).collect() }
    }

    /// Begins a critical section: `rcu_read_lock`.
    pub fn lock(&self, cpu: &Cpu) {
        self.since[cpu.id()].set(Some(cpu.now()));
    }

    /// Ends it: `rcu_read_unlock`.
    pub fn unlock(&self, cpu: &Cpu) {
        self.since[cpu.id()].set(None);
    }

    /// Whether the CPU is in a critical section. If not, a tick is a quiescent state.
    pub fn reads(&self, cpu: &Cpu) -> bool {
        self.since[cpu.id()].get().is_some()
    }

    /// Checks that no reader has been reading since before `time`.
    pub fn check_none_from_before(&self, cpu: &Cpu, time: Time) {
        let reader = self.since.iter().position(|since| since.get().is_some_and(|since| since < time));
        cpu.check(reader.is_none(), || {
            let reader = reader.unwrap_or_default();
            format!("a grace period has ended that began at {time}, and CPU {reader} has been reading since before")
        });
    }
}

/// A callback, which is invoked after a grace period.
pub struct Callback<T> {
    pub what: T,
    pub queued: Time,
    number: u64,
}

/// The callbacks of a CPU, oldest first: those whose grace period is over, those assigned to a grace period, and
/// those not yet assigned.
///
/// Follows `struct rcu_segcblist` (`include/linux/rcu_segcblist.h`) and its ancestors: `curlist` and `nxtlist` of
/// 2.6.5, `nxttail[]` from 2.6.29 on.
pub struct Callbacks<T> {
    done: RefCell<VecDeque<Callback<T>>>,
    waiting: RefCell<VecDeque<(u64, Vec<Callback<T>>)>>,
    next: RefCell<Vec<Callback<T>>>,
    queued: Cell<u64>,
    invoked: Cell<u64>,
    bug: Bug,
}

impl<T> Callbacks<T> {
    pub fn new(bug: Bug) -> Callbacks<T> {
        Callbacks {
            done: RefCell::default(),
            waiting: RefCell::default(),
            next: RefCell::default(),
            queued: Cell::new(0),
            invoked: Cell::new(0),
            bug,
        }
    }

    /// `call_rcu`.
    pub fn queue(&self, now: Time, what: T) {
        self.queued.set(self.queued.get() + 1);
        self.next.borrow_mut().push(Callback { what, queued: now, number: self.queued.get() });
    }

    /// The number of callbacks that have not been invoked.
    pub fn outstanding(&self) -> u64 {
        self.queued.get() - self.invoked.get()
    }

    /// Whether some are not yet assigned to a grace period.
    pub fn has_next(&self) -> bool {
        !self.next.borrow().is_empty()
    }

    /// Whether some are assigned to a grace period that is not over.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.borrow().is_empty()
    }

    /// Whether some can be invoked.
    pub fn has_done(&self) -> bool {
        !self.done.borrow().is_empty()
    }

    /// The grace period that the oldest are assigned to.
    pub fn first_wanted(&self) -> Option<u64> {
        self.waiting.borrow().front().map(|(grace_period, _)| *grace_period)
    }

    /// Assigns those not yet assigned to a grace period, which has not begun.
    pub fn register(&self, grace_period: u64) {
        let mut waiting = self.waiting.borrow_mut();
        let mut next = std::mem::take(&mut *self.next.borrow_mut());
        match waiting.back_mut() {
            Some((wanted, callbacks)) if *wanted == grace_period => callbacks.append(&mut next),
            _ => {
                if self.bug == Bug::Lost {
                    waiting.clear();
                }
                waiting.push_back((grace_period, next));
            }
        }
    }

    /// Called when all grace periods up to this one are over.
    pub fn complete(&self, grace_period: u64) {
        let mut waiting = self.waiting.borrow_mut();
        while waiting.front().is_some_and(|(wanted, _)| *wanted <= grace_period) {
            let (_, callbacks) = waiting.pop_front().expect("just seen");
            self.done.borrow_mut().extend(callbacks);
        }
    }

    /// Takes up to `limit` callbacks to invoke: `rcu_do_batch`.
    pub fn take(&self, cpu: &Cpu, readers: &Readers, limit: usize) -> Vec<Callback<T>> {
        let mut done = self.done.borrow_mut();
        let count = limit.min(done.len());
        let batch: Vec<Callback<T>> = done.drain(..count).collect();
        if let Some(last) = batch.last() {
            readers.check_none_from_before(cpu, last.queued);
        }
        for callback in &batch {
            let expected = self.invoked.get() + 1;
            cpu.check(callback.number == expected, || {
                format!("callback {expected} of this CPU is lost: {} is invoked next", callback.number)
            });
            self.invoked.set(callback.number);
        }
        batch
    }

    /// Checks that none waits for ever.
    pub fn check_no_stall(&self, cpu: &Cpu) {
        let oldest =
            self.waiting.borrow().front().and_then(|(_, callbacks)| callbacks.first().map(|c| c.queued));
        let oldest = oldest.or_else(|| self.next.borrow().first().map(|callback| callback.queued));
        cpu.check(oldest.is_none_or(|queued| cpu.now().since(queued) < STALL), || {
            format!("a callback has waited for longer than {STALL}")
        });
        let somewhere = self.done.borrow().len()
            + self.next.borrow().len()
            + self.waiting.borrow().iter().map(|(_, callbacks)| callbacks.len()).sum::<usize>();
        cpu.check(somewhere as u64 == self.outstanding(), || {
            format!("{} callbacks were queued and not invoked, and {somewhere} are there", self.outstanding())
        });
    }
}

/// The ticks of all CPUs.
pub struct Tick {
    period: Time,
    phases: Vec<Cell<Option<Time>>>,
    /// The time of the tick without RCU.
    pub cost: Time,
}

impl Tick {
    /// From the parameters `hz` and `tick`.
    pub fn of(values: &Values, cpus: usize) -> Result<Tick, InputError> {
        let hz = values.count("hz")?;
        if hz == 0 || hz > 100_000 {
            return Err(InputError(format!("hz={hz}: use 1 to 100000 ticks a second")));
        }
        let phases = (0..cpus).map(|_| Cell::new(None)).collect();
        Ok(Tick { period: ms(1000) / hz, phases, cost: values.time("tick")? })
    }

    /// The number of ticks so far: `jiffies`.
    pub fn jiffies(&self, now: Time) -> u64 {
        now.ps() / self.period.ps()
    }

    /// Sets the timer for the next tick. A CPU's ticks depend on when it booted, as the first is set relative to that
    /// (`ia64_cpu_local_tick`, arch/ia64/kernel/time.c): their phase is random. Missed ticks are not made up for.
    pub fn arm(&self, cpu: &Cpu) {
        let phase = &self.phases[cpu.id()];
        let offset = phase.get().unwrap_or_else(|| Time::of_ps(cpu.below(self.period.ps())));
        phase.set(Some(offset));
        let next = cpu.now().since(offset).ps() / self.period.ps() + u64::from(cpu.now() >= offset);
        cpu.set_timer(self.period * next + offset, TICK);
    }
}

/// Updates: some CPUs update in a loop, the others now and then.
#[derive(Clone)]
pub struct Load {
    pub updaters: usize,
    interval: Time,
    background: Time,
    read: Time,
    reads: Time,
}

/// Longer than any run.
const EVER: Time = Time::of_ps(1_000_000_000_000_000_000);

impl Load {
    /// From the parameters `updaters`, `interval`, `background`, `read` and `reads`.
    pub fn of(values: &Values, cpus: usize) -> Result<Load, InputError> {
        let updaters = values.count("updaters")? as usize;
        if updaters > cpus {
            return Err(InputError(format!("updaters={updaters}: there are {cpus} CPUs")));
        }
        let every = |name| -> Result<Time, InputError> {
            let time = values.time(name)?;
            Ok(if time == Time::ZERO { EVER } else { time })
        };
        Ok(Load {
            updaters,
            interval: every("interval")?,
            background: every("background")?,
            read: values.time("read")?,
            reads: every("reads")?,
        })
    }

    /// Whether a CPU updates in a loop.
    pub fn updates(&self, cpu: usize) -> bool {
        cpu < self.updaters
    }

    /// Runs in user mode, with read-side critical sections, until this CPU's next update.
    pub async fn until_next_update(&self, cpu: &Cpu, readers: &Readers) {
        let mean = if self.updates(cpu.id()) { self.interval } else { self.background };
        let update = if mean == EVER { EVER } else { cpu.now() + cpu.exponential(mean) };
        loop {
            let think = if self.reads == EVER { EVER } else { cpu.exponential(self.reads) };
            let left = update.since(cpu.now());
            cpu.user(think.min(left)).await;
            if think >= left {
                return;
            }
            self.read(cpu, readers).await;
        }
    }

    /// One read-side critical section.
    pub async fn read(&self, cpu: &Cpu, readers: &Readers) {
        if self.read > Time::ZERO {
            readers.lock(cpu);
            cpu.work(self.read).await;
            readers.unlock(cpu);
        }
    }
}

/// Counters of grace periods and callbacks.
#[derive(Clone, Copy)]
pub struct Counts {
    grace_periods: Counter,
    grace_period_ns: Counter,
    callbacks: Counter,
    callback_ns: Counter,
}

impl Counts {
    pub fn new(sim: &mut Simulation) -> Counts {
        Counts {
            grace_periods: sim.counter("grace periods"),
            grace_period_ns: sim.counter("grace periods, ns"),
            callbacks: sim.counter("callbacks"),
            callback_ns: sim.counter("callbacks waited, ns"),
        }
    }

    /// Counts a grace period that began at `start` and is over.
    pub fn grace_period(&self, cpu: &Cpu, start: Time) {
        cpu.count(self.grace_periods, 1);
        cpu.count(self.grace_period_ns, (cpu.now() - start).as_ns() as u64);
    }

    /// Counts a callback that is invoked.
    pub fn callback(&self, cpu: &Cpu, queued: Time) {
        cpu.count(self.callbacks, 1);
        cpu.count(self.callback_ns, (cpu.now() - queued).as_ns() as u64);
    }
}

/// The durations, and the share of time that interrupts took from CPUs that do not update.
pub fn figures(report: &Report, values: &Values) -> Vec<Figure> {
    let updaters = values.count("updaters").unwrap_or(0) as usize;
    let lost = report.interrupts.iter().skip(updaters).map(|(time, _)| time.share_of(report.elapsed));
    let others = report.cpus.len().saturating_sub(updaters);
    let mut figures =
        vec![Figure { name: "lost", value: 100.0 * ratio(lost.sum(), others as f64), unit: "%" }];
    figures.extend(grace_periods(report));
    figures
}

/// The durations of grace periods and callbacks, and the use of the lock that all CPUs can take.
pub fn grace_periods(report: &Report) -> Vec<Figure> {
    let grace_periods = report.counter("grace periods");
    let mut figures = vec![
        Figure {
            name: "grace periods",
            value: ratio(grace_periods as f64, report.elapsed.as_s()),
            unit: "1/s",
        },
        Figure { name: "grace period", value: mean_ms(report, "grace periods"), unit: "ms" },
        Figure { name: "callback", value: mean_ms(report, "callbacks"), unit: "ms" },
    ];
    figures.extend(report.locks.iter().filter(|lock| lock.name == GLOBAL_LOCK).flat_map(|lock| {
        let each = ratio(lock.acquired as f64, grace_periods as f64);
        let waiting = ratio(lock.waiting.as_ns(), lock.acquired as f64);
        [
            Figure { name: "global lock", value: each, unit: "times/grace period" },
            Figure { name: "waiting for it", value: waiting, unit: "ns" },
        ]
    }));
    figures
}

/// The name of the lock that all CPUs can take, in every design.
pub const GLOBAL_LOCK: &str = "global lock";

fn mean_ms(report: &Report, what: &str) -> f64 {
    let waited = if what == "callbacks" { "callbacks waited, ns" } else { "grace periods, ns" };
    ratio(report.counter(waited) as f64, report.counter(what) as f64) / 1e6
}

fn ratio(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { a / b }
}

/// What every design of RCU needs.
pub struct Common {
    pub readers: Readers,
    pub counts: Counts,
    pub tick: Tick,
    /// The time of a callback.
    pub callback: Time,
    pub bug: Bug,
}

impl Common {
    pub fn of(sim: &mut Simulation, values: &Values, bug: Bug) -> Result<Common, InputError> {
        let cpus = sim.cpus();
        Ok(Common {
            readers: Readers::new(cpus),
            counts: Counts::new(sim),
            tick: Tick::of(values, cpus)?,
            callback: values.time("callback")?,
            bug,
        })
    }

    /// Invokes callbacks.
    pub async fn invoke<T>(&self, cpu: &Cpu, batch: Vec<Callback<T>>, mut each: impl FnMut(T)) {
        for callback in batch {
            cpu.work(self.callback).await;
            self.counts.callback(cpu, callback.queued);
            each(callback.what);
        }
    }
}
