//! Long work that Python can stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyInterruptedError;
use pyo3::prelude::*;

/// How often to check whether to stop. A Ctrl-C takes effect that much later.
const CHECK_EVERY: Duration = Duration::from_millis(50);

/// Does `work` on a thread of its own, while this one, which is Python's, handles signals.
pub fn unless_stopped<T: Send + 'static>(
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
            let answer = receiver.recv_timeout(CHECK_EVERY);
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
        if let Err(error) = check_wanted(py, stopped.as_ref()) {
            stop.store(true, Ordering::Relaxed);
            let _ = py.detach(|| worker.join());
            return Err(error);
        }
    }
}

/// Fails if a signal handler raises an exception, or if `stopped` returns true.
fn check_wanted(py: Python<'_>, stopped: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    py.check_signals()?;
    match stopped {
        Some(stopped) if stopped.call0()?.is_truthy()? => Err(PyInterruptedError::new_err("stopped")),
        _ => Ok(()),
    }
}
