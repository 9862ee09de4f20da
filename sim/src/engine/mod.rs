//! The engine: the state of a simulated machine, and what an event does to it.
//!
//! An *event* is one entry of the event queue: a piece of work ends, a memory access is done, a store leaves the
//! store buffer, a sleep ends, or an interrupt arrives. Each CPU has at most one next event. A CPU has two contexts,
//! its program and its interrupt handler, and runs one of them at a time. The handler takes precedence.
//!
//! [`State`] holds the machine's state. The other files add its methods: [`memory`] for accesses, [`interrupts`] for
//! interrupts and sleep, [`locks`] for the holders of locks, [`accounts`] for where time goes, [`diagnose`] for
//! why a run cannot go on, and [`events`] for the order in which all this happens.

mod accounts;
mod context;
mod diagnose;
mod events;
mod ids;
mod interrupts;
mod locks;
mod memory;
mod state;

pub(crate) use context::{Action, Doing, Mode};
pub(crate) use ids::{ContextId, decode};
pub use ids::{Counter, Interrupt, LineId, LockId, Word};
pub(crate) use state::State;
