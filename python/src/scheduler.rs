//! Schedulers that are classes of Python. Each answer is checked, and what goes wrong ends the cell it went wrong in.

use crate::errors;
use hoistway::sched::Entry;
use hoistway::setting::{Tunable, Unit};
use hoistway_lab::config::is_known;
use hoistway_lab::registry::Registry;
use hoistway_lab::run::end_run;
use hoistway_plugin::{Description, Guest, Request as Told};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple, PyType};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Every class that was registered, by its name.
static REGISTERED: Mutex<BTreeMap<String, &'static Entry>> = Mutex::new(BTreeMap::new());

/// What the program ships, and the classes that were registered.
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    for entry in REGISTERED.lock().expect("nobody panics with the lock").values() {
        registry.add_scheduler(entry).expect("names that are taken were refused");
    }
    registry
}

/// Is the scheduler a class?
pub fn is_class(entry: &Entry) -> bool {
    entry.source == SOURCE
}

/// Where an entry of a class is from.
const SOURCE: &str = "a class in Python";

/// A setting as Python gives it: name, default, min, max, text.
type Row = (String, u64, u64, u64, String);

/// Makes a class known as a scheduler; one of that name that was registered before is replaced. hoistway.scheduler calls it.
#[pyfunction]
pub fn register(
    name: &str,
    class: Bound<'_, PyType>,
    summary: &str,
    tunables: Vec<Row>,
) -> PyResult<()> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if name.is_empty() || !name.chars().all(fits) {
        return Err(errors::wrong(format!(
            "scheduler '{name}': a name has small letters, digits, - and _"
        )));
    }
    if is_known(name, Registry::shipped().schedulers()) {
        return Err(errors::wrong(format!(
            "scheduler '{name}': there is a configuration of that name; choose another"
        )));
    }
    for method in ["insert", "dispatch", "gone"] {
        let found = class.getattr_opt(method)?;
        if !found.is_some_and(|m| m.is_callable()) {
            let what = format!("scheduler '{name}': the class has no method '{method}'");
            return Err(PyTypeError::new_err(what));
        }
    }
    for (of, default, min, max, _) in &tunables {
        if !(min <= default && default <= max) {
            return Err(errors::wrong(format!(
                "scheduler '{name}': {of} = {default} is outside {min}..={max}"
            )));
        }
    }
    let entry = entry(name, class.unbind(), summary, tunables);
    let mut all = REGISTERED.lock().expect("nobody panics with the lock");
    all.insert(name.into(), entry);
    Ok(())
}

fn leaked(text: &str) -> &'static str {
    Box::leak(text.to_string().into_boxed_str())
}

/// The entry of a class.
fn entry(name: &str, class: Py<PyType>, summary: &str, rows: Vec<Row>) -> &'static Entry {
    let row = |(name, default, min, max, text): Row| {
        Tunable::new(leaked(&name), Unit::Count, default, (min, max), leaked(&text))
    };
    let tunables: Vec<Tunable> = rows.into_iter().map(row).collect();
    let who = format!("scheduler '{name}'");
    let settings: Vec<(&'static str, u64)> = tunables.iter().map(|t| (t.name, t.default)).collect();
    let of = Description {
        name: name.into(),
        summary: summary.into(),
        source: SOURCE.into(),
        who: who.clone(),
        tunables,
    };
    hoistway_plugin::entry(of, move || {
        let class = Python::attach(|py| class.clone_ref(py));
        PyScheduler { who: who.clone(), class, settings: settings.clone(), object: None }
    })
}

/// A request that waits for a decision, as it was when the scheduler was told of it.
#[pyclass(frozen, get_all, module = "hoistway")]
#[derive(Debug)]
pub struct Request {
    /// Number of the request in this run, from 1: what dispatch answers with.
    id: u64,
    /// Number of the process that asked for it.
    process: u32,
    /// "read", "write", "discard" or another operation.
    op: &'static str,
    /// Somebody waits for it.
    sync: bool,
    /// First sector of 512 bytes.
    sector: u64,
    /// Length in sectors of 512 bytes.
    sectors: u64,
    /// Class of its priority: "none", "rt", "be" or "idle".
    io_class: &'static str,
    /// Level of its priority, 0 (highest) to 7.
    level: u8,
    /// The device gave it back: it is to go before all others.
    requeued: bool,
}

#[pymethods]
impl Request {
    fn __repr__(&self) -> String {
        let Request { id, process, op, sector, sectors, .. } = self;
        format!("<hoistway.Request {id}: {op} of process {process}, sector {sector} + {sectors}>")
    }
}

/// An instance of a class, for one device in one run. Numbers, merges and checks are those of every guest.
#[derive(Debug)]
struct PyScheduler {
    /// For messages.
    who: String,
    class: Py<PyType>,
    /// What is set, in the order of the rows.
    settings: Vec<(&'static str, u64)>,
    /// Made when the first request comes: until then settings change.
    object: Option<Object>,
}

/// The instance, and which methods it has that it need not have.
#[derive(Debug)]
struct Object {
    instance: Py<PyAny>,
    done: bool,
    grown: bool,
}

/// Which of the methods is called.
#[derive(Clone, Copy, Debug)]
enum Method {
    Insert,
    Dispatch,
    Gone,
    Done,
    Grown,
}

impl Method {
    fn name(self) -> &'static str {
        match self {
            Method::Insert => "insert",
            Method::Dispatch => "dispatch",
            Method::Gone => "gone",
            Method::Done => "done",
            Method::Grown => "grown",
        }
    }

    fn interned(self, py: Python<'_>) -> &Bound<'_, PyString> {
        match self {
            Method::Insert => intern!(py, "insert"),
            Method::Dispatch => intern!(py, "dispatch"),
            Method::Gone => intern!(py, "gone"),
            Method::Done => intern!(py, "done"),
            Method::Grown => intern!(py, "grown"),
        }
    }
}

impl PyScheduler {
    /// Ends the run: the lab tells it as an error of the cell.
    fn fail(&self, what: &str) -> ! {
        end_run(format!("{}: {what}", self.who))
    }

    /// The instance with its settings as attributes, which `__init__` may read.
    fn make(&self, py: Python<'_>) -> PyResult<Object> {
        let class = self.class.bind(py);
        let instance = class.call_method1(intern!(py, "__new__"), (class,))?;
        for (name, value) in &self.settings {
            instance.setattr(*name, value)?;
        }
        instance.call_method0(intern!(py, "__init__"))?;
        let has = |name: &str| instance.hasattr(name);
        Ok(Object { done: has("done")?, grown: has("grown")?, instance: instance.unbind() })
    }

    /// Calls a method; `read` makes something of its answer.
    fn call<T>(
        &mut self,
        method: Method,
        arguments: impl for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyTuple>>,
        read: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> T {
        let result = Python::attach(|py| {
            let told = |place: &str, e: PyErr| format!("{place}: {}", described(py, &e));
            if self.object.is_none() {
                self.object = Some(self.make(py).map_err(|e| told("__init__", e))?);
            }
            let instance = self.object.as_ref().expect("it was made above").instance.bind(py);
            let answer = arguments(py)
                .and_then(|arguments| instance.call_method1(method.interned(py), arguments));
            let answer = answer.map_err(|e| told(method.name(), e))?;
            read(&answer).map_err(|e| told(method.name(), e))
        });
        result.unwrap_or_else(|what: String| self.fail(&what))
    }

    /// Tells of a request that waits by a method that is given nothing but its number.
    fn tell(&mut self, method: Method, now: u64, number: u64) {
        self.call(method, |py| (now, number).into_pyobject(py), |_| Ok(()));
    }
}

/// Words for what a guest is told by numbers.
const OPS: [&str; 5] = ["read", "write", "discard", "flush", "write_zeroes"];
const CLASSES: [&str; 4] = ["none", "rt", "be", "idle"];

impl From<&Told> for Request {
    fn from(r: &Told) -> Request {
        Request {
            id: r.number,
            process: r.process,
            op: OPS[r.op as usize],
            sync: r.flags & Told::SYNC != 0,
            sector: r.sector,
            sectors: r.sectors.into(),
            io_class: CLASSES[(r.prio >> 13) as usize],
            level: r.prio as u8,
            requeued: r.flags & Told::RETURNED != 0,
        }
    }
}

impl Guest for PyScheduler {
    fn set(&mut self, row: u32, value: u64) {
        let (name, set) = &mut self.settings[row as usize];
        *set = value;
        let Some(object) = &self.object else { return };
        let set = Python::attach(|py| {
            let set = object.instance.bind(py).setattr(*name, value);
            set.map_err(|e| format!("setting {name}: {}", described(py, &e)))
        });
        set.unwrap_or_else(|what| self.fail(&what));
    }

    fn insert(&mut self, now: u64, request: &Told) {
        let request = Request::from(request);
        self.call(Method::Insert, |py| (now, request).into_pyobject(py), |_| Ok(()));
    }

    fn dispatch(&mut self, now: u64) -> u64 {
        let read = |answer: &Bound<'_, PyAny>| {
            let what =
                || format!("answered {answer}, which is neither the id of a request nor None");
            answer.extract::<Option<u64>>().map_err(|_| PyTypeError::new_err(what()))
        };
        match self.call(Method::Dispatch, |py| (now,).into_pyobject(py), read) {
            // To a guest it would mean none.
            Some(0) => self.fail("dispatch: answered 0, and no such request waits"),
            answer => answer.unwrap_or(0),
        }
    }

    fn gone(&mut self, now: u64, number: u64) {
        self.tell(Method::Gone, now, number);
    }

    fn done(&mut self, now: u64, number: u64) {
        if self.object.as_ref().is_some_and(|o| o.done) {
            self.tell(Method::Done, now, number);
        }
    }

    fn grown(&mut self, now: u64, request: &Told) {
        if self.object.as_ref().is_some_and(|o| o.grown) {
            let request = Request::from(request);
            self.call(Method::Grown, |py| (now, request).into_pyobject(py), |_| Ok(()));
        }
    }
}

/// An exception in one line, with the place it was raised at.
fn described(py: Python<'_>, error: &PyErr) -> String {
    let mut text = error.to_string();
    let mut place = None;
    let mut at = error.traceback(py).map(Bound::into_any);
    while let Some(frame) = at {
        place = Some(frame.clone());
        at = frame.getattr("tb_next").ok().filter(|next| !next.is_none());
    }
    let line = |tb: &Bound<'_, PyAny>| -> PyResult<(String, u64)> {
        let code = tb.getattr("tb_frame")?.getattr("f_code")?;
        Ok((code.getattr("co_filename")?.extract()?, tb.getattr("tb_lineno")?.extract()?))
    };
    if let Some((file, line)) = place.as_ref().and_then(|tb| line(tb).ok()) {
        text += &format!(" ({file}:{line})");
    }
    text
}
