//! ublk: every export as a block device `/dev/ublkbN`, without a file or a network between.
//!
//! The kernel's driver keeps its requests in a queue that this process reads through io_uring. Control
//! commands add, describe, start, stop and delete a device (`driver`, `wire`); its queue is a session
//! on the owner thread of the export's device (`queue`). One queue per device: behind it is one
//! scheduler.
//!
//! Written over raw io_uring rather than with `libublk` (docs/decisions/0004-ublk.md).

mod driver;
mod queue;
mod wire;

use crate::device::{ConnectionInfo, Device, Message};
use crate::error::{ServeError, os};
use crate::front::{Attached, Attachment, Export, Front, FrontOption};
use driver::{ControlDevice, DriverRing};
use queue::Queue;
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use wire::{Control, DeviceInfo, DeviceState, Mark, Params};

/// ublk in the registry.
pub static FRONT: Front = Front {
    name: "ublk",
    summary: "block devices of the kernel's ublk driver",
    usage: "--ublk",
    missing: || match fs::exists(wire::CONTROL) {
        Ok(true) => None,
        _ => Some(format!("{}: `modprobe ublk_drv` (Linux 6.4)", wire::CONTROL)),
    },
    options: &[FrontOption {
        name: "ublk",
        value: "",
        help: "Show each export as a block device, by the kernel's ublk driver",
    }],
    attach: Some(|request| {
        let mut disks = Vec::new();
        for export in request.exports {
            let disk = Disk::start(export)?;
            disks.push(Attached {
                places: vec![(export.name.clone(), disk.path())],
                notes: disk.notes().to_vec(),
                variable: None,
                attachment: Box::new(disk),
            });
        }
        Ok(disks)
    }),
};

/// An export as a block device. Stopped and deleted when it is dropped.
#[derive(Debug)]
pub struct Disk {
    number: u32,
    /// Of the export.
    device: Device,
    control: Mutex<Option<ControlDevice>>,
    notes: Vec<String>,
}

/// Requests under way at once (chosen: what a loop device has).
const DEPTH: u16 = 128;
/// Bytes of the longest request; with the depth, 64 MiB of buffers.
const REQUEST_MAX: u32 = 512 << 10;
/// How often it is looked for the character device of a new disk, which udev may be slow to make: 5 s.
const LOOKS: u32 = 500;
const LOOK: Duration = Duration::from_millis(10);

impl Disk {
    /// Makes a block device of an export, for root alone to open.
    ///
    /// # Errors
    ///
    /// When the driver is not there (the message says how to load it), refuses, or the export does not
    /// fit its device.
    pub fn start(export: &Export) -> Result<Disk, ServeError> {
        let view = export.view()?;
        let facts = export.device.facts();
        let mut control = ControlDevice::open()?;
        let notes = remove_left(&mut control);
        let process = i32::try_from(std::process::id()).expect("process numbers are small");
        let asked = DeviceInfo {
            queues: 1,
            depth: DEPTH,
            request_max: REQUEST_MAX,
            device: wire::ANY_DEVICE,
            process,
            state: DeviceState::Dead,
            mark: Mark::of(std::process::id()),
        };
        let mut answer = asked.encode();
        control.run(Control::Add, wire::ANY_DEVICE, &mut answer, 0)?;
        let info = DeviceInfo::decode(&answer);
        // From here on dropping `disk` takes it away again.
        let mut disk = Disk {
            number: info.device,
            device: export.device.clone(),
            control: Mutex::new(Some(control)),
            notes,
        };
        if (info.queues, info.depth) != (1, DEPTH) || info.request_max > REQUEST_MAX {
            let made = format!("{} queues of {} requests", info.queues, info.depth);
            return Err(ServeError::Refused(format!("ublk: the driver insists on {made}")));
        }
        let params = Params {
            sectors: view.size / 512,
            block: facts.block,
            request_max: info.request_max,
            read_only: view.read_only,
            rotational: facts.rotational,
            discard: view.trim,
        };
        disk.command(Control::SetParams, &mut params.encode(), 0)?;
        let file = disk.character_device()?;
        let ring = DriverRing::new(file, &info).map_err(os("ublk: queue"))?;
        let connection = ConnectionInfo {
            connection: super::connection_number(),
            export: export.name.clone(),
            peer: format!("ublk {}", disk.path().display()),
        };
        let queue = Queue::new(ring, info.depth, info.request_max, view, connection);
        let refusal = queue.refusal();
        export.device.send(Message::Session(Box::new(queue)))?;
        // The owner has taken it when it answers. A start that lacks fetches would wait for ever.
        export.device.control(|_| ())?;
        match refusal.load(Ordering::SeqCst) {
            0 => {}
            no => return Err(os("ublk: fetch requests")(io::Error::from_raw_os_error(-no))),
        }
        // It waits for the queue's fetches, and returns when the partition table has been read.
        disk.command(Control::Start, &mut [], process as u64)?;
        disk.notes.extend(disk.leave_order_alone().err());
        Ok(disk)
    }

    /// What a user should know: that devices of a server that was killed were found and removed, or
    /// that a scheduler of the kernel stands above ours.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// A device with one queue gets a scheduler of the kernel's, which would put requests into an order
    /// of its own before ours sees them.
    fn leave_order_alone(&self) -> Result<(), String> {
        let path = format!("/sys/block/ublkb{}/queue/scheduler", self.number);
        let is_none = |choice: String| matches!(choice.trim(), "none") || choice.contains("[none]");
        if fs::read_to_string(&path).is_ok_and(is_none) {
            return Ok(());
        }
        let place = self.path();
        fs::write(&path, "none").map_err(|error| {
            let place = place.display();
            format!("{place}: a scheduler of the kernel's stands above ours ({path}: {error})")
        })
    }

    /// The block device.
    pub fn path(&self) -> PathBuf {
        format!("/dev/ublkb{}", self.number).into()
    }

    fn character_device(&self) -> Result<File, ServeError> {
        let path = format!("/dev/ublkc{}", self.number);
        let mut looks = LOOKS;
        loop {
            match OpenOptions::new().read(true).write(true).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && looks > 0 => {
                    looks -= 1;
                    thread::sleep(LOOK);
                }
                other => return other.map_err(os(path)),
            }
        }
    }

    fn command(&self, what: Control, buffer: &mut [u8], data: u64) -> Result<(), ServeError> {
        match &mut *self.lock() {
            Some(control) => control.run(what, self.number, buffer, data),
            // It is deleted.
            None => Ok(()),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<ControlDevice>> {
        self.control.lock().expect("nobody panics while holding the lock")
    }
}

impl Attachment for Disk {
    fn place(&self) -> PathBuf {
        self.path()
    }

    fn detach(&self) -> Result<bool, ServeError> {
        // A mounted file system, a swap area, another device hold it for themselves alone.
        let path = self.path();
        let exclusive = OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(&path);
        match exclusive {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::BUSY) => return Ok(false),
            // Whatever else is wrong with it, it is to go.
            other => drop(other),
        }
        self.sever().map(|()| true)
    }

    fn users(&self) -> Vec<String> {
        let (path, name) = (self.path(), format!("ublkb{}", self.number));
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mut users: Vec<_> = table
            .lines()
            .filter(|line| {
                let source = line.split_once(" - ").and_then(|(_, rest)| rest.split(' ').nth(1));
                source.is_some_and(|source| path == Path::new(source))
            })
            .filter_map(|line| Some(format!("a file system on {}", line.split(' ').nth(4)?)))
            .collect();
        let holders = fs::read_dir(format!("/sys/block/{name}/holders")).into_iter().flatten();
        users.extend(holders.flatten().map(|h| h.file_name().to_string_lossy().into_owned()));
        users
    }

    /// The kernel writes back what file systems and programs have not written yet. If that takes longer
    /// than the storage may take for its end, the storage is closed, and the rest of it gets errors.
    fn sever(&self) -> Result<(), ServeError> {
        let mut control = self.lock();
        let Some(mut control) = control.take() else { return Ok(()) };
        // The queue leaves when its last tag has come back.
        let mut stopped = control.stop(self.number, self.device.stop_limit());
        if let Ok(false) = stopped {
            let closed = self.device.close();
            stopped = closed.and(control.stopped());
        }
        // What was given up has its reason in the error.
        stopped.map(drop).and(control.delete(self.number))
    }
}

/// Removes the devices that servers left which were killed: they have no block device any more, and take
/// no requests. Says which.
fn remove_left(control: &mut ControlDevice) -> Vec<String> {
    let mut removed = Vec::new();
    for entry in fs::read_dir("/dev").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|n| n.strip_prefix("ublkc")?.parse().ok());
        let Some(number) = number else { continue };
        let mut answer = [0; DeviceInfo::LEN];
        // Another server may remove it as well, or another user own it.
        if control.run(Control::Info, number, &mut answer, 0).is_err() {
            continue;
        }
        let alive = |process| fs::exists(format!("/proc/{process}")).unwrap_or(true);
        let Some(process) = left_by(&DeviceInfo::decode(&answer), alive) else { continue };
        if control.delete(number).is_ok() {
            removed.push(format!(
                "/dev/ublkc{number}: the server that made it (process {process}) is gone; the dead \
                 device was removed"
            ));
        }
    }
    removed.sort();
    removed
}

/// The hoistway that left a device behind, if one did. A device that is being started is as dead as one
/// whose server was killed, but its server lives.
fn left_by(info: &DeviceInfo, alive: impl Fn(u32) -> bool) -> Option<u32> {
    let process = info.mark.process()?;
    (info.state == DeviceState::Dead && !alive(process)).then_some(process)
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Who wants to know how it ended severs it before.
        let _ = self.sever();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeviceOptions, Target};

    #[test]
    fn only_dead_devices_of_a_hoistway_that_is_gone_are_left() {
        let of = |state, mark| DeviceInfo {
            queues: 1,
            depth: DEPTH,
            request_max: REQUEST_MAX,
            device: 4,
            process: -1,
            state,
            mark,
        };
        let (alive, gone) = (|_| true, |_| false);
        let left = of(DeviceState::Dead, Mark::of(77));
        assert_eq!(left_by(&left, gone), Some(77));
        // Being started.
        assert_eq!(left_by(&left, alive), None);
        assert_eq!(left_by(&of(DeviceState::Used, Mark::of(77)), gone), None);
        // Another program's.
        let other = DeviceInfo::decode(&[0; DeviceInfo::LEN]);
        assert_eq!(left_by(&other, gone), None);
    }

    /// With the driver, a real device; without it, a message that says what to do.
    #[test]
    fn an_export_becomes_a_device_or_the_reason_is_said() {
        let device = Device::open(&Target::Ram { size: 8 << 20 }, &DeviceOptions::default());
        let export = Export::new("disk", device.unwrap());
        if !fs::exists(wire::CONTROL).unwrap() {
            let refused = Disk::start(&export).unwrap_err();
            assert!(matches!(refused, ServeError::Os { .. }));
            assert!(refused.to_string().contains("modprobe ublk_drv"), "{refused}");
            return println!("skipped: {refused}");
        }
        use std::os::unix::fs::FileExt;
        let disk = match Disk::start(&export) {
            Ok(disk) => disk,
            Err(error) => return println!("skipped: {error}"),
        };
        let file = OpenOptions::new().read(true).write(true).open(disk.path()).unwrap();
        file.write_all_at(&[7; 10_000], 12_345).unwrap();
        file.sync_all().unwrap();
        let mut got = vec![0; 10_000];
        export
            .device
            .client(hoistway::IoPrio::NONE)
            .unwrap()
            .read(12_288, &mut got[..512])
            .unwrap();
        assert_eq!(got[57..512], [7; 455]);
        drop(file);
        assert!(disk.detach().unwrap());
        assert!(!disk.path().exists());
    }
}
