//! RCU as Linux 2.6.5 has it: a mask with a bit per CPU, protected by one lock, all in one or two cache lines.
//!
//! At every tick a CPU checks its bit in the mask. Once it has passed through a quiescent state since it first saw
//! the bit, it takes the lock and clears the bit. The CPU that clears the last bit ends the grace period, and starts
//! the next if one is needed. With the jiffies mask, a CPU does so only at ticks with `(jiffies & mask) == (cpu &
//! mask)`. A mask of 0 is every tick, as in 2.6.5.
//!
//! Follows `kernel/rcupdate.c` and `include/linux/rcupdate.h` of 2.6.5, whose names it keeps, and the contended
//! spinlock of `arch/ia64/kernel/head.S`: test-and-set of the word at the start of `struct rcu_ctrlblk`, on the same
//! cache line as the mask.

use std::cell::Cell;
use std::rc::Rc;

use crate::cpu::Cpu;
use crate::designs::design::{Design, InputError, Parameter, Values};
use crate::designs::rcu::{Bug, Callbacks, Common, GLOBAL_LOCK, Load, figures, parameter};
use crate::engine::{Interrupt, LockId, Word};
use crate::lock::Lock;
use crate::simulation::Simulation;
use crate::time::Time;

pub const DESIGN: Design = Design {
    name: "rcu-flat",
    description: "RCU of Linux 2.6.5: one mask of all CPUs under one lock, looked at in every tick",
    parameters: &[
        Parameter {
            name: "mask",
            default: "0",
            meaning: "process callbacks when (jiffies & mask) == (cpu & mask)",
        },
        Parameter { name: "hz", default: "1024", meaning: "ticks a second" },
        parameter::TICK,
        Parameter { name: "updaters", default: "1", meaning: "CPUs that call call_rcu in a loop" },
        Parameter {
            name: "interval",
            default: "1000000",
            meaning: "ns between call_rcu of each, mean; 0: never",
        },
        Parameter {
            name: "background",
            default: "0",
            meaning: "ns between call_rcu of other CPUs, mean; 0: never",
        },
        parameter::READ,
        parameter::READS,
        parameter::CALLBACK,
        parameter::BUG,
    ],
    build,
    figures,
};

/// Bytes of a cache line of an Itanium 2's outer caches.
const LINE: usize = 128;
/// Bytes of `struct rcu_ctrlblk` before the mask.
const HEAD: usize = 24;

/// `struct rcu_ctrlblk`. The lock protects it. `rcu_pending` reads it without the lock.
struct Ctrlblk {
    mutex: Mutex,
    /// The running grace period, or the last one.
    curbatch: Word,
    /// The latest grace period that a CPU needs.
    maxbatch: Word,
    /// The CPUs that have not passed through a quiescent state in this grace period. Empty if no grace period runs.
    rcu_cpu_mask: Vec<Word>,
    online: Vec<u64>,
    /// When this grace period began, for the check of the invariant.
    began: Cell<Time>,
}

/// `struct rcu_data`. Only its own CPU uses it.
struct Data {
    callbacks: Callbacks<()>,
    qsctr: Cell<u64>,
    last_qsctr: Cell<Option<u64>>,
}

struct Rcu {
    common: Common,
    ctrlblk: Ctrlblk,
    data: Vec<Data>,
    mask: u64,
}

impl Rcu {
    fn new(sim: &mut Simulation, common: Common, mask: u64) -> Rcu {
        let cpus = sim.cpus();
        let mut lines = vec![sim.line("rcu_ctrlblk", 0)];
        let words = (0..cpus.div_ceil(64)).map(|word| {
            let line = (HEAD + 8 * word) / LINE;
            if line == lines.len() {
                lines.push(sim.line("rcu_ctrlblk", 0));
            }
            sim.word_on(lines[line])
        });
        let rcu_cpu_mask = words.collect();
        let online =
            (0..cpus.div_ceil(64)).map(|word| u64::MAX >> (64 * (word + 1)).saturating_sub(cpus)).collect();
        let ctrlblk = Ctrlblk {
            mutex: Mutex { id: sim.lock_id(GLOBAL_LOCK), word: sim.word_on(lines[0]) },
            curbatch: sim.word_on(lines[0]),
            maxbatch: sim.word_on(lines[0]),
            rcu_cpu_mask,
            online,
            began: Cell::new(Time::ZERO),
        };
        let data = |_| Data {
            callbacks: Callbacks::new(common.bug),
            qsctr: Cell::new(0),
            last_qsctr: Cell::new(None),
        };
        Rcu { ctrlblk, data: (0..cpus).map(data).collect(), mask, common }
    }

    fn data(&self, cpu: &Cpu) -> &Data {
        &self.data[cpu.id()]
    }

    /// The tick: `update_process_times` and, as a tasklet at its end, `rcu_process_callbacks`.
    async fn tick(&self, cpu: &Cpu) {
        cpu.work(self.common.tick.cost).await;
        self.data(cpu).callbacks.check_no_stall(cpu);
        let jiffies = self.common.tick.jiffies(cpu.now());
        if jiffies & self.mask != cpu.id() as u64 & self.mask {
            return;
        }
        if self.rcu_pending(cpu).await {
            if !self.common.readers.reads(cpu) || self.common.bug == Bug::Early {
                self.data(cpu).qsctr.set(self.data(cpu).qsctr.get() + 1);
            }
            self.rcu_process_callbacks(cpu).await;
        }
    }

    async fn rcu_pending(&self, cpu: &Cpu) -> bool {
        let callbacks = &self.data(cpu).callbacks;
        if let Some(batch) = callbacks.first_wanted() {
            if batch < cpu.read(self.ctrlblk.curbatch).await {
                return true;
            }
        } else if callbacks.has_next() {
            return true;
        }
        self.mask_has(cpu).await
    }

    async fn mask_has(&self, cpu: &Cpu) -> bool {
        cpu.read(self.ctrlblk.rcu_cpu_mask[cpu.id() / 64]).await >> (cpu.id() % 64) & 1 == 1
    }

    async fn rcu_process_callbacks(&self, cpu: &Cpu) {
        let callbacks = &self.data(cpu).callbacks;
        if callbacks.has_waiting() {
            let curbatch = cpu.read(self.ctrlblk.curbatch).await;
            callbacks.complete(curbatch - 1);
        }
        if callbacks.has_next() && (!callbacks.has_waiting() || self.common.bug == Bug::Lost) {
            cpu.lock(&self.ctrlblk.mutex).await;
            let batch = cpu.read(self.ctrlblk.curbatch).await + 1;
            callbacks.register(batch);
            self.rcu_start_batch(cpu, batch).await;
            cpu.unlock(&self.ctrlblk.mutex).await;
        }
        self.rcu_check_quiescent_state(cpu).await;
        let batch = callbacks.take(cpu, &self.common.readers, usize::MAX);
        self.common.invoke(cpu, batch, |()| ()).await;
    }

    /// Starts the next grace period if one is needed and none runs. The CPU holds the lock.
    async fn rcu_start_batch(&self, cpu: &Cpu, newbatch: u64) {
        let Ctrlblk { curbatch, maxbatch, rcu_cpu_mask, online, began, .. } = &self.ctrlblk;
        if cpu.read(*maxbatch).await < newbatch {
            cpu.write(*maxbatch, newbatch).await;
        }
        if cpu.read(*maxbatch).await < cpu.read(*curbatch).await || !self.mask_is_empty(cpu).await {
            return;
        }
        began.set(cpu.now());
        for (word, online) in rcu_cpu_mask.iter().zip(online) {
            cpu.write(*word, *online).await;
        }
    }

    async fn mask_is_empty(&self, cpu: &Cpu) -> bool {
        for word in &self.ctrlblk.rcu_cpu_mask {
            if cpu.read(*word).await != 0 {
                return false;
            }
        }
        true
    }

    async fn rcu_check_quiescent_state(&self, cpu: &Cpu) {
        if !self.mask_has(cpu).await {
            return;
        }
        let data = self.data(cpu);
        let Some(last) = data.last_qsctr.get() else {
            data.last_qsctr.set(Some(data.qsctr.get()));
            return;
        };
        if data.qsctr.get() == last {
            return;
        }
        let Ctrlblk { mutex, curbatch, maxbatch, rcu_cpu_mask, began, .. } = &self.ctrlblk;
        cpu.lock(mutex).await;
        data.last_qsctr.set(None);
        let word = rcu_cpu_mask[cpu.id() / 64];
        let mask = cpu.read(word).await;
        cpu.write(word, mask & !(1 << (cpu.id() % 64))).await;
        if self.mask_is_empty(cpu).await {
            self.common.readers.check_none_from_before(cpu, began.get());
            self.common.counts.grace_period(cpu, began.get());
            let batch = cpu.read(*curbatch).await;
            cpu.write(*curbatch, batch + 1).await;
            let maxbatch = cpu.read(*maxbatch).await;
            self.rcu_start_batch(cpu, maxbatch).await;
        }
        cpu.unlock(mutex).await;
    }
}

/// The lock, on the cache line that it protects: waiting CPUs slow the holder down.
struct Mutex {
    id: LockId,
    word: Word,
}

impl Lock for Mutex {
    fn id(&self) -> LockId {
        self.id
    }

    async fn acquire(&self, cpu: &Cpu) {
        while cpu.compare_exchange(self.word, 0, 1).await != 0 {
            cpu.spin_while(self.word, |value| value != 0).await;
        }
    }

    async fn release(&self, cpu: &Cpu) {
        cpu.write(self.word, 0).await;
    }
}

fn build(sim: &mut Simulation, values: &Values) -> Result<(), InputError> {
    let common = Common::of(sim, values, Bug::of(values)?)?;
    let load = Load::of(values, sim.cpus())?;
    let rcu = Rc::new(Rcu::new(sim, common, values.count("mask")?));
    sim.set(rcu.ctrlblk.curbatch, 1);
    sim.set(rcu.ctrlblk.maxbatch, 1);
    for cpu in 0..sim.cpus() {
        let (in_tick, in_program, load) = (Rc::clone(&rcu), Rc::clone(&rcu), load.clone());
        sim.handler(cpu, |cpu| async move {
            loop {
                in_tick.common.tick.arm(&cpu);
                if let Interrupt::Timer(_) = cpu.interrupt().await {
                    in_tick.tick(&cpu).await;
                }
            }
        });
        sim.program(cpu, |cpu| async move {
            let readers = &in_program.common.readers;
            loop {
                load.until_next_update(&cpu, readers).await;
                load.read(&cpu, readers).await;
                in_program.data(&cpu).callbacks.queue(cpu.now(), ());
                cpu.operation();
            }
        });
    }
    Ok(())
}
