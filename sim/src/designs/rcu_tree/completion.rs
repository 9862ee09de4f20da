//! Waiting for a grace period.

use std::cell::Cell;
use std::rc::Rc;

use crate::cpu::Cpu;

/// `struct completion`: a program waits for it, and a callback completes it.
pub struct Completion {
    waiter: usize,
    done: Cell<bool>,
}

impl Completion {
    pub fn of(cpu: &Cpu) -> Rc<Completion> {
        Rc::new(Completion { waiter: cpu.id(), done: Cell::new(false) })
    }

    pub fn complete(&self, cpu: &Cpu) {
        self.done.set(true);
        cpu.wake(self.waiter);
    }

    pub async fn wait(&self, cpu: &Cpu) {
        while !self.done.get() {
            cpu.sleep().await;
        }
    }
}

/// What a callback completes: a wait in `synchronize_rcu`, if there is one.
pub type Waiter = Option<Rc<Completion>>;
