//! What is served: a device, or a part of it, under a name. Every front-end shows the same exports.

use crate::device::{ConnectionInfo, Core, Device, Group, TenantId};
use crate::error::ServeError;
use hoistway::{GroupId, IoPrio, Op};

/// One export: a device, or a part of it, under a name.
#[derive(Clone, Debug)]
pub struct Export {
    /// Its name; clients that name none get the first export.
    pub name: String,
    /// The device. Exports may share one: they then compete under its scheduler.
    pub device: Device,
    /// Group of its clients on the device.
    pub group: Group,
    /// Their priority; [`IoPrio::NONE`]: best-effort 4.
    pub prio: IoPrio,
    /// First byte of the device that is served.
    pub offset: u64,
    /// Bytes served; `None`: all behind the offset.
    pub size: Option<u64>,
    /// Nothing may be written.
    pub read_only: bool,
}

impl Export {
    /// All of a device, in its root group.
    pub fn new(name: &str, device: Device) -> Export {
        Export {
            name: name.into(),
            device,
            group: Group::ROOT,
            prio: IoPrio::NONE,
            offset: 0,
            size: None,
            read_only: false,
        }
    }

    pub(super) fn view(&self) -> Result<View, ServeError> {
        let facts = self.device.facts();
        let whole = self.device.size();
        let rest = whole.checked_sub(self.offset);
        let size = self.size.or(rest);
        let aligned = |n: u64| n.is_multiple_of(u64::from(facts.block));
        match (size, rest) {
            (Some(size), Some(rest))
                if size > 0 && size <= rest && aligned(size) && aligned(self.offset) =>
            {
                Ok(View {
                    offset: self.offset,
                    size,
                    read_only: self.read_only || facts.read_only,
                    trim: facts.discard,
                    discard_zeroes: facts.discard_zeroes,
                    group: self.group.0,
                    prio: self.prio,
                })
            }
            _ => Err(ServeError::Refused(format!(
                "export '{}': {} bytes from byte {} on do not fit a device of {} bytes in blocks of {}",
                self.name,
                size.unwrap_or(0),
                self.offset,
                whole,
                facts.block
            ))),
        }
    }
}

/// An export as clients see it: the part of a device that is served, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub offset: u64,
    pub size: u64,
    pub read_only: bool,
    pub trim: bool,
    /// What was discarded reads as zeroes.
    pub discard_zeroes: bool,
    pub group: GroupId,
    pub prio: IoPrio,
}

impl View {
    /// A client of the export comes to its device.
    pub fn admit(&self, core: &mut Core, info: Option<ConnectionInfo>) -> TenantId {
        let tenant = core.add_tenant(self.group, self.prio);
        if let Some(info) = info {
            core.identify(tenant, info);
        }
        tenant
    }

    /// How zeroes are written: by a discard where they may become a hole, and what was discarded reads as
    /// zeroes.
    pub fn zeroing(&self, hole: bool) -> Op {
        if hole && self.trim && self.discard_zeroes { Op::Discard } else { Op::WriteZeroes }
    }
}
