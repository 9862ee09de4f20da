//! Machines from files, by name, with other figures, and without a file.

use crate::machine::built_in::BUILT_IN;
use crate::machine::check::build;
use crate::machine::file::{Counts, File, Latencies, LevelFile, MachineError, Range, error};
use crate::machine::ranges;
use crate::machine::topology::Machine;
use crate::time::Time;

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

    /// The ranges of its uncertain figures. That of `atomics` is from near, 0, to far, 1.
    pub fn unknowns(&self) -> Vec<Range> {
        ranges::unknowns(&self.file)
    }

    /// The same machine with each uncertain figure at a quantile of its range: 0 is the low end, 0.5 the figure
    /// itself, 1 the high end. All transfers then take `transfer_scale` times as long.
    pub fn with_quantiles(&self, quantiles: &[f64], transfer_scale: f64) -> Result<Machine, MachineError> {
        let mut file = (*self.file).clone();
        ranges::apply(&mut file, quantiles)?;
        file.scale_transfers(transfer_scale);
        let mut machine = build(file)?;
        machine.crossing = self.crossing;
        machine.with_cpus(self.cpus())
    }

    /// A machine of `cpus` CPUs at equal distances, as closed formulas assume.
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
            architecture: None,
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
            atomics: None,
            atomics_source: None,
            far_atomic_ns: None,
            far_atomic_source: None,
            processor: None,
            contended: Vec::new(),
            range: Vec::new(),
            memory_gib: None,
            memory_gib_source: None,
            level: vec![level("node", 1), level("cpu", cpus)],
        };
        build(file).expect("a machine of equals is possible")
    }
}
