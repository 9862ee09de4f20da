//! The machine files that come with the simulator.

/// The machines that come with the simulator: name and text of the file.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("x86-2s", include_str!("../../machines/x86-2s.toml")),
    ("x86-8s", include_str!("../../machines/x86-8s.toml")),
    ("epyc", include_str!("../../machines/epyc.toml")),
    ("altix-512", include_str!("../../machines/altix-512.toml")),
    ("altix-512-by-8", include_str!("../../machines/altix-512-by-8.toml")),
    ("power10-1920", include_str!("../../machines/power10-1920.toml")),
    ("xeon-phi-288", include_str!("../../machines/xeon-phi-288.toml")),
    ("xeon-5418y-x2", include_str!("../../machines/xeon-5418y-x2.toml")),
    ("xeon-e7-8895v3-x4", include_str!("../../machines/xeon-e7-8895v3-x4.toml")),
    ("xeon-e5-2650v4-x2", include_str!("../../machines/xeon-e5-2650v4-x2.toml")),
    ("xeon-e5-2680v4-x2", include_str!("../../machines/xeon-e5-2680v4-x2.toml")),
    ("xeon-e5-2690v4-x2", include_str!("../../machines/xeon-e5-2690v4-x2.toml")),
    ("ivybridge-ex-x8", include_str!("../../machines/ivybridge-ex-x8.toml")),
    ("skylake-20c-x2", include_str!("../../machines/skylake-20c-x2.toml")),
    ("cascade-lake-20c-x2", include_str!("../../machines/cascade-lake-20c-x2.toml")),
    ("ice-lake-32c-x2", include_str!("../../machines/ice-lake-32c-x2.toml")),
    ("epyc-7742-x2", include_str!("../../machines/epyc-7742-x2.toml")),
    ("epyc-9654-x2", include_str!("../../machines/epyc-9654-x2.toml")),
    ("epyc-9754-x2", include_str!("../../machines/epyc-9754-x2.toml")),
    ("graviton3", include_str!("../../machines/graviton3.toml")),
    ("i7-4770", include_str!("../../machines/i7-4770.toml")),
    ("uniform", include_str!("../../machines/uniform.toml")),
];
