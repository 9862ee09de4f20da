//! Interrupts and wakeups: what changes which context of a CPU runs.

use std::cmp::Reverse;

use crate::engine::context::{Action, Doing};
use crate::engine::ids::{ContextId, Interrupt, encode};
use crate::engine::state::State;
use crate::time::Time;

impl State {
    /// Sends an interrupt to a CPU, where it arrives at a time.
    pub fn send(&mut self, cpu: usize, at: Time, interrupt: Interrupt) {
        self.arrivals += 1;
        self.interrupts[cpu].arrivals.push(Reverse((at, self.arrivals, interrupt)));
        let next = &mut self.cpus[cpu].next_arrival;
        *next = at.min(*next);
        self.schedule(cpu);
    }

    /// Keeps interrupts of a CPU waiting until they have been enabled as often as disabled.
    pub fn disable_interrupts(&mut self, cpu: usize) {
        self.cpus[cpu].masked += 1;
    }

    pub fn enable_interrupts(&mut self, cpu: usize) {
        let masked = &mut self.cpus[cpu].masked;
        *masked = masked.checked_sub(1).expect("interrupts were disabled before they are enabled");
    }

    /// Wakes a CPU's program at a time. If it is awake, its next sleep ends at once.
    pub fn wake(&mut self, cpu: usize, at: Time) {
        let program = self.context(ContextId::program(cpu));
        if !matches!(program.doing, Doing::Sleep) {
            self.cpus[cpu].woken = true;
            return;
        }
        program.done = program.done.min(at);
        if !self.cpus[cpu].interrupted {
            self.schedule(cpu);
        }
    }

    /// The CPU has a handler, which runs until it waits for its first interrupt.
    pub fn start_handler(&mut self, cpu: usize) {
        self.cpus[cpu].interrupted = true;
    }

    /// An interrupt has arrived, and becomes due.
    pub(super) fn arrival(&mut self, cpu: usize) {
        let interrupts = &mut self.interrupts[cpu];
        let Reverse((_, _, interrupt)) = interrupts.arrivals.pop().expect("it has arrived");
        interrupts.due.push_back(interrupt);
        self.cpus[cpu].is_due = true;
        self.set_next_arrival(cpu);
    }

    /// Delivers a due interrupt at once if the program can be interrupted. Returns whether the handler can run.
    pub(super) fn interrupt_or_schedule(&mut self, cpu: usize) -> bool {
        let (now, id, state) = (self.now, ContextId::program(cpu), &self.cpus[cpu]);
        let busy = matches!(
            self.contexts[id.0 as usize].doing,
            Doing::Access(_) | Doing::Drain(_) | Doing::Store(_)
        );
        if state.interrupted || state.masked != 0 || !state.is_due || busy {
            self.schedule(cpu);
            return false;
        }
        self.account(id);
        let program = self.context(id);
        if let Doing::Work(_) = program.doing {
            program.done -= now; // what is left of it
        }
        self.deliver(cpu);
        true
    }

    /// Starts the handler with the first due interrupt.
    pub(super) fn deliver(&mut self, cpu: usize) {
        let interrupts = &mut self.interrupts[cpu];
        let interrupt = interrupts.due.pop_front().expect("an interrupt is due");
        interrupts.taken += 1;
        self.cpus[cpu].is_due = !interrupts.due.is_empty();
        self.cpus[cpu].interrupted = true;
        let now = self.now;
        let handler = self.context(ContextId::handler(cpu));
        assert!(
            matches!(handler.doing, Doing::AwaitInterrupt),
            "CPU {cpu} is interrupted, and has no handler"
        );
        handler.doing = Doing::Ready;
        handler.start = now;
        handler.operands[0] = encode(interrupt);
    }

    /// The handler has no more interrupts to handle: the program goes on. Returns whether it can run at once.
    pub(super) fn resume_program(&mut self, cpu: usize) -> bool {
        let (now, id) = (self.now, ContextId::program(cpu));
        self.cpus[cpu].interrupted = false;
        let program = self.context(id);
        program.start = now;
        match program.doing {
            Doing::Ready => return true,
            Doing::Work(_) => program.done += now,
            Doing::Sleep => program.done = program.done.max(now),
            Doing::Written => {
                let word = program.word;
                self.request(id, word, Action::Read);
            }
            _ => {}
        }
        self.schedule(cpu);
        false
    }
}
