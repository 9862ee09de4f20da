//! Machines.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::machine::{BUILT_IN, Machine, MachineError};

/// A machine: one that comes with the simulator, or one from the text of a TOML file.
#[pyclass(name = "Machine", frozen)]
#[derive(Clone)]
pub struct PyMachine(pub Machine);

#[pymethods]
impl PyMachine {
    #[staticmethod]
    fn named(name: &str) -> PyResult<PyMachine> {
        Ok(PyMachine(Machine::named(name).map_err(wrong_machine)?))
    }

    #[staticmethod]
    fn from_toml(text: &str) -> PyResult<PyMachine> {
        Ok(PyMachine(Machine::from_toml(text).map_err(wrong_machine)?))
    }

    /// The same machine with only its first CPUs.
    fn with_cpus(&self, cpus: usize) -> PyResult<PyMachine> {
        Ok(PyMachine(self.0.clone().with_cpus(cpus).map_err(wrong_machine)?))
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn description(&self) -> &str {
        &self.0.description
    }

    #[getter]
    fn cpus(&self) -> usize {
        self.0.cpus()
    }

    #[getter]
    fn nodes(&self) -> usize {
        self.0.nodes()
    }

    /// The levels, outermost first: name and number of units.
    #[getter]
    fn levels(&self) -> Vec<(&str, usize)> {
        self.0.levels()
    }

    /// The amount of memory; None if the file does not say.
    #[getter]
    fn memory_gib(&self) -> Option<f64> {
        self.0.memory_gib()
    }

    /// The distance between any two nodes that the firmware reports to the kernel; None if the file does not say.
    #[getter]
    fn node_distances(&self) -> Option<Vec<Vec<usize>>> {
        let nodes = 0..self.0.nodes();
        let row = |from| nodes.clone().map(|to| self.0.distance(from, to).map(usize::from)).collect();
        nodes.clone().map(row).collect()
    }

    /// Every figure: its name, its value (latencies in nanoseconds), and its source.
    #[getter]
    fn sources(&self) -> Vec<(String, String, String)> {
        self.0.sources().to_vec()
    }

    /// The uncertain figures: name, low end, high end, and the source of the range.
    #[getter]
    fn unknowns(&self) -> Vec<(String, f64, f64, String)> {
        let ranges = self.0.unknowns();
        ranges.into_iter().map(|range| (range.of, range.low, range.high, range.source)).collect()
    }

    /// The kind of the kernel's spinlocks.
    #[getter]
    fn spinlocks(&self) -> &'static str {
        self.0.spinlocks.name()
    }

    /// The architecture of its kernels.
    #[getter]
    fn architecture(&self) -> &'static str {
        self.0.architecture
    }

    /// Whether its file describes its processors.
    #[getter]
    fn has_processor(&self) -> bool {
        self.0.processor().is_some()
    }

    /// The same machine with each uncertain figure at a quantile of its range, 0 to 1. `crossing` is the share of
    /// transfers that cross between caches when CPUs of several caches wait for a cache line. `longer` scales the
    /// time of all transfers.
    fn at(&self, places: Vec<f64>, crossing: f64, longer: f64) -> PyResult<PyMachine> {
        let mut machine = self.0.with_quantiles(&places, longer).map_err(wrong_machine)?;
        machine.crossing = crossing;
        Ok(PyMachine(machine))
    }

    /// Nanoseconds that a cache line takes from one CPU's cache to another's.
    fn transfer_ns(&self, from_cpu: usize, to_cpu: usize) -> PyResult<f64> {
        if from_cpu.max(to_cpu) >= self.0.cpus() {
            return Err(PyValueError::new_err(format!("{} has {} CPUs", self.0.name, self.0.cpus())));
        }
        Ok(self.0.transfer(from_cpu, to_cpu).as_ns())
    }
}

fn wrong_machine(error: MachineError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The machines that come with the simulator: name and TOML text.
#[pyfunction]
pub fn machines() -> Vec<(&'static str, &'static str)> {
    BUILT_IN.to_vec()
}
