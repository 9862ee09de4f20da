//! Checks a machine file, and builds the machine.

use std::sync::Arc;

use crate::machine::file::{Counts, EITHER, FAR, File, Latencies, LevelFile, MachineError, NEAR, error};
use crate::machine::processor::Processor;
use crate::machine::sources::sources;
use crate::machine::topology::{Level, Machine, OWN_DISTANCE, Place};
use crate::spin_kind::SpinKind;
use crate::time::{Time, ns};

/// Of Intel's processors from Skylake (2015) to Cascade Lake: Optimization Reference Manual, 2.5.
const STORE_BUFFER: usize = 56;
/// The first is that of a file that names none.
const ARCHITECTURES: [&str; 4] = ["x86_64", "aarch64", "ppc64le", "ia64"];

/// The machine of a file.
pub(super) fn build(file: File) -> Result<Machine, MachineError> {
    if file.level.is_empty() {
        return error("no [[level]]: a machine has one at least");
    }
    let node_level = level_number(&file, "node", &file.node)?;
    let cache_level = level_number(&file, "cache", file.cache.as_ref().unwrap_or(&file.node))?;
    if cache_level < node_level {
        return error(format!("cache = {:?}: no cache is larger than a node", file.level[cache_level].name));
    }
    if let Some(processor) = &file.processor {
        level_number(&file, "processor: socket", &processor.socket)?;
    }
    check_contended(&file)?;
    let counts = counts(&file)?;
    let levels = levels(&file, &counts, node_level)?;
    let (level_of_bit, transfer_of_bit) = by_bit(&levels);
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
        far_atomic: far_atomic(&file)?,
        crossing: 1.0,
        processor: file.processor.as_ref().map(Processor::new).transpose()?,
        architecture: architecture(file.architecture.as_deref())?,
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

fn check_contended(file: &File) -> Result<(), MachineError> {
    for row in &file.contended {
        if let Some((what, value)) = row.figures().find(|(_, value)| !(value.is_finite() && *value > 0.0)) {
            return error(format!(
                "contended, {} CPUs: {what} takes {value} ns: use a number above zero",
                row.cpus
            ));
        }
    }
    Ok(())
}

/// For each level, the number of its units in each unit of the level around it.
fn counts(file: &File) -> Result<Vec<Vec<usize>>, MachineError> {
    let mut counts = Vec::new();
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
    Ok(counts)
}

/// Assigns each level its bits of a place, the innermost the lowest.
fn levels(file: &File, counts: &[Vec<usize>], node_level: usize) -> Result<Vec<Level>, MachineError> {
    let bits = |count: usize| count.next_power_of_two().trailing_zeros();
    let widths: Vec<u32> = counts.iter().map(|each| bits(*each.iter().max().expect("units"))).collect();
    let mut shift: u32 = widths.iter().sum();
    if shift > 31 {
        return error("too many levels for so many units");
    }
    let mut levels = Vec::new();
    for (number, level) in file.level.iter().enumerate() {
        shift -= widths[number];
        levels.push(read_level(level, &counts[number], number <= node_level, shift, widths[number])?);
    }
    Ok(levels)
}

/// For each bit of a place, its level, and the transfer time if it does not depend on hops.
fn by_bit(levels: &[Level]) -> ([u8; 32], [Option<Time>; 32]) {
    let (mut level_of_bit, mut transfer_of_bit) = ([0; 32], [None; 32]);
    for (number, level) in levels.iter().enumerate() {
        let width = level.mask.count_ones();
        for bit in level.shift..level.shift + width {
            level_of_bit[bit as usize] = number as u8;
            if level.hops.is_empty() {
                transfer_of_bit[bit as usize] = Some(level.transfer[0]);
            }
        }
    }
    (level_of_bit, transfer_of_bit)
}

fn read_level(
    level: &LevelFile,
    counts: &[usize],
    has_memory: bool,
    shift: u32,
    width: u32,
) -> Result<Level, MachineError> {
    let name = &level.name;
    let hops = hops(level, counts)?;
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

/// The number of hops between any two units of a level. Empty if the file does not give them.
fn hops(level: &LevelFile, counts: &[usize]) -> Result<Vec<Vec<u8>>, MachineError> {
    let name = &level.name;
    let Some(matrix) = &level.hops else { return Ok(Vec::new()) };
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
    Ok(matrix.iter().map(|row| row.iter().map(|&distance| distance as u8).collect()).collect())
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

fn architecture(name: Option<&str>) -> Result<&'static str, MachineError> {
    let Some(name) = name else { return Ok(ARCHITECTURES[0]) };
    let known = ARCHITECTURES.into_iter().find(|known| *known == name);
    known
        .map_or_else(|| error(format!("architecture = {name:?} is none of {}", ARCHITECTURES.join(", "))), Ok)
}

fn spinlocks(name: Option<&str>) -> Result<SpinKind, MachineError> {
    let Some(name) = name else { return Ok(SpinKind::default()) };
    let names = || SpinKind::ALL.map(|(known, _)| known).join(", ");
    SpinKind::named(name).map_or_else(|| error(format!("spinlocks = {name:?} is none of {}", names())), Ok)
}

fn far_atomic(file: &File) -> Result<Option<Time>, MachineError> {
    let word = file.atomics.as_deref().unwrap_or(NEAR);
    match (word, file.far_atomic_ns) {
        (NEAR, None) => Ok(None),
        (NEAR, Some(_)) => error("far_atomic_ns makes no sense where atomics are near"),
        (FAR | EITHER, None) => error(format!("atomics = {word:?}: far_atomic_ns is missing")),
        (FAR, Some(value)) => latency("far_atomic_ns", value).map(Some),
        (EITHER, Some(value)) => latency("far_atomic_ns", value).map(|_| None),
        _ => error(format!("atomics = {word:?} is none of {NEAR}, {FAR}, {EITHER}")),
    }
}

fn level_number(file: &File, what: &str, name: &str) -> Result<usize, MachineError> {
    let number = file.level.iter().position(|level| level.name == name);
    let names = || file.level.iter().map(|level| level.name.as_str()).collect::<Vec<_>>().join(", ");
    number.map_or_else(|| error(format!("{what} = {name:?} is none of the levels {}", names())), Ok)
}

/// The unit of each CPU at the level with this shift, and the first CPU of each unit.
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
