//! How to replay a program.

use crate::spin_kind::SpinKind;
use crate::time::Time;

/// How to replay a program.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub tasks: usize,
    pub seed: u64,
    /// The kind of the kernel's spinlocks.
    pub spinlocks: SpinKind,
    /// Places tasks on all nodes in turn, instead of filling one node after the other.
    pub spread: bool,
    /// The time of an instruction, relative to the processor's figures.
    pub slower: f64,
    /// How long a cache line stays with a core that received it, even if others request it.
    pub min_residency: Time,
    /// How much of a read's time a core spends on other instructions, as it executes out of order.
    pub overlapped: Time,
    /// The time of an instruction while the task holds a lock, relative to other instructions.
    pub under_locks: f64,
}

#[cfg(test)]
impl Setting {
    /// A number of tasks, and defaults for the rest.
    pub(crate) fn plain(tasks: usize) -> Self {
        Self {
            tasks,
            seed: 1,
            spinlocks: SpinKind::Qspinlock,
            spread: false,
            slower: 1.0,
            min_residency: Time::ZERO,
            overlapped: Time::ZERO,
            under_locks: 1.0,
        }
    }
}
