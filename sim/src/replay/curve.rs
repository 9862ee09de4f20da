//! A program at several numbers of tasks, on one machine: one draw of a prediction.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use crate::failure::Failure;
use crate::machine::Machine;
use crate::replay::{Program, Replayed, Setting, replay};

/// What to replay.
#[derive(Clone, Debug)]
pub struct Curve {
    pub machine: Machine,
    pub program: Program,
    pub tasks: Vec<usize>,
    /// What holds for all of them; its tasks do not count.
    pub setting: Setting,
    /// So many tasks did so many operations a second: instructions take as long as that asks for.
    pub known: Option<(usize, f64)>,
}

/// How slow instructions were taken to be, and what came of it for each number of tasks.
pub type Curved = Result<(f64, Vec<Replayed>), Failure>;

/// Bounds of how much longer instructions take than the machine's file says.
const LEAST: f64 = 0.02;
const MOST: f64 = 200.0;
const ROUNDS: usize = 5;
const CLOSE: f64 = 0.005;

impl Curve {
    fn replayed(&self) -> Curved {
        let program = Rc::new(self.program.clone());
        let slower = match self.known {
            Some(known) => self.fitting(&program, known)?,
            None => self.setting.slower,
        };
        let at = |&tasks: &usize| replay(&self.machine, &program, Setting { tasks, slower, ..self.setting });
        Ok((slower, self.tasks.iter().map(at).collect::<Result<_, _>>()?))
    }

    /// How slow instructions must be for a known rate: what is not work takes what it takes.
    fn fitting(&self, program: &Rc<Program>, (tasks, rate): (usize, f64)) -> Result<f64, Failure> {
        let mut slower = self.setting.slower;
        for _ in 0..ROUNDS {
            let found = replay(&self.machine, program, Setting { tasks, slower, ..self.setting })?;
            let takes = tasks as f64 / found.throughput;
            let work = takes * found.shares[0];
            let wanted = work + tasks as f64 / rate - takes;
            slower = (slower * (wanted / work).clamp(0.2, 5.0)).clamp(LEAST, MOST);
            if (found.throughput / rate - 1.0).abs() < CLOSE {
                break;
            }
        }
        Ok(slower)
    }
}

/// Replays many, on all cores; in their order. What is not done before `stop` is set has failed.
pub fn curves(curves: &[Curve], stop: &Arc<AtomicBool>) -> Vec<Curved> {
    curves
        .par_iter()
        .with_max_len(1)
        .map(|curve| if stop.load(Ordering::Relaxed) { Err(Failure::Stopped) } else { curve.replayed() })
        .collect()
}
