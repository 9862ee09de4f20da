//! Runs of designs: one, or many on all cores.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::designs::design::{Figure, InputError, Values};
use crate::failure::Failure;
use crate::machine::{Machine, MachineError};
use crate::report::Report;
use crate::simulation::{Run, Simulation};

/// Why a run of a design failed.
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

/// One run of a sweep.
pub struct Point {
    pub machine: Machine,
    pub values: Values,
    pub seed: u64,
    pub run: Run,
}

/// The result of a run: the report, and the design's figures.
pub type Outcome = Result<(Report, Vec<Figure>), Error>;

/// Simulates many points on all cores. Outcomes come in the order of the points, and do not depend on the number of
/// cores.
pub fn sweep(points: Vec<Point>) -> Vec<Outcome> {
    sweep_until(points, &Arc::default())
}

/// The same, but points that are not done before `stop` is set fail.
pub fn sweep_until(points: Vec<Point>, stop: &Arc<AtomicBool>) -> Vec<Outcome> {
    points
        .into_par_iter()
        .with_max_len(1) // points can take a thousand times as long as others
        .map(|point| simulate_until(point.machine, &point.values, point.seed, point.run, stop))
        .collect()
}

/// Simulates a design.
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
