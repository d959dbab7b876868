//! The core against a backend that fails where it is told to.

use super::core::{Core, Finished, IoRequest, ReplyTo};
use super::{DeviceOptions, WRITE};
use crate::buffer::{Buffer, Part};
use crate::storage::{Backend, Command, Done, Extent, Facts, Opened};
use hoistway::{Flags, GroupId, Instant, IoPrio, Nanos, Op, sched};
use rustix::io::Errno;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Fails every command that touches the bad bytes, and remembers all commands.
#[derive(Debug)]
struct Faulty {
    bad: Range<u64>,
    errno: Errno,
    done: Vec<Done>,
    seen: Arc<Mutex<Vec<Command>>>,
}

impl Backend for Faulty {
    fn issue(&mut self, _now: Instant, command: Command, parts: &[Part]) {
        let bytes: usize = parts.iter().map(Part::len).sum();
        assert!(command.op != Op::Read || bytes as u64 == command.len, "the memory fits the range");
        let touched = command.start < self.bad.end && self.bad.start < command.start + command.len;
        let result = if touched { Err(self.errno) } else { Ok(()) };
        self.done.push(Done { tag: command.tag, result });
        self.seen.lock().unwrap().push(command);
    }

    fn poll(&mut self, _now: Instant, done: &mut Vec<Done>) {
        done.append(&mut self.done);
    }

    fn extents(&mut self, _: u64, len: u64, _: usize) -> Result<Vec<Extent>, Errno> {
        Ok(vec![Extent { len, hole: false }])
    }
}

pub(super) fn facts(size: u64) -> Facts {
    Facts {
        size,
        block: 512,
        read_only: false,
        discard: false,
        discard_zeroes: false,
        rotational: false,
        page_cache: false,
        persistent: false,
        summary: "faulty".into(),
        warning: None,
    }
}

pub(super) fn core(
    scheduler: &str,
    bad: Range<u64>,
    errno: Errno,
) -> (Core, Arc<Mutex<Vec<Command>>>) {
    let seen = Arc::default();
    let backend = Faulty { bad, errno, done: Vec::new(), seen: Arc::clone(&seen) };
    let mut device = hoistway::Device::new(hoistway::Sectors(1 << 20), 64);
    device.write_cache = true;
    device.fua = true;
    let options = DeviceOptions::new(sched::find(scheduler).unwrap());
    let opened = Opened { backend: Box::new(backend), device, facts: facts(512 << 20) };
    (Core::new(opened, &options).unwrap(), seen)
}

/// Submits requests in one batch; returns the results by cookie.
fn run(core: &mut Core, requests: Vec<(Op, u64, u64, Flags)>) -> Vec<Result<(), Errno>> {
    let tenant = core.add_tenant(GroupId::ROOT, IoPrio::NONE);
    let count = requests.len();
    let began = core.read_clock();
    core.begin_batch(tenant);
    for (cookie, (op, offset, len, flags)) in requests.into_iter().enumerate() {
        let data = matches!(op, Op::Read | Op::Write);
        let buffer = Buffer::zeroed(if data { len as usize } else { 0 });
        let reply_to = ReplyTo::Session { session: 0, cookie: cookie as u64 };
        core.submit(tenant, IoRequest { op, offset, len, flags, buffer, reply_to });
    }
    core.end_batch(tenant);
    let mut results = vec![None; count];
    // Timers (a flush follows a completion after 20 us) need the clock to move.
    while results.iter().any(Option::is_none) && core.now().since(began) < Nanos::secs(20) {
        core.read_clock();
        core.turn();
        while let Some(Finished { reply_to, result, .. }) = core.next_finished() {
            let ReplyTo::Session { cookie, .. } = reply_to else { panic!("all are sessions") };
            assert_eq!(results[cookie as usize].replace(result), None, "finished once");
        }
    }
    core.close_tenant(tenant);
    results.into_iter().map(|r| r.expect("every I/O ends")).collect()
}

#[test]
fn a_merged_request_that_fails_fails_only_the_io_that_is_to_blame() {
    for scheduler in ["none", "mq-deadline", "bfq", "kyber"] {
        let (mut core, seen) = core(scheduler, 5 * 4096..5 * 4096 + 512, Errno::IO);
        let reads = (0..16).map(|n| (Op::Read, n * 4096, 4096, Flags::NONE)).collect();
        let results = run(&mut core, reads);
        for (n, result) in results.into_iter().enumerate() {
            assert_eq!(
                result,
                if n == 5 { Err(Errno::IO) } else { Ok(()) },
                "{scheduler}, read {n}"
            );
        }
        let first = seen.lock().unwrap()[0];
        assert!(first.len > 4096, "{scheduler}: the reads were merged first, {first:?}");
        assert!(core.is_idle());
    }
}

#[test]
fn the_number_of_an_error_arrives_unchanged() {
    let (mut core, _) = core("mq-deadline", 0..4096, Errno::NOSPC);
    let results = run(&mut core, vec![(Op::Write, 0, 4096, WRITE), (Op::Write, 8192, 4096, WRITE)]);
    assert_eq!(results, [Err(Errno::NOSPC), Ok(())]);
}

#[test]
fn a_split_io_fails_as_a_whole() {
    // 4 MiB are cut at 1280 KiB.
    let (mut core, seen) = core("none", 3 << 20..(3 << 20) + 512, Errno::IO);
    let results = run(&mut core, vec![(Op::Read, 0, 4 << 20, Flags::NONE)]);
    assert_eq!(results, [Err(Errno::IO)]);
    assert_eq!(seen.lock().unwrap().iter().map(|c| c.len).sum::<u64>(), 4 << 20);
}

#[test]
fn a_failed_durable_write_is_an_error_and_a_flush_is_one_command_for_all() {
    let (mut core, seen) = core("bfq", 0..4096, Errno::IO);
    let results = run(
        &mut core,
        vec![
            (Op::Write, 0, 4096, WRITE | Flags::FUA),
            (Op::Write, 8192, 4096, WRITE | Flags::FUA),
            (Op::Flush, 0, 0, Flags::PREFLUSH),
        ],
    );
    assert_eq!(results, [Err(Errno::IO), Ok(()), Ok(())]);
    let seen = seen.lock().unwrap();
    let durable = |start| seen.iter().any(|c| c.op == Op::Write && c.fua && c.start == start);
    assert!(durable(0) && durable(8192));
    assert_eq!(seen.iter().filter(|c| c.op == Op::Flush).count(), 1);
}
