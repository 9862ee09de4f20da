//! The designs hold what they promise on any machine and in any order of events, and a bug in any of them shows.

use bigiron_sim::designs::{Error, Figure, Values, find, simulate};
use bigiron_sim::{Failure, Machine, Report, Run, ms, ns};
use proptest::prelude::*;

fn values(design: &str, given: &[(&str, &str)]) -> Values {
    let given: Vec<(String, String)> =
        given.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    Values::new(find(design).unwrap(), &given).unwrap()
}

fn run(design: &str, cpus: usize, given: &[(&str, &str)], run: Run) -> Result<(Report, Vec<Figure>), Error> {
    let machine = Machine::named("altix-512").unwrap().with_cpus(cpus).unwrap();
    simulate(machine, &values(design, given), 1, run)
}

fn figure(figures: &[Figure], name: &str) -> f64 {
    figures.iter().find(|figure| figure.name == name).unwrap_or_else(|| panic!("no figure {name}")).value
}

/// A few virtual milliseconds.
fn some_ms(duration: u64) -> Run {
    Run::measuring(ms(5), ms(duration as f64))
}

fn breaks(design: &str, cpus: usize, given: &[(&str, &str)], run_: Run, says: &str) {
    match run(design, cpus, given, run_) {
        Err(Error::Failure(Failure::Broken(why))) => assert!(why.contains(says), "{why}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("{design} with {given:?} passes"),
    }
}

/// Readers so long that ticks interrupt them, on all CPUs, and updates of all.
const LONG_READERS: [(&str, &str); 3] = [("updaters", "16"), ("read", "3000000"), ("reads", "3000000")];

#[test]
fn a_reader_that_is_ignored_shows() {
    for design in ["rcu-flat", "rcu-tree"] {
        let mut given = LONG_READERS.to_vec();
        run(design, 16, &given, some_ms(300)).unwrap_or_else(|error| panic!("{design}: {error}"));
        given.push(("bug", "early"));
        breaks(design, 16, &given, some_ms(300), "has been reading since before");
        given.push(("update", "synchronize_rcu_expedited"));
        if design == "rcu-tree" {
            breaks(design, 16, &given, some_ms(300), "has been reading since before");
        }
    }
}

#[test]
fn lost_callbacks_show() {
    for design in ["rcu-flat", "rcu-tree"] {
        breaks(
            design,
            16,
            &[("updaters", "16"), ("interval", "20000"), ("bug", "lost")],
            some_ms(300),
            "queued",
        );
    }
    breaks("slub", 8, &[("bug", "lost")], some_ms(20), "queued");
}

#[test]
fn a_slab_on_two_lists_shows() {
    run("slub", 8, &[("limit", "256")], some_ms(30)).map(|_| ()).unwrap();
    breaks("slub", 8, &[("limit", "256"), ("bug", "unfrozen")], some_ms(30), "belongs to a CPU");
}

#[test]
fn objects_freed_too_early_show() {
    let given = [("walk", "3000000"), ("user", "3000000"), ("bug", "early")];
    breaks("slub", 8, &given, some_ms(100), "has been reading since before");
}

#[test]
fn a_sum_without_a_cpu_shows() {
    let sum = [("look", "sum"), ("think", "1000")];
    run("percpu-counter", 8, &sum, some_ms(5)).map(|_| ()).unwrap();
    breaks("percpu-counter", 8, &[sum[0], sum[1], ("bug", "skip")], some_ms(5), "is summed to");
}

/// Nanoseconds that a sum of eight CPUs' parts takes on a Xeon Phi: 3.8 for what a cache has, 130 from memory, 34 from
/// the other core of the tile.
fn sum_takes(tasks: &str, given: &[(&str, &str)]) -> f64 {
    let machine = Machine::named("xeon-phi-288").unwrap().with_cpus(8).unwrap();
    let given = [&[("look", "sum"), ("tasks", tasks), ("counters", "1")], given].concat();
    let (_, figures) = simulate(machine, &values("percpu-counter", &given), 1, some_ms(5)).unwrap();
    figure(&figures, "exact sum")
}

#[test]
fn a_sum_takes_what_the_layout_of_its_parts_says() {
    let near = |found: f64, expected: f64| assert!((found - expected).abs() < 2.0, "{found}, {expected}");
    near(sum_takes("1", &[]), 9.0 * 3.8);
    // The task's own part is back in its cache: it has added to it since.
    near(sum_takes("1", &[("caches", "evict")]), 2.0 * 3.8 + 7.0 * 130.0);
    near(sum_takes("1", &[("caches", "evict"), ("online", "tasks")]), 2.0 * 3.8);
    near(sum_takes("1", &[("caches", "evict"), ("reads", "4")]), 3.8 + 2.0 * 130.0);
    // Two tasks on the two cores of a tile: one line of a CPU is written, then those of CPUs without a task too, by
    // their ticks, then two of each CPU.
    let beside = [("counters", "2"), ("think", "200000"), ("layout", "joined"), ("beside", "written")];
    let [quiet, ticks, two] = [&beside[..3], &beside, &[beside[0], beside[1], beside[3]]]
        .map(|given: &[(&str, &str)]| sum_takes("2", given));
    assert!(quiet + 2.0 < ticks && ticks + 5.0 < two, "{quiet}, {ticks}, {two}");
    // 28 instructions, 0.6 in a cycle of 1 / 1.6 ns.
    near(sum_takes("1", &[("instructions", "28")]), 9.0 * 3.8 + 8.0 * 28.0 / 0.6 / 1.6);
    let values = values("percpu-counter", &[("instructions", "28")]);
    assert!(simulate(Machine::named("uniform").unwrap(), &values, 1, some_ms(1)).is_err(), "no processor");
}

#[test]
fn a_directory_that_stays_or_a_state_that_is_left_out_shows() {
    for direction in ["offline", "online"] {
        let given = [("direction", direction), ("files", "debugfs")];
        run("cpu-hotplug", 8, &given, Run::to_the_end()).map(|_| ()).unwrap();
    }
    breaks("cpu-hotplug", 8, &[("bug", "stale")], Run::to_the_end(), "directory of CPU 1");
    breaks("cpu-hotplug", 8, &[("bug", "skip")], Run::to_the_end(), "comes to state");
}

#[test]
fn the_root_is_taken_once_for_each_of_its_children() {
    for (levels, leaf, children) in [("2", "8", 16.0), ("2", "4", 32.0), ("2", "node", 64.0), ("3", "2", 8.0)]
    {
        let given = [("levels", levels), ("leaf", leaf), ("hz", "1024")];
        let (_, figures) = run("rcu-tree", 128, &given, some_ms(200)).unwrap();
        let taken = figure(&figures, "global lock");
        assert!((children..children * 1.05 + 1.0).contains(&taken), "{levels} levels of {leaf}: {taken}");
    }
}

#[test]
fn one_mask_is_taken_by_every_cpu_and_the_jiffies_mask_makes_grace_periods_longer() {
    let mut before = 0.0;
    for (mask, times) in [("0", 1.0), ("1", 2.0), ("3", 4.0)] {
        let (_, figures) = run("rcu-flat", 64, &[("mask", mask)], some_ms(400)).unwrap();
        let taken = figure(&figures, "global lock");
        assert!((63.0..68.0).contains(&taken), "mask {mask}: {taken}");
        let took = figure(&figures, "grace period");
        let two_ticks = 2.0 * times * 1000.0 / 1024.0;
        assert!((two_ticks * 0.9..two_ticks * 1.1).contains(&took), "mask {mask}: {took} ms");
        assert!(took > before);
        before = took;
    }
}

#[test]
fn an_expedited_grace_period_does_not_wait_for_ticks() {
    let took =
        |update| figure(&run("rcu-tree", 32, &[("update", update)], some_ms(200)).unwrap().1, "grace period");
    assert!(took("synchronize_rcu") > 1.0);
    assert!(took("synchronize_rcu_expedited") < 0.2);
}

#[test]
fn files_take_what_their_table_says() {
    let given =
        [("files", "debugfs"), ("cycle", "1"), ("remove", "1000000"), ("create_cpu", "0"), ("lookup", "0")];
    let given = [given.as_slice(), &[("create_domain", "100000"), ("domains", "3")]].concat();
    let (_, figures) = run("cpu-hotplug", 32, &given, Run::to_the_end()).unwrap();
    // One of 32 CPUs goes: 32 directories are removed, and 31 made with 3 domains each. Ticks interrupt the work.
    let expected = 32.0 * 1e-3 + 31.0 * 3.0 * 100e-6;
    let took = figure(&figures, "files");
    assert!((expected..expected * 1.01).contains(&took), "{took} s, {expected} without ticks");
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let once = || run("rcu-flat", 128, &[("background", "100000000")], some_ms(100)).unwrap();
    let ((one, figures), (other, same)) = (once(), once());
    assert_eq!((one.events, one.cpus, figures), (other.events, other.cpus, same));
}

#[test]
fn wrong_values_are_named() {
    let wrong = [
        ("rcu-tree", "levels", "9"),
        ("rcu-tree", "leaf", "x"),
        ("rcu-flat", "hz", "0"),
        ("rcu-flat", "updaters", "17"),
        ("slub", "tasks", "17"),
        ("percpu-counter", "layout", "loose"),
        ("cpu-hotplug", "direction", "sideways"),
    ];
    for (design, name, value) in wrong {
        match run(design, 16, &[(name, value)], some_ms(1)) {
            Err(Error::Input(error)) => assert!(error.0.starts_with(&format!("{name}={value}")), "{error}"),
            _ => panic!("{design} takes {name}={value}"),
        }
    }
}

fn machines() -> impl Strategy<Value = Machine> {
    let latencies = proptest::collection::vec(1u32..2000, 5);
    (1usize..=3, 1usize..=6, latencies).prop_map(|(nodes, cpus, latency)| {
        let [hit, memory, far, far_memory, near] = latency[..] else { unreachable!() };
        let text = format!(
            "name = 'random'\ndescription = 'random'\nnode = 'node'\nhit_ns = {hit}\nmemory_ns = {memory}\nwakeup_ns = 2000\nipi_ns = 500\n\
             [[level]]\nname = 'node'\ncount = {nodes}\ntransfer_ns = {far}\nmemory_ns = {far_memory}\n\
             [[level]]\nname = 'cpu'\ncount = {cpus}\ntransfer_ns = {near}\n"
        );
        Machine::from_toml(&text).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn no_callback_is_lost_and_no_grace_period_ends_early(
        machine in machines(), seed: u64, design in 0usize..4, shape in (1u8..=4, 1u8..=4), mask in 0u8..8,
        interval in 5_000u32..500_000, read in 100u32..3_000_000, reads in 5_000u32..500_000,
    ) {
        let (levels, leaf, mask) = (shape.0.to_string(), shape.1.to_string(), mask.to_string());
        let (interval, read, reads) = (interval.to_string(), read.to_string(), reads.to_string());
        let updaters = machine.cpus().to_string();
        let mut given = vec![
            ("updaters", &*updaters), ("interval", &*interval), ("read", &*read), ("reads", &*reads), ("tick", "500"),
        ];
        let name = match design {
            0 => { given.push(("mask", &mask)); "rcu-flat" }
            _ => { given.extend([("levels", &*levels), ("leaf", &*leaf)]); "rcu-tree" }
        };
        match design {
            2 => given.push(("update", "synchronize_rcu")),
            3 => given.push(("update", "synchronize_rcu_expedited")),
            _ => {}
        }
        let result = simulate(machine, &values(name, &given), seed, some_ms(40));
        prop_assert!(result.is_ok(), "{}", result.err().unwrap());
    }

    #[test]
    fn no_object_is_handed_out_twice(
        machine in machines(), seed: u64, objects in 1u8..20, cpu_partial in 1u8..20, min_partial in 0u8..6,
        limit in 0u16..600, blimit in 1u8..40,
    ) {
        let numbers = [u16::from(objects), cpu_partial.into(), min_partial.into(), limit, blimit.into()];
        let texts = numbers.map(|number| number.to_string());
        let names = ["objects", "cpu_partial", "min_partial", "limit", "blimit"];
        let given: Vec<(&str, &str)> = names.into_iter().zip(texts.iter().map(String::as_str)).collect();
        let result = simulate(machine, &values("slub", &given), seed, some_ms(10));
        prop_assert!(result.is_ok(), "{}", result.err().unwrap());
    }

    #[test]
    fn sums_are_exact(
        machine in machines(), seed: u64, layout in 0usize..3, look in 0usize..3, think in 100u32..5_000,
        batch in 1u32..100_000, reads in 1u8..6, evict: bool, written: bool,
    ) {
        let (think, batch, reads) = (think.to_string(), batch.to_string(), reads.to_string());
        let layout = ["padded", "joined", "packed"][layout];
        let look = ["none", "read", "sum"][look];
        let given = [
            ("think", &*think), ("batch", &*batch), ("layout", layout), ("look", look), ("counters", "3"),
            ("reads", &*reads), ("caches", if evict { "evict" } else { "keep" }),
            ("beside", if written { "written" } else { "none" }),
        ];
        let run = Run::measuring(ns(0), ms(2));
        let result = simulate(machine, &values("percpu-counter", &given), seed, run);
        prop_assert!(result.is_ok(), "{}", result.err().unwrap());
    }

    #[test]
    fn every_cpu_passes_through_its_states(
        machine in machines(), seed: u64, online: bool, expedited: bool, keep in 0u8..4, waits in 0u8..3,
    ) {
        let (keep, waits) = (keep.to_string(), waits.to_string());
        let given = [
            ("direction", if online { "online" } else { "offline" }),
            ("wait", if expedited { "expedited" } else { "normal" }),
            ("keep", &*keep), ("waits", &*waits), ("files", "debugfs"),
        ];
        let result = simulate(machine, &values("cpu-hotplug", &given), seed, Run::to_the_end());
        prop_assert!(result.is_ok(), "{}", result.err().unwrap());
    }
}
