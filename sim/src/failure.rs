//! The ways a run fails, each one clear line.

use std::fmt;

use crate::engine::{ContextId, Doing, LockId, State};
use crate::line::NOBODY;

/// Why a run ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nobody can go on: who waits for what.
    Deadlock(String),
    /// The event budget is used up.
    Livelock(String),
    /// Something that must always be true was not.
    Broken(String),
    /// Whoever wanted it wants it no more.
    Stopped,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Deadlock(why) => write!(f, "deadlock {why}"),
            Failure::Livelock(why) => write!(f, "livelock {why}"),
            Failure::Broken(why) => f.write_str(why),
            Failure::Stopped => f.write_str("stopped"),
        }
    }
}

impl std::error::Error for Failure {}

const SHOWN: usize = 4;

impl Failure {
    pub(crate) fn deadlock(state: &State) -> Failure {
        Failure::Deadlock(format!("at {}: {}", state.now, who_waits(state)))
    }

    pub(crate) fn livelock(state: &State, event_budget: u64) -> Failure {
        let waits = who_waits(state);
        let waits = if waits.is_empty() { "no CPU waits for anything".into() } else { waits };
        Failure::Livelock(format!("at {}: {event_budget} events, and no end: {waits}", state.now))
    }

    pub(crate) fn endless(state: &State) -> Failure {
        Failure::Livelock(format!("at {}: a program works for longer than the simulator has time", state.now))
    }

    pub(crate) fn two_holders(state: &State, lock: LockId, cpu: usize, holder: u32) -> Failure {
        let name = lock_name(state, lock.0);
        let other = if holder == NOBODY {
            "readers hold".into()
        } else {
            format!("CPU {} holds", ContextId(holder).cpu())
        };
        Failure::Broken(format!("at {}, CPU {cpu} takes lock {name}, which {other}", state.now))
    }

    pub(crate) fn not_held(state: &State, lock: LockId, cpu: usize) -> Failure {
        let name = lock_name(state, lock.0);
        Failure::Broken(format!("at {}, CPU {cpu} gives lock {name} back, and does not hold it", state.now))
    }
}

fn lock_name(state: &State, lock: u32) -> &str {
    &state.names[state.locks[lock as usize].name as usize]
}

fn who_waits(state: &State) -> String {
    let waits: Vec<String> = (0..state.cpus.len()).filter_map(|cpu| waits(state, cpu)).collect();
    let more = waits.len().saturating_sub(SHOWN);
    let mut text = waits[..waits.len() - more].join(", ");
    if more > 0 {
        text += &format!(", and {more} more");
    }
    text
}

fn waits(state: &State, cpu: usize) -> Option<String> {
    let program = ContextId::program(cpu).0 as usize;
    let contexts = &state.contexts[program..program + 2];
    let wanted = contexts.iter().rev().map(|context| context.wants).find(|&lock| lock != NOBODY);
    if let Some(lock) = wanted {
        let holder = match state.locks[lock as usize].holder {
            NOBODY => "which nobody holds".into(),
            holder => format!("held by CPU {}", ContextId(holder).cpu()),
        };
        return Some(format!("CPU {cpu} waits for lock {}, {holder}", lock_name(state, lock)));
    }
    match contexts[0].doing {
        Doing::Watch => {
            let line = &state.lines[state.words[contexts[0].word as usize].line as usize];
            Some(format!("CPU {cpu} waits for a write of {}", state.names[line.name as usize]))
        }
        Doing::Sleep => Some(format!("CPU {cpu} sleeps")),
        _ => None,
    }
}
