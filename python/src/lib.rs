//! hoistway in Python: experiments in the simulator, their results as tables of Arrow, run directories.
//!
//! Everything is the lab's: what stands here turns arguments of Python into its plans, and its results into tables. The
//! package `hoistway` (`python/hoistway`) exports it.
#![deny(unsafe_op_in_unsafe_fn)]

mod bench;
mod column;
mod compare;
mod errors;
mod experiment;
mod lists;
mod replay;
mod result;
mod scheduler;
mod stream;
mod table;
mod tables;
mod what_if;
mod work;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
fn _hoistway(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_class::<experiment::Experiment>()?;
    m.add_class::<result::Results>()?;
    m.add_class::<scheduler::Request>()?;
    m.add_class::<table::Table>()?;
    m.add_function(wrap_pyfunction!(bench::bench, m)?)?;
    m.add_function(wrap_pyfunction!(compare::compare, m)?)?;
    m.add_function(wrap_pyfunction!(compare::run, m)?)?;
    m.add_function(wrap_pyfunction!(lists::drives, m)?)?;
    m.add_function(wrap_pyfunction!(lists::experiments, m)?)?;
    m.add_function(wrap_pyfunction!(lists::schedulers, m)?)?;
    m.add_function(wrap_pyfunction!(lists::settings, m)?)?;
    m.add_function(wrap_pyfunction!(replay::replay, m)?)?;
    m.add_function(wrap_pyfunction!(result::load, m)?)?;
    m.add_function(wrap_pyfunction!(scheduler::register, m)?)?;
    m.add_function(wrap_pyfunction!(what_if::what_if, m)?)?;
    Ok(())
}
