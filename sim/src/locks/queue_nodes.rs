use std::cell::Cell;
use std::rc::Rc;

use crate::engine::Word;
use crate::simulation::Simulation;

/// The nodes in which CPUs queue for a lock: four a CPU, on one line, as `kernel/locking/qspinlock.c` has them (one
/// each for a task, a softirq, a hardirq and an NMI).
pub struct QueueNodes {
    /// The first of the words: each CPU has NODES times two, one CPU's after the other's.
    first: u32,
    /// Which of a CPU's nodes are in use, one bit each.
    used: Vec<Cell<u8>>,
    numa: Vec<u16>,
}

const NODES: usize = 4;

/// One CPU's place in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Not zero, and the same for the same node always: what a lock's word holds of it.
    pub name: u64,
    /// What the CPU waits on.
    pub locked: Word,
    /// The name of the node behind this one; zero while there is none.
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

    /// A node of the CPU's that is free, to be given back with `free`.
    pub(crate) fn take(&self, cpu: usize) -> Node {
        let used = &self.used[cpu];
        let index = used.get().trailing_ones() as usize;
        assert!(index < NODES, "CPU {cpu} queues for more than {NODES} locks");
        used.set(used.get() | 1 << index);
        self.node((cpu * NODES + index + 1) as u64)
    }

    pub(crate) fn free(&self, node: Node) {
        let number = node.name as usize - 1;
        let used = &self.used[number / NODES];
        used.set(used.get() & !(1 << (number % NODES)));
    }

    /// The machine's node on which the CPU of a queue node is.
    pub(crate) fn numa_node(&self, name: u64) -> u16 {
        self.numa[(name as usize - 1) / NODES]
    }

    pub(crate) fn node(&self, name: u64) -> Node {
        let word = self.first + 2 * (name as u32 - 1);
        Node { name, locked: Word(word), next: Word(word + 1) }
    }
}
