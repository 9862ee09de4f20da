use std::cell::RefCell;
use std::collections::VecDeque;

use crate::cpu::Cpu;
use crate::engine::{LockId, Simulation};
use crate::locks::Lock;

/// An ideal lock: first come, first served, and costs nothing. Who waits sleeps. No machine has it; formulas do.
pub struct Fifo {
    id: LockId,
    queue: RefCell<Queue>,
}

#[derive(Default)]
struct Queue {
    held: bool,
    waiting: VecDeque<usize>,
}

impl Fifo {
    /// A free lock.
    pub fn new(sim: &mut Simulation, name: &str, _node: usize) -> Fifo {
        Fifo { id: sim.lock_id(name), queue: RefCell::default() }
    }

    fn take(&self, cpu: usize) -> bool {
        let mut queue = self.queue.borrow_mut();
        if queue.held {
            queue.waiting.push_back(cpu);
            return false;
        }
        queue.held = true;
        true
    }
}

impl Lock for Fifo {
    fn id(&self) -> LockId {
        self.id
    }

    async fn acquire(&self, cpu: &Cpu) {
        if !self.take(cpu.id()) {
            cpu.sleep().await; // until the lock is ours: it is handed over
        }
    }

    async fn release(&self, cpu: &Cpu) {
        let mut queue = self.queue.borrow_mut();
        match queue.waiting.pop_front() {
            Some(next) => cpu.wake_now(next),
            None => queue.held = false,
        }
    }
}
