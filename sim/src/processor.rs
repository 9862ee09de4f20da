//! What a machine's processors do on their own: clock rates, threads that share a core, bandwidth.

use serde::Deserialize;

use crate::machine::{Machine, MachineError, error};
use crate::time::{Time, ns};

/// The table `[processor]` of a machine file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProcessorFile {
    /// The level whose units have a clock rate each.
    socket: String,
    /// Rows of active cores of a socket and their clock rate; in between it is interpolated.
    turbo_ghz: Vec<(f64, f64)>,
    turbo_source: Option<String>,
    instructions_per_cycle: f64,
    instructions_per_cycle_source: Option<String>,
    /// What a core does with two of its threads busy, of what it does with one; with more, the more.
    smt_speedup: Option<f64>,
    smt_source: Option<String>,
    system_call_ns: f64,
    system_call_source: Option<String>,
    /// What one core can write to memory, and what the cores of a node can.
    core_gb_per_s: f64,
    core_gb_source: Option<String>,
    node_gb_per_s: f64,
    node_gb_source: Option<String>,
}

impl ProcessorFile {
    pub(crate) fn figure(&mut self, of: &str) -> Option<Vec<&mut f64>> {
        let found = match of {
            "clock rate" => self.turbo_ghz.iter_mut().map(|(_, ghz)| ghz).collect(),
            "all-core clock rate" => vec![&mut self.turbo_ghz.last_mut()?.1],
            "instructions per cycle" => vec![&mut self.instructions_per_cycle],
            "smt speedup" => vec![self.smt_speedup.as_mut()?],
            "system call" => vec![&mut self.system_call_ns],
            "core bandwidth" => vec![&mut self.core_gb_per_s],
            "node bandwidth" => vec![&mut self.node_gb_per_s],
            _ => return None,
        };
        Some(found)
    }

    pub(crate) fn sources(&self) -> Vec<(String, String, String)> {
        let turbo: Vec<String> =
            self.turbo_ghz.iter().map(|(cores, ghz)| format!("{ghz} GHz to {cores}")).collect();
        let figures = [
            ("clock rate, active cores", Some(turbo.join(", ")), &self.turbo_source),
            (
                "instructions per cycle",
                Some(self.instructions_per_cycle.to_string()),
                &self.instructions_per_cycle_source,
            ),
            ("smt speedup", self.smt_speedup.map(|value| value.to_string()), &self.smt_source),
            ("system call", Some(self.system_call_ns.to_string()), &self.system_call_source),
            ("core bandwidth, GB/s", Some(self.core_gb_per_s.to_string()), &self.core_gb_source),
            ("node bandwidth, GB/s", Some(self.node_gb_per_s.to_string()), &self.node_gb_source),
        ];
        figures
            .into_iter()
            .filter_map(|(what, value, source)| {
                Some((what.into(), value?, source.clone().unwrap_or_default()))
            })
            .collect()
    }
}

/// The processors of a machine.
#[derive(Clone, Debug)]
pub struct Processor {
    socket: String,
    turbo_ghz: Vec<(f64, f64)>,
    instructions_per_cycle: f64,
    smt_speedup: f64,
    /// Entering the kernel and leaving it.
    pub system_call: Time,
    core_gb_per_s: f64,
    node_gb_per_s: f64,
}

impl Processor {
    pub(crate) fn new(file: &ProcessorFile) -> Result<Processor, MachineError> {
        let rates = file.turbo_ghz.iter().all(|(cores, ghz)| *cores >= 1.0 && *ghz > 0.0);
        let grows = file.turbo_ghz.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if file.turbo_ghz.is_empty() || !rates || !grows {
            return error(
                "processor: turbo_ghz is rows of active cores, growing, and GHz: [[1, 3.8], [24, 2.8]]",
            );
        }
        let smt_speedup = file.smt_speedup.unwrap_or(1.0);
        for (what, value) in [
            ("instructions_per_cycle", file.instructions_per_cycle),
            ("smt_speedup", smt_speedup),
            ("system_call_ns", file.system_call_ns),
            ("core_gb_per_s", file.core_gb_per_s),
            ("node_gb_per_s", file.node_gb_per_s),
        ] {
            if !(value.is_finite() && value > 0.0) {
                return error(format!("processor: {what} is {value}: use a number above zero"));
            }
        }
        Ok(Processor {
            socket: file.socket.clone(),
            turbo_ghz: file.turbo_ghz.clone(),
            instructions_per_cycle: file.instructions_per_cycle,
            smt_speedup,
            system_call: ns(file.system_call_ns),
            core_gb_per_s: file.core_gb_per_s,
            node_gb_per_s: file.node_gb_per_s,
        })
    }

    /// The clock rate with so many active cores in a socket.
    pub fn ghz(&self, active: usize) -> f64 {
        let active = active as f64;
        let after = self.turbo_ghz.iter().position(|(cores, _)| *cores >= active);
        let (last, first) = (self.turbo_ghz[self.turbo_ghz.len() - 1], self.turbo_ghz[0]);
        match after {
            None => last.1,
            Some(0) => first.1,
            Some(row) => {
                let ((from, slow), (to, fast)) = (self.turbo_ghz[row - 1], self.turbo_ghz[row]);
                slow + (fast - slow) * (active - from) / (to - from)
            }
        }
    }

    /// Nanoseconds of an instruction at a clock rate, with so many of the core's threads busy.
    pub fn ns_per_instruction(&self, ghz: f64, threads: usize) -> f64 {
        let shares = match threads {
            0 | 1 => 1.0,
            2 => 2.0 / self.smt_speedup,
            // Each doubling of the busy threads gives less: as much again as the one before, of half the gain.
            more => more as f64 / (self.smt_speedup * (1.0 + (self.smt_speedup - 1.0) / 2.0)),
        };
        shares / (self.instructions_per_cycle * ghz)
    }

    /// Nanoseconds that one core takes to write so many bytes, and that its node's memory is busy with them.
    pub fn ns_of_bytes(&self, bytes: f64) -> (f64, f64) {
        (bytes / self.core_gb_per_s, bytes / self.node_gb_per_s)
    }
}

/// In which order a machine's CPUs get tasks: one thread of each core first.
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

/// For each of the CPUs that have a task, how many cores of its socket and threads of its core have one.
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
