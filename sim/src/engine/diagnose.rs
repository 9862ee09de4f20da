//! Why a run cannot go on: which CPU waits for what.

use crate::engine::context::Doing;
use crate::engine::ids::{ContextId, LockId};
use crate::engine::state::State;
use crate::failure::Failure;
use crate::line::NO_ID;
use crate::time::Time;

/// How many waiting CPUs a failure lists.
const SHOWN: usize = 4;

impl State {
    /// Whether the chain of holders and waiters of locks leads from a context back to itself. A wait for a program is
    /// a wait for the handler that interrupts it, too.
    pub(super) fn is_deadlocked(&self, id: ContextId) -> bool {
        let mut at = id;
        for _ in 0..self.contexts.len() {
            let wants = |id: ContextId| self.contexts[id.0 as usize].wants;
            let handler = wants(ContextId::handler(at.cpu()));
            let lock = if at.is_handler() || handler != NO_ID { handler } else { wants(at) };
            if lock == NO_ID || self.locks[lock as usize].holder == NO_ID {
                return false;
            }
            at = ContextId(self.locks[lock as usize].holder);
            if at == id || id.is_handler() && at.cpu() == id.cpu() {
                return true;
            }
        }
        false
    }

    /// Why there is no event left before `end`: `None` if every program has ended or idles, or if only work remains
    /// that lasts longer than the part of the run that ends there.
    pub fn stuck(&self, end: Time) -> Option<Failure> {
        let mut programs = self.contexts.iter().step_by(2);
        if programs.all(|program| matches!(program.doing, Doing::Nothing | Doing::Idle)) {
            return None;
        }
        if !self.contexts.iter().any(|context| matches!(context.doing, Doing::Work(_))) {
            return Some(self.deadlock());
        }
        let endless = || format!("at {}: a program works for longer than the simulator has time", self.now);
        (end == Time::NEVER).then(|| Failure::Livelock(endless()))
    }

    pub(super) fn deadlock(&self) -> Failure {
        Failure::Deadlock(format!("at {}: {}", self.now, self.waits()))
    }

    pub fn livelock(&self, event_budget: u64) -> Failure {
        let waits = self.waits();
        let waits = if waits.is_empty() { "no CPU waits for anything".into() } else { waits };
        Failure::Livelock(format!("at {}: {event_budget} events, and no end: {waits}", self.now))
    }

    pub(super) fn two_holders(&self, lock: LockId, cpu: usize, holder: u32) -> Failure {
        let name = self.lock_name(lock.0);
        let other = if holder == NO_ID {
            "readers hold".into()
        } else {
            format!("CPU {} holds", ContextId(holder).cpu())
        };
        Failure::Broken(format!("at {}, CPU {cpu} takes lock {name}, which {other}", self.now))
    }

    pub(super) fn not_held(&self, lock: LockId, cpu: usize) -> Failure {
        let name = self.lock_name(lock.0);
        Failure::Broken(format!("at {}, CPU {cpu} gives lock {name} back, and does not hold it", self.now))
    }

    fn lock_name(&self, lock: u32) -> &str {
        &self.names[self.locks[lock as usize].name as usize]
    }

    fn waits(&self) -> String {
        let waits: Vec<String> = (0..self.cpus.len()).filter_map(|cpu| self.wait_of(cpu)).collect();
        let more = waits.len().saturating_sub(SHOWN);
        let mut text = waits[..waits.len() - more].join(", ");
        if more > 0 {
            text += &format!(", and {more} more");
        }
        text
    }

    fn wait_of(&self, cpu: usize) -> Option<String> {
        let program = ContextId::program(cpu).0 as usize;
        let contexts = &self.contexts[program..program + 2];
        let wanted = contexts.iter().rev().map(|context| context.wants).find(|&lock| lock != NO_ID);
        if let Some(lock) = wanted {
            let holder = match self.locks[lock as usize].holder {
                NO_ID => "which no CPU holds".into(),
                holder => format!("held by CPU {}", ContextId(holder).cpu()),
            };
            return Some(format!("CPU {cpu} waits for lock {}, {holder}", self.lock_name(lock)));
        }
        match contexts[0].doing {
            Doing::Watch => {
                let line = &self.lines[self.words[contexts[0].word as usize].line as usize];
                Some(format!("CPU {cpu} waits for a write of {}", self.names[line.name as usize]))
            }
            Doing::Sleep => Some(format!("CPU {cpu} sleeps")),
            _ => None,
        }
    }
}
