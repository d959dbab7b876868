//! The engine against a plain array, on every backend; threads, errors, closing.
#![cfg(target_os = "linux")]

use hoistway::{IoPrio, sched};
use hoistway_serve::storage::{Emulation, FileOptions, Way};
use hoistway_serve::{Buffer, Client, Device, DeviceOptions, GroupSpec, ServeError, Target};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::rng::stream;
use std::io::ErrorKind;
use std::path::PathBuf;

/// A file of this test alone, deleted at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, size: u64) -> Scratch {
        let path = std::env::temp_dir().join(format!("hoistway-{}-{name}", std::process::id()));
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(size).unwrap();
        Scratch(path)
    }

    fn target(&self, options: FileOptions) -> Target {
        Target::File { path: self.0.clone(), options }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn scheduler(name: &str) -> DeviceOptions {
    DeviceOptions::new(sched::find(name).unwrap())
}

const SIZE: u64 = 4 << 20;
const BLOCK: u64 = 4096;

/// Batches of I/O that do not overlap within a batch, against an array.
fn check_against_an_array(device: &Device, seed: u64, batches: u32) {
    let client = device.client(IoPrio::NONE).unwrap();
    let mut random = stream(seed, "engine");
    let mut model = vec![0u8; SIZE as usize];
    for batch in 0..batches {
        let (mut at, mut under_way) = (random.below(64), Vec::new());
        while at < SIZE / BLOCK {
            let blocks = (1 + random.below(12)).min(SIZE / BLOCK - at);
            let (offset, len) = (at * BLOCK, (blocks * BLOCK) as usize);
            let range = offset as usize..offset as usize + len;
            at += blocks + if random.below(2) == 0 { 0 } else { random.below(90) };
            under_way.push(match random.below(if device.facts().discard { 9 } else { 8 }) {
                0..4 => (range, client.start_read(offset, Buffer::zeroed(len))),
                4..7 => {
                    let fill = random.below(256) as u8;
                    model[range.clone()].fill(fill);
                    let buffer = Buffer::from_slice(&model[range]);
                    (0..0, client.start_write(offset, buffer))
                }
                7 => {
                    let mut buffer = Buffer::zeroed(len);
                    buffer.fill(batch as u8);
                    model[range].fill(batch as u8);
                    (0..0, client.start_durable_write(offset, buffer))
                }
                _ => {
                    model[range].fill(0);
                    (0..0, client.start_discard(offset, len as u64))
                }
            });
        }
        for (range, pending) in under_way {
            let buffer = pending.wait().unwrap();
            if !range.is_empty() {
                assert!(buffer[..] == model[range.clone()], "batch {batch}, bytes {range:?}");
            }
        }
        if random.below(4) == 0 {
            client.flush().unwrap();
        }
    }
    client.write_zeroes(BLOCK, 700 * BLOCK).unwrap();
    model[BLOCK as usize..701 * BLOCK as usize].fill(0);
    let mut all = vec![1; SIZE as usize];
    client.read(0, &mut all).unwrap();
    assert!(all == model);
    let counters = device.counters().unwrap();
    assert_eq!((counters.submitted, counters.issued), (counters.finished, counters.completed));
}

#[test]
fn memory_is_an_array_under_every_scheduler() {
    for (n, entry) in sched::SCHEDULERS.iter().enumerate() {
        let options = DeviceOptions::new(entry);
        let device = Device::open(&Target::Ram { size: SIZE }, &options).unwrap();
        check_against_an_array(&device, n as u64, 12);
    }
}

#[test]
fn a_file_is_an_array_whichever_way_it_is_reached() {
    for way in [Way::Best, Way::Threads] {
        for direct in [false, true] {
            let scratch = Scratch::new(&format!("array-{way:?}-{direct}"), SIZE);
            let target = scratch.target(FileOptions { direct, read_only: false, way });
            let device = match Device::open(&target, &scheduler("mq-deadline")) {
                Err(ServeError::Os { what, error }) if direct => {
                    println!("skipped: no direct I/O here: {what}: {error}");
                    continue;
                }
                other => other.unwrap(),
            };
            println!("{}; {:?}", device.facts().summary, device.facts().warning);
            check_against_an_array(&device, 7, 12);
            device.close().unwrap();
        }
    }
}

#[test]
fn an_emulated_drive_is_an_array_and_measures_itself() {
    let drive = DriveFile::load("plextor-px-256m5s").unwrap();
    let mut emulation = Emulation::new(drive);
    emulation.size = Some(SIZE);
    let in_memory = Target::Emulated(Box::new(emulation.clone()));
    let scratch = Scratch::new("emulated", 0);
    emulation.file = Some(scratch.0.clone());
    for target in [in_memory, Target::Emulated(Box::new(emulation))] {
        let device = match Device::open(&target, &scheduler("bfq")) {
            Err(error @ ServeError::TooFast { .. }) => return println!("skipped: {error}"),
            other => other.unwrap(),
        };
        check_against_an_array(&device, 3, 3);
        let figures = device.emulation().unwrap().unwrap();
        assert!(figures.commands > 0 && figures.modelled_mean.as_us() > 10, "{figures:?}");
        assert!(figures.achieved_mean >= figures.modelled_mean);
    }
}

#[test]
fn a_drive_beyond_this_machine_is_refused_with_the_figure() {
    let text =
        "schema = 1\nname = \"dream\"\nbase = \"fixed-100us\"\n[iocost]\nrrandiops = 4000000000\n";
    let drive = DriveFile::parse("dream.toml", text).unwrap();
    let open = |target: &Target| Device::open(target, &DeviceOptions::default()).unwrap_err();
    // What is wrong on every machine comes first, and nothing is left of what comes to nothing.
    for (before, too_fast) in [(None, true), (Some(0), true), (Some(4096), false)] {
        let scratch = Scratch::new("dream", before.unwrap_or(0));
        if before.is_none() {
            std::fs::remove_file(&scratch.0).unwrap();
        }
        let (size, file) = (Some(1 << 20), Some(scratch.0.clone()));
        let emulation = Emulation { size, file, ..Emulation::new(drive.clone()) };
        let refused = open(&Target::Emulated(Box::new(emulation)));
        assert_eq!(matches!(refused, ServeError::TooFast { .. }), too_fast, "{refused}");
        let left = std::fs::metadata(&scratch.0).ok().map(|file| file.len());
        assert_eq!(left, before, "{refused}");
    }
    let refused = open(&Target::emulated(drive));
    let message = refused.to_string();
    assert!(matches!(refused, ServeError::TooFast { .. }), "{message}");
    assert!(message.contains("4000000000 random reads per second"), "{message}");
    assert!(message.contains("on one core"), "{message}");
}

#[test]
fn many_threads_share_a_device_while_its_scheduler_changes() {
    let device = Device::open(&Target::Ram { size: SIZE }, &scheduler("none")).unwrap();
    let (group, idle) = device.set_group(&GroupSpec::new("gold").weight(300)).unwrap();
    assert_eq!(idle, ["weight = 300 of a group has no effect under none"]);
    std::thread::scope(|scope| {
        for t in 0..4u64 {
            let client = device.client_of(group, IoPrio::be(4)).unwrap();
            scope.spawn(move || write_and_read_a_quarter(&client, t));
        }
        for name in ["bfq", "mq-deadline", "kyber", "bfq", "none", "sio", "bfq"] {
            device.switch_scheduler(sched::find(name).unwrap(), &[]).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    });
    assert_eq!(device.scheduler().unwrap(), "bfq");
}

fn write_and_read_a_quarter(client: &Client, quarter: u64) {
    let (mut random, base) = (stream(quarter, "engine"), quarter * (SIZE / 4));
    for n in 0..600u64 {
        let at = base + random.below(SIZE / 4 / BLOCK) * BLOCK;
        let bytes = [n as u8; BLOCK as usize];
        client.write(at, &bytes).unwrap();
        let mut got = [0; BLOCK as usize];
        client.read(at, &mut got).unwrap();
        assert!(got == bytes, "quarter {quarter}, write {n}");
    }
}

#[test]
fn a_wrong_range_is_an_error_of_that_request_alone() {
    let device = Device::open(&Target::Ram { size: SIZE }, &scheduler("none")).unwrap();
    let client = device.client(IoPrio::NONE).unwrap();
    let good = client.start_write(0, Buffer::from_slice(&[1; 512]));
    let beyond = client.start_write(SIZE, Buffer::zeroed(512));
    let odd = client.start_read(100, Buffer::zeroed(512));
    let read_beyond = client.start_read(SIZE - 512, Buffer::zeroed(1024));
    assert_eq!(beyond.wait().unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(odd.wait().unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(read_beyond.wait().unwrap_err().kind(), ErrorKind::InvalidInput);
    good.wait().unwrap();
}

#[test]
fn a_file_that_was_cut_gives_errors_where_it_ends() {
    for way in [Way::Best, Way::Threads] {
        let scratch = Scratch::new(&format!("cut-{way:?}"), SIZE);
        let target = scratch.target(FileOptions { way, ..FileOptions::default() });
        let device = Device::open(&target, &scheduler("mq-deadline")).unwrap();
        let client = device.client(IoPrio::NONE).unwrap();
        std::fs::File::options().write(true).open(&scratch.0).unwrap().set_len(SIZE / 2).unwrap();
        let reads: Vec<_> = (0..SIZE / BLOCK)
            .map(|n| client.start_read(n * BLOCK, Buffer::zeroed(BLOCK as usize)))
            .collect();
        for (n, read) in reads.into_iter().enumerate() {
            assert_eq!(read.wait().is_ok(), (n as u64) < SIZE / BLOCK / 2, "block {n}");
        }
    }
}

#[test]
fn a_read_only_file_is_not_written() {
    let scratch = Scratch::new("read-only", SIZE);
    let options = FileOptions { read_only: true, ..FileOptions::default() };
    let device = Device::open(&scratch.target(options), &DeviceOptions::default()).unwrap();
    let client = device.client(IoPrio::NONE).unwrap();
    let refused = client.write(0, &[0; 512]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    client.read(0, &mut [0; 512]).unwrap();
}

#[test]
fn a_closed_device_answers_that_it_is_closed() {
    let device = Device::open(&Target::Ram { size: SIZE }, &DeviceOptions::default()).unwrap();
    let client = device.client(IoPrio::NONE).unwrap();
    client.write(0, &[1; 512]).unwrap();
    device.close().unwrap();
    let error = client.read(0, &mut [0; 512]).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(108), "ESHUTDOWN: {error}");
    assert!(matches!(device.counters(), Err(ServeError::Closed)));
}

#[test]
fn an_io_can_be_awaited() {
    use std::future::Future;
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Wake, Waker};
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let device = Device::open(&Target::Ram { size: SIZE }, &DeviceOptions::default()).unwrap();
    let client = device.client(IoPrio::NONE).unwrap();
    let task = async {
        client.start_write(0, Buffer::from_slice(&[5; 4096])).await?;
        client.start_read(0, Buffer::zeroed(4096)).await
    };
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let (mut task, mut cx) = (pin!(task), Context::from_waker(&waker));
    let got = loop {
        match task.as_mut().poll(&mut cx) {
            Poll::Ready(got) => break got.unwrap(),
            Poll::Pending => std::thread::park(),
        }
    };
    assert!(got.iter().all(|&b| b == 5));
}
