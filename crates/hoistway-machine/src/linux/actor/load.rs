//! What one process of a scenario does.

use super::DISK;
use super::scenario::{IoOrder, Load, Process};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::time::Duration;

/// The guest's clock in ns.
pub fn clock() -> u64 {
    hoistway_serve::system::monotonic()
}

pub fn sleep_until(at: u64) {
    let now = clock();
    if at > now {
        std::thread::sleep(Duration::from_nanos(at - now));
    }
}

/// One process, from its start to its end.
pub fn run(process: &Process, number: usize, origin: u64) -> Result<(), String> {
    let direct = !matches!(process.load, Load::Buffered(_));
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(if direct { libc::O_DIRECT } else { 0 });
    let disk = options.open(DISK).map_err(|e| format!("{DISK}: {e}"))?;
    sleep_until(origin + process.start * 1_000_000);
    let end = origin + process.end * 1_000_000;
    let mut path = Path { process, next: 0, random: random(number as u64) };
    match process.load {
        Load::Children(n) => children(&disk, &mut path, n, end),
        Load::Periodic(ms) => periodic(&disk, &mut path, ms, end),
        Load::Read | Load::Write | Load::Mixed if process.depth > 1 => deep(&disk, &mut path, end),
        Load::Read | Load::Write | Load::Mixed | Load::Buffered(_) => {
            one_by_one(&disk, &mut path, end)
        }
    }
    .map_err(|e| format!("I/O: {e}"))
}

/// The state of the random numbers of a process: xorshift64.
fn random(number: u64) -> u64 {
    let mut state = 88_172_645_463_325_252 + 7919 * (number + 1);
    (0..20).for_each(|_| step(&mut state));
    state
}

fn step(state: &mut u64) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
}

/// Where the I/O goes.
struct Path<'a> {
    process: &'a Process,
    next: u64,
    random: u64,
}

impl Path<'_> {
    fn draw(&mut self, below: u64) -> u64 {
        step(&mut self.random);
        self.random % below
    }

    /// The first byte of the next I/O.
    fn place(&mut self) -> u64 {
        let Process { bytes, base, span, order, .. } = *self.process;
        let stride = match order {
            IoOrder::Random => return base + self.draw(span / bytes) * bytes,
            IoOrder::Sequential => bytes,
            IoOrder::Stride(stride) => stride,
        };
        let at = self.next * stride % (span / bytes * bytes);
        self.next += 1;
        // A stride need not divide the region.
        base + at.min(span - bytes) / 512 * 512
    }

    fn writes(&mut self) -> bool {
        match self.process.load {
            Load::Write | Load::Buffered(_) => true,
            Load::Mixed => self.draw(2) == 1,
            Load::Read | Load::Periodic(_) | Load::Children(_) => false,
        }
    }

    fn think(&self) {
        if self.process.think > 0 {
            std::thread::sleep(Duration::from_micros(self.process.think));
        }
    }
}

/// Memory for direct I/O, never given back: the process ends soon. The kernel alone fills it with zeroes. A page that
/// the process touches itself is a fault, which costs user-mode Linux as much as a system call: with 16 MB of
/// them in a process, more than all its I/O.
fn buffer(bytes: usize) -> io::Result<&'static mut [u8]> {
    // SAFETY: a new mapping is nobody else's, is zeroed, and begins at a page.
    unsafe {
        let memory = libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
            -1,
            0,
        );
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(std::slice::from_raw_parts_mut(memory.cast(), bytes))
    }
}

fn transfer(disk: &File, buffer: &mut [u8], write: bool, at: u64) -> io::Result<()> {
    let done = if write { disk.write_at(buffer, at)? } else { disk.read_at(buffer, at)? };
    if done == buffer.len() { Ok(()) } else { Err(io::Error::other("a part only was carried out")) }
}

fn one_by_one(disk: &File, path: &mut Path<'_>, end: u64) -> io::Result<()> {
    let buffer = buffer(path.process.bytes as usize)?;
    let mut written = 0u32;
    while clock() < end {
        path.think();
        let (at, write) = (path.place(), path.writes());
        transfer(disk, buffer, write, at)?;
        if let Load::Buffered(every) = path.process.load {
            written += 1;
            // Of 0 no other number is a multiple.
            if written.is_multiple_of(every) {
                write_back(disk)?;
            }
        }
    }
    Ok(())
}

/// Writes back what the page cache holds. A direct write that met a page under way leaves EIO for whoever asks next:
/// the data may be old, which nobody here minds.
pub fn write_back(disk: &File) -> io::Result<()> {
    match rustix::fs::fdatasync(disk) {
        Ok(()) | Err(rustix::io::Errno::IO) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

fn periodic(disk: &File, path: &mut Path<'_>, ms: u64, end: u64) -> io::Result<()> {
    let buffer = buffer(path.process.bytes as usize)?;
    let begin = clock();
    for n in 1.. {
        if clock() >= end {
            break;
        }
        let at = path.place();
        transfer(disk, buffer, false, at)?;
        sleep_until(begin + n * ms.max(1) * 1_000_000);
    }
    Ok(())
}

fn children(disk: &File, path: &mut Path<'_>, n: u32, end: u64) -> io::Result<()> {
    for _ in 0..n {
        if clock() >= end {
            break;
        }
        let seed = path.draw(u64::MAX);
        // SAFETY: this process has one thread.
        match unsafe { libc::fork() } {
            -1 => return Err(io::Error::last_os_error()),
            0 => {
                path.random = seed | 1;
                let done = buffer(path.process.bytes as usize).and_then(|buffer| {
                    (0..4).try_for_each(|_| {
                        let at = path.place();
                        transfer(disk, buffer, false, at)?;
                        path.think();
                        Ok(())
                    })
                });
                // SAFETY: nothing of the parent's is run or flushed.
                unsafe { libc::_exit(i32::from(done.is_err())) }
            }
            _ => {
                let mut status = 0;
                // SAFETY: `status` lives.
                let ended = unsafe { libc::wait(&raw mut status) };
                check(ended.into())?;
                if status != 0 {
                    return Err(io::Error::other(format!("a child ended with status {status:#x}")));
                }
            }
        }
    }
    Ok(())
}

/// One command of Linux's asynchronous I/O, as the kernel reads it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Command {
    data: u64,
    key: u32,
    flags: u32,
    op: u16,
    prio: i16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    more_flags: u32,
    event_fd: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct AioEvent {
    data: u64,
    command: u64,
    result: i64,
    result_2: i64,
}

/// Several at a time: whenever some are done, as many follow, one by one.
fn deep(disk: &File, path: &mut Path<'_>, end: u64) -> io::Result<()> {
    let depth = path.process.depth as usize;
    let mut context = 0u64;
    // SAFETY: `context` lives.
    check(unsafe { libc::syscall(libc::SYS_io_setup, depth, &raw mut context) })?;
    let mut commands = vec![Command::default(); depth];
    for (slot, command) in commands.iter_mut().enumerate() {
        let memory = buffer(path.process.bytes as usize)?;
        *command = Command {
            data: slot as u64,
            fd: disk.as_raw_fd() as u32,
            buffer: memory.as_mut_ptr() as u64,
            bytes: path.process.bytes,
            ..Command::default()
        };
        submit(context, command, path)?;
    }
    let mut events = vec![AioEvent::default(); depth];
    let mut out = depth;
    while out > 0 {
        // SAFETY: `events` has room for `depth` of them; their buffers are never given back.
        let done = check(unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                context,
                1usize,
                depth,
                events.as_mut_ptr(),
                std::ptr::null::<u8>(),
            )
        })?;
        for event in &events[..done] {
            if event.result != path.process.bytes as i64 {
                return Err(io::Error::other(format!("result {}", event.result)));
            }
            out -= 1;
            if clock() < end {
                path.think();
                submit(context, &mut commands[event.data as usize], path)?;
                out += 1;
            }
        }
    }
    Ok(())
}

fn submit(context: u64, command: &mut Command, path: &mut Path<'_>) -> io::Result<()> {
    command.offset = path.place() as i64;
    command.op = u16::from(path.writes());
    let mut list = [std::ptr::from_mut(command)];
    // SAFETY: one command, which lives until its event was taken, as does its buffer.
    let taken =
        check(unsafe { libc::syscall(libc::SYS_io_submit, context, 1usize, list.as_mut_ptr()) })?;
    if taken == 1 { Ok(()) } else { Err(io::Error::other("not taken")) }
}

fn check(answer: libc::c_long) -> io::Result<usize> {
    usize::try_from(answer).map_err(|_| io::Error::last_os_error())
}
