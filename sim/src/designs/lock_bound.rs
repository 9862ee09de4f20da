//! Operations that are bound by a lock or by reference counts, in any subsystem.
//!
//! Each task, one per CPU, thinks in user mode, takes and drops `refcounts` reference counts that all tasks share
//! (such as `aa_label.count`), then holds one lock. Without think time this is the worst case. With think time it is
//! the machine-repairman model, plus the cost of the lock itself.

use std::rc::Rc;

use crate::designs::design::{Design, InputError, Parameter, Values};
use crate::locks::AnyLock;
use crate::simulation::Simulation;

pub const DESIGN: Design = Design {
    name: "lock-bound",
    description: "tasks that think, touch shared reference counts, and hold a lock",
    parameters: &[
        Parameter { name: "lock", default: "qspinlock", meaning: "which kind of lock" },
        Parameter {
            name: "think",
            default: "1000",
            meaning: "ns in user mode, mean of an exponential distribution",
        },
        Parameter {
            name: "hold",
            default: "100",
            meaning: "ns for which the lock is held; 0: the lock is not taken",
        },
        Parameter {
            name: "refcounts",
            default: "0",
            meaning: "shared counts that each operation gets and puts",
        },
    ],
    build,
    figures: |_, _| Vec::new(),
};

fn build(sim: &mut Simulation, values: &Values) -> Result<(), InputError> {
    let kinds: Vec<&str> = AnyLock::KINDS.iter().map(|(kind, _)| *kind).collect();
    let kind = values.choice("lock", &kinds)?;
    let (think, hold) = (values.time("think")?, values.time("hold")?);
    let lock = Rc::new(AnyLock::new(kind, sim, "lock", 0).expect("one of the kinds"));
    let counts: Rc<[_]> = (0..values.count("refcounts")?).map(|_| sim.word("refcount", 0)).collect();
    for cpu in 0..sim.cpus() {
        let (lock, counts) = (Rc::clone(&lock), Rc::clone(&counts));
        sim.program(cpu, move |cpu| async move {
            loop {
                if think.ps() > 0 {
                    cpu.user(cpu.exponential(think)).await;
                }
                for &count in &*counts {
                    cpu.fetch_add(count, 1).await;
                }
                if hold.ps() > 0 {
                    cpu.lock(&*lock).await;
                    cpu.work(hold).await;
                    cpu.unlock(&*lock).await;
                }
                for &count in &*counts {
                    cpu.fetch_add(count, 1u64.wrapping_neg()).await;
                }
                cpu.operation();
            }
        });
    }
    Ok(())
}
