//! The driver itself: the control device, and a queue over io_uring and shared memory.

use super::queue::Ring;
use super::wire::{self, Control, DEPTH_MAX, DESCRIPTION, DeviceInfo, QueueCommand, UblkRequest};
use crate::error::{ServeError, os};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::time::Duration;

/// The control device; commands one after the other.
pub(super) struct ControlDevice {
    file: File,
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
}

impl ControlDevice {
    /// # Errors
    ///
    /// When the driver is not there, we may not use it, or the kernel's io_uring knows no commands of
    /// drivers.
    pub fn open() -> Result<ControlDevice, ServeError> {
        let file = OpenOptions::new().read(true).write(true).open(wire::CONTROL);
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                let remedy = "this kernel has no ublk driver; load it with `modprobe ublk_drv` \
                              (Linux 6.4 or newer, CONFIG_BLK_DEV_UBLK)";
                os(wire::CONTROL)(io::Error::new(error.kind(), remedy))
            }
            _ => os(wire::CONTROL)(error),
        })?;
        let ring = IoUring::builder().build(4);
        Ok(ControlDevice { file, ring: ring.map_err(os("io_uring with long entries"))? })
    }

    /// Carries out a command about a device. `buffer` is read, and written if the driver answers.
    pub fn run(
        &mut self,
        command: Control,
        device: u32,
        buffer: &mut [u8],
        data: u64,
    ) -> Result<(), ServeError> {
        let result = self.wait(command, device, buffer, data, None);
        result.map_err(os(format!("ublk: {}", command.name())))
    }

    /// Stops a device: what it has taken is finished, its block device goes. False if that takes longer
    /// than the limit; [`stopped`](ControlDevice::stopped) waits on.
    pub fn stop(&mut self, device: u32, limit: Duration) -> Result<bool, ServeError> {
        within(Control::Stop, self.wait(Control::Stop, device, &mut [], 0, Some(limit)))
    }

    /// Waits on for a stop that took too long.
    pub fn stopped(&mut self) -> Result<bool, ServeError> {
        within(Control::Stop, self.answer(Some(PATIENCE)))
    }

    /// Takes a device away for good. One that is still open somewhere is not waited for: the driver gives
    /// its number free when the last user lets go.
    pub fn delete(&mut self, device: u32) -> Result<(), ServeError> {
        delete(device, |command, limit| self.wait(command, device, &mut [], 0, limit))
    }

    fn wait(
        &mut self,
        command: Control,
        device: u32,
        buffer: &mut [u8],
        data: u64,
        limit: Option<Duration>,
    ) -> io::Result<()> {
        assert!(limit.is_none() || buffer.is_empty(), "who stops waiting leaves no memory behind");
        let len = u16::try_from(buffer.len()).expect("parameters are short");
        let place = (buffer.as_mut_ptr() as u64, len);
        let entry = opcode::UringCmd80::new(types::Fd(self.file.as_raw_fd()), command.number())
            .cmd(wire::control_command(device, place, data))
            .build();
        // SAFETY: the buffer is borrowed until the command is over, which is waited for; without a buffer
        // nothing is touched.
        let full = unsafe { self.ring.submission().push(&entry).is_err() };
        assert!(!full, "the ring has room for one command");
        self.answer(limit)
    }

    /// Submits what was pushed, and waits for its end; a signal lets the limit begin anew.
    fn answer(&mut self, limit: Option<Duration>) -> io::Result<()> {
        let limit = limit.map(types::Timespec::from);
        loop {
            let waited = match &limit {
                None => self.ring.submit_and_wait(1),
                Some(limit) => {
                    let args = types::SubmitArgs::new().timespec(limit);
                    self.ring.submitter().submit_with_args(1, &args)
                }
            };
            if let Some(done) = self.ring.completion().next() {
                return match done.result() {
                    0.. => Ok(()),
                    error => Err(io::Error::from_raw_os_error(-error)),
                };
            }
            match waited {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
    }
}

fn within(command: Control, result: io::Result<()>) -> Result<bool, ServeError> {
    match result {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::TIME) => Ok(false),
        result => {
            result.map_err(os(format!("ublk: {}", command.name())))?;
            Ok(true)
        }
    }
}

/// How long a driver that can only be waited for may take to delete a device or to stop
/// one whose requests all fail (chosen; it needs some milliseconds, unless somebody has the device open).
const PATIENCE: Duration = Duration::from_secs(3);

/// `run` carries out a command, and gives up after a limit.
fn delete(
    device: u32,
    mut run: impl FnMut(Control, Option<Duration>) -> io::Result<()>,
) -> Result<(), ServeError> {
    let deleted = match run(Control::Abandon, None) {
        // A driver that does not know it. Its other way waits for users, who may never let go.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::OPNOTSUPP) => {
            run(Control::Delete, Some(PATIENCE))
        }
        deleted => deleted,
    };
    deleted.map_err(os(format!("ublk: {} {device}", Control::Delete.name())))
}

impl fmt::Debug for ControlDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlDevice").finish_non_exhaustive()
    }
}

/// Queue 0 of a device that was added.
pub(super) struct DriverRing {
    // First, so that no command is under way any more when the file closes.
    ring: IoUring,
    file: File,
    descriptions: Descriptions,
    /// The fetches fit, or the device is not started; a commit follows a completion.
    depth: u16,
}

impl DriverRing {
    /// `file`: the device's own character device.
    pub fn new(file: File, info: &DeviceInfo) -> io::Result<DriverRing> {
        let descriptions = Descriptions::map(&file, info.depth)?;
        let ring = IoUring::new(u32::from(info.depth).next_power_of_two())?;
        Ok(DriverRing { ring, file, descriptions, depth: info.depth })
    }
}

impl Ring for DriverRing {
    fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring keeps its descriptor open as long as it lives.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }

    fn push(&mut self, command: QueueCommand) {
        let entry = opcode::UringCmd16::new(types::Fd(self.file.as_raw_fd()), command.number())
            .cmd(command.encode())
            .build()
            .user_data(command.tag().into());
        // SAFETY: the command carries the address of the tag's buffer, which the queue keeps in place
        // and leaves alone until the completion, or until this ring is closed.
        let full = unsafe { self.ring.submission().push(&entry).is_err() };
        assert!(!full, "the ring has a place for every tag");
    }

    fn submit(&mut self) -> Result<(), Errno> {
        loop {
            match self.ring.submit() {
                Ok(_) => return Ok(()),
                Err(error) => match Errno::from_io_error(&error) {
                    // Too many completions wait: the loop reaps them and submits again.
                    Some(Errno::INTR) => {}
                    Some(Errno::BUSY | Errno::AGAIN) => return Ok(()),
                    errno => return Err(errno.unwrap_or(Errno::IO)),
                },
            }
        }
    }

    fn completion(&mut self) -> Option<(u16, i32)> {
        let done = self.ring.completion().next()?;
        Some((done.user_data() as u16, done.result()))
    }

    fn request(&self, tag: u16) -> Result<UblkRequest, Errno> {
        assert!(tag < self.depth, "the queue knows its tags");
        UblkRequest::decode(&self.descriptions.read(tag))
    }
}

impl fmt::Debug for DriverRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriverRing").field("depth", &self.depth).finish_non_exhaustive()
    }
}

/// The memory in which the driver describes requests, for reading.
#[derive(Debug)]
struct Descriptions {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is this value's own, and only read.
unsafe impl Send for Descriptions {}

const PAGE: u64 = 4096;

impl Descriptions {
    fn map(file: impl AsFd, depth: u16) -> io::Result<Descriptions> {
        // Queues follow each other at the distance of the deepest one; ours is the first.
        debug_assert!(u64::from(depth) <= DEPTH_MAX);
        let bytes = (u64::from(depth) * DESCRIPTION as u64).next_multiple_of(PAGE) as usize;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a fresh mapping at a place of the kernel's choice disturbs nothing.
        let base = unsafe { mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, flags, file, 0)? };
        let base = NonNull::new(base.cast()).expect("a mapping is not at zero");
        Ok(Descriptions { base, bytes })
    }

    /// The driver has written it before it completed the tag's fetch, which was reaped.
    fn read(&self, tag: u16) -> [u8; DESCRIPTION] {
        let at = usize::from(tag) * DESCRIPTION;
        assert!(at + DESCRIPTION <= self.bytes, "the mapping holds every tag");
        // SAFETY: within the mapping, any bytes are a value of the type; volatile, since somebody else
        // writes there in between.
        unsafe { self.base.as_ptr().add(at).cast::<[u8; DESCRIPTION]>().read_volatile() }
    }
}

impl Drop for Descriptions {
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`; nobody holds a reference into it.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "a mapping of our own can be unmapped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shared memory, with a file in the driver's place.
    #[test]
    fn descriptions_are_read_where_the_tag_has_its_own() {
        use hoistway::Op;
        use std::os::unix::fs::FileExt;
        let path = std::env::temp_dir().join(format!("hoistway-ublk-{}", std::process::id()));
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.unwrap();
        std::fs::remove_file(&path).unwrap();
        file.set_len(8192).unwrap();
        let descriptions = Descriptions::map(&file, 256).unwrap();
        for tag in [0u16, 1, 255] {
            let request = UblkRequest {
                op: Op::Write,
                start: u64::from(tag) << 20,
                sectors: 8 + u32::from(tag),
                durable: tag == 1,
                keep: false,
            };
            file.write_all_at(&request.encode(), u64::from(tag) * 24).unwrap();
            assert_eq!(UblkRequest::decode(&descriptions.read(tag)), Ok(request));
        }
    }

    #[test]
    fn a_device_in_use_is_waited_for_only_by_drivers_that_know_no_better() {
        let errno = |errno: Errno| Err(io::Error::from(errno));
        let mut asked = Vec::new();
        let new = delete(3, |command, limit| {
            asked.push((command, limit));
            Ok(())
        });
        assert!(new.is_ok());
        assert_eq!(asked, [(Control::Abandon, None)]);
        asked.clear();
        let old = delete(3, |command, limit| {
            asked.push((command, limit));
            errno(if command == Control::Abandon { Errno::OPNOTSUPP } else { Errno::TIME })
        });
        assert_eq!(asked, [(Control::Abandon, None), (Control::Delete, Some(PATIENCE))]);
        assert!(old.unwrap_err().to_string().starts_with("ublk: delete the device 3: "));
        let missing = delete(3, |_, _| errno(Errno::NODEV));
        assert!(missing.unwrap_err().to_string().contains("No such device"));
    }

    /// A socket that nobody writes to takes the place of a driver that does not answer.
    #[test]
    fn a_command_that_takes_too_long_is_given_up() {
        let Ok(ring) = IoUring::builder().build(4) else {
            return println!("skipped: io_uring is not available");
        };
        let file = File::open("/dev/null").unwrap();
        let mut control = ControlDevice { file, ring };
        let (silent, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let fd = types::Fd(silent.as_raw_fd());
        let wait = squeue::Entry128::from(opcode::PollAdd::new(fd, libc::POLLIN as u32).build());
        // SAFETY: it touches no memory.
        unsafe { control.ring.submission().push(&wait).unwrap() };
        let limit = Duration::from_millis(20);
        for _ in 0..2 {
            let error = control.answer(Some(limit)).unwrap_err();
            assert_eq!(Errno::from_io_error(&error), Some(Errno::TIME));
        }
        // It can be waited for again.
        drop(_other);
        assert!(control.answer(None).is_ok());
    }

    /// Without the driver: /dev/null takes commands and does nothing, an ordinary file takes none.
    #[test]
    fn entries_reach_the_kernel() {
        let run = |file: File| {
            let ring = IoUring::builder().build(4).ok()?;
            let mut control = ControlDevice { file, ring };
            Some(control.run(Control::Add, wire::ANY_DEVICE, &mut [0; 64], 0))
        };
        let ordinary = std::env::current_exe().and_then(File::open).unwrap();
        let Some(refused) = run(ordinary) else {
            return println!("skipped: io_uring is not available");
        };
        let ServeError::Os { what, error } = refused.unwrap_err() else { panic!("another error") };
        assert_eq!(what, "ublk: add a device");
        assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP));
        // Linux 6.10 taught it to.
        if let Some(Err(refused)) = run(File::open("/dev/null").unwrap()) {
            assert!(refused.to_string().contains("os error 95"), "{refused}");
        }
    }
}
