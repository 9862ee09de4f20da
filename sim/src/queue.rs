//! The event queue: which CPU has the next event.
//!
//! Every CPU has at most one next event, so the queue is a tournament: a binary tree with a leaf per CPU, in which
//! each inner node is the earlier of its two children. Moving a CPU's event costs one comparison per level. Nothing
//! is ever searched, deleted lazily or allocated.

use crate::time::Time;

const NEVER: u64 = u64::MAX;

pub(crate) struct Queue {
    /// Node 1 is the root, node i's children are 2i and 2i + 1. A key is the time, with the CPU in its lowest bits:
    /// of events at the same time, that of the lower CPU is first. A key is one word, as comparing two would cost
    /// twice as much.
    nodes: Box<[u64]>,
    leaves: usize,
    cpu_bits: u32,
}

impl Queue {
    pub fn new(cpus: usize) -> Queue {
        let leaves = cpus.next_power_of_two();
        Queue { nodes: vec![NEVER; 2 * leaves].into(), leaves, cpu_bits: leaves.trailing_zeros() }
    }

    /// The latest time that a key can hold: 2.5 hours with 2048 CPUs, 19 minutes with 16384.
    pub fn horizon(&self) -> Time {
        Time::of_ps((NEVER >> self.cpu_bits) - 1)
    }

    /// The earliest event's time and CPU; `Time::NEVER` if there is none.
    #[inline]
    pub fn first(&self) -> (Time, usize) {
        let key = self.nodes[1];
        if key == NEVER {
            return (Time::NEVER, 0);
        }
        (Time::of_ps(key >> self.cpu_bits), key as usize & (self.leaves - 1))
    }

    /// Moves the CPU's next event to `time`. A time beyond the horizon means never.
    #[inline]
    pub fn set(&mut self, cpu: usize, time: Time) {
        let mut winner = if time > self.horizon() { NEVER } else { time.ps() << self.cpu_bits | cpu as u64 };
        let nodes = &mut self.nodes[..];
        let last = nodes.len() - 1; // all ones: masked with it, an index needs no check
        let mut node = self.leaves + cpu;
        nodes[node & last] = winner;
        for _ in 0..self.cpu_bits {
            winner = winner.min(nodes[(node ^ 1) & last]);
            node >>= 1;
            nodes[node & last] = winner;
        }
    }
}
