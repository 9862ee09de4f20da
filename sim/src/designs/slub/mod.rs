//! SLUB with objects that RCU frees: the loop of will-it-scale's open1, which allocates a `struct file` and frees it
//! by `call_rcu`.
//!
//! A CPU allocates from a slab of its own. A freed object goes back to its slab. The first object that comes back to
//! a full slab puts the slab on the CPU's partial list. When that list has too many objects, its slabs go to the
//! node's list, under the node's `list_lock`. How many objects come back at a time depends on the length of grace
//! periods: in 3.16, every RCU_COND_RESCHED_LIM-th call of `cond_resched` is a quiescent state.
//!
//! Follows `mm/slub.c` of 3.15 (`__slab_alloc`, `get_freelist`, `get_partial_node`, `__slab_free`, `put_cpu_partial`,
//! `unfreeze_partials`), whose names it keeps; `kernel/softirq.c` for many callbacks;
//! `include/linux/rcucondresched.h` of 3.16-rc0 for the limit. Left out: taking partial slabs from other nodes, and
//! the page allocator's own locks.

mod cache;

use std::cell::Cell;
use std::rc::Rc;

use crate::cpu::Cpu;
use crate::designs::design::{Design, Figure, InputError, Parameter, Values};
use crate::designs::rcu::{Bug, Common, grace_periods, parameter};
use crate::designs::rcu_tree::Tree;
use crate::designs::slub::cache::{Cache, Object};
use crate::engine::Interrupt;
use crate::report::Report;
use crate::simulation::Simulation;
use crate::time::{Time, ns};

pub const DESIGN: Design = Design {
    name: "slub",
    description: "SLUB under objects that RCU frees, as open1 does it: slabs, partial lists, the node's list_lock",
    parameters: &[
        Parameter { name: "tasks", default: "0", meaning: "CPUs that open and close files; 0: all" },
        Parameter {
            name: "limit",
            default: "100000",
            meaning: "RCU_COND_RESCHED_LIM: cond_resched to a quiescent state; 0: never",
        },
        Parameter { name: "cond_resched", default: "3", meaning: "calls of cond_resched in an operation" },
        Parameter { name: "user", default: "200", meaning: "ns of an operation in user mode, mean" },
        Parameter {
            name: "walk",
            default: "1000",
            meaning: "ns of an operation under rcu_read_lock, looking names up",
        },
        Parameter { name: "kernel", default: "1800", meaning: "ns of an operation in the kernel beside" },
        Parameter { name: "objects", default: "16", meaning: "objects in a slab" },
        Parameter { name: "cpu_partial", default: "13", meaning: "objects on a CPU's partial list, at most" },
        Parameter {
            name: "min_partial",
            default: "5",
            meaning: "slabs on a node's list that are kept though empty",
        },
        Parameter {
            name: "page_alloc",
            default: "1500",
            meaning: "ns to get a slab from the page allocator or give it back",
        },
        parameter::LEVELS,
        parameter::LEAF,
        Parameter { name: "lock", default: "ticket", meaning: "which kind of lock each node of it has" },
        parameter::HZ,
        parameter::TICK,
        Parameter {
            name: "callback",
            default: "100",
            meaning: "ns to invoke a callback, the fast path of a free among it",
        },
        parameter::BLIMIT,
        Parameter {
            name: "bug",
            default: "none",
            meaning: "to seed: none, early or lost (RCU's), unfrozen (a slab is on two lists)",
        },
    ],
    build,
    figures,
};

/// After so many rounds, softirqs that are raised again are left to ksoftirqd.
const MAX_SOFTIRQ_RESTART: usize = 10;

struct Open1 {
    tree: Tree<Object>,
    cache: Cache,
    in_user: Vec<Cell<bool>>,
    tasks: usize,
    limit: u64,
    cond_resched: u64,
    user: Time,
    walk: Time,
    kernel: Time,
}

impl Open1 {
    async fn program(self: Rc<Self>, cpu: Cpu) {
        let in_user = &self.in_user[cpu.id()];
        if cpu.id() >= self.tasks {
            in_user.set(true);
            return cpu.idle().await;
        }
        let readers = &self.tree.common.readers;
        let mut resched = 0;
        loop {
            in_user.set(true);
            cpu.user(cpu.exponential(self.user)).await;
            in_user.set(false);
            readers.lock(&cpu);
            cpu.work(self.walk).await;
            readers.unlock(&cpu);
            let file = self.cache.alloc(&cpu).await;
            cpu.work(self.kernel).await;
            self.tree.call_rcu(&cpu, file);
            resched += self.cond_resched;
            if self.limit > 0 && resched >= self.limit {
                resched = 0;
                cpu.work(ns(100)).await;
                self.tree.rcu_note_context_switch(&cpu);
            }
            cpu.operation();
        }
    }

    async fn interrupts(self: Rc<Self>, cpu: Cpu) {
        loop {
            self.tree.common.tick.arm(&cpu);
            while !matches!(cpu.interrupt().await, Interrupt::Timer(_)) {}
            self.tree.tick(&cpu, self.in_user[cpu.id()].get()).await;
            let mut rounds = 0;
            while self.tree.has_ready(&cpu) {
                for callback in self.tree.ready(&cpu) {
                    cpu.work(self.tree.common.callback).await;
                    self.tree.common.counts.callback(&cpu, callback.queued);
                    self.cache.free(&cpu, callback.what).await;
                }
                rounds += 1;
                if rounds == MAX_SOFTIRQ_RESTART {
                    self.tree.rcu_note_context_switch(&cpu); // to ksoftirqd
                }
            }
        }
    }
}

fn build(sim: &mut Simulation, values: &Values) -> Result<(), InputError> {
    let cpus = sim.cpus();
    let tasks = values.tasks(cpus)?;
    let bug = if values.text("bug") == "unfrozen" { Bug::None } else { Bug::of(values)? };
    let common = Common::of(sim, values, bug)?;
    let open1 = Rc::new(Open1 {
        tree: Tree::new(sim, values, common)?,
        cache: Cache::new(sim, values, tasks)?,
        in_user: (0..cpus).map(|_| Cell::new(false)).collect(),
        tasks,
        limit: values.count("limit")?,
        cond_resched: values.count("cond_resched")?,
        user: values.time("user")?,
        walk: values.time("walk")?,
        kernel: values.time("kernel")?,
    });
    for cpu in 0..cpus {
        let (in_handler, in_program) = (Rc::clone(&open1), Rc::clone(&open1));
        sim.handler(cpu, |cpu| in_handler.interrupts(cpu));
        sim.program(cpu, |cpu| in_program.program(cpu));
    }
    Ok(())
}

fn figures(report: &Report, _: &Values) -> Vec<Figure> {
    let per_operation =
        |count: f64| if report.operations == 0 { 0.0 } else { count / report.operations as f64 };
    let list_lock = report.locks.iter().find(|lock| lock.name == "list_lock");
    let taken = list_lock.map_or(0, |lock| lock.acquired);
    let waiting = list_lock.map_or(0.0, |lock| lock.waiting.as_ns());
    let mut figures = vec![
        Figure { name: "list_lock", value: per_operation(taken as f64), unit: "times/op" },
        Figure { name: "waiting for list_lock", value: per_operation(waiting), unit: "ns/op" },
    ];
    figures.extend(grace_periods(report));
    figures
}
