//! The engine: takes the earliest event, lets that CPU go on, until time is up.
//!
//! An *event* is one thing taken off the queue: the end of a piece of work, a memory access that is done, the
//! end of a sleep, or an interrupt that arrives. A CPU has one next event at most. It does one thing at a time,
//! in one of two contexts: its program, or its interrupt handler, which goes first.

use std::cell::{RefCell, RefMut};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll, Waker};

use crate::cpu::{Counter, Cpu};
use crate::failure::Failure;
use crate::line::{Line, NOBODY, Traffic};
use crate::locks::QueueNodes;
use crate::machine::Machine;
use crate::queue::Queue;
use crate::random::Random;
use crate::report::{Report, Spent};
use crate::time::Time;
use crate::trace::{Span, Trace};

/// Eight bytes in a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Word(pub(crate) u32);

/// A cache line, to put several words on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LineId(pub(crate) u32);

/// A lock, for its statistics and for reports of deadlocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LockId(pub(crate) u32);

/// What a memory access does to its word; it gives the value from before.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Read,
    Add(u64),
    And(u64),
    Or(u64),
    /// Replaces the bits of the mask.
    Replace {
        mask: u64,
        value: u64,
    },
    CompareExchange {
        old: u64,
        new: u64,
    },
}

/// What interrupts a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Interrupt {
    /// A timer that the CPU had set, with the tag it gave.
    Timer(u64),
    /// A message from another CPU.
    Ipi { from: usize, message: u64 },
}

/// As whose time a CPU's work counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    User,
    Kernel,
    /// In the kernel, waiting in a loop.
    Spin,
}

/// What a context of a CPU is doing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Doing {
    /// Nothing asked for yet, or it has ended.
    Nothing,
    /// What it asked for is done, and it can go on.
    Ready,
    Work(Mode),
    Access {
        word: u32,
        action: Action,
    },
    /// Spins on its own copy of the line, until somebody writes it; then reads the word.
    Watch {
        word: u32,
    },
    /// Was watching when interrupted, and the line has been written since.
    Written {
        word: u32,
    },
    /// Sleeps until it is time or until somebody wakes it.
    Sleep,
    /// Has nothing to do but interrupts, ever.
    Idle,
    /// An interrupt handler waits for the next interrupt.
    AwaitInterrupt,
}

pub(crate) const PROGRAM: usize = 0;
pub(crate) const HANDLER: usize = 1;

pub(crate) struct Context {
    pub doing: Doing,
    /// Since when it does that; the later part of it, where some of it is accounted for.
    start: Time,
    /// When the line began to come, of an access.
    begin: Time,
    /// When it will be done. While the CPU is interrupted: how much is left, of work.
    done: Time,
    pub value: u64,
    next_watcher: u32,
    pub wants: u32,
}

impl Context {
    fn new() -> Context {
        Context {
            doing: Doing::Nothing,
            start: Time::ZERO,
            begin: Time::ZERO,
            done: Time::NEVER,
            value: 0,
            next_watcher: NOBODY,
            wants: NOBODY,
        }
    }
}

pub(crate) struct CpuState {
    pub contexts: [Context; 2],
    /// Which of its contexts runs.
    active: usize,
    pub masked: u32,
    woken: bool,
    arrivals: BinaryHeap<Reverse<(Time, u64, Interrupt)>>,
    /// The time of the first of them.
    next_arrival: Time,
    due: VecDeque<Interrupt>,
    pub random: Random,
    pub spent: Spent,
    pub operations: u64,
}

#[derive(Clone, Copy)]
pub(crate) struct WordState {
    pub line: u32,
    pub value: u64,
}

/// A lock's statistics.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LockTraffic {
    pub acquired: u64,
    pub waiting: Time,
    pub holding: Time,
}

pub(crate) struct LockState {
    pub name: u32,
    /// The context that holds it, twice its CPU's number for the program and one more for the handler.
    pub holder: u32,
    pub readers: u32,
    pub since: Time,
    pub traffic: LockTraffic,
}

pub(crate) struct State {
    pub now: Time,
    pub machine: Machine,
    queue: Queue,
    pub cpus: Vec<CpuState>,
    pub lines: Vec<Line>,
    pub words: Vec<WordState>,
    pub locks: Vec<LockState>,
    pub names: Vec<String>,
    pub counters: Vec<(String, u64)>,
    links: Vec<Time>,
    random: Random,
    pub failure: Option<Failure>,
    arrivals: u64,
    woken: Vec<u32>,
    /// When what is reported began.
    window: Time,
    trace: Option<Trace>,
}

impl State {
    fn new(machine: Machine, seed: u64) -> State {
        let cpus = machine.cpus();
        let cpu = |number: usize| CpuState {
            contexts: [Context::new(), Context::new()],
            active: PROGRAM,
            masked: 0,
            woken: false,
            arrivals: BinaryHeap::new(),
            next_arrival: Time::NEVER,
            due: VecDeque::new(),
            random: Random::new(seed, number as u64 + 2),
            spent: Spent::default(),
            operations: 0,
        };
        State {
            now: Time::ZERO,
            queue: Queue::new(cpus),
            cpus: (0..cpus).map(cpu).collect(),
            lines: Vec::new(),
            words: Vec::new(),
            locks: Vec::new(),
            names: Vec::new(),
            counters: Vec::new(),
            links: vec![Time::ZERO; machine.nodes()],
            machine,
            random: Random::new(seed, 1),
            failure: None,
            arrivals: 0,
            woken: Vec::new(),
            window: Time::ZERO,
            trace: None,
        }
    }

    pub fn name(&mut self, name: &str) -> u32 {
        let known = self.names.iter().position(|known| known == name);
        known.unwrap_or_else(|| {
            self.names.push(name.into());
            self.names.len() - 1
        }) as u32
    }

    /// The context that runs on a CPU asks for something that takes time.
    #[inline]
    fn begin(&mut self, cpu: usize, context: usize) -> &mut Context {
        let now = self.now;
        let asking = &mut self.cpus[cpu].contexts[context];
        assert!(
            matches!(asking.doing, Doing::Nothing | Doing::Ready),
            "CPU {cpu} does one thing at a time, and is asked to do two: await each operation at once"
        );
        asking.start = now;
        asking
    }

    /// Work, sleep or waiting for interrupts, until `done`.
    #[inline]
    pub fn ask(&mut self, cpu: usize, context: usize, doing: Doing, mut done: Time) {
        if matches!(doing, Doing::Sleep) && std::mem::take(&mut self.cpus[cpu].woken) {
            done = self.now;
        }
        let asking = self.begin(cpu, context);
        (asking.doing, asking.done) = (doing, done);
    }

    /// An access of a word's line.
    #[inline]
    pub fn access(&mut self, cpu: usize, context: usize, word: u32, action: Action) {
        self.begin(cpu, context);
        self.bring(cpu, context, word, action);
    }

    #[inline]
    fn bring(&mut self, cpu: usize, context: usize, word: u32, action: Action) {
        let line = &mut self.lines[self.words[word as usize].line as usize];
        let writes = !matches!(action, Action::Read);
        let served = line.access(&self.machine, &mut self.links, cpu, writes, self.now);
        let asking = &mut self.cpus[cpu].contexts[context];
        asking.doing = Doing::Access { word, action };
        asking.begin = served.begin;
        asking.done = served.done;
    }

    /// Waits for a write of the line, unless the word has changed or the copy is gone already; then reads.
    pub fn watch(&mut self, cpu: usize, context: usize, word: u32, seen: u64) {
        self.begin(cpu, context);
        let WordState { line, value } = self.words[word as usize];
        let line = &mut self.lines[line as usize];
        if value != seen || !line.has_copy(cpu) {
            self.bring(cpu, context, word, Action::Read);
            return;
        }
        let asking = &mut self.cpus[cpu].contexts[context];
        asking.doing = Doing::Watch { word };
        asking.done = Time::NEVER;
        asking.next_watcher = line.watchers;
        line.watchers = (2 * cpu + context) as u32;
    }

    #[inline]
    pub fn value(&self, cpu: usize, context: usize) -> u64 {
        self.cpus[cpu].contexts[context].value
    }

    /// The line has been written: everyone who spins on it reads it again, in an order that chance decides.
    fn wake_watchers(&mut self, line: u32) {
        let mut watcher = std::mem::replace(&mut self.lines[line as usize].watchers, NOBODY);
        let mut woken = std::mem::take(&mut self.woken);
        while watcher != NOBODY {
            woken.push(watcher);
            let context = &mut self.cpus[watcher as usize / 2].contexts[watcher as usize % 2];
            watcher = std::mem::replace(&mut context.next_watcher, NOBODY);
        }
        self.random.shuffle(&mut woken);
        for watcher in woken.drain(..) {
            let (cpu, context) = (watcher as usize / 2, watcher as usize % 2);
            let Doing::Watch { word } = self.cpus[cpu].contexts[context].doing else {
                unreachable!("who is on the list watches")
            };
            if self.cpus[cpu].active == context {
                self.account(cpu, context);
                self.cpus[cpu].contexts[context].start = self.now;
                self.bring(cpu, context, word, Action::Read);
                self.schedule(cpu);
            } else {
                self.cpus[cpu].contexts[context].doing = Doing::Written { word };
            }
        }
        self.woken = woken;
    }

    /// Puts the CPU's next event into the queue.
    #[inline]
    fn schedule(&mut self, cpu: usize) {
        let state = &self.cpus[cpu];
        self.queue.set(cpu, state.contexts[state.active].done.min(state.next_arrival));
    }

    /// Deals with the CPU's next event, whose time has come. True if its program or handler can go on.
    #[inline]
    fn event(&mut self, cpu: usize) -> bool {
        if self.cpus[cpu].next_arrival <= self.now {
            self.arrival(cpu);
            return self.interrupt_or_schedule(cpu);
        }
        let active = self.cpus[cpu].active;
        self.account(cpu, active);
        let context = &mut self.cpus[cpu].contexts[active];
        let done = std::mem::replace(&mut context.doing, Doing::Ready);
        if let Doing::Access { word, action } = done {
            self.apply(cpu, active, word, action);
        }
        let state = &self.cpus[cpu];
        if !state.due.is_empty() && active == PROGRAM && state.masked == 0 {
            self.deliver(cpu);
        }
        true
    }

    /// The interrupt that has arrived becomes due.
    fn arrival(&mut self, cpu: usize) {
        let state = &mut self.cpus[cpu];
        let Reverse((_, _, interrupt)) = state.arrivals.pop().expect("it has arrived");
        state.due.push_back(interrupt);
        state.next_arrival = state.arrivals.peek().map_or(Time::NEVER, |Reverse((time, ..))| *time);
    }

    /// Takes a due interrupt at once where the program can be interrupted. True if the handler can go on.
    fn interrupt_or_schedule(&mut self, cpu: usize) -> bool {
        let state = &self.cpus[cpu];
        let program = &state.contexts[PROGRAM];
        let interruptible =
            state.active == PROGRAM && state.masked == 0 && !matches!(program.doing, Doing::Access { .. });
        if !interruptible || state.due.is_empty() {
            self.schedule(cpu);
            return false;
        }
        self.account(cpu, PROGRAM);
        let now = self.now;
        let program = &mut self.cpus[cpu].contexts[PROGRAM];
        if let Doing::Work(_) = program.doing {
            program.done -= now; // what is left of it
        }
        self.deliver(cpu);
        true
    }

    fn deliver(&mut self, cpu: usize) {
        let state = &mut self.cpus[cpu];
        let interrupt = state.due.pop_front().expect("an interrupt is due");
        state.active = HANDLER;
        let handler = &mut state.contexts[HANDLER];
        debug_assert!(matches!(handler.doing, Doing::AwaitInterrupt));
        handler.doing = Doing::Ready;
        handler.start = self.now;
        handler.value = encode(interrupt);
        state.spent.interrupts += 1;
    }

    /// After a context has run as far as it can. True if a context of this CPU can go on at once.
    #[inline]
    fn settle(&mut self, cpu: usize) -> bool {
        let state = &self.cpus[cpu];
        if state.active == HANDLER {
            match state.contexts[HANDLER].doing {
                Doing::AwaitInterrupt if state.due.is_empty() => return self.resume_program(cpu),
                Doing::AwaitInterrupt => {
                    self.deliver(cpu);
                    return true;
                }
                _ => {}
            }
        } else if !state.due.is_empty() {
            return self.interrupt_or_schedule(cpu);
        }
        self.schedule(cpu);
        false
    }

    fn resume_program(&mut self, cpu: usize) -> bool {
        let now = self.now;
        let state = &mut self.cpus[cpu];
        state.active = PROGRAM;
        let program = &mut state.contexts[PROGRAM];
        program.start = now;
        match program.doing {
            Doing::Ready => return true,
            Doing::Work(_) => program.done += now,
            Doing::Sleep => program.done = program.done.max(now),
            Doing::Written { word } => self.bring(cpu, PROGRAM, word, Action::Read),
            _ => {}
        }
        self.schedule(cpu);
        false
    }

    #[inline]
    fn apply(&mut self, cpu: usize, context: usize, word: u32, action: Action) {
        let WordState { line, value } = &mut self.words[word as usize];
        let (line, before) = (*line, *value);
        *value = match action {
            Action::Read => before,
            Action::Replace { mask, value } => before & !mask | value & mask,
            Action::Add(more) => before.wrapping_add(more),
            Action::And(mask) => before & mask,
            Action::Or(mask) => before | mask,
            Action::CompareExchange { old, new } if before == old => new,
            Action::CompareExchange { .. } => before,
        };
        self.cpus[cpu].contexts[context].value = before;
        if !matches!(action, Action::Read) && self.lines[line as usize].watchers != NOBODY {
            self.wake_watchers(line);
        }
    }

    /// Adds the time since the context's start, up to now, to what it was spent on.
    #[inline]
    fn account(&mut self, cpu: usize, context: usize) {
        let now = self.now;
        let state = &mut self.cpus[cpu];
        let Context { doing, start, begin, done, .. } = state.contexts[context];
        let elapsed = now - start;
        let spent = &mut state.spent;
        match doing {
            Doing::Work(Mode::User) => spent.user += elapsed,
            Doing::Work(Mode::Kernel) => spent.work += elapsed,
            Doing::Work(Mode::Spin) => spent.spinning += elapsed,
            Doing::Access { .. } => {
                let served = begin.max(start).min(now);
                spent.queueing += served - start;
                if done - begin <= self.machine.hit {
                    spent.work += now - served;
                } else {
                    spent.transfer += now - served;
                }
            }
            Doing::Watch { .. } => spent.spinning += elapsed,
            Doing::Sleep | Doing::Idle => spent.idle += elapsed,
            Doing::Nothing if context == PROGRAM => spent.idle += elapsed,
            _ => {}
        }
        if context == HANDLER {
            spent.interrupt += elapsed;
        }
        if self.trace.is_some() {
            self.trace_span(cpu, context);
        }
    }

    #[cold]
    fn trace_span(&mut self, cpu: usize, context: usize) {
        let Context { doing, start, begin, .. } = self.cpus[cpu].contexts[context];
        let now = self.now;
        let line_of = |word: u32| {
            let line = &self.lines[self.words[word as usize].line as usize];
            self.names[line.name as usize].clone()
        };
        let (what, line) = match doing {
            Doing::Work(Mode::User) => ("user", String::new()),
            Doing::Work(Mode::Kernel) => ("work", String::new()),
            Doing::Work(Mode::Spin) => ("spin", String::new()),
            Doing::Access { word, .. } => ("transfer", line_of(word)),
            Doing::Watch { word } => ("spin", line_of(word)),
            Doing::Sleep | Doing::Idle | Doing::Nothing => ("idle", String::new()),
            _ => return,
        };
        let interrupt = context == HANDLER;
        let Some(trace) = &mut self.trace else { return };
        let begin = if what == "transfer" { begin.max(start).min(now) } else { start };
        if begin > start {
            trace.add(Span { cpu, what: "queue", line: line.clone(), start, end: begin, interrupt });
        }
        trace.add(Span { cpu, what, line, start: begin, end: now, interrupt });
    }

    /// Wakes a CPU's program `latency` from now; one that is not asleep will not fall asleep next time.
    pub fn wake(&mut self, cpu: usize, at: Time) {
        let state = &mut self.cpus[cpu];
        let program = &mut state.contexts[PROGRAM];
        if !matches!(program.doing, Doing::Sleep) {
            state.woken = true;
            return;
        }
        program.done = program.done.min(at);
        if state.active == PROGRAM {
            self.schedule(cpu);
        }
    }

    /// An interrupt will arrive at a CPU.
    pub fn send(&mut self, cpu: usize, at: Time, interrupt: Interrupt) {
        self.arrivals += 1;
        let state = &mut self.cpus[cpu];
        state.arrivals.push(Reverse((at, self.arrivals, interrupt)));
        state.next_arrival = state.next_arrival.min(at);
        self.schedule(cpu);
    }

    /// Forgets what has been counted so far, and counts from now on.
    fn open_window(&mut self) {
        self.window = self.now;
        for cpu in 0..self.cpus.len() {
            let active = self.cpus[cpu].active;
            self.account(cpu, active);
            let state = &mut self.cpus[cpu];
            state.spent = Spent::default();
            state.operations = 0;
            state.contexts[active].start = self.now;
        }
        for line in &mut self.lines {
            line.traffic = Traffic::default();
        }
        for lock in &mut self.locks {
            lock.traffic = LockTraffic::default();
            lock.since = self.now;
        }
        for (_, count) in &mut self.counters {
            *count = 0;
        }
    }

    /// Accounts for what is still going on.
    fn close_window(&mut self) {
        for cpu in 0..self.cpus.len() {
            let active = self.cpus[cpu].active;
            self.account(cpu, active);
            self.cpus[cpu].contexts[active].start = self.now;
        }
        for lock in &mut self.locks {
            if lock.holder != NOBODY {
                lock.traffic.holding += self.now - lock.since;
                lock.since = self.now;
            }
        }
    }

    /// Whether a context that wants a lock waits for itself in the end. Whoever waits for a program waits for the
    /// handler that interrupts it, too.
    pub fn is_deadlocked(&self, context: u32) -> bool {
        let mut at = context;
        for _ in 0..2 * self.cpus.len() {
            let contexts = &self.cpus[at as usize / 2].contexts;
            let handler = contexts[HANDLER].wants;
            let wants = if at as usize % 2 == HANDLER || handler != NOBODY {
                handler
            } else {
                contexts[PROGRAM].wants
            };
            if wants == NOBODY || self.locks[wants as usize].holder == NOBODY {
                return false;
            }
            at = self.locks[wants as usize].holder;
            if at / 2 == context / 2 && (at == context || context as usize % 2 == HANDLER) {
                return true;
            }
        }
        false
    }

    fn all_are_done(&self) -> bool {
        self.cpus.iter().all(|cpu| matches!(cpu.contexts[PROGRAM].doing, Doing::Nothing | Doing::Idle))
    }
}

/// An interrupt in the one value that an operation gives.
fn encode(interrupt: Interrupt) -> u64 {
    match interrupt {
        Interrupt::Timer(tag) => tag << 1,
        Interrupt::Ipi { from, message } => (message << 17 | from as u64) << 1 | 1,
    }
}

pub(crate) fn decode(value: u64) -> Interrupt {
    match value & 1 {
        0 => Interrupt::Timer(value >> 1),
        _ => Interrupt::Ipi { from: (value >> 1 & 0x1_ffff) as usize, message: value >> 18 },
    }
}

/// For how long to simulate, and what to report of it.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// What happens before this is not reported.
    pub warmup: Time,
    /// For how long to count after that; `Time::NEVER`: until every program has ended.
    pub duration: Time,
    /// After so many events the run fails, as programs may spin for ever.
    pub event_budget: u64,
    /// The part of the run of which to keep a timeline.
    pub timeline: Option<(Time, Time)>,
}

impl Run {
    /// Counts for `duration` after `warmup`, with a budget of ten thousand million events.
    pub fn measuring(warmup: Time, duration: Time) -> Run {
        Run { warmup, duration, event_budget: 10_000_000_000, timeline: None }
    }

    /// Until every program has ended.
    pub fn to_the_end() -> Run {
        Run::measuring(Time::ZERO, Time::NEVER)
    }
}

type Program = Pin<Box<dyn Future<Output = ()>>>;

/// Programs on the CPUs of a machine.
pub struct Simulation {
    state: Rc<RefCell<State>>,
    programs: Vec<[Option<Program>; 2]>,
    queue_nodes: Option<Rc<QueueNodes>>,
    events: u64,
}

impl Simulation {
    /// A machine on which nothing runs yet. The seed determines everything that chance decides.
    pub fn new(machine: Machine, seed: u64) -> Simulation {
        let programs = (0..machine.cpus()).map(|_| [None, None]).collect();
        Simulation {
            state: Rc::new(RefCell::new(State::new(machine, seed))),
            programs,
            queue_nodes: None,
            events: 0,
        }
    }

    /// How many CPUs the machine has.
    pub fn cpus(&self) -> usize {
        self.programs.len()
    }

    /// The machine.
    pub fn machine(&self) -> Machine {
        self.state.borrow().machine.clone()
    }

    /// A cache line of memory of a node. Lines of the same name are reported together.
    pub fn line(&mut self, name: &str, node: usize) -> LineId {
        let mut state = self.state.borrow_mut();
        let name = state.name(name);
        let line = Line::new(&state.machine, node, name);
        state.lines.push(line);
        LineId(state.lines.len() as u32 - 1)
    }

    /// A word on a line; it is zero.
    pub fn word_on(&mut self, line: LineId) -> Word {
        let words = &mut self.state.borrow_mut().words;
        words.push(WordState { line: line.0, value: 0 });
        Word(words.len() as u32 - 1)
    }

    /// A word with a line to itself.
    pub fn word(&mut self, name: &str, node: usize) -> Word {
        let line = self.line(name, node);
        self.word_on(line)
    }

    /// What a word holds now; looking takes no time and is no access.
    pub fn value(&self, word: Word) -> u64 {
        self.state.borrow().words[word.0 as usize].value
    }

    /// Gives a word a value before the simulation starts.
    pub fn set(&mut self, word: Word, value: u64) {
        self.state.borrow_mut().words[word.0 as usize].value = value;
    }

    /// A lock's name, for statistics and for reports of deadlocks: each kind of lock asks for one.
    pub fn lock_id(&mut self, name: &str) -> LockId {
        let mut state = self.state.borrow_mut();
        let name = state.name(name);
        let traffic = LockTraffic::default();
        state.locks.push(LockState { name, holder: NOBODY, readers: 0, since: Time::ZERO, traffic });
        LockId(state.locks.len() as u32 - 1)
    }

    /// A counter of the design's own.
    pub fn counter(&mut self, name: &str) -> Counter {
        let counters = &mut self.state.borrow_mut().counters;
        counters.push((name.into(), 0));
        Counter(counters.len() - 1)
    }

    /// The queue nodes that every CPU has for the queueing spinlocks.
    pub fn queue_nodes(&mut self) -> Rc<QueueNodes> {
        if self.queue_nodes.is_none() {
            self.queue_nodes = Some(Rc::new(QueueNodes::new(self)));
        }
        Rc::clone(self.queue_nodes.as_ref().expect("just made"))
    }

    /// What a CPU does.
    pub fn program<F: Future<Output = ()> + 'static>(&mut self, cpu: usize, program: impl FnOnce(Cpu) -> F) {
        let handle = Cpu::new(Rc::clone(&self.state), cpu, PROGRAM);
        self.programs[cpu][PROGRAM] = Some(Box::pin(program(handle)));
        self.state.borrow_mut().cpus[cpu].contexts[PROGRAM].doing = Doing::Ready;
    }

    /// What a CPU does when it is interrupted: a loop around `cpu.interrupt().await`.
    pub fn handler<F: Future<Output = ()> + 'static>(&mut self, cpu: usize, handler: impl FnOnce(Cpu) -> F) {
        let handle = Cpu::new(Rc::clone(&self.state), cpu, HANDLER);
        self.programs[cpu][HANDLER] = Some(Box::pin(handler(handle)));
        self.state.borrow_mut().cpus[cpu].active = HANDLER;
    }

    /// Lets time pass, and reports where it went.
    pub fn run(&mut self, run: Run) -> Result<Report, Failure> {
        let warm = run.warmup;
        let end = Time::of_ps(warm.ps().saturating_add(run.duration.ps()));
        self.state.borrow_mut().trace = run.timeline.map(|(from, to)| Trace::new(from, to));
        let shared = Rc::clone(&self.state);
        let mut state = shared.borrow_mut();
        for cpu in 0..self.cpus() {
            state = self.go_on(cpu, &shared, state);
        }
        if let Some(failure) = state.failure.take() {
            return Err(failure);
        }
        drop(state);
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
        Ok(Report::new(&state, elapsed, self.events - before, trace))
    }

    fn advance(&mut self, end: Time, event_budget: u64) -> Result<(), Failure> {
        let shared = Rc::clone(&self.state);
        let mut state = shared.borrow_mut();
        loop {
            let (time, cpu) = state.queue.first();
            if time >= end {
                if time == Time::NEVER && !state.all_are_done() {
                    return Err(Failure::deadlock(&state));
                }
                if end != Time::NEVER {
                    state.now = end;
                }
                return Ok(());
            }
            state.now = time;
            self.events += 1;
            if self.events > event_budget {
                return Err(Failure::livelock(&state, event_budget));
            }
            if state.event(cpu) {
                state = self.go_on(cpu, &shared, state);
                if let Some(failure) = state.failure.take() {
                    return Err(failure);
                }
            }
        }
    }

    /// Lets a CPU run until it waits for something that takes time.
    #[inline]
    fn go_on<'a>(
        &mut self,
        cpu: usize,
        shared: &'a RefCell<State>,
        mut state: RefMut<'a, State>,
    ) -> RefMut<'a, State> {
        loop {
            let active = state.cpus[cpu].active;
            if let Some(program) = &mut self.programs[cpu][active] {
                drop(state);
                let polled = program.as_mut().poll(&mut TaskContext::from_waker(Waker::noop()));
                state = shared.borrow_mut();
                let context = &mut state.cpus[cpu].contexts[active];
                match polled {
                    Poll::Pending => assert!(
                        !matches!(context.doing, Doing::Nothing | Doing::Ready),
                        "the program of CPU {cpu} awaits something that is no operation of its Cpu"
                    ),
                    Poll::Ready(()) => {
                        assert!(
                            active == PROGRAM,
                            "a handler is a loop around cpu.interrupt(): CPU {cpu}'s has ended"
                        );
                        (context.doing, context.done) = (Doing::Nothing, Time::NEVER);
                        self.programs[cpu][active] = None;
                    }
                }
            }
            if !state.settle(cpu) {
                return state;
            }
        }
    }
}
