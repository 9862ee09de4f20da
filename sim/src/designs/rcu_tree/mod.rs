//! RCU as Linux has it since 2.6.29: a combining tree of masks, each protected by a lock of its own.
//!
//! A CPU reports its quiescent state to its leaf. The CPU that clears the last bit of a node reports to the node
//! above. So the root's lock, the only one that all CPUs can take, is taken once per child of the root. A request for
//! a grace period also goes from the leaf up, and stops at a node that has the request already. An expedited grace
//! period sends an IPI to every CPU instead of waiting for its tick.
//!
//! Follows `kernel/rcu/tree.c` and `tree_exp.h` of 5.10 (`rcu_start_this_gp`, `rcu_gp_init`, `rcu_gp_cleanup`,
//! `note_gp_changes`, `rcu_report_qs_rnp`, `sync_rcu_exp_select_cpus`), whose names it keeps. As before 3.6, the CPU
//! that reports last ends a grace period and begins the next, so the wakeup of a kthread is left out. No CPU stops
//! its tick, so quiescent states are never forced.

mod completion;
mod shape;
mod synchronize;
mod tree;

use std::rc::Rc;

pub use completion::Waiter;
pub use tree::Tree;

use crate::cpu::Cpu;
use crate::designs::design::{Design, InputError, Parameter, Values};
use crate::designs::rcu::{Bug, Common, Load, figures, parameter};
use crate::engine::Interrupt;
use crate::simulation::Simulation;

pub const DESIGN: Design = Design {
    name: "rcu-tree",
    description: "RCU since Linux 2.6.29: a combining tree of any shape; grace periods normal or expedited",
    parameters: &[
        parameter::LEVELS,
        Parameter {
            name: "leaf",
            default: "node",
            meaning: "CPUs in a leaf, or node: those of a node of the machine",
        },
        Parameter {
            name: "lock",
            default: "ticket",
            meaning: "which kind of lock each node of the tree has",
        },
        Parameter {
            name: "update",
            default: "call_rcu",
            meaning: "call_rcu, synchronize_rcu or synchronize_rcu_expedited",
        },
        parameter::HZ,
        parameter::TICK,
        Parameter { name: "updaters", default: "1", meaning: "CPUs that update in a loop" },
        Parameter {
            name: "interval",
            default: "1000000",
            meaning: "ns between updates of each, mean; 0: never",
        },
        Parameter {
            name: "background",
            default: "0",
            meaning: "ns between updates of other CPUs, mean; 0: never",
        },
        parameter::READ,
        parameter::READS,
        parameter::CALLBACK,
        parameter::BLIMIT,
        parameter::BUG,
    ],
    build,
    figures,
};

async fn interrupts(cpu: Cpu, tree: Rc<Tree<Waiter>>) {
    loop {
        tree.common.tick.arm(&cpu);
        loop {
            match cpu.interrupt().await {
                Interrupt::Timer(_) => break,
                Interrupt::Ipi { .. } => tree.expedite(&cpu).await,
            }
        }
        tree.tick(&cpu, !tree.common.readers.reads(&cpu)).await;
        tree.invoke(&cpu).await;
    }
}

async fn updates(cpu: Cpu, tree: Rc<Tree<Waiter>>, load: Load, update: Update) {
    let readers = &tree.common.readers;
    loop {
        load.until_next_update(&cpu, readers).await;
        load.read(&cpu, readers).await;
        match update {
            Update::Call => tree.call_rcu(&cpu, None),
            Update::Synchronize => tree.synchronize_rcu(&cpu).await,
            Update::Expedited => tree.synchronize_rcu_expedited(&cpu).await,
        }
        cpu.operation();
    }
}

#[derive(Clone, Copy)]
enum Update {
    Call,
    Synchronize,
    Expedited,
}

fn build(sim: &mut Simulation, values: &Values) -> Result<(), InputError> {
    let common = Common::of(sim, values, Bug::of(values)?)?;
    let load = Load::of(values, sim.cpus())?;
    let tree: Rc<Tree<Waiter>> = Rc::new(Tree::new(sim, values, common)?);
    let update =
        match values.choice("update", &["call_rcu", "synchronize_rcu", "synchronize_rcu_expedited"])? {
            "call_rcu" => Update::Call,
            "synchronize_rcu" => Update::Synchronize,
            _ => Update::Expedited,
        };
    for cpu in 0..sim.cpus() {
        let (in_handler, in_program, load) = (Rc::clone(&tree), Rc::clone(&tree), load.clone());
        sim.handler(cpu, |cpu| interrupts(cpu, in_handler));
        sim.program(cpu, |cpu| updates(cpu, in_program, load, update));
    }
    Ok(())
}
