//! The Python module `bigiron._sim`: machines and designs by name, sweeps on all cores.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::{PyInterruptedError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::designs::{ALL, Design, Error, Figure, Outcome, Point, Values, find, sweep_until};
use crate::machine::{BUILT_IN, Machine, MachineError};
use crate::measure;
use crate::replay::{
    Curve, Curved, Event, Kind, LineOf, LockOf, Program, Scope, Setting, Targets, Touch, curves,
};
use crate::report::{Report, Spent};
use crate::spin_kind::SpinKind;
use crate::time::Time;
use crate::{Run, ns};

/// A machine: one that comes with the simulator, or of a TOML file's text.
#[pyclass(name = "Machine", frozen)]
#[derive(Clone)]
struct PyMachine(Machine);

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

    /// How much memory there is; None where the file does not tell.
    #[getter]
    fn memory_gib(&self) -> Option<f64> {
        self.0.memory_gib()
    }

    /// How far each node is from each other one, as the firmware tells the kernel; None where the file does not.
    #[getter]
    fn node_distances(&self) -> Option<Vec<Vec<usize>>> {
        let nodes = 0..self.0.nodes();
        let row = |from| nodes.clone().map(|to| self.0.distance(from, to).map(usize::from)).collect();
        nodes.clone().map(row).collect()
    }

    /// Every figure: what, how much (latencies in nanoseconds), and where that comes from.
    #[getter]
    fn sources(&self) -> Vec<(String, String, String)> {
        self.0.sources().to_vec()
    }

    /// What is not known exactly: each figure's name, low end, high end, and where the range comes from.
    #[getter]
    fn unknowns(&self) -> Vec<(String, f64, f64, String)> {
        let ranges = self.0.unknowns();
        ranges.into_iter().map(|range| (range.of, range.low, range.high, range.source)).collect()
    }

    /// What the kernel's spinlocks are there.
    #[getter]
    fn spinlocks(&self) -> &'static str {
        self.0.spinlocks.name()
    }

    /// Whether its file says what its processors are.
    #[getter]
    fn has_processor(&self) -> bool {
        self.0.processor().is_some()
    }

    /// The same machine, each unknown at a place of its range, 0 to 1; where CPUs of several nodes wait for a line, the
    /// share of its transfers that cross; and what all transfers take longer than the file says.
    fn at(&self, places: Vec<f64>, crossing: f64, longer: f64) -> PyResult<PyMachine> {
        let mut machine = self.0.with_quantiles(&places, longer).map_err(wrong_machine)?;
        machine.crossing = crossing;
        Ok(PyMachine(machine))
    }

    /// Nanoseconds that a line takes from one CPU's cache to another's.
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
fn machines() -> Vec<(&'static str, &'static str)> {
    BUILT_IN.to_vec()
}

/// The designs: name, description, and of each parameter name, default and meaning.
#[pyfunction]
#[allow(clippy::type_complexity)] // a list of tuples, as Python has them
fn designs() -> Vec<(&'static str, &'static str, Vec<(&'static str, &'static str, &'static str)>)> {
    let row = |design: &&'static Design| {
        let parameters = design.parameters.iter().map(|of| (of.name, of.default, of.meaning)).collect();
        (design.name, design.description, parameters)
    };
    ALL.iter().map(row).collect()
}

/// One run to simulate. Wrong values are a ValueError.
#[pyclass(name = "Point", frozen)]
struct PyPoint {
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

fn time(what: &str, value: f64) -> PyResult<Time> {
    if !(value.is_finite() && value >= 0.0) {
        return Err(PyValueError::new_err(format!("{what} is {value}: a time is zero or more")));
    }
    Ok(ns(value))
}

/// How often to look whether to stop: how late a Ctrl-C is heard.
const LOOK: Duration = Duration::from_millis(50);

/// Simulates the points on all cores, and gives for each a dict, in their order. Python's other threads go on.
///
/// A signal's handler that raises ends it, as Ctrl-C does; so does `stopped`, with an InterruptedError, once it
/// is true.
#[pyfunction]
#[pyo3(signature = (points, stopped=None))]
fn simulate<'py>(
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

/// What `work` gives. It is done by a thread of its own, as only Python's own threads hear signals.
fn unless_stopped<T: Send + 'static>(
    py: Python<'_>,
    stopped: Option<Bound<'_, PyAny>>,
    work: impl FnOnce(&Arc<AtomicBool>) -> T + Send + 'static,
) -> PyResult<T> {
    let stop = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&stop);
    let (sender, mut receiver) = channel();
    let worker = thread::spawn(move || drop(sender.send(work(&theirs))));
    loop {
        let answer;
        (receiver, answer) = py.detach(move || {
            let answer = receiver.recv_timeout(LOOK);
            (receiver, answer)
        });
        match answer {
            Ok(value) => return Ok(value),
            Err(RecvTimeoutError::Disconnected) => match worker.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => unreachable!("it sends before it ends"),
            },
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Err(error) = is_wanted(py, stopped.as_ref()) {
            stop.store(true, Ordering::Relaxed);
            let _ = py.detach(|| worker.join());
            return Err(error);
        }
    }
}

fn is_wanted(py: Python<'_>, stopped: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    py.check_signals()?;
    match stopped {
        Some(stopped) if stopped.call0()?.is_truthy()? => Err(PyInterruptedError::new_err("stopped")),
        _ => Ok(()),
    }
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

/// What a task does in an operation: lines, locks, and for each operation its events, each a kind, an amount, the
/// number of a line or lock, and a word that says how. Wrong values are a ValueError.
#[pyclass(name = "Program", frozen)]
struct PyProgram(Program);

#[pymethods]
impl PyProgram {
    #[new]
    fn new(
        lines: Vec<(String, String)>,
        locks: Vec<(String, String, usize)>,
        operations: Vec<Vec<(String, f64, usize, String)>>,
    ) -> PyResult<PyProgram> {
        let lines = lines.into_iter().map(|(name, scope)| Ok(LineOf { name, scope: scope_of(&scope)? }));
        let locks =
            locks.into_iter().map(|(name, kind, line)| Ok(LockOf { name, kind: kind_of(&kind)?, line }));
        let program = Program {
            lines: lines.collect::<PyResult<_>>()?,
            locks: locks.collect::<PyResult<_>>()?,
            operations: operations
                .iter()
                .map(|events| events.iter().map(event_of).collect::<PyResult<_>>())
                .collect::<PyResult<_>>()?,
        };
        program.check().map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(PyProgram(program))
    }
}

fn unknown<T>(what: &str, word: &str) -> PyResult<T> {
    Err(PyValueError::new_err(format!("{word:?} is no {what}")))
}

fn scope_of(word: &str) -> PyResult<Scope> {
    Ok(match word {
        "shared" => Scope::Shared,
        "node" => Scope::Node,
        "task" => Scope::Task,
        "task of node" => Scope::TaskOfNode,
        _ => return unknown("scope of a line", word),
    })
}

fn kind_of(word: &str) -> PyResult<Kind> {
    Ok(match word {
        "spinlock" => Kind::Spinlock,
        "rwlock" => Kind::RwLock,
        "mutex" => Kind::Mutex,
        "rwsem" => Kind::RwSem,
        "seqlock" => Kind::SeqLock,
        _ => return unknown("kind of lock", word),
    })
}

fn event_of((kind, amount, object, how): &(String, f64, usize, String)) -> PyResult<Event> {
    let (tries, how) = how.strip_prefix("try ").map_or((false, how.as_str()), |how| (true, how));
    let (line, lock, shared) = (*object, *object, how == "read");
    Ok(match kind.as_str() {
        "work" => Event::Work(*amount),
        "system call" => Event::SystemCall(*amount),
        "fill" => Event::Fill(*amount),
        "lock" => Event::Lock { lock, shared, tries },
        "unlock" => Event::Unlock { lock, shared },
        "downgrade" => Event::Downgrade { lock },
        "lockref" => Event::Lockref { lock },
        "interrupt" => Event::Interrupt(match how {
            "share" => Targets::Share(*amount),
            "number" => Targets::Number(*amount as usize),
            _ => return unknown("way to interrupt", how),
        }),
        "access" | "visit" => {
            let touch = match how {
                "read" => Touch::Read,
                "write" => Touch::Write,
                "atomic" => Touch::Atomic,
                "exchange" => Touch::Exchange,
                _ => return unknown("access", how),
            };
            Event::Access { line, touch, others: kind == "visit" }
        }
        _ => return unknown("event", kind),
    })
}

/// One draw of a prediction. Wrong values are a ValueError.
#[pyclass(name = "Curve", frozen)]
struct PyCurve(Curve);

#[pymethods]
impl PyCurve {
    #[new]
    #[pyo3(signature = (machine, program, tasks, *, seed, spinlocks=None, spread=false, slower=1.0, kept_ns=0.0, overlapped_ns=0.0, under_locks=1.0, known=None))]
    #[allow(clippy::too_many_arguments)] // they have names in Python
    fn new(
        machine: &PyMachine,
        program: &PyProgram,
        tasks: Vec<usize>,
        seed: u64,
        spinlocks: Option<&str>,
        spread: bool,
        slower: f64,
        kept_ns: f64,
        overlapped_ns: f64,
        under_locks: f64,
        known: Option<(usize, f64)>,
    ) -> PyResult<PyCurve> {
        let cpus = machine.0.cpus();
        let asked = tasks.iter().chain(known.iter().map(|(tasks, _)| tasks));
        if let Some(wrong) = asked.into_iter().find(|&&tasks| tasks == 0 || tasks > cpus) {
            return Err(PyValueError::new_err(format!(
                "{wrong} tasks: {} has 1 to {cpus} CPUs",
                machine.0.name
            )));
        }
        let spinlocks = match spinlocks {
            None => machine.0.spinlocks,
            Some(name) => SpinKind::named(name).map_or_else(|| unknown("spinlock", name), Ok)?,
        };
        let (min_residency, overlapped) = (time("kept_ns", kept_ns)?, time("overlapped_ns", overlapped_ns)?);
        let setting =
            Setting { tasks: 1, seed, spinlocks, spread, slower, min_residency, overlapped, under_locks };
        Ok(PyCurve(Curve { machine: machine.0.clone(), program: program.0.clone(), tasks, setting, known }))
    }
}

/// Replays curves on all cores, and gives for each a dict, in their order. It ends early as `simulate` does.
#[pyfunction]
#[pyo3(signature = (asked, stopped=None))]
fn replay<'py>(
    py: Python<'py>,
    asked: Vec<PyRef<'py, PyCurve>>,
    stopped: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let asked: Vec<Curve> = asked.iter().map(|curve| curve.0.clone()).collect();
    let replayed = unless_stopped(py, stopped, move |stop| curves(&asked, stop))?;
    let dicts = PyList::empty(py);
    for curved in replayed {
        dicts.append(dict_of_curve(py, curved)?)?;
    }
    Ok(dicts)
}

fn dict_of_curve(py: Python<'_>, curved: Curved) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    match curved {
        Ok((slower, points)) => {
            dict.set_item("slower", slower)?;
            let throughput: Vec<f64> = points.iter().map(|point| point.throughput).collect();
            let shares: Vec<Vec<f64>> = points.iter().map(|point| point.shares.clone()).collect();
            dict.set_item("throughput", throughput)?;
            dict.set_item("shares", shares)?;
            dict.set_item("events", points.iter().map(|point| point.events).sum::<u64>())?;
        }
        Err(failure) => dict.set_item("error", failure.to_string())?,
    }
    Ok(dict)
}

/// How many thousand times a second this machine's time stamp counter counts, measured here.
#[pyfunction]
fn counter_khz(py: Python<'_>) -> Option<f64> {
    py.detach(measure::counter_khz)
}

/// Nanoseconds of a load that hits the CPU's own cache, measured here.
#[pyfunction]
fn hit_ns(py: Python<'_>, cpu: usize) -> PyResult<f64> {
    Ok(py.detach(|| measure::hit(cpu))?)
}

/// Nanoseconds that a line takes from one CPU of this machine to another, measured here.
#[pyfunction]
fn transfer_ns(py: Python<'_>, from_cpu: usize, to_cpu: usize) -> PyResult<f64> {
    Ok(py.detach(|| measure::transfer(from_cpu, to_cpu))?)
}

/// Nanoseconds of a load by one CPU from memory near another, measured here.
#[pyfunction]
fn memory_ns(py: Python<'_>, of_cpu: usize, from_cpu: usize) -> PyResult<f64> {
    Ok(py.detach(|| measure::memory(of_cpu, from_cpu))?)
}

/// Nanoseconds that a wakeup takes from one CPU to another, measured here.
#[pyfunction]
fn wakeup_ns(py: Python<'_>, from_cpu: usize, to_cpu: usize) -> PyResult<f64> {
    Ok(py.detach(|| measure::wakeup(from_cpu, to_cpu))?)
}

/// GHz of cores that are all busy, measured here; None on architectures where it is not.
#[pyfunction]
fn clock_ghz(py: Python<'_>, cpus: Vec<usize>) -> PyResult<Option<f64>> {
    Ok(py.detach(|| measure::clock(&cpus))?)
}

/// Nanoseconds of a system call that does next to nothing, measured here.
#[pyfunction]
fn system_call_ns(py: Python<'_>, cpu: usize) -> PyResult<f64> {
    Ok(py.detach(|| measure::system_call(cpu))?)
}

/// GB/s that these CPUs together write to memory, measured here.
#[pyfunction]
fn fill_gb_per_s(py: Python<'_>, cpus: Vec<usize>) -> PyResult<f64> {
    Ok(py.detach(|| measure::fill(&cpus))?)
}

/// Nanoseconds between two CPUs' atomic additions to one line, to which all of these add; measured here. None
/// where the CPUs are too busy with something else.
#[pyfunction]
fn added_ns(py: Python<'_>, cpus: Vec<usize>) -> PyResult<Option<f64>> {
    Ok(py.detach(|| measure::added(&cpus))?)
}

/// Nanoseconds that a CPU takes to see another value in a line that the first of these writes; measured here.
#[pyfunction]
fn read_ns(py: Python<'_>, cpus: Vec<usize>) -> PyResult<Option<f64>> {
    Ok(py.detach(|| measure::read_while_written(&cpus))?)
}

/// Nanoseconds from one holder of a queued lock to the next, which all of these want; measured here.
#[pyfunction]
fn handover_ns(py: Python<'_>, cpus: Vec<usize>) -> PyResult<Option<f64>> {
    Ok(py.detach(|| measure::handed_over(&cpus))?)
}

/// The simulator. See docs/simulator.md.
#[pymodule]
fn _sim(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyMachine>()?;
    module.add_class::<PyPoint>()?;
    module.add_class::<PyProgram>()?;
    module.add_class::<PyCurve>()?;
    module.add_function(wrap_pyfunction!(replay, module)?)?;
    module.add_function(wrap_pyfunction!(machines, module)?)?;
    module.add_function(wrap_pyfunction!(designs, module)?)?;
    module.add_function(wrap_pyfunction!(simulate, module)?)?;
    module.add_function(wrap_pyfunction!(counter_khz, module)?)?;
    module.add_function(wrap_pyfunction!(hit_ns, module)?)?;
    module.add_function(wrap_pyfunction!(transfer_ns, module)?)?;
    module.add_function(wrap_pyfunction!(memory_ns, module)?)?;
    module.add_function(wrap_pyfunction!(wakeup_ns, module)?)?;
    module.add_function(wrap_pyfunction!(clock_ghz, module)?)?;
    module.add_function(wrap_pyfunction!(system_call_ns, module)?)?;
    module.add_function(wrap_pyfunction!(fill_gb_per_s, module)?)?;
    module.add_function(wrap_pyfunction!(added_ns, module)?)?;
    module.add_function(wrap_pyfunction!(read_ns, module)?)?;
    module.add_function(wrap_pyfunction!(handover_ns, module)?)
}
