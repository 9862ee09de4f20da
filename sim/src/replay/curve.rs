//! A program at several numbers of tasks, on one machine: one draw of a prediction.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use crate::failure::Failure;
use crate::machine::Machine;
use crate::replay::{MEMORY, Program, Replayed, Setting, WORK, replay};

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
    fn replayed(&self, stop: &Arc<AtomicBool>) -> Curved {
        let program = Rc::new(self.program.clone());
        let slower = match self.known {
            Some(known) => self.fitting(&program, known, stop)?,
            None => self.setting.slower,
        };
        let at =
            |&tasks: &usize| replay(&self.machine, &program, Setting { tasks, slower, ..self.setting }, stop);
        Ok((slower, self.tasks.iter().map(at).collect::<Result<_, _>>()?))
    }

    /// How slow a core must be for a known rate, at instructions and at filling memory: all else takes what it takes.
    fn fitting(
        &self,
        program: &Rc<Program>,
        (tasks, rate): (usize, f64),
        stop: &Arc<AtomicBool>,
    ) -> Result<f64, Failure> {
        let mut slower = self.setting.slower;
        for _ in 0..ROUNDS {
            let found = replay(&self.machine, program, Setting { tasks, slower, ..self.setting }, stop)?;
            let takes = tasks as f64 / found.throughput;
            let work = takes * (found.shares[WORK] + found.shares[MEMORY]);
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
        .map(|curve| if stop.load(Ordering::Relaxed) { Err(Failure::Stopped) } else { curve.replayed(stop) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{Event, LineOf, Scope};

    #[test]
    fn a_known_rate_says_how_fast_a_core_fills_memory() {
        let line = LineOf { name: "line".into(), scope: Scope::Shared };
        let operations = vec![vec![Event::Work(1000.0), Event::Fill(1e6)]];
        let rate = 2000.0; // 2 GB/s
        let curve = Curve {
            machine: Machine::named("i7-4770").unwrap(),
            program: Program { lines: vec![line], locks: vec![], operations },
            tasks: vec![1, 2],
            setting: Setting::plain(1),
            known: Some((1, rate)),
        };
        let (slower, found) = curve.replayed(&Arc::default()).unwrap();
        assert!(slower > 2.0, "{slower}"); // of the 10 GB/s or so of its file
        assert!((found[0].throughput / rate - 1.0).abs() < 0.01, "{found:?}");
        assert!((found[1].throughput / rate - 2.0).abs() < 0.1, "{found:?}"); // its node can do more
    }
}
