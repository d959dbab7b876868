//! The texts of the registries as C texts: made once, when first asked for, and kept as long as the program.

use crate::guard::c_text;
use crate::types::hw_tunable;
use hoistway::setting::{Tunable, Unit};
use hoistway::stack::QUEUE_TUNABLES;
use hoistway::{ctl, sched};
use std::ffi::{CString, c_char};
use std::sync::OnceLock;

/// What is said of a setting, in the fields of [`hw_tunable`].
struct Row {
    name: CString,
    unit: CString,
    words: Option<CString>,
    doc: CString,
    effect: CString,
    usual: u64,
    range: (u64, u64),
}

struct Stage {
    plain: &'static str,
    name: CString,
    summary: CString,
    tunables: Vec<Row>,
    group_tunables: Vec<Row>,
}

struct Texts {
    queue: Stage,
    schedulers: Vec<Stage>,
    controllers: Vec<Stage>,
}

fn texts() -> &'static Texts {
    static TEXTS: OnceLock<Texts> = OnceLock::new();
    TEXTS.get_or_init(|| Texts {
        queue: stage("queue", "the block layer itself", QUEUE_TUNABLES, &[]),
        schedulers: sched::SCHEDULERS.iter().map(|e| of(&e.stage)).collect(),
        controllers: ctl::CONTROLLERS.iter().map(|e| of(&e.stage)).collect(),
    })
}

fn of(info: &'static hoistway::stage::StageInfo) -> Stage {
    stage(info.name, info.summary, info.tunables, info.group_tunables)
}

fn stage(
    plain: &'static str,
    summary: &str,
    tunables: &'static [Tunable],
    of_groups: &'static [Tunable],
) -> Stage {
    Stage {
        plain,
        name: c_text(plain),
        summary: c_text(summary),
        tunables: tunables.iter().map(row).collect(),
        group_tunables: of_groups.iter().map(row).collect(),
    }
}

fn row(t: &Tunable) -> Row {
    let words = match t.unit {
        Unit::Choice(words) => Some(c_text(&words.join(","))),
        Unit::Switch => Some(c_text("off,on")),
        _ => None,
    };
    Row {
        name: c_text(t.name),
        unit: c_text(t.unit.suffix()),
        words,
        doc: c_text(t.doc),
        effect: c_text(t.on_change.text()),
        usual: t.default,
        range: (t.min, t.max),
    }
}

fn name_at(stages: &'static [Stage], index: u32) -> *const c_char {
    stages.get(index as usize).map_or(std::ptr::null(), |s| s.name.as_ptr())
}

pub(crate) fn scheduler_at(index: u32) -> *const c_char {
    name_at(&texts().schedulers, index)
}

pub(crate) fn controller_at(index: u32) -> *const c_char {
    name_at(&texts().controllers, index)
}

/// The name of a scheduler as a C text; NULL for one that is in no registry.
pub(crate) fn scheduler(name: &str) -> *const c_char {
    let found = texts().schedulers.iter().find(|s| s.plain == name);
    found.map_or(std::ptr::null(), |s| s.name.as_ptr())
}

fn stage_of(name: &str) -> Option<&'static Stage> {
    let Texts { queue, schedulers, controllers } = texts();
    let mut all = std::iter::once(queue).chain(schedulers).chain(controllers);
    all.find(|s| s.plain == name)
}

pub(crate) fn summary(name: &str) -> *const c_char {
    stage_of(name).map_or(std::ptr::null(), |s| s.summary.as_ptr())
}

/// A setting of a stage, of its groups or its own. `Err`: there is no such stage; `Ok(None)`: no more settings.
pub(crate) fn tunable(stage: &str, of_groups: bool, index: u32) -> Result<Option<hw_tunable>, ()> {
    let stage = stage_of(stage).ok_or(())?;
    let rows = if of_groups { &stage.group_tunables } else { &stage.tunables };
    Ok(rows.get(index as usize).map(|r| hw_tunable {
        size: size_of::<hw_tunable>() as u32,
        reserved: 0,
        name: r.name.as_ptr(),
        unit: r.unit.as_ptr(),
        words: r.words.as_ref().map_or(std::ptr::null(), |w| w.as_ptr()),
        doc: r.doc.as_ptr(),
        effect: r.effect.as_ptr(),
        usual: r.usual,
        min: r.range.0,
        max: r.range.1,
    }))
}
