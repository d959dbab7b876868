//! A device that keeps nothing.

use super::ram::{device, facts};
use super::{Backend, Command, Done, Extent, ExtentsAnswer, Opened, Target, TargetKind};
use crate::error::ServeError;
use crate::system::Part;
use hoistway::{Instant, Op};

/// It in the registry.
pub(super) static TARGET: TargetKind = TargetKind {
    name: "null",
    syntax: "null:SIZE",
    summary: "discards writes; reads return zeroes",
    keys: &[],
    parse: |text| Ok(Target::Null { size: text.bytes(text.rest)? }),
};

#[derive(Debug)]
struct Null {
    done: Vec<Done>,
}

pub(super) fn open(size: u64) -> Result<Opened, ServeError> {
    let backend = Box::new(Null { done: Vec::with_capacity(256) });
    Ok(Opened { backend, device: device(size), facts: facts(size, "nothing (reads as zeroes)") })
}

impl Backend for Null {
    fn issue(&mut self, _now: Instant, command: Command, parts: &[Part]) {
        if command.op == Op::Read {
            parts.iter().copied().for_each(|mut part| part.bytes_mut().fill(0));
        }
        self.done.push(Done { tag: command.tag, result: Ok(()) });
    }

    fn poll(&mut self, _now: Instant, done: &mut Vec<Done>) {
        done.append(&mut self.done);
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn extents(&self, _start: u64, len: u64, _most: usize) -> ExtentsAnswer {
        ExtentsAnswer::Now(Ok(vec![Extent { len, hole: true }]))
    }
}
