use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use crate::cpu::Cpu;
use crate::engine::{LineId, LockId, Simulation, Word};
use crate::locks::queue_nodes::{Node, QueueNodes};
use crate::locks::{Lock, QSpinlock};
use crate::time::ns;

/// The kernel's mutex: who waits spins as long as the owner runs, one at a time and the others in a queue behind
/// it; if the owner sleeps, waiters sleep too.
///
/// Follows `kernel/locking/mutex.c` and `kernel/locking/osq_lock.c` of 6.12. Left out: the deadlines of the scheduler
/// (`need_resched`), as a CPU has one task, and wait/wound mutexes.
pub struct Mutex {
    id: LockId,
    /// The owner, as the number of its CPU plus one, above the flags.
    owner: Word,
    /// The last in the queue of those who spin.
    osq: Word,
    wait_lock: QSpinlock,
    nodes: Rc<QueueNodes>,
    /// The CPUs that sleep. Guarded by wait_lock, and on its line.
    waiters: RefCell<VecDeque<usize>>,
}

const WAITERS: u64 = 1;
/// The first waiter has waited long enough: the next unlock must leave the mutex to it.
const HANDOFF: u64 = 2;
const FLAGS: u64 = 7;
const OWNER_SHIFT: u32 = 3;

impl Mutex {
    /// A free mutex in a node's memory: owner, queues and wait_lock are on one line, as in the kernel.
    pub fn new(sim: &mut Simulation, name: &str, node: usize) -> Mutex {
        let line = sim.line(name, node);
        Mutex::on(sim, name, line)
    }

    /// A free mutex on a line that has other words too.
    pub fn on(sim: &mut Simulation, name: &str, line: LineId) -> Mutex {
        Mutex {
            id: sim.lock_id(name),
            owner: sim.word_on(line),
            osq: sim.word_on(line),
            wait_lock: QSpinlock::on(sim, name, line),
            nodes: sim.queue_nodes(),
            waiters: RefCell::default(),
        }
    }

    /// Takes the mutex if it has no owner; keeps the flags. A waiter asks for the hand-off at the same time.
    /// The owner's word if there is one.
    async fn try_acquire(&self, cpu: &Cpu, ask_handoff: bool) -> Result<(), u64> {
        let me = (cpu.id() as u64 + 1) << OWNER_SHIFT;
        let mut value = cpu.read(self.owner).await;
        loop {
            let new = match value & !FLAGS {
                0 => me | value & FLAGS & !HANDOFF,
                owner if owner == me => return Ok(()), // it was handed over
                _ if ask_handoff && value & HANDOFF == 0 => value | HANDOFF,
                _ => return Err(value),
            };
            let before = cpu.compare_exchange(self.owner, value, new).await;
            if before == value {
                return if new & !FLAGS == me { Ok(()) } else { Err(new) };
            }
            value = before;
        }
    }

    /// Spins until the mutex is ours, or it makes no sense to spin on. `queued`: not yet a waiter who sleeps.
    async fn spin(&self, cpu: &Cpu, queued: bool) -> bool {
        let owner = cpu.read(self.owner).await;
        if !self.owner_runs(cpu, owner) {
            return false;
        }
        let node = if queued { Some(self.osq_lock(cpu).await) } else { None };
        let got = loop {
            match self.try_acquire(cpu, false).await {
                Ok(()) => break true,
                Err(owner) if !self.spin_on_owner(cpu, owner).await => break false,
                Err(_) => {}
            }
        };
        if let Some(node) = node {
            self.osq_unlock(cpu, node).await;
        }
        got
    }

    fn owner_runs(&self, cpu: &Cpu, value: u64) -> bool {
        let owner = value >> OWNER_SHIFT;
        owner == 0 || cpu.runs(owner as usize - 1)
    }

    /// Waits while the same owner runs. False if it has gone to sleep.
    async fn spin_on_owner(&self, cpu: &Cpu, owner: u64) -> bool {
        while cpu.read(self.owner).await >> OWNER_SHIFT == owner >> OWNER_SHIFT {
            if !self.owner_runs(cpu, owner) {
                return false;
            }
            cpu.relax(ns(50)).await;
        }
        true
    }

    async fn osq_lock(&self, cpu: &Cpu) -> Node {
        let node = self.nodes.take(cpu.id());
        cpu.write(node.locked, 0).await;
        cpu.write(node.next, 0).await;
        let ahead = cpu.swap(self.osq, node.name).await;
        if ahead != 0 {
            cpu.write(self.nodes.node(ahead).next, node.name).await;
            cpu.spin_while(node.locked, |locked| locked == 0).await;
        }
        node
    }

    async fn osq_unlock(&self, cpu: &Cpu, node: Node) {
        if cpu.compare_exchange(self.osq, node.name, 0).await != node.name {
            let next = cpu.spin_while(node.next, |next| next == 0).await;
            cpu.write(self.nodes.node(next).locked, 1).await;
        }
        self.nodes.free(node);
    }

    /// Sleeps in the list of waiters until the mutex is ours.
    async fn wait(&self, cpu: &Cpu) {
        self.wait_lock.acquire(cpu).await;
        if self.try_acquire(cpu, false).await.is_ok() {
            self.wait_lock.release(cpu).await;
            return;
        }
        self.waiters.borrow_mut().push_back(cpu.id());
        if self.is_first(cpu) {
            cpu.fetch_or(self.owner, WAITERS).await;
        }
        let mut woken = false;
        loop {
            // Being woken first and still too late is what earns the hand-off.
            if self.try_acquire(cpu, woken && self.is_first(cpu)).await.is_ok() {
                break;
            }
            self.wait_lock.release(cpu).await;
            cpu.sleep().await;
            woken = true;
            if self.is_first(cpu)
                && (self.try_acquire(cpu, true).await.is_ok() || self.spin(cpu, false).await)
            {
                self.wait_lock.acquire(cpu).await;
                break;
            }
            self.wait_lock.acquire(cpu).await;
        }
        let last = {
            let mut waiters = self.waiters.borrow_mut();
            waiters.retain(|&waiter| waiter != cpu.id());
            waiters.is_empty()
        };
        if last {
            cpu.fetch_and(self.owner, !(WAITERS | HANDOFF)).await;
        }
        self.wait_lock.release(cpu).await;
    }

    fn is_first(&self, cpu: &Cpu) -> bool {
        self.waiters.borrow().front() == Some(&cpu.id())
    }
}

impl Lock for Mutex {
    fn id(&self) -> LockId {
        self.id
    }

    async fn acquire(&self, cpu: &Cpu) {
        let me = (cpu.id() as u64 + 1) << OWNER_SHIFT;
        if cpu.compare_exchange(self.owner, 0, me).await == 0 || self.spin(cpu, true).await {
            return;
        }
        self.wait(cpu).await;
    }

    async fn release(&self, cpu: &Cpu) {
        let me = (cpu.id() as u64 + 1) << OWNER_SHIFT;
        let mut value = cpu.compare_exchange(self.owner, me, 0).await;
        if value == me {
            return;
        }
        while value & HANDOFF == 0 {
            let before = cpu.compare_exchange(self.owner, value, value & FLAGS).await;
            if before == value {
                break;
            }
            value = before;
        }
        self.wait_lock.acquire(cpu).await;
        let first = self.waiters.borrow().front().copied();
        if value & HANDOFF != 0 {
            // The flag is of somebody who waits, and it alone takes the mutex now.
            let next = first.map_or(0, |first| (first as u64 + 1) << OWNER_SHIFT);
            cpu.swap_bits(self.owner, !WAITERS, next).await;
        }
        self.wait_lock.release(cpu).await;
        if let Some(first) = first {
            cpu.wake(first);
        }
    }
}
