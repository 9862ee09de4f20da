use std::rc::Rc;

use crate::cpu::Cpu;
use crate::engine::{LineId, Word};
use crate::locks::queue_nodes::{Node, QueueNodes};
use crate::simulation::Simulation;

/// The queue of tasks that spin optimistically for a sleeping lock. Its head spins on the lock's owner.
///
/// Follows `kernel/locking/osq_lock.c` of 6.12.
pub(super) struct Osq {
    /// The name of the last node. Zero if the queue is empty.
    tail: Word,
    nodes: Rc<QueueNodes>,
}

impl Osq {
    /// An empty queue on the cache line of its lock.
    pub fn on(sim: &mut Simulation, line: LineId) -> Osq {
        Osq { tail: sim.word_on(line), nodes: QueueNodes::of(sim) }
    }

    /// Waits until this CPU is the head of the queue.
    pub async fn lock(&self, cpu: &Cpu) -> Node {
        let node = self.nodes.take(cpu.id());
        cpu.write(node.locked, 0).await;
        cpu.write(node.next, 0).await;
        let ahead = cpu.swap(self.tail, node.name).await;
        if ahead != 0 {
            cpu.write(self.nodes.node(ahead).next, node.name).await;
            cpu.spin_while(node.locked, |locked| locked == 0).await;
        }
        node
    }

    pub async fn unlock(&self, cpu: &Cpu, node: Node) {
        if cpu.compare_exchange(self.tail, node.name, 0).await != node.name {
            let next = cpu.spin_while(node.next, |next| next == 0).await;
            cpu.write(self.nodes.node(next).locked, 1).await;
        }
        self.nodes.free(node);
    }
}
