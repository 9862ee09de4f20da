//! Notes that a program takes, with the time of each.

use std::cell::RefCell;
use std::rc::Rc;

use bigiron_sim::{Cpu, Machine, Run, Simulation, Time, ns};

pub fn uniform(cpus: usize) -> Simulation {
    Simulation::new(Machine::uniform(cpus, ns(1), ns(100)), 1)
}

/// Runs a program on CPU 0. Returns its notes, with the times.
pub fn noted<F: Future<Output = ()> + 'static>(
    mut sim: Simulation,
    program: impl FnOnce(Cpu, Notes) -> F,
) -> Vec<(&'static str, Time)> {
    let notes = Notes::default();
    let copy = notes.clone();
    sim.program(0, |cpu| program(cpu, copy));
    sim.run(Run::to_the_end()).expect("it ends");
    notes.0.take()
}

#[derive(Clone, Default)]
pub struct Notes(pub Rc<RefCell<Vec<(&'static str, Time)>>>);

impl Notes {
    pub fn add(&self, what: &'static str, cpu: &Cpu) {
        self.0.borrow_mut().push((what, cpu.now()));
    }
}
