//! The core under random load on a device that fails, dawdles and answers out of order, against a
//! model that knows every legal content of every sector.

use super::super::core::{Core, Finished, IoRequest, ReplyTo, TenantId};
use super::super::{Device, DeviceOptions, WRITE};
use super::facts;
use crate::error::ServeError;
use crate::storage::{Backend, Command, Done, Extent, ExtentsAnswer, Opened};
use crate::system::Part;
use hoistway::{Flags, GroupId, Instant, IoPrio, Nanos, Op, sched};
use hoistway_sim::rng::{Rng, stream};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

const SECTOR: u64 = 512;
const SIZE: u64 = 2048 * SECTOR;

/// What a device does wrong; `None` in a field: nothing of that kind.
#[derive(Clone, Debug, Default)]
struct Wrong {
    /// Bytes that cannot be read, and with which error.
    unreadable: Option<(Range<u64>, Errno)>,
    /// Bytes that cannot be written.
    unwritable: Option<(Range<u64>, Errno)>,
    /// One command in so many fails, whatever it is.
    one_in: Option<(u64, Errno)>,
    /// That many durable writes fail in their sync: the data is written, the error is somebody's.
    syncs: u32,
    /// That many flushes fail.
    flushes: u32,
    /// Commands wait for up to so many looks, and overtake each other.
    dawdles: u64,
    /// No command is ever answered.
    hangs: bool,
}

#[derive(Debug)]
struct Seen {
    wrong: Wrong,
    failed: Vec<(Command, Errno)>,
    commands: u64,
}

/// Memory behind all that.
#[derive(Debug)]
struct Faulty {
    bytes: Vec<u8>,
    random: Rng,
    under_way: Vec<(u64, Command, Vec<Part>)>,
    seen: Arc<Mutex<Seen>>,
}

impl Faulty {
    fn opened(wrong: Wrong, seed: u64, fua: bool) -> (Opened, Arc<Mutex<Seen>>) {
        let seen = Arc::new(Mutex::new(Seen { wrong, failed: Vec::new(), commands: 0 }));
        let backend = Faulty {
            bytes: vec![0; SIZE as usize],
            random: stream(seed, "device"),
            under_way: Vec::new(),
            seen: Arc::clone(&seen),
        };
        let mut device = hoistway::Device::new(hoistway::Sectors(SIZE / SECTOR), 32);
        device.write_cache = true;
        device.fua = fua;
        device.max_discard_sectors = hoistway::Sectors(256);
        device.discard_granularity = hoistway::Sectors(8);
        let mut facts = facts(SIZE);
        (facts.discard, facts.discard_zeroes) = (true, true);
        (Opened { backend: Box::new(backend), device, facts }, seen)
    }

    /// How much is done, and with which result; a failed command may be done in part.
    fn verdict(&mut self, c: Command) -> (u64, Result<(), Errno>) {
        let mut seen = self.seen.lock().unwrap();
        seen.commands += 1;
        let wrong = &mut seen.wrong;
        let ill = if c.op == Op::Read { &wrong.unreadable } else { &wrong.unwritable };
        let touched = |r: &Range<u64>| c.start < r.end && r.start < c.start + c.len;
        let mut result = match ill {
            Some((range, errno)) if touched(range) => Err(*errno),
            _ => Ok(()),
        };
        let mut done = if result.is_ok() { c.len } else { self.random.below(c.len + 1) };
        if let Some((n, errno)) = wrong.one_in
            && result.is_ok()
            && c.op != Op::Flush
            && self.random.below(n) == 0
        {
            (done, result) = (self.random.below(c.len + 1), Err(errno));
        }
        let sync = if c.op == Op::Flush { &mut wrong.flushes } else { &mut wrong.syncs };
        if result.is_ok() && (c.op == Op::Flush || c.fua) && *sync > 0 {
            *sync -= 1;
            result = Err(Errno::IO);
        }
        if let Err(errno) = result {
            seen.failed.push((c, errno));
        }
        (done, result)
    }

    fn carry_out(&mut self, c: Command, parts: &mut [Part]) -> Result<(), Errno> {
        let (done, result) = self.verdict(c);
        let (from, to) = (c.start as usize, (c.start + done) as usize);
        match c.op {
            Op::Flush => {}
            Op::Discard | Op::WriteZeroes => self.bytes[from..to].fill(0),
            Op::Read | Op::Write => {
                let mut at = from;
                for part in parts {
                    let len = part.len().min(to - at);
                    let stored = &mut self.bytes[at..at + len];
                    match c.op {
                        Op::Read => part.bytes_mut()[..len].copy_from_slice(stored),
                        _ => stored.copy_from_slice(&part.bytes()[..len]),
                    }
                    at += len;
                }
            }
        }
        result
    }
}

impl Backend for Faulty {
    fn issue(&mut self, _now: Instant, command: Command, parts: &[Part]) {
        let bytes: usize = parts.iter().map(Part::len).sum();
        let data = matches!(command.op, Op::Read | Op::Write);
        assert_eq!(bytes as u64, if data { command.len } else { 0 }, "{command:?}");
        let places = |parts: &[Part]| -> Vec<_> {
            parts.iter().map(|p| (p.bytes().as_ptr() as usize, p.len())).collect()
        };
        for (_, other, theirs) in &self.under_way {
            assert_ne!(other.tag, command.tag, "tags are unique");
            for (a, b) in
                places(theirs).iter().flat_map(|a| places(parts).into_iter().map(move |b| (*a, b)))
            {
                let apart = a.0 + a.1 <= b.0 || b.0 + b.1 <= a.0;
                assert!(apart, "two commands share memory: {other:?}, {command:?}");
            }
        }
        let looks = self.seen.lock().unwrap().wrong.dawdles;
        let looks = if looks == 0 { 0 } else { self.random.below(looks) };
        self.under_way.push((looks, command, parts.to_vec()));
    }

    fn poll(&mut self, _now: Instant, done: &mut Vec<Done>) {
        if self.seen.lock().unwrap().wrong.hangs {
            return;
        }
        let mut at = 0;
        while at < self.under_way.len() {
            if self.under_way[at].0 > 0 {
                self.under_way[at].0 -= 1;
                at += 1;
                continue;
            }
            let (_, command, mut parts) = self.under_way.swap_remove(at);
            let result = self.carry_out(command, &mut parts);
            done.push(Done { tag: command.tag, result });
        }
    }

    fn wake_at(&self) -> Option<Instant> {
        let waits = !self.under_way.is_empty() && !self.seen.lock().unwrap().wrong.hangs;
        waits.then_some(Instant::ZERO)
    }

    fn extents(&self, _: u64, len: u64, _: usize) -> ExtentsAnswer {
        ExtentsAnswer::Now(Ok(vec![Extent { len, hole: false }]))
    }
}

/// An I/O under way in the model.
#[derive(Clone, Debug)]
struct Asked {
    op: Op,
    range: Range<u64>,
    version: u8,
    /// Failures the device had reported when it was submitted.
    failures: usize,
}

/// The load, its model, and the core.
struct Load {
    core: Core,
    seen: Arc<Mutex<Seen>>,
    tenants: Vec<TenantId>,
    random: Rng,
    /// What each sector may hold: bytes it may be full of.
    legal: Vec<Vec<u8>>,
    asked: BTreeMap<u64, Asked>,
    next: u64,
    failed: u64,
}

impl Load {
    fn new(scheduler: &str, wrong: Wrong, seed: u64, fua: bool) -> Load {
        let (opened, seen) = Faulty::opened(wrong, seed, fua);
        let options = DeviceOptions::new(sched::find(scheduler).unwrap());
        let mut core = Core::new(opened, &options).unwrap();
        let tenants = (0..5).map(|n| core.add_tenant(GroupId::ROOT, IoPrio::be(n))).collect();
        Load {
            core,
            seen,
            tenants,
            random: stream(seed, "load"),
            legal: vec![vec![0]; (SIZE / SECTOR) as usize],
            asked: BTreeMap::new(),
            next: 0,
            failed: 0,
        }
    }

    /// A batch of one tenant: neighbouring and scattered I/Os that overlap nothing under way.
    fn submit_some(&mut self) {
        let tenant = self.tenants[self.random.below(5) as usize];
        self.core.begin_batch(tenant);
        let mut at = self.random.below(SIZE / SECTOR);
        let alike = self.random.below(10);
        for _ in 0..=self.random.below(12) {
            let sectors = 1 + self.random.below(64);
            let range = at * SECTOR..((at + sectors) * SECTOR).min(SIZE);
            at = if self.random.below(6) == 0 {
                self.random.below(SIZE / SECTOR)
            } else {
                at + sectors
            };
            let free = |a: &Asked| a.range.end <= range.start || range.end <= a.range.start;
            if range.start >= SIZE || !self.asked.values().all(free) {
                continue;
            }
            // Mostly of one kind, so that neighbours merge.
            let kind = if self.random.below(4) == 0 { self.random.below(10) } else { alike };
            let (op, flags) = match kind {
                0..4 => (Op::Read, Flags::NONE),
                4..6 => (Op::Write, WRITE),
                6 => (Op::Write, WRITE | Flags::FUA),
                7 => (Op::Discard, Flags::NONE),
                8 => (
                    Op::WriteZeroes,
                    if self.random.below(2) == 0 { WRITE } else { WRITE | Flags::FUA },
                ),
                _ => (Op::Flush, Flags::PREFLUSH),
            };
            self.submit(tenant, op, range, flags);
        }
        self.core.end_batch(tenant);
    }

    fn submit(&mut self, tenant: TenantId, op: Op, range: Range<u64>, flags: Flags) {
        let range = if op == Op::Flush { 0..0 } else { range };
        let (len, cookie) = (range.end - range.start, self.next);
        self.next += 1;
        let version = match op {
            Op::Write => 1 + (cookie % 255) as u8,
            _ => 0,
        };
        let data = matches!(op, Op::Read | Op::Write);
        let mut buffer = self.core.pool.take(if data { len as usize } else { 0 });
        buffer.fill(if op == Op::Read { 0xee } else { version });
        let reply_to = ReplyTo::Session { session: 0, cookie };
        let failures = self.seen.lock().unwrap().failed.len();
        self.asked.insert(cookie, Asked { op, range: range.clone(), version, failures });
        self.core
            .submit(tenant, IoRequest { op, offset: range.start, len, flags, buffer, reply_to });
    }

    fn turn(&mut self) {
        self.core.read_clock();
        self.core.turn();
        self.core.kick();
        while let Some(Finished { reply_to, buffer, result, .. }) = self.core.next_finished() {
            let ReplyTo::Session { cookie, .. } = reply_to else { panic!("all are sessions") };
            let asked = self.asked.remove(&cookie).expect("an I/O is over once");
            self.check(&asked, &buffer, result);
            self.core.pool.give(buffer);
        }
    }

    fn check(&mut self, asked: &Asked, buffer: &[u8], result: Result<(), Errno>) {
        self.failed += u64::from(result.is_err());
        if asked.op != Op::Flush {
            self.check_blame(asked, result);
        }
        let sectors = (asked.range.start / SECTOR) as usize..(asked.range.end / SECTOR) as usize;
        for (n, legal) in self.legal[sectors.clone()].iter_mut().enumerate() {
            match (asked.op, result) {
                (Op::Read, Ok(())) => {
                    let sector = &buffer[n * SECTOR as usize..][..SECTOR as usize];
                    let torn = sector.iter().any(|b| !legal.contains(b));
                    assert!(
                        !torn,
                        "sector {} holds {:?}..., legal: {legal:?}",
                        sectors.start + n,
                        &sector[..8]
                    );
                }
                (Op::Write | Op::Discard | Op::WriteZeroes, Ok(())) => *legal = vec![asked.version],
                (Op::Write | Op::Discard | Op::WriteZeroes, Err(_)) => legal.push(asked.version),
                _ => {}
            }
        }
    }

    /// The I/O failed if, and only if, the device failed a command within it, with that error.
    fn check_blame(&self, asked: &Asked, result: Result<(), Errno>) {
        let seen = self.seen.lock().unwrap();
        let own: Vec<_> = seen.failed[asked.failures..]
            .iter()
            // A durable write that fails is tried again as a plain one, whose result holds.
            .filter(|(c, _)| c.op != Op::Flush && !c.fua && c.op == asked.op)
            .filter(|(c, _)| asked.range.start <= c.start && c.start + c.len <= asked.range.end)
            .map(|(_, errno)| *errno)
            .collect();
        match result {
            Ok(()) => assert!(own.is_empty(), "{asked:?}: {own:?} was swallowed"),
            Err(errno) => assert!(own.contains(&errno), "{asked:?}: {errno} is none of {own:?}"),
        }
    }

    /// Until nothing is under way.
    fn drain(&mut self) {
        let began = self.core.read_clock();
        while !self.asked.is_empty() {
            self.turn();
            let waited = self.core.now().since(began);
            assert!(waited < Nanos::secs(20), "{} I/Os never end", self.asked.len());
        }
        self.turn();
        assert!(self.core.is_idle());
        assert_eq!(self.core.unfinished(), 0);
        assert_eq!(self.core.pool.used(), 0, "every buffer came back");
    }
}

/// The faults that leave results exact.
fn faults() -> [Wrong; 5] {
    let bad = |from: u64, errno| Some((from * SECTOR..(from + 9) * SECTOR, errno));
    let dawdles = 20;
    [
        Wrong { dawdles, ..Wrong::default() },
        Wrong { unreadable: bad(300, Errno::IO), dawdles, ..Wrong::default() },
        Wrong { unwritable: bad(700, Errno::NOSPC), ..Wrong::default() },
        Wrong { one_in: Some((7, Errno::IO)), dawdles, ..Wrong::default() },
        Wrong {
            unreadable: bad(1000, Errno::NODATA),
            unwritable: bad(1005, Errno::NOSPC),
            one_in: Some((23, Errno::NOLINK)),
            dawdles: 60,
            ..Wrong::default()
        },
    ]
}

#[test]
fn every_io_has_its_own_result_whatever_fails_and_whatever_changes() {
    let mut failed = 0;
    for (n, wrong) in faults().into_iter().enumerate() {
        for (s, entry) in sched::SCHEDULERS.iter().enumerate() {
            let mut load = Load::new(entry.name, wrong.clone(), (100 * n + s) as u64, s % 2 == 0);
            for round in 0..120 {
                load.core.read_clock();
                if load.asked.len() < 60 {
                    load.submit_some();
                }
                (0..load.random.below(8)).for_each(|_| load.turn());
                if round % 20 == 19 {
                    let next = (s + round) % sched::SCHEDULERS.len();
                    load.core.switch_scheduler(sched::SCHEDULERS[next], &[]).unwrap();
                }
                if round % 40 == 39 {
                    load.drain();
                }
            }
            load.drain();
            failed += load.failed;
        }
    }
    assert!(failed > 500, "{failed} failures are hardly a test");
}

/// Submits one I/O of a tenant and waits for it.
fn one(core: &mut Core, tenant: TenantId, op: Op, start: u64, flags: Flags) -> Result<(), Errno> {
    many(core, tenant, &[(op, start, flags)])[0]
}

/// Submits I/Os of 4 KiB in one batch and waits for all.
fn many(core: &mut Core, tenant: TenantId, list: &[(Op, u64, Flags)]) -> Vec<Result<(), Errno>> {
    let began = core.read_clock();
    core.begin_batch(tenant);
    for (cookie, &(op, offset, flags)) in list.iter().enumerate() {
        let buffer = core.pool.take(if op == Op::Flush { 0 } else { 4096 });
        let (offset, len) = if op == Op::Flush { (0, 0) } else { (offset, 4096) };
        let reply_to = ReplyTo::Session { session: 0, cookie: cookie as u64 };
        core.submit(tenant, IoRequest { op, offset, len, flags, buffer, reply_to });
    }
    core.end_batch(tenant);
    let mut results = vec![None; list.len()];
    while results.iter().any(Option::is_none) {
        core.read_clock();
        core.turn();
        core.kick();
        while let Some(Finished { reply_to, buffer, result, .. }) = core.next_finished() {
            let ReplyTo::Session { cookie, .. } = reply_to else { panic!("all are sessions") };
            results[cookie as usize] = Some(result);
            core.pool.give(buffer);
        }
        assert!(core.now().since(began) < Nanos::secs(20), "{list:?} does not end");
    }
    results.into_iter().map(|r| r.expect("all are there")).collect()
}

fn flush(core: &mut Core, tenant: TenantId) -> Result<(), Errno> {
    one(core, tenant, Op::Flush, 0, Flags::PREFLUSH)
}

fn faulty_core(wrong: Wrong, fua: bool) -> (Core, Arc<Mutex<Seen>>) {
    let (opened, seen) = Faulty::opened(wrong, 1, fua);
    (Core::new(opened, &DeviceOptions::default()).unwrap(), seen)
}

#[test]
fn a_failed_flush_is_told_to_every_tenant_once() {
    let (mut core, seen) = faulty_core(Wrong::default(), true);
    let [a, b, c] = [(); 3].map(|()| core.add_tenant(GroupId::ROOT, IoPrio::NONE));
    assert_eq!(one(&mut core, b, Op::Write, 0, WRITE), Ok(()));
    seen.lock().unwrap().wrong.flushes = 1;
    // The kernel tells of b's lost write whoever flushes first, and only once.
    assert_eq!(flush(&mut core, a), Err(Errno::IO));
    assert_eq!(flush(&mut core, a), Ok(()));
    assert_eq!(flush(&mut core, b), Err(Errno::IO), "b hears of it too");
    assert_eq!(flush(&mut core, b), Ok(()));
    let late = core.add_tenant(GroupId::ROOT, IoPrio::NONE);
    assert_eq!(flush(&mut core, late), Ok(()), "what was before its time is not its own");
    assert_eq!(flush(&mut core, c), Err(Errno::IO), "however late it asks");
}

#[test]
fn a_failed_flush_of_one_who_has_gone_is_told_to_the_next_who_comes() {
    let (mut core, seen) = faulty_core(Wrong { dawdles: 50, ..Wrong::default() }, true);
    let gone = core.add_tenant(GroupId::ROOT, IoPrio::NONE);
    seen.lock().unwrap().wrong.flushes = 1;
    core.read_clock();
    let reply_to = ReplyTo::Session { session: 7, cookie: 0 };
    let buffer = core.pool.take(0);
    let flags = Flags::PREFLUSH;
    core.submit(gone, IoRequest { op: Op::Flush, offset: 0, len: 0, flags, buffer, reply_to });
    core.close_tenant(gone);
    while core.next_finished().is_none() {
        core.read_clock();
        core.turn();
    }
    let next = core.add_tenant(GroupId::ROOT, IoPrio::NONE);
    assert_eq!(flush(&mut core, next), Err(Errno::IO));
    let after = core.add_tenant(GroupId::ROOT, IoPrio::NONE);
    assert_eq!(flush(&mut core, after), Ok(()));
}

#[test]
fn a_sync_that_fails_within_a_durable_write_is_not_swallowed() {
    let (mut core, seen) = faulty_core(Wrong { syncs: 1, ..Wrong::default() }, true);
    let [a, b] = [(); 2].map(|()| core.add_tenant(GroupId::ROOT, IoPrio::NONE));
    // The kernel's error may speak of anybody's data: these two are written and flushed anew.
    let durable = WRITE | Flags::FUA;
    let writes = [(Op::Write, 0, durable), (Op::Write, 4096, durable)];
    assert_eq!(many(&mut core, a, &writes), [Ok(()), Ok(())]);
    assert_eq!(flush(&mut core, b), Err(Errno::IO));
    assert_eq!(flush(&mut core, b), Ok(()));
    // The flush behind the second try fails as well: then the writes do.
    (seen.lock().unwrap().wrong.syncs, seen.lock().unwrap().wrong.flushes) = (1, 1);
    assert_eq!(one(&mut core, a, Op::Write, 0, durable), Err(Errno::IO));
    assert_eq!(flush(&mut core, b), Err(Errno::IO));
}

#[test]
fn a_durable_write_that_fails_by_itself_concerns_nobody_else() {
    let wrong = Wrong { unwritable: Some((0..512, Errno::NOSPC)), ..Wrong::default() };
    let (mut core, seen) = faulty_core(wrong, true);
    let [a, b] = [(); 2].map(|()| core.add_tenant(GroupId::ROOT, IoPrio::NONE));
    let durable = WRITE | Flags::FUA;
    let writes = [(Op::Write, 0, durable), (Op::Write, 4096, durable)];
    assert_eq!(many(&mut core, a, &writes), [Err(Errno::NOSPC), Ok(())]);
    assert_eq!(flush(&mut core, b), Ok(()));
    assert_eq!(flush(&mut core, a), Ok(()));
    let seen = seen.lock().unwrap();
    assert_eq!(seen.failed.iter().filter(|(c, _)| c.op == Op::Flush).count(), 0);
}

#[test]
fn where_a_flush_makes_writes_durable_its_error_is_theirs() {
    let (mut core, _) = faulty_core(Wrong { flushes: 1, ..Wrong::default() }, false);
    let [a, b] = [(); 2].map(|()| core.add_tenant(GroupId::ROOT, IoPrio::NONE));
    assert_eq!(one(&mut core, a, Op::Write, 0, WRITE | Flags::FUA), Err(Errno::IO));
    assert_eq!(one(&mut core, a, Op::Write, 0, WRITE | Flags::FUA), Ok(()));
    assert_eq!(flush(&mut core, b), Err(Errno::IO));
}

fn faulty_device(wrong: Wrong, options: DeviceOptions) -> (Device, Arc<Mutex<Seen>>) {
    let (opened, seen) = Faulty::opened(wrong, 1, true);
    (Device::start(opened, &options).unwrap(), seen)
}

#[test]
fn closing_says_when_the_last_flush_failed() {
    let wrong = Wrong { flushes: 1, ..Wrong::default() };
    let (device, _) = faulty_device(wrong, DeviceOptions::default());
    let client = device.client(IoPrio::NONE).unwrap();
    client.write(0, &[1; 512]).unwrap();
    let error = device.close().unwrap_err();
    assert!(matches!(error, ServeError::NotFlushed { .. }));
    assert!(error.to_string().contains("the last flush failed"), "{error}");
    assert_eq!(device.close().unwrap_err().to_string(), error.to_string(), "nothing is forgotten");
}

#[test]
fn closing_storage_that_hangs_is_bounded_and_says_what_was_not_done() {
    let options = DeviceOptions { stop_limit: Nanos::ms(300), ..DeviceOptions::default() };
    let (device, seen) = faulty_device(Wrong::default(), options);
    let client = device.client(IoPrio::NONE).unwrap();
    client.write(0, &[1; 512]).unwrap();
    seen.lock().unwrap().wrong.hangs = true;
    let stuck: Vec<_> =
        (0..3).map(|n| client.start_read(n * 8192, crate::Buffer::zeroed(512))).collect();
    let error = device.close().unwrap_err().to_string();
    assert!(error.contains("after 0.3 s the storage has not answered 3 I/Os"), "{error}");
    for read in stuck {
        assert_eq!(read.wait().unwrap_err().raw_os_error(), Some(108), "ESHUTDOWN");
    }
    assert_eq!(client.write(0, &[1; 512]).unwrap_err().raw_os_error(), Some(108));
}

#[test]
fn submitters_that_go_on_do_not_put_off_the_end() {
    let wrong = Wrong { dawdles: 30, ..Wrong::default() };
    let (device, _) = faulty_device(wrong, DeviceOptions::default());
    std::thread::scope(|scope| {
        for n in 0..3u64 {
            let client = device.client(IoPrio::NONE).unwrap();
            scope.spawn(move || {
                // Until the device is closed; it is closed.
                while client.write(n * 4096, &[1; 4096]).is_ok() {}
            });
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        device.close().unwrap();
    });
}
