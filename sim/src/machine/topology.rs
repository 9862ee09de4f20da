//! The topology: how long a cache line takes between the CPUs and nodes of a machine.

use std::sync::Arc;

use crate::machine::file::{File, MachineError, error};
use crate::machine::processor::Processor;
use crate::spin_kind::SpinKind;
use crate::time::Time;

/// ACPI's distance of a node to itself.
pub(super) const OWN_DISTANCE: u8 = 10;

/// The latencies between CPUs in different units of one level, inside one unit of the level around it.
#[derive(Clone, Debug)]
pub(super) struct Level {
    pub(super) name: String,
    /// Indexed by hops - 1. One value if all units are equally far apart.
    pub(super) transfer: Vec<Time>,
    pub(super) memory: Vec<Time>,
    /// Indexed likewise: the distance that the firmware reports. Empty if the file has none.
    pub(super) distance: Vec<u8>,
    /// The number of hops between any two units. Empty if all are equally far apart.
    pub(super) hops: Vec<Vec<u8>>,
    /// Where this level's unit is in a CPU's place.
    pub(super) shift: u32,
    pub(super) mask: u32,
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

/// The place of a CPU in the tree: the number of its unit at each level, outermost first, in bit fields. The highest
/// bit in which two places differ belongs to the outermost level at which they are in different units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(pub u32);

impl Place {
    /// The highest bit in which two places differ. They must differ.
    #[inline]
    fn parting(self, other: Place) -> usize {
        (31 - (self.0 ^ other.0).leading_zeros()) as usize
    }
}

/// A machine of any number of CPUs.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Its description, in one line.
    pub description: String,
    /// The architecture of its kernels.
    pub architecture: &'static str,
    /// The latency of a cache line in the CPU's own cache.
    pub hit: Time,
    /// The time from the waker's store to the first instruction of the woken program.
    pub wakeup: Time,
    /// The time from sending an IPI to the first instruction of its handler.
    pub ipi: Time,
    /// How long a clean cache line is busy with one reader. `Time::NEVER` if the file does not say: the whole
    /// transfer.
    pub(super) shared_read: Time,
    /// How long one cache line occupies a node's link to other nodes. `None`: bandwidth is not limited.
    pub(crate) link: Option<Time>,
    pub(super) local_memory: Time,
    /// The number of entries of a CPU's store buffer.
    pub(crate) store_buffer: usize,
    /// The kind of the kernel's spinlocks.
    pub spinlocks: SpinKind,
    /// How long a cache line's home is busy with an addition or a bit operation. `None`: CPUs do them.
    pub(crate) far_atomic: Option<Time>,
    /// When CPUs of several last-level caches wait for a cache line: the share of its transfers that cross between
    /// caches. 1 means that waiting CPUs are served in order, wherever they are.
    pub(crate) crossing: f64,
    pub(super) processor: Option<Processor>,
    pub(super) file: Arc<File>,
    pub(super) memory_gib: Option<f64>,
    pub(super) sources: Vec<(String, String, String)>,
    pub(super) levels: Vec<Level>,
    /// The level that each bit of a place belongs to.
    pub(super) level_of_bit: [u8; 32],
    /// The transfer time for each bit of a place. `None` if it depends on hops.
    pub(super) transfer_of_bit: [Option<Time>; 32],
    /// The lowest bit of the level of nodes.
    pub(super) node_shift: u32,
    pub(super) places: Vec<Place>,
    pub(super) nodes: Vec<u16>,
    /// The last-level cache of each CPU.
    pub(super) caches: Vec<u16>,
    /// The longest transfer between CPUs of one last-level cache.
    pub(super) inside_cache: Time,
    pub(super) first_cpus: Vec<u32>,
}

impl Machine {
    /// Its processors, if its file describes them.
    pub fn processor(&self) -> Option<&Processor> {
        self.processor.as_ref()
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

    /// The number of CPUs.
    pub fn cpus(&self) -> usize {
        self.places.len()
    }

    /// The number of nodes, the parts with memory of their own.
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

    /// How long a cache line takes from one CPU's cache to another's: `hit` if they are the same.
    pub fn transfer(&self, from: usize, to: usize) -> Time {
        self.transfer_between(self.places[from], self.places[to])
    }

    /// How long a cache line takes from the memory of a node to a CPU.
    pub fn memory(&self, node: usize, cpu: usize) -> Time {
        self.memory_between(self.home(node), self.places[cpu])
    }

    /// The amount of memory, if the file says.
    pub fn memory_gib(&self) -> Option<f64> {
        self.memory_gib
    }

    /// The distance between nodes that the firmware reports to the kernel, if the file says.
    pub fn distance(&self, from: usize, to: usize) -> Option<u8> {
        if from == to {
            return Some(OWN_DISTANCE);
        }
        let (a, b) = (self.home(from), self.home(to));
        let level = &self.levels[self.level_of_bit[a.parting(b)] as usize];
        (!level.distance.is_empty()).then(|| *level.pick(&level.distance, a, b))
    }

    /// Every figure of its file: its name, its value (latencies in nanoseconds), and its source.
    pub fn sources(&self) -> &[(String, String, String)] {
        &self.sources
    }

    /// The levels, outermost first: the name, and the number of units in the whole machine.
    pub fn levels(&self) -> Vec<(&str, usize)> {
        let units = |level: &Level| {
            let mut seen: Vec<u32> = self.places.iter().map(|place| place.0 >> level.shift).collect();
            seen.dedup();
            seen.len()
        };
        self.levels.iter().map(|level| (level.name.as_str(), units(level))).collect()
    }

    /// The unit of a CPU at a level, numbered through the whole machine.
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

    /// The place of a node: that of its first CPU.
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

    /// The longest transfer from `cpu` to any of the places whose bitwise AND is `all` and whose bitwise OR is `any`.
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

    /// How long a CPU waits for the home of a cache line whose only copy is there.
    pub(crate) fn transfer_from_home(&self, node: usize, cpu: usize) -> Time {
        let first = self.first_cpu_of(node);
        if self.same_cache(first, cpu) { self.inside_cache } else { self.transfer(first, cpu) }
    }

    /// The longest transfer between CPUs of one last-level cache.
    #[inline]
    pub(crate) fn inside_cache(&self) -> Time {
        self.inside_cache
    }

    /// The CPU's unit at a level, if there is a level of that name.
    pub(crate) fn unit(&self, level: &str, cpu: usize) -> Option<u32> {
        self.levels.iter().find(|known| known.name == level).map(|level| self.places[cpu].0 >> level.shift)
    }

    /// The CPU's core: its unit at the level `core`, or at the innermost level.
    pub(crate) fn core_of(&self, cpu: usize) -> u32 {
        let innermost = self.levels.last().expect("a machine has levels");
        match self.levels.iter().rev().find(|level| level.name == "core") {
            Some(core) => self.places[cpu].0 >> core.shift,
            None => self.places[cpu].0 >> innermost.shift,
        }
    }

    /// Whether a clean cache line can be read from the last-level cache: only if the file says how fast.
    #[inline]
    pub(crate) fn has_shared_caches(&self) -> bool {
        self.shared_read < Time::NEVER
    }

    /// How long a clean cache line is busy with a reader whose transfer takes `transfer`.
    #[inline]
    pub(crate) fn busy_with_reader(&self, transfer: Time) -> Time {
        self.shared_read.min(transfer)
    }
}
