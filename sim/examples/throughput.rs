//! How many events a second, by kind of lock and number of CPUs.
use bigiron_sim::designs::{Values, find, simulate};
use bigiron_sim::{Machine, Run, ms, ns, us};
use std::time::Instant;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let lock = args.get(1).map_or("mcs", String::as_str);
    let only: Option<usize> = args.get(3).map(|n| n.parse().unwrap());
    for cpus in [8, 64, 512, 1024, 4096, 16384].into_iter().filter(|&n| only.is_none_or(|m| m == n)) {
        let machine = Machine::uniform(cpus, ns(1), ns(100));
        let think = (cpus * 500).to_string();
        let given = [("lock", lock), ("think", &think)].map(|(a, b)| (a.to_string(), b.to_string()));
        let values = Values::new(find("lock-bound").unwrap(), &given).unwrap();
        let run = Run::measuring(us(100), ms(args.get(2).map_or(100, |n| n.parse().unwrap())));
        let start = Instant::now();
        let (report, _) = simulate(machine, &values, 1, run).unwrap();
        let took = start.elapsed().as_secs_f64();
        println!(
            "{cpus:6} CPUs {:9} events {:8} ops  {:6.1} million events/s  {:.1} ns",
            report.events,
            report.operations,
            report.events as f64 / took / 1e6,
            took * 1e9 / report.events as f64
        );
    }
}
