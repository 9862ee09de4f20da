//! The ways in which a run fails, each described in one line.

use std::fmt;

/// Why a run ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No CPU can continue; the text says which CPU waits for what.
    Deadlock(String),
    /// The event budget is used up.
    Livelock(String),
    /// An invariant was violated.
    Broken(String),
    /// The caller stopped the run.
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
