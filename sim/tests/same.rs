//! The same seed gives the same result to the byte, whatever the number of worker threads.

use std::fmt::Write;

use bigiron_sim::designs::{self, Point, Values};
use bigiron_sim::locks::AnyLock;
use bigiron_sim::{Machine, Run, ns, us};

fn points() -> Vec<Point> {
    let design = designs::find("lock-bound").expect("known");
    let kinds = AnyLock::KINDS.iter().map(|(kind, _)| *kind);
    kinds
        .flat_map(|kind| [3, 17, 64].map(|cpus| (kind, cpus)))
        .map(|(kind, cpus)| {
            let given = [("lock", kind), ("refcounts", "2")].map(|(name, value)| (name.into(), value.into()));
            let machine =
                Machine::named("altix-512").and_then(|machine| machine.with_cpus(cpus)).expect("it has");
            let run = Run { timeline: Some((us(50), us(51))), ..Run::measuring(us(20), us(100)) };
            Point { machine, values: Values::new(design, &given).expect("right"), seed: 42, run }
        })
        .collect()
}

fn printed(workers: usize) -> String {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build().expect("threads");
    let mut text = String::new();
    for outcome in pool.install(|| designs::sweep(points())) {
        let (report, figures) = outcome.expect("it ends");
        let timeline = report.timeline.as_ref().expect("asked for").to_json();
        let all = (
            report.elapsed,
            report.events,
            &report.cpus,
            &report.operations_of,
            &report.lines,
            &report.locks,
        );
        writeln!(text, "{all:?} {figures:?} {timeline}").expect("a string takes all");
    }
    text
}

#[test]
fn a_sweep_is_the_same_on_any_number_of_workers() {
    let one = printed(1);
    assert!(one.len() > 10_000);
    for workers in [2, 3, 8] {
        assert!(printed(workers) == one, "{workers} workers");
    }
}

/// The very numbers, so that a machine or a compiler that gives others is noticed.
#[test]
fn these_numbers_are_the_same_everywhere() {
    let values = Values::new(designs::find("lock-bound").expect("known"), &[]).expect("right");
    let machine = Machine::uniform(16, ns(1), ns(100));
    let run = Run::measuring(us(100), us(1000));
    let (report, _) = designs::simulate(machine, &values, 7, run).expect("it ends");
    assert_eq!((report.events, report.operations, report.total().user.ps()), (41015, 1737, 1694615995));
}
