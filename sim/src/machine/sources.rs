//! The figures of a machine file as rows, with the source of each.

use crate::machine::file::{File, Latencies, ProcessorFile};

/// Every figure of a file: its name, its value (latencies in nanoseconds), and its source.
pub(super) fn sources(file: &File) -> Vec<(String, String, String)> {
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
    row("far atomic".into(), file.far_atomic_ns.map(|ns| vec![ns]), &file.far_atomic_source);
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
    let words = [
        ("spinlocks", &file.spinlocks, &file.spinlocks_source),
        ("atomics", &file.atomics, &file.atomics_source),
    ];
    for (what, word, source) in words {
        if let Some(word) = word {
            rows.push((what.into(), word.clone(), source.clone().unwrap_or_default()));
        }
    }
    if let Some(processor) = &file.processor {
        rows.extend(sources_of_processor(processor));
    }
    rows
}

fn sources_of_processor(file: &ProcessorFile) -> Vec<(String, String, String)> {
    let turbo: Vec<String> =
        file.turbo_ghz.iter().map(|(cores, ghz)| format!("{ghz} GHz to {cores}")).collect();
    let figures = [
        ("clock rate, active cores", Some(turbo.join(", ")), &file.turbo_source),
        (
            "instructions per cycle",
            Some(file.instructions_per_cycle.to_string()),
            &file.instructions_per_cycle_source,
        ),
        ("smt speedup", file.smt_speedup.map(|value| value.to_string()), &file.smt_source),
        ("system call", Some(file.system_call_ns.to_string()), &file.system_call_source),
        ("core bandwidth, GB/s", Some(file.core_gb_per_s.to_string()), &file.core_gb_source),
        ("node bandwidth, GB/s", Some(file.node_gb_per_s.to_string()), &file.node_gb_source),
    ];
    figures
        .into_iter()
        .filter_map(|(what, value, source)| Some((what.into(), value?, source.clone().unwrap_or_default())))
        .collect()
}
