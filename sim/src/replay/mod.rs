//! Replay: many tasks do what was recorded of one operation, on a machine that a file describes.
//!
//! The recording has a task's accesses to shared cache lines and locks, and the number of instructions in between.
//! Here every task runs it on a CPU of its own. Instructions take the processor's time, cache lines come from where
//! they are, and locks are executed. Waiting is therefore a result, not an input.

mod calls;
mod curve;
mod enough;
mod locks;
mod program;
mod run;
mod setting;
mod shared;
mod task;
#[cfg(test)]
mod tests;

pub use curve::{Curve, CurveResult, ReplayedCurve, curves};
pub use program::{Event, Kind, Program, ProgramError, ProgramLine, ProgramLock, Scope, Targets, Touch};
pub use run::{ReplayResult, replay};
pub use setting::Setting;
pub use shared::FIXED_CATEGORIES;
