//! Measurements of the machine on which this runs.

use pyo3::prelude::*;

use crate::measure;

/// The frequency of this machine's time stamp counter in kHz, measured here.
#[pyfunction]
pub fn counter_khz(py: Python<'_>) -> Option<f64> {
    py.detach(measure::counter_khz)
}

/// Nanoseconds of a load that hits the CPU's own cache, measured here.
#[pyfunction]
pub fn hit_ns(py: Python<'_>, cpu: usize) -> PyResult<f64> {
    Ok(py.detach(|| measure::hit(cpu))?)
}

/// Nanoseconds that a cache line takes from one CPU of this machine to another, measured here.
#[pyfunction]
pub fn transfer_ns(py: Python<'_>, from_cpu: usize, to_cpu: usize) -> PyResult<f64> {
    Ok(py.detach(|| measure::transfer(from_cpu, to_cpu))?)
}

/// Nanoseconds of a load by one CPU from so many bytes of memory near another, measured here.
#[pyfunction]
pub fn memory_ns(py: Python<'_>, of_cpu: usize, from_cpu: usize, bytes: usize) -> PyResult<f64> {
    Ok(py.detach(|| measure::memory(of_cpu, from_cpu, bytes))?)
}

/// Nanoseconds that a wakeup takes from one CPU to another, measured here.
#[pyfunction]
pub fn wakeup_ns(py: Python<'_>, from_cpu: usize, to_cpu: usize) -> PyResult<f64> {
    Ok(py.detach(|| measure::wakeup(from_cpu, to_cpu))?)
}

/// The clock rate in GHz of cores that are all busy, measured here; None on architectures without the measurement.
#[pyfunction]
pub fn clock_ghz(py: Python<'_>, cpus: Vec<usize>) -> PyResult<Option<f64>> {
    Ok(py.detach(|| measure::clock(&cpus))?)
}

/// Nanoseconds of a minimal system call, measured here.
#[pyfunction]
pub fn system_call_ns(py: Python<'_>, cpu: usize) -> PyResult<f64> {
    Ok(py.detach(|| measure::system_call(cpu))?)
}

/// GB/s that these CPUs together write to memory, to so many bytes of it, measured here.
#[pyfunction]
pub fn fill_gb_per_s(py: Python<'_>, cpus: Vec<usize>, bytes: usize) -> PyResult<f64> {
    Ok(py.detach(|| measure::fill(&cpus, bytes))?)
}

/// Nanoseconds from one CPU's atomic addition to the next CPU's, while all of these add to one cache line; measured
/// here. None if the CPUs are too busy with other programs.
#[pyfunction]
pub fn added_ns(py: Python<'_>, cpus: Vec<usize>) -> PyResult<Option<f64>> {
    Ok(py.detach(|| measure::added(&cpus))?)
}

/// Nanoseconds that a CPU takes to see a new value in a cache line that the first of these writes; measured here.
#[pyfunction]
pub fn read_ns(py: Python<'_>, cpus: Vec<usize>) -> PyResult<Option<f64>> {
    Ok(py.detach(|| measure::read_while_written(&cpus))?)
}

/// Nanoseconds from one holder of a queued lock to the next, while all of these want it; measured here.
#[pyfunction]
pub fn handover_ns(py: Python<'_>, cpus: Vec<usize>) -> PyResult<Option<f64>> {
    Ok(py.detach(|| measure::handed_over(&cpus))?)
}
