//! How each kind of lock does on a machine, by the number of CPUs: million operations per second.
//!
//!     cargo run --release --example locks altix-512

use bigiron_sim::designs::{self, Point, Values};
use bigiron_sim::locks::AnyLock;
use bigiron_sim::{Machine, Run, ms};

fn main() {
    let name = std::env::args().nth(1).unwrap_or_else(|| "x86-2s".into());
    let machine = Machine::named(&name).unwrap_or_else(|error| panic!("{error}"));
    let cpus: Vec<usize> =
        (0..).map(|power| 1 << power).take_while(|&count| count < machine.cpus()).collect();
    let cpus = [cpus, vec![machine.cpus()]].concat();
    let design = designs::find("lock-bound").expect("it is built in");

    let point = |kind: &str, count: usize| Point {
        machine: machine.clone().with_cpus(count).expect("as many as there are"),
        values: Values::new(design, &[("lock".into(), kind.into())]).expect("it has a lock"),
        seed: 1,
        run: Run::measuring(ms(12), ms(20)), // after the first grace period of a percpu-rwsem
    };
    let kinds = || AnyLock::KINDS.iter().map(|(kind, _)| *kind);
    let points = kinds().flat_map(|kind| cpus.iter().map(move |&count| (kind, count)));
    let outcomes = designs::sweep(points.map(|(kind, count)| point(kind, count)).collect());

    println!("{name}: million operations per second, 1 us of thinking and 100 ns of holding each");
    println!("{:14}{}", "CPUs", cpus.iter().map(|count| format!("{count:8}")).collect::<String>());
    for (kind, row) in kinds().zip(outcomes.chunks(cpus.len())) {
        let cells = row.iter().map(|outcome| match outcome {
            Ok((report, _)) => format!("{:8.3}", report.throughput() / 1e6),
            Err(error) => panic!("{kind}: {error}"),
        });
        println!("{kind:14}{}", cells.collect::<String>());
    }
}
