//! The event queue: which CPU has something to do next.
//!
//! Every CPU has at most one next event, so the queue is a tournament: a binary tree with a leaf a CPU, each
//! inner node the earlier of its two children. Moving a CPU's event costs one comparison a level, whatever the
//! others do; nothing is ever searched, deleted lazily or allocated.

use crate::random::Random;
use crate::time::Time;

const NEVER: u128 = u128::MAX;

pub(crate) struct Queue {
    /// Node 1 is the root, node i's children are 2i and 2i + 1. A key is time, then a random number, then the
    /// CPU: events at the same moment come in an order that favours nobody, and that the seed determines.
    nodes: Vec<u128>,
    leaves: usize,
    ties: Random,
}

impl Queue {
    pub fn new(cpus: usize, ties: Random) -> Queue {
        let leaves = cpus.next_power_of_two();
        Queue { nodes: vec![NEVER; 2 * leaves], leaves, ties }
    }

    /// The earliest event's time and CPU; `Time::NEVER` if there is none.
    #[inline]
    pub fn first(&self) -> (Time, usize) {
        let key = self.nodes[1];
        (Time::of_ps((key >> 64) as u64), key as u32 as usize)
    }

    /// Moves the CPU's next event to `time`.
    #[inline]
    pub fn set(&mut self, cpu: usize, time: Time) {
        let mut winner = if time == Time::NEVER {
            NEVER
        } else {
            u128::from(time.ps()) << 64 | u128::from(self.ties.next() as u32) << 32 | cpu as u128
        };
        let mut node = self.leaves + cpu;
        self.nodes[node] = winner;
        while node > 1 {
            winner = winner.min(self.nodes[node ^ 1]);
            node >>= 1;
            if self.nodes[node] == winner {
                return;
            }
            self.nodes[node] = winner;
        }
    }
}
