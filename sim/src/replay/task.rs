//! A task: what it does on its CPU, event by event.

use std::rc::Rc;

use crate::cpu::Cpu;
use crate::engine::{Interrupt, Word};
use crate::machine::Machine;
use crate::replay::locks::TaskLock;
use crate::replay::program::{Event, Scope, Targets, Touch};
use crate::replay::setting::Setting;
use crate::replay::shared::{DEFAULT_COSTS_NS, INTERRUPTS, MEMORY, Shared, WORK};
use crate::time::{Time, ns};

/// After so many tries, `lockref` acquires its lock.
const TRIES: u32 = 100;
/// How long the interrupt of a CPU's timer takes: `local_timer` in Documentation/trace/osnoise-tracer.rst. It comes
/// hundreds of times per second, also to CPUs that hold a spinlock, as `spin_lock()` leaves interrupts enabled
/// (include/linux/spinlock_api_smp.h). A queue then forms, which may feed itself: a lock is handed over more slowly
/// than it is taken where no CPU queues. As a replay is too short for timers, each spinlock's first holder is
/// interrupted, before anything is counted.
const TIMER_NS: f64 = 1845.0;

/// The instructions of `smp_call_function_many_cond()` for each CPU on which it calls a function. Of `tlb_flush1` on 5.10
/// and 6.1 70 are counted, with those of the whole call and of waiting.
const INSTRUCTIONS_PER_TARGET: f64 = 40.0;

pub(super) struct Task {
    number: usize,
    /// The other tasks of its node.
    near: Vec<usize>,
    shared: Rc<Shared>,
    core: u32,
    /// With one thread of the core executing instructions, with two, and so on.
    ns_per_instruction: Vec<f64>,
    /// With one thread.
    system_call: Time,
    /// A transfer to the farthest CPU of the machine; zero where the program has no broadcast.
    broadcast: Time,
    overlapped: Time,
    under_locks: f64,
    slower: f64,
}

/// A lock that a task holds, and the event that acquired it.
struct Held {
    at: usize,
    lock: usize,
    shared: bool,
}

/// Where a task is in an operation.
struct Position {
    at: usize,
    next: usize,
    held: Vec<Held>,
}

/// The handler of a task's CPU: executes what other tasks call there.
pub(super) async fn answer_interrupts(cpu: Cpu, number: usize, shared: Rc<Shared>) {
    loop {
        if let Interrupt::Ipi { .. } = cpu.interrupt().await {
            shared.calls.execute(&cpu, number).await;
        }
    }
}

impl Task {
    /// The task of that number. `cores` cores of its socket and `threads` threads of its core have tasks.
    pub fn new(
        machine: &Machine,
        shared: &Rc<Shared>,
        number: usize,
        (cores, threads): (usize, usize),
        setting: Setting,
    ) -> Task {
        let Setting { slower, overlapped, under_locks, .. } = setting;
        let shared = Rc::clone(shared);
        let node = |task: usize| machine.node_of(shared.cpus[task]);
        let is_near = |&other: &usize| other != number && node(other) == node(number);
        let near = (0..shared.cpus.len()).filter(is_near).collect();
        let core = machine.core_of(shared.cpus[number]);
        let (ns_per_instruction, system_call) = match machine.processor() {
            None => (vec![DEFAULT_COSTS_NS.0 * slower; threads], ns(DEFAULT_COSTS_NS.1 * slower)),
            Some(processor) => {
                let (turbo, ghz) = (processor.ghz(1), processor.ghz(cores));
                let each = (1..=threads).map(|busy| processor.ns_per_instruction(ghz, busy) * slower);
                (each.collect(), ns(processor.system_call.as_ns() * slower * turbo / ghz))
            }
        };
        let own = shared.cpus[number];
        let farthest = || (0..machine.cpus()).map(|other| machine.transfer(own, other)).max().expect("CPUs");
        let broadcast = if shared.broadcasts { farthest() } else { Time::ZERO };
        Task {
            number,
            near,
            shared,
            core,
            ns_per_instruction,
            system_call,
            broadcast,
            overlapped,
            under_locks,
            slower,
        }
    }

    /// Nanoseconds per instruction with one thread of the core executing.
    pub fn ns_per_instruction(&self) -> f64 {
        self.ns_per_instruction[0]
    }

    pub async fn run(self, cpu: Cpu) {
        let program = Rc::clone(&self.shared.program);
        let operations = &program.operations;
        // Tasks begin at different places: of a long operation only a part may be simulated.
        let first = self.first(&cpu);
        let (mut from, rest) = self.start(&cpu, &operations[first]);
        cpu.user(rest).await;
        if from > 0 {
            self.shared.count(first, 1.0);
        }
        for &operation in self.order(&cpu, first).iter().cycle() {
            self.perform(&cpu, operation, from).await;
            cpu.operation();
            from = 0;
        }
    }

    /// All operations, beginning with `first`, in a random order that the task repeats: a rare operation then has its
    /// due weight.
    fn order(&self, cpu: &Cpu, first: usize) -> Vec<usize> {
        let mut order: Vec<_> = (0..self.shared.program.operations.len()).collect();
        order.swap(0, first);
        for at in 1..order.len() {
            let other = at + cpu.below((order.len() - at) as u64) as usize;
            order.swap(at, other);
        }
        order
    }

    /// The operation that a task is in at a random moment. A long operation is more probable.
    fn first(&self, cpu: &Cpu) -> usize {
        let weights = &self.shared.weights;
        let mut left = weights.iter().sum::<f64>() * cpu.below(1 << 20) as f64 / f64::from(1 << 20);
        let is_there = |weight: &f64| {
            left -= weight;
            left < 0.0
        };
        weights.iter().position(is_there).unwrap_or(0)
    }

    /// The place of a task in an operation at a random moment, without contention: the next event before which it
    /// holds no lock, and how long it takes until then.
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

    /// Nanoseconds of an event's instructions while so many threads of the core execute instructions.
    fn executing_ns(&self, event: &Event, threads: usize) -> f64 {
        let of = |threads: usize| self.ns_per_instruction[threads - 1];
        match *event {
            Event::Work(instructions) => instructions * of(threads),
            Event::SystemCall(times) => self.system_call.as_ns() * times * of(threads) / of(1),
            _ => 0.0,
        }
    }

    /// Executes an event's instructions. How many threads of the core execute is determined when it begins.
    async fn execute(&self, cpu: &Cpu, event: &Event, position: &Position) {
        // Times vary a little: tasks in step with each other would never collide, or always.
        let percent = 90.0 + cpu.below(2001) as f64 / 100.0;
        let slower = if position.held.is_empty() { 1.0 } else { self.under_locks };
        let executing = &self.shared.executing[&self.core];
        executing.set(executing.get() + 1);
        cpu.work(ns(self.executing_ns(event, executing.get()) * (slower * percent / 100.0))).await;
        executing.set(executing.get() - 1);
    }

    /// Does an operation, from its event `from` on.
    async fn perform(&self, cpu: &Cpu, number: usize, from: usize) {
        let operation = &self.shared.program.operations[number];
        let mut position = Position { at: from, next: from, held: Vec::new() };
        while position.at < operation.len() {
            let before = cpu.now();
            position.next = position.at + 1;
            let category = self.event(cpu, operation[position.at], &mut position).await;
            self.shared.spend(category, cpu.now() - before);
            self.shared.count(number, position.next as f64 - position.at as f64);
            position.at = position.next;
        }
    }

    /// Does the event at a position. Returns the category of its time.
    async fn event(&self, cpu: &Cpu, event: Event, position: &mut Position) -> usize {
        match event {
            Event::Work(_) | Event::SystemCall(_) => {
                self.execute(cpu, &event, position).await;
                WORK
            }
            Event::Fill(bytes) => {
                self.fill(cpu, bytes).await;
                MEMORY
            }
            Event::Access { line, touch, others } => {
                self.access(cpu, self.line(cpu, line, others), touch).await;
                self.shared.category_of_line(line)
            }
            Event::Lock { lock, shared, tries } => {
                self.acquire(cpu, position, (lock, shared), tries).await;
                self.shared.category_of_lock(lock)
            }
            Event::Unlock { lock, shared } => {
                position.held.retain(|one| one.lock != lock);
                self.lock(cpu, lock).release(cpu, shared).await;
                self.shared.category_of_lock(lock)
            }
            Event::Downgrade { lock } => {
                self.lock(cpu, lock).downgrade(cpu).await;
                position.held.iter_mut().filter(|one| one.lock == lock).for_each(|one| one.shared = true);
                self.shared.category_of_lock(lock)
            }
            Event::Lockref { lock } => {
                self.lockref(cpu, lock).await;
                self.shared.category_of_lock(lock)
            }
            Event::Interrupt { targets, recorded } => {
                let targets = self.targets(cpu, targets);
                let more = INSTRUCTIONS_PER_TARGET * targets.len().saturating_sub(recorded) as f64;
                self.execute(cpu, &Event::Work(more), position).await;
                self.shared.calls.call(cpu, self.number, &targets).await;
                INTERRUPTS
            }
            Event::Broadcast => {
                cpu.work(self.broadcast).await;
                INTERRUPTS
            }
        }
    }

    /// Acquires a lock. If it `tries` and fails while it holds other locks, it releases those and starts again.
    async fn acquire(&self, cpu: &Cpu, position: &mut Position, (lock, shared): (usize, bool), tries: bool) {
        let wanted = self.lock(cpu, lock);
        if !(tries && wanted.try_acquire(cpu, shared).await) {
            if tries && !position.held.is_empty() {
                position.next = self.release_all(cpu, &mut position.held).await;
                return;
            }
            wanted.acquire(cpu, shared).await;
        }
        if self.shared.is_interrupted(lock, self.instance(cpu, self.scope_of_lock(lock), false)) {
            cpu.work(ns(TIMER_NS)).await;
        }
        position.held.push(Held { at: position.at, lock, shared });
    }

    /// Releases all locks, in reverse order. Returns the event that acquired the first: where the task starts again.
    async fn release_all(&self, cpu: &Cpu, held: &mut Vec<Held>) -> usize {
        let first = held[0].at;
        while let Some(Held { lock, shared, .. }) = held.pop() {
            self.lock(cpu, lock).release(cpu, shared).await;
        }
        first
    }

    /// Which instance of a line or lock the task uses. With `others`, another task's.
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
        &self.shared.locks[lock][self.instance(cpu, self.scope_of_lock(lock), false)]
    }

    fn scope_of_lock(&self, lock: usize) -> Scope {
        let program = &self.shared.program;
        program.lines[program.locks[lock].line].scope
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
            // Whether it returns a value, which makes it near on Arm's cores, is not recorded.
            Touch::Atomic => cpu.add(word, 1).await,
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

    /// `CMPXCHG_LOOP` of `lib/lockref.c`. A task that finds the spinlock busy acquires it too, so that other tasks
    /// find it busy in turn.
    async fn lockref(&self, cpu: &Cpu, lock: usize) {
        let count = self.line(cpu, self.shared.program.locks[lock].line, false);
        let lock = self.lock(cpu, lock);
        let mut value = cpu.read(count).await;
        for _ in 0..TRIES {
            if lock.is_busy(cpu) {
                break;
            }
            let before = cpu.compare_exchange(count, value, value.wrapping_add(1)).await;
            // The kernel exchanges count and lock at once, which succeeds only if the lock is free.
            if before == value && !lock.is_busy(cpu) {
                return;
            }
            value = before;
        }
        lock.acquire(cpu, false).await;
        cpu.write(count, value.wrapping_add(1)).await;
        lock.release(cpu, false).await;
    }

    /// Writes memory. It serves one fill after the other, each for a random time (the machine-repairman model): cores
    /// delay each other long before the memory's bandwidth is used up.
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

    /// The tasks whose CPUs are interrupted, chosen at random.
    fn targets(&self, cpu: &Cpu, targets: Targets) -> Vec<usize> {
        let mut others: Vec<_> = (0..self.shared.cpus.len()).filter(|&other| other != self.number).collect();
        let number = targets.of(others.len());
        if number < others.len() {
            for place in 0..number {
                let other = place + cpu.below((others.len() - place) as u64) as usize;
                others.swap(place, other);
            }
        }
        others.truncate(number);
        others
    }
}
