//! The Python module `bigiron._sim`: machines and designs by name, sweeps on all cores.

mod arguments;
mod designs;
mod machines;
mod measure;
mod replay;
mod stop;

use pyo3::prelude::*;

/// The simulator. See docs/explanation/simulator.md.
#[pymodule]
fn _sim(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<machines::PyMachine>()?;
    module.add_class::<designs::PyPoint>()?;
    module.add_class::<replay::PyProgram>()?;
    module.add_class::<replay::PyCurve>()?;
    module.add_function(wrap_pyfunction!(replay::replay, module)?)?;
    module.add_function(wrap_pyfunction!(machines::machines, module)?)?;
    module.add_function(wrap_pyfunction!(designs::designs, module)?)?;
    module.add_function(wrap_pyfunction!(designs::simulate, module)?)?;
    module.add_function(wrap_pyfunction!(measure::counter_khz, module)?)?;
    module.add_function(wrap_pyfunction!(measure::hit_ns, module)?)?;
    module.add_function(wrap_pyfunction!(measure::transfer_ns, module)?)?;
    module.add_function(wrap_pyfunction!(measure::memory_ns, module)?)?;
    module.add_function(wrap_pyfunction!(measure::wakeup_ns, module)?)?;
    module.add_function(wrap_pyfunction!(measure::clock_ghz, module)?)?;
    module.add_function(wrap_pyfunction!(measure::system_call_ns, module)?)?;
    module.add_function(wrap_pyfunction!(measure::fill_gb_per_s, module)?)?;
    module.add_function(wrap_pyfunction!(measure::added_ns, module)?)?;
    module.add_function(wrap_pyfunction!(measure::read_ns, module)?)?;
    module.add_function(wrap_pyfunction!(measure::handover_ns, module)?)
}
