//! Groups and processes.

use crate::flow::{check_proc, priority, range};
use crate::guard::{Failure, Inner, OK, hw_stack};
use crate::memory::text;
use crate::types::{HW_GROUP_DEPTH, HW_GROUP_ROOT, HW_GROUPS, HW_PROCS, hw_code};
use hoistway::stage::Change;
use hoistway::{GroupId, IoPrio, Stack};

/// The group is there and was not removed.
pub(crate) fn check_group(stack: &Stack, group: u32) -> Result<GroupId, Failure> {
    let groups = &stack.env().groups;
    let id = GroupId(group);
    if id.index() < groups.len() && groups.alive(id) { Ok(id) } else { Err(no_group(group)) }
}

#[cold]
fn no_group(group: u32) -> Failure {
    let text = format!("group {group} does not exist or was removed; hw_add_group makes one");
    Failure::new(hw_code::HW_E_GROUP, text)
}

fn in_use(what: &'static str) -> Failure {
    Failure::new(hw_code::HW_E_IN_USE, what)
}

impl Inner {
    fn change(
        &mut self,
        now_ns: u64,
        change: Change,
        edit: impl FnOnce(&mut hoistway::Env),
    ) -> Result<i32, Failure> {
        let now = self.at(now_ns)?;
        self.stack.change(now, change, edit);
        OK
    }
}

/// A group below `parent` (HW_GROUP_ROOT: directly below the root); its number. Then poll.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_add_group(
    stack: *mut hw_stack,
    now_ns: u64,
    parent: u32,
    name: *const std::ffi::c_char,
) -> i32 {
    // SAFETY: as in `hw_submit`.
    unsafe {
        hw_stack::enter(stack, |s| {
            let name = text(name, "name is NULL")?;
            let parent = check_group(&s.stack, parent)?;
            let groups = &s.stack.env().groups;
            if groups.len() >= HW_GROUPS as usize {
                return Err(Failure::new(hw_code::HW_E_FULL, "a stack has at most HW_GROUPS"));
            }
            if groups.level(parent) >= HW_GROUP_DEPTH {
                return Err(range("a group lies at most HW_GROUP_DEPTH below the root"));
            }
            let now = s.at(now_ns)?;
            Ok(s.stack.add_group(now, parent, name).0 as i32)
        })
    }
}

/// Removes a group without groups and processes; what it has under way goes on. Then poll.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_remove_group(stack: *mut hw_stack, now_ns: u64, group: u32) -> i32 {
    // SAFETY: as in `hw_submit`.
    unsafe {
        hw_stack::enter(stack, |s| {
            let id = check_group(&s.stack, group)?;
            if group == HW_GROUP_ROOT {
                return Err(in_use("the root group stays"));
            }
            let env = s.stack.env();
            if !env.groups.children(id).is_empty() {
                return Err(in_use("remove the groups below it first"));
            }
            let mut procs = (0..env.procs.len() as u32).map(hoistway::ProcId);
            let holds = |p| env.procs.get(p).is_some_and(|p| p.alive && p.group == id);
            if procs.any(holds) {
                return Err(in_use("move or remove its processes first"));
            }
            let now = s.at(now_ns)?;
            s.stack.remove_group(now, id);
            OK
        })
    }
}

/// A process (thread, client, tenant) of a group with an I/O priority, class << 13 | level, 0: best-effort 4; its
/// number, for hw_io.proc. Numbers are not used again: give one to a tenant rather than to a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_add_proc(stack: *mut hw_stack, group: u32, prio: u32) -> i32 {
    // SAFETY: as in `hw_submit`.
    unsafe {
        hw_stack::enter(stack, |s| {
            let group = check_group(&s.stack, group)?;
            let Some(prio) = priority(prio) else { return Err(no_priority()) };
            if s.stack.env().procs.len() >= HW_PROCS as usize {
                return Err(Failure::new(hw_code::HW_E_FULL, "a stack has at most HW_PROCS"));
            }
            Ok(s.stack.add_proc(group, usual(prio)).0 as i32)
        })
    }
}

/// No priority is that of a process with nice 0.
fn usual(prio: IoPrio) -> IoPrio {
    if prio == IoPrio::NONE { IoPrio::be(4) } else { prio }
}

fn no_priority() -> Failure {
    range("a priority is class << 13 | level, class 0 to 3, level 0 to 7")
}

/// The process ends; what it has under way goes on. Its plug section must be closed. Then poll.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_remove_proc(stack: *mut hw_stack, now_ns: u64, proc: u32) -> i32 {
    // SAFETY: as in `hw_submit`.
    unsafe {
        hw_stack::enter(stack, |s| {
            let id = check_proc(&s.stack, proc)?;
            if s.plugged.get(proc as usize) == Some(&true) {
                return Err(in_use("close its plug section first: hw_unplug"));
            }
            s.change(now_ns, Change::ProcExited(id), |env| {
                if let Some(p) = env.procs.get_mut(id) {
                    p.alive = false;
                }
            })
        })
    }
}

/// Moves a process to another group. Then poll.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_move_proc(
    stack: *mut hw_stack,
    now_ns: u64,
    proc: u32,
    group: u32,
) -> i32 {
    // SAFETY: as in `hw_submit`.
    unsafe {
        hw_stack::enter(stack, |s| {
            let id = check_proc(&s.stack, proc)?;
            let to = check_group(&s.stack, group)?;
            let from = s.stack.env().procs.group(id);
            s.change(now_ns, Change::ProcMoved { proc: id, from, to }, |env| {
                if let Some(p) = env.procs.get_mut(id) {
                    p.group = to;
                }
            })
        })
    }
}

/// Changes the priority of a process. Then poll.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_set_priority(
    stack: *mut hw_stack,
    now_ns: u64,
    proc: u32,
    prio: u32,
) -> i32 {
    // SAFETY: as in `hw_submit`.
    unsafe {
        hw_stack::enter(stack, |s| {
            let id = check_proc(&s.stack, proc)?;
            let Some(prio) = priority(prio) else { return Err(no_priority()) };
            s.change(now_ns, Change::ProcPriority(id), |env| {
                if let Some(p) = env.procs.get_mut(id) {
                    p.prio = usual(prio);
                }
            })
        })
    }
}
