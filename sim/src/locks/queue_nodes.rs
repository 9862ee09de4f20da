//! The nodes of queueing spinlocks.

use std::cell::Cell;
use std::rc::Rc;

use crate::engine::Word;
use crate::simulation::Simulation;

/// The nodes in which CPUs queue for a lock: four per CPU, on one cache line, as in `kernel/locking/qspinlock.c` (for
/// a task, a softirq, a hardirq and an NMI).
pub(super) struct QueueNodes {
    /// The first of the words. Each CPU has twice NODES consecutive words.
    first: u32,
    /// The nodes that each CPU uses, one bit each.
    used: Vec<Cell<u8>>,
    numa: Vec<u16>,
}

const NODES: usize = 4;

/// A CPU's place in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node {
    /// Identifies the node in a lock's word. Not zero.
    pub name: u64,
    /// The word that the CPU waits on.
    pub locked: Word,
    /// The name of the next node. Zero while there is none.
    pub next: Word,
}

impl QueueNodes {
    /// The queue nodes of a simulation.
    pub(super) fn of(sim: &mut Simulation) -> Rc<QueueNodes> {
        sim.shared(QueueNodes::new)
    }

    fn new(sim: &mut Simulation) -> QueueNodes {
        let machine = sim.machine();
        let numa: Vec<u16> = (0..sim.cpus()).map(|cpu| machine.node_of(cpu) as u16).collect();
        let mut first = None;
        for &node in &numa {
            let line = sim.line("queue node", node as usize);
            for _ in 0..NODES * 2 {
                let Word(word) = sim.word_on(line);
                first.get_or_insert(word);
            }
        }
        QueueNodes { first: first.expect("a machine has a CPU"), used: vec![Cell::new(0); sim.cpus()], numa }
    }

    /// Takes a free node of a CPU. `free` returns it.
    pub(super) fn take(&self, cpu: usize) -> Node {
        let used = &self.used[cpu];
        let index = used.get().trailing_ones() as usize;
        assert!(index < NODES, "CPU {cpu} queues for more than {NODES} locks");
        used.set(used.get() | 1 << index);
        self.node((cpu * NODES + index + 1) as u64)
    }

    pub(super) fn free(&self, node: Node) {
        let number = node.name as usize - 1;
        let used = &self.used[number / NODES];
        used.set(used.get() & !(1 << (number % NODES)));
    }

    /// The machine's node on which the CPU of a queue node is.
    pub(super) fn numa_node(&self, name: u64) -> u16 {
        self.numa[(name as usize - 1) / NODES]
    }

    pub(super) fn node(&self, name: u64) -> Node {
        let word = self.first + 2 * (name as u32 - 1);
        Node { name, locked: Word(word), next: Word(word + 1) }
    }
}
