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

/// A curve as it was replayed.
#[derive(Clone, Debug)]
pub struct ReplayedCurve {
    /// The factor on the time of instructions.
    pub slower: f64,
    /// The replayed throughput relative to the known one. It is less if cache lines and locks alone take longer.
    pub reached: f64,
    /// For each number of tasks.
    pub points: Vec<ReplayResult>,
}

/// A curve, or why it has none.
pub type CurveResult = Result<ReplayedCurve, Failure>;

/// Bounds of the factor on the time of instructions.
const MIN_SLOWER: f64 = 0.02;
const MAX_SLOWER: f64 = 200.0;
const ROUNDS: usize = 10;
/// The relative error of the throughput at which fitting ends.
const CLOSE: f64 = 0.005;

impl Curve {
    fn replayed(&self, stop: &Arc<AtomicBool>) -> CurveResult {
        let program = Rc::new(self.program.clone());
        let (slower, reached) = match self.known {
            Some(known) => self.fitted(&program, known, stop)?,
            None => (self.setting.slower, 1.0),
        };
        let at =
            |&tasks: &usize| replay(&self.machine, &program, Setting { tasks, slower, ..self.setting }, stop);
        Ok(ReplayedCurve { slower, reached, points: self.tasks.iter().map(at).collect::<Result<_, _>>()? })
    }

    /// The factor on the times of instructions and of filling memory that gives a known throughput, and what share of
    /// that throughput it reaches. All other times stay.
    fn fitted(
        &self,
        program: &Rc<Program>,
        (tasks, rate): (usize, f64),
        stop: &Arc<AtomicBool>,
    ) -> Result<(f64, f64), Failure> {
        let mut slower = self.setting.slower;
        let mut closest = (slower, f64::INFINITY);
        let (mut too_fast, mut too_slow) = (0.0, f64::INFINITY);
        for round in 0..ROUNDS {
            let found = replay(&self.machine, program, Setting { tasks, slower, ..self.setting }, stop)?;
            let takes = tasks as f64 / found.throughput;
            let work = takes * (found.shares[WORK] + found.shares[MEMORY]);
            let wanted = work + tasks as f64 / rate - takes;
            let factor = (wanted / work).clamp(0.2, 5.0);
            let reached = found.throughput / rate;
            if (reached - 1.0).abs() < CLOSE {
                return Ok(((slower * factor).clamp(MIN_SLOWER, MAX_SLOWER), reached));
            }
            if (reached - 1.0).abs() < (closest.1 - 1.0).abs() {
                closest = (slower, reached);
            }
            if reached > 1.0 {
                too_fast = slower;
            } else {
                too_slow = slower;
            }
            // Waiting takes up what less work leaves, and gives way to more: such a step is too small.
            let mut next = slower * factor;
            if too_fast == 0.0 || too_slow.is_infinite() {
                next = slower * factor.powi(1 << round);
            } else if !(too_fast < next && next < too_slow) {
                next = (too_fast * too_slow).sqrt();
            }
            next = next.clamp(MIN_SLOWER, MAX_SLOWER);
            if next == slower {
                break;
            }
            slower = next;
        }
        Ok(closest)
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
    use crate::replay::program::{Event, ProgramLine, Scope, Touch};
    use crate::time::ns;

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
        let ReplayedCurve { slower, reached, points } = curve.replayed(&Arc::default()).unwrap();
        assert!(slower > 2.0, "{slower}"); // of the 10 GB/s or so of its file
        assert!((reached - 1.0).abs() < 0.01, "{reached}");
        assert!((points[0].throughput / rate - 1.0).abs() < 0.01, "{points:?}");
        assert!((points[1].throughput / rate - 2.0).abs() < 0.1, "{points:?}"); // its node can do more
    }

    #[test]
    fn a_rate_that_cache_lines_alone_do_not_allow_is_not_reached() {
        let lines = vec![ProgramLine { name: "line".into(), scope: Scope::Shared }];
        let access = Event::Access { line: 0, touch: Touch::Atomic, others: false };
        let curve = |rate: f64| Curve {
            machine: Machine::uniform(2, ns(1), ns(100)),
            program: Program {
                lines: lines.clone(),
                locks: vec![],
                operations: vec![vec![Event::Work(100.0), access]],
            },
            tasks: vec![2],
            setting: Setting::plain(1),
            known: Some((2, rate)),
        };
        let reached = |rate: f64| curve(rate).replayed(&Arc::default()).unwrap().reached;
        assert!((reached(5e6) - 1.0).abs() < 0.01, "{}", reached(5e6));
        // The line goes from one CPU to the other in 100 ns.
        assert!((reached(2e7) - 0.5).abs() < 0.02, "{}", reached(2e7));
    }

    #[test]
    fn a_rate_near_what_a_line_allows_is_reached() {
        let line = ProgramLine { name: "line".into(), scope: Scope::Shared };
        let access = Event::Access { line: 0, touch: Touch::Atomic, others: false };
        let curve = |rate: f64| Curve {
            machine: Machine::uniform(16, ns(1), ns(100)),
            program: Program {
                lines: vec![line.clone()],
                locks: vec![],
                operations: vec![vec![Event::Work(1000.0), access]],
            },
            tasks: vec![16],
            setting: Setting::plain(1),
            known: Some((16, rate)),
        };
        for rate in [2e6, 5e6, 8e6, 9e6, 9.5e6, 9.8e6] {
            let reached = curve(rate).replayed(&Arc::default()).unwrap().reached;
            assert!((reached - 1.0).abs() < 0.01, "{rate}: {reached}");
        }
    }
}
