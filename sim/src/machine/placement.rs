//! Which CPUs of a machine get tasks.

use crate::machine::topology::Machine;

/// The order in which a machine's CPUs get tasks: one thread of each core first. With `spread`, all nodes in turn.
pub fn placement(machine: &Machine, spread: bool) -> Vec<usize> {
    let thread = |cpu: usize| {
        (0..cpu).rev().take_while(|&other| machine.core_of(other) == machine.core_of(cpu)).count()
    };
    let mut cpus: Vec<(usize, usize, usize)> = (0..machine.cpus())
        .map(|cpu| match spread {
            true => (thread(cpu), cpu - machine.first_cpu_of(machine.node_of(cpu)), cpu),
            false => (thread(cpu), 0, cpu),
        })
        .collect();
    cpus.sort_unstable();
    cpus.into_iter().map(|(_, _, cpu)| cpu).collect()
}

/// For each CPU with a task, the number of cores of its socket and of threads of its core that have tasks.
pub fn active(machine: &Machine, cpus: &[usize]) -> Vec<(usize, usize)> {
    let socket = |cpu: usize| match machine.processor() {
        Some(processor) => machine.unit(&processor.socket, cpu).unwrap_or(0),
        None => machine.node_of(cpu) as u32,
    };
    let places: Vec<(u32, u32)> = cpus.iter().map(|&cpu| (socket(cpu), machine.core_of(cpu))).collect();
    let mut cores = places.clone();
    cores.sort_unstable();
    cores.dedup();
    places
        .iter()
        .map(|place| {
            let of_socket = cores.iter().filter(|core| core.0 == place.0).count();
            let of_core = places.iter().filter(|other| *other == place).count();
            (of_socket, of_core)
        })
        .collect()
}
