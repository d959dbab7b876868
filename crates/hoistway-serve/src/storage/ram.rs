//! Memory as a device.

use super::memory::Memory;
use super::{Backend, Command, Done, ExtentsAnswer, Facts, Opened, Target, TargetKind};
use crate::error::{ServeError, os};
use crate::system::Part;
use hoistway::{Device, Instant, Sectors};
use std::collections::VecDeque;

/// Memory in the registry.
pub(super) static TARGET: TargetKind = TargetKind {
    name: "ram",
    syntax: "ram:SIZE",
    summary: "memory; what was never written, or was trimmed, takes none",
    keys: &[],
    parse: |text| Ok(Target::Ram { size: text.bytes(text.rest)? }),
};

#[derive(Debug)]
struct Ram {
    memory: Memory,
    /// Not served yet: commands of one turn are under way together, as at any device, and schedulers
    /// that look at the depth of the device see it.
    waiting: VecDeque<(Command, usize)>,
    /// Memory of those commands, in their order.
    parts: VecDeque<Part>,
}

/// Commands served at once. What was copied is still in the processor's cache when it is sent then;
/// with all that may wait, half of the time went into fetching it again.
const BATCH: usize = 32;

/// Commands under way at once; a turn rarely has more.
const DEPTH: u32 = 256;

pub(super) fn open(size: u64) -> Result<Opened, ServeError> {
    let memory = Memory::new(size).map_err(os(format!("ram of {size} bytes")))?;
    let room = DEPTH as usize;
    let (waiting, parts) = (VecDeque::with_capacity(room), VecDeque::with_capacity(2 * room));
    let backend = Box::new(Ram { memory, waiting, parts });
    Ok(Opened { backend, device: device(size), facts: facts(size, "memory") })
}

/// A device without a cache that can discard.
pub(super) fn device(size: u64) -> Device {
    let mut device = Device::new(Sectors(size / 512), DEPTH);
    device.max_discard_sectors = Sectors(1 << 22);
    device
}

pub(super) fn facts(size: u64, summary: &str) -> Facts {
    Facts {
        size,
        block: 512,
        read_only: false,
        discard: true,
        discard_zeroes: true,
        rotational: false,
        page_cache: false,
        persistent: false,
        summary: summary.into(),
        warning: None,
    }
}

impl Backend for Ram {
    fn issue(&mut self, _now: Instant, command: Command, parts: &[Part]) {
        self.waiting.push_back((command, parts.len()));
        self.parts.extend(parts);
    }

    fn poll(&mut self, _now: Instant, done: &mut Vec<Done>) {
        for _ in 0..BATCH {
            let Some((command, parts)) = self.waiting.pop_front() else { break };
            self.memory.carry_out(&command, self.parts.drain(..parts));
            done.push(Done { tag: command.tag, result: Ok(()) });
        }
    }

    fn wake_at(&self) -> Option<Instant> {
        (!self.waiting.is_empty()).then_some(Instant::ZERO)
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn extents(&self, start: u64, len: u64, most: usize) -> ExtentsAnswer {
        ExtentsAnswer::Now(Ok(self.memory.extents(start, len, most)))
    }
}
