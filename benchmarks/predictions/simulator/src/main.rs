//! What benchmarks/predictions/simulator.py runs: one model, one engine, and how long it took, as JSON.
//!
//!     simulator-benchmark lock ENGINE TASKS PICOSECONDS     the contended lock, on bigiron or simrs
//!     simulator-benchmark events DESIGN_LOCK CPUS EVENTS    bigiron's lock-bound design on a real machine's latencies

mod lock_bigiron;
mod lock_simrs;
mod random;

use bigiron_sim::designs::{self, Values};
use bigiron_sim::{Machine, Run, ns, us};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().expect("a number");
    match arguments[..] {
        ["lock", engine, tasks, until] => lock(engine, number(tasks) as usize, number(until)),
        ["events", kind, cpus, events] => on_machine(kind, number(cpus) as usize, number(events)),
        _ => panic!("lock ENGINE TASKS PICOSECONDS, or events LOCK CPUS EVENTS"),
    }
}

/// Operations done, and a sum over the moments at which they were, so that equal results are the same history.
#[derive(Default)]
pub struct History {
    pub operations: u64,
    pub moments: u64,
}

impl History {
    pub fn add(&mut self, task: usize, now: u64) {
        self.operations += 1;
        self.moments = self.moments.wrapping_add(now.wrapping_mul(2 * task as u64 + 1));
    }
}

/// Picoseconds: so many that no two events are at the same moment, where engines may differ in their order.
pub const THINK: u64 = 10_000_000_000;
pub const HOLD: u64 = 100_000_000;

fn lock(engine: &str, tasks: usize, until: u64) {
    let start = cpu_seconds();
    let history = match engine {
        "bigiron" => lock_bigiron::simulate(tasks, until),
        "simrs" => lock_simrs::simulate(tasks, until),
        _ => panic!("no engine {engine}"),
    };
    let took = cpu_seconds() - start;
    println!(
        "{{\"operations\": {}, \"moments\": {}, \"seconds\": {took}}}",
        history.operations, history.moments
    );
}

fn on_machine(kind: &str, cpus: usize, events: u64) {
    let machine = Machine::uniform(cpus, ns(1), ns(100));
    let think = (500 * cpus).to_string();
    let given =
        [("lock", kind), ("think", &think)].map(|(name, value)| (name.to_string(), value.to_string()));
    let values = Values::new(designs::find("lock-bound").expect("known"), &given).expect("right");
    let before = resident();
    let run = Run { event_budget: u64::MAX, ..Run::measuring(us(100), us(events as f64 / 20.0)) };
    let start = cpu_seconds();
    let (report, _) = designs::simulate(machine, &values, 1, run).expect("it ends");
    let took = cpu_seconds() - start;
    let bytes = most_resident() - before;
    println!("{{\"events\": {}, \"seconds\": {took}, \"bytes\": {bytes}}}", report.events);
}

/// Time that this thread has been on a CPU: what others do on this machine is not in it.
fn cpu_seconds() -> f64 {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    let nanoseconds = times.split(' ').next().expect("a number");
    nanoseconds.parse::<f64>().expect("a number") / 1e9
}

fn resident() -> u64 {
    status("VmRSS:")
}

fn most_resident() -> u64 {
    status("VmHWM:")
}

/// Bytes, of this process.
fn status(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|line| line.starts_with(field)).expect("Linux has it");
    line.split_whitespace().nth(1).expect("a number").parse::<u64>().expect("a number") * 1024
}
