//! The format of a machine file.

use std::fmt;

use serde::Deserialize;

/// An error in a machine file or in a request for CPUs, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineError(String);

impl fmt::Display for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MachineError {}

pub(super) fn error<T>(message: impl Into<String>) -> Result<T, MachineError> {
    Err(MachineError(message.into()))
}

/// What `atomics` can be: they are done by CPUs, at the line's home, or it is not known.
pub(super) const NEAR: &str = "near";
pub(super) const FAR: &str = "far";
pub(super) const EITHER: &str = "near or far";

/// A machine file. Every figure can name its source.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub name: String,
    pub description: String,
    /// The architecture of its kernels. The default is x86_64.
    pub architecture: Option<String>,
    /// The level whose units have memory of their own.
    pub node: String,
    /// The level whose units share a last-level cache. The default is the nodes.
    pub cache: Option<String>,
    pub hit_ns: f64,
    pub hit_source: Option<String>,
    pub memory_ns: f64,
    pub memory_source: Option<String>,
    pub wakeup_ns: f64,
    pub wakeup_source: Option<String>,
    pub ipi_ns: f64,
    pub ipi_source: Option<String>,
    pub shared_read_ns: Option<f64>,
    pub shared_read_source: Option<String>,
    pub link_ns: Option<f64>,
    pub link_source: Option<String>,
    pub store_buffer: Option<usize>,
    pub store_buffer_source: Option<String>,
    /// The kind of the kernel's spinlocks.
    pub spinlocks: Option<String>,
    pub spinlocks_source: Option<String>,
    /// Where additions and bit operations are done that do not find their line in the CPU's cache.
    pub atomics: Option<String>,
    pub atomics_source: Option<String>,
    pub far_atomic_ns: Option<f64>,
    pub far_atomic_source: Option<String>,
    pub processor: Option<ProcessorFile>,
    /// Measurements with several CPUs at one cache line. The simulator does not use them: they are for comparison.
    #[serde(default)]
    pub contended: Vec<ContendedFile>,
    /// The uncertainty of figures.
    #[serde(default)]
    pub range: Vec<Range>,
    /// The memory of all nodes together, which have equal parts.
    pub memory_gib: Option<f64>,
    pub memory_gib_source: Option<String>,
    pub level: Vec<LevelFile>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LevelFile {
    pub name: String,
    pub count: Counts,
    /// Between different units of this level. Not needed if there is only one.
    pub transfer_ns: Option<Latencies>,
    pub transfer_source: Option<String>,
    /// From the memory of another unit of this level. For the nodes and the levels around them.
    pub memory_ns: Option<Latencies>,
    pub memory_source: Option<String>,
    pub hops: Option<Vec<Vec<usize>>>,
    /// The distances between nodes that the firmware reports (ACPI's SLIT, where 10 is a node's own memory).
    pub distance: Option<Latencies>,
    pub distance_source: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContendedFile {
    pub cpus: usize,
    /// From one CPU's atomic addition to the next CPU's.
    add_ns: Option<f64>,
    /// Until a CPU sees a new value in a cache line that one of the CPUs writes.
    read_ns: Option<f64>,
    /// From one holder of a queued lock to the next.
    handover_ns: Option<f64>,
    pub source: Option<String>,
}

impl ContendedFile {
    pub fn figures(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let all = [("add", self.add_ns), ("read", self.read_ns), ("lock hand-over", self.handover_ns)];
        all.into_iter().filter_map(|(what, value)| Some((what, value?)))
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Counts {
    Same(i64),
    Each(Vec<i64>),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Latencies {
    One(f64),
    ByHops(Vec<f64>),
}

impl File {
    /// The values of a figure, by the name that `sources` gives it.
    pub fn figure(&mut self, of: &str) -> Option<Vec<&mut f64>> {
        let found = match of {
            "hit" => vec![&mut self.hit_ns],
            "memory" => vec![&mut self.memory_ns],
            "wakeup" => vec![&mut self.wakeup_ns],
            "ipi" => vec![&mut self.ipi_ns],
            "shared read" => vec![self.shared_read_ns.as_mut()?],
            "link" => vec![self.link_ns.as_mut()?],
            "far atomic" => vec![self.far_atomic_ns.as_mut()?],
            _ => return self.figure_of_level(of),
        };
        Some(found)
    }

    /// Multiplies the time of all transfers.
    pub fn scale_transfers(&mut self, factor: f64) {
        for latencies in self.level.iter_mut().filter_map(|level| level.transfer_ns.as_mut()) {
            match latencies {
                Latencies::One(value) => *value *= factor,
                Latencies::ByHops(values) => values.iter_mut().for_each(|value| *value *= factor),
            }
        }
    }

    fn figure_of_level(&mut self, of: &str) -> Option<Vec<&mut f64>> {
        for level in &mut self.level {
            let latencies = match of.strip_prefix(level.name.as_str()) {
                Some(" transfer") => level.transfer_ns.as_mut()?,
                Some(" memory") => level.memory_ns.as_mut()?,
                _ => continue,
            };
            return Some(match latencies {
                Latencies::One(value) => vec![value],
                Latencies::ByHops(values) => values.iter_mut().collect(),
            });
        }
        self.processor.as_mut()?.figure(of)
    }
}

impl Latencies {
    pub fn values(&self) -> Vec<f64> {
        match self {
            Latencies::One(value) => vec![*value],
            Latencies::ByHops(values) => values.clone(),
        }
    }
}

/// The table `[processor]` of a machine file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProcessorFile {
    /// The level whose units each have a clock rate.
    pub socket: String,
    /// Numbers of active cores of a socket, and the clock rate with each. In between it is interpolated.
    pub turbo_ghz: Vec<(f64, f64)>,
    pub turbo_source: Option<String>,
    pub instructions_per_cycle: f64,
    pub instructions_per_cycle_source: Option<String>,
    /// The throughput of a core with two busy threads, relative to one.
    pub smt_speedup: Option<f64>,
    pub smt_source: Option<String>,
    pub system_call_ns: f64,
    pub system_call_source: Option<String>,
    /// The rate at which one core, and all cores of a node, can write to memory.
    pub core_gb_per_s: f64,
    pub core_gb_source: Option<String>,
    pub node_gb_per_s: f64,
    pub node_gb_source: Option<String>,
}

impl ProcessorFile {
    pub fn figure(&mut self, of: &str) -> Option<Vec<&mut f64>> {
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
}

/// The uncertainty of a figure of a machine.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The figure: `hit`, `socket transfer`, `instructions per cycle`.
    pub of: String,
    pub low: f64,
    pub high: f64,
    /// Where the range comes from.
    pub source: String,
}
