//! A module: compiled once, with an instance for each device of each run.

use crate::guest::{Guest, Request};
use crate::limits;
use hoistway_run::end_run;
use std::fmt;
use std::sync::Arc;
use wasmi::{
    CompilationMode, Config, Engine, Error, ExternType, FuncType, Linker, Memory, Module, Store,
    StoreLimits, StoreLimitsBuilder, TrapCode, TypedFunc, ValType, WasmParams, WasmResults,
};

use ValType::{I32, I64};

/// A function of the interface.
struct Export {
    name: &'static str,
    takes: &'static [ValType],
    gives: &'static [ValType],
    /// It need not be there.
    spare: bool,
}

const EXPORTS: &[Export] = &[
    Export { name: "about", takes: &[], gives: &[I64], spare: false },
    Export {
        name: "insert",
        takes: &[I64, I64, I32, I32, I32, I32, I64, I32],
        gives: &[],
        spare: false,
    },
    Export { name: "dispatch", takes: &[I64], gives: &[I64], spare: false },
    Export { name: "gone", takes: &[I64, I64], gives: &[], spare: false },
    // For settings, if there are some.
    Export { name: "set", takes: &[I32, I64], gives: &[], spare: true },
    Export { name: "done", takes: &[I64, I64], gives: &[], spare: true },
    Export { name: "grown", takes: &[I64, I64, I64, I32], gives: &[], spare: true },
];

/// Whatever could make two runs differ is off, and each call ends.
fn engine() -> Engine {
    let mut config = Config::default();
    config
        .floats(false)
        .wasm_multi_memory(false)
        .consume_fuel(true)
        // Translating a function at its first call would count as its steps.
        .compilation_mode(CompilationMode::Eager)
        .ignore_custom_sections(true);
    Engine::new(&config)
}

/// A module whose functions are those of the interface.
#[derive(Debug)]
pub struct Compiled {
    module: Module,
    /// For messages.
    who: Arc<str>,
}

impl Compiled {
    pub fn new(bytes: &[u8], who: String) -> Result<Compiled, String> {
        let module = Module::new(&engine(), bytes).map_err(|e| refused(bytes, &e))?;
        if let Some(import) = module.imports().next() {
            return Err(format!(
                "it imports {}.{}; a module imports nothing: build it for wasm32-unknown-unknown, without the standard library",
                import.module(),
                import.name()
            ));
        }
        for export in EXPORTS {
            check(&module, export)?;
        }
        if !matches!(module.get_export("memory"), Some(ExternType::Memory(_))) {
            return Err("it does not export its memory as 'memory'".into());
        }
        Ok(Compiled { module, who: who.into() })
    }

    /// What the module says of itself.
    pub fn about(&self) -> Result<String, String> {
        let mut instance = Instance::new(self)?;
        let about: TypedFunc<(), u64> = instance.function("about").ok_or("it has no about")?;
        let answer = instance.ask("about", about, ())?;
        let (at, length) = ((answer >> 32) as usize, (answer & 0xffff_ffff) as usize);
        if length > limits::ABOUT_BYTES {
            let most = limits::ABOUT_BYTES;
            return Err(format!("about: {length} bytes of text; at most {most} are read"));
        }
        let text = instance.memory.data(&instance.store).get(at..at + length);
        let text = text
            .ok_or("about: its text does not lie in its memory; answer pointer << 32 | length")?;
        String::from_utf8(text.into()).map_err(|_| "about: its text is not UTF-8".into())
    }

    /// Whether the module takes its settings, before a run finds out.
    pub fn check_settings(&self, defaults: &[u64]) -> Result<(), String> {
        let mut instance = Instance::new(self)?;
        match instance.set {
            None if !defaults.is_empty() => {
                Err("about has settings, but the module does not export set(i32, i64)".into())
            }
            _ => (0..).zip(defaults).try_for_each(|(row, value)| instance.try_set(row, *value)),
        }
    }

    /// An instance for a run, which ends if there can be none.
    pub fn instance(&self) -> Instance {
        Instance::new(self).unwrap_or_else(|what| end_run(format!("{}: {what}", self.who)))
    }
}

/// Why a file is no module of ours.
fn refused(bytes: &[u8], error: &Error) -> String {
    let text = error.to_string();
    if !bytes.starts_with(b"\0asm") {
        return "it is not a WebAssembly module (it does not begin with \\0asm)".into();
    }
    // The validator's own words.
    if text.contains("floating-point") {
        return format!("{text}; count in integers: floating-point numbers are off in schedulers");
    }
    format!("it is not a valid module: {text}")
}

fn check(module: &Module, export: &Export) -> Result<(), String> {
    let Export { name, takes, gives, spare } = export;
    let wanted = FuncType::new(takes.iter().copied(), gives.iter().copied());
    let signature = |ty: &FuncType| {
        let list = |types: &[ValType]| {
            let words: Vec<String> =
                types.iter().map(|t| format!("{t:?}").to_lowercase()).collect();
            words.join(", ")
        };
        let gives = list(ty.results());
        let arrow = if gives.is_empty() { String::new() } else { format!(" -> {gives}") };
        format!("{name}({}){arrow}", list(ty.params()))
    };
    match module.get_export(name) {
        None if *spare => Ok(()),
        None => Err(format!("it does not export {}", signature(&wanted))),
        Some(ExternType::Func(ty)) if ty == wanted => Ok(()),
        Some(ExternType::Func(ty)) => {
            Err(format!("it exports {}; the interface has {}", signature(&ty), signature(&wanted)))
        }
        Some(_) => Err(format!("its export {name} is no function")),
    }
}

/// Time, number, process, operation, flags, priority, first sector, sectors.
type Inserted = (u64, u64, u32, u32, u32, u32, u64, u32);

/// A module at work.
pub struct Instance {
    who: Arc<str>,
    store: Store<StoreLimits>,
    memory: Memory,
    functions: wasmi::Instance,
    insert: TypedFunc<Inserted, ()>,
    dispatch: TypedFunc<u64, u64>,
    gone: TypedFunc<(u64, u64), ()>,
    set: Option<TypedFunc<(u32, u64), ()>>,
    done: Option<TypedFunc<(u64, u64), ()>>,
    grown: Option<TypedFunc<(u64, u64, u64, u32), ()>>,
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance").field("who", &self.who).finish_non_exhaustive()
    }
}

impl Instance {
    fn new(of: &Compiled) -> Result<Instance, String> {
        let limits = StoreLimitsBuilder::new()
            .memory_size(limits::MEMORY_BYTES)
            .table_elements(limits::TABLE_ELEMENTS)
            .instances(1)
            .memories(1)
            .trap_on_grow_failure(true)
            .build();
        let engine = of.module.engine();
        let mut store = Store::new(engine, limits);
        store.limiter(|limits| limits);
        store.set_fuel(limits::STEPS).expect("fuel is on");
        let made = Linker::new(engine).instantiate_and_start(&mut store, &of.module);
        let functions = made.map_err(|e| format!("it cannot begin: {}", told(&e)))?;
        let typed = |name: &str| format!("{name} was found when the module was read");
        let memory = functions.get_memory(&store, "memory").ok_or_else(|| typed("memory"))?;
        let lacks = |name: &'static str| move |_| typed(name);
        Ok(Instance {
            who: of.who.clone(),
            memory,
            insert: functions.get_typed_func(&store, "insert").map_err(lacks("insert"))?,
            dispatch: functions.get_typed_func(&store, "dispatch").map_err(lacks("dispatch"))?,
            gone: functions.get_typed_func(&store, "gone").map_err(lacks("gone"))?,
            set: functions.get_typed_func(&store, "set").ok(),
            done: functions.get_typed_func(&store, "done").ok(),
            grown: functions.get_typed_func(&store, "grown").ok(),
            functions,
            store,
        })
    }

    fn function<P: WasmParams, R: WasmResults>(&self, name: &str) -> Option<TypedFunc<P, R>> {
        self.functions.get_typed_func(&self.store, name).ok()
    }

    /// A call with steps of its own.
    fn ask<P: WasmParams, R: WasmResults>(
        &mut self,
        name: &str,
        function: TypedFunc<P, R>,
        arguments: P,
    ) -> Result<R, String> {
        self.store.set_fuel(limits::STEPS).expect("fuel is on");
        let answer = function.call(&mut self.store, arguments);
        answer.map_err(|e| format!("{name}: {}", told(&e)))
    }

    /// The same in a run, which ends if the call goes wrong.
    fn call<P: WasmParams, R: WasmResults>(
        &mut self,
        name: &str,
        function: TypedFunc<P, R>,
        arguments: P,
    ) -> R {
        let answer = self.ask(name, function, arguments);
        answer.unwrap_or_else(|what| end_run(format!("{}: {what}", self.who)))
    }

    fn try_set(&mut self, row: u32, value: u64) -> Result<(), String> {
        match self.set {
            Some(set) => self.ask("set", set, (row, value)),
            None => Ok(()),
        }
    }
}

/// What went wrong in a call.
fn told(error: &Error) -> String {
    match error.as_trap_code() {
        Some(TrapCode::OutOfFuel) => {
            format!("it did not end within {} steps: an endless loop?", limits::STEPS)
        }
        Some(TrapCode::UnreachableCodeReached) => {
            "it gave up (unreachable): a panic, or memory it could not get".into()
        }
        Some(TrapCode::GrowthOperationLimited | TrapCode::OutOfSystemMemory) => format!(
            "it asked for more than {} MiB of memory or {} elements of a table",
            limits::MEMORY_BYTES >> 20,
            limits::TABLE_ELEMENTS
        ),
        Some(TrapCode::StackOverflow) => "its calls are nested too deeply".into(),
        _ => error.to_string(),
    }
}

impl Guest for Instance {
    fn set(&mut self, row: u32, value: u64) {
        if let Err(what) = self.try_set(row, value) {
            end_run(format!("{}: {what}", self.who));
        }
    }

    fn insert(&mut self, now: u64, r: &Request) {
        let arguments = (now, r.number, r.process, r.op, r.flags, r.prio, r.sector, r.sectors);
        self.call("insert", self.insert, arguments);
    }

    fn dispatch(&mut self, now: u64) -> u64 {
        self.call("dispatch", self.dispatch, now)
    }

    fn gone(&mut self, now: u64, number: u64) {
        self.call("gone", self.gone, (now, number));
    }

    fn done(&mut self, now: u64, number: u64) {
        if let Some(done) = self.done {
            self.call("done", done, (now, number));
        }
    }

    fn grown(&mut self, now: u64, r: &Request) {
        if let Some(grown) = self.grown {
            self.call("grown", grown, (now, r.number, r.sector, r.sectors));
        }
    }
}
