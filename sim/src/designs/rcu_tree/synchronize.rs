//! Waiting for grace periods, normal and expedited.

use std::rc::Rc;

use crate::cpu::Cpu;
use crate::designs::rcu::Bug;
use crate::designs::rcu_tree::completion::{Completion, Waiter};
use crate::designs::rcu_tree::tree::Tree;

/// The message of the IPIs of an expedited grace period.
const EXPEDITE: u64 = 1;

impl<T> Tree<T> {
    /// Waits until all present readers have ended: sends an IPI to every CPU.
    pub async fn synchronize_rcu_expedited(&self, cpu: &Cpu) {
        cpu.lock(&self.exp_mutex).await;
        self.exp_began.set(cpu.now());
        let completion = Completion::of(cpu);
        self.exp_waits.replace(Some(Rc::clone(&completion)));
        cpu.disable_interrupts();
        for node in &self.nodes {
            cpu.lock(&node.lock).await;
            node.expmask.set_all(cpu).await;
            cpu.unlock(&node.lock).await;
        }
        cpu.enable_interrupts();
        for other in (0..self.data.len()).filter(|other| *other != cpu.id()) {
            cpu.work(self.common.callback).await;
            cpu.send_ipi(other, EXPEDITE);
        }
        cpu.disable_interrupts();
        self.rcu_report_exp_rnp(cpu).await;
        cpu.enable_interrupts();
        completion.wait(cpu).await;
        self.common.readers.check_none_from_before(cpu, self.exp_began.get());
        self.common.counts.grace_period(cpu, self.exp_began.get());
        cpu.unlock(&self.exp_mutex).await;
    }

    /// The handler of the IPI, `rcu_exp_handler`.
    pub async fn expedite(&self, cpu: &Cpu) {
        if self.common.readers.reads(cpu) && self.common.bug != Bug::Early {
            self.data(cpu).exp_needed.set(true);
        } else {
            self.rcu_report_exp_rnp(cpu).await;
        }
    }

    /// Clears this CPU's bit in its leaf. If a node's mask becomes empty, clears the node's bit in its parent.
    pub(super) async fn rcu_report_exp_rnp(&self, cpu: &Cpu) {
        let (mut number, mut bit) = self.leaf(cpu);
        loop {
            cpu.lock(&self.nodes[number].lock).await;
            let last = self.nodes[number].expmask.clear(cpu, bit).await;
            cpu.unlock(&self.nodes[number].lock).await;
            match self.shape.parents[number] {
                Some((above, bit_above)) if last => (number, bit) = (above, bit_above),
                None if last => return self.exp_waits.take().expect("it waits for this").complete(cpu),
                _ => return,
            }
        }
    }
}

impl Tree<Waiter> {
    /// Waits for a grace period.
    pub async fn synchronize_rcu(&self, cpu: &Cpu) {
        let completion = Completion::of(cpu);
        self.call_rcu(cpu, Some(Rc::clone(&completion)));
        completion.wait(cpu).await;
    }

    /// Invokes the callbacks whose grace period is over, in batches.
    pub async fn invoke(&self, cpu: &Cpu) {
        while self.has_ready(cpu) {
            let batch = self.ready(cpu);
            self.common
                .invoke(cpu, batch, |waiter| waiter.iter().for_each(|waits| waits.complete(cpu)))
                .await;
        }
    }
}
