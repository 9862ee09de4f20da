//! How much of a replay is simulated: first until it is warm, then until enough is counted.

use crate::failure::Failure;
use crate::replay::setting::Setting;
use crate::simulation::Simulation;
use crate::spin_kind::SpinKind;
use crate::time::Time;

/// Operations per task, and events, of the part before counting.
const WARMUP: (f64, u64) = (2.0, 60_000);
/// Operations per task, and events, that are counted.
const COUNTED: (f64, u64) = (12.0, 150_000);
/// Operations that are counted, of all tasks.
const MIN_OPERATIONS: f64 = 200.0;
const EVENTS_PER_TASK: u64 = 150;
/// Operations per task that both parts have regardless of their events, as the parts of one operation can differ.
const WHOLE_OPERATIONS: f64 = 2.0;
/// If the standard deviation of the operations' times exceeds this multiple of their mean, whole cycles are counted.
const UNEVEN: f64 = 1.0;
/// The most events, in each part, for the sake of whole operations.
pub(super) const MAX_EVENTS: u64 = 4_000_000;
/// Rounding error of a sum of fractions of operations.
const ROUNDING: f64 = 1e-6;
/// How much more is simulated with a spinlock that sorts its queue by nodes, as sorting takes a while.
const SORTED: u64 = 12;
/// The most steps.
const MAX_STEPS: u64 = 4_000_000;
/// More events than any replay needs.
const EVENT_BUDGET: u64 = 4 * MAX_EVENTS;
/// The steps in which a task does what is counted, if nothing holds it up.
const STEPS_COUNTED: f64 = 10_000.0;

/// When a part of a replay ends.
pub(super) struct Enough {
    /// It does not end before so many operations, unless it has `MAX_EVENTS`.
    min_operations: f64,
    /// It ends after so many operations, or after so many events.
    operations: f64,
    events: u64,
}

impl Enough {
    pub fn is_reached(&self, operations: f64, events: u64) -> bool {
        let operations = operations + ROUNDING;
        (operations >= self.min_operations || events >= MAX_EVENTS)
            && (operations >= self.operations || events >= self.events)
    }
}

/// How long both parts of a replay are.
pub(super) struct Length {
    pub warmup: Enough,
    pub counted: Enough,
    tasks: f64,
}

impl Length {
    /// The length for operations with these times, each relative to their mean.
    pub fn of(weights: &[f64], setting: &Setting) -> Length {
        let tasks = setting.tasks as f64;
        let longer = if setting.spinlocks == SpinKind::Cna { SORTED } else { 1 };
        let of_all = |each: f64, least: f64| longer as f64 * (each * tasks).max(least);
        let events = |least: u64| longer * least.max(EVENTS_PER_TASK * setting.tasks as u64);
        let counted = of_all(COUNTED.0, MIN_OPERATIONS);
        let cycle = weights.len() as f64 * tasks;
        let whole = WHOLE_OPERATIONS * tasks;
        Length {
            warmup: Enough {
                min_operations: whole,
                operations: of_all(WARMUP.0, 0.0),
                events: events(WARMUP.1),
            },
            counted: Enough {
                min_operations: if is_uneven(weights) { (counted / cycle).ceil() * cycle } else { whole },
                operations: counted,
                events: events(COUNTED.1),
            },
            tasks,
        }
    }

    /// Nanoseconds of a step, if an operation takes `operation_ns`.
    pub fn step_ns(&self, operation_ns: f64) -> f64 {
        operation_ns * self.counted.min_operations / self.tasks / STEPS_COUNTED
    }
}

/// Whether operations differ so much that a few of them do not represent all.
fn is_uneven(weights: &[f64]) -> bool {
    let squares: f64 = weights.iter().map(|weight| (weight - 1.0).powi(2)).sum();
    (squares / weights.len() as f64).sqrt() > UNEVEN
}

/// Lets the time of a simulation pass, step by step.
pub(super) struct Steps<'a> {
    sim: &'a mut Simulation,
    step: Time,
    now: Time,
    left: u64,
}

impl Steps<'_> {
    pub fn start(sim: &mut Simulation, step: Time) -> Result<Steps<'_>, Failure> {
        sim.start()?;
        Ok(Steps { sim, step, now: Time::ZERO, left: MAX_STEPS })
    }

    /// Lets time pass until `is_enough` of the number of events. Returns how long that took, and the number of
    /// events.
    pub fn until(&mut self, is_enough: impl Fn(u64) -> bool) -> Result<(Time, u64), Failure> {
        let (since, before) = (self.now, self.sim.events());
        while self.left > 0 {
            self.left -= 1;
            self.now += self.step;
            self.sim.advance(self.now, EVENT_BUDGET)?;
            let events = self.sim.events() - before;
            if is_enough(events) {
                return Ok((self.now - since, events));
            }
        }
        Err(self.sim.livelock())
    }
}
