//! Experiments as objects: each is its TOML text, read by the lab.

use crate::errors;
use crate::scheduler::registry;
use hoistway_lab::experiment;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use toml::{Table, Value};

/// What runs against what, for how long, and what is measured: the text of an experiment file, checked.
///
/// Experiment("mine", target=..., workloads={...}) writes such a text. Every other keyword is a key or table of the file, as
/// docs/reference/experiments.md lists them, with dictionaries for tables: window={"measured": "5s"}, judge="latency",
/// faults={...}. workloads maps the name of a workload to the list of its processes, or to a dictionary with the keys of its
/// table. What is not given has a default: two configurations (none, bfq), one drive, 4 repetitions, the host of today,
/// 2 s measured.
///
/// ValueError: what is wrong, with file and line of the text.
#[pyclass(frozen, module = "hoistway")]
#[derive(Clone, Debug)]
pub struct Experiment {
    pub inner: experiment::Experiment,
    /// As commands name it.
    pub name: String,
}

#[pymethods]
impl Experiment {
    #[new]
    #[pyo3(signature = (id, *, workloads, target = None, **keys))]
    fn new(
        id: &str,
        workloads: &Bound<'_, PyDict>,
        target: Option<&Bound<'_, PyDict>>,
        keys: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Experiment> {
        if id.is_empty() || id.contains(['/', '\\', '\n']) {
            return Err(errors::wrong(format!(
                "id '{id}' must be the name of a file without '.toml'"
            )));
        }
        let table = document(id, workloads, target, keys)?;
        let text = toml::to_string(&table).map_err(errors::wrong)?;
        Experiment::from_toml(&text, &format!("{id}.toml"))
    }

    /// An experiment by its name, or from a file: a path that contains "/" or ends in ".toml".
    #[staticmethod]
    fn load(name: &str) -> PyResult<Experiment> {
        let inner = registry().experiment(name).map_err(errors::wrong)?;
        Ok(Experiment { inner, name: name.into() })
    }

    /// An experiment from its text. label stands in messages in place of the file, and its last part without ".toml" is the id.
    #[staticmethod]
    #[pyo3(signature = (text, label = "experiment.toml"))]
    fn from_toml(text: &str, label: &str) -> PyResult<Experiment> {
        let inner = registry().experiment_text(label, text).map_err(errors::wrong)?;
        Ok(Experiment { inner, name: label.into() })
    }

    /// The text of the file.
    #[getter]
    fn toml(&self) -> &str {
        &self.inner.text
    }

    /// Name of the file without ".toml".
    #[getter]
    fn id(&self) -> &str {
        &self.inner.id
    }

    /// Title for people.
    #[getter]
    fn title(&self) -> &str {
        &self.inner.title
    }

    /// One paragraph: what is measured and against what.
    #[getter]
    fn about(&self) -> &str {
        &self.inner.about
    }

    /// Default drives.
    #[getter]
    fn drives(&self) -> Vec<String> {
        self.inner.drives.clone()
    }

    /// Default configurations.
    #[getter]
    fn configs(&self) -> Vec<String> {
        self.inner.configs.clone()
    }

    /// Default workloads.
    #[getter]
    fn workloads(&self) -> Vec<String> {
        self.inner.default_workloads.clone()
    }

    /// Every workload: its name and one line about it.
    #[getter]
    fn all_workloads(&self) -> Vec<(String, String)> {
        self.inner.workloads.iter().map(|w| (w.id.clone(), w.summary.clone())).collect()
    }

    /// Default repetitions of each run.
    #[getter]
    fn reps(&self) -> u32 {
        self.inner.reps
    }

    fn __repr__(&self) -> String {
        format!("<hoistway.Experiment {}: {}>", self.inner.id, self.inner.title)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String, String))> {
        let make = py.get_type::<Experiment>().getattr("from_toml")?;
        // The name of one that is built in would give its text another label.
        Ok((make, (self.inner.text.clone(), self.name.clone())))
    }
}

/// The file that the keywords describe.
fn document(
    id: &str,
    workloads: &Bound<'_, PyDict>,
    target: Option<&Bound<'_, PyDict>>,
    keys: Option<&Bound<'_, PyDict>>,
) -> PyResult<Table> {
    let mut all = usual(id, target.is_some());
    if let Some(target) = target {
        all.insert("target".into(), table(target, "target")?.into());
    }
    let mut tables = Table::new();
    for (name, given) in workloads {
        let name: String = name.extract()?;
        let workload = workload(&name, &given)?;
        tables.insert(name, workload.into());
    }
    let names = workloads.keys().extract::<Vec<String>>()?;
    all.insert("workloads".into(), names.into());
    all.insert("workload".into(), tables.into());
    for (key, given) in keys.into_iter().flatten() {
        let key: String = key.extract()?;
        let given = value(&given, &key)?;
        match (all.get_mut(&key), given) {
            (Some(Value::Table(there)), Value::Table(given)) => there.extend(given),
            (_, given) => drop(all.insert(key, given)),
        }
    }
    Ok(all)
}

/// What an experiment has that says nothing of it.
fn usual(id: &str, target: bool) -> Table {
    let text = |text: &str| Value::from(text);
    let mut window = vec![
        ("ramp", "1s"),
        ("measured", "2s"),
        ("target_interval", "500ms"),
        ("device_interval", "1s"),
    ];
    if target {
        window.extend([("head_start", "200ms"), ("grace", "60s")]);
    }
    let window: Table = window.into_iter().map(|(k, v)| (k.into(), text(v))).collect();
    let host: Table = [("profile".to_string(), text("today"))].into_iter().collect();
    let all = [
        ("schema", Value::from(i64::try_from(experiment::SCHEMA).expect("a small number"))),
        ("title", text(id)),
        ("about", text(id)),
        ("drives", vec!["samsung-970-pro"].into()),
        ("configs", vec!["none", "bfq"].into()),
        ("reps", Value::from(4)),
        ("host", host.into()),
        ("window", window.into()),
    ];
    all.into_iter().map(|(k, v)| (k.to_string(), v)).collect()
}

/// A workload: a list of processes, or the keys of its table.
fn workload(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Table> {
    let path = format!("workloads['{name}']");
    let mut all = match given.cast::<PyDict>() {
        // One process alone.
        Ok(dict) if dict.contains("load")? => {
            let process = table(dict, &path)?;
            [("procs".to_string(), vec![Value::from(process)].into())].into_iter().collect()
        }
        Ok(dict) => table(dict, &path)?,
        Err(_) => [("procs".to_string(), value(given, &path)?)].into_iter().collect(),
    };
    all.entry("summary").or_insert_with(|| name.into());
    if let Some(Value::Array(procs)) = all.get_mut("procs") {
        for process in procs.iter_mut().filter_map(Value::as_table_mut) {
            if let Some(load) = process.get("load").cloned() {
                process.entry("name").or_insert(load);
            }
        }
    }
    Ok(all)
}

fn table(dict: &Bound<'_, PyDict>, path: &str) -> PyResult<Table> {
    let mut all = Table::new();
    for (key, given) in dict {
        let key: String = key
            .extract()
            .map_err(|_| PyTypeError::new_err(format!("{path}: the keys of a table are texts")))?;
        let inner = value(&given, &format!("{path}['{key}']"))?;
        all.insert(key, inner);
    }
    Ok(all)
}

/// What TOML has of Python's values.
fn value(given: &Bound<'_, PyAny>, path: &str) -> PyResult<Value> {
    if let Ok(dict) = given.cast::<PyDict>() {
        return Ok(table(dict, path)?.into());
    }
    if given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>() {
        let items = given.try_iter()?.enumerate();
        let items = items.map(|(i, item)| value(&item?, &format!("{path}[{i}]")));
        return Ok(Value::Array(items.collect::<PyResult<_>>()?));
    }
    // True is a number, too.
    if given.is_instance_of::<PyBool>() {
        return Ok(given.extract::<bool>()?.into());
    }
    if given.is_instance_of::<PyInt>() {
        return Ok(given.extract::<i64>()?.into());
    }
    if given.is_instance_of::<PyFloat>() {
        return Ok(given.extract::<f64>()?.into());
    }
    if given.is_instance_of::<PyString>() {
        return Ok(given.extract::<String>()?.into());
    }
    let kind = given.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "{path}: {kind} cannot stand in an experiment; give a text, a number, True or False, a list or a dictionary"
    )))
}
