//! Measures the machine on which this runs: how long a cache line, memory and a wakeup take.

mod contended;
mod cores;
mod counter;
mod latency;
mod threads;

pub use contended::{added, handed_over, read_while_written};
pub use cores::{clock, fill, system_call};
pub use counter::counter_khz;
pub use latency::{hit, memory, transfer, wakeup};
