//! The handle of a device: opening, asking, changing, closing.

use super::client::Client;
use super::core::Core;
use super::reactor::{Reactor, ShutdownResult};
use super::ring::{self, Message, Sender};
use super::settings::{DeviceOptions, GroupSpec};
use crate::error::{ServeError, os};
use crate::storage::{EmulationFigures, Facts, Opened, SizeProbe, Target};
use hoistway::sched::Entry;
use hoistway::stack::{Counters, StageName};
use hoistway::{GroupId, IoPrio, Nanos};
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
    shared: Arc<SharedDevice>,
}

#[derive(Debug)]
struct SharedDevice {
    sender: Sender,
    facts: Facts,
    /// Bytes now.
    size: AtomicU64,
    /// Where they are counted, if they may change.
    size_probe: Option<Mutex<SizeProbe>>,
    running: Mutex<Running>,
    stop_limit: Nanos,
}

/// The owner thread, or how it ended.
#[derive(Debug)]
enum Running {
    Yes(JoinHandle<()>, Receiver<ShutdownResult>),
    /// `None`: the thread panicked.
    Over(Option<ShutdownResult>),
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
    pub fn open(target: &Target, options: &DeviceOptions) -> Result<Device, ServeError> {
        Device::start(target.open()?, options)
    }

    pub(crate) fn start(opened: Opened, options: &DeviceOptions) -> Result<Device, ServeError> {
        let core = Core::new(opened, options)?;
        let facts = core.facts.clone();
        let size_probe = SizeProbe::of(core.backend(), &facts).map(Mutex::new);
        let (sender, inbox) = ring::ring().map_err(os("eventfd"))?;
        let owner = Reactor::new(core, inbox, options.sockets, options.stop_limit);
        let owner = owner.map_err(os("epoll"))?;
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
        let shared = SharedDevice { sender, facts, size, size_probe, running, stop_limit };
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
    pub fn refresh_size(&self) -> Result<u64, ServeError> {
        let Some(size_probe) = &self.shared.size_probe else { return Ok(self.size()) };
        // One at a time: what is measured last is what holds.
        let size_probe = size_probe.lock().expect("nobody panics while holding the lock");
        let size = size_probe.size().map_err(os(self.shared.facts.summary.clone()))?;
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
    pub fn client(&self, prio: IoPrio) -> Result<Client, ServeError> {
        self.client_of(Group::ROOT, prio)
    }

    /// A client of a group.
    pub fn client_of(&self, group: Group, prio: IoPrio) -> Result<Client, ServeError> {
        let tenant = self.control(move |core| core.add_tenant(group.0, prio))?;
        Ok(Client::new(self.clone(), tenant))
    }

    /// Adds a group, or changes the one of that name. Also returns what has no effect under the
    /// scheduler in force, as sentences; it comes into force with a scheduler that knows it.
    pub fn set_group(&self, spec: &GroupSpec) -> Result<(Group, Vec<String>), ServeError> {
        let spec = spec.clone();
        let (id, idle) = self.control(move |core| core.set_group(&spec))??;
        Ok((Group(id), idle))
    }

    /// Sets a tunable of a stage.
    pub fn set(&self, stage: StageName, name: &str, value: u64) -> Result<(), ServeError> {
        let name = name.to_string();
        self.control(move |core| core.set(stage, &name, value))?
    }

    /// Another scheduler takes over when what is under way is done; nothing is lost, and groups keep
    /// their settings.
    pub fn switch_scheduler(
        &self,
        entry: &'static Entry,
        set: &[(String, u64)],
    ) -> Result<(), ServeError> {
        let set = set.to_vec();
        self.control(move |core| core.switch_scheduler(entry, &set))?
    }

    /// Name of the scheduler in force.
    pub fn scheduler(&self) -> Result<&'static str, ServeError> {
        self.control(|core| core.stack.scheduler_entry().name)
    }

    /// What the stack has done so far.
    pub fn counters(&self) -> Result<Counters, ServeError> {
        self.control(|core| core.stack.counters())
    }

    /// How well the machine keeps up with the model, of an emulated drive.
    pub fn emulation(&self) -> Result<Option<EmulationFigures>, ServeError> {
        self.control(|core| core.backend().emulation())
    }

    /// Finishes what is under way, flushes and closes. Clients get ESHUTDOWN from now on.
    ///
    /// # Errors
    ///
    /// [`ServeError::NotFlushed`] when the last flush failed, or the storage did not answer within
    /// [`DeviceOptions::stop_limit`]; the thread that waits for it is then left behind. Every further
    /// call says the same.
    pub fn close(&self) -> Result<(), ServeError> {
        self.start_close();
        let end = self.shared.join();
        let why = match end {
            Some(ShutdownResult::Clean) => return Ok(()),
            Some(ShutdownResult::NotFlushed(errno)) => format!("the last flush failed: {errno}"),
            Some(ShutdownResult::Stuck { unfinished, limit }) => {
                let seconds = limit.0 as f64 / 1e9;
                format!("after {seconds} s the storage has not answered {unfinished} I/Os")
            }
            Some(ShutdownResult::Blocked { limit }) => {
                let seconds = limit.0 as f64 / 1e9;
                format!("after {seconds} s a call into the storage has not come back")
            }
            None => "its thread panicked".into(),
        };
        Err(ServeError::NotFlushed { device: self.shared.facts.summary.clone(), why })
    }

    /// How long the end may take.
    #[cfg(feature = "ublk")]
    pub(crate) fn stop_limit(&self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.shared.stop_limit.0)
    }

    /// The first half of [`close`](Device::close), which does not wait: for closing several at once.
    pub(crate) fn start_close(&self) {
        // It can only fail by having ended already.
        let _ = self.send(Message::Stop);
    }

    pub(crate) fn send(&self, message: Message) -> Result<(), ServeError> {
        self.shared.sender.send(message)
    }

    /// Does something on the owner thread and waits for its answer.
    pub(crate) fn control<T: Send + 'static>(
        &self,
        action: impl FnOnce(&mut Core) -> T + Send + 'static,
    ) -> Result<T, ServeError> {
        let (answer, result) = sync_channel(1);
        let action = move |core: &mut Core| {
            // Nobody waits any more only if the caller's thread is gone.
            let _ = answer.send(action(core));
        };
        self.send(Message::Control(Box::new(action)))?;
        result.recv().map_err(|_| ServeError::Closed)
    }
}

impl SharedDevice {
    /// Waits for the end.
    fn join(&self) -> Option<ShutdownResult> {
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
                    Err(RecvTimeoutError::Timeout) => Some(ShutdownResult::Blocked { limit }),
                    Err(RecvTimeoutError::Disconnected) => None,
                }
            }
        };
        let before = std::mem::replace(&mut *running, Running::Over(end.clone()));
        let stuck =
            matches!(end, Some(ShutdownResult::Stuck { .. } | ShutdownResult::Blocked { .. }));
        if let (Running::Yes(thread, _), false) = (before, stuck) {
            let _ = thread.join();
        }
        end
    }
}

impl Drop for SharedDevice {
    fn drop(&mut self) {
        let _ = self.sender.send(Message::Stop);
        self.join();
    }
}

/// The owner thread keeps the limit of the end itself, unless a call into the kernel holds it.
const BLOCKED_GRACE: Nanos = Nanos::secs(2);
