//! The machine: CPUs in nested levels, and how long a cache line takes between any two of them.
//!
//! A machine is a tree. Its file lists the levels from the outside in, such as `socket`, `core`, `thread`; each
//! says how many of it lie in one unit of the level outside it, and how long a line takes between CPUs in
//! different ones. CPUs are numbered in the order of the tree: the threads of a core are neighbours.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;

use crate::locks::SpinKind;
use crate::processor::{Processor, ProcessorFile};
use crate::ranges::{self, Range};
use crate::time::{Time, ns};

/// What is wrong with a machine file or a request for CPUs, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineError(String);

impl fmt::Display for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MachineError {}

pub(crate) fn error<T>(message: impl Into<String>) -> Result<T, MachineError> {
    Err(MachineError(message.into()))
}

/// The machines that come with the simulator: name and file.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("x86-2s", include_str!("../machines/x86-2s.toml")),
    ("x86-8s", include_str!("../machines/x86-8s.toml")),
    ("epyc", include_str!("../machines/epyc.toml")),
    ("altix-512", include_str!("../machines/altix-512.toml")),
    ("altix-512-by-8", include_str!("../machines/altix-512-by-8.toml")),
    ("power10-1920", include_str!("../machines/power10-1920.toml")),
    ("xeon-phi-288", include_str!("../machines/xeon-phi-288.toml")),
    ("xeon-5418y-x2", include_str!("../machines/xeon-5418y-x2.toml")),
    ("xeon-e7-8895v3-x4", include_str!("../machines/xeon-e7-8895v3-x4.toml")),
    ("xeon-e5-2650v4-x2", include_str!("../machines/xeon-e5-2650v4-x2.toml")),
    ("xeon-e5-2680v4-x2", include_str!("../machines/xeon-e5-2680v4-x2.toml")),
    ("xeon-e5-2690v4-x2", include_str!("../machines/xeon-e5-2690v4-x2.toml")),
    ("ivybridge-ex-x8", include_str!("../machines/ivybridge-ex-x8.toml")),
    ("skylake-20c-x2", include_str!("../machines/skylake-20c-x2.toml")),
    ("cascade-lake-20c-x2", include_str!("../machines/cascade-lake-20c-x2.toml")),
    ("ice-lake-32c-x2", include_str!("../machines/ice-lake-32c-x2.toml")),
    ("epyc-7742-x2", include_str!("../machines/epyc-7742-x2.toml")),
    ("epyc-9654-x2", include_str!("../machines/epyc-9654-x2.toml")),
    ("epyc-9754-x2", include_str!("../machines/epyc-9754-x2.toml")),
    ("graviton3", include_str!("../machines/graviton3.toml")),
    ("i7-4770", include_str!("../machines/i7-4770.toml")),
    ("uniform", include_str!("../machines/uniform.toml")),
];

/// A machine file. Every latency can say where it comes from; those of the machines that come with the simulator do.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    name: String,
    description: String,
    /// Which of the levels has memory of its own.
    node: String,
    /// The level whose units share a last-level cache; the nodes, unless it says so.
    cache: Option<String>,
    hit_ns: f64,
    hit_source: Option<String>,
    memory_ns: f64,
    memory_source: Option<String>,
    wakeup_ns: f64,
    wakeup_source: Option<String>,
    ipi_ns: f64,
    ipi_source: Option<String>,
    shared_read_ns: Option<f64>,
    shared_read_source: Option<String>,
    link_ns: Option<f64>,
    link_source: Option<String>,
    store_buffer: Option<usize>,
    store_buffer_source: Option<String>,
    /// What the kernel's spinlocks are there, and why.
    spinlocks: Option<String>,
    spinlocks_source: Option<String>,
    pub(crate) processor: Option<ProcessorFile>,
    /// What was measured with several CPUs at one line: nothing is made of it, it is to compare with.
    #[serde(default)]
    contended: Vec<ContendedFile>,
    /// How far each figure may be off.
    #[serde(default)]
    pub(crate) range: Vec<Range>,
    /// How much memory there is, as much on each node.
    memory_gib: Option<f64>,
    memory_gib_source: Option<String>,
    level: Vec<LevelFile>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LevelFile {
    name: String,
    count: Counts,
    /// Between different units of this level; not needed where there is one only.
    transfer_ns: Option<Latencies>,
    transfer_source: Option<String>,
    /// From the memory of another unit of this level, for the nodes and the levels around them.
    memory_ns: Option<Latencies>,
    memory_source: Option<String>,
    hops: Option<Vec<Vec<usize>>>,
    /// What the firmware tells the kernel of how far the nodes are (ACPI's SLIT, where 10 is a node's own memory).
    distance: Option<Latencies>,
    distance_source: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ContendedFile {
    cpus: usize,
    /// From one CPU's atomic addition to the next one's.
    add_ns: Option<f64>,
    /// Until a CPU sees another value in a line that one of them writes.
    read_ns: Option<f64>,
    /// From one holder of a queued lock to the next.
    handover_ns: Option<f64>,
    source: Option<String>,
}

impl ContendedFile {
    fn figures(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let all = [("add", self.add_ns), ("read", self.read_ns), ("lock hand-over", self.handover_ns)];
        all.into_iter().filter_map(|(what, value)| Some((what, value?)))
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Counts {
    Same(i64),
    Each(Vec<i64>),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Latencies {
    One(f64),
    ByHops(Vec<f64>),
}

impl File {
    /// The figure of that name, as `sources` names it; of several values, the first, and all grow alike.
    pub(crate) fn figure(&mut self, of: &str) -> Option<Vec<&mut f64>> {
        let found = match of {
            "hit" => vec![&mut self.hit_ns],
            "memory" => vec![&mut self.memory_ns],
            "wakeup" => vec![&mut self.wakeup_ns],
            "ipi" => vec![&mut self.ipi_ns],
            "shared read" => vec![self.shared_read_ns.as_mut()?],
            "link" => vec![self.link_ns.as_mut()?],
            _ => return self.figure_of_level(of),
        };
        Some(found)
    }

    fn stretch(&mut self, factor: f64) {
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
    fn values(&self) -> Vec<f64> {
        match self {
            Latencies::One(value) => vec![*value],
            Latencies::ByHops(values) => values.clone(),
        }
    }
}

/// Between CPUs in different units of one level, inside the same unit of the level around it.
#[derive(Clone, Debug)]
struct Level {
    name: String,
    /// By hops, less one; one value where all units are equally far apart.
    transfer: Vec<Time>,
    memory: Vec<Time>,
    /// In the same way, what the firmware tells; empty where the file does not.
    distance: Vec<u8>,
    /// How many hops lie between two units, row by row; empty where all are equally far apart.
    hops: Vec<Vec<u8>>,
    /// Where this level's unit is in a CPU's place.
    shift: u32,
    mask: u32,
}

impl Level {
    #[inline]
    fn pick<'a, T>(&self, by_hops: &'a [T], a: Place, b: Place) -> &'a T {
        if self.hops.is_empty() {
            return &by_hops[0];
        }
        let unit = |place: Place| (place.0 >> self.shift & self.mask) as usize;
        &by_hops[self.hops[unit(a)][unit(b)] as usize - 1]
    }
}

/// Where a CPU is in the tree: the number of its unit at each level, outermost first, in bit fields. The highest
/// bit in which two places differ says at which level their ways part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(pub u32);

impl Place {
    /// The number of the highest bit in which the two differ. They must differ.
    #[inline]
    fn parting(self, other: Place) -> usize {
        (31 - (self.0 ^ other.0).leading_zeros()) as usize
    }
}

/// A machine of any number of CPUs.
#[derive(Clone, Debug)]
pub struct Machine {
    /// What it is called.
    pub name: String,
    /// What it is, in one line.
    pub description: String,
    /// How long a CPU takes for a line that is in its own cache.
    pub hit: Time,
    /// How long a wakeup takes from the waker's store to the woken program's first instruction.
    pub wakeup: Time,
    /// How long an IPI takes from sending to the first instruction of its handler.
    pub ipi: Time,
    /// How long a line that is clean is busy with one reader; the whole transfer unless the file says less.
    shared_read: Time,
    /// How long one line occupies a node's link to the others; none: bandwidth is no limit.
    pub(crate) link: Option<Time>,
    local_memory: Time,
    /// As many stores can be on their way from one CPU; with more it waits.
    pub(crate) store_buffer: usize,
    /// What the kernel's spinlocks are there.
    pub spinlocks: SpinKind,
    /// Where CPUs of several last-level caches wait for a line, the share of its transfers that cross between caches; 1:
    /// all that do in the order in which they were asked for.
    pub(crate) crossing: f64,
    processor: Option<Processor>,
    file: Arc<File>,
    memory_gib: Option<f64>,
    sources: Vec<(String, String, String)>,
    levels: Vec<Level>,
    /// For every bit of a place, the level it belongs to.
    level_of_bit: [u8; 32],
    /// For every bit of a place, the transfer's time; None where it depends on hops.
    transfer_of_bit: [Option<Time>; 32],
    /// The lowest bit of the level that is a node.
    node_shift: u32,
    places: Vec<Place>,
    nodes: Vec<u16>,
    /// The last-level cache of each CPU, and how long a line takes between CPUs of one.
    caches: Vec<u16>,
    inside_cache: Time,
    first_cpus: Vec<u32>,
}

/// Intel's processors from Skylake (2015) to Cascade Lake: Optimization Reference Manual, 2.5.
const STORE_BUFFER: usize = 56;

impl Machine {
    /// A machine that comes with the simulator.
    ///
    /// ```
    /// let machine = bigiron_sim::Machine::named("uniform").unwrap();
    /// assert_eq!(machine.cpus(), 1024);
    /// ```
    pub fn named(name: &str) -> Result<Machine, MachineError> {
        match BUILT_IN.iter().find(|(built_in, _)| *built_in == name) {
            Some((_, file)) => Machine::from_toml(file),
            None => {
                let names: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
                error(format!("no machine {name:?}: there are {}", names.join(", ")))
            }
        }
    }

    /// The machine that a TOML file describes.
    pub fn from_toml(text: &str) -> Result<Machine, MachineError> {
        let file: File = match toml::from_str(text) {
            Ok(file) => file,
            Err(wrong) => {
                let line = wrong.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
                return error(format!("line {line}: {}", wrong.message().replace('\n', " ")));
            }
        };
        ranges::check(&file)?;
        build(file)
    }

    /// Its figures that are not known exactly, as ranges.
    pub fn unknowns(&self) -> Vec<Range> {
        self.file.range.clone()
    }

    /// The same machine, each unknown at a place of its range: 0 is the low end, 0.5 the figure itself, 1 the high
    /// end. All transfers take `longer` times what that gives.
    pub fn at(&self, places: &[f64], longer: f64) -> Result<Machine, MachineError> {
        let mut file = (*self.file).clone();
        ranges::apply(&mut file, places)?;
        file.stretch(longer);
        let mut machine = build(file)?;
        machine.crossing = self.crossing;
        machine.with_cpus(self.cpus())
    }

    /// What its processors are; None if its file does not say.
    pub fn processor(&self) -> Option<&Processor> {
        self.processor.as_ref()
    }

    /// A machine of `cpus` CPUs that are all equally far apart, as closed formulas want them.
    pub fn uniform(cpus: usize, hit: Time, transfer: Time) -> Machine {
        let level = |name: &str, count: usize| LevelFile {
            name: name.into(),
            count: Counts::Same(count as i64),
            transfer_ns: Some(Latencies::One(transfer.as_ns())),
            transfer_source: None,
            memory_ns: None,
            memory_source: None,
            hops: None,
            distance: None,
            distance_source: None,
        };
        let file = File {
            name: "uniform".into(),
            description: format!("{cpus} CPUs, {transfer} between any two"),
            node: "node".into(),
            cache: None,
            hit_ns: hit.as_ns(),
            hit_source: None,
            memory_ns: transfer.as_ns(),
            memory_source: None,
            wakeup_ns: 0.0,
            wakeup_source: None,
            ipi_ns: 0.0,
            ipi_source: None,
            shared_read_ns: None,
            shared_read_source: None,
            link_ns: None,
            link_source: None,
            store_buffer: None,
            store_buffer_source: None,
            spinlocks: None,
            spinlocks_source: None,
            processor: None,
            contended: Vec::new(),
            range: Vec::new(),
            memory_gib: None,
            memory_gib_source: None,
            level: vec![level("node", 1), level("cpu", cpus)],
        };
        build(file).expect("a machine of equals is possible")
    }

    /// The same machine with only its first `cpus` CPUs.
    pub fn with_cpus(mut self, cpus: usize) -> Result<Machine, MachineError> {
        if cpus == 0 || cpus > self.cpus() {
            return error(format!("{} has 1 to {} CPUs, not {cpus}", self.name, self.cpus()));
        }
        self.places.truncate(cpus);
        self.nodes.truncate(cpus);
        self.caches.truncate(cpus);
        let nodes = self.nodes[cpus - 1] as usize + 1;
        self.first_cpus.truncate(nodes);
        Ok(self)
    }

    /// How many CPUs there are.
    pub fn cpus(&self) -> usize {
        self.places.len()
    }

    /// How many nodes there are: parts with memory of their own.
    pub fn nodes(&self) -> usize {
        self.first_cpus.len()
    }

    /// The node of a CPU.
    pub fn node_of(&self, cpu: usize) -> usize {
        self.nodes[cpu] as usize
    }

    /// The first CPU of a node.
    pub fn first_cpu_of(&self, node: usize) -> usize {
        self.first_cpus[node] as usize
    }

    /// How long a line takes from the cache of one CPU to another's: `hit` where they are the same.
    pub fn transfer(&self, from: usize, to: usize) -> Time {
        self.transfer_between(self.places[from], self.places[to])
    }

    /// How long a line takes to a CPU from the memory of a node.
    pub fn memory(&self, node: usize, cpu: usize) -> Time {
        self.memory_between(self.home(node), self.places[cpu])
    }

    /// How much memory there is, where the file tells.
    pub fn memory_gib(&self) -> Option<f64> {
        self.memory_gib
    }

    /// How far a node is from another as the firmware tells the kernel; None where the file does not.
    pub fn distance(&self, from: usize, to: usize) -> Option<u8> {
        if from == to {
            return Some(OWN_DISTANCE);
        }
        let (a, b) = (self.home(from), self.home(to));
        let level = &self.levels[self.level_of_bit[a.parting(b)] as usize];
        (!level.distance.is_empty()).then(|| *level.pick(&level.distance, a, b))
    }

    /// Every figure of its file: what, how much (latencies in nanoseconds), and where that comes from.
    pub fn sources(&self) -> &[(String, String, String)] {
        &self.sources
    }

    /// The names of the levels, outermost first, each with the number of its units in the whole machine.
    pub fn levels(&self) -> Vec<(&str, usize)> {
        let units = |level: &Level| {
            let mut seen: Vec<u32> = self.places.iter().map(|place| place.0 >> level.shift).collect();
            seen.dedup();
            seen.len()
        };
        self.levels.iter().map(|level| (level.name.as_str(), units(level))).collect()
    }

    /// The unit of a CPU at a level, counted through the whole machine.
    pub fn unit_of(&self, level: &str, cpu: usize) -> Option<usize> {
        let level = self.levels.iter().find(|known| known.name == level)?;
        let units = self.places[..=cpu]
            .windows(2)
            .filter(|pair| pair[0].0 >> level.shift != pair[1].0 >> level.shift);
        Some(units.count())
    }

    #[inline]
    pub(crate) fn place(&self, cpu: usize) -> Place {
        self.places[cpu]
    }

    /// A node's place: that of its first CPU.
    pub(crate) fn home(&self, node: usize) -> Place {
        self.places[self.first_cpus[node] as usize]
    }

    #[inline]
    pub(crate) fn same_node(&self, a: Place, b: Place) -> bool {
        a.0 >> self.node_shift == b.0 >> self.node_shift
    }

    #[inline]
    pub(crate) fn transfer_between(&self, a: Place, b: Place) -> Time {
        if a == b {
            return self.hit;
        }
        let bit = a.parting(b);
        match self.transfer_of_bit[bit] {
            Some(time) => time,
            None => {
                let level = &self.levels[self.level_of_bit[bit] as usize];
                *level.pick(&level.transfer, a, b)
            }
        }
    }

    #[inline]
    pub(crate) fn memory_between(&self, home: Place, cpu: Place) -> Time {
        if self.same_node(home, cpu) {
            return self.local_memory;
        }
        let level = &self.levels[self.level_of_bit[home.parting(cpu)] as usize];
        *level.pick(&level.memory, home, cpu)
    }

    /// The longest transfer from `cpu` to any of the places of which `all` and `any` are the bitwise and and or.
    #[inline]
    pub(crate) fn farthest(&self, cpu: Place, all: u32, any: u32) -> Time {
        let differing = (any & !cpu.0) | (!all & cpu.0);
        if differing == 0 {
            return self.hit;
        }
        let bit = (31 - differing.leading_zeros()) as usize;
        match self.transfer_of_bit[bit] {
            Some(time) => time,
            None => *self.levels[self.level_of_bit[bit] as usize].transfer.last().expect("checked when read"),
        }
    }

    /// The last-level cache of a CPU.
    #[inline]
    pub(crate) fn cache_of(&self, cpu: usize) -> usize {
        self.caches[cpu] as usize
    }

    #[inline]
    pub(crate) fn same_cache(&self, a: usize, b: usize) -> bool {
        self.caches[a] == self.caches[b]
    }

    /// Between the CPUs of one last-level cache that are farthest apart.
    #[inline]
    pub(crate) fn inside_cache(&self) -> Time {
        self.inside_cache
    }

    /// The CPU's unit at a level; None where there is no level of that name.
    pub(crate) fn unit(&self, level: &str, cpu: usize) -> Option<u32> {
        self.levels.iter().find(|known| known.name == level).map(|level| self.places[cpu].0 >> level.shift)
    }

    /// The CPU's unit at the level of cores: that around threads, or the innermost.
    pub(crate) fn core_of(&self, cpu: usize) -> u32 {
        let innermost = self.levels.last().expect("a machine has levels");
        match self.levels.iter().rev().find(|level| level.name == "core") {
            Some(core) => self.places[cpu].0 >> core.shift,
            None => self.places[cpu].0 >> innermost.shift,
        }
    }

    /// Whether a clean line is read from the cache that the CPUs of a node share: not unless the file tells how fast.
    #[inline]
    pub(crate) fn has_shared_caches(&self) -> bool {
        self.shared_read < Time::NEVER
    }

    /// How long a clean line is busy with a reader that takes `transfer`.
    #[inline]
    pub(crate) fn busy_with_reader(&self, transfer: Time) -> Time {
        self.shared_read.min(transfer)
    }
}

fn latency(what: &str, value: f64) -> Result<Time, MachineError> {
    if !value.is_finite() || value < 0.0 {
        return error(format!("{what} is {value}: a latency is zero or more"));
    }
    Ok(ns(value))
}

fn latencies(what: &str, given: &Latencies, hops: Option<usize>) -> Result<Vec<Time>, MachineError> {
    let values = given.values();
    let wanted = hops.unwrap_or(1);
    if values.len() != wanted {
        return error(format!("{what} has {} values, and hops asks for {wanted}", values.len()));
    }
    values.into_iter().map(|value| latency(what, value)).collect()
}

/// ACPI's, of a node's own memory.
const OWN_DISTANCE: u8 = 10;

fn distances(what: &str, given: &Latencies, hops: Option<usize>) -> Result<Vec<u8>, MachineError> {
    let (values, wanted) = (given.values(), hops.unwrap_or(1));
    if values.len() != wanted {
        return error(format!("{what} has {} values, and hops asks for {wanted}", values.len()));
    }
    let whole = |value: f64| value.fract() == 0.0 && value > f64::from(OWN_DISTANCE) && value < 255.0;
    match values.iter().find(|value| !whole(**value)) {
        Some(value) => {
            error(format!("{what} is {value}: use whole numbers from 11 to 254, a node's own is 10"))
        }
        None => Ok(values.into_iter().map(|value| value as u8).collect()),
    }
}

fn size(what: &str, gib: f64) -> Result<f64, MachineError> {
    if !(gib.is_finite() && gib > 0.0) {
        return error(format!("{what} is {gib}: a machine has some memory"));
    }
    Ok(gib)
}

fn build(file: File) -> Result<Machine, MachineError> {
    if file.level.is_empty() {
        return error("no [[level]]: a machine has one at least");
    }
    let node_level = level_number(&file, "node", &file.node)?;
    let cache_level = level_number(&file, "cache", file.cache.as_ref().unwrap_or(&file.node))?;
    if cache_level < node_level {
        return error(format!("cache = {:?}: no cache is larger than a node", file.level[cache_level].name));
    }
    for row in &file.contended {
        if let Some((what, value)) = row.figures().find(|(_, value)| !(value.is_finite() && *value > 0.0)) {
            return error(format!(
                "contended, {} CPUs: {what} takes {value} ns: use a number above zero",
                row.cpus
            ));
        }
    }
    let mut counts: Vec<Vec<usize>> = Vec::new(); // of every level, for every unit of the one outside it
    let mut units = 1usize;
    for level in &file.level {
        let each = match &level.count {
            Counts::Same(count) => vec![*count; units],
            Counts::Each(each) if each.len() == units => each.clone(),
            Counts::Each(each) => {
                return error(format!(
                    "level {}: count lists {} units, and there are {units} around them",
                    level.name,
                    each.len()
                ));
            }
        };
        if let Some(count) = each.iter().find(|count| !(1..=65_536).contains(*count)) {
            return error(format!("level {}: count {count} is not from 1 to 65536", level.name));
        }
        let each: Vec<usize> = each.into_iter().map(|count| count as usize).collect();
        units = each.iter().sum();
        if units > 65_536 {
            return error(format!("level {}: {units} units; a machine has at most 65536", level.name));
        }
        counts.push(each);
    }

    let widths: Vec<u32> = counts.iter().map(|each| bits(*each.iter().max().expect("units"))).collect();
    if widths.iter().sum::<u32>() > 31 {
        return error("too many levels for so many units");
    }
    let mut levels = Vec::new();
    let mut shift: u32 = widths.iter().sum();
    for (number, level) in file.level.iter().enumerate() {
        shift -= widths[number];
        levels.push(read_level(level, &counts[number], number <= node_level, shift, widths[number])?);
    }

    let mut level_of_bit = [0; 32];
    let mut transfer_of_bit = [None; 32];
    for (number, level) in levels.iter().enumerate() {
        for bit in level.shift..level.shift + widths[number] {
            level_of_bit[bit as usize] = number as u8;
            if level.hops.is_empty() {
                transfer_of_bit[bit as usize] = Some(level.transfer[0]);
            }
        }
    }

    let sources = sources(&file);
    let places = places(&counts, &levels);
    let node_shift = levels[node_level].shift;
    let (nodes, first_cpus) = units_of(&places, node_shift);
    let (caches, _) = units_of(&places, levels[cache_level].shift);
    let hit = latency("hit_ns", file.hit_ns)?;
    let inside_cache = levels[cache_level + 1..].iter().find_map(|level| level.transfer.first());
    Ok(Machine {
        inside_cache: *inside_cache.unwrap_or(&hit),
        hit,
        wakeup: latency("wakeup_ns", file.wakeup_ns)?,
        ipi: latency("ipi_ns", file.ipi_ns)?,
        shared_read: file.shared_read_ns.map_or(Ok(Time::NEVER), |value| latency("shared_read_ns", value))?,
        link: file.link_ns.map(|value| latency("link_ns", value)).transpose()?,
        local_memory: latency("memory_ns", file.memory_ns)?,
        store_buffer: match file.store_buffer.unwrap_or(STORE_BUFFER) {
            0 => return error("store_buffer = 0: a CPU has one place for a store at least"),
            places => places,
        },
        spinlocks: spinlocks(file.spinlocks.as_deref())?,
        crossing: 1.0,
        processor: file.processor.as_ref().map(Processor::new).transpose()?,
        memory_gib: file.memory_gib.map(|gib| size("memory_gib", gib)).transpose()?,
        sources,
        name: file.name.clone(),
        description: file.description.clone(),
        file: Arc::new(file),
        levels,
        level_of_bit,
        transfer_of_bit,
        node_shift,
        places,
        nodes,
        caches,
        first_cpus,
    })
}

fn spinlocks(name: Option<&str>) -> Result<SpinKind, MachineError> {
    let Some(name) = name else { return Ok(SpinKind::default()) };
    let names = || SpinKind::ALL.map(|(known, _)| known).join(", ");
    SpinKind::named(name).map_or_else(|| error(format!("spinlocks = {name:?} is none of {}", names())), Ok)
}

fn level_number(file: &File, what: &str, name: &str) -> Result<usize, MachineError> {
    let number = file.level.iter().position(|level| level.name == name);
    let names = || file.level.iter().map(|level| level.name.as_str()).collect::<Vec<_>>().join(", ");
    number.map_or_else(|| error(format!("{what} = {name:?} is none of the levels {}", names())), Ok)
}

/// For each CPU the number of its unit at the level with that shift, and each unit's first CPU.
fn units_of(places: &[Place], shift: u32) -> (Vec<u16>, Vec<u32>) {
    let (mut units, mut first_cpus) = (Vec::with_capacity(places.len()), Vec::new());
    for (cpu, place) in places.iter().enumerate() {
        if cpu == 0 || places[cpu - 1].0 >> shift != place.0 >> shift {
            first_cpus.push(cpu as u32);
        }
        units.push((first_cpus.len() - 1) as u16);
    }
    (units, first_cpus)
}

/// Every figure of the file: what, how much (latencies in nanoseconds), and where that comes from.
fn sources(file: &File) -> Vec<(String, String, String)> {
    let mut rows = Vec::new();
    let mut row = |what: String, values: Option<Vec<f64>>, source: &Option<String>| {
        if let Some(values) = values {
            let values: Vec<String> = values.iter().map(f64::to_string).collect();
            rows.push((what, values.join(", "), source.clone().unwrap_or_default()));
        }
    };
    row("hit".into(), Some(vec![file.hit_ns]), &file.hit_source);
    row("memory".into(), Some(vec![file.memory_ns]), &file.memory_source);
    row("wakeup".into(), Some(vec![file.wakeup_ns]), &file.wakeup_source);
    row("ipi".into(), Some(vec![file.ipi_ns]), &file.ipi_source);
    row("shared read".into(), file.shared_read_ns.map(|ns| vec![ns]), &file.shared_read_source);
    row("link".into(), file.link_ns.map(|ns| vec![ns]), &file.link_source);
    row(
        "stores on their way".into(),
        file.store_buffer.map(|places| vec![places as f64]),
        &file.store_buffer_source,
    );
    row("GiB of memory".into(), file.memory_gib.map(|gib| vec![gib]), &file.memory_gib_source);
    for level in &file.level {
        let values = |latencies: &Option<Latencies>| latencies.as_ref().map(Latencies::values);
        row(format!("{} transfer", level.name), values(&level.transfer_ns), &level.transfer_source);
        row(format!("{} memory", level.name), values(&level.memory_ns), &level.memory_source);
        row(format!("{} distance", level.name), values(&level.distance), &level.distance_source);
    }
    for row_of in &file.contended {
        for (what, value) in row_of.figures() {
            row(format!("{what}, {} CPUs at once", row_of.cpus), Some(vec![value]), &row_of.source);
        }
    }
    if let Some(kind) = &file.spinlocks {
        rows.push(("spinlocks".into(), kind.clone(), file.spinlocks_source.clone().unwrap_or_default()));
    }
    if let Some(processor) = &file.processor {
        rows.extend(processor.sources());
    }
    rows
}

fn bits(count: usize) -> u32 {
    count.next_power_of_two().trailing_zeros()
}

fn read_level(
    level: &LevelFile,
    counts: &[usize],
    has_memory: bool,
    shift: u32,
    width: u32,
) -> Result<Level, MachineError> {
    let name = &level.name;
    let mut hops = Vec::new();
    if let Some(matrix) = &level.hops {
        let [count] = counts else {
            return error(format!("level {name}: hops can be given for the outermost level only"));
        };
        if matrix.len() != *count || matrix.iter().any(|row| row.len() != *count) {
            return error(format!("level {name}: hops is not a table of {count} by {count}"));
        }
        for (a, row) in matrix.iter().enumerate() {
            for (b, &distance) in row.iter().enumerate() {
                if distance != matrix[b][a] || (distance == 0) != (a == b) || distance > 255 {
                    return error(format!(
                        "level {name}: hops from {a} to {b} is {distance}, and from {b} to {a} {}: \
                         use 0 to itself, and the same both ways",
                        matrix[b][a]
                    ));
                }
            }
        }
        hops = matrix.iter().map(|row| row.iter().map(|&distance| distance as u8).collect()).collect();
    }
    let most = hops.iter().flatten().max().map(|&most: &u8| most.max(1) as usize);
    let several = counts.iter().any(|&count| count > 1);
    let transfer = match &level.transfer_ns {
        Some(transfer) => latencies(&format!("level {name}: transfer_ns"), transfer, most)?,
        None if several => {
            return error(format!("level {name}: transfer_ns, between two of them, is missing"));
        }
        None => Vec::new(),
    };
    let memory = match (&level.memory_ns, has_memory) {
        (Some(memory), true) => latencies(&format!("level {name}: memory_ns"), memory, most)?,
        (None, true) if several => {
            return error(format!("level {name}: memory_ns, from another one's memory, is missing"));
        }
        (None, _) => Vec::new(),
        (Some(_), false) => {
            return error(format!(
                "level {name}: memory_ns makes no sense inside a node, whose memory is one"
            ));
        }
    };
    let distance = match (&level.distance, has_memory) {
        (Some(distance), true) => distances(&format!("level {name}: distance"), distance, most)?,
        (None, _) => Vec::new(),
        (Some(_), false) => {
            return error(format!(
                "level {name}: distance makes no sense inside a node, whose memory is one"
            ));
        }
    };
    Ok(Level { name: name.clone(), transfer, memory, distance, hops, shift, mask: (1 << width) - 1 })
}

fn places(counts: &[Vec<usize>], levels: &[Level]) -> Vec<Place> {
    let mut places = vec![Place(0)];
    for (each, level) in counts.iter().zip(levels) {
        places = places
            .iter()
            .zip(each)
            .flat_map(|(outer, &count)| {
                (0..count as u32).map(move |unit| Place(outer.0 | unit << level.shift))
            })
            .collect();
    }
    places
}
