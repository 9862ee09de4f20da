use std::cell::RefCell;
use std::collections::VecDeque;

use crate::cpu::Cpu;
use crate::engine::LockId;
use crate::lock::Lock;
use crate::simulation::Simulation;

/// An ideal lock: first come, first served, at no cost. Waiters sleep. It exists in formulas, not in machines.
pub struct Fifo {
    id: LockId,
    queue: RefCell<Queue>,
}

#[derive(Default)]
struct Queue {
    holder: Option<usize>,
    waiting: VecDeque<usize>,
}

impl Fifo {
    /// A free lock.
    pub fn new(sim: &mut Simulation, name: &str, _node: usize) -> Fifo {
        Fifo { id: sim.lock_id(name), queue: RefCell::default() }
    }

    fn take(&self, cpu: usize) -> bool {
        let mut queue = self.queue.borrow_mut();
        if queue.holder.is_some() {
            queue.waiting.push_back(cpu);
            return false;
        }
        queue.holder = Some(cpu);
        true
    }

    fn is_mine(&self, cpu: usize) -> bool {
        self.queue.borrow().holder == Some(cpu)
    }
}

impl Lock for Fifo {
    fn id(&self) -> LockId {
        self.id
    }

    async fn acquire(&self, cpu: &Cpu) {
        if !self.take(cpu.id()) {
            while !self.is_mine(cpu.id()) {
                cpu.sleep().await; // until it is handed over: other wakeups can come before
            }
        }
    }

    async fn release(&self, cpu: &Cpu) {
        if cpu.is_storing() {
            cpu.fence().await; // the next holder sees the stores of this one
        }
        let mut queue = self.queue.borrow_mut();
        queue.holder = queue.waiting.pop_front();
        if let Some(next) = queue.holder {
            cpu.wake_now(next);
        }
    }
}
