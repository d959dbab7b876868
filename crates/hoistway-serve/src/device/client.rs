//! The way in for threads of this program.

use super::core::{IoRequest, ReplyTo, TenantId};
use super::handle::Device;
use super::pending::{Pending, Reply, Slot, Window};
use super::ring::Message;
use crate::system::Buffer;
use hoistway::{Flags, Op};
use std::io;
use std::sync::Arc;

/// I/Os of one client under way at once; a further one waits in `start_*`.
const WINDOW: usize = 1024;

/// One submitter on a device: a thread, a tenant, a job with a priority of its own. It may be used from
/// several threads. Offsets and lengths are bytes, and multiples of [`Facts::block`](crate::Facts::block).
#[derive(Debug)]
pub struct Client {
    device: Device,
    tenant: TenantId,
    window: Arc<Window>,
}

impl Client {
    pub(super) fn new(device: Device, tenant: TenantId) -> Client {
        Client { device, tenant, window: Window::new(WINDOW) }
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Reads `into.len()` bytes and waits for them.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let buffer = self.start_read(offset, Buffer::zeroed(into.len())).wait()?;
        into.copy_from_slice(&buffer);
        Ok(())
    }

    /// Writes and waits. Only a [flush](Client::flush) afterwards makes it durable.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.start_write(offset, Buffer::from_slice(bytes)).wait().map(drop)
    }

    /// Waits until everything that was written before is durable.
    pub fn flush(&self) -> io::Result<()> {
        self.start_flush().wait().map(drop)
    }

    /// Gives the range up; it reads as zeroes afterwards.
    pub fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        self.start_discard(offset, len).wait().map(drop)
    }

    /// The range reads as zeroes afterwards and stays allocated.
    pub fn write_zeroes(&self, offset: u64, len: u64) -> io::Result<()> {
        self.start_write_zeroes(offset, len).wait().map(drop)
    }

    /// Starts a read that fills the buffer.
    pub fn start_read(&self, offset: u64, buffer: Buffer) -> Pending {
        let len = buffer.len() as u64;
        self.start(Op::Read, offset, len, Flags::NONE, buffer)
    }

    /// Starts a write of the buffer.
    pub fn start_write(&self, offset: u64, buffer: Buffer) -> Pending {
        let len = buffer.len() as u64;
        self.start(Op::Write, offset, len, WRITE, buffer)
    }

    /// Starts a write that is durable when it is over (forced unit access).
    pub fn start_durable_write(&self, offset: u64, buffer: Buffer) -> Pending {
        let len = buffer.len() as u64;
        self.start(Op::Write, offset, len, WRITE | Flags::FUA, buffer)
    }

    /// Starts a flush.
    pub fn start_flush(&self) -> Pending {
        self.start(Op::Flush, 0, 0, Flags::PREFLUSH, Buffer::empty())
    }

    /// Starts a discard.
    pub fn start_discard(&self, offset: u64, len: u64) -> Pending {
        self.start(Op::Discard, offset, len, Flags::NONE, Buffer::empty())
    }

    /// Starts to write zeroes; the range stays allocated.
    pub fn start_write_zeroes(&self, offset: u64, len: u64) -> Pending {
        self.start(Op::WriteZeroes, offset, len, WRITE, Buffer::empty())
    }

    fn start(&self, op: Op, offset: u64, len: u64, flags: Flags, buffer: Buffer) -> Pending {
        let slot = Slot::new(&self.window);
        let reply_to = ReplyTo::Caller(Reply::to(&slot));
        let order = IoRequest { op, offset, len, flags, buffer, reply_to };
        // An order that cannot be sent is dropped, and answered thereby.
        let _ = self.device.send(Message::Submit(self.tenant, order));
        Pending { slot }
    }
}

/// A client waits for its write as a task waits for direct I/O, which Linux marks SYNC and IDLE.
pub(crate) const WRITE: Flags = Flags::from_bits(Flags::SYNC.bits() | Flags::IDLE.bits());

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.device.send(Message::CloseTenant(self.tenant));
    }
}
