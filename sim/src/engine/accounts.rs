//! Where time goes: by CPU, by cache line and by lock.

use crate::engine::context::{Context, Doing, Mode};
use crate::engine::ids::ContextId;
use crate::engine::state::{LockTraffic, State};
use crate::line::{NO_ID, Traffic};
use crate::report::{LineReport, LockReport, Report, Spent};
use crate::time::Time;
use crate::trace::{Span, Trace};

impl State {
    /// Adds the time since the start of a context's operation to what it was spent on.
    #[inline]
    pub(super) fn account(&mut self, id: ContextId) {
        let now = self.now;
        let Context { doing, start, begin, done, .. } = self.contexts[id.0 as usize];
        let elapsed = now - start;
        let spent = &mut self.cpus[id.cpu()].spent;
        match doing {
            Doing::Work(Mode::User) => spent.user += elapsed,
            Doing::Work(Mode::Kernel) => spent.work += elapsed,
            Doing::Work(Mode::Spin) | Doing::Watch => spent.spinning += elapsed,
            Doing::Access(_) => {
                let served = begin.max(start).min(now);
                spent.queueing += served - start;
                if done - begin <= self.machine.hit {
                    spent.work += now - served;
                } else {
                    spent.transfer += now - served;
                }
            }
            Doing::Drain(_) | Doing::Store(_) => spent.transfer += elapsed,
            Doing::Sleep | Doing::Idle => spent.idle += elapsed,
            Doing::Nothing if !id.is_handler() => spent.idle += elapsed,
            _ => {}
        }
        if id.is_handler() {
            self.interrupts[id.cpu()].time += elapsed;
        }
        if self.trace.is_some() {
            self.trace_span(id);
        }
    }

    #[cold]
    fn trace_span(&mut self, id: ContextId) {
        let Context { doing, start, begin, word, .. } = self.contexts[id.0 as usize];
        let now = self.now;
        let what = match doing {
            Doing::Work(Mode::User) => "user",
            Doing::Work(Mode::Kernel) => "work",
            Doing::Work(Mode::Spin) | Doing::Watch => "spin",
            Doing::Access(_) => "transfer",
            Doing::Drain(_) | Doing::Store(_) => "stores",
            Doing::Sleep | Doing::Idle | Doing::Nothing => "idle",
            _ => return,
        };
        let line = match doing {
            Doing::Access(_) | Doing::Watch => {
                let line = &self.lines[self.words[word as usize].line as usize];
                self.names[line.name as usize].clone()
            }
            _ => String::new(),
        };
        let (cpu, interrupt) = (id.cpu(), id.is_handler());
        let Some(trace) = &mut self.trace else { return };
        let begin = if what == "transfer" { begin.max(start).min(now) } else { start };
        if begin > start {
            trace.add(Span { cpu, what: "queue", line: line.clone(), start, end: begin, interrupt });
        }
        trace.add(Span { cpu, what, line, start: begin, end: now, interrupt });
    }

    /// Begins the part of the run that is reported: all counts restart from zero.
    pub fn open_window(&mut self) {
        self.close_window();
        for cpu in 0..self.cpus.len() {
            self.cpus[cpu].spent = Spent::default();
            self.interrupts[cpu].time = Time::ZERO;
            self.interrupts[cpu].taken = 0;
        }
        self.operations.fill(0);
        for line in &mut self.lines {
            line.traffic = Traffic::default();
        }
        for lock in &mut self.locks {
            lock.traffic = LockTraffic::default();
        }
        for (_, count) in &mut self.counters {
            *count = 0;
        }
    }

    /// Ends that part: accounts for all operations that have not ended.
    pub fn close_window(&mut self) {
        for cpu in 0..self.cpus.len() {
            let id = self.running(cpu);
            self.account(id);
            self.contexts[id.0 as usize].start = self.now;
        }
        for lock in &mut self.locks {
            if lock.holder != NO_ID {
                lock.traffic.holding += self.now - lock.since;
                lock.since = self.now;
            }
        }
    }

    pub fn report(&self, elapsed: Time, events: u64, timeline: Option<Trace>) -> Report {
        Report {
            elapsed,
            events,
            operations: self.operations.iter().sum(),
            cpus: self.cpus.iter().map(|cpu| cpu.spent).collect(),
            interrupts: self.interrupts.iter().map(|of| (of.time, of.taken)).collect(),
            operations_of: self.operations.clone(),
            lines: self.line_reports(),
            locks: self.lock_reports(),
            counters: self.counters.clone(),
            timeline,
        }
    }

    fn line_reports(&self) -> Vec<LineReport> {
        let mut reports: Vec<Option<LineReport>> = vec![None; self.names.len()];
        for line in &self.lines {
            let report = reports[line.name as usize].get_or_insert_with(|| LineReport {
                name: self.names[line.name as usize].clone(),
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

    fn lock_reports(&self) -> Vec<LockReport> {
        let mut reports: Vec<Option<LockReport>> = vec![None; self.names.len()];
        for lock in &self.locks {
            let report = reports[lock.name as usize].get_or_insert_with(|| LockReport {
                name: self.names[lock.name as usize].clone(),
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
}
