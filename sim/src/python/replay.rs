//! Replay: programs and curves.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::python::arguments::{time, unknown};
use crate::python::machines::PyMachine;
use crate::python::stop::unless_stopped;
use crate::replay::{
    Curve, CurveResult, Event, Kind, Program, ProgramLine, ProgramLock, ReplayedCurve, Scope, Setting,
    Targets, Touch, curves,
};
use crate::spin_kind::SpinKind;

/// A program: cache lines, locks and operations. Each event of an operation is a kind, an amount, the number of a
/// line or lock, and a word that says how. Wrong values are a ValueError.
#[pyclass(name = "Program", frozen)]
pub struct PyProgram(Program);

#[pymethods]
impl PyProgram {
    #[new]
    fn new(
        lines: Vec<(String, String)>,
        locks: Vec<(String, String, usize)>,
        operations: Vec<Vec<(String, f64, usize, String)>>,
    ) -> PyResult<PyProgram> {
        let lines = lines.into_iter().map(|(name, scope)| Ok(ProgramLine { name, scope: scope_of(&scope)? }));
        let locks =
            locks.into_iter().map(|(name, kind, line)| Ok(ProgramLock { name, kind: kind_of(&kind)?, line }));
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
        "broadcast" => Event::Broadcast,
        "interrupt" => {
            let targets = match how {
                "share" => Targets::Share(*amount),
                "number" => Targets::Number(*amount as usize),
                _ => return unknown("way to interrupt", how),
            };
            Event::Interrupt { targets, recorded: *object }
        }
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

/// One sample of a prediction. Wrong values are a ValueError.
#[pyclass(name = "Curve", frozen)]
pub struct PyCurve(Curve);

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
        let all = tasks.iter().chain(known.iter().map(|(tasks, _)| tasks));
        if let Some(wrong) = all.into_iter().find(|&&tasks| tasks == 0 || tasks > cpus) {
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

/// Replays curves on all cores. Returns a dict for each, in their order. It ends early as `simulate` does.
#[pyfunction]
#[pyo3(signature = (asked, stopped=None))]
pub fn replay<'py>(
    py: Python<'py>,
    asked: Vec<PyRef<'py, PyCurve>>,
    stopped: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let curves_to_replay: Vec<Curve> = asked.iter().map(|curve| curve.0.clone()).collect();
    let replayed = unless_stopped(py, stopped, move |stop| curves(&curves_to_replay, stop))?;
    let dicts = PyList::empty(py);
    for curved in replayed {
        dicts.append(dict_of_curve(py, curved)?)?;
    }
    Ok(dicts)
}

fn dict_of_curve(py: Python<'_>, curved: CurveResult) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    match curved {
        Ok(ReplayedCurve { slower, reached, points }) => {
            dict.set_item("slower", slower)?;
            dict.set_item("reached", reached)?;
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
