//! The core against a backend that fails where it is told to.

mod faults;
mod observing;

use super::core::{Core, ExtentsRequest, Finished, IoRequest, ReplyTo, TenantId};
use super::{DeviceOptions, GroupSpec, WRITE};
use crate::storage::{
    Backend, Command, DeferredLookup, Done, Extent, ExtentsAnswer, Facts, Opened,
};
use crate::system::{Buffer, Part};
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

    fn extents(&self, _: u64, len: u64, _: usize) -> ExtentsAnswer {
        ExtentsAnswer::Now(Ok(vec![Extent { len, hole: false }]))
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

/// Extents are asked for in memory, or by a thread that waits until it is told to go on.
#[derive(Debug)]
struct Slow {
    gate: Arc<Mutex<()>>,
    done: Vec<Done>,
}

impl Backend for Slow {
    fn issue(&mut self, _now: Instant, command: Command, _parts: &[Part]) {
        self.done.push(Done { tag: command.tag, result: Ok(()) });
    }

    fn poll(&mut self, _now: Instant, done: &mut Vec<Done>) {
        done.append(&mut self.done);
    }

    fn extents(&self, start: u64, len: u64, _: usize) -> ExtentsAnswer {
        if start == 0 {
            return ExtentsAnswer::Now(Ok(vec![Extent { len, hole: true }]));
        }
        let gate = Arc::clone(&self.gate);
        ExtentsAnswer::Later(DeferredLookup::new(move || {
            drop(gate.lock());
            if start < 1 << 20 { Ok(vec![Extent { len, hole: false }]) } else { Err(Errno::NXIO) }
        }))
    }
}

fn slow_core() -> (Core, Arc<Mutex<()>>) {
    let gate = Arc::default();
    let backend = Slow { gate: Arc::clone(&gate), done: Vec::new() };
    let device = hoistway::Device::new(hoistway::Sectors(1 << 20), 64);
    let opened = Opened { backend: Box::new(backend), device, facts: facts(512 << 20) };
    let mut options = DeviceOptions::new(sched::find("bfq").unwrap());
    options.controllers.push(("io.max".into(), Vec::new()));
    (Core::new(opened, &options).unwrap(), gate)
}

fn look_up(core: &mut Core, tenant: TenantId, offset: u64, cookie: u64) {
    let reply_to = ReplyTo::Session { session: 0, cookie };
    core.submit_lookup(tenant, ExtentsRequest { offset, len: 8192, most: 9, reply_to });
}

/// Turns until so many I/Os are over, for 20 s at most; by cookie, with what was found.
fn over(core: &mut Core, count: usize) -> Vec<(u64, Result<Vec<Extent>, Errno>)> {
    let (began, mut list) = (core.read_clock(), Vec::new());
    while list.len() < count && core.now().since(began) < Nanos::secs(20) {
        core.read_clock();
        core.turn();
        while let Some(io) = core.next_finished() {
            let ReplyTo::Session { cookie, .. } = io.reply_to else { panic!("all are sessions") };
            list.push((cookie, io.result.map(|()| io.extents)));
        }
    }
    list
}

#[test]
fn nobody_waits_while_the_storage_looks_up_what_it_holds() {
    let (mut core, gate) = slow_core();
    let closed = gate.lock().unwrap();
    let tenants = [(); 2].map(|()| core.add_tenant(GroupId::ROOT, IoPrio::NONE));
    core.read_clock();
    look_up(&mut core, tenants[0], 4096, 0);
    look_up(&mut core, tenants[0], 2 << 20, 1);
    look_up(&mut core, tenants[1], 0, 2);
    let found = |hole| Ok(vec![Extent { len: 8192, hole }]);
    assert_eq!(over(&mut core, 1), [(2, found(true))]);
    assert!(!core.is_idle(), "two are under way");
    drop(closed);
    assert_eq!(over(&mut core, 2), [(0, found(false)), (1, Err(Errno::NXIO))]);
    assert!(core.is_idle());
    // What is outside is refused, wherever it begins.
    for offset in [(512 << 20) - 4096, u64::MAX] {
        look_up(&mut core, tenants[1], offset, 3);
        assert_eq!(over(&mut core, 1), [(3, Err(Errno::INVAL))]);
    }
}

#[test]
fn requests_for_extents_wait_for_controllers_as_reads_do() {
    let (mut core, _gate) = slow_core();
    let spec = GroupSpec::new("slow").limit("riops", 2);
    let (group, _) = core.set_group(&spec).unwrap();
    let slow = core.add_tenant(group, IoPrio::NONE);
    let other = core.add_tenant(GroupId::ROOT, IoPrio::NONE);
    core.read_clock();
    // The last of them comes after eight minutes.
    for n in 0..1000 {
        look_up(&mut core, slow, 0, n);
    }
    for n in 0..100 {
        look_up(&mut core, other, 0, 1000 + n);
    }
    let mut free = 0;
    while free < 100 {
        let list = over(&mut core, 1);
        assert!(!list.is_empty());
        free += list.iter().filter(|(cookie, _)| *cookie >= 1000).count();
    }
    assert!(core.unfinished() > 900, "{} wait", core.unfinished());
}
