//! One replay: a program, on a machine, with a number of tasks.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::failure::Failure;
use crate::machine::{Machine, active, placement};
use crate::replay::enough::{Length, Steps};
use crate::replay::program::Program;
use crate::replay::setting::Setting;
use crate::replay::shared::Shared;
use crate::replay::task::{Task, answer_interrupts};
use crate::simulation::Simulation;
use crate::time::{ns, us};

/// The result of a replay.
#[derive(Clone, Debug)]
pub struct ReplayResult {
    /// Operations per second, of all tasks together.
    pub throughput: f64,
    /// Shares of the tasks' time: work, memory bandwidth, interrupts, then each cache line, then each lock.
    pub shares: Vec<f64>,
    pub events: u64,
}

/// Replays a program. It fails on a deadlock, if it comes to no end, or if `stop` is set.
pub fn replay(
    machine: &Machine,
    program: &Rc<Program>,
    setting: Setting,
    stop: &Arc<AtomicBool>,
) -> Result<ReplayResult, Failure> {
    let mut sim = Simulation::new(machine.clone(), setting.seed);
    sim.stopped_by(stop);
    sim.use_spinlocks(setting.spinlocks);
    sim.set_min_residency(setting.min_residency);
    let cpus: Vec<usize> = placement(machine, setting.spread).into_iter().take(setting.tasks).collect();
    let shared = Rc::new(Shared::new(&mut sim, machine, program, &cpus));
    let active = active(machine, &cpus);
    let length = Length::of(&shared.weights, &setting);
    let mut step = us(1).max(ns(length.step_ns(shared.mean_ns * setting.slower)));
    for (number, (&cpu, &active)) in cpus.iter().zip(&active).enumerate() {
        let task = Task::new(machine, &shared, number, active, setting);
        step = step.max(ns(task.ns_per_instruction() * 100.0));
        sim.program(cpu, |cpu| task.run(cpu));
        let shared = Rc::clone(&shared);
        sim.handler(cpu, |cpu| answer_interrupts(cpu, number, shared));
    }
    let mut steps = Steps::start(&mut sim, step)?;
    steps.until(|events| length.warmup.is_reached(shared.progress.get(), events))?;
    shared.restart_counting();
    let (elapsed, events) = steps.until(|events| length.counted.is_reached(shared.progress.get(), events))?;
    Ok(ReplayResult { throughput: shared.progress.get() / elapsed.as_s(), shares: shared.shares(), events })
}
