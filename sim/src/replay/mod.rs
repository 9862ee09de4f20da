//! Replay: what an operation was recorded to do, done by many tasks on a machine that is described.
//!
//! The recording says what a task does to lines and locks that others touch too, and how many instructions lie
//! between. Here each task does it on a CPU of the machine: its instructions take the processor's time, lines come
//! from where they are, and locks are executed, so that waiting comes about by itself.

mod curve;
mod locks;
mod program;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::cpu::Cpu;
use crate::engine::{Interrupt, Simulation, Word};
use crate::failure::Failure;
use crate::locks::SpinKind;
use crate::machine::Machine;
use crate::processor::{active, placement};
use crate::time::{Time, ns, us};

pub use curve::{Curve, Curved, curves};
use locks::TaskLock;
pub use program::{Event, Kind, LineOf, LockOf, Program, ProgramError, Scope, Targets, Touch};

/// How to replay a program.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub tasks: usize,
    pub seed: u64,
    /// What spinlocks are.
    pub spinlocks: SpinKind,
    /// Tasks go to all nodes in turns, and not to one after the other.
    pub spread: bool,
    /// How much longer instructions take than the processor's figures say.
    pub slower: f64,
    /// For so long a core keeps a line that it has got, whoever else wants it.
    pub kept: Time,
    /// So much of a read's time a core does something else, as it executes out of order.
    pub overlapped: Time,
    /// What an instruction takes that a lock protects, of what the others take.
    pub under_locks: f64,
}

#[cfg(test)]
impl Setting {
    /// Of so many tasks, with nothing fitted.
    pub(crate) fn plain(tasks: usize) -> Self {
        Self {
            tasks,
            seed: 1,
            spinlocks: SpinKind::Qspinlock,
            spread: false,
            slower: 1.0,
            kept: Time::ZERO,
            overlapped: Time::ZERO,
            under_locks: 1.0,
        }
    }
}

/// What an operation's time went into, beside the program's lines and locks.
pub const BESIDES: usize = 3;
const WORK: usize = 0;
const MEMORY: usize = 1;
const INTERRUPTS: usize = 2;

/// What came of it.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// Operations a second, of all tasks together.
    pub throughput: f64,
    /// Of the tasks' time, the shares of: work, memory bandwidth, interrupts, then each line, then each lock.
    pub shares: Vec<f64>,
    pub events: u64,
}

/// So much is simulated before anything counts, and then: operations a task, and events at most.
const WARM: (f64, u64) = (2.0, 60_000);
const COUNTED: (f64, u64) = (12.0, 150_000);
const LEAST_OPERATIONS: f64 = 200.0;
const EVENTS_A_TASK: u64 = 150;
/// However many events they have, so many operations a task count, as one may have parts that differ; up to a limit.
const WHOLE_OPERATIONS: f64 = 2.0;
/// Where the standard deviation of the operations' times is more than this, of their mean, whole cycles are counted.
const UNEVEN: f64 = 1.0;
const MOST_EVENTS: u64 = 4_000_000;
/// Rounding error of a sum of parts of operations.
const HAIR: f64 = 1e-6;
/// A queue that is sorted by nodes takes so much longer until it is.
const SORTED: u64 = 12;
const STEPS: u64 = 4_000_000;
/// More events than any replay needs.
const EVENT_BUDGET: u64 = 4 * MOST_EVENTS;
/// At least so many steps are what a task counts, if nothing holds it up.
const STEPS_COUNTED: f64 = 10_000.0;

/// What an instruction and a system call take where the machine does not tell.
const UNTOLD_NS: (f64, f64) = (0.5, 100.0);
/// A handler of an IPI: entry, a function's call and its acknowledgement.
const HANDLER_NS: f64 = 300.0;
/// `lockref` gives up after so many tries, and takes its lock.
const TRIES: u32 = 100;

struct Shared {
    lines: Vec<Vec<Word>>,
    locks: Vec<Vec<TaskLock>>,
    program: Rc<Program>,
    /// When each node's memory has written what it was given.
    memory: RefCell<Vec<Time>>,
    spent: RefCell<Vec<Time>>,
    progress: Cell<f64>,
    answers: Vec<Word>,
    cpus: Vec<usize>,
    /// How long an operation takes if nothing holds it up, as the processor's figures say: the mean of all.
    mean_ns: f64,
    /// And each, of that mean: it counts for so much progress, so that a part of a long one is no less than the short
    /// ones that others do meanwhile.
    weights: Vec<f64>,
    /// Of each CPU's core, how many threads execute instructions now: one that waits leaves the core to the others.
    executing: HashMap<u32, Cell<usize>>,
}

/// A lock that a task has, and where in the operation it took it.
struct Held {
    at: usize,
    lock: usize,
    shared: bool,
}

struct Task {
    number: usize,
    /// The other tasks of its node.
    near: Vec<usize>,
    shared: Rc<Shared>,
    core: u32,
    /// With one thread of the core, with two, and so on.
    ns_per_instruction: Vec<f64>,
    /// With one.
    system_call: Time,
    overlapped: Time,
    under_locks: f64,
    slower: f64,
}

/// Replays a program, as far as it comes before `stop` is set. Failure: it came to a deadlock, or to no end.
pub fn replay(
    machine: &Machine,
    program: &Rc<Program>,
    setting: Setting,
    stop: &Arc<AtomicBool>,
) -> Result<Replayed, Failure> {
    let mut sim = Simulation::new(machine.clone(), setting.seed);
    sim.stopped_by(stop);
    sim.use_spinlocks(setting.spinlocks);
    sim.keep_lines(setting.kept);
    let cpus: Vec<usize> = placement(machine, setting.spread).into_iter().take(setting.tasks).collect();
    let shared = Rc::new(shared(&mut sim, machine, program, &cpus));
    let speeds = active(machine, &cpus);
    let mut step = us(1);
    for (number, (&cpu, &(cores, threads))) in cpus.iter().zip(&speeds).enumerate() {
        let task = task(machine, &shared, number, (cores, threads), setting);
        step = step.max(ns(task.ns_per_instruction[0] * 100.0));
        sim.program(cpu, |cpu| task.run(cpu));
        let shared = Rc::clone(&shared);
        sim.handler(cpu, |cpu| answer(cpu, shared));
    }
    let tasks = setting.tasks as f64;
    let longer = if setting.spinlocks == SpinKind::Cna { SORTED } else { 1 };
    let of_all = |each: f64, least: f64| longer as f64 * (each * tasks).max(least);
    let cycles = shared.weights.len() as f64 * tasks;
    let counted = match is_uneven(&shared.weights) {
        true => (of_all(COUNTED.0, LEAST_OPERATIONS) / cycles).ceil() * cycles,
        false => WHOLE_OPERATIONS * tasks,
    };
    let step = step.max(ns(shared.mean_ns * setting.slower * counted / tasks / STEPS_COUNTED));
    let most = |events: u64| longer * events.max(EVENTS_A_TASK * setting.tasks as u64);
    let enough = |least: f64, wanted: f64, most: u64, events: u64| {
        let operations = shared.progress.get() + HAIR;
        (operations >= least || events >= MOST_EVENTS) && (operations >= wanted || events >= most)
    };
    let warm = |events| enough(WHOLE_OPERATIONS * tasks, of_all(WARM.0, 0.0), most(WARM.1), events);
    let reset = || {
        shared.progress.set(0.0);
        shared.spent.borrow_mut().fill(Time::ZERO);
    };
    let done = |events| enough(counted, of_all(COUNTED.0, LEAST_OPERATIONS), most(COUNTED.1), events);
    let (elapsed, events) = sim.run_in_steps(step, (STEPS, EVENT_BUDGET), warm, reset, done)?;
    // What was begun before anything counted is in it, what has not ended is not: so it is not quite the time of all.
    let spent = shared.spent.borrow();
    let whole: f64 = spent.iter().map(|time| time.as_ns()).sum();
    let shares = spent.iter().map(|time| time.as_ns() / whole.max(1.0)).collect();
    Ok(Replayed { throughput: shared.progress.get() / elapsed.as_s(), shares, events })
}

fn shared(sim: &mut Simulation, machine: &Machine, program: &Rc<Program>, cpus: &[usize]) -> Shared {
    let mut homes: Vec<Vec<(crate::LineId, usize)>> = Vec::new();
    let mut lines = Vec::new();
    for line in &program.lines {
        let nodes: Vec<usize> = match line.scope {
            Scope::Shared => vec![machine.node_of(cpus[0])],
            Scope::Node => (0..machine.nodes()).collect(),
            Scope::Task | Scope::TaskOfNode => cpus.iter().map(|&cpu| machine.node_of(cpu)).collect(),
        };
        let of: Vec<_> = nodes.into_iter().map(|node| (sim.line(&line.name, node), node)).collect();
        lines.push(of.iter().map(|&(line, _)| sim.word_on(line)).collect());
        homes.push(of);
    }
    let locks = program.locks.iter().map(|lock| {
        let of = &homes[lock.line];
        of.iter().map(|&(line, _)| TaskLock::new(sim, lock, line)).collect()
    });
    let locks = locks.collect();
    let answers = cpus.iter().map(|&cpu| sim.word("answers", machine.node_of(cpu))).collect();
    let objects = BESIDES + program.lines.len() + program.locks.len();
    let executing = cpus.iter().map(|&cpu| (machine.core_of(cpu), Cell::new(0))).collect();
    let takes_ns = takes_ns(machine, program);
    let mean_ns = takes_ns.iter().sum::<f64>() / takes_ns.len() as f64;
    Shared {
        lines,
        locks,
        program: Rc::clone(program),
        memory: RefCell::new(vec![Time::ZERO; machine.nodes()]),
        spent: RefCell::new(vec![Time::ZERO; objects]),
        progress: Cell::new(0.0),
        answers,
        cpus: cpus.to_vec(),
        mean_ns,
        weights: takes_ns.iter().map(|takes| if mean_ns > 0.0 { takes / mean_ns } else { 1.0 }).collect(),
        executing,
    }
}

/// How long each operation takes if nothing holds it up, as the processor's figures say.
fn takes_ns(machine: &Machine, program: &Program) -> Vec<f64> {
    let processor = machine.processor();
    let (instruction, system_call) = processor.map_or(UNTOLD_NS, |processor| {
        (processor.ns_per_instruction(processor.ghz(1), 1), processor.system_call.as_ns())
    });
    let takes_ns = |event: &Event| match *event {
        Event::Work(instructions) => instructions * instruction,
        Event::SystemCall(times) => times * system_call,
        Event::Fill(bytes) => processor.map_or(0.0, |processor| processor.ns_of_bytes(bytes).0),
        _ => 0.0,
    };
    program.operations.iter().map(|operation| operation.iter().map(takes_ns).sum()).collect()
}

/// Whether one differs from another by so much that a few of them are not like all.
fn is_uneven(weights: &[f64]) -> bool {
    let squares: f64 = weights.iter().map(|weight| (weight - 1.0).powi(2)).sum();
    (squares / weights.len() as f64).sqrt() > UNEVEN
}

fn task(
    machine: &Machine,
    shared: &Rc<Shared>,
    number: usize,
    (cores, threads): (usize, usize),
    setting: Setting,
) -> Task {
    let Setting { slower, overlapped, under_locks, .. } = setting;
    let shared = Rc::clone(shared);
    let node = |task: usize| machine.node_of(shared.cpus[task]);
    let near =
        (0..shared.cpus.len()).filter(|&other| other != number && node(other) == node(number)).collect();
    let core = machine.core_of(shared.cpus[number]);
    let (ns_per_instruction, system_call) = match machine.processor() {
        None => (vec![UNTOLD_NS.0 * slower; threads], ns(UNTOLD_NS.1 * slower)),
        Some(processor) => {
            let (turbo, ghz) = (processor.ghz(1), processor.ghz(cores));
            let each = (1..=threads).map(|busy| processor.ns_per_instruction(ghz, busy) * slower).collect();
            (each, ns(processor.system_call.as_ns() * slower * turbo / ghz))
        }
    };
    Task { number, near, shared, core, ns_per_instruction, system_call, overlapped, under_locks, slower }
}

/// Answers the other tasks' interrupts.
async fn answer(cpu: Cpu, shared: Rc<Shared>) {
    loop {
        if let Interrupt::Ipi { message, .. } = cpu.interrupt().await {
            cpu.work(ns(HANDLER_NS)).await;
            cpu.fetch_add(shared.answers[message as usize], 1).await;
        }
    }
}

impl Task {
    async fn run(self, cpu: Cpu) {
        let program = Rc::clone(&self.shared.program);
        let operations = &program.operations;
        // At first tasks are not at the same place: of a long operation only a part may be simulated.
        let first = self.first(&cpu);
        let (mut from, rest) = self.start(&cpu, &operations[first]);
        cpu.user(rest).await;
        if from > 0 {
            self.counts(first, 1.0);
        }
        for &operation in self.order(&cpu, first).iter().cycle() {
            self.perform(&cpu, operation, from).await;
            cpu.operation();
            from = 0;
        }
    }

    /// So many more of an operation's events are done; fewer where a reader has to start again.
    fn counts(&self, operation: usize, events: f64) {
        let of = self.shared.program.operations[operation].len() as f64;
        self.shared.progress.set(self.shared.progress.get() + self.shared.weights[operation] * events / of);
    }

    /// All operations, from that one on: as a task does them in one order again and again, a seldom one weighs what it
    /// should.
    fn order(&self, cpu: &Cpu, first: usize) -> Vec<usize> {
        let mut order: Vec<_> = (0..self.shared.program.operations.len()).collect();
        order.swap(0, first);
        for at in 1..order.len() {
            let other = at + cpu.below((order.len() - at) as u64) as usize;
            order.swap(at, other);
        }
        order
    }

    /// Which operation a task is at, at a moment by chance: a long one is more probable.
    fn first(&self, cpu: &Cpu) -> usize {
        let weights = &self.shared.weights;
        let mut left = weights.iter().sum::<f64>() * cpu.below(1 << 20) as f64 / f64::from(1 << 20);
        let is_there = |weight: &f64| {
            left -= weight;
            left < 0.0
        };
        weights.iter().position(is_there).unwrap_or(0)
    }

    /// Where a task is at a moment by chance, if nothing holds it up: the event it comes to next, at which it holds no
    /// lock, and how long that takes.
    fn start(&self, cpu: &Cpu, operation: &[Event]) -> (usize, Time) {
        let takes_ns = |event: &Event| match *event {
            Event::Fill(bytes) => cpu.ns_of_bytes(bytes).0 * self.slower,
            _ => self.executing_ns(event, 1),
        };
        let whole: f64 = operation.iter().map(takes_ns).sum();
        let mut left = whole * cpu.below(1 << 20) as f64 / f64::from(1 << 20);
        let mut held = 0;
        for (at, event) in operation.iter().enumerate() {
            left -= takes_ns(event);
            match event {
                Event::Lock { .. } => held += 1,
                Event::Unlock { .. } => held -= 1,
                _ => {}
            }
            if left < 0.0 && held == 0 {
                return (at + 1, ns(-left.max(-takes_ns(event))));
            }
        }
        (0, Time::ZERO)
    }

    fn executing_ns(&self, event: &Event, threads: usize) -> f64 {
        let of = |threads: usize| self.ns_per_instruction[threads - 1];
        match *event {
            Event::Work(instructions) => instructions * of(threads),
            Event::SystemCall(times) => self.system_call.as_ns() * times * of(threads) / of(1),
            _ => 0.0,
        }
    }

    /// Executes instructions, slower by the threads of the core that do so too as it begins.
    async fn execute(&self, cpu: &Cpu, event: &Event, longer: f64) {
        let executing = &self.shared.executing[&self.core];
        executing.set(executing.get() + 1);
        cpu.work(ns(self.executing_ns(event, executing.get()) * longer)).await;
        executing.set(executing.get() - 1);
    }

    async fn perform(&self, cpu: &Cpu, number: usize, from: usize) {
        let operation = &self.shared.program.operations[number];
        let mut at = from;
        let mut sequence = 0;
        let mut held: Vec<Held> = Vec::new();
        while at < operation.len() {
            let before = cpu.now();
            let (event, mut next) = (operation[at], at + 1);
            let object = match event {
                Event::Work(_) | Event::SystemCall(_) => {
                    // No two times are quite the same: in step with each other, tasks would never meet, or always.
                    let percent = 90.0 + cpu.below(2001) as f64 / 100.0;
                    let slower = if held.is_empty() { 1.0 } else { self.under_locks };
                    self.execute(cpu, &event, slower * percent / 100.0).await;
                    WORK
                }
                Event::Fill(bytes) => {
                    self.fill(cpu, bytes).await;
                    MEMORY
                }
                Event::Access { line, touch, others } => {
                    self.access(cpu, self.line(cpu, line, others), touch).await;
                    BESIDES + line
                }
                Event::Lock { lock, shared, tries } => {
                    let wanted = self.lock(cpu, lock);
                    if tries && wanted.try_take(cpu, shared).await {
                        held.push(Held { at, lock, shared });
                    } else if tries && !held.is_empty() {
                        next = self.give_all_back(cpu, &mut held).await;
                    } else {
                        sequence = wanted.take(cpu, shared).await;
                        held.push(Held { at, lock, shared });
                    }
                    self.object_of_lock(lock)
                }
                Event::Unlock { lock, shared } => {
                    held.retain(|one| one.lock != lock);
                    if self.lock(cpu, lock).give(cpu, shared, sequence).await {
                        next = self.again(operation, at, lock);
                    }
                    self.object_of_lock(lock)
                }
                Event::Downgrade { lock } => {
                    self.lock(cpu, lock).downgrade(cpu).await;
                    held.iter_mut().filter(|one| one.lock == lock).for_each(|one| one.shared = true);
                    self.object_of_lock(lock)
                }
                Event::Lockref { lock } => {
                    self.lockref(cpu, lock).await;
                    self.object_of_lock(lock)
                }
                Event::Interrupt(targets) => {
                    self.interrupt_others(cpu, targets).await;
                    INTERRUPTS
                }
            };
            self.shared.spent.borrow_mut()[object] += cpu.now() - before;
            self.counts(number, next as f64 - at as f64);
            at = next;
        }
    }

    /// Gives back all that a task has, the last first. Where it starts again.
    async fn give_all_back(&self, cpu: &Cpu, held: &mut Vec<Held>) -> usize {
        let again = held[0].at;
        while let Some(Held { lock, shared, .. }) = held.pop() {
            let is_read = shared && self.shared.program.locks[lock].kind == Kind::SeqLock;
            if !is_read {
                self.lock(cpu, lock).give(cpu, shared, 0).await;
            }
        }
        again
    }

    fn object_of_lock(&self, lock: usize) -> usize {
        BESIDES + self.shared.program.lines.len() + lock
    }

    /// Where a reader of a seqlock starts again.
    fn again(&self, operation: &[Event], at: usize, lock: usize) -> usize {
        let taken = |event: &Event| matches!(event, Event::Lock { lock: other, .. } if *other == lock);
        operation[..at].iter().rposition(taken).expect("checked when read")
    }

    fn instance(&self, cpu: &Cpu, scope: Scope, others: bool) -> usize {
        match scope {
            Scope::Shared => 0,
            Scope::Node => cpu.node(),
            Scope::Task if others && self.shared.cpus.len() > 1 => {
                let other = cpu.below(self.shared.cpus.len() as u64 - 1) as usize;
                if other < self.number { other } else { other + 1 }
            }
            Scope::TaskOfNode if others && !self.near.is_empty() => {
                self.near[cpu.below(self.near.len() as u64) as usize]
            }
            Scope::Task | Scope::TaskOfNode => self.number,
        }
    }

    fn line(&self, cpu: &Cpu, line: usize, others: bool) -> Word {
        let scope = self.shared.program.lines[line].scope;
        self.shared.lines[line][self.instance(cpu, scope, others)]
    }

    fn lock(&self, cpu: &Cpu, lock: usize) -> &TaskLock {
        let program = &self.shared.program;
        let scope = program.lines[program.locks[lock].line].scope;
        &self.shared.locks[lock][self.instance(cpu, scope, false)]
    }

    async fn access(&self, cpu: &Cpu, word: Word, touch: Touch) {
        match touch {
            Touch::Read => {
                let stalls = cpu.prefetch(word).since(cpu.now() + self.overlapped);
                if stalls > Time::ZERO {
                    cpu.work(stalls).await;
                }
            }
            Touch::Write => cpu.write(word, 1).await,
            Touch::Atomic => {
                cpu.fetch_add(word, 1).await;
            }
            Touch::Exchange => {
                let mut value = cpu.read(word).await;
                for _ in 0..TRIES {
                    let before = cpu.compare_exchange(word, value, value.wrapping_add(1)).await;
                    if before == value {
                        break;
                    }
                    value = before;
                }
            }
        }
    }

    /// `CMPXCHG_LOOP` of `lib/lockref.c`: who finds the spinlock busy takes it, too, and so finds it each other.
    async fn lockref(&self, cpu: &Cpu, lock: usize) {
        let count = self.line(cpu, self.shared.program.locks[lock].line, false);
        let lock = self.lock(cpu, lock);
        let mut value = cpu.read(count).await;
        for _ in 0..TRIES {
            if lock.is_busy(cpu) {
                break;
            }
            let before = cpu.compare_exchange(count, value, value.wrapping_add(1)).await;
            // Both words are exchanged at once: the lock was free, too.
            if before == value && !lock.is_busy(cpu) {
                return;
            }
            value = before;
        }
        lock.take(cpu, false).await;
        cpu.write(count, value.wrapping_add(1)).await;
        lock.give(cpu, false, 0).await;
    }

    /// Memory serves one fill after the other, each for a time that chance decides (the machine-repairman model):
    /// cores get into each other's way long before memory is as busy as it can be.
    async fn fill(&self, cpu: &Cpu, bytes: f64) {
        let (alone_ns, served_ns) = cpu.ns_of_bytes(bytes);
        cpu.work(ns((alone_ns * self.slower - served_ns).max(0.0))).await;
        let served = cpu.exponential(ns(served_ns));
        let (now, node) = (cpu.now(), cpu.node());
        let written = {
            let mut memory = self.shared.memory.borrow_mut();
            memory[node] = memory[node].max(now) + served;
            memory[node]
        };
        cpu.work(written - now).await;
    }

    async fn interrupt_others(&self, cpu: &Cpu, targets: Targets) {
        let mut others: Vec<_> =
            self.shared.cpus.iter().copied().filter(|&other| other != cpu.id()).collect();
        let number = targets.of(others.len());
        if number < others.len() {
            for place in 0..number {
                let other = place + cpu.below((others.len() - place) as u64) as usize;
                others.swap(place, other);
            }
        }
        let mine = self.shared.answers[self.number];
        let before = cpu.read(mine).await;
        others[..number].iter().for_each(|&other| cpu.send_ipi(other, self.number as u64));
        let all = before + number as u64;
        cpu.spin_while(mine, |answers| answers < all).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replay(machine: &Machine, program: &Rc<Program>, setting: Setting) -> Result<Replayed, Failure> {
        super::replay(machine, program, setting, &Arc::default())
    }

    fn machine() -> Machine {
        Machine::uniform(8, ns(1), ns(100))
    }

    fn of(operation: Vec<Event>) -> Rc<Program> {
        let line = LineOf { name: "line".into(), scope: Scope::Shared };
        let lock = |kind| LockOf { name: format!("{kind:?}"), kind, line: 0 };
        let kinds = [Kind::Spinlock, Kind::RwLock, Kind::Mutex, Kind::RwSem, Kind::SeqLock];
        let program =
            Program { lines: vec![line], locks: kinds.map(lock).into(), operations: vec![operation] };
        program.check().unwrap();
        Rc::new(program)
    }

    #[test]
    fn what_has_more_events_than_are_simulated_is_replayed_from_all_of_its_places() {
        let machine = Machine::named("xeon-5418y-x2").unwrap();
        let per_s = |events: usize| {
            let operation =
                (0..events).map(|event| Event::Work(if event < events / 2 { 10.0 } else { 1000.0 }));
            let line = LineOf { name: "line".into(), scope: Scope::Shared };
            let program = Program { lines: vec![line], locks: vec![], operations: vec![operation.collect()] };
            let found = replay(&machine, &Rc::new(program), Setting::plain(32)).unwrap();
            found.throughput * events as f64
        };
        let (few, many) = (per_s(100), per_s(4 * MOST_EVENTS as usize / 32));
        assert!((many / few - 1.0).abs() < 0.2, "{many} and {few} events a second");
    }

    #[test]
    fn tasks_visit_pages_of_their_own_node() {
        let rate = |scope| {
            let visit = Event::Access { line: 0, touch: Touch::Write, others: true };
            let mut program = (*of(vec![Event::Work(200.0), visit, visit, visit])).clone();
            program.lines[0].scope = scope;
            let machine = Machine::named("xeon-e7-8895v3-x4").unwrap();
            let setting = Setting { spread: true, ..Setting::plain(8) }; // two a socket
            replay(&machine, &Rc::new(program), setting).unwrap().throughput
        };
        assert!(rate(Scope::TaskOfNode) > 1.5 * rate(Scope::Task));
    }

    #[test]
    fn private_work_scales() {
        let program = of(vec![Event::Work(2000.0)]);
        let rates =
            [1, 8].map(|tasks| replay(&machine(), &program, Setting::plain(tasks)).unwrap().throughput);
        assert!((rates[1] / rates[0] - 8.0).abs() < 0.2, "{rates:?}");
    }

    #[test]
    fn a_shared_line_is_transferred_once_an_operation() {
        let access = Event::Access { line: 0, touch: Touch::Atomic, others: false };
        let program = of(vec![Event::Work(200.0), access]);
        let replayed = replay(&machine(), &program, Setting::plain(8)).unwrap();
        assert!((replayed.throughput / 1e7 - 1.0).abs() < 0.02, "{replayed:?}"); // one in 100 ns
        assert!(replayed.shares[BESIDES] > 0.8, "{replayed:?}");
    }

    #[test]
    fn a_line_serves_both_threads_of_a_core_at_once() {
        let access = Event::Access { line: 0, touch: Touch::Atomic, others: false };
        let program = of(vec![Event::Work(200.0), access]);
        let mut machine = Machine::named("i7-4770").unwrap();
        machine.crossing = 0.5;
        let rates = [4, 8].map(|tasks| replay(&machine, &program, Setting::plain(tasks)).unwrap().throughput);
        assert!(rates[1] > 1.3 * rates[0], "{rates:?}"); // 21 ns, and for the second thread 8
    }

    #[test]
    fn a_thread_that_waits_leaves_its_core_to_the_other() {
        let machine = Machine::named("i7-4770").unwrap();
        let rate =
            |operation, tasks| replay(&machine, &of(operation), Setting::plain(tasks)).unwrap().throughput;
        let work = Event::Work(20_000.0);
        let both = rate(vec![work], 8) / rate(vec![work], 4);
        assert!((both - 1.25).abs() < 0.02, "{both}"); // its file's smt_speedup
        // All but one wait for the lock, whose holder has a core to itself, as if there were four.
        let held = vec![
            Event::Lock { lock: 0, shared: false, tries: false },
            work,
            Event::Unlock { lock: 0, shared: false },
        ];
        let waiting = rate(held.clone(), 8) / rate(held, 4);
        assert!((waiting - 1.0).abs() < 0.02, "{waiting}");
    }

    #[test]
    fn an_operation_that_comes_seldom_weighs_what_it_should() {
        let mut operations = vec![vec![Event::Work(1000.0)]; 63];
        operations.push(vec![Event::Work(1000.0); 100]);
        let program = Rc::new(Program { operations, ..(*of(vec![Event::Work(1.0)])).clone() });
        let per_task = |tasks, seed| {
            let setting = Setting { seed, ..Setting::plain(tasks) };
            replay(&machine(), &program, setting).unwrap().throughput / tasks as f64
        };
        let rates: Vec<f64> = (1..=8).flat_map(|seed| [per_task(1, seed), per_task(8, seed)]).collect();
        let of_all = 1e9 * 64.0 / (163_000.0 * UNTOLD_NS.0);
        assert!(rates.iter().all(|rate| (rate / of_all - 1.0).abs() < 0.03), "{of_all} {rates:?}");
    }

    #[test]
    fn whole_cycles_of_operations_that_differ_much_come_to_an_end() {
        let (take, give) =
            (Event::Lock { lock: 0, shared: false, tries: false }, Event::Unlock { lock: 0, shared: false });
        let held = |instructions| vec![take, Event::Work(instructions), give];
        let mut operations = vec![held(500_000.0); 254];
        operations.extend(vec![held(50_000_000.0); 2]);
        let program = Rc::new(Program { operations, ..(*of(vec![Event::Work(1.0)])).clone() });
        let machine = Machine::named("xeon-e7-8895v3-x4").unwrap();
        let rate = |tasks, spinlocks| {
            replay(&machine, &program, Setting { spinlocks, ..Setting::plain(tasks) }).unwrap().throughput
        };
        let alone = rate(1, SpinKind::Qspinlock);
        for spinlocks in [SpinKind::Qspinlock, SpinKind::Cna] {
            let all = rate(144, spinlocks) / alone; // one at a time, at the clock of a socket that is busy
            assert!(all > 0.7 && all < 1.0, "{all}");
        }
    }

    #[test]
    fn what_a_reader_does_again_is_no_progress() {
        let (take, give) =
            (Event::Lock { lock: 4, shared: false, tries: false }, Event::Unlock { lock: 4, shared: false });
        let (begin, end) =
            (Event::Lock { lock: 4, shared: true, tries: false }, Event::Unlock { lock: 4, shared: true });
        let rate = |events: usize| {
            let read = [&[begin][..], &vec![Event::Work(5000.0 / events as f64); events], &[end]].concat();
            let mut program = (*of(vec![take, Event::Work(500.0), give, Event::Work(5000.0)])).clone();
            program.operations.extend(vec![read; 7]);
            replay(&machine(), &Rc::new(program), Setting::plain(8)).unwrap().throughput
        };
        let (few, many) = (rate(1), rate(50));
        assert!((many / few - 1.0).abs() < 0.05, "{few} {many}");
    }

    #[test]
    fn an_operation_of_many_events_counts_to_its_end() {
        let access = Event::Access { line: 0, touch: Touch::Atomic, others: false };
        let mut operation = vec![access; 50_000];
        operation.push(Event::Fill(1e6));
        let machine = Machine::named("i7-4770").unwrap();
        let replayed = replay(&machine, &of(operation), Setting::plain(8)).unwrap();
        assert!(replayed.shares[MEMORY] > 0.0, "{replayed:?}");
    }

    #[test]
    fn memory_is_shared_as_by_machines_that_wait_for_a_repairman() {
        let machine = Machine::named("xeon-e7-8895v3-x4").unwrap();
        let program = of(vec![Event::Fill(4096.0); 1000]);
        let (alone, served) = machine.processor().unwrap().ns_of_bytes(4096.0);
        for tasks in [1, 4, 8, 18] {
            let replayed = replay(&machine, &program, Setting::plain(tasks)).unwrap();
            // M/M/1//N: how likely it is that so many are there, in proportion to that nobody is.
            let load = served / (alone - served);
            let likely: Vec<f64> = (0..=tasks)
                .scan(1.0, |now, there| Some(std::mem::replace(now, *now * (tasks - there) as f64 * load)))
                .collect();
            let expected = (1.0 - 1.0 / likely.iter().sum::<f64>()) / served * 1e6;
            assert!((replayed.throughput / expected - 1.0).abs() < 0.03, "{tasks}: {replayed:?}, {expected}");
        }
    }

    #[test]
    fn every_kind_of_lock_is_exclusive() {
        for lock in 0..5 {
            let operation = vec![
                Event::Work(400.0),
                Event::Lock { lock, shared: false, tries: false },
                Event::Work(400.0),
                Event::Unlock { lock, shared: false },
            ];
            let replayed = replay(&machine(), &of(operation), Setting::plain(8)).unwrap();
            assert!(replayed.throughput < 5e6, "{lock}: {replayed:?}"); // 200 ns of work under the lock
            assert!(replayed.throughput > 1e6, "{lock}: {replayed:?}");
        }
    }

    #[test]
    fn readers_share_a_semaphore() {
        let operation = vec![
            Event::Lock { lock: 3, shared: true, tries: false },
            Event::Work(8000.0),
            Event::Unlock { lock: 3, shared: true },
        ];
        let rates =
            [1, 8].map(|tasks| replay(&machine(), &of(operation.clone()), Setting::plain(tasks)).unwrap());
        assert!(rates[1].throughput > 6.0 * rates[0].throughput);
    }

    /// Of the operations that tasks do in turns, one is `rare`, and fifteen are `common`.
    fn mixed(rare: Vec<Event>, common: &[Event]) -> f64 {
        let mut program = (*of(rare)).clone();
        program.operations.extend(vec![common.to_vec(); 15]);
        program.check().unwrap();
        let setting = Setting { kept: ns(50), ..Setting::plain(8) };
        replay(&machine(), &Rc::new(program), setting).unwrap().throughput
    }

    #[test]
    fn a_downgrade_lets_readers_in() {
        let read = [
            Event::Lock { lock: 3, shared: true, tries: false },
            Event::Work(400.0),
            Event::Unlock { lock: 3, shared: true },
            Event::Work(40_000.0),
        ];
        let rate = |downgrades| {
            let mut write = vec![
                Event::Lock { lock: 3, shared: false, tries: false },
                Event::Work(40_000.0),
                Event::Unlock { lock: 3, shared: downgrades },
            ];
            if downgrades {
                write.insert(1, Event::Downgrade { lock: 3 });
            }
            mixed(write, &read)
        };
        let (kept, downgraded) = (rate(false), rate(true));
        assert!(downgraded > 1.05 * kept, "{downgraded} {kept}");
    }

    #[test]
    fn who_counts_in_a_lockref_waits_for_who_has_its_lock() {
        let (take, give) =
            (Event::Lock { lock: 0, shared: false, tries: false }, Event::Unlock { lock: 0, shared: false });
        let count = [Event::Lockref { lock: 0 }, Event::Work(2000.0)];
        let exchange = Event::Access { line: 0, touch: Touch::Exchange, others: false };
        let same = [exchange, Event::Work(2000.0)];
        let (free, like) = (mixed(count.into(), &count), mixed(same.into(), &same));
        assert!((free / like - 1.0).abs() < 0.02, "{free} {like}");
        // 20 us in each 16th operation, in which nobody else can count.
        let held = mixed(vec![take, Event::Work(40_000.0), give], &count);
        assert!(held < 16.0 / 20e-6 && held > 8.0 / 20e-6, "{held}");
        let beside = mixed(vec![take, Event::Work(40_000.0), give], &same);
        assert!(beside > 1.2 * held, "{beside} {held}"); // what a mere count would do
    }

    #[test]
    fn programs_downgrade_what_they_have_alone_and_count_in_lockrefs_of_spinlocks() {
        let wrong = |operation| {
            let mut program = (*of(vec![Event::Work(1.0)])).clone();
            program.operations = vec![operation];
            program.check().unwrap_err().to_string()
        };
        let reads = Event::Lock { lock: 3, shared: true, tries: false };
        let takes = Event::Lock { lock: 0, shared: false, tries: false };
        for (operation, what) in [
            (vec![Event::Downgrade { lock: 3 }], "downgrades RwSem without having it alone"),
            (vec![reads, Event::Downgrade { lock: 3 }], "downgrades RwSem without having it alone"),
            (vec![takes, Event::Downgrade { lock: 0 }], "downgrades Spinlock, which is no semaphore"),
            (vec![Event::Lockref { lock: 3 }], "counts in the lockref of RwSem, which is no spinlock"),
            (vec![takes, Event::Lockref { lock: 0 }], "counts in the lockref of Spinlock, which it has"),
            (vec![Event::Downgrade { lock: 9 }], "lock 9 is none"),
        ] {
            assert_eq!(wrong(operation), format!("operation 0: {what}"));
        }
    }

    #[test]
    fn interrupts_are_answered() {
        let program = of(vec![Event::Work(10_000.0), Event::Interrupt(Targets::Share(1.0))]);
        let replayed = replay(&machine(), &program, Setting::plain(8)).unwrap();
        assert!(replayed.shares[INTERRUPTS] > 0.0 && replayed.throughput > 0.0);
    }

    #[test]
    fn as_many_are_interrupted_as_an_event_says() {
        let rate = |targets| {
            let program = of(vec![Event::Work(2000.0), Event::Interrupt(targets)]);
            replay(&machine(), &program, Setting::plain(8)).unwrap().throughput
        };
        let [one, half, all] = [Targets::Number(1), Targets::Share(0.5), Targets::Share(1.0)].map(rate);
        assert!(one > 1.5 * half && half > 1.5 * all, "{one} {half} {all}");
        assert_eq!(all, rate(Targets::Number(7)));
        assert_eq!(all, rate(Targets::Number(99)));
    }

    /// Of two locks, half of the operations take one first, and half the other.
    fn in_both_orders(tries: bool) -> Result<Replayed, Failure> {
        let mut program = (*of(vec![Event::Work(1.0)])).clone();
        program.locks.push(LockOf { name: "other".into(), kind: Kind::Spinlock, line: 0 });
        let operation = |[first, second]: [usize; 2], tries| {
            let take = |lock, tries| Event::Lock { lock, shared: false, tries };
            let give = |lock| Event::Unlock { lock, shared: false };
            let work = Event::Work(200.0);
            vec![work, take(first, false), work, take(second, tries), work, give(second), give(first)]
        };
        program.operations = vec![operation([0, 5], false), operation([5, 0], tries)];
        program.check().unwrap();
        replay(&machine(), &Rc::new(program), Setting::plain(8))
    }

    #[test]
    fn a_trylock_takes_locks_against_their_order() {
        assert!(matches!(in_both_orders(false), Err(Failure::Deadlock(_))));
        assert!(in_both_orders(true).unwrap().throughput > 1e5);
    }

    #[test]
    fn what_a_trylock_has_done_again_is_no_progress() {
        let (lock, shared) = (0, false);
        let operation = |tries, besides: usize| {
            let mut events = vec![Event::Lock { lock: 1, shared, tries: false }];
            events.extend(vec![Event::Work(400.0 / besides as f64); besides]);
            events.push(Event::Lock { lock, shared, tries });
            events.extend([Event::Work(400.0), Event::Unlock { lock, shared }]);
            events.extend([Event::Unlock { lock: 1, shared }, Event::Work(4000.0)]);
            events
        };
        let rate = |besides| {
            mixed(
                operation(true, besides),
                &[
                    Event::Lock { lock, shared, tries: false },
                    Event::Work(400.0),
                    Event::Unlock { lock, shared },
                    Event::Work(4000.0),
                ],
            )
        };
        let (few, many) = (rate(1), rate(40));
        assert!((many / few - 1.0).abs() < 0.05, "{few} {many}");
    }

    #[test]
    fn every_kind_of_lock_but_a_seqlock_can_be_tried() {
        for lock in 0..4 {
            let take = |tries| {
                vec![
                    Event::Lock { lock, shared: false, tries },
                    Event::Work(400.0),
                    Event::Unlock { lock, shared: false },
                    Event::Work(2000.0),
                ]
            };
            let [waits, tries] = [false, true]
                .map(|tries| replay(&machine(), &of(take(tries)), Setting::plain(4)).unwrap().throughput);
            assert!(tries > 0.6 * waits && tries < 1.5 * waits, "{lock}: {waits} {tries}");
        }
        let mut program = (*of(vec![Event::Work(1.0)])).clone();
        program.operations = vec![vec![Event::Lock { lock: 4, shared: true, tries: true }]];
        let wrong = program.check().unwrap_err().to_string();
        assert_eq!(wrong, "operation 0: tries to take SeqLock, a seqlock");
    }

    #[test]
    fn a_replay_ends_when_it_is_stopped() {
        let program =
            of(vec![Event::Work(100.0), Event::Access { line: 0, touch: Touch::Atomic, others: false }]);
        let stop = Arc::new(AtomicBool::new(true));
        let stopped = super::replay(&machine(), &program, Setting::plain(8), &stop);
        assert!(matches!(stopped, Err(Failure::Stopped)));
    }

    #[test]
    fn operations_that_take_next_to_no_time_end_with_the_event_budget() {
        let program = of(vec![Event::Work(1e-9)]);
        let failure = replay(&machine(), &program, Setting::plain(2)).unwrap_err();
        assert!(matches!(failure, Failure::Livelock(_)), "{failure}");
    }

    #[test]
    fn operations_that_take_no_time_are_refused() {
        let read = Event::Access { line: 0, touch: Touch::Read, others: false };
        for operation in [vec![], vec![Event::Work(0.0)], vec![read, Event::Fill(0.0)], vec![read]] {
            let mut program = (*of(vec![Event::Work(1.0)])).clone();
            program.operations.push(operation);
            assert_eq!(program.check().unwrap_err().to_string(), "operation 1: it takes no time");
        }
    }

    #[test]
    fn a_program_that_keeps_a_lock_is_refused() {
        let lock = LockOf { name: "lock".into(), kind: Kind::Mutex, line: 0 };
        let line = LineOf { name: "line".into(), scope: Scope::Shared };
        let operations = vec![vec![Event::Lock { lock: 0, shared: false, tries: false }]];
        let program = Program { lines: vec![line], locks: vec![lock], operations };
        assert_eq!(program.check().unwrap_err().to_string(), "operation 0: keeps lock");
    }
}
