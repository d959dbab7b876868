//! Tests of the stack: the scenarios of the specification, edges, and seeded runs.

mod changes;
mod edges;
mod knobs;
mod pass;
mod random;
mod scenarios;

use super::*;
use crate::request::Flags;
use crate::sched;
use crate::testkit::stack::Rig;
use crate::unit::{Nanos, Sectors};
use alloc::format;
use alloc::string::ToString;

/// A stack with eight processes of the root.
fn rig_of(scheduler: &str, edit: impl FnOnce(&mut Device)) -> Rig {
    let mut rig = Rig::new(scheduler, edit);
    rig.procs(GroupId::ROOT, 8);
    rig
}

fn write_with(rig: &mut Rig, start: u64, flags: Flags) -> u64 {
    rig.submit(ProcId(0), |io| {
        *io = Io::write(io.id.0, io.proc, start, 8);
        io.flags = flags;
    })
}
