//! Designs: runs, and their reports as dicts.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::designs::{ALL, Design, Error, Figure, Outcome, Point, Values, find, sweep_until};
use crate::machine::Machine;
use crate::python::arguments::time;
use crate::python::machines::PyMachine;
use crate::python::stop::unless_stopped;
use crate::report::{Report, Spent};
use crate::simulation::Run;
use crate::time::Time;

/// The designs: name, description, and the name, default and meaning of each parameter.
#[pyfunction]
#[allow(clippy::type_complexity)] // a list of tuples, as Python has them
pub fn designs() -> Vec<(&'static str, &'static str, Vec<(&'static str, &'static str, &'static str)>)> {
    let row = |design: &&'static Design| {
        let parameters = design.parameters.iter().map(|of| (of.name, of.default, of.meaning)).collect();
        (design.name, design.description, parameters)
    };
    ALL.iter().map(row).collect()
}

/// One run to simulate. Wrong values are a ValueError.
#[pyclass(name = "Point", frozen)]
pub struct PyPoint {
    machine: Machine,
    values: Values,
    seed: u64,
    run: Run,
}

#[pymethods]
impl PyPoint {
    #[new]
    #[pyo3(signature = (design, machine, values, *, seed, warmup_ns, duration_ns, event_budget, timeline_ns=None))]
    #[allow(clippy::too_many_arguments)] // they have names in Python
    fn new(
        design: &str,
        machine: &PyMachine,
        values: Vec<(String, String)>,
        seed: u64,
        warmup_ns: f64,
        duration_ns: f64,
        event_budget: u64,
        timeline_ns: Option<(f64, f64)>,
    ) -> PyResult<PyPoint> {
        let design = find(design).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let values =
            Values::new(design, &values).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let run = Run {
            warmup: time("warmup_ns", warmup_ns)?,
            duration: time("duration_ns", duration_ns)?,
            event_budget,
            timeline: match timeline_ns {
                Some((from, to)) => Some((time("timeline_ns", from)?, time("timeline_ns", to)?)),
                None => None,
            },
        };
        Ok(PyPoint { machine: machine.0.clone(), values, seed, run })
    }
}

/// Simulates points on all cores. Returns a dict for each, in their order. Python's other threads continue meanwhile.
///
/// It ends early when a signal handler raises an exception, as on Ctrl-C, or with an InterruptedError when `stopped`
/// returns true.
#[pyfunction]
#[pyo3(signature = (points, stopped=None))]
pub fn simulate<'py>(
    py: Python<'py>,
    points: Vec<PyRef<'py, PyPoint>>,
    stopped: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let points: Vec<Point> = points
        .iter()
        .map(|point| Point {
            machine: point.machine.clone(),
            values: point.values.clone(),
            seed: point.seed,
            run: point.run,
        })
        .collect();
    let outcomes = unless_stopped(py, stopped, move |stop| sweep_until(points, stop))?;
    let dicts = PyList::empty(py);
    for outcome in outcomes {
        dicts.append(dict(py, &outcome)?)?;
    }
    Ok(dicts)
}

fn dict<'py>(py: Python<'py>, outcome: &Outcome) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    match outcome {
        Ok((report, figures)) => fill(&dict, report, figures)?,
        Err(error) => {
            let kind = if matches!(error, Error::Failure(_)) { "failure" } else { "input" };
            dict.set_item("error", error.to_string())?;
            dict.set_item("error_kind", kind)?;
        }
    }
    Ok(dict)
}

fn fill(dict: &Bound<'_, PyDict>, report: &Report, figures: &[Figure]) -> PyResult<()> {
    let py = dict.py();
    dict.set_item("elapsed_ns", report.elapsed.as_ns())?;
    dict.set_item("events", report.events)?;
    dict.set_item("operations", report.operations)?;
    dict.set_item("operations_per_s", report.throughput())?;

    let cpus = PyDict::new(py);
    let column =
        |of: fn(&Spent) -> Time| -> Vec<f64> { report.cpus.iter().map(|cpu| of(cpu).as_ns()).collect() };
    cpus.set_item("user_ns", column(|spent| spent.user))?;
    cpus.set_item("work_ns", column(|spent| spent.work))?;
    cpus.set_item("queueing_ns", column(|spent| spent.queueing))?;
    cpus.set_item("transfer_ns", column(|spent| spent.transfer))?;
    cpus.set_item("spinning_ns", column(|spent| spent.spinning))?;
    cpus.set_item("idle_ns", column(|spent| spent.idle))?;
    let interrupt: Vec<f64> = report.interrupts.iter().map(|(time, _)| time.as_ns()).collect();
    cpus.set_item("interrupt_ns", interrupt)?;
    cpus.set_item("operations", &report.operations_of)?;
    dict.set_item("cpus", cpus)?;

    let lines = PyList::empty(py);
    for line in &report.lines {
        let row = PyDict::new(py);
        row.set_item("line", &line.name)?;
        row.set_item("accesses", line.accesses)?;
        row.set_item("transfers", line.transfers)?;
        row.set_item("waiting_ns", line.waiting.as_ns())?;
        row.set_item("transferring_ns", line.transferring.as_ns())?;
        lines.append(row)?;
    }
    dict.set_item("lines", lines)?;

    let locks = PyList::empty(py);
    for lock in &report.locks {
        let row = PyDict::new(py);
        row.set_item("lock", &lock.name)?;
        row.set_item("acquired", lock.acquired)?;
        row.set_item("waiting_ns", lock.waiting.as_ns())?;
        row.set_item("holding_ns", lock.holding.as_ns())?;
        locks.append(row)?;
    }
    dict.set_item("locks", locks)?;

    dict.set_item("counters", report.counters.clone())?;
    let figures: Vec<(&str, f64, &str)> = figures.iter().map(|of| (of.name, of.value, of.unit)).collect();
    dict.set_item("figures", figures)?;
    dict.set_item("timeline", report.timeline.as_ref().map(|timeline| timeline.to_json()))?;
    Ok(())
}
