use std::cell::Cell;
use std::rc::Rc;

use crate::cpu::Cpu;
use crate::engine::{LockId, Word};
use crate::lock::Lock;
use crate::locks::queue_nodes::{Node, QueueNodes};
use crate::simulation::Simulation;

/// A queue in which each CPU waits on a word of its own until the CPU ahead of it writes the word.
///
/// Follows `kernel/locking/mcs_spinlock.h`.
pub struct Mcs {
    id: LockId,
    /// The name of the last node in the queue. Zero if the lock is free.
    tail: Word,
    nodes: Rc<QueueNodes>,
    /// The holder's node.
    held: Cell<Option<Node>>,
}

impl Mcs {
    /// A free lock in a node's memory.
    pub fn new(sim: &mut Simulation, name: &str, node: usize) -> Mcs {
        let nodes = QueueNodes::of(sim);
        Mcs { id: sim.lock_id(name), tail: sim.word(name, node), nodes, held: Cell::new(None) }
    }
}

impl Lock for Mcs {
    fn id(&self) -> LockId {
        self.id
    }

    async fn acquire(&self, cpu: &Cpu) {
        let node = self.nodes.take(cpu.id());
        cpu.write(node.locked, 0).await;
        cpu.write(node.next, 0).await;
        let before = cpu.swap(self.tail, node.name).await;
        if before != 0 {
            cpu.write(self.nodes.node(before).next, node.name).await;
            cpu.spin_while(node.locked, |locked| locked == 0).await;
        }
        self.held.set(Some(node));
    }

    async fn release(&self, cpu: &Cpu) {
        let node = self.held.take().expect("the holder releases the lock");
        let mut next = cpu.read(node.next).await;
        if next == 0 {
            if cpu.compare_exchange(self.tail, node.name, 0).await == node.name {
                self.nodes.free(node);
                return;
            }
            next = cpu.spin_while(node.next, |next| next == 0).await;
        }
        cpu.write(self.nodes.node(next).locked, 1).await;
        self.nodes.free(node);
    }
}
