//! A simulation: programs on the CPUs of a machine, and the loop that lets time pass.

use std::any::{Any, TypeId};
use std::cell::{RefCell, RefMut};
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as TaskContext, Poll, Waker};

use crate::cpu::Cpu;
use crate::engine::{ContextId, Counter, LineId, LockId, State, Word};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::report::Report;
use crate::spin_kind::SpinKind;
use crate::time::Time;
use crate::trace::Trace;

/// How long to simulate, and what to report.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The time before the reported part of the run.
    pub warmup: Time,
    /// How long the reported part is. `Time::NEVER`: until every program has ended.
    pub duration: Time,
    /// The run fails after so many events, as programs may spin for ever.
    pub event_budget: u64,
    /// The part of the run to record as a timeline.
    pub timeline: Option<(Time, Time)>,
}

impl Run {
    /// Reports `duration` after `warmup`, with a budget of ten thousand million events.
    pub fn measuring(warmup: Time, duration: Time) -> Run {
        Run { warmup, duration, event_budget: 10_000_000_000, timeline: None }
    }

    /// Runs until every program has ended.
    pub fn to_the_end() -> Run {
        Run::measuring(Time::ZERO, Time::NEVER)
    }
}

type Program = Pin<Box<dyn Future<Output = ()>>>;

/// Programs on the CPUs of a machine.
pub struct Simulation {
    state: Rc<RefCell<State>>,
    /// By the context's number.
    programs: Vec<Option<Program>>,
    /// What several locks share, one value of each type.
    shared: HashMap<TypeId, Rc<dyn Any>>,
    spinlocks: SpinKind,
    events: u64,
    stop: Arc<AtomicBool>,
}

/// How many events pass between two checks whether to stop: some milliseconds.
const EVENTS_PER_CHECK: u64 = 1 << 16;

impl Simulation {
    /// A machine without programs. The seed determines every random choice.
    pub fn new(machine: Machine, seed: u64) -> Simulation {
        let programs = (0..2 * machine.cpus()).map(|_| None).collect();
        let spinlocks = machine.spinlocks;
        Simulation {
            state: Rc::new(RefCell::new(State::new(machine, seed))),
            programs,
            shared: HashMap::new(),
            spinlocks,
            events: 0,
            stop: Arc::default(),
        }
    }

    /// Sets how long a cache line stays with a CPU that received it, even if others request it. The default is zero.
    pub fn set_min_residency(&mut self, time: Time) {
        self.state.borrow_mut().set_min_residency(time);
    }

    /// Sets the kind of the kernel's spinlocks, for those made from here on. The default is the machine's.
    pub fn use_spinlocks(&mut self, kind: SpinKind) {
        self.spinlocks = kind;
    }

    /// The kind of the kernel's spinlocks.
    pub fn spinlocks(&self) -> SpinKind {
        self.spinlocks
    }

    /// Ends a run with `Failure::Stopped` soon after `stop` is set, for example by another thread.
    pub fn stopped_by(&mut self, stop: &Arc<AtomicBool>) {
        self.stop = Arc::clone(stop);
    }

    /// How many CPUs the machine has.
    pub fn cpus(&self) -> usize {
        self.programs.len() / 2
    }

    /// The machine.
    pub fn machine(&self) -> Machine {
        self.state.borrow().machine.clone()
    }

    /// The architecture of the machine's kernels.
    pub(crate) fn architecture(&self) -> &'static str {
        self.state.borrow().machine.architecture
    }

    /// A cache line in the memory of a node. Lines of the same name are reported together.
    pub fn line(&mut self, name: &str, node: usize) -> LineId {
        self.state.borrow_mut().new_line(name, node)
    }

    /// A word on a cache line. It holds zero.
    pub fn word_on(&mut self, line: LineId) -> Word {
        self.state.borrow_mut().new_word(line)
    }

    /// A word on a cache line of its own.
    pub fn word(&mut self, name: &str, node: usize) -> Word {
        let line = self.line(name, node);
        self.word_on(line)
    }

    /// Sets the initial value of a word.
    pub fn set(&mut self, word: Word, value: u64) {
        self.state.borrow_mut().poke(word, value);
    }

    /// Registers a lock under a name, for statistics and deadlock reports. Every lock does so when it is made.
    pub fn lock_id(&mut self, name: &str) -> LockId {
        self.state.borrow_mut().new_lock(name)
    }

    /// A counter that a design defines.
    pub fn counter(&mut self, name: &str) -> Counter {
        self.state.borrow_mut().new_counter(name)
    }

    /// The one value of a type that everything in this simulation shares. The first call makes it.
    pub(crate) fn shared<T: 'static>(&mut self, new: impl FnOnce(&mut Simulation) -> T) -> Rc<T> {
        let known = self.shared.get(&TypeId::of::<T>()).cloned();
        let shared = known.unwrap_or_else(|| {
            let made: Rc<dyn Any> = Rc::new(new(self));
            self.shared.insert(TypeId::of::<T>(), Rc::clone(&made));
            made
        });
        shared.downcast().expect("stored under its type")
    }

    /// Sets the program of a CPU.
    pub fn program<F: Future<Output = ()> + 'static>(&mut self, cpu: usize, program: impl FnOnce(Cpu) -> F) {
        let id = ContextId::program(cpu);
        self.programs[id.0 as usize] = Some(Box::pin(program(Cpu::new(Rc::clone(&self.state), id))));
        self.state.borrow_mut().start_program(cpu);
    }

    /// Sets the interrupt handler of a CPU: a loop around `cpu.interrupt().await`.
    pub fn handler<F: Future<Output = ()> + 'static>(&mut self, cpu: usize, handler: impl FnOnce(Cpu) -> F) {
        let id = ContextId::handler(cpu);
        self.programs[id.0 as usize] = Some(Box::pin(handler(Cpu::new(Rc::clone(&self.state), id))));
        self.state.borrow_mut().start_handler(cpu);
    }

    /// Lets time pass, and reports where it went. A simulation runs once:
    ///
    /// ```compile_fail
    /// let sim = bigiron_sim::Simulation::new(bigiron_sim::Machine::named("uniform").unwrap(), 1);
    /// sim.run(bigiron_sim::Run::to_the_end());
    /// sim.run(bigiron_sim::Run::to_the_end());
    /// ```
    pub fn run(mut self, run: Run) -> Result<Report, Failure> {
        let warm = run.warmup;
        let end = Time::of_ps(warm.ps().saturating_add(run.duration.ps()));
        self.state.borrow_mut().trace = run.timeline.map(|(from, to)| Trace::new(from, to));
        self.start()?;
        if warm > Time::ZERO {
            self.advance(warm, run.event_budget)?;
        }
        self.state.borrow_mut().open_window();
        let before = self.events;
        self.advance(end, run.event_budget)?;
        let mut state = self.state.borrow_mut();
        state.close_window();
        let elapsed = state.now - warm;
        let trace = state.trace.take();
        Ok(state.report(elapsed, self.events - before, trace))
    }

    /// How many events there have been.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// The failure of a run that does not come to an end.
    pub(crate) fn livelock(&self) -> Failure {
        self.state.borrow().livelock(self.events)
    }

    /// Lets every CPU run until it waits, at time zero.
    pub(crate) fn start(&mut self) -> Result<(), Failure> {
        let shared = Rc::clone(&self.state);
        let mut state = shared.borrow_mut();
        for cpu in 0..self.cpus() {
            state = self.go_on(cpu, &shared, state);
        }
        state.failure.take().map_or(Ok(()), Err)
    }

    /// Lets time pass until `end`.
    pub(crate) fn advance(&mut self, end: Time, event_budget: u64) -> Result<(), Failure> {
        let shared = Rc::clone(&self.state);
        let mut state = shared.borrow_mut();
        // One comparison per event serves both checks: the budget, and whether to stop.
        let mut next_check = event_budget.min(self.events);
        loop {
            let (time, cpu) = state.queue.first();
            if time >= end {
                if time == Time::NEVER {
                    if let Some(failure) = state.stuck(end) {
                        return Err(failure);
                    }
                }
                if end != Time::NEVER {
                    state.now = end;
                }
                return Ok(());
            }
            state.now = time;
            self.events += 1;
            if self.events > next_check {
                if self.events > event_budget {
                    return Err(state.livelock(event_budget));
                }
                if self.stop.load(Ordering::Relaxed) {
                    return Err(Failure::Stopped);
                }
                next_check = event_budget.min(self.events + EVENTS_PER_CHECK);
            }
            if state.event(cpu) {
                state = self.go_on(cpu, &shared, state);
                if let Some(failure) = state.failure.take() {
                    return Err(failure);
                }
            }
        }
    }

    /// Runs the contexts of a CPU until it waits for something that takes time.
    #[inline]
    fn go_on<'a>(
        &mut self,
        cpu: usize,
        shared: &'a RefCell<State>,
        mut state: RefMut<'a, State>,
    ) -> RefMut<'a, State> {
        loop {
            let id = state.running(cpu);
            if let Some(program) = &mut self.programs[id.0 as usize] {
                drop(state);
                let polled = program.as_mut().poll(&mut TaskContext::from_waker(Waker::noop()));
                state = shared.borrow_mut();
                match polled {
                    Poll::Pending => assert!(
                        state.is_waiting(id),
                        "the program of CPU {cpu} awaits something that is no operation of its Cpu"
                    ),
                    Poll::Ready(()) => {
                        assert!(
                            !id.is_handler(),
                            "a handler is a loop around cpu.interrupt(): CPU {cpu}'s has ended"
                        );
                        state.end(id);
                        self.programs[id.0 as usize] = None;
                    }
                }
            }
            if !state.settle(cpu) {
                return state;
            }
        }
    }
}
