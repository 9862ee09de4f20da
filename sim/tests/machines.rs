//! The machines that come with the simulator, and what is said of impossible ones.

use bigiron_sim::locks::SpinKind;
use bigiron_sim::{BUILT_IN, Machine, Run, Simulation, ns, us};

#[test]
fn every_machine_has_its_cpus_and_every_latency_its_source() {
    let cpus = |name| Machine::named(name).expect("it is built in").cpus();
    assert_eq!(cpus("x86-2s"), 128);
    assert_eq!(cpus("xeon-5418y-x2"), 48);
    assert_eq!(cpus("x86-8s"), 448);
    assert_eq!(cpus("epyc"), 256);
    assert_eq!(cpus("altix-512"), 512);
    assert_eq!(cpus("altix-512-by-8"), 512);
    assert_eq!(cpus("power10-1920"), 1920);
    assert_eq!(cpus("xeon-phi-288"), 288);
    assert_eq!(cpus("threadripper-3970x"), 64);
    assert_eq!(cpus("altra-max-m128-x2"), 256);
    assert_eq!(cpus("power10-352"), 352);
    for (name, _) in BUILT_IN {
        let machine = Machine::named(name).expect("it is built in");
        assert_eq!(machine.name, *name);
        for (what, _, source) in machine.sources() {
            assert!(*name == "uniform" || !source.is_empty(), "{name}: {what} has no source");
        }
    }
}

#[test]
fn memory_and_distances_are_told_of_some() {
    let machine = Machine::named("x86-2s").expect("it is built in");
    assert_eq!(machine.memory_gib(), Some(128.0));
    assert_eq!((machine.distance(0, 0), machine.distance(0, 1)), (Some(10), Some(21)));
    let machine = Machine::named("altix-512").expect("it is built in");
    assert_eq!((machine.memory_gib(), machine.distance(0, 1)), (None, None));
}

#[test]
fn spinlocks_are_the_architectures() {
    let spinlocks = |name| Simulation::new(Machine::named(name).expect("it is built in"), 1).spinlocks();
    assert_eq!(spinlocks("power10-1920"), SpinKind::Powerpc);
    assert_eq!(spinlocks("xeon-5418y-x2"), SpinKind::Qspinlock);
    assert_eq!(spinlocks("power9-16c-x2"), SpinKind::Qspinlock);
}

#[test]
fn each_machine_has_the_architecture_of_its_processor() {
    let others = [("Neoverse", "aarch64"), ("TaiShan", "aarch64"), ("Cortex", "aarch64"), ("ltix", "ia64")];
    for (name, _) in BUILT_IN {
        let machine = Machine::named(name).expect("it is built in");
        let is_power = machine.description.contains("POWER");
        let other = others.iter().find(|(core, _)| machine.description.contains(core));
        let expected = if is_power { "ppc64le" } else { other.map_or("x86_64", |(_, other)| other) };
        assert_eq!(machine.architecture, expected, "{name}");
    }
}

#[test]
fn where_it_is_not_known_half_of_the_samples_have_far_atomics() {
    let unknown = GOOD.replace("ipi_ns = 500", "ipi_ns = 500\natomics = \"near or far\"\nfar_atomic_ns = 9");
    let machine = Machine::from_toml(&unknown).expect("it is right");
    let [range] = &machine.unknowns()[..] else { panic!("{:?}", machine.unknowns()) };
    assert_eq!((range.of.as_str(), range.low, range.high), ("atomics", 0.0, 1.0));
    let additions = |quantile: f64| {
        let sample = machine.with_quantiles(&[quantile], 1.0).expect("it is a sample");
        let mut sim = Simulation::new(sample, 1);
        let word = sim.word("word", 0);
        for cpu in 0..8 {
            sim.program(cpu, move |cpu| async move {
                loop {
                    cpu.add(word, 1).await;
                    cpu.operation();
                }
            });
        }
        sim.run(Run::measuring(us(1), us(10))).expect("it runs").operations
    };
    // From 50 to 100 ns each, and 9 ns.
    assert!((100..=200).contains(&additions(0.5)), "{}", additions(0.5));
    assert!((1100..=1112).contains(&additions(0.51)), "{}", additions(0.51));
}

#[test]
fn distances_are_symmetric_and_grow_outwards() {
    for (name, _) in BUILT_IN {
        let machine = Machine::named(name).expect("it is built in");
        let cpus = machine.cpus();
        for (a, b) in (0..500).map(|n| (n * 7919 % cpus, n * 104_729 % cpus)) {
            assert_eq!(machine.transfer(a, b), machine.transfer(b, a), "{name}: {a} and {b}");
            if machine.node_of(a) != machine.node_of(b) {
                assert!(
                    machine.transfer(a, b) > machine.transfer(a, machine.first_cpu_of(machine.node_of(a)))
                );
                assert!(machine.memory(machine.node_of(b), a) > machine.memory(machine.node_of(a), a));
            }
        }
    }
}

#[test]
fn places_are_numbered_through_the_tree() {
    let power = Machine::named("power10-1920").expect("it is built in");
    assert_eq!(power.levels(), [("drawer", 5), ("socket", 17), ("core", 240), ("thread", 1920)]);
    assert_eq!(power.nodes(), 17);
    assert_eq!((power.node_of(119), power.node_of(120), power.first_cpu_of(2)), (0, 1, 240));
    assert_eq!(power.unit_of("drawer", 1919), Some(4));
    assert_eq!(power.unit_of("rack", 0), None);
    assert_eq!((power.transfer(0, 0), power.transfer(0, 7), power.transfer(0, 8)), (ns(1), ns(10), ns(85)));
    assert_eq!((power.transfer(0, 120), power.transfer(0, 1919)), (ns(220), ns(440)));

    let eight = Machine::named("x86-8s").expect("it is built in");
    assert_eq!(
        (eight.transfer(0, 56), eight.transfer(0, 2 * 56), eight.transfer(0, 4 * 56)),
        (ns(134), ns(200), ns(134))
    );

    let few = power.with_cpus(130).expect("it has as many");
    assert_eq!((few.cpus(), few.nodes(), few.node_of(129)), (130, 2, 1));
    assert_eq!(few.with_cpus(131).unwrap_err().to_string(), "power10-1920 has 1 to 130 CPUs, not 131");
}

const GOOD: &str = r#"
name = "mine"
description = "two nodes"
node = "node"
hit_ns = 1
memory_ns = 90
wakeup_ns = 2000
ipi_ns = 500

[[level]]
name = "node"
count = 2
transfer_ns = 100
memory_ns = 150

[[level]]
name = "cpu"
count = 4
transfer_ns = 50
"#;

/// What to replace in the good file, by what, and the error that it gives.
const WRONG: &[(&str, &str, &str)] = &[
    ("transfer_ns = 50", "transfer_ns = -50", "level cpu: transfer_ns is -50: a latency is zero or more"),
    ("hit_ns = 1", "hit_ns = nan", "hit_ns is NaN: a latency is zero or more"),
    ("memory_ns = 90", "memory_ns = -1", "memory_ns is -1: a latency is zero or more"),
    ("count = 4", "count = 0", "level cpu: count 0 is not from 1 to 65536"),
    ("count = 4", "count = [4, 4, 4]", "level cpu: count lists 3 units, and there are 2 around them"),
    ("count = 4", "count = 65536", "level cpu: 131072 units; a machine has at most 65536"),
    ("node = \"node\"", "node = \"socket\"", "node = \"socket\" is none of the levels node, cpu"),
    (
        "node = \"node\"",
        "node = \"node\"\ncache = \"tile\"",
        "cache = \"tile\" is none of the levels node, cpu",
    ),
    (
        "node = \"node\"",
        "node = \"cpu\"\ncache = \"node\"",
        "cache = \"node\": no cache is larger than a node",
    ),
    (
        "ipi_ns = 500",
        "ipi_ns = 500\nstore_buffer = 0",
        "store_buffer = 0: a CPU has one place for a store at least",
    ),
    (
        "ipi_ns = 500",
        "ipi_ns = 500\nspinlocks = \"ticket\"",
        "spinlocks = \"ticket\" is none of qspinlock, cna, powerpc",
    ),
    (
        "ipi_ns = 500",
        "ipi_ns = 500\narchitecture = \"arm64\"",
        "architecture = \"arm64\" is none of x86_64, aarch64, ppc64le, ia64",
    ),
    (
        "ipi_ns = 500",
        "ipi_ns = 500\natomics = \"remote\"",
        "atomics = \"remote\" is none of near, far, near or far",
    ),
    (
        "ipi_ns = 500",
        "ipi_ns = 500\natomics = \"near or far\"",
        "atomics = \"near or far\": far_atomic_ns is missing",
    ),
    (
        "ipi_ns = 500",
        "ipi_ns = 500\nfar_atomic_ns = 9",
        "far_atomic_ns makes no sense where atomics are near",
    ),
    ("ipi_ns = 500", "ipi_ns = 500\natomics = \"far\"\nfar_atomic_ns = -9", "far_atomic_ns is -9: a latency"),
    ("transfer_ns = 50", "", "level cpu: transfer_ns, between two of them, is missing"),
    ("memory_ns = 150", "", "level node: memory_ns, from another one's memory, is missing"),
    (
        "transfer_ns = 50",
        "transfer_ns = 50\nmemory_ns = 60",
        "level cpu: memory_ns makes no sense inside a node, whose memory is one",
    ),
    (
        "transfer_ns = 100",
        "transfer_ns = [100, 200]",
        "level node: transfer_ns has 2 values, and hops asks for 1",
    ),
    ("memory_ns = 150", "memory_ns = 150\nhops = [[0, 1]]", "level node: hops is not a table of 2 by 2"),
    (
        "memory_ns = 150",
        "memory_ns = 150\nhops = [[0, 1], [2, 0]]",
        "level node: hops from 0 to 1 is 1, and from 1 to 0 2: use 0 to itself, and the same both ways",
    ),
    ("hit_ns = 1", "hit_ns = \"fast\"", "line 5: invalid type: string \"fast\", expected f64"),
    ("ipi_ns = 500", "ipi_ns = 500\ncolour = 1", "line 9: unknown field `colour`"),
];

#[test]
fn a_wrong_file_is_one_clear_line() {
    assert_eq!(Machine::from_toml(GOOD).expect("it is right").cpus(), 8);
    for (instead_of, write, says) in WRONG {
        assert!(GOOD.contains(instead_of));
        let error = Machine::from_toml(&GOOD.replace(instead_of, write)).unwrap_err().to_string();
        assert!(error.starts_with(says) && !error.contains('\n'), "{error}\ninstead of\n{says}");
    }
    assert!(
        Machine::named("cray")
            .unwrap_err()
            .to_string()
            .starts_with("no machine \"cray\": there are x86-2s, ")
    );
}

#[test]
fn a_processor_s_level_and_clock_rates_are_checked() {
    let (_, skylake) = BUILT_IN.iter().find(|(name, _)| *name == "skylake-20c-x2").expect("it is built in");
    let error = |instead_of, write| {
        Machine::from_toml(&skylake.replacen(instead_of, write, 1)).unwrap_err().to_string()
    };
    let unknown = error("\nsocket = \"socket\"", "\nsocket = \"package\"");
    assert_eq!(unknown, "processor: socket = \"package\" is none of the levels socket, core, thread");
    let endless = error("[2, 3.7]", "[2, inf]");
    assert!(
        endless.starts_with("processor: turbo_ghz is rows of active cores, growing, and GHz"),
        "{endless}"
    );
}
