//! Schedulers that are classes of Python. Each answer is checked, and what goes wrong ends the cell it went wrong in.

use crate::errors;
use hoistway::sched::{At, Dispatch, Entry, Merged, Run, Scheduler, Search, Service, Setup};
use hoistway::setting::{self, Tunable, TunableError, Unit};
use hoistway::stage::{Stage, StageInfo};
use hoistway::{Class, Cx, Instant, Op, Profile, QueueId, ReqId, Sectors};
use hoistway_lab::config::is_known;
use hoistway_lab::registry::Registry;
use hoistway_lab::run::end_run;
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

/// The entry of a class. Entries live as long as the process: jobs refer to them.
fn entry(name: &str, class: Py<PyType>, summary: &str, rows: Vec<Row>) -> &'static Entry {
    let row = |(name, default, min, max, text): Row| {
        Tunable::new(leaked(&name), Unit::Count, default, (min, max), leaked(&text))
    };
    let tunables: Vec<Tunable> = rows.into_iter().map(row).collect();
    let stage: &'static StageInfo = Box::leak(Box::new(StageInfo {
        name: leaked(name),
        summary: leaked(summary),
        source: SOURCE,
        tunables: tunables.leak(),
        group_tunables: &[],
        knobs: &[],
        figures: &[],
        decisions: &[],
    }));
    let build = move |setup: &Setup<'_>| -> Box<dyn Scheduler> {
        let class = Python::attach(|py| class.clone_ref(py));
        Box::new(PyScheduler::new(stage, class, setup.requests))
    };
    Box::leak(Box::new(Entry {
        stage: *stage,
        profile: Profile::MultiQueue,
        service: Service::Requests,
        search: Search::Elevator,
        sorted: false,
        direct: false,
        tag_percent_min: Some(100),
        tags_min: 0,
        replaces_wbt: false,
        build: Box::leak(Box::new(build)),
    }))
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

/// An instance of a class, for one device in one run.
#[derive(Debug)]
struct PyScheduler {
    stage: &'static StageInfo,
    class: Py<PyType>,
    /// What is set, in the order of the rows.
    values: Vec<u64>,
    /// Made when the first request comes: until then settings change.
    object: Option<Object>,
    /// Requests that wait, by their numbers.
    waiting: BTreeMap<u64, ReqId>,
    /// The request in each slot, with its number.
    slots: Vec<Option<(ReqId, u64)>>,
    /// Numbers given.
    given: u64,
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
    fn new(stage: &'static StageInfo, class: Py<PyType>, requests: usize) -> PyScheduler {
        let values = stage.tunables.iter().map(|t| t.default).collect();
        let (waiting, slots) = (BTreeMap::new(), vec![None; requests]);
        PyScheduler { stage, class, values, object: None, waiting, slots, given: 0 }
    }

    /// Ends the run: the lab tells it as an error of the cell.
    fn fail(&self, what: &str) -> ! {
        end_run(format!("scheduler '{}': {what}", self.stage.name))
    }

    /// The instance with its settings as attributes, which `__init__` may read.
    fn make(&self, py: Python<'_>) -> PyResult<Object> {
        let class = self.class.bind(py);
        let instance = class.call_method1(intern!(py, "__new__"), (class,))?;
        for (row, value) in self.stage.tunables.iter().zip(&self.values) {
            instance.setattr(row.name, value)?;
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

    /// The number of a request that was inserted here.
    fn number(&self, id: ReqId) -> Option<u64> {
        self.slots[id.index()].and_then(|(of, number)| (of == id).then_some(number))
    }

    /// A request no longer waits; its number, if it did.
    fn take(&mut self, id: ReqId) -> Option<u64> {
        let number = self.number(id)?;
        self.waiting.remove(&number).map(|_| number)
    }

    /// Tells of a request that waits by a method that is given nothing but its number.
    fn tell(&mut self, method: Method, now: Instant, number: u64) {
        self.call(method, |py| (now.as_nanos(), number).into_pyobject(py), |_| Ok(()));
    }
}

/// A request with that first sector and length.
fn request(number: u64, of: ReqId, (from, length): (Sectors, Sectors), cx: &Cx<'_>) -> Request {
    let r = &cx.requests[of];
    let class = match r.prio.class() {
        Class::None => "none",
        Class::Rt => "rt",
        Class::Be => "be",
        Class::Idle => "idle",
    };
    let op = match r.op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Discard => "discard",
        Op::Flush => "flush",
        Op::WriteZeroes => "write_zeroes",
    };
    let (sector, sectors, process) = (from.0, length.0, r.proc.0);
    let (io_class, level) = (class, r.prio.level());
    Request {
        id: number,
        process,
        op,
        sync: r.sync,
        sector,
        sectors,
        io_class,
        level,
        requeued: false,
    }
}

impl Scheduler for PyScheduler {
    fn insert(&mut self, now: Instant, id: ReqId, at: At, cx: &mut Cx<'_>) -> Run {
        // One that the device gave back keeps its number.
        let number = self.number(id).unwrap_or(self.given + 1);
        self.given = self.given.max(number);
        self.slots[id.index()] = Some((id, number));
        self.waiting.insert(number, id);
        let r = &cx.requests[id];
        let told = request(number, id, (r.start, r.sectors), cx);
        let told = Request { requeued: at == At::Head, ..told };
        self.call(Method::Insert, |py| (now.as_nanos(), told).into_pyobject(py), |_| Ok(()));
        Run::Usual
    }

    fn dispatch(&mut self, now: Instant, _queue: QueueId, _cx: &mut Cx<'_>) -> Dispatch {
        if self.waiting.is_empty() {
            return Dispatch::Empty;
        }
        let read = |answer: &Bound<'_, PyAny>| {
            let what =
                || format!("answered {answer}, which is neither the id of a request nor None");
            answer.extract::<Option<u64>>().map_err(|_| PyTypeError::new_err(what()))
        };
        let answer = self.call(Method::Dispatch, |py| (now.as_nanos(),).into_pyobject(py), read);
        let Some(number) = answer else { return Dispatch::Idle };
        match self.waiting.remove(&number) {
            Some(id) => Dispatch::Issue(id),
            None => self.fail(&format!("dispatch: answered {number}, and no such request waits")),
        }
    }

    fn drain(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<ReqId> {
        if let Dispatch::Issue(id) = self.dispatch(now, QueueId(0), cx) {
            return Some(id);
        }
        // What it holds back goes, the oldest first.
        let (&number, &id) = self.waiting.first_key_value()?;
        self.waiting.remove(&number);
        self.tell(Method::Gone, now, number);
        Some(id)
    }

    fn complete(&mut self, now: Instant, id: ReqId, _cx: &mut Cx<'_>) {
        let Some(number) = self.number(id) else { return };
        self.slots[id.index()] = None;
        if self.object.as_ref().is_some_and(|o| o.done) {
            self.tell(Method::Done, now, number);
        }
    }

    fn merged(&mut self, now: Instant, kept: ReqId, what: Merged, cx: &mut Cx<'_>) {
        let r = &cx.requests[kept];
        let mut span = (r.start, r.sectors);
        if let Merged::Request(gone) = what {
            let other = &cx.requests[gone];
            span = (span.0.min(other.start), span.1 + other.sectors);
            if let Some(number) = self.take(gone) {
                self.slots[gone.index()] = None;
                self.tell(Method::Gone, now, number);
            }
        }
        let number = self.number(kept).filter(|number| self.waiting.contains_key(number));
        if let Some(number) = number
            && self.object.as_ref().is_some_and(|o| o.grown)
        {
            let told = request(number, kept, span, cx);
            self.call(Method::Grown, |py| (now.as_nanos(), told).into_pyobject(py), |_| Ok(()));
        }
    }
}

impl Stage for PyScheduler {
    fn info(&self) -> &'static StageInfo {
        self.stage
    }

    fn set(
        &mut self,
        _now: Instant,
        name: &str,
        value: u64,
        _cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        setting::check(self.stage.tunables, self.stage.name, name, value)?;
        let row = self.stage.tunables.iter().position(|t| t.name == name);
        self.values[row.expect("it was found")] = value;
        let Some(object) = &self.object else { return Ok(()) };
        let set = Python::attach(|py| {
            let set = object.instance.bind(py).setattr(name, value);
            set.map_err(|e| format!("setting {name}: {}", described(py, &e)))
        });
        set.or_else(|what| self.fail(&what))
    }

    fn value(&self, name: &str) -> Option<u64> {
        let row = self.stage.tunables.iter().position(|t| t.name == name);
        row.map(|row| self.values[row])
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
