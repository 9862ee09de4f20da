//! One event, and what comes of it: the engine's part of the main loop.

use crate::engine::context::Doing;
use crate::engine::ids::ContextId;
use crate::engine::state::State;
use crate::time::Time;

impl State {
    /// Makes a program ready to run for the first time.
    pub fn start_program(&mut self, cpu: usize) {
        self.context(ContextId::program(cpu)).doing = Doing::Ready;
    }

    /// Handles the CPU's next event, whose time has come. Returns whether its program or handler can run.
    #[inline]
    pub fn event(&mut self, cpu: usize) -> bool {
        let state = &self.cpus[cpu];
        if state.next_arrival <= self.now {
            if self.store_arrives(cpu) {
                self.schedule(cpu);
                return false;
            }
            self.arrival(cpu);
            return self.interrupt_or_schedule(cpu);
        }
        let deliver = state.is_due && !state.interrupted && state.masked == 0;
        let id = self.running(cpu);
        self.account(id);
        let context = self.context(id);
        let done = std::mem::replace(&mut context.doing, Doing::Ready);
        if let Doing::Access(action) = done {
            self.apply(id, action);
        } else if self.waits_after_stores(id, done) {
            self.schedule(cpu);
            return false;
        }
        if deliver {
            self.deliver(cpu);
        }
        true
    }

    /// Called after a context has run until it waits. Returns whether a context of this CPU can run at once.
    #[inline]
    pub fn settle(&mut self, cpu: usize) -> bool {
        let state = &self.cpus[cpu];
        if state.interrupted {
            if let Doing::AwaitInterrupt = self.contexts[ContextId::handler(cpu).0 as usize].doing {
                if !state.is_due {
                    return self.resume_program(cpu);
                }
                self.deliver(cpu);
                return true;
            }
        } else if state.is_due {
            return self.interrupt_or_schedule(cpu);
        }
        self.schedule(cpu);
        false
    }

    /// Whether a context waits for an operation to end, as one that has run must.
    #[inline]
    pub fn is_waiting(&self, id: ContextId) -> bool {
        !matches!(self.contexts[id.0 as usize].doing, Doing::Nothing | Doing::Ready)
    }

    /// A program has ended.
    pub fn end(&mut self, id: ContextId) {
        let context = self.context(id);
        (context.doing, context.done) = (Doing::Nothing, Time::NEVER);
    }
}
