//! A percpu_counter under a reservation lock, as in btrfs: fxmark's DWAL, where every task appends to a file of its
//! own and all tasks reserve space under one lock.
//!
//! Adding changes the CPU's own part, and the shared count only when that part has grown by a batch. Reading returns
//! the shared count, which is off by up to a batch per CPU. An exact sum reads the part of every online CPU, each on
//! a cache line that its CPU writes. If that happens under the reservation lock, all tasks wait for it.
//!
//! What a sum costs depends on the layout: how many cache lines the parts are on, what else their CPUs write there,
//! and whether a cache keeps the lines until its CPU's next sum. Per-CPU areas lie a multiple of a page apart, so in a
//! cache that is indexed by the address all CPUs' parts can compete for one set.
//!
//! Follows `lib/percpu_counter.c` and `fs/btrfs/space-info.c` (`__reserve_bytes`, `need_preemptive_reclaim`,
//! `btrfs_block_rsv_release`) of 5.12, whose names it keeps. Tasks run on one thread of each core first. Left out are
//! page walks, and prefetchers: none of them crosses a page.
//!
//! Invariants, which are checked: a sum lies between the least and the greatest value that the counter had meanwhile,
//! and a read is off by at most a batch per CPU.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use crate::cpu::Cpu;
use crate::designs::design::{Design, Figure, InputError, Parameter, Values};
use crate::engine::{Counter, LineId, Word};
use crate::locks::{AnyLock, QSpinlock};
use crate::machine::{Machine, active, placement};
use crate::report::Report;
use crate::simulation::Simulation;
use crate::time::{Time, ms, ns};

pub const DESIGN: Design = Design {
    name: "percpu-counter",
    description: "percpu_counters under a reservation lock, as btrfs has them: batched adds, and reads or exact sums",
    parameters: &[
        Parameter { name: "tasks", default: "0", meaning: "CPUs that append to files; 0: all" },
        Parameter {
            name: "look",
            default: "read",
            meaning: "at the counters under the lock: none, read or sum",
        },
        Parameter {
            name: "layout",
            default: "padded",
            meaning: "of the CPUs' parts: padded, a line each; joined, a CPU's parts on one line; packed, 16 CPUs' on one",
        },
        Parameter {
            name: "beside",
            default: "none",
            meaning: "variables on the parts' lines: none; written, by a task's CPU in each operation, by others each ms",
        },
        Parameter {
            name: "caches",
            default: "keep",
            meaning: "what becomes of the lines that a sum has read: keep, or evict",
        },
        Parameter {
            name: "online",
            default: "all",
            meaning: "CPUs whose parts a sum reads: all; tasks, only CPUs with a task, as fxmark takes the others offline",
        },
        Parameter {
            name: "reads",
            default: "1",
            meaning: "of parts that a sum has under way at once, 1 at least",
        },
        Parameter { name: "instructions", default: "0", meaning: "of a sum per CPU" },
        Parameter {
            name: "counters",
            default: "2",
            meaning: "that are looked at: delalloc_bytes and ordered_bytes",
        },
        Parameter { name: "amount", default: "4096", meaning: "that each operation adds" },
        Parameter {
            name: "batch",
            default: "18874368",
            meaning: "of the counters: btrfs's delalloc_batch with 288 CPUs",
        },
        Parameter { name: "think", default: "20000", meaning: "ns of an operation outside the lock" },
        Parameter {
            name: "hold",
            default: "300",
            meaning: "ns of work under the lock, each of the two times",
        },
        Parameter { name: "lock", default: "qspinlock", meaning: "which kind of lock space_info has" },
        Parameter { name: "bug", default: "none", meaning: "to seed: none, skip (a sum leaves out a CPU)" },
    ],
    build,
    figures,
};

/// `s32` parts in a cache line of 64 bytes.
const PACKED: usize = 16;

/// What all counters share: the CPUs that are online, and how a CPU reads their parts.
struct Walk {
    online: Vec<usize>,
    /// Parts that are under way at once.
    reads: usize,
    /// What a CPU executes per part.
    step: Time,
    evicts: bool,
    /// A seeded bug: a sum leaves out a CPU.
    skips: bool,
    sums: Counter,
    sum_ns: Counter,
}

/// `struct percpu_counter`. Its lock protects the count, and keeps parts from being folded during a sum.
struct PercpuCounter {
    lock: QSpinlock,
    count: Word,
    parts: Vec<Word>,
    walk: Rc<Walk>,
    batch: u64,
    amount: u64,
    /// For the check of the invariant: what was added, and how much of it other CPUs see at least. Stores wait in a
    /// CPU's store buffer.
    added: Cell<u64>,
    visible: Cell<u64>,
}

impl PercpuCounter {
    fn new(
        sim: &mut Simulation,
        name: &str,
        sizes: (u64, u64),
        lines: &[LineId],
        walk: &Rc<Walk>,
    ) -> PercpuCounter {
        let (batch, amount) = sizes;
        PercpuCounter {
            lock: QSpinlock::new(sim, &format!("{name} lock"), 0),
            count: sim.word(name, 0),
            parts: lines.iter().map(|line| sim.word_on(*line)).collect(),
            walk: Rc::clone(walk),
            batch,
            amount,
            added: Cell::new(0),
            visible: Cell::new(0),
        }
    }

    /// `percpu_counter_add_batch`.
    async fn add(&self, cpu: &Cpu) {
        let amount = self.amount;
        self.added.set(self.added.get() + amount);
        let part = self.parts[cpu.id()];
        let grown = cpu.read(part).await + amount;
        if grown < self.batch {
            return cpu.write(part, grown).await;
        }
        cpu.lock(&self.lock).await;
        let count = cpu.read(self.count).await;
        cpu.write(self.count, count + grown).await;
        cpu.write(part, 0).await;
        cpu.unlock(&self.lock).await;
    }

    /// Called after an atomic operation: what this CPU added before is visible.
    fn is_visible(&self, amount: u64) {
        self.visible.set(self.visible.get() + amount);
    }

    /// `percpu_counter_read_positive`.
    async fn read(&self, cpu: &Cpu) -> u64 {
        let count = cpu.read(self.count).await;
        let (added, cpus) = (self.added.get(), self.parts.len() as u64);
        cpu.check(count <= added && added - count < (self.batch + self.amount) * cpus, || {
            format!("the counter is read as {count}, and is {added}: more than a batch a CPU is missing")
        });
        count
    }

    /// `percpu_counter_sum_positive`.
    async fn sum(&self, cpu: &Cpu) -> u64 {
        let walk = &self.walk;
        cpu.lock(&self.lock).await;
        let (start, least) = (cpu.now(), self.visible.get());
        let mut sum = cpu.read(self.count).await;
        let mut coming = VecDeque::new();
        for &online in &walk.online[usize::from(walk.skips)..] {
            let part = self.parts[online];
            sum += cpu.peek_same_line(part);
            coming.push_back(cpu.prefetch(part));
            if walk.evicts {
                cpu.evict(part);
            }
            if coming.len() == walk.reads {
                until(cpu, coming.pop_front()).await;
            }
            cpu.work(walk.step).await;
        }
        until(cpu, coming.pop_back()).await;
        let most = self.added.get(); // it only grows
        cpu.check((least..=most).contains(&sum), || {
            format!("the counter is summed to {sum}, and was {least} to {most} meanwhile")
        });
        cpu.count(walk.sums, 1);
        cpu.count(walk.sum_ns, (cpu.now() - start).as_ns() as u64);
        cpu.unlock(&self.lock).await;
        sum
    }
}

async fn until(cpu: &Cpu, time: Option<Time>) {
    if let Some(time) = time {
        cpu.work(time.since(cpu.now())).await;
    }
}

/// The name of the reservation lock.
const RESERVATION: &str = "space_info lock";

#[derive(Clone, Copy)]
enum Look {
    None,
    Read,
    Sum,
}

struct Dwal {
    space_info: AnyLock,
    bytes_may_use: Word,
    counters: Vec<PercpuCounter>,
    /// By CPU: what else it writes on the lines of its parts.
    beside: Vec<Vec<Word>>,
    look: Look,
    amount: u64,
    think: Time,
    hold: Time,
}

impl Dwal {
    async fn program(self: Rc<Self>, cpu: Cpu) {
        loop {
            cpu.work(cpu.exponential(self.think)).await;
            cpu.lock(&self.space_info).await;
            cpu.fetch_add(self.bytes_may_use, self.amount).await;
            cpu.work(self.hold).await;
            self.need_preemptive_reclaim(&cpu).await;
            cpu.unlock(&self.space_info).await;
            self.counters[0].add(&cpu).await;
            self.write_beside(&cpu).await;
            self.btrfs_block_rsv_release(&cpu).await;
            cpu.operation();
        }
    }

    async fn write_beside(&self, cpu: &Cpu) {
        for word in &self.beside[cpu.id()] {
            cpu.write(*word, 1).await;
        }
    }

    /// What the timer's ticks do on a CPU without a task, with HZ=1000.
    async fn ticks(self: Rc<Self>, cpu: Cpu) {
        loop {
            cpu.sleep_until(cpu.now() + cpu.exponential(ms(1))).await;
            self.write_beside(&cpu).await;
        }
    }

    async fn need_preemptive_reclaim(&self, cpu: &Cpu) {
        for counter in &self.counters {
            match self.look {
                Look::None => 0,
                Look::Read => counter.read(cpu).await,
                Look::Sum => counter.sum(cpu).await,
            };
        }
    }

    async fn btrfs_block_rsv_release(&self, cpu: &Cpu) {
        cpu.lock(&self.space_info).await;
        cpu.fetch_add(self.bytes_may_use, self.amount.wrapping_neg()).await;
        self.counters[0].is_visible(self.amount);
        cpu.work(self.hold).await;
        cpu.unlock(&self.space_info).await;
    }
}

/// The line of each counter's part of each CPU.
fn lines(sim: &mut Simulation, counters: usize, layout: &str) -> Vec<Vec<LineId>> {
    let machine = sim.machine();
    let mut lines: Vec<Vec<LineId>> = Vec::new();
    for counter in 0..counters {
        let name = format!("percpu_counter {counter} of a CPU");
        let mut of_counter = Vec::new();
        for cpu in 0..machine.cpus() {
            let line = match layout {
                "joined" if counter > 0 => lines[0][cpu],
                "packed" if cpu % PACKED > 0 => of_counter[cpu - 1],
                _ => sim.line(&name, machine.node_of(cpu)),
            };
            of_counter.push(line);
        }
        lines.push(of_counter);
    }
    lines
}

/// How long a number of instructions takes on CPUs that all have tasks.
fn takes(machine: &Machine, instructions: u64, cpus: &[usize]) -> Result<Time, InputError> {
    match (instructions, machine.processor()) {
        (0, _) => Ok(Time::ZERO),
        (_, None) => Err(InputError(format!(
            "instructions={instructions}: {} describes no processor: use 0",
            machine.name
        ))),
        (_, Some(processor)) => {
            let (cores, threads) = active(machine, cpus)[0];
            Ok(ns(instructions as f64 * processor.ns_per_instruction(processor.ghz(cores), threads)))
        }
    }
}

fn walk(sim: &mut Simulation, values: &Values, tasks: &[usize]) -> Result<Walk, InputError> {
    let machine = sim.machine();
    let mut online = match values.choice("online", &["all", "tasks"])? {
        "all" => (0..machine.cpus()).collect(),
        _ => tasks.to_vec(),
    };
    online.sort_unstable();
    Ok(Walk {
        online,
        reads: values.count("reads")?.max(1) as usize,
        step: takes(&machine, values.count("instructions")?, tasks)?,
        evicts: values.choice("caches", &["keep", "evict"])? == "evict",
        skips: values.choice("bug", &["none", "skip"])? == "skip",
        sums: sim.counter("sums"),
        sum_ns: sim.counter("sums, ns"),
    })
}

fn build(sim: &mut Simulation, values: &Values) -> Result<(), InputError> {
    let mut tasks = placement(&sim.machine(), false);
    tasks.truncate(values.tasks(tasks.len())?);
    let walk = Rc::new(walk(sim, values, &tasks)?);
    let look = match values.choice("look", &["none", "read", "sum"])? {
        "none" => Look::None,
        "read" => Look::Read,
        _ => Look::Sum,
    };
    let (batch, amount) = (values.count("batch")?.max(1), values.count("amount")?);
    let kinds: Vec<&str> = AnyLock::KINDS.iter().map(|(kind, _)| *kind).collect();
    let lock = values.choice("lock", &kinds)?;
    let layout = values.choice("layout", &["padded", "joined", "packed"])?;
    let lines = lines(sim, values.count("counters")?.max(1) as usize, layout);
    let mut beside = vec![Vec::new(); sim.cpus()];
    if values.choice("beside", &["none", "written"])? == "written" {
        let of_lines = if layout == "joined" { &lines[..1] } else { &lines[..] };
        for (cpu, words) in beside.iter_mut().enumerate() {
            words.extend(of_lines.iter().map(|lines| sim.word_on(lines[cpu])));
        }
    }
    let counters = lines.iter().enumerate().map(|(number, lines)| {
        PercpuCounter::new(sim, &format!("percpu_counter {number}"), (batch, amount), lines, &walk)
    });
    let dwal = Rc::new(Dwal {
        counters: counters.collect(),
        space_info: AnyLock::new(lock, sim, RESERVATION, 0).expect("one of the kinds"),
        bytes_may_use: sim.word("space_info", 0),
        beside,
        look,
        amount,
        think: values.time("think")?,
        hold: values.time("hold")?,
    });
    for &cpu in &tasks {
        let dwal = Rc::clone(&dwal);
        sim.program(cpu, |cpu| dwal.program(cpu));
    }
    for &cpu in walk.online.iter().filter(|&&cpu| !tasks.contains(&cpu) && !dwal.beside[cpu].is_empty()) {
        let dwal = Rc::clone(&dwal);
        sim.program(cpu, |cpu| dwal.ticks(cpu));
    }
    Ok(())
}

/// The share of their time that tasks wait for the reservation lock, and how long an exact sum takes.
fn figures(report: &Report, _: &Values) -> Vec<Figure> {
    let total = report.total();
    let busy = total.user + total.kernel();
    let waiting = report.locks.iter().filter(|lock| lock.name == RESERVATION).map(|lock| lock.waiting);
    let share = waiting.sum::<Time>().share_of(busy);
    let (sums, sum_ns) = (report.counter("sums"), report.counter("sums, ns"));
    let mut figures = vec![Figure { name: "waiting for the lock", value: 100.0 * share, unit: "%" }];
    if sums > 0 {
        figures.push(Figure { name: "exact sum", value: sum_ns as f64 / sums as f64, unit: "ns" });
    }
    figures
}
