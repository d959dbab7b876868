//! Settings, files of groups, the scheduler in force, counters.

use crate::group::check_group;
use crate::guard::{Failure, Inner, OK, hw_stack};
use crate::memory::{optional_text, put, put_sized, put_text, text};
use crate::texts;
use crate::types::{hw_code, hw_counters};
use hoistway::setting::{Tunable, nearest};
use hoistway::stack::{QUEUE_TUNABLES, StageName};
use hoistway::{Input, Stack, sched};
use std::ffi::c_char;

/// The stage of that name: `queue`, the scheduler (its name, `scheduler`, or nothing), or a controller.
pub(crate) fn stage_named(stack: &Stack, name: &str) -> Result<StageName, Failure> {
    let scheduler = stack.scheduler_entry().name;
    if name.is_empty() || name == "scheduler" || name == scheduler {
        return Ok(StageName::Scheduler);
    }
    if name == "queue" {
        return Ok(StageName::Queue);
    }
    let mut controllers = stack.controllers().map(|(entry, _)| entry.name);
    if controllers.any(|c| c == name) {
        return Ok(StageName::Controller(name.into()));
    }
    let text = format!(
        "the stack has no stage '{name}'; there are queue, {scheduler} and the controllers it was made with"
    );
    Err(Failure::new(hw_code::HW_E_NAME, text))
}

fn tunables(stack: &Stack, stage: &StageName) -> &'static [Tunable] {
    match stage {
        StageName::Queue => QUEUE_TUNABLES,
        StageName::Scheduler => stack.scheduler_entry().tunables,
        StageName::Controller(name) => {
            stack.controllers().find(|(e, _)| e.name == name).map_or(&[], |(e, _)| e.tunables)
        }
    }
}

/// The row of a setting; the nearest name is named if there is none.
fn row(stack: &Stack, stage: &StageName, name: &str) -> Result<&'static Tunable, Failure> {
    let rows = tunables(stack, stage);
    rows.iter().find(|t| t.name == name).ok_or_else(|| {
        let near = nearest(name, rows.iter().map(|t| t.name));
        let hint =
            near.map_or_else(|| "hw_tunable_of lists them".into(), |n| format!("meant {n}?"));
        Failure::new(hw_code::HW_E_NAME, format!("there is no setting '{name}'; {hint}"))
    })
}

impl Inner {
    pub fn set(&mut self, now_ns: u64, stage: &str, name: &str, value: u64) -> Result<(), Failure> {
        let stage = stage_named(&self.stack, stage)?;
        row(&self.stack, &stage, name)?;
        self.handle(now_ns, Input::Set { stage, name: name.into(), value })?;
        Ok(())
    }

    pub fn set_text(
        &mut self,
        now_ns: u64,
        stage: &str,
        name: &str,
        value: &str,
    ) -> Result<(), Failure> {
        let of = stage_named(&self.stack, stage)?;
        let value = row(&self.stack, &of, name)?.parse(value);
        let value = value.map_err(|e| Failure::new(hw_code::HW_E_VALUE, e.to_string()))?;
        self.set(now_ns, stage, name, value)
    }
}

/// Sets a setting of a stage: `queue`, a controller by name, or the scheduler (its name, or NULL). Then poll.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_set(
    stack: *mut hw_stack,
    now_ns: u64,
    stage: *const c_char,
    name: *const c_char,
    value: u64,
) -> i32 {
    // SAFETY: as in `hw_submit`.
    unsafe {
        hw_stack::enter(stack, |s| {
            s.set(now_ns, optional_text(stage)?, text(name, "name is NULL")?, value)?;
            OK
        })
    }
}

/// The same with the value as text: "8ms", "64KiB", "on", a word of a choice. Then poll.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_set_text(
    stack: *mut hw_stack,
    now_ns: u64,
    stage: *const c_char,
    name: *const c_char,
    value: *const c_char,
) -> i32 {
    // SAFETY: as in `hw_submit`.
    unsafe {
        hw_stack::enter(stack, |s| {
            let (stage, name) = (optional_text(stage)?, text(name, "name is NULL")?);
            s.set_text(now_ns, stage, name, text(value, "value is NULL")?)?;
            OK
        })
    }
}

/// The value of a setting in force.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_get(
    stack: *mut hw_stack,
    stage: *const c_char,
    name: *const c_char,
    value: *mut u64,
) -> i32 {
    // SAFETY: as in `hw_submit`.
    unsafe {
        hw_stack::enter(stack, |s| {
            let name = text(name, "name is NULL")?;
            let stage = stage_named(&s.stack, optional_text(stage)?)?;
            row(&s.stack, &stage, name)?;
            let found = match &stage {
                StageName::Queue => s.stack.queue_value(name),
                StageName::Scheduler => s.stack.scheduler().value(name),
                StageName::Controller(which) => {
                    let mut all = s.stack.controllers();
                    all.find(|(e, _)| e.name == which).and_then(|(_, c)| c.value(name))
                }
            };
            let missing = || Failure::new(hw_code::HW_E_NAME, "the setting has no value");
            put(value, found.ok_or_else(missing)?, "value is NULL")?;
            OK
        })
    }
}

unsafe fn set_group(
    stack: *mut hw_stack,
    now_ns: u64,
    (group, stage, name): (u32, *const c_char, *const c_char),
    value: Option<u64>,
) -> i32 {
    // SAFETY: as in `hw_submit`.
    unsafe {
        hw_stack::enter(stack, |s| {
            let name = text(name, "name is NULL")?.into();
            let stage = stage_named(&s.stack, optional_text(stage)?)?;
            let group = check_group(&s.stack, group)?;
            s.handle(now_ns, Input::SetGroup { group, stage, name, value })
        })
    }
}

/// Sets a setting of a group, such as its weight (hw_group_tunable_of lists them). Then poll.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_set_group(
    stack: *mut hw_stack,
    now_ns: u64,
    group: u32,
    stage: *const c_char,
    name: *const c_char,
    value: u64,
) -> i32 {
    // SAFETY: as in `hw_submit`.
    unsafe { set_group(stack, now_ns, (group, stage, name), Some(value)) }
}

/// Puts a setting of a group back to its default. Then poll.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_reset_group(
    stack: *mut hw_stack,
    now_ns: u64,
    group: u32,
    stage: *const c_char,
    name: *const c_char,
) -> i32 {
    // SAFETY: as in `hw_submit`.
    unsafe { set_group(stack, now_ns, (group, stage, name), None) }
}

/// Writes a line to a cgroup file of a group, as a shell would: "io.max", "8:0 rbps=1048576". Then poll.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_write(
    stack: *mut hw_stack,
    now_ns: u64,
    group: u32,
    file: *const c_char,
    line: *const c_char,
) -> i32 {
    // SAFETY: as in `hw_submit`.
    unsafe {
        hw_stack::enter(stack, |s| {
            let (file, line) = (text(file, "file is NULL")?, text(line, "line is NULL")?);
            let group = check_group(&s.stack, group)?;
            no_file(&s.stack, file)?;
            s.handle(now_ns, Input::Write { group, file: file.into(), line: line.into() })
        })
    }
}

fn no_file(stack: &Stack, file: &str) -> Result<(), Failure> {
    if stack.knobs().any(|k| k.file == file) {
        return Ok(());
    }
    let known: Vec<_> = stack.knobs().map(|k| k.file).collect();
    let text = format!("there is no file '{file}'; there are {}", known.join(", "));
    Err(Failure::new(hw_code::HW_E_NAME, text))
}

/// What a cgroup file of a group prints, such as "io.stat": cut to `room` bytes with the zero at the end. Its
/// whole length; `room` may be 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_read(
    stack: *mut hw_stack,
    group: u32,
    file: *const c_char,
    to: *mut c_char,
    room: usize,
) -> i32 {
    // SAFETY: as in `hw_submit`.
    unsafe {
        hw_stack::enter(stack, |s| {
            let file = text(file, "file is NULL")?;
            let group = check_group(&s.stack, group)?;
            no_file(&s.stack, file)?;
            let said = s.stack.read_knob(group, file).unwrap_or_default();
            Ok(i32::try_from(put_text(to, room, &said)).unwrap_or(i32::MAX))
        })
    }
}

/// Another scheduler takes over when what exists is done; new I/O waits until then. Then poll.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_switch(
    stack: *mut hw_stack,
    now_ns: u64,
    scheduler: *const c_char,
) -> i32 {
    // SAFETY: as in `hw_submit`.
    unsafe {
        hw_stack::enter(stack, |s| {
            let name = text(scheduler, "scheduler is NULL")?;
            let entry = find(name)?;
            s.handle(now_ns, Input::SwitchScheduler(entry))
        })
    }
}

pub(crate) fn find(name: &str) -> Result<&'static sched::Entry, Failure> {
    sched::find(name).ok_or_else(|| {
        let near = nearest(name, sched::SCHEDULERS.iter().map(|e| e.name));
        let meant = || near.map(|n| format!("meant {n}?"));
        let hint = (sched::why_missing(name).map(str::to_string).or_else(meant))
            .unwrap_or_else(|| "hw_scheduler_name lists them".into());
        Failure::new(hw_code::HW_E_NAME, format!("there is no scheduler '{name}'; {hint}"))
    })
}

/// The name of the scheduler in force; it lives as long as the program. NULL for no stack.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_scheduler(stack: *mut hw_stack) -> *const c_char {
    let mut name = std::ptr::null();
    // SAFETY: as in `hw_submit`.
    unsafe {
        hw_stack::enter(stack, |s| {
            name = texts::scheduler(s.stack.scheduler_entry().name);
            OK
        });
    }
    name
}

/// What the stack has done so far.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_count(stack: *mut hw_stack, counters: *mut hw_counters) -> i32 {
    // SAFETY: as in `hw_submit`.
    unsafe {
        hw_stack::enter(stack, |s| {
            let c = s.stack.counters();
            let all = hw_counters {
                size: size_of::<hw_counters>() as u32,
                in_flight: s.stack.in_flight(),
                submitted: c.submitted,
                finished: c.finished,
                merged: c.merged,
                joined: c.joined,
                issued: c.issued,
                completed: c.completed,
                tag_waits: c.tag_waits,
                chosen: c.chosen,
            };
            put_sized(counters, &all, "counters is NULL")?;
            OK
        })
    }
}
