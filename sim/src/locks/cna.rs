use std::cell::Cell;

use crate::cpu::Cpu;
use crate::engine::{LineId, LockId};
use crate::lock::{Lock, TryLock};
use crate::locks::qspinlock::{LOCKED, PENDING, QSpinlock, TAIL, TAIL_SHIFT};
use crate::locks::queue_nodes::Node;
use crate::simulation::Simulation;
use crate::time::{Time, ms};

/// A qspinlock that stays on a node: the head of the queue moves the next waiter to a second queue if it is of
/// another node. The second queue is served when the first is empty or after ten milliseconds.
///
/// Follows `kernel/locking/qspinlock_cna.h` of "Add NUMA-awareness to qspinlock", version 13 (A. Kogan, 2020; not in
/// mainline), with its default `numa_spinlock_threshold`. Version 15 moves waiters only while the lock is held.
pub struct Cna {
    lock: QSpinlock,
    /// Only the head of the queue uses it. It passes it on in a cache line that it writes anyway.
    second: Cell<Option<SecondQueue>>,
}

/// One in so many heads of the queue begins a second queue (`SHUFFLE_REDUCTION_PROB_ARG`).
const FEW_ORDER: u64 = 128;

/// While there is a second queue, the first is for the preferred node, even if a CPU of another node is at its head.
/// Otherwise CPUs of the preferred node would soon wait in the second queue.
#[derive(Clone, Copy)]
struct SecondQueue {
    since: Time,
    preferred: u16,
}

/// The value of a node's word `locked` that names the tail of a second queue. It differs from 1.
fn second_queue(tail: Node) -> u64 {
    tail.name << 1
}

impl Cna {
    /// A free lock in a node's memory.
    pub fn new(sim: &mut Simulation, name: &str, node: usize) -> Cna {
        let line = sim.line(name, node);
        Cna::on(sim, name, line)
    }

    /// A free lock on a cache line with other words.
    pub fn on(sim: &mut Simulation, name: &str, line: LineId) -> Cna {
        Cna { lock: QSpinlock::on(sim, name, line), second: Cell::new(None) }
    }

    /// Whether it is held or waited for, as seen when another word of its cache line was read.
    pub(crate) fn is_busy(&self, cpu: &Cpu) -> bool {
        self.lock.is_busy(cpu)
    }

    /// Moves the next waiter to the second queue, unless it is of the preferred node or the last. Returns whether
    /// there is a next waiter.
    async fn order_queue(&self, cpu: &Cpu, node: Node) -> bool {
        let nodes = &self.lock.nodes;
        let next = cpu.read(node.next).await;
        if next == 0 {
            return false;
        }
        let next = nodes.node(next);
        let here = nodes.numa_node(node.name);
        let preferred = self.second.get().map_or(here, |second| second.preferred);
        if nodes.numa_node(next.name) == preferred {
            return true;
        }
        let after = cpu.read(next.next).await;
        if after == 0 {
            return true;
        }
        cpu.write(node.next, after).await;
        let second = cpu.read(node.locked).await;
        if second <= 1 {
            cpu.write(next.next, next.name).await;
            self.second.set(Some(SecondQueue { since: cpu.now(), preferred }));
        } else {
            let tail = nodes.node(second >> 1);
            let head = cpu.read(tail.next).await;
            cpu.write(tail.next, next.name).await;
            cpu.write(next.next, head).await;
        }
        cpu.write(node.locked, second_queue(next)).await;
        true
    }

    /// Called if the head is the last in the queue. Writes the tail of the second queue, if any, to the lock's word.
    async fn try_clear_tail(&self, cpu: &Cpu, node: Node, value: u64) -> bool {
        let nodes = &self.lock.nodes;
        let second = cpu.read(node.locked).await;
        if second <= 1 {
            return cpu.compare_exchange(self.lock.word, value, LOCKED).await == value;
        }
        let tail = nodes.node(second >> 1);
        let head = cpu.read(tail.next).await;
        cpu.write(tail.next, 0).await;
        let new = tail.name << TAIL_SHIFT | LOCKED;
        if cpu.compare_exchange(self.lock.word, value, new).await != value {
            cpu.write(tail.next, head).await;
            return false;
        }
        self.second.set(None);
        cpu.write(nodes.node(head).locked, 1).await;
        true
    }

    async fn hand_off(&self, cpu: &Cpu, node: Node, flush: bool) {
        let nodes = &self.lock.nodes;
        let mut next = cpu.read(node.next).await;
        let second = cpu.read(node.locked).await;
        let mut locked = second.max(1);
        if flush && second > 1 {
            let tail = nodes.node(second >> 1);
            let head = cpu.read(tail.next).await;
            cpu.write(tail.next, next).await;
            next = head;
            locked = 1;
            self.second.set(None);
        }
        cpu.write(nodes.node(next).locked, locked).await;
    }
}

impl TryLock for Cna {
    async fn try_acquire(&self, cpu: &Cpu) -> bool {
        self.lock.try_acquire(cpu).await
    }
}

impl Lock for Cna {
    fn id(&self) -> LockId {
        self.lock.id()
    }

    async fn acquire(&self, cpu: &Cpu) {
        let QSpinlock { word, nodes, .. } = &self.lock;
        if self.lock.acquire_or_pend(cpu).await {
            return;
        }
        let node = nodes.take(cpu.id());
        cpu.write(node.locked, 0).await;
        cpu.write(node.next, 0).await;
        if self.lock.try_acquire(cpu).await {
            nodes.free(node);
            return;
        }
        let tail = node.name << TAIL_SHIFT;
        let ahead = cpu.swap_bits(*word, TAIL, tail).await >> TAIL_SHIFT;
        if ahead != 0 {
            cpu.write(nodes.node(ahead).next, node.name).await;
            cpu.spin_while(node.locked, |locked| locked == 0).await;
            self.lock.prefetch_next(cpu, node);
        }
        let second = self.second.get();
        let flush = second.is_some_and(|second| cpu.now() > second.since + ms(10));
        // Without a second queue, few heads begin one.
        let skip = flush || second.is_none() && cpu.below(FEW_ORDER) != 0;
        let ordered = skip || self.order_queue(cpu, node).await;
        let value = cpu.spin_while(*word, |value| value & (LOCKED | PENDING) != 0).await;
        if value & TAIL != tail || !self.try_clear_tail(cpu, node, value).await {
            cpu.write_bits(*word, LOCKED, LOCKED).await;
            cpu.spin_while(node.next, |next| next == 0).await;
            if !ordered {
                self.order_queue(cpu, node).await;
            }
            self.hand_off(cpu, node, flush).await;
        }
        nodes.free(node);
    }

    async fn release(&self, cpu: &Cpu) {
        self.lock.release(cpu).await;
    }
}
