//! A simulator of kernel designs on machines with many CPUs.
//!
//! A design is ordinary sequential code, one async function per CPU. It runs on a [`Machine`] whose caches, nodes and
//! links take time: a read of a cache line that another CPU has written waits for the line to come, and for the CPUs
//! that requested it before. Locks ([`locks`]) are built from such lines, as in the kernel. A [`Simulation`] puts the
//! two together and [reports](Report) where the time went: by CPU, by cache line, by lock.
//!
//! Time is virtual, in picoseconds. The same seed gives the same result to the last bit, on any machine.
//!
//! ```
//! use bigiron_sim::locks::Ticket;
//! use bigiron_sim::{Lock, Machine, Run, Simulation, ns, us};
//! use std::rc::Rc;
//!
//! let mut sim = Simulation::new(Machine::uniform(8, ns(1), ns(100)), 1);
//! let lock = Rc::new(Ticket::new(&mut sim, "lock", 0));
//! for cpu in 0..8 {
//!     let lock = Rc::clone(&lock);
//!     sim.program(cpu, |cpu| async move {
//!         loop {
//!             cpu.user(cpu.exponential(us(10))).await;
//!             cpu.lock(&*lock).await;
//!             cpu.work(ns(200)).await;
//!             cpu.unlock(&*lock).await;
//!             cpu.operation();
//!         }
//!     });
//! }
//! let report = sim.run(Run::measuring(us(100), us(1000))).unwrap();
//! println!("{:.0} operations per second", report.throughput());
//! ```
//!
//! Read on: [`Cpu`] for what a program can do, [`locks`], and [`designs`] for the designs that come with the simulator.
//! `engine/mod.rs` says what an event is. Modules use each other in one direction, which `tests/modules.rs` checks.

mod cpu;
pub mod designs;
mod engine;
mod failure;
mod line;
mod lock;
pub mod locks;
mod machine;
#[cfg(any(test, feature = "python"))]
#[cfg_attr(not(feature = "python"), allow(dead_code, unused_imports))]
mod measure;
#[cfg(feature = "python")]
mod python;
mod queue;
mod random;
pub mod replay;
mod report;
mod simulation;
mod spin_kind;
mod time;
mod trace;

pub use cpu::{Access, Cpu, Pause};
pub use engine::{Counter, Interrupt, LineId, LockId, Word};
pub use failure::Failure;
pub use lock::{DowngradeLock, Lock, ReadLock, TryLock, TryReadLock};
pub use machine::{BUILT_IN, Machine, MachineError, Processor, Range};
pub use report::{LineReport, LockReport, Report, Spent};
pub use simulation::{Run, Simulation};
pub use time::{Time, ms, ns, us};
pub use trace::Trace;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
