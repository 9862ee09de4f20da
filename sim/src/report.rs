//! Where time went.

use std::ops::AddAssign;

use crate::time::Time;
use crate::trace::Trace;

/// What the time of a CPU was spent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// In user mode.
    pub user: Time,
    /// Executing in the kernel, including accesses to its own cache.
    pub work: Time,
    /// Waiting for a cache line that was serving other CPUs.
    pub queueing: Time,
    /// Waiting for a cache line that was being transferred.
    pub transfer: Time,
    /// Spinning on its own copy of a cache line until another CPU writes it.
    pub spinning: Time,
    /// Nothing to do.
    pub idle: Time,
}

impl Spent {
    /// In the kernel, working or waiting.
    pub fn kernel(&self) -> Time {
        self.work + self.queueing + self.transfer + self.spinning
    }
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Spent) {
        self.user += other.user;
        self.work += other.work;
        self.queueing += other.queueing;
        self.transfer += other.transfer;
        self.spinning += other.spinning;
        self.idle += other.idle;
    }
}

/// The cache lines of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineReport {
    pub name: String,
    pub accesses: u64,
    /// Accesses that brought the line from another cache or from memory.
    pub transfers: u64,
    /// How long CPUs waited in total before the transfer to them began.
    pub waiting: Time,
    /// How long transfers took in total.
    pub transferring: Time,
}

/// The locks of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockReport {
    pub name: String,
    pub acquired: u64,
    /// The total time from trying to acquire the lock to holding it. Transfers of its cache lines are part of it.
    pub waiting: Time,
    /// How long it was held; of a lock that readers share, by writers.
    pub holding: Time,
}

/// The result of a run.
pub struct Report {
    /// How long the reported part of the run was, in virtual time.
    pub elapsed: Time,
    /// Events in that time.
    pub events: u64,
    /// Operations of all CPUs.
    pub operations: u64,
    pub cpus: Vec<Spent>,
    /// How much time each CPU spent in its interrupt handler, and how many interrupts it handled.
    pub interrupts: Vec<(Time, u64)>,
    /// Operations of each CPU.
    pub operations_of: Vec<u64>,
    pub lines: Vec<LineReport>,
    pub locks: Vec<LockReport>,
    /// The counters that the design defines.
    pub counters: Vec<(String, u64)>,
    pub timeline: Option<Trace>,
}

impl Report {
    /// Operations per second of virtual time.
    pub fn throughput(&self) -> f64 {
        if self.elapsed == Time::ZERO { 0.0 } else { self.operations as f64 / self.elapsed.as_s() }
    }

    /// What the time of all CPUs was spent on.
    pub fn total(&self) -> Spent {
        let mut total = Spent::default();
        for &cpu in &self.cpus {
            total += cpu;
        }
        total
    }

    /// A counter of the design; zero if there is none of that name.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.iter().find(|(known, _)| known == name).map_or(0, |(_, count)| *count)
    }
}
