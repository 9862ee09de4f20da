//! The engine: takes the earliest event, lets that CPU go on, until time is up.
//!
//! An *event* is one thing taken off the queue: the end of a piece of work, a memory access that is done, a write
//! that leaves the store buffer, the end of a sleep, or an interrupt that arrives. A CPU has one next event at most. It does one thing at a time,
//! in one of two contexts: its program, or its interrupt handler, which goes first.

use std::cell::{RefCell, RefMut};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as TaskContext, Poll, Waker};

use crate::cpu::{Counter, Cpu};
use crate::failure::Failure;
use crate::line::{Line, NOBODY, Served, Traffic};
use crate::locks::{QueueNodes, SpinKind};
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

/// What a memory access does to its word, with one operand or two; it gives the value from before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Read,
    Add,
    And,
    Or,
    /// Replaces the bits of the second operand.
    Replace,
    /// Writes the second operand if the word holds the first.
    CompareExchange,
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
    Access(Action),
    /// Waits until its stores have arrived.
    Drain(Drained),
    /// Waits for a place in the store buffer, for one store more.
    Store,
    /// Spins on its own copy of the line, until somebody writes it; then reads the word.
    Watch,
    /// Was watching when interrupted, and the line has been written since.
    Written,
    /// Sleeps until it is time or until somebody wakes it.
    Sleep,
    /// Has nothing to do but interrupts, ever.
    Idle,
    /// An interrupt handler waits for the next interrupt.
    AwaitInterrupt,
}

/// What comes when the stores of a CPU have arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Drained {
    /// A fence is done.
    Fence,
    /// An atomic access asks for its line.
    Ask(Action),
    /// An atomic access is done at once, as a store has brought its line.
    Hit(Action),
}

/// A context's number: twice its CPU's for the program, and one more for the handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContextId(pub u32);

impl ContextId {
    pub fn program(cpu: usize) -> ContextId {
        ContextId(2 * cpu as u32)
    }

    pub fn handler(cpu: usize) -> ContextId {
        ContextId(2 * cpu as u32 + 1)
    }

    #[inline]
    pub fn cpu(self) -> usize {
        self.0 as usize / 2
    }

    #[inline]
    pub fn is_handler(self) -> bool {
        self.0 % 2 == 1
    }
}

/// One cache line of this machine, as the next event's is seldom near the last one's.
#[repr(align(64))]
pub(crate) struct Context {
    /// Since when it does that; the later part of it, where some of it is accounted for.
    start: Time,
    /// When the line began to come, of an access.
    begin: Time,
    /// When it will be done. While the CPU is interrupted: how much is left, of work.
    done: Time,
    /// Of an access; the first is the value from before when it is done.
    operands: [u64; 2],
    pub word: u32,
    next_watcher: u32,
    /// The lock it waits for.
    pub wants: u32,
    pub doing: Doing,
}

impl Context {
    fn new() -> Context {
        Context {
            start: Time::ZERO,
            begin: Time::ZERO,
            done: Time::NEVER,
            operands: [0; 2],
            word: 0,
            next_watcher: NOBODY,
            wants: NOBODY,
            doing: Doing::Nothing,
        }
    }
}

/// What every event of a CPU needs: one cache line of this machine, too.
#[repr(align(64))]
pub(crate) struct CpuState {
    pub spent: Spent,
    /// When the first of its interrupts and of its stores arrives.
    next_arrival: Time,
    pub masked: u32,
    /// Whether its handler runs, and not its program.
    interrupted: bool,
    /// An interrupt has arrived and waits.
    is_due: bool,
    woken: bool,
    /// Its store buffer is not empty.
    pub is_storing: bool,
}

/// A write on its way from a CPU's store buffer to the line. They arrive in the order of the program.
#[derive(Clone, Copy)]
struct Store {
    done: Time,
    word: u32,
    value: u64,
    mask: u64,
    /// Its line came earlier, and others may have taken it while this store waited for those to other lines before it.
    is_late: bool,
}

/// A line that a CPU got, when it had come, and whether to write it.
#[derive(Clone, Copy, Default)]
struct Got {
    line: u32,
    done: Time,
    written: bool,
}

/// How many lines a CPU keeps.
const GOT: usize = 4;

/// The interrupts of a CPU.
#[derive(Default)]
pub(crate) struct Interrupts {
    arrivals: BinaryHeap<Reverse<(Time, u64, Interrupt)>>,
    due: VecDeque<Interrupt>,
    /// How much time its handler took, and how often.
    pub time: Time,
    pub taken: u64,
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
    /// The context that holds it.
    pub holder: u32,
    pub readers: u32,
    pub since: Time,
    pub traffic: LockTraffic,
}

pub(crate) struct State {
    pub now: Time,
    pub machine: Machine,
    queue: Queue,
    pub contexts: Vec<Context>,
    pub cpus: Vec<CpuState>,
    pub interrupts: Vec<Interrupts>,
    stores: Vec<VecDeque<Store>>,
    pub randoms: Vec<Random>,
    pub operations: Vec<u64>,
    pub lines: Vec<Line>,
    pub words: Vec<WordState>,
    pub locks: Vec<LockState>,
    pub names: Vec<String>,
    pub counters: Vec<(String, u64)>,
    links: Vec<Time>,
    /// For how long a CPU keeps a line that it has got, whoever has asked for it since.
    pub kept: Time,
    /// The lines that each CPU got last, where it keeps them for some time.
    got: Vec<[Got; GOT]>,
    random: Random,
    pub failure: Option<Failure>,
    arrivals: u64,
    woken: Vec<ContextId>,
    trace: Option<Trace>,
}

impl State {
    fn new(machine: Machine, seed: u64) -> State {
        let cpus = machine.cpus();
        let cpu = |_| CpuState {
            spent: Spent::default(),
            next_arrival: Time::NEVER,
            masked: 0,
            interrupted: false,
            is_due: false,
            woken: false,
            is_storing: false,
        };
        State {
            now: Time::ZERO,
            queue: Queue::new(cpus),
            contexts: (0..2 * cpus).map(|_| Context::new()).collect(),
            cpus: (0..cpus).map(cpu).collect(),
            interrupts: (0..cpus).map(|_| Interrupts::default()).collect(),
            stores: (0..cpus).map(|_| VecDeque::new()).collect(),
            randoms: (0..cpus as u64).map(|cpu| Random::new(seed, cpu + 2)).collect(),
            operations: vec![0; cpus],
            lines: Vec::new(),
            words: Vec::new(),
            locks: Vec::new(),
            names: Vec::new(),
            counters: Vec::new(),
            links: vec![Time::ZERO; machine.nodes()],
            kept: Time::ZERO,
            got: Vec::new(),
            machine,
            random: Random::new(seed, 1),
            failure: None,
            arrivals: 0,
            woken: Vec::new(),
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

    /// The context that runs on a CPU.
    #[inline]
    fn running(&self, cpu: usize) -> ContextId {
        ContextId(2 * cpu as u32 + u32::from(self.cpus[cpu].interrupted))
    }

    #[inline]
    pub fn context(&mut self, id: ContextId) -> &mut Context {
        &mut self.contexts[id.0 as usize]
    }

    /// A context, which is the one that runs on its CPU, asks for something that takes time.
    #[inline]
    fn begin(&mut self, id: ContextId) -> &mut Context {
        let now = self.now;
        let asking = self.context(id);
        assert!(
            matches!(asking.doing, Doing::Nothing | Doing::Ready),
            "CPU {} does one thing at a time, and is asked to do two: await each operation at once",
            id.cpu()
        );
        asking.start = now;
        asking
    }

    /// Work, sleep or waiting for interrupts, until `done`.
    #[inline]
    pub fn ask(&mut self, id: ContextId, doing: Doing, mut done: Time) {
        if matches!(doing, Doing::Sleep) && std::mem::take(&mut self.cpus[id.cpu()].woken) {
            done = self.now;
        }
        let asking = self.begin(id);
        (asking.doing, asking.done) = (doing, done);
    }

    /// An access of a word's line.
    #[inline]
    pub fn access(&mut self, id: ContextId, word: u32, action: Action, operands: [u64; 2]) {
        let asking = self.begin(id);
        asking.word = word;
        asking.operands = operands;
        self.bring(id, word, action);
    }

    /// Asks for a word's line. An atomic access waits for the stores before it, and does not ask before that: unless a
    /// store has asked for the same line.
    #[inline]
    fn bring(&mut self, id: ContextId, word: u32, action: Action) {
        let (now, writes) = (self.now, action != Action::Read);
        if writes && self.cpus[id.cpu()].is_storing {
            let line = &self.lines[self.words[word as usize].line as usize];
            let is_coming = line.is_owned_by(id.cpu());
            return self.drain(id, if is_coming { Drained::Hit(action) } else { Drained::Ask(action) });
        }
        let served = self.serve(id.cpu(), word, writes, now);
        let asking = self.context(id);
        asking.doing = Doing::Access(action);
        asking.begin = served.begin;
        asking.done = served.done;
    }

    fn drain(&mut self, id: ContextId, then: Drained) {
        let done = self.drained(id.cpu());
        let waiting = self.context(id);
        (waiting.doing, waiting.done) = (Doing::Drain(then), done);
    }

    /// A context waits until all its CPU's writes are visible to others.
    pub fn fence(&mut self, id: ContextId) {
        self.begin(id);
        self.drain(id, Drained::Fence);
    }

    /// When a word's line has come. A line that the CPU got just before is still there: what a core does with a line in
    /// quick succession, it does before it gives it away.
    #[inline]
    fn serve(&mut self, cpu: usize, word: u32, writes: bool, since: Time) -> Served {
        let number = self.words[word as usize].line;
        let hit = self.machine.hit;
        if self.kept == Time::ZERO {
            return self.lines[number as usize].access(&self.machine, &mut self.links, cpu, writes, since);
        }
        let kept = self.kept;
        let is_kept = |got: &Got| {
            got.line == number && got.done <= since && since <= got.done + kept && (got.written || !writes)
        };
        if self.got[cpu].iter().any(is_kept) {
            return Served { begin: since, done: since + hit };
        }
        let served = self.lines[number as usize].access(&self.machine, &mut self.links, cpu, writes, since);
        if served.done > since + hit {
            let recent = &mut self.got[cpu];
            recent.rotate_right(1);
            recent[0] = Got { line: number, done: served.done, written: writes };
        }
        served
    }

    /// Brings a line to read without waiting for it; when it will have come.
    pub fn prefetch(&mut self, cpu: usize, word: u32) -> Time {
        let now = self.now;
        self.serve(cpu, word, false, now).done
    }

    /// Brings a line to write it later. Who spins on a copy of it has none any more, and reads it again.
    pub fn prefetch_to_write(&mut self, cpu: usize, word: u32) {
        let (now, line) = (self.now, self.words[word as usize].line);
        self.serve(cpu, word, true, now);
        if self.lines[line as usize].watchers != NOBODY {
            self.wake_watchers(line);
        }
    }

    /// When the CPU's stores that are on their way have arrived: an atomic access waits for them.
    #[inline]
    pub fn drained(&self, cpu: usize) -> Time {
        if !self.cpus[cpu].is_storing {
            return self.now;
        }
        self.stores[cpu].back().map_or(self.now, |last| last.done)
    }

    /// A plain write: the CPU goes on as soon as it is in the store buffer.
    pub fn store(&mut self, id: ContextId, word: u32, value: u64, mask: u64) {
        let asking = self.begin(id);
        asking.word = word;
        asking.operands = [value, mask];
        self.store_when_there_is_a_place(id);
    }

    fn store_when_there_is_a_place(&mut self, id: ContextId) {
        let (now, cpu, hit) = (self.now, id.cpu(), self.machine.hit);
        if self.stores[cpu].len() >= self.machine.store_buffer {
            let done = self.stores[cpu][0].done;
            let waiting = self.context(id);
            (waiting.doing, waiting.done) = (Doing::Store, done);
            return;
        }
        let before = self.drained(cpu);
        let word = self.context(id).word;
        let served = self.serve(cpu, word, true, now);
        let storing = self.context(id);
        if served.done == now + hit && before == now {
            storing.doing = Doing::Access(Action::Replace);
            storing.begin = served.begin;
            storing.done = served.done;
            return;
        }
        (storing.doing, storing.done) = (Doing::Work(Mode::Kernel), now + hit);
        let [value, mask] = storing.operands;
        let done = served.done.max(before);
        let state = &mut self.cpus[cpu];
        state.is_storing = true;
        state.next_arrival = state.next_arrival.min(done);
        let last = self.stores[cpu].back().map(|last| self.words[last.word as usize].line);
        let is_late = before > served.done && last != Some(self.words[word as usize].line);
        self.stores[cpu].push_back(Store { done, word, value, mask, is_late });
    }

    /// The first of a CPU's stores arrives, if its time has come.
    fn store_arrives(&mut self, cpu: usize) -> bool {
        let Some(first) = self.stores[cpu].front().filter(|first| first.done <= self.now) else {
            return false;
        };
        let Store { word, value, mask, is_late, .. } = *first;
        let WordState { line, value: before } = self.words[word as usize];
        if is_late && !self.lines[line as usize].is_owned_by(cpu) {
            self.store_again(cpu, word);
            return true;
        }
        self.stores[cpu].pop_front();
        self.cpus[cpu].is_storing = !self.stores[cpu].is_empty();
        self.set_next_arrival(cpu);
        self.words[word as usize].value = before & !mask | value & mask;
        if self.lines[line as usize].watchers != NOBODY {
            self.wake_watchers(line);
        }
        true
    }

    /// The first of a CPU's stores asks for its line once more, and those behind it wait for that.
    fn store_again(&mut self, cpu: usize, word: u32) {
        let now = self.now;
        let done = self.serve(cpu, word, true, now).done;
        let mut last = self.words[word as usize].line;
        for store in &mut self.stores[cpu] {
            let line = self.words[store.word as usize].line;
            if store.done < done {
                (store.done, store.is_late) = (done, line != last);
            }
            last = line;
        }
        self.set_next_arrival(cpu);
    }

    fn set_next_arrival(&mut self, cpu: usize) {
        let interrupt = self.interrupts[cpu].arrivals.peek().map_or(Time::NEVER, |Reverse((time, ..))| *time);
        let store = self.stores[cpu].front().map_or(Time::NEVER, |first| first.done);
        self.cpus[cpu].next_arrival = interrupt.min(store);
    }

    /// Waits for a write of the line, unless the word has changed or the copy is gone already; then reads.
    pub fn watch(&mut self, id: ContextId, word: u32, seen: u64) {
        self.begin(id).word = word;
        let WordState { line, value } = self.words[word as usize];
        let line = &mut self.lines[line as usize];
        if value != seen || !line.has_copy(id.cpu()) {
            self.bring(id, word, Action::Read);
            return;
        }
        let asking = &mut self.contexts[id.0 as usize];
        asking.doing = Doing::Watch;
        asking.done = Time::NEVER;
        asking.next_watcher = line.watchers;
        line.watchers = id.0;
    }

    /// What its last access gave.
    #[inline]
    pub fn value(&self, id: ContextId) -> u64 {
        self.contexts[id.0 as usize].operands[0]
    }

    /// The line has been written: everyone who spins on it reads it again, in an order that chance decides.
    fn wake_watchers(&mut self, line: u32) {
        let mut watcher = std::mem::replace(&mut self.lines[line as usize].watchers, NOBODY);
        let mut woken = std::mem::take(&mut self.woken);
        while watcher != NOBODY {
            let id = ContextId(watcher);
            woken.push(id);
            watcher = std::mem::replace(&mut self.context(id).next_watcher, NOBODY);
        }
        self.random.shuffle(&mut woken);
        for id in woken.drain(..) {
            if self.running(id.cpu()) == id {
                self.account(id);
                let now = self.now;
                let context = self.context(id);
                context.start = now;
                let word = context.word;
                self.bring(id, word, Action::Read);
                self.schedule(id.cpu());
            } else {
                self.context(id).doing = Doing::Written;
            }
        }
        self.woken = woken;
    }

    /// Puts the CPU's next event into the queue.
    #[inline]
    fn schedule(&mut self, cpu: usize) {
        let done = self.contexts[self.running(cpu).0 as usize].done;
        self.queue.set(cpu, done.min(self.cpus[cpu].next_arrival));
    }

    /// Deals with the CPU's next event, whose time has come. True if its program or handler can go on.
    #[inline]
    fn event(&mut self, cpu: usize) -> bool {
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

    /// Whether a context waits on that has waited for stores which have arrived now: for its line, or for stores that
    /// had to ask again.
    fn waits_after_stores(&mut self, id: ContextId, waiting: Doing) -> bool {
        if !matches!(waiting, Doing::Drain(_) | Doing::Store) {
            return false;
        }
        let (now, hit) = (self.now, self.machine.hit);
        let is_storing = self.cpus[id.cpu()].is_storing;
        let context = self.context(id);
        context.start = now;
        let word = context.word;
        match waiting {
            Doing::Store => self.store_when_there_is_a_place(id),
            Doing::Drain(then) if is_storing => self.drain(id, then),
            Doing::Drain(Drained::Ask(action)) => self.bring(id, word, action),
            Doing::Drain(Drained::Hit(action)) => {
                (context.doing, context.begin, context.done) = (Doing::Access(action), now, now + hit);
            }
            _ => return false,
        }
        true
    }

    /// The interrupt that has arrived becomes due.
    fn arrival(&mut self, cpu: usize) {
        let interrupts = &mut self.interrupts[cpu];
        let Reverse((_, _, interrupt)) = interrupts.arrivals.pop().expect("it has arrived");
        interrupts.due.push_back(interrupt);
        self.cpus[cpu].is_due = true;
        self.set_next_arrival(cpu);
    }

    /// Takes a due interrupt at once where the program can be interrupted. True if the handler can go on.
    fn interrupt_or_schedule(&mut self, cpu: usize) -> bool {
        let (now, id, state) = (self.now, ContextId::program(cpu), &self.cpus[cpu]);
        let busy =
            matches!(self.contexts[id.0 as usize].doing, Doing::Access(_) | Doing::Drain(_) | Doing::Store);
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

    fn deliver(&mut self, cpu: usize) {
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

    /// After a context has run as far as it can. True if a context of this CPU can go on at once.
    #[inline]
    fn settle(&mut self, cpu: usize) -> bool {
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

    fn resume_program(&mut self, cpu: usize) -> bool {
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
                self.bring(id, word, Action::Read);
            }
            _ => {}
        }
        self.schedule(cpu);
        false
    }

    #[inline]
    fn apply(&mut self, id: ContextId, action: Action) {
        let Context { operands: [first, second], word, .. } = self.contexts[id.0 as usize];
        let WordState { line, value } = &mut self.words[word as usize];
        let (line, mut before) = (*line, *value);
        if self.cpus[id.cpu()].is_storing {
            // A CPU sees its own stores before the others do. An atomic access comes after them all.
            for store in self.stores[id.cpu()].iter().filter(|store| store.word == word) {
                before = before & !store.mask | store.value & store.mask;
            }
        }
        *value = match action {
            Action::Read => *value,
            Action::Add => before.wrapping_add(first),
            Action::And => before & first,
            Action::Or => before | first,
            Action::Replace => before & !second | first & second,
            Action::CompareExchange if before == first => second,
            Action::CompareExchange => before,
        };
        self.context(id).operands[0] = before;
        if action != Action::Read && self.lines[line as usize].watchers != NOBODY {
            self.wake_watchers(line);
        }
    }

    /// Adds the time since the context's start, up to now, to what it was spent on.
    #[inline]
    fn account(&mut self, id: ContextId) {
        let now = self.now;
        let Context { doing, start, begin, done, .. } = self.contexts[id.0 as usize];
        let elapsed = now - start;
        let spent = &mut self.cpus[id.cpu()].spent;
        match doing {
            Doing::Work(Mode::User) => spent.user += elapsed,
            Doing::Work(Mode::Kernel) => spent.work += elapsed,
            Doing::Work(Mode::Spin) | Doing::Watch => spent.spinning += elapsed,
            Doing::Access(_) => {
                let served = begin.max(start).min(now);
                spent.queueing += served - start;
                if done - begin <= self.machine.hit {
                    spent.work += now - served;
                } else {
                    spent.transfer += now - served;
                }
            }
            Doing::Drain(_) | Doing::Store => spent.transfer += elapsed,
            Doing::Sleep | Doing::Idle => spent.idle += elapsed,
            Doing::Nothing if !id.is_handler() => spent.idle += elapsed,
            _ => {}
        }
        if id.is_handler() {
            self.interrupts[id.cpu()].time += elapsed;
        }
        if self.trace.is_some() {
            self.trace_span(id);
        }
    }

    #[cold]
    fn trace_span(&mut self, id: ContextId) {
        let Context { doing, start, begin, word, .. } = self.contexts[id.0 as usize];
        let now = self.now;
        let what = match doing {
            Doing::Work(Mode::User) => "user",
            Doing::Work(Mode::Kernel) => "work",
            Doing::Work(Mode::Spin) | Doing::Watch => "spin",
            Doing::Access(_) => "transfer",
            Doing::Drain(_) | Doing::Store => "stores",
            Doing::Sleep | Doing::Idle | Doing::Nothing => "idle",
            _ => return,
        };
        let line = match doing {
            Doing::Access(_) | Doing::Watch => {
                let line = &self.lines[self.words[word as usize].line as usize];
                self.names[line.name as usize].clone()
            }
            _ => String::new(),
        };
        let (cpu, interrupt) = (id.cpu(), id.is_handler());
        let Some(trace) = &mut self.trace else { return };
        let begin = if what == "transfer" { begin.max(start).min(now) } else { start };
        if begin > start {
            trace.add(Span { cpu, what: "queue", line: line.clone(), start, end: begin, interrupt });
        }
        trace.add(Span { cpu, what, line, start: begin, end: now, interrupt });
    }

    /// Wakes a CPU's program at a time; one that is not asleep will not fall asleep next time.
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

    /// An interrupt will arrive at a CPU.
    pub fn send(&mut self, cpu: usize, at: Time, interrupt: Interrupt) {
        self.arrivals += 1;
        self.interrupts[cpu].arrivals.push(Reverse((at, self.arrivals, interrupt)));
        let next = &mut self.cpus[cpu].next_arrival;
        *next = at.min(*next);
        self.schedule(cpu);
    }

    /// Forgets what has been counted so far, and counts from now on.
    fn open_window(&mut self) {
        self.close_window();
        for cpu in 0..self.cpus.len() {
            self.cpus[cpu].spent = Spent::default();
            self.interrupts[cpu].time = Time::ZERO;
            self.interrupts[cpu].taken = 0;
        }
        self.operations.fill(0);
        for line in &mut self.lines {
            line.traffic = Traffic::default();
        }
        for lock in &mut self.locks {
            lock.traffic = LockTraffic::default();
        }
        for (_, count) in &mut self.counters {
            *count = 0;
        }
    }

    /// Accounts for what is still going on.
    fn close_window(&mut self) {
        for cpu in 0..self.cpus.len() {
            let id = self.running(cpu);
            self.account(id);
            self.contexts[id.0 as usize].start = self.now;
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
    pub fn is_deadlocked(&self, id: ContextId) -> bool {
        let mut at = id;
        for _ in 0..self.contexts.len() {
            let wants = |id: ContextId| self.contexts[id.0 as usize].wants;
            let handler = wants(ContextId::handler(at.cpu()));
            let lock = if at.is_handler() || handler != NOBODY { handler } else { wants(at) };
            if lock == NOBODY || self.locks[lock as usize].holder == NOBODY {
                return false;
            }
            at = ContextId(self.locks[lock as usize].holder);
            if at == id || id.is_handler() && at.cpu() == id.cpu() {
                return true;
            }
        }
        false
    }

    fn all_are_done(&self) -> bool {
        let mut programs = self.contexts.iter().step_by(2);
        programs.all(|program| matches!(program.doing, Doing::Nothing | Doing::Idle))
    }

    /// Where no event is left: whether that is as a program is busy for longer than there is time.
    fn outlasts_time(&self) -> bool {
        self.contexts.iter().any(|context| matches!(context.doing, Doing::Work(_)))
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
    /// By the context's number.
    programs: Vec<Option<Program>>,
    queue_nodes: Option<Rc<QueueNodes>>,
    spinlocks: SpinKind,
    events: u64,
    stop: Arc<AtomicBool>,
}

/// How many events pass before anybody looks whether to stop: some milliseconds' worth.
const LOOK_EVENTS: u64 = 1 << 16;

impl Simulation {
    /// A machine on which nothing runs yet. The seed determines everything that chance decides.
    pub fn new(machine: Machine, seed: u64) -> Simulation {
        let programs = (0..2 * machine.cpus()).map(|_| None).collect();
        let spinlocks = machine.spinlocks;
        Simulation {
            state: Rc::new(RefCell::new(State::new(machine, seed))),
            programs,
            queue_nodes: None,
            spinlocks,
            events: 0,
            stop: Arc::default(),
        }
    }

    /// A CPU keeps a line that it has got for so long, whoever else wants it; unless this is asked for, no time.
    pub fn keep_lines(&mut self, time: Time) {
        let mut state = self.state.borrow_mut();
        state.kept = time;
        state.got = vec![[Got::default(); GOT]; state.cpus.len()];
    }

    /// What the kernel's spinlocks are: those of the machine, unless this says otherwise before they are made.
    pub fn use_spinlocks(&mut self, kind: SpinKind) {
        self.spinlocks = kind;
    }

    /// What the kernel's spinlocks are.
    pub fn spinlocks(&self) -> SpinKind {
        self.spinlocks
    }

    /// Ends a run with `Failure::Stopped` soon after this is set, be it by another thread.
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
        let id = ContextId::program(cpu);
        self.programs[id.0 as usize] = Some(Box::pin(program(Cpu::new(Rc::clone(&self.state), id))));
        self.state.borrow_mut().context(id).doing = Doing::Ready;
    }

    /// What a CPU does when it is interrupted: a loop around `cpu.interrupt().await`.
    pub fn handler<F: Future<Output = ()> + 'static>(&mut self, cpu: usize, handler: impl FnOnce(Cpu) -> F) {
        let id = ContextId::handler(cpu);
        self.programs[id.0 as usize] = Some(Box::pin(handler(Cpu::new(Rc::clone(&self.state), id))));
        self.state.borrow_mut().cpus[cpu].interrupted = true; // until it awaits the first interrupt
    }

    /// Lets time pass, and reports where it went. That is all there is to a simulation: it cannot go on.
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

    /// Lets time pass in steps until `is_warm`, from then on until `is_done`; both are told how many events there were,
    /// since the start and since `on_warm`. At most so many steps and events. How long that was, and how many events it
    /// had.
    pub(crate) fn run_in_steps(
        &mut self,
        step: Time,
        (most_steps, event_budget): (u64, u64),
        is_warm: impl Fn(u64) -> bool,
        on_warm: impl Fn(),
        is_done: impl Fn(u64) -> bool,
    ) -> Result<(Time, u64), Failure> {
        let shared = Rc::clone(&self.state);
        let mut state = shared.borrow_mut();
        for cpu in 0..self.cpus() {
            state = self.go_on(cpu, &shared, state);
        }
        drop(state);
        let (mut now, mut warm) = (Time::ZERO, None);
        for _ in 0..most_steps {
            now += step;
            self.advance(now, event_budget)?;
            match warm {
                None if is_warm(self.events) => {
                    on_warm();
                    warm = Some((now, self.events));
                }
                Some((since, before)) if is_done(self.events - before) => {
                    return Ok((now - since, self.events - before));
                }
                _ => {}
            }
        }
        Err(Failure::livelock(&self.state.borrow(), self.events))
    }

    fn advance(&mut self, end: Time, event_budget: u64) -> Result<(), Failure> {
        let shared = Rc::clone(&self.state);
        let mut state = shared.borrow_mut();
        // One comparison an event is for both: the budget, and whether to stop.
        let mut look = event_budget.min(self.events);
        loop {
            let (time, cpu) = state.queue.first();
            if time >= end {
                if time == Time::NEVER && !state.all_are_done() {
                    if !state.outlasts_time() {
                        return Err(Failure::deadlock(&state));
                    }
                    if end == Time::NEVER {
                        return Err(Failure::endless(&state));
                    }
                }
                if end != Time::NEVER {
                    state.now = end;
                }
                return Ok(());
            }
            state.now = time;
            self.events += 1;
            if self.events > look {
                if self.events > event_budget {
                    return Err(Failure::livelock(&state, event_budget));
                }
                if self.stop.load(Ordering::Relaxed) {
                    return Err(Failure::Stopped);
                }
                look = event_budget.min(self.events + LOOK_EVENTS);
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
            let id = state.running(cpu);
            if let Some(program) = &mut self.programs[id.0 as usize] {
                drop(state);
                let polled = program.as_mut().poll(&mut TaskContext::from_waker(Waker::noop()));
                state = shared.borrow_mut();
                let context = state.context(id);
                match polled {
                    Poll::Pending => assert!(
                        !matches!(context.doing, Doing::Nothing | Doing::Ready),
                        "the program of CPU {cpu} awaits something that is no operation of its Cpu"
                    ),
                    Poll::Ready(()) => {
                        assert!(
                            !id.is_handler(),
                            "a handler is a loop around cpu.interrupt(): CPU {cpu}'s has ended"
                        );
                        (context.doing, context.done) = (Doing::Nothing, Time::NEVER);
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
