//! Where time went.

use std::ops::AddAssign;

use crate::engine::State;
use crate::time::Time;
use crate::trace::Trace;

/// What a CPU's time was spent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// In user mode.
    pub user: Time,
    /// Executing in the kernel, accesses to its own cache among it.
    pub work: Time,
    /// Waiting for a line that was busy with others.
    pub queueing: Time,
    /// Waiting for a line that was on its way.
    pub transfer: Time,
    /// Spinning on its own copy of a line, until another CPU writes it.
    pub spinning: Time,
    /// Nothing to do.
    pub idle: Time,
}

impl Spent {
    /// In the kernel, doing or waiting.
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

/// The lines of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineReport {
    pub name: String,
    pub accesses: u64,
    /// Accesses for which the line had to come from elsewhere.
    pub transfers: u64,
    /// How long CPUs waited in all until the line was theirs to get.
    pub waiting: Time,
    /// How long it was on its way.
    pub transferring: Time,
}

/// The locks of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockReport {
    pub name: String,
    pub acquired: u64,
    /// From asking for it to having it, in all; what its own lines take is part of it.
    pub waiting: Time,
    /// How long it was held (by writers, where readers share it).
    pub holding: Time,
}

/// A run's result.
pub struct Report {
    /// How long the run counted, in virtual time.
    pub elapsed: Time,
    /// Events in that time.
    pub events: u64,
    /// Operations done, of all CPUs.
    pub operations: u64,
    pub cpus: Vec<Spent>,
    /// How much of each CPU's time was in its interrupt handler, and how many interrupts it took.
    pub interrupts: Vec<(Time, u64)>,
    /// Operations done by each CPU.
    pub operations_of: Vec<u64>,
    pub lines: Vec<LineReport>,
    pub locks: Vec<LockReport>,
    /// The design's own counters.
    pub counters: Vec<(String, u64)>,
    pub timeline: Option<Trace>,
}

impl Report {
    pub(crate) fn new(state: &State, elapsed: Time, events: u64, timeline: Option<Trace>) -> Report {
        Report {
            elapsed,
            events,
            operations: state.operations.iter().sum(),
            cpus: state.cpus.iter().map(|cpu| cpu.spent).collect(),
            interrupts: state.interrupts.iter().map(|of| (of.time, of.taken)).collect(),
            operations_of: state.operations.clone(),
            lines: lines(state),
            locks: locks(state),
            counters: state.counters.clone(),
            timeline,
        }
    }

    /// Operations a second of virtual time.
    pub fn throughput(&self) -> f64 {
        if self.elapsed == Time::ZERO { 0.0 } else { self.operations as f64 / self.elapsed.as_s() }
    }

    /// What the time of all CPUs together was spent on.
    pub fn total(&self) -> Spent {
        let mut total = Spent::default();
        for &cpu in &self.cpus {
            total += cpu;
        }
        total
    }

    /// A counter of the design's own; zero if there is none of that name.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.iter().find(|(known, _)| known == name).map_or(0, |(_, count)| *count)
    }
}

fn lines(state: &State) -> Vec<LineReport> {
    let mut reports: Vec<Option<LineReport>> = vec![None; state.names.len()];
    for line in &state.lines {
        let report = reports[line.name as usize].get_or_insert_with(|| LineReport {
            name: state.names[line.name as usize].clone(),
            accesses: 0,
            transfers: 0,
            waiting: Time::ZERO,
            transferring: Time::ZERO,
        });
        report.accesses += line.traffic.accesses;
        report.transfers += line.traffic.transfers;
        report.waiting += line.traffic.waiting;
        report.transferring += line.traffic.transferring;
    }
    reports.into_iter().flatten().collect()
}

fn locks(state: &State) -> Vec<LockReport> {
    let mut reports: Vec<Option<LockReport>> = vec![None; state.names.len()];
    for lock in &state.locks {
        let report = reports[lock.name as usize].get_or_insert_with(|| LockReport {
            name: state.names[lock.name as usize].clone(),
            acquired: 0,
            waiting: Time::ZERO,
            holding: Time::ZERO,
        });
        report.acquired += lock.traffic.acquired;
        report.waiting += lock.traffic.waiting;
        report.holding += lock.traffic.holding;
    }
    reports.into_iter().flatten().collect()
}
