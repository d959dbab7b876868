//! The engine: a stack on a real device, in a thread of its own.

mod census;
mod core;
#[cfg(test)]
mod faults;
mod listen;
mod measure;
mod owner;
mod pending;
mod ring;
mod settings;
mod stats;
#[cfg(test)]
mod tests;
mod thread;
mod watchdog;
#[cfg(test)]
mod watching;

pub(crate) use self::census::Label;
pub use self::census::{ClientReport, DeviceReport, GroupReport, ROOT_NAME, Tally};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use self::core::Finished;
pub(crate) use self::core::{Core, Order, Origin, TenantId};
#[cfg(any(feature = "fuse", feature = "ublk"))]
pub(crate) use self::thread::io_flusher;
pub(crate) use self::thread::{errors_instead_of_signals, precise_timers};
pub use listen::{Heard, Listener, Who};
pub use measure::{Measure, OPS, OpMeasure, Spread};
pub(crate) use owner::{BUFFERS_MAX, Guest, Standing};
pub use pending::Pending;
pub(crate) use ring::Message;
pub use settings::{DeviceOptions, GroupSetting, GroupSpec};
pub use stats::{ClientStats, DeviceStats, StateFigure, Sum};
pub use watchdog::Stall;

use crate::backend::{EmulationFigures, Facts, Gauge, Opened, Target};
use crate::buffer::Buffer;
use crate::error::{LiveError, os};
use hoistway::sched::Entry;
use hoistway::stack::{Counters, StageName};
use hoistway::{Flags, GroupId, IoPrio, Nanos, Op};
use owner::{End, Owner};
use pending::{Reply, Slot, Window};
use ring::Sender;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// A device under one of hoistway's schedulers. Clones are the same device; it is flushed and closed
/// when the last clone and the last [`Client`] are gone, or by [`Device::close`], which also tells how
/// that went.
#[derive(Clone, Debug)]
pub struct Device {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    sender: Sender,
    facts: Facts,
    /// Bytes now.
    size: AtomicU64,
    /// Where they are counted, if they may change.
    gauge: Option<Mutex<Gauge>>,
    running: Mutex<Running>,
    stop_limit: Nanos,
}

/// The owner thread, or how it ended.
#[derive(Debug)]
enum Running {
    Yes(JoinHandle<()>, Receiver<End>),
    /// `None`: the thread panicked.
    Over(Option<End>),
}

/// A group on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group(pub(crate) GroupId);

impl Group {
    /// The group of everybody who is in no other.
    pub const ROOT: Group = Group(GroupId::ROOT);
}

impl Device {
    /// Opens `target` under a stack of its own.
    ///
    /// # Errors
    ///
    /// When the target cannot be opened, a setting is refused, or an emulated drive is faster than
    /// this machine.
    pub fn open(target: &Target, options: &DeviceOptions) -> Result<Device, LiveError> {
        Device::start(target.open()?, options)
    }

    pub(crate) fn start(opened: Opened, options: &DeviceOptions) -> Result<Device, LiveError> {
        let core = Core::new(opened, options)?;
        let facts = core.facts.clone();
        let gauge = Gauge::of(core.backend(), &facts).map(Mutex::new);
        let (sender, inbox) = ring::ring().map_err(os("eventfd"))?;
        let owner = Owner::new(core, inbox, options.stop_limit).map_err(os("epoll"))?;
        let (ended, end) = sync_channel(1);
        let thread = std::thread::Builder::new().name("hoistway-owner".into());
        let run = move || {
            // Nobody listens any more only if the whole process ends.
            let _ = ended.send(owner.run());
        };
        let thread = thread.spawn(run).map_err(os("thread"))?;
        let running = Mutex::new(Running::Yes(thread, end));
        let size = AtomicU64::new(facts.size);
        let stop_limit = options.stop_limit;
        let shared = Shared { sender, facts, size, gauge, running, stop_limit };
        Ok(Device { shared: Arc::new(shared) })
    }

    /// Bytes that can be read and written, as last looked at.
    pub fn size(&self) -> u64 {
        self.shared.size.load(Ordering::Relaxed)
    }

    /// Looks how large the file or block device is now; from now on that is its size. I/O beyond the
    /// end is refused then; what is under way is not touched.
    ///
    /// # Errors
    ///
    /// When the system does not tell the size, or the device was closed; the size stays.
    pub fn look_at_size(&self) -> Result<u64, LiveError> {
        let Some(gauge) = &self.shared.gauge else { return Ok(self.size()) };
        // One at a time: what is measured last is what holds.
        let gauge = gauge.lock().expect("nobody panics while holding the lock");
        let size = gauge.size().map_err(os(self.shared.facts.summary.clone()))?;
        if size != self.size() {
            self.control(move |core| core.resize(size))?;
            self.shared.size.store(size, Ordering::Relaxed);
        }
        Ok(size)
    }

    /// What is known about it.
    pub fn facts(&self) -> &Facts {
        &self.shared.facts
    }

    /// A client of the root group with that priority ([`IoPrio::NONE`]: best-effort 4).
    pub fn client(&self, prio: IoPrio) -> Result<Client, LiveError> {
        self.client_of(Group::ROOT, prio)
    }

    /// A client of a group.
    pub fn client_of(&self, group: Group, prio: IoPrio) -> Result<Client, LiveError> {
        let tenant = self.control(move |core| core.add_tenant(group.0, prio))?;
        Ok(Client { device: self.clone(), tenant, window: Window::new(WINDOW) })
    }

    /// Adds a group, or changes the one of that name. Also returns what has no effect under the
    /// scheduler in force, as sentences; it comes into force with a scheduler that knows it.
    pub fn set_group(&self, spec: &GroupSpec) -> Result<(Group, Vec<String>), LiveError> {
        let spec = spec.clone();
        let (id, idle) = self.control(move |core| core.set_group(&spec))??;
        Ok((Group(id), idle))
    }

    /// Sets a tunable of a stage.
    pub fn set(&self, stage: StageName, name: &str, value: u64) -> Result<(), LiveError> {
        let name = name.to_string();
        self.control(move |core| core.set(stage, &name, value))?
    }

    /// Another scheduler takes over when what is under way is done; nothing is lost, and groups keep
    /// their settings.
    pub fn switch_scheduler(
        &self,
        entry: &'static Entry,
        set: &[(String, u64)],
    ) -> Result<(), LiveError> {
        let set = set.to_vec();
        self.control(move |core| core.switch_scheduler(entry, &set))?
    }

    /// Name of the scheduler in force.
    pub fn scheduler(&self) -> Result<&'static str, LiveError> {
        self.control(|core| core.stack.scheduler_entry().name)
    }

    /// What the stack has done so far.
    pub fn counters(&self) -> Result<Counters, LiveError> {
        self.control(|core| core.stack.counters())
    }

    /// How well the machine keeps up with the model, of an emulated drive.
    pub fn emulation(&self) -> Result<Option<EmulationFigures>, LiveError> {
        self.control(|core| core.backend().emulation())
    }

    /// Finishes what is under way, flushes and closes. Clients get ESHUTDOWN from now on.
    ///
    /// # Errors
    ///
    /// [`LiveError::NotFlushed`] when the last flush failed, or the storage did not answer within
    /// [`DeviceOptions::stop_limit`]; the thread that waits for it is then left behind. Every further
    /// call says the same.
    pub fn close(&self) -> Result<(), LiveError> {
        self.begin_close();
        let end = self.shared.join();
        let why = match end {
            Some(End::Clean) => return Ok(()),
            Some(End::NotFlushed(errno)) => format!("the last flush failed: {errno}"),
            Some(End::Stuck { unfinished, limit }) => {
                let seconds = limit.0 as f64 / 1e9;
                format!("after {seconds} s the storage has not answered {unfinished} I/Os")
            }
            Some(End::Blocked { limit }) => {
                let seconds = limit.0 as f64 / 1e9;
                format!("after {seconds} s a call into the storage has not come back")
            }
            None => "its thread panicked".into(),
        };
        Err(LiveError::NotFlushed { device: self.shared.facts.summary.clone(), why })
    }

    /// How long the end may take.
    #[cfg(feature = "ublk")]
    pub(crate) fn stop_limit(&self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.shared.stop_limit.0)
    }

    /// The first half of [`close`](Device::close), which does not wait: for closing several at once.
    pub(crate) fn begin_close(&self) {
        // It can only fail by having ended already.
        let _ = self.send(Message::Stop);
    }

    pub(crate) fn send(&self, message: Message) -> Result<(), LiveError> {
        self.shared.sender.send(message)
    }

    /// Does something on the owner thread and waits for its answer.
    pub(crate) fn control<T: Send + 'static>(
        &self,
        action: impl FnOnce(&mut Core) -> T + Send + 'static,
    ) -> Result<T, LiveError> {
        let (answer, result) = sync_channel(1);
        let action = move |core: &mut Core| {
            // Nobody waits any more only if the caller's thread is gone.
            let _ = answer.send(action(core));
        };
        self.send(Message::Control(Box::new(action)))?;
        result.recv().map_err(|_| LiveError::Closed)
    }
}

impl Shared {
    /// Waits for the end.
    fn join(&self) -> Option<End> {
        let mut running = self.running.lock().expect("nobody panics while holding the lock");
        let end = match &*running {
            Running::Over(end) => return end.clone(),
            // The last of the device is dropped by its own thread, which cannot wait for itself.
            Running::Yes(thread, _) if thread.thread().id() == std::thread::current().id() => {
                return None;
            }
            Running::Yes(_, end) => {
                let limit = self.stop_limit + BLOCKED_GRACE;
                match end.recv_timeout(Duration::from_nanos(limit.0)) {
                    Ok(end) => Some(end),
                    Err(RecvTimeoutError::Timeout) => Some(End::Blocked { limit }),
                    Err(RecvTimeoutError::Disconnected) => None,
                }
            }
        };
        let before = std::mem::replace(&mut *running, Running::Over(end.clone()));
        let stuck = matches!(end, Some(End::Stuck { .. } | End::Blocked { .. }));
        if let (Running::Yes(thread, _), false) = (before, stuck) {
            let _ = thread.join();
        }
        end
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = self.sender.send(Message::Stop);
        self.join();
    }
}

/// The owner thread keeps the limit of the end itself, unless a call into the kernel holds it.
const BLOCKED_GRACE: Nanos = Nanos::secs(2);
/// I/Os of one client under way at once; a further one waits in `start_*`.
const WINDOW: usize = 1024;

/// One submitter on a device: a thread, a tenant, a job with a priority of its own. It may be used from
/// several threads. Offsets and lengths are bytes, and multiples of [`Facts::block`].
#[derive(Debug)]
pub struct Client {
    device: Device,
    tenant: TenantId,
    window: Arc<Window>,
}

impl Client {
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
        let origin = Origin::Caller(Reply::to(&slot));
        let order = Order { op, offset, len, flags, buffer, origin };
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
