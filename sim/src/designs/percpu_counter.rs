//! A percpu_counter under a reservation lock, as in btrfs: fxmark's DWAL, where every task appends to a file of its
//! own and all tasks reserve space under one lock.
//!
//! Adding changes the CPU's own part, and the shared count only when that part has grown by a batch. Reading returns
//! the shared count, which is off by up to a batch per CPU. An exact sum reads the part of every online CPU, each on
//! a cache line that its CPU writes. If that happens under the reservation lock, all tasks wait for it.
//!
//! Follows `lib/percpu_counter.c` and `fs/btrfs/space-info.c` (`__reserve_bytes`, `need_preemptive_reclaim`,
//! `btrfs_block_rsv_release`) of 5.12, whose names it keeps. The sum's loads do not overlap here, as they do on an
//! out-of-order CPU, so a sum costs too much.
//!
//! Invariants, which are checked: a sum lies between the least and the greatest value that the counter had meanwhile,
//! and a read is off by at most a batch per CPU.

use std::cell::Cell;
use std::rc::Rc;

use crate::cpu::Cpu;
use crate::designs::design::{Design, Figure, InputError, Parameter, Values};
use crate::engine::Word;
use crate::locks::{AnyLock, QSpinlock};
use crate::report::Report;
use crate::simulation::Simulation;
use crate::time::Time;

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
            meaning: "of the CPUs' parts: padded, a line each; packed, 16 a line",
        },
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

/// `struct percpu_counter`. Its lock protects the count, and keeps parts from being folded during a sum.
struct PercpuCounter {
    lock: QSpinlock,
    count: Word,
    parts: Vec<Word>,
    batch: u64,
    amount: u64,
    /// A seeded bug: a sum leaves out a CPU.
    skips: bool,
    /// For the check of the invariant: what was added, and how much of it other CPUs see at least. Stores wait in a
    /// CPU's store buffer.
    added: Cell<u64>,
    visible: Cell<u64>,
}

impl PercpuCounter {
    fn new(sim: &mut Simulation, name: &str, sizes: (u64, u64), packed: bool, skips: bool) -> PercpuCounter {
        let (batch, amount) = sizes;
        let machine = sim.machine();
        let part = format!("{name} of a CPU");
        let mut line = None;
        let parts = (0..machine.cpus()).map(|cpu| {
            if !packed || cpu % PACKED == 0 {
                line = Some(sim.line(&part, machine.node_of(cpu)));
            }
            sim.word_on(line.expect("made for the first"))
        });
        let parts = parts.collect();
        PercpuCounter {
            lock: QSpinlock::new(sim, &format!("{name} lock"), 0),
            count: sim.word(name, 0),
            parts,
            batch,
            amount,
            skips,
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
        cpu.lock(&self.lock).await;
        let least = self.visible.get();
        let mut sum = cpu.read(self.count).await;
        let online = self.parts.len() - usize::from(self.skips);
        for part in &self.parts[..online] {
            sum += cpu.read(*part).await;
        }
        let most = self.added.get(); // it only grows
        cpu.check((least..=most).contains(&sum), || {
            format!("the counter is summed to {sum}, and was {least} to {most} meanwhile")
        });
        cpu.unlock(&self.lock).await;
        sum
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
            self.btrfs_block_rsv_release(&cpu).await;
            cpu.operation();
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

fn build(sim: &mut Simulation, values: &Values) -> Result<(), InputError> {
    let cpus = sim.cpus();
    let tasks = values.tasks(cpus)?;
    let skips = values.choice("bug", &["none", "skip"])? == "skip";
    let packed = values.choice("layout", &["padded", "packed"])? == "packed";
    let look = match values.choice("look", &["none", "read", "sum"])? {
        "none" => Look::None,
        "read" => Look::Read,
        _ => Look::Sum,
    };
    let (batch, amount) = (values.count("batch")?.max(1), values.count("amount")?);
    let kinds: Vec<&str> = AnyLock::KINDS.iter().map(|(kind, _)| *kind).collect();
    let lock = values.choice("lock", &kinds)?;
    let names = (0..values.count("counters")?.max(1)).map(|number| format!("percpu_counter {number}"));
    let dwal = Rc::new(Dwal {
        space_info: AnyLock::new(lock, sim, RESERVATION, 0).expect("one of the kinds"),
        bytes_may_use: sim.word("space_info", 0),
        counters: names.map(|name| PercpuCounter::new(sim, &name, (batch, amount), packed, skips)).collect(),
        look,
        amount,
        think: values.time("think")?,
        hold: values.time("hold")?,
    });
    for cpu in 0..tasks {
        let dwal = Rc::clone(&dwal);
        sim.program(cpu, |cpu| dwal.program(cpu));
    }
    Ok(())
}

/// The share of their time that tasks wait for the reservation lock.
fn figures(report: &Report, _: &Values) -> Vec<Figure> {
    let total = report.total();
    let busy = total.user + total.kernel();
    let waiting = report.locks.iter().filter(|lock| lock.name == RESERVATION).map(|lock| lock.waiting);
    let share = waiting.sum::<Time>().share_of(busy);
    vec![Figure { name: "waiting for the lock", value: 100.0 * share, unit: "%" }]
}
