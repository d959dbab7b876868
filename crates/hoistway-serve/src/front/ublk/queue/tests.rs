//! A queue against a driver in memory.

use super::*;
use crate::device::{Device, DeviceOptions, Message};
use crate::front::Export;
use crate::{ServeError, Target};
use hoistway::sched;
use hoistway_sim::rng::stream;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

const DEPTH: u16 = 8;
const LONGEST: u32 = 64 << 10;

/// A driver in memory: what it was told last for each tag, and what it will say.
#[derive(Debug)]
struct Driver {
    wakeup: OwnedFd,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    pushed: Vec<QueueCommand>,
    /// Address of the buffer of each tag that waits for a request.
    waiting: Vec<Option<u64>>,
    requests: Vec<Option<Result<UblkRequest, Errno>>>,
    completions: VecDeque<(u16, i32)>,
    results: Vec<Option<i32>>,
    closed: bool,
}

#[derive(Debug)]
struct FakeRing(Arc<Driver>);

impl Drop for FakeRing {
    fn drop(&mut self) {
        self.0.state.lock().unwrap().closed = true;
        self.0.changed.notify_all();
    }
}

impl Ring for FakeRing {
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.wakeup.as_fd()
    }

    fn push(&mut self, command: QueueCommand) {
        self.0.state.lock().unwrap().pushed.push(command);
    }

    fn submit(&mut self) -> Result<(), Errno> {
        let mut state = self.0.state.lock().unwrap();
        for command in std::mem::take(&mut state.pushed) {
            let (tag, address) = match command {
                QueueCommand::Fetch { tag, address } => (usize::from(tag), address),
                QueueCommand::Commit { tag, result, address } => {
                    state.results[usize::from(tag)] = Some(result);
                    (usize::from(tag), address)
                }
            };
            assert!(state.waiting[tag].replace(address).is_none(), "tag {tag} waits already");
        }
        self.0.changed.notify_all();
        Ok(())
    }

    fn completion(&mut self) -> Option<(u16, i32)> {
        let mut state = self.0.state.lock().unwrap();
        let next = state.completions.pop_front();
        if next.is_none() {
            let _ = rustix::io::read(&self.0.wakeup, &mut [0u8; 8]);
        }
        next
    }

    fn request(&self, tag: u16) -> Result<UblkRequest, Errno> {
        let state = self.0.state.lock().unwrap();
        state.requests[usize::from(tag)].expect("the driver has described it")
    }
}

impl Driver {
    fn new() -> Arc<Driver> {
        let wakeup = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap();
        let depth = usize::from(DEPTH);
        let state = State {
            waiting: vec![None; depth],
            requests: vec![None; depth],
            results: vec![None; depth],
            ..State::default()
        };
        Arc::new(Driver { wakeup, state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Waits for something to be true of the state, 20 s at most.
    fn wait<T>(&self, mut what: impl FnMut(&mut State) -> Option<T>) -> T {
        let mut state = self.state.lock().unwrap();
        loop {
            if let Some(found) = what(&mut state) {
                return found;
            }
            let limit = Duration::from_secs(20);
            let (next, timeout) = self.changed.wait_timeout(state, limit).unwrap();
            assert!(!timeout.timed_out(), "nothing happens: {next:?}");
            state = next;
        }
    }

    fn say(&self, tag: usize, result: i32) {
        self.state.lock().unwrap().completions.push_back((tag as u16, result));
        rustix::io::write(&self.wakeup, &1u64.to_ne_bytes()).unwrap();
    }

    /// Sends a request as the kernel does: data of writes goes into the buffer before, data of reads
    /// comes out of it afterwards.
    fn begin(&self, request: Result<UblkRequest, Errno>, data: &[u8]) -> usize {
        let (tag, address) = self.wait(|state| {
            // A tag whose result nobody has looked at is not free.
            let free = |&tag: &usize| state.waiting[tag].is_some() && state.results[tag].is_none();
            let tag = (0..usize::from(DEPTH)).find(free)?;
            state.requests[tag] = Some(request);
            Some((tag, state.waiting[tag].take()?))
        });
        assert_eq!(address % 4096, 0);
        // SAFETY: the queue keeps the buffer of a waiting tag alive and leaves it alone.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), address as *mut u8, data.len()) };
        self.say(tag, 0);
        tag
    }

    /// Waits for its result; a read's bytes.
    fn end(&self, tag: usize, len: usize) -> (i32, Vec<u8>) {
        let (result, address) = self.wait(|state| {
            let address = state.waiting[tag]?;
            Some((state.results[tag].take()?, address))
        });
        let mut data = vec![0; len];
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(address as *const u8, data.as_mut_ptr(), len) };
        (result, data)
    }

    fn ask(&self, op: Op, start: u64, sectors: u32) -> i32 {
        let request = UblkRequest { op, start, sectors, durable: false, keep: false };
        let tag = self.begin(Ok(request), &[]);
        self.end(tag, 0).0
    }

    fn read(&self, start: u64, sectors: u32) -> Vec<u8> {
        let request = UblkRequest { op: Op::Read, start, sectors, durable: false, keep: false };
        let tag = self.begin(Ok(request), &[]);
        let (result, data) = self.end(tag, sectors as usize * 512);
        assert_eq!(result, sectors as i32 * 512);
        data
    }

    fn write(&self, start: u64, data: &[u8], durable: bool) -> i32 {
        let sectors = data.len() as u32 / 512;
        let request = UblkRequest { op: Op::Write, start, sectors, durable, keep: false };
        let tag = self.begin(Ok(request), data);
        self.end(tag, 0).0
    }

    fn stop(&self) {
        for tag in 0..usize::from(DEPTH) {
            self.wait(|state| state.waiting[tag].take());
            self.say(tag, GONE);
        }
        self.wait(|state| state.closed.then_some(()));
    }
}

fn start(export: &Export) -> Result<Arc<Driver>, ServeError> {
    let driver = Driver::new();
    let info =
        ConnectionInfo { connection: 0, export: export.name.clone(), peer: "ublk test".into() };
    let ring = FakeRing(Arc::clone(&driver));
    let queue = Queue::new(ring, DEPTH, LONGEST, export.view()?, info);
    export.device.send(Message::Session(Box::new(queue)))?;
    Ok(driver)
}

fn ram() -> Device {
    let options = DeviceOptions::new(sched::find("bfq").unwrap());
    Device::open(&Target::Ram { size: 4 << 20 }, &options).unwrap()
}

#[test]
fn requests_go_round_and_bytes_arrive() {
    let mut export = Export::new("part", ram());
    (export.offset, export.size) = (1 << 20, Some(2 << 20));
    let driver = start(&export).unwrap();
    let bytes: Vec<u8> = (0..LONGEST).map(|n| (n % 251) as u8).collect();
    assert_eq!(driver.write(8, &bytes, true), LONGEST as i32);
    assert_eq!(driver.ask(Op::Flush, 0, 0), 0);
    assert_eq!(driver.read(8, 128), bytes);
    assert_eq!(driver.read(7, 3)[..512], [0; 512]);
    // The export begins at 1 MiB of the device.
    let client = export.device.client(hoistway::IoPrio::NONE).unwrap();
    let mut got = vec![0; 512];
    client.read((1 << 20) + 4096, &mut got).unwrap();
    assert_eq!(got, bytes[..512]);
    assert_eq!(driver.ask(Op::Discard, 8, 4), 2048);
    assert_eq!(driver.read(8, 4), vec![0; 2048]);
    assert_eq!(driver.ask(Op::WriteZeroes, 12, 4), 2048);
    assert_eq!(driver.read(12, 4), vec![0; 2048]);
    let done = export.device.report().unwrap().clients[0].done;
    assert_eq!((done.writes, done.reads, done.others, done.errors), (1, 4, 3, 0));
    driver.stop();
    assert!(export.device.report().unwrap().clients.is_empty());
}

#[test]
fn requests_that_do_not_fit_get_the_error_and_the_tag_goes_on() {
    let mut export = Export::new("disk", ram());
    export.size = Some(1 << 20);
    let driver = start(&export).unwrap();
    let invalid = -Errno::INVAL.raw_os_error();
    assert_eq!(driver.ask(Op::Read, 2047, 2), invalid, "beyond the end");
    assert_eq!(driver.ask(Op::Read, u64::MAX / 512, 1), invalid);
    assert_eq!(driver.ask(Op::Read, 0, LONGEST / 512 + 1), invalid, "longer than the buffer");
    assert_eq!(driver.ask(Op::Write, 0, 0), invalid);
    let unknown = driver.begin(Err(Errno::OPNOTSUPP), &[]);
    assert_eq!(driver.end(unknown, 0).0, -Errno::OPNOTSUPP.raw_os_error());
    assert_eq!(driver.read(2047, 1), [0; 512]);
    driver.stop();
    export.read_only = true;
    let driver = start(&export).unwrap();
    assert_eq!(driver.write(0, &[1; 512], false), -Errno::ROFS.raw_os_error());
    assert_eq!(driver.ask(Op::Discard, 0, 8), -Errno::ROFS.raw_os_error());
    assert_eq!(driver.read(0, 1), [0; 512]);
    driver.stop();
}

/// Many requests at once, tags in any order, against a copy.
#[test]
fn all_tags_work_at_once() {
    let export = Export::new("disk", ram());
    let driver = start(&export).unwrap();
    let mut shadow = vec![0u8; 1 << 20];
    let mut random = stream(3, "ublk");
    let mut random = move |below: u64| random.below(below);
    for round in 0..200u64 {
        // Eight places that do not overlap, each read or written.
        let tags: Vec<_> = (0..u64::from(DEPTH))
            .map(|n| {
                let start = n * 256 + random(200);
                let sectors = 1 + random(50) as u32;
                let range = start as usize * 512..(start as usize + sectors as usize) * 512;
                let write = random(2) == 0;
                let op = if write { Op::Write } else { Op::Read };
                if write {
                    shadow[range.clone()].fill((round + n) as u8);
                }
                let request = UblkRequest { op, start, sectors, durable: false, keep: false };
                let data = if write { &shadow[range.clone()] } else { &[][..] };
                (driver.begin(Ok(request), data), write, range)
            })
            .collect();
        for (tag, write, range) in tags.into_iter().rev() {
            let len = if write { 0 } else { range.len() };
            let (result, data) = driver.end(tag, len);
            assert_eq!(result, range.len() as i32);
            assert!(write || data == shadow[range.clone()], "round {round}: {range:?}");
        }
    }
    driver.stop();
}

#[test]
fn a_driver_that_refuses_fetches_is_heard_before_it_is_waited_for() {
    let export = Export::new("disk", ram());
    let driver = Driver::new();
    driver.say(3, -Errno::INVAL.raw_os_error());
    let info = ConnectionInfo { connection: 0, export: "disk".into(), peer: "ublk test".into() };
    let view = export.view().unwrap();
    let queue = Queue::new(FakeRing(Arc::clone(&driver)), DEPTH, LONGEST, view, info);
    let refusal = queue.refusal();
    export.device.send(Message::Session(Box::new(queue))).unwrap();
    export.device.control(|_| ()).unwrap();
    assert_eq!(refusal.load(Ordering::SeqCst), -Errno::INVAL.raw_os_error());
}

#[test]
fn a_device_that_closes_first_lets_go_of_the_ring() {
    let export = Export::new("disk", ram());
    let driver = start(&export).unwrap();
    assert_eq!(driver.write(0, &[5; 1024], false), 1024);
    export.device.close().unwrap();
    let waiting = driver.wait(|state| state.closed.then(|| state.waiting.clone()));
    // Nobody has told the driver; what it copies now lands in nobody's memory.
    let others: Vec<_> = waiting.iter().map(|_| Buffer::zeroed(LONGEST as usize)).collect();
    for (buffer, address) in others.iter().zip(waiting) {
        let address = address.expect("every tag waits");
        assert!(others.iter().all(|other| other.as_ptr() as u64 != address));
        // SAFETY: the queue has left the buffer behind.
        unsafe { std::ptr::write_bytes(address as *mut u8, 7, LONGEST as usize) };
        assert!(buffer.iter().all(|&byte| byte == 0));
    }
}
