//! The designs that come with the simulator. One file a design; a line in [`ALL`] registers it.
//!
//! A design's file has a [`Design`]: its name, its parameters, and a function that puts it on a simulation.

pub mod cpu_hotplug;
pub mod lock_bound;
pub mod percpu_counter;
pub mod rcu;
pub mod rcu_flat;
pub mod rcu_tree;
pub mod slub;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::failure::Failure;
use crate::machine::{Machine, MachineError};
use crate::report::Report;
use crate::simulation::{Run, Simulation};
use crate::time::{Time, ns};

/// Every design.
pub const ALL: &[&Design] = &[
    &lock_bound::DESIGN,
    &rcu_flat::DESIGN,
    &rcu_tree::DESIGN,
    &slub::DESIGN,
    &percpu_counter::DESIGN,
    &cpu_hotplug::DESIGN,
];

/// A design that can be simulated on any machine.
pub struct Design {
    pub name: &'static str,
    /// What it is, in one line.
    pub description: &'static str,
    pub parameters: &'static [Parameter],
    /// Puts the design on the CPUs of a simulation: lines, locks, programs, handlers.
    pub build: fn(&mut Simulation, &Values) -> Result<(), InputError>,
    /// Figures of the design's own, of what a run reported.
    pub figures: fn(&Report, &Values) -> Vec<Figure>,
}

/// Something about a design that a user can set.
pub struct Parameter {
    pub name: &'static str,
    pub default: &'static str,
    /// What it is, with the unit.
    pub meaning: &'static str,
}

/// A number that a design reports, with its unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    pub name: &'static str,
    pub value: f64,
    pub unit: &'static str,
}

/// What is wrong with a user's input, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError(pub String);

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InputError {}

/// The values of a design's parameters.
#[derive(Clone)]
pub struct Values {
    design: &'static Design,
    given: Vec<(String, String)>,
}

impl Values {
    /// The given values, and the defaults of the rest.
    pub fn new(design: &'static Design, given: &[(String, String)]) -> Result<Values, InputError> {
        for (name, _) in given {
            if !design.parameters.iter().any(|parameter| parameter.name == name) {
                let known: Vec<&str> = design.parameters.iter().map(|parameter| parameter.name).collect();
                return Err(InputError(format!(
                    "{} has no parameter {name}: it has {}",
                    design.name,
                    known.join(", ")
                )));
            }
        }
        Ok(Values { design, given: given.to_vec() })
    }

    /// A value as it was written.
    pub fn text(&self, name: &str) -> &str {
        let given = self.given.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        given.unwrap_or_else(|| {
            let parameter = self.design.parameters.iter().find(|parameter| parameter.name == name);
            parameter.unwrap_or_else(|| panic!("{} has no parameter {name}", self.design.name)).default
        })
    }

    /// A whole number.
    pub fn count(&self, name: &str) -> Result<u64, InputError> {
        let text = self.text(name);
        text.parse().map_err(|_| InputError(format!("{name}={text}: use a whole number, zero or more")))
    }

    /// How many CPUs the tasks run on, one on each: the parameter `tasks`, of which 0 is all.
    pub fn tasks(&self, cpus: usize) -> Result<usize, InputError> {
        match self.count("tasks")? as usize {
            0 => Ok(cpus),
            tasks if tasks <= cpus => Ok(tasks),
            tasks => Err(InputError(format!("tasks={tasks}: there are {cpus} CPUs"))),
        }
    }

    /// A number, zero or more.
    pub fn number(&self, name: &str) -> Result<f64, InputError> {
        let text = self.text(name);
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
            _ => Err(InputError(format!("{name}={text}: use a number, zero or more"))),
        }
    }

    /// A time, which is given in nanoseconds.
    pub fn time(&self, name: &str) -> Result<Time, InputError> {
        Ok(ns(self.number(name)?))
    }

    /// One of some words.
    pub fn choice<'a>(&'a self, name: &str, choices: &[&str]) -> Result<&'a str, InputError> {
        let text = self.text(name);
        if choices.contains(&text) {
            return Ok(text);
        }
        Err(InputError(format!("{name}={text}: use one of {}", choices.join(", "))))
    }
}

/// Why a design could not be simulated to the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    Input(InputError),
    Machine(MachineError),
    Failure(Failure),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Input(error) => error.fmt(f),
            Error::Machine(error) => error.fmt(f),
            Error::Failure(failure) => failure.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

/// The design of that name.
pub fn find(name: &str) -> Result<&'static Design, InputError> {
    ALL.iter().copied().find(|design| design.name == name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|design| design.name).collect();
        InputError(format!("no design {name:?}: there are {}", names.join(", ")))
    })
}

/// One run of a sweep.
pub struct Point {
    pub machine: Machine,
    pub values: Values,
    pub seed: u64,
    pub run: Run,
}

/// What a run gave: where time went, and the design's own figures.
pub type Outcome = Result<(Report, Vec<Figure>), Error>;

/// Simulates many points, on all cores. Outcomes come in the order of the points, and are those of one core.
pub fn sweep(points: Vec<Point>) -> Vec<Outcome> {
    sweep_until(points, &Arc::default())
}

/// The same, as far as it comes before `stop` is set: then what is not done yet has failed.
pub fn sweep_until(points: Vec<Point>, stop: &Arc<AtomicBool>) -> Vec<Outcome> {
    points
        .into_par_iter()
        .with_max_len(1) // points differ a thousandfold in what they cost
        .map(|point| simulate_until(point.machine, &point.values, point.seed, point.run, stop))
        .collect()
}

/// Simulates a design, and gives what was reported, and the design's own figures.
pub fn simulate(machine: Machine, values: &Values, seed: u64, run: Run) -> Outcome {
    simulate_until(machine, values, seed, run, &Arc::default())
}

fn simulate_until(machine: Machine, values: &Values, seed: u64, run: Run, stop: &Arc<AtomicBool>) -> Outcome {
    let mut sim = Simulation::new(machine, seed);
    sim.stopped_by(stop);
    (values.design.build)(&mut sim, values).map_err(Error::Input)?;
    let report = sim.run(run).map_err(Error::Failure)?;
    let figures = (values.design.figures)(&report, values);
    Ok((report, figures))
}
