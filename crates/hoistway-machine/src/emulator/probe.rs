//! What the real path carries: reads of the loop device, which a drive of constant time answers.
//!
//! Nothing is written, so a drive whose data is in a file is left as it is.

use super::acting::{Acting, COLD, PathTime, Service};
use crate::{MachineError, os};
use hoistway::{Instant, Nanos};
use hoistway_serve::system::Buffer;
use hoistway_serve::system::Clock;
use io_uring::{IoUring, opcode, types};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// What this machine carries through loop device and FUSE.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Carried {
    /// Random reads of 4 KiB per second, as many together as the drive takes.
    pub iops: u64,
    /// Bytes per second in the largest requests.
    pub bytes_per_second: u64,
    /// What the path adds to a command, which is taken off again.
    pub path: PathTime,
}

/// Time of each of the two tests of rates, and of latencies.
const RATE: Nanos = Nanos::ms(200);
const LATENCY: Nanos = Nanos::ms(150);
/// Pause between two reads where the path after a pause is tried, and the time for that: 30 reads.
const PAUSE: Nanos = Nanos::ms(10);
const PAUSED: Nanos = Nanos::ms(300);
/// Constant time of the drive where the timer is tried.
const TIMED: Nanos = Nanos::us(200);
const SMALL: u32 = 4096;

/// Longest lateness of the timer that is believed: more of it is a machine that is busy just now.
const WAKE_MOST: Nanos = Nanos::us(200);
/// Most that a pause is believed to cost, for the same reason.
const COLD_MOST: Nanos = Nanos::us(200);
const _: () = assert!(PAUSE.0 > COLD.1.0);

/// Measures, with `depth` commands of the drive under way at most.
pub(super) fn measure(
    device: &Path,
    drive: &Acting,
    size: u64,
    longest: u32,
    depth: u32,
) -> Result<Carried, MachineError> {
    let what = || format!("self-test of {}", device.display());
    let open = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(device);
    let file = open.map_err(os(what()))?;
    let large = (longest as u64).min(size) as u32 / SMALL * SMALL;
    let paused = |time: Nanos, len: u32, depth: u32, pause: Nanos, span: Nanos| {
        drive.serve(Service::Fixed(time), PathTime::default());
        let load = ScatteredReads { size, len: len.max(SMALL), depth, pause, span };
        urgent_reads(&file, load).map_err(os(what()))
    };
    let probe = |time, len, depth, span| paused(time, len, depth, Nanos::ZERO, span);
    // The first reads find nothing warm: the kernel's buffers, this program's pages.
    probe(Nanos::us(100), SMALL, 4, Nanos::ms(20))?;
    probe(Nanos::us(100), large, 4, Nanos::ms(20))?;
    let small = probe(Nanos::ZERO, SMALL, 1, LATENCY)?;
    let big = probe(Nanos::ZERO, large, 1, LATENCY)?;
    let timed = probe(TIMED, SMALL, 1, LATENCY)?;
    let cold = paused(TIMED, SMALL, 1, PAUSE, PAUSED)?;
    let rate = probe(Nanos::us(100), SMALL, depth.min(128), RATE)?;
    let stream = probe(Nanos::us(100), large, depth.min(4), RATE)?;
    let fixed = small.median;
    let cold = Nanos(cold.median.0.saturating_sub(timed.median.0)).min(COLD_MOST);
    let wake = Nanos(timed.median.0.saturating_sub(TIMED.0 + fixed.0)).min(WAKE_MOST);
    let kib = f64::from(large.saturating_sub(SMALL)) / 1024.0;
    let per_kib = if kib > 0.0 { big.median.0.saturating_sub(fixed.0) as f64 / kib } else { 0.0 };
    Ok(Carried {
        iops: rate.per_second(),
        bytes_per_second: stream.per_second() * u64::from(large.max(SMALL)),
        path: PathTime { fixed, cold, wake, per_kib },
    })
}

/// Reads at scattered places.
#[derive(Clone, Copy)]
struct ScatteredReads {
    /// Bytes of the device, and of a read.
    size: u64,
    len: u32,
    /// So many under way.
    depth: u32,
    /// Before each read but the first ones; for a depth of one.
    pause: Nanos,
    span: Nanos,
}

struct Reads {
    count: u64,
    span: Nanos,
    median: Nanos,
}

impl Reads {
    fn per_second(&self) -> u64 {
        (u128::from(self.count) * 1_000_000_000 / u128::from(self.span.0.max(1))) as u64
    }
}

/// [`reads`] by a thread that does not wait for a processor: what others compute is no part of the path.
fn urgent_reads(file: &File, load: ScatteredReads) -> io::Result<Reads> {
    let result = std::thread::scope(|scope| {
        let read = || {
            hoistway_serve::system::thread::urgent();
            reads(file, load)
        };
        scope.spawn(read).join()
    });
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn reads(file: &File, load: ScatteredReads) -> io::Result<Reads> {
    let ScatteredReads { size, len, depth, pause, span } = load;
    let mut ring = IoUring::new(depth.next_power_of_two())?;
    let mut buffers: Vec<Buffer> = (0..depth).map(|_| Buffer::zeroed(len as usize)).collect();
    let blocks = (size / u64::from(len)).max(1);
    let (clock, mut number) = (Clock::new(), 0u64);
    let mut sent = vec![Instant::ZERO; depth as usize];
    let mut times = Vec::new();
    let mut submit = |ring: &mut IoUring, slot: usize, sent: &mut [Instant]| {
        // A multiplicative hash (Knuth): spread over the drive, and the same on every run.
        let block = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % blocks;
        number += 1;
        sent[slot] = clock.now();
        let read = opcode::Read::new(types::Fd(file.as_raw_fd()), buffers[slot].as_mut_ptr(), len)
            .offset(block * u64::from(len))
            .build()
            .user_data(slot as u64);
        // SAFETY: buffer and file live until every read that the kernel has is done. The function ends before the first
        // is given to it, when the loop below has waited for all, or by an error of the ring: then the buffers are
        // never given back.
        let pushed = unsafe { ring.submission().push(&read) };
        pushed.map_err(|_| io::Error::other("a ring of that many entries is full"))
    };
    for slot in 0..depth as usize {
        submit(&mut ring, slot, &mut sent)?;
    }
    let (began, mut under_way, mut failed) = (clock.now(), depth, None);
    let mut ended = began;
    while under_way > 0 {
        match ring.submit_and_wait(1) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                // Reads may still be under way: their memory is never given back.
                std::mem::forget(buffers);
                return Err(error);
            }
            Ok(_) => {}
        }
        let done: Vec<_> =
            ring.completion().map(|c| (c.user_data() as usize, c.result())).collect();
        for (slot, result) in done {
            ended = clock.now();
            under_way -= 1;
            if result < len as i32 && failed.is_none() {
                failed = Some(match result {
                    short if short >= 0 => io::Error::other("a read came back short"),
                    error => io::Error::from_raw_os_error(-error),
                });
            }
            times.push(ended.since(sent[slot]).0);
            if failed.is_none() && ended.since(began) < span {
                if pause > Nanos::ZERO {
                    std::thread::sleep(Duration::from_nanos(pause.0));
                }
                match submit(&mut ring, slot, &mut sent) {
                    Ok(()) => under_way += 1,
                    // Those under way are waited for.
                    Err(error) => failed = Some(error),
                }
            }
        }
    }
    if let Some(error) = failed {
        return Err(error);
    }
    times.sort_unstable();
    let median = Nanos(times.get(times.len() / 2).copied().unwrap_or(0));
    Ok(Reads { count: times.len() as u64, span: ended.since(began), median })
}
