//! What the tasks of a replay share: cache lines, locks, memory bandwidth, and what is counted.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::mem::take;
use std::rc::Rc;

use crate::engine::{LineId, Word};
use crate::machine::Machine;
use crate::replay::calls::Calls;
use crate::replay::locks::TaskLock;
use crate::replay::program::{Event, Kind, Program, ProgramLock, Scope};
use crate::simulation::Simulation;
use crate::time::Time;

/// What an operation's time goes into, besides the program's cache lines and locks.
pub const FIXED_CATEGORIES: usize = 3;
pub(super) const WORK: usize = 0;
pub(super) const MEMORY: usize = 1;
pub(super) const INTERRUPTS: usize = 2;

/// Nanoseconds of an instruction and of a system call, if the machine has no processor figures.
pub(super) const DEFAULT_COSTS_NS: (f64, f64) = (0.5, 100.0);

pub(super) struct Shared {
    /// The words of each of the program's cache lines, one per instance.
    pub lines: Vec<Vec<Word>>,
    pub locks: Vec<Vec<TaskLock>>,
    pub program: Rc<Program>,
    /// Whether any operation has a broadcast.
    pub broadcasts: bool,
    /// When each node's memory will have written what it was given.
    pub memory: RefCell<Vec<Time>>,
    /// The time spent in each category.
    pub spent: RefCell<Vec<Time>>,
    /// Operations done, weighted.
    pub progress: Cell<f64>,
    pub calls: Calls,
    /// The CPU of each task.
    pub cpus: Vec<usize>,
    /// The mean of the operations' uncontended times.
    pub mean_ns: f64,
    /// Each operation's uncontended time, relative to the mean. Progress is weighted by it: a part of a long
    /// operation counts as much as the short operations that other tasks do meanwhile.
    pub weights: Vec<f64>,
    /// The spinlocks whose first holder was not yet interrupted, an entry per instance. None once counting begins.
    uninterrupted: RefCell<Vec<Vec<bool>>>,
    /// How many threads of each core execute instructions. A thread that waits leaves the core to the others.
    pub executing: HashMap<u32, Cell<usize>>,
}

impl Shared {
    pub fn new(sim: &mut Simulation, machine: &Machine, program: &Rc<Program>, cpus: &[usize]) -> Shared {
        let mut homes: Vec<Vec<LineId>> = Vec::new();
        let mut lines = Vec::new();
        for line in &program.lines {
            let nodes: Vec<usize> = match line.scope {
                Scope::Shared => vec![machine.node_of(cpus[0])],
                Scope::Node => (0..machine.nodes()).collect(),
                Scope::Task | Scope::TaskOfNode => cpus.iter().map(|&cpu| machine.node_of(cpu)).collect(),
            };
            let of: Vec<_> = nodes.into_iter().map(|node| sim.line(&line.name, node)).collect();
            lines.push(of.iter().map(|&line| sim.word_on(line)).collect());
            homes.push(of);
        }
        let locks = program
            .locks
            .iter()
            .map(|lock| homes[lock.line].iter().map(|&line| TaskLock::new(sim, lock, line)).collect());
        let locks: Vec<Vec<TaskLock>> = locks.collect();
        let calls =
            Calls::new(sim, machine, cpus, has(program, |event| matches!(event, Event::Interrupt { .. })));
        let categories = FIXED_CATEGORIES + program.lines.len() + program.locks.len();
        let uninterrupted = uninterrupted(program, &locks);
        let executing = cpus.iter().map(|&cpu| (machine.core_of(cpu), Cell::new(0))).collect();
        let takes_ns = takes_ns(machine, program);
        let mean_ns = takes_ns.iter().sum::<f64>() / takes_ns.len() as f64;
        Shared {
            lines,
            locks,
            program: Rc::clone(program),
            broadcasts: has(program, |event| matches!(event, Event::Broadcast)),
            memory: RefCell::new(vec![Time::ZERO; machine.nodes()]),
            spent: RefCell::new(vec![Time::ZERO; categories]),
            progress: Cell::new(0.0),
            calls,
            cpus: cpus.to_vec(),
            mean_ns,
            weights: takes_ns.iter().map(|takes| if mean_ns > 0.0 { takes / mean_ns } else { 1.0 }).collect(),
            uninterrupted: RefCell::new(uninterrupted),
            executing,
        }
    }

    /// Whether a timer interrupts this holder of a lock: the first one of each spinlock that tasks share.
    pub fn is_interrupted(&self, lock: usize, instance: usize) -> bool {
        self.uninterrupted.borrow_mut()[lock].get_mut(instance).is_some_and(take)
    }

    /// The category of the time that a cache line takes.
    pub fn category_of_line(&self, line: usize) -> usize {
        FIXED_CATEGORIES + line
    }

    pub fn category_of_lock(&self, lock: usize) -> usize {
        FIXED_CATEGORIES + self.program.lines.len() + lock
    }

    pub fn spend(&self, category: usize, time: Time) {
        self.spent.borrow_mut()[category] += time;
    }

    /// Counts progress in an operation: so many of its events. It is negative if a reader starts again.
    pub fn count(&self, operation: usize, events: f64) {
        let of = self.program.operations[operation].len() as f64;
        self.progress.set(self.progress.get() + self.weights[operation] * events / of);
    }

    pub fn restart_counting(&self) {
        self.progress.set(0.0);
        self.spent.borrow_mut().fill(Time::ZERO);
        self.uninterrupted.borrow_mut().iter_mut().for_each(Vec::clear);
    }

    /// The share of each category in the time spent. An event counts when it ends, so the time spent can differ a
    /// little from the time that has passed for all tasks.
    pub fn shares(&self) -> Vec<f64> {
        let spent = self.spent.borrow();
        let whole: f64 = spent.iter().map(|time| time.as_ns()).sum();
        spent.iter().map(|time| time.as_ns() / whole.max(1.0)).collect()
    }
}

fn uninterrupted(program: &Program, locks: &[Vec<TaskLock>]) -> Vec<Vec<bool>> {
    let is_shared = |line: usize| matches!(program.lines[line].scope, Scope::Shared | Scope::Node);
    let of = |lock: &ProgramLock| lock.kind == Kind::Spinlock && is_shared(lock.line);
    program.locks.iter().zip(locks).map(|(lock, instances)| vec![of(lock); instances.len()]).collect()
}

fn has(program: &Program, is: impl Fn(&Event) -> bool) -> bool {
    program.operations.iter().flatten().any(is)
}

/// The uncontended time of each operation, by the processor's figures.
fn takes_ns(machine: &Machine, program: &Program) -> Vec<f64> {
    let processor = machine.processor();
    let (instruction, system_call) = processor.map_or(DEFAULT_COSTS_NS, |processor| {
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
