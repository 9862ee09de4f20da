//! The state of a simulated machine.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::engine::context::{Action, Context, Doing};
use crate::engine::ids::{ContextId, Counter, Interrupt, LineId, LockId, Word};
use crate::failure::Failure;
use crate::line::{Line, NO_ID};
use crate::machine::Machine;
use crate::queue::Queue;
use crate::random::Random;
use crate::report::Spent;
use crate::time::Time;
use crate::trace::Trace;

/// What every event of a CPU needs. It fills one cache line of the host.
#[repr(align(64))]
pub(crate) struct CpuState {
    pub spent: Spent,
    /// When the first of its interrupts and stores arrives.
    pub next_arrival: Time,
    /// How often interrupts are disabled.
    pub masked: u32,
    /// Its handler runs, and not its program.
    pub interrupted: bool,
    /// An interrupt has arrived and waits.
    pub is_due: bool,
    /// A wakeup came while its program was awake.
    pub woken: bool,
    /// Its store buffer is not empty.
    pub is_storing: bool,
}

/// A store in a CPU's store buffer, or an addition without a result. They arrive in program order.
#[derive(Clone, Copy)]
pub(super) struct Store {
    pub done: Time,
    pub word: u32,
    pub action: Action,
    pub operands: [u64; 2],
    /// The cache line's home does it: the line does not come.
    pub at_home: bool,
    /// Its cache line came before the stores ahead of it had arrived: another CPU may have taken the line since.
    pub is_late: bool,
}

/// A cache line that a CPU received recently.
#[derive(Clone, Copy, Default)]
pub(super) struct RecentFill {
    pub line: u32,
    pub done: Time,
    /// It was brought to be written.
    pub written: bool,
}

/// How many recent fills of a CPU are remembered.
const RECENT_FILLS: usize = 4;

/// The interrupts of a CPU.
#[derive(Default)]
pub(super) struct Interrupts {
    pub arrivals: BinaryHeap<Reverse<(Time, u64, Interrupt)>>,
    pub due: VecDeque<Interrupt>,
    /// How much time its handler took.
    pub time: Time,
    /// How many interrupts it handled.
    pub taken: u64,
}

#[derive(Clone, Copy)]
pub(super) struct WordState {
    pub line: u32,
    pub value: u64,
}

/// A lock's statistics.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LockTraffic {
    pub acquired: u64,
    pub waiting: Time,
    pub holding: Time,
}

pub(super) struct LockState {
    pub name: u32,
    /// The context that holds it exclusively.
    pub holder: u32,
    pub readers: u32,
    pub since: Time,
    pub traffic: LockTraffic,
}

pub(crate) struct State {
    pub now: Time,
    pub machine: Machine,
    pub queue: Queue,
    pub failure: Option<Failure>,
    pub trace: Option<Trace>,
    pub(super) contexts: Vec<Context>,
    pub(super) cpus: Vec<CpuState>,
    pub(super) interrupts: Vec<Interrupts>,
    /// The store buffer of each CPU.
    pub(super) stores: Vec<VecDeque<Store>>,
    pub(super) randoms: Vec<Random>,
    pub(super) operations: Vec<u64>,
    pub(super) lines: Vec<Line>,
    pub(super) words: Vec<WordState>,
    pub(super) locks: Vec<LockState>,
    pub(super) names: Vec<String>,
    pub(super) counters: Vec<(String, u64)>,
    /// When the link of each node is free.
    pub(super) links: Vec<Time>,
    /// How long a cache line stays with a CPU that received it, even if others request it.
    pub(super) min_residency: Time,
    /// The recent fills of each CPU; empty without a minimum residency.
    pub(super) recent_fills: Vec<[RecentFill; RECENT_FILLS]>,
    pub(super) random: Random,
    /// How many interrupts were sent: a number for each, so that those of one moment arrive in order.
    pub(super) arrivals: u64,
    /// Memory for `wake_watchers`, kept between calls.
    pub(super) woken: Vec<ContextId>,
}

impl State {
    pub fn new(machine: Machine, seed: u64) -> State {
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
            failure: None,
            trace: None,
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
            min_residency: Time::ZERO,
            recent_fills: Vec::new(),
            machine,
            random: Random::new(seed, 1),
            arrivals: 0,
            woken: Vec::new(),
        }
    }

    fn name(&mut self, name: &str) -> u32 {
        let known = self.names.iter().position(|known| known == name);
        known.unwrap_or_else(|| {
            self.names.push(name.into());
            self.names.len() - 1
        }) as u32
    }

    pub fn new_line(&mut self, name: &str, node: usize) -> LineId {
        let name = self.name(name);
        self.lines.push(Line::new(&self.machine, node, name));
        LineId(self.lines.len() as u32 - 1)
    }

    pub fn new_word(&mut self, line: LineId) -> Word {
        self.words.push(WordState { line: line.0, value: 0 });
        Word(self.words.len() as u32 - 1)
    }

    pub fn new_lock(&mut self, name: &str) -> LockId {
        let name = self.name(name);
        let traffic = LockTraffic::default();
        self.locks.push(LockState { name, holder: NO_ID, readers: 0, since: Time::ZERO, traffic });
        LockId(self.locks.len() as u32 - 1)
    }

    pub fn new_counter(&mut self, name: &str) -> Counter {
        self.counters.push((name.into(), 0));
        Counter(self.counters.len() - 1)
    }

    pub fn set_min_residency(&mut self, time: Time) {
        self.min_residency = time;
        self.recent_fills = vec![[RecentFill::default(); RECENT_FILLS]; self.cpus.len()];
    }

    /// The context that runs on a CPU.
    #[inline]
    pub fn running(&self, cpu: usize) -> ContextId {
        ContextId(2 * cpu as u32 + u32::from(self.cpus[cpu].interrupted))
    }

    #[inline]
    pub(super) fn context(&mut self, id: ContextId) -> &mut Context {
        &mut self.contexts[id.0 as usize]
    }

    /// Begins an operation of the context that runs on its CPU.
    #[inline]
    pub(super) fn begin(&mut self, id: ContextId) -> &mut Context {
        let now = self.now;
        let context = self.context(id);
        assert!(
            matches!(context.doing, Doing::Nothing | Doing::Ready),
            "CPU {} does one thing at a time, and is asked to do two: await each operation at once",
            id.cpu()
        );
        context.start = now;
        context
    }

    /// Begins work, a sleep or a wait for interrupts, until `done`.
    #[inline]
    pub fn pause(&mut self, id: ContextId, doing: Doing, mut done: Time) {
        if matches!(doing, Doing::Sleep) && std::mem::take(&mut self.cpus[id.cpu()].woken) {
            done = self.now;
        }
        let context = self.begin(id);
        (context.doing, context.done) = (doing, done);
    }

    /// Puts the CPU's next event into the queue.
    #[inline]
    pub(super) fn schedule(&mut self, cpu: usize) {
        let done = self.contexts[self.running(cpu).0 as usize].done;
        self.queue.set(cpu, done.min(self.cpus[cpu].next_arrival));
    }

    pub(super) fn set_next_arrival(&mut self, cpu: usize) {
        let interrupt = self.interrupts[cpu].arrivals.peek().map_or(Time::NEVER, |Reverse((time, ..))| *time);
        let store = self.stores[cpu].front().map_or(Time::NEVER, |first| first.done);
        self.cpus[cpu].next_arrival = interrupt.min(store);
    }

    /// What the last operation of a context returned.
    #[inline]
    pub fn value(&self, id: ContextId) -> u64 {
        self.contexts[id.0 as usize].operands[0]
    }

    /// The value of a word, without an access to its cache line.
    pub fn peek(&self, word: Word) -> u64 {
        self.words[word.0 as usize].value
    }

    /// Sets a word, without an access to its cache line.
    pub fn poke(&mut self, word: Word, value: u64) {
        self.words[word.0 as usize].value = value;
    }

    /// The program of a CPU neither sleeps nor has it ended.
    pub fn is_awake(&self, cpu: usize) -> bool {
        let program = &self.contexts[ContextId::program(cpu).0 as usize];
        !matches!(program.doing, Doing::Sleep | Doing::Idle | Doing::Nothing)
    }

    /// The random numbers of a CPU.
    pub fn random(&mut self, cpu: usize) -> &mut Random {
        &mut self.randoms[cpu]
    }

    pub fn count_operation(&mut self, cpu: usize) {
        self.operations[cpu] += 1;
    }

    pub fn count(&mut self, counter: Counter, more: u64) {
        self.counters[counter.0].1 += more;
    }

    /// Fails the run, unless it has failed before.
    pub fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }
}
