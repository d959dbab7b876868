//! Memory as a device.

use super::memory::Memory;
use super::{Backend, Command, Done, Extent, Facts, Opened};
use crate::buffer::Part;
use crate::error::{LiveError, os};
use hoistway::{Device, Instant, Op, Sectors};
use rustix::io::Errno;

#[derive(Debug)]
struct Ram {
    memory: Memory,
    /// Served, not reported yet: commands of one turn are under way together, as at any device, and
    /// schedulers that look at the depth of the device see it.
    done: Vec<Done>,
}

/// Commands under way at once; a turn rarely has more.
const DEPTH: u32 = 256;

pub(super) fn open(size: u64) -> Result<Opened, LiveError> {
    let memory = Memory::new(size).map_err(os(format!("ram of {size} bytes")))?;
    let backend = Box::new(Ram { memory, done: Vec::with_capacity(DEPTH as usize) });
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
        persistent: false,
        summary: summary.into(),
        warning: None,
    }
}

impl Backend for Ram {
    fn issue(&mut self, _now: Instant, command: Command, parts: &[Part]) {
        let mut at = command.start;
        match command.op {
            Op::Read => {
                for mut part in parts.iter().copied() {
                    self.memory.read(at, part.bytes_mut());
                    at += part.len() as u64;
                }
            }
            Op::Write => {
                for part in parts {
                    self.memory.write(at, part.bytes());
                    at += part.len() as u64;
                }
            }
            Op::Discard | Op::WriteZeroes => self.memory.zero(at, command.len),
            Op::Flush => {}
        }
        self.done.push(Done { tag: command.tag, result: Ok(()) });
    }

    fn poll(&mut self, _now: Instant, done: &mut Vec<Done>) {
        done.append(&mut self.done);
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn extents(&mut self, start: u64, len: u64, most: usize) -> Result<Vec<Extent>, Errno> {
        Ok(self.memory.extents(start, len, most))
    }
}
