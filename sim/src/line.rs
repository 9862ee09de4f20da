//! Cache lines: which CPUs have a copy, and until when the line is busy.
//!
//! Invariant: a line has either one owner, which may write it, or any number of sharers, which may read it. The state
//! changes when an access is issued. The access is done when the line has come. Accesses that need a transfer of the
//! line are served one at a time, in the order in which they were issued. Where the line's home does additions without a
//! result (`atomics = "far"`), it has the only copy of the line afterwards.

use crate::machine::{Machine, Place};
use crate::time::Time;

/// In place of the number of a CPU, a context or a lock: there is none.
pub(crate) const NO_ID: u32 = u32::MAX;

/// Counts and times of a cache line, for the report.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    pub accesses: u64,
    pub transfers: u64,
    pub waiting: Time,
    pub transferring: Time,
}

pub(crate) struct Line {
    home: Place,
    home_node: u16,
    /// The CPU that may write it.
    owner: u32,
    /// The CPU that received it last.
    last: u32,
    sharers: Sharers,
    /// The bitwise AND and OR of the sharers' places. They give the distance of the farthest sharer.
    all: u32,
    any: u32,
    /// Its home has done the last write, and has the only copy.
    at_home: bool,
    /// The last-level caches with a clean copy. A bit for each of the first 64.
    caches: u64,
    busy_until: Time,
    /// When CPUs of several caches wait: the fraction of a transfer between caches accumulated so far.
    crossing_debt: f64,
    /// The CPUs that wait for it, at most one of each core. Kept where nearby CPUs are served first.
    waiting: Vec<Waiting>,
    /// The first context that waits for a write. The others are linked from it.
    pub watchers: u32,
    pub name: u32,
    pub traffic: Traffic,
}

struct Waiting {
    core: u32,
    cpu: usize,
    until: Time,
}

/// When the transfer for an access begins and ends.
#[derive(Clone, Copy)]
pub(crate) struct Served {
    pub begin: Time,
    pub done: Time,
}

impl Line {
    pub fn new(machine: &Machine, node: usize, name: u32) -> Line {
        Line {
            home: machine.home(node),
            home_node: node as u16,
            owner: NO_ID,
            last: NO_ID,
            sharers: Sharers::default(),
            all: u32::MAX,
            any: 0,
            caches: 0,
            at_home: false,
            busy_until: Time::ZERO,
            crossing_debt: 0.0,
            waiting: Vec::new(),
            watchers: NO_ID,
            name,
            traffic: Traffic::default(),
        }
    }

    pub fn has_copy(&self, cpu: usize) -> bool {
        self.owner == cpu as u32 || self.sharers.contains(cpu)
    }

    /// Whether no CPU has used it yet.
    pub fn is_unused(&self) -> bool {
        self.last == NO_ID
    }

    /// Whether the CPU was the last to request it for writing.
    pub fn is_owned_by(&self, cpu: usize) -> bool {
        self.owner == cpu as u32
    }

    /// Brings the line to `cpu` for reading or writing. `links` has the time when each node's link is free.
    #[inline]
    pub fn access(
        &mut self,
        machine: &Machine,
        links: &mut [Time],
        cpu: usize,
        writes: bool,
        now: Time,
    ) -> Served {
        self.traffic.accesses += 1;
        if self.owner == cpu as u32 || (!writes && self.sharers.contains(cpu)) {
            return Served { begin: now, done: now + machine.hit };
        }
        let place = machine.place(cpu);
        let (mut latency, from) = self.source(machine, cpu, place, writes);
        let mut begin = now.max(self.busy_until);
        let near_first = begin > now && machine.crossing < 1.0;
        let sibling = if near_first { self.sibling(machine, cpu, now) } else { None };
        if let Some(sibling) = sibling {
            latency = latency.min(machine.transfer(sibling, cpu));
        } else if near_first && (writes || self.owner != NO_ID) {
            latency = self.near_first(machine, cpu, latency);
        }
        if let Some(link) = machine.link {
            begin = over_links(links, from, machine.node_of(cpu), begin, link);
        }
        let clean = self.owner == NO_ID;
        let busy = if writes || !clean { latency } else { machine.busy_with_reader(latency) };
        self.busy_until = begin + busy;
        self.at_home = false;
        if writes {
            self.forget_copies();
            self.owner = cpu as u32;
        } else if clean && self.last == NO_ID {
            self.owner = cpu as u32; // the only copy: as in MESI's exclusive state, it can be written without a request
        } else {
            if !clean {
                self.share(self.owner as usize, machine);
                self.owner = NO_ID;
            }
            self.share(cpu, machine);
        }
        self.last = cpu as u32;
        if near_first && sibling.is_none() {
            self.waiting.push(Waiting { core: machine.core_of(cpu), cpu, until: begin + latency });
        }
        self.traffic.transfers += 1;
        self.traffic.waiting += begin - now;
        self.traffic.transferring += latency;
        Served { begin, done: begin + latency }
    }

    /// An addition that the line's home does, for `busy`. If CPUs have the line, the home takes it from them first.
    pub fn add_at_home(
        &mut self,
        machine: &Machine,
        links: &mut [Time],
        (cpu, busy): (usize, Time),
        now: Time,
    ) -> Served {
        self.traffic.accesses += 1;
        let (latency, _) = self.source(machine, cpu, machine.place(cpu), true);
        let mut begin = now.max(self.busy_until);
        if let Some(link) = machine.link {
            begin = over_links(links, self.home_node as usize, machine.node_of(cpu), begin, link);
        }
        self.busy_until = begin + if self.at_home { busy } else { latency };
        self.traffic.transfers += u64::from(!self.at_home);
        self.traffic.waiting += begin - now;
        self.traffic.transferring += latency;
        self.forget_copies();
        self.owner = NO_ID;
        self.at_home = true;
        Served { begin, done: begin + latency }
    }

    /// All caches lose the line: memory has it.
    pub fn evict(&mut self) {
        self.forget_copies();
        (self.owner, self.last, self.at_home) = (NO_ID, NO_ID, false);
    }

    fn forget_copies(&mut self) {
        self.sharers.clear();
        (self.all, self.any, self.caches) = (u32::MAX, 0, 0);
    }

    /// The latency of a transfer while CPUs of several last-level caches wait. Hardware serves several waiting CPUs
    /// of one cache before the line crosses to the next. Here CPUs keep their order, and the line crosses on average
    /// as often as in hardware: only then a transfer takes as long as between caches.
    fn near_first(&mut self, machine: &Machine, cpu: usize, latency: Time) -> Time {
        let last = (self.last != NO_ID).then_some(self.last as usize);
        let waiting = || self.waiting.iter().map(|other| other.cpu).chain(last);
        let cache = machine.cache_of(cpu);
        let Some(far) = waiting().find(|&other| machine.cache_of(other) != cache) else { return latency };
        let caches =
            waiting().fold(1 << (cache % 64), |seen: u64, other| seen | 1 << (machine.cache_of(other) % 64));
        let least = f64::from(caches.count_ones()) / (self.waiting.len() + 1) as f64;
        self.crossing_debt += machine.crossing.max(least).min(1.0);
        let crosses = self.crossing_debt >= 1.0;
        if crosses {
            self.crossing_debt -= 1.0;
        }
        match (crosses, last.is_some_and(|last| machine.cache_of(last) != cache)) {
            (true, false) => latency.max(machine.transfer(far, cpu)),
            (false, true) => latency.min(machine.inside_cache()),
            _ => latency,
        }
    }

    /// Another thread of the same core that already waits for the line. When the line comes, it serves both.
    fn sibling(&mut self, machine: &Machine, cpu: usize, now: Time) -> Option<usize> {
        self.waiting.retain(|other| other.until > now);
        let core = machine.core_of(cpu);
        let at = self.waiting.iter().position(|other| other.core == core && other.cpu != cpu)?;
        Some(self.waiting.swap_remove(at).cpu)
    }

    fn share(&mut self, cpu: usize, machine: &Machine) {
        let place = machine.place(cpu).0;
        self.all &= place;
        self.any |= place;
        self.caches |= cache_bit(machine, cpu);
        self.sharers.insert(cpu, machine.cpus());
    }

    /// How long the line takes to reach a CPU, and the node that it comes from.
    fn source(&self, machine: &Machine, cpu: usize, place: Place, writes: bool) -> (Time, usize) {
        if self.at_home {
            return (machine.transfer_from_home(self.home_node as usize, cpu), self.home_node as usize);
        }
        let memory = (machine.memory_between(self.home, place), self.home_node as usize);
        if self.last == NO_ID {
            return memory;
        }
        let last = machine.place(self.last as usize);
        let of_last = machine.node_of(self.last as usize);
        if self.owner != NO_ID {
            // Between CPUs of one cache the line moves directly. From elsewhere the request goes to the home first.
            let direct = machine.transfer_between(last, place);
            let by_home = match machine.same_cache(self.last as usize, cpu) {
                true => direct,
                false => direct.max(machine.transfer_between(self.home, place)),
            };
            return (by_home, of_last);
        }
        if writes {
            // All copies are invalidated at the same time.
            return (machine.farthest(place, self.all, self.any), of_last);
        }
        let nearest = memory.min((machine.transfer_between(last, place), of_last));
        match machine.has_shared_caches() && self.caches & cache_bit(machine, cpu) != 0 {
            true => nearest.min((machine.inside_cache(), machine.node_of(cpu))),
            false => nearest,
        }
    }
}

/// When a transfer between nodes can begin. It occupies the links of both nodes.
fn over_links(links: &mut [Time], from: usize, to: usize, begin: Time, link: Time) -> Time {
    if from == to {
        return begin;
    }
    let begin = begin.max(links[from]).max(links[to]);
    links[from] = begin + link;
    links[to] = begin + link;
    begin
}

fn cache_bit(machine: &Machine, cpu: usize) -> u64 {
    1u64.checked_shl(machine.cache_of(cpu) as u32).unwrap_or(0)
}

/// A set of CPUs: a list of up to four, or bits. Clearing it keeps its memory, as the same CPUs will return.
#[derive(Default)]
struct Sharers {
    count: u32,
    few: [u32; FEW],
    bits: Option<Box<[u64]>>,
}

const FEW: usize = 4;

impl Sharers {
    #[inline]
    fn contains(&self, cpu: usize) -> bool {
        if self.count as usize <= FEW {
            return self.few[..self.count as usize].contains(&(cpu as u32));
        }
        self.bits.as_ref().is_some_and(|bits| bits[cpu / 64] >> (cpu % 64) & 1 == 1)
    }

    fn insert(&mut self, cpu: usize, cpus: usize) {
        if self.contains(cpu) {
            return;
        }
        if (self.count as usize) < FEW {
            self.few[self.count as usize] = cpu as u32;
        } else {
            let bits = self.bits.get_or_insert_with(|| vec![0; cpus.div_ceil(64)].into_boxed_slice());
            if self.count as usize == FEW {
                for &sharer in &self.few {
                    bits[sharer as usize / 64] |= 1 << (sharer % 64);
                }
            }
            bits[cpu / 64] |= 1 << (cpu % 64);
        }
        self.count += 1;
    }

    fn clear(&mut self) {
        if self.count as usize > FEW {
            if let Some(bits) = &mut self.bits {
                bits.fill(0);
            }
        }
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use crate::machine::Machine;
    use crate::simulation::{Run, Simulation};
    use crate::time::{Time, us};

    /// CPU 0 writes a word. Returns when each reader has the word, which it reads at the time that is given.
    fn read_at(machine: &Machine, readers: &[(usize, Time)]) -> Vec<Time> {
        let mut sim = Simulation::new(machine.clone(), 1);
        let word = sim.word("word", 0);
        sim.program(0, move |cpu| async move {
            cpu.write(word, 1).await;
        });
        let done = readers.iter().map(|&(reader, at)| {
            let done = Rc::new(Cell::new(Time::ZERO));
            let seen = Rc::clone(&done);
            sim.program(reader, move |cpu| async move {
                cpu.sleep_until(at).await;
                cpu.read(word).await;
                seen.set(cpu.now());
            });
            done
        });
        let done: Vec<_> = done.collect();
        sim.run(Run::to_the_end()).unwrap();
        done.iter().map(|done| done.get()).collect()
    }

    #[test]
    fn readers_of_a_clean_line_do_not_wait_for_each_other() {
        let machine = Machine::named("xeon-5418y-x2").unwrap();
        let readers: Vec<_> = (1..24).map(|cpu| (cpu, us(1))).collect();
        let done = read_at(&machine, &readers);
        let (transfer, between) = (machine.transfer(0, 1), machine.busy_with_reader(Time::NEVER));
        assert!(between * 5 < transfer, "{between} of {transfer}");
        // The first has it from its writer, and every other one a little later than the one before.
        assert_eq!(*done.iter().max().unwrap(), us(1) + transfer * 2 + between * 21);
    }

    #[test]
    fn a_clean_line_is_read_from_the_nearest_node_that_has_it() {
        let machine = Machine::named("xeon-5418y-x2").unwrap();
        let done = read_at(&machine, &[(24, us(1)), (1, us(2)), (25, us(3))]);
        let inside = machine.transfer(0, 1);
        assert!(machine.transfer(0, 24) > inside);
        assert_eq!(done, [us(1) + machine.transfer(0, 24), us(2) + inside, us(3) + inside]);
    }

    #[test]
    fn a_clean_line_is_read_from_the_cache_of_the_own_group() {
        let machine = Machine::named("epyc-9654-x2").unwrap(); // 16 CPUs share a cache
        let done = read_at(&machine, &[(2, us(1)), (20, us(2)), (4, us(3)), (22, us(4))]);
        let (own, other) = (machine.transfer(0, 2), machine.transfer(0, 20));
        assert!(own * 3 < other);
        assert_eq!(done, [us(1) + own, us(2) + other, us(3) + own, us(4) + own]);
    }

    #[test]
    fn between_caches_a_line_goes_by_its_home() {
        let machine = Machine::named("epyc-9654-x2").unwrap();
        let second = machine.first_cpu_of(1);
        let takes = |home: usize, to: usize| {
            let mut sim = Simulation::new(machine.clone(), 1);
            let word = sim.word("word", home);
            sim.program(second, move |cpu| async move {
                cpu.write(word, 1).await;
            });
            let took = Rc::new(Cell::new(Time::ZERO));
            let seen = Rc::clone(&took);
            sim.program(to, move |cpu| async move {
                cpu.sleep_until(us(1)).await;
                cpu.fetch_add(word, 1).await;
                seen.set(cpu.now() - us(1));
            });
            sim.run(Run::to_the_end()).unwrap();
            took.get()
        };
        assert_eq!(takes(1, second + 2), machine.transfer(second, second + 2));
        assert_eq!(takes(0, second + 2), machine.transfer(second, second + 2));
        assert_eq!(takes(1, second + 20), machine.transfer(second, second + 20));
        assert_eq!(takes(0, second + 20), machine.transfer(0, second + 20));
    }

    /// Nanoseconds per transfer of a cache line to which CPUs of two nodes add.
    fn between_additions(near: usize, far: usize) -> f64 {
        let machine = Machine::named("xeon-5418y-x2").unwrap();
        between_additions_of(machine, &(0..near).chain(24..24 + far).collect::<Vec<_>>())
    }

    fn between_additions_of(mut machine: Machine, cpus: &[usize]) -> f64 {
        machine.crossing = 0.25;
        let mut sim = Simulation::new(machine, 1);
        let word = sim.word("word", 0);
        for &cpu in cpus {
            sim.program(cpu, move |cpu| async move {
                loop {
                    cpu.add(word, 1).await;
                    cpu.operation();
                }
            });
        }
        let time = us(100);
        time.as_ns() / sim.run(Run::measuring(us(10), time)).unwrap().operations as f64
    }

    #[test]
    fn a_line_crosses_as_often_however_many_wait_in_the_other_node() {
        let machine = Machine::named("xeon-5418y-x2").unwrap();
        let (inside, between) = (machine.transfer(0, 1).as_ns(), machine.transfer(0, 24).as_ns());
        let expected = inside + 0.25 * (between - inside);
        assert!((between_additions(18, 0) / inside - 1.0).abs() < 0.01);
        for (near, far) in [(18, 3), (18, 12), (24, 24)] {
            let takes = between_additions(near, far);
            assert!((takes / expected - 1.0).abs() < 0.02, "{near} and {far}: {takes}, {expected}");
        }
        // One CPU of each node: every transfer crosses.
        let takes = between_additions(1, 1);
        assert!((takes / between - 1.0).abs() < 0.02, "{takes}");
    }

    const FAR: &str = r#"
name = "far"
description = "32 cores on one mesh"
node = "socket"
hit_ns = 1
memory_ns = 100
wakeup_ns = 2000
ipi_ns = 500
atomics = "far"
far_atomic_ns = 10

[[level]]
name = "socket"
count = 1

[[level]]
name = "core"
count = 32
transfer_ns = 50
"#;

    #[test]
    fn only_contended_additions_are_done_at_home_as_fast_as_it_can() {
        let far = |cpus: usize| {
            between_additions_of(Machine::from_toml(FAR).unwrap(), &(0..cpus).collect::<Vec<_>>())
        };
        let near = FAR.replace("atomics = \"far\"\nfar_atomic_ns = 10\n", "");
        let near = between_additions_of(Machine::from_toml(&near).unwrap(), &(0..32).collect::<Vec<_>>());
        assert!((near / 50.0 - 1.0).abs() < 0.01, "{near}");
        // One CPU keeps the line. No CPU waits for the home's answer. Graviton 2: 5.3 ns, then 8.5 and 9.4.
        assert!((far(1) / 1.0 - 1.0).abs() < 0.01, "{}", far(1));
        assert!((far(2) / 10.0 - 1.0).abs() < 0.01, "{}", far(2));
        assert!((far(32) / 10.0 - 1.0).abs() < 0.01, "{}", far(32));
    }

    #[test]
    fn a_line_stays_in_a_cache_where_cpus_of_several_wait() {
        let machine = Machine::named("epyc-9654-x2").unwrap();
        let (inside, between) = (machine.transfer(0, 2).as_ns(), machine.transfer(0, 16).as_ns());
        let cpus: Vec<usize> = (0..8).map(|core| 2 * core).chain((0..8).map(|core| 16 + 2 * core)).collect();
        let takes = between_additions_of(machine, &cpus);
        let expected = inside + 0.25 * (between - inside);
        assert!((takes / expected - 1.0).abs() < 0.02, "{takes}, {expected}");
    }
}
