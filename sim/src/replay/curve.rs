//! A program with several numbers of tasks, on one machine: one sample of a prediction.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use crate::failure::Failure;
use crate::machine::Machine;
use crate::replay::program::Program;
use crate::replay::run::{ReplayResult, replay};
use crate::replay::setting::Setting;
use crate::replay::shared::{MEMORY, WORK};

/// What to replay.
#[derive(Clone, Debug)]
pub struct Curve {
    pub machine: Machine,
    pub program: Program,
    pub tasks: Vec<usize>,
    /// The setting of all replays, except for its number of tasks.
    pub setting: Setting,
    /// A measured throughput: tasks and operations per second. The time of instructions is fitted to it.
    pub known: Option<(usize, f64)>,
}

/// The factor on the time of instructions, and the result for each number of tasks.
pub type CurveResult = Result<(f64, Vec<ReplayResult>), Failure>;

/// Bounds of the factor on the time of instructions.
const MIN_SLOWER: f64 = 0.02;
const MAX_SLOWER: f64 = 200.0;
const ROUNDS: usize = 5;
/// The relative error of the throughput at which fitting ends.
const CLOSE: f64 = 0.005;

impl Curve {
    fn replayed(&self, stop: &Arc<AtomicBool>) -> CurveResult {
        let program = Rc::new(self.program.clone());
        let slower = match self.known {
            Some(known) => self.fitted(&program, known, stop)?,
            None => self.setting.slower,
        };
        let at =
            |&tasks: &usize| replay(&self.machine, &program, Setting { tasks, slower, ..self.setting }, stop);
        Ok((slower, self.tasks.iter().map(at).collect::<Result<_, _>>()?))
    }

    /// The factor on the times of instructions and of filling memory that gives a known throughput. All other times
    /// stay.
    fn fitted(
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
            slower = (slower * (wanted / work).clamp(0.2, 5.0)).clamp(MIN_SLOWER, MAX_SLOWER);
            if (found.throughput / rate - 1.0).abs() < CLOSE {
                break;
            }
        }
        Ok(slower)
    }
}

/// Replays curves on all cores. Results come in the order of the curves. Those not done before `stop` is set fail.
pub fn curves(curves: &[Curve], stop: &Arc<AtomicBool>) -> Vec<CurveResult> {
    curves
        .par_iter()
        .with_max_len(1)
        .map(|curve| if stop.load(Ordering::Relaxed) { Err(Failure::Stopped) } else { curve.replayed(stop) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::program::{Event, ProgramLine, Scope};

    #[test]
    fn a_known_rate_says_how_fast_a_core_fills_memory() {
        let line = ProgramLine { name: "line".into(), scope: Scope::Shared };
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
