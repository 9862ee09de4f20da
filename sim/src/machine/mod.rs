//! The machine: CPUs in nested levels, and how long a cache line takes between any two of them.
//!
//! A machine is a tree. Its file lists the levels from the outside in, such as `socket`, `core`, `thread`. Each level
//! says how many units it has in one unit of the level around it, and how long a cache line takes between CPUs in
//! different units. CPUs are numbered in the order of the tree: the threads of a core are neighbours.

mod built_in;
mod check;
mod file;
mod load;
mod placement;
mod processor;
mod ranges;
mod sources;
mod topology;

pub use built_in::BUILT_IN;
pub use file::{MachineError, Range};
pub(crate) use placement::{active, placement};
pub use processor::Processor;
pub use topology::Machine;
pub(crate) use topology::Place;
