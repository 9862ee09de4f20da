//! One counter that every CPU of an Altix adds to between a microsecond of work of its own.

use bigiron_sim::{Machine, Run, Simulation, ms, us};

fn main() {
    for cpus in [2, 8, 32, 128, 512] {
        let machine = Machine::named("altix-512").unwrap().with_cpus(cpus).unwrap();
        let mut sim = Simulation::new(machine, 1);
        let counter = sim.word("counter", 0);
        for cpu in 0..cpus {
            sim.program(cpu, move |cpu| async move {
                loop {
                    cpu.user(cpu.exponential(us(1))).await;
                    cpu.fetch_add(counter, 1).await;
                    cpu.operation();
                }
            });
        }
        let report = sim.run(Run::measuring(us(100), ms(10))).unwrap();
        let (total, line) = (report.total(), &report.lines[0]);
        let share = |time: bigiron_sim::Time| 100.0 * time.share_of(report.elapsed) / cpus as f64;
        println!(
            "{cpus:3} CPUs: {:7.0} additions/s; user {:4.1} %, waiting for the line {:4.1} %, moving it {:4.1} %; {} transfers",
            report.throughput(),
            share(total.user),
            share(total.queueing),
            share(total.transfer),
            line.transfers,
        );
    }
}
