//! Do weights hold where clients keep several requests in a drive that queues them? Two clients,
//! in groups of weight 800 and 100, read or write, each so many at once, through stack and drive
//! model. With `--nocapture` they print figures; `docs/results/serve.md` has those of `figures`.
//!
//! A client is one thread: it takes the answers one after the other and asks anew for each. It may
//! be kept from running now and then, as clients are on a machine that has other work.

use hoistway::sched;
use hoistway::stack::StageName;
use hoistway::stage::Figure;
use hoistway::{Flags, GroupId, Input, Instant, Io, IoPrio, Nanos, Op, Output, ProcId, Stack};
use hoistway_sim::drive::{Adapter, Command, DriveFile, DriveOutput};
use hoistway_sim::rng::{self, Rng};
use hoistway_sim::world::{request_of, tag_of};

const PLEXTOR: &str = "plextor-px-256m5s";
const NVME: &str = "samsung-970-pro";
const HITACHI: &str = "hitachi-hts727550a9e364";
/// Weight of the groups.
const WEIGHTS: [u64; 2] = [800, 100];
/// Sectors of a client's part of the drive.
const PART: u64 = 4 << 21;
/// What a client needs to take one answer and to ask anew.
const TAKE: Nanos = Nanos::us(2);
/// Seconds of eight rounds of nine slots of 125 ms.
const ROUNDS: u64 = 9;

/// How clients are kept from running.
#[derive(Clone, Copy, Debug)]
struct Stall {
    /// Mean time between two, exponential.
    every: Nanos,
    length: Nanos,
    /// None begins later than so many seconds after the start.
    until: u64,
}

/// What both clients do.
#[derive(Clone, Copy, Debug)]
struct Load {
    write: bool,
    random: bool,
    kib: u64,
    depth: u64,
}

#[derive(Debug)]
struct Client {
    proc: ProcId,
    group: GroupId,
    rng: Rng,
    stalls: Rng,
    next_stall: Option<Instant>,
    /// Answers not yet taken; at first, requests to be made.
    due: u64,
    wakes: Option<Instant>,
    /// In the submission call.
    submitting: bool,
    asked: u64,
    answered: u64,
}

struct Host {
    now: Instant,
    stack: Stack,
    adapter: Adapter,
    stack_wakes: Option<Instant>,
    clients: Vec<Client>,
    load: Load,
    stall: Option<Stall>,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
struct Got {
    /// Reads per second of the two.
    rates: [f64; 2],
    /// How often one was found to wake the other.
    wakers: i64,
    /// Requests served because of that.
    of_waker: i64,
}

impl Got {
    /// Times as much as the lighter one.
    fn ratio(&self) -> f64 {
        self.rates[0] / self.rates[1]
    }
}

impl Host {
    fn new(drive: &str, set: &[(&str, u64)], load: Load, stall: Option<Stall>) -> Host {
        let file = DriveFile::load(drive).unwrap();
        let entry = sched::find("bfq").unwrap();
        let stack = Stack::new(file.device(), entry, 256);
        let mut host = Host {
            now: Instant::ZERO,
            stack,
            adapter: Adapter::new(&file, file.build(1)),
            stack_wakes: None,
            clients: Vec::new(),
            load,
            stall,
        };
        for &(name, value) in set {
            let stage = StageName::Scheduler;
            host.tell(Input::Set { stage, name: name.into(), value });
        }
        for (n, weight) in WEIGHTS.into_iter().enumerate() {
            let group = host.stack.add_group(host.now, GroupId::ROOT, &format!("{weight}"));
            let (stage, name) = (StageName::Scheduler, "weight".into());
            host.tell(Input::SetGroup { group, stage, name, value: Some(weight) });
            let mut stalls = rng::stream(1, &format!("stalls{n}"));
            host.clients.push(Client {
                proc: host.stack.add_proc(group, IoPrio::NONE),
                group,
                rng: rng::stream(1, &format!("client{n}")),
                next_stall: stall.map(|s| after(Instant::ZERO, &mut stalls, s.every)),
                stalls,
                due: load.depth,
                // One second apart: the queues are not created in one burst.
                wakes: Some(secs(n as u64)),
                submitting: false,
                asked: 0,
                answered: 0,
            });
        }
        host
    }

    fn tell(&mut self, input: Input) {
        self.stack.handle(self.now, input).unwrap();
        loop {
            match self.stack.poll(self.now) {
                Output::Issue { req, .. } => {
                    let r = self.stack.request(req);
                    let (start, len) = (r.start.bytes().0, r.sectors.bytes().0);
                    let command = Command { tag: tag_of(req), op: r.op, start, len, fua: false };
                    self.adapter.handle(self.now, command);
                }
                Output::Accepted { io } => {
                    let c = (io.0 % 2) as usize;
                    self.clients[c].submitting = false;
                    self.wake(c);
                }
                Output::Finished { io, result } => {
                    result.unwrap();
                    let c = (io.0 % 2) as usize;
                    self.clients[c].answered += 1;
                    self.clients[c].due += 1;
                    self.wake(c);
                }
                Output::Delay { .. } => unreachable!("no controller is installed"),
                Output::WaitUntil(at) => {
                    self.stack_wakes = at;
                    return;
                }
            }
        }
    }

    /// The client has something to do, unless it waits in a call.
    fn wake(&mut self, c: usize) {
        let client = &mut self.clients[c];
        if client.due > 0 && !client.submitting && client.wakes.is_none() {
            client.wakes = Some(self.now + TAKE);
        }
    }

    /// The client runs.
    fn turn(&mut self, c: usize) {
        let client = &mut self.clients[c];
        client.wakes = None;
        if let Some(stall) = self.stall
            && client.next_stall.is_some_and(|at| at <= self.now)
        {
            client.wakes = Some(self.now + stall.length);
            let next = after(self.now + stall.length, &mut client.stalls, stall.every);
            client.next_stall = (next <= secs(stall.until)).then_some(next);
            return;
        }
        client.due -= 1;
        client.submitting = true;
        let len = 2 * self.load.kib;
        let block = if self.load.random { client.rng.below(PART / len) } else { client.asked };
        client.asked += 1;
        let start = c as u64 * PART + block % (PART / len) * len;
        let read = Io::read(client.asked * 2 + c as u64, client.proc, start, len);
        let mut io = Io { group: client.group, ..read };
        if self.load.write {
            // As direct I/O.
            (io.op, io.flags) = (Op::Write, Flags::SYNC | Flags::IDLE);
        }
        self.tell(Input::Submit(io));
    }

    fn run_until(&mut self, end: Instant) {
        loop {
            match self.adapter.poll(self.now) {
                DriveOutput::Done(done) => {
                    self.tell(Input::Done { req: request_of(done.tag), error: None });
                }
                DriveOutput::WaitUntil(drive) => {
                    let due = self.clients.iter().position(|c| c.wakes == Some(self.now));
                    if let Some(c) = due {
                        self.turn(c);
                        continue;
                    }
                    if self.stack_wakes.is_some_and(|at| at <= self.now) {
                        self.tell(Input::Tick);
                        continue;
                    }
                    let clients = self.clients.iter().filter_map(|c| c.wakes);
                    let others = drive.into_iter().chain(self.stack_wakes);
                    let next = clients.chain(others).min().expect("clients never end");
                    if next > end {
                        self.now = end;
                        return;
                    }
                    self.now = next;
                }
            }
        }
    }

    fn figure(&self, name: &str) -> i64 {
        let mut found = 0;
        self.stack.scheduler().figures(&mut |f: Figure| {
            if f.name == name && f.of.is_none() {
                found = f.value;
            }
        });
        found
    }
}

fn after(now: Instant, rng: &mut Rng, mean: Nanos) -> Instant {
    now + Nanos(rng.exponential(mean.0 as f64) as u64)
}

fn secs(n: u64) -> Instant {
    Instant::ZERO + Nanos::secs(n)
}

/// `n` seconds measured after three.
fn run(drive: &str, set: &[(&str, u64)], load: Load, stall: Option<Stall>, n: u64) -> Got {
    let mut host = Host::new(drive, set, load, stall);
    host.run_until(secs(3));
    let before: Vec<u64> = host.clients.iter().map(|c| c.answered).collect();
    host.run_until(secs(3 + n));
    let rate = |c: usize| (host.clients[c].answered - before[c]) as f64 / n as f64;
    let got = Got {
        rates: [rate(0), rate(1)],
        wakers: host.figure("wakers_found"),
        of_waker: host.figure("injected_of_waker"),
    };
    println!("{drive} {set:?} {load:?} {stall:?}: ratio {:.2}, {got:?}", got.ratio());
    got
}

/// 4 KiB reads at random.
fn reads(depth: u64) -> Load {
    Load { write: false, random: true, kib: 4, depth }
}

fn stalls(ms: u64) -> Option<Stall> {
    Some(Stall { every: Nanos::ms(50), length: Nanos::ms(ms), until: u64::MAX >> 32 })
}

const LL0: (&str, u64) = ("low_latency", 0);

/// Clients that were kept from running within the first two seconds only, before the measurement.
fn stalled_at_first() -> Option<Stall> {
    stalls(10).map(|stall| Stall { until: 2, ..stall })
}

#[test]
fn weights_hold_for_prompt_clients_at_any_depth() {
    for depth in [1, 4, 16, 32] {
        let got = run(PLEXTOR, &[LL0], reads(depth), None, ROUNDS);
        assert!((got.ratio() / 8.0 - 1.0).abs() < 0.05, "depth {depth}: {got:?}");
    }
    let writes = Load { write: true, random: false, kib: 256, depth: 4 };
    let got = run(HITACHI, &[LL0], writes, None, 20);
    assert!((got.ratio() / 8.0 - 1.0).abs() < 0.05, "writes: {got:?}");
}

/// A client that comes back later than `slice_idle` has a long think time, and no sample tells that
/// it became short again: it is waited for, so its queue stays busy. Answers of the other client
/// then make that one its waker (specs/bfq.md 4.8), whose requests are injected without a limit
/// (4.7.3).
#[test]
fn stalled_clients_share_evenly_for_good_as_each_wakes_the_other() {
    let got = run(PLEXTOR, &[LL0], reads(16), stalled_at_first(), 3);
    assert!(got.ratio() < 1.1 && got.wakers > 0 && got.of_waker > 50_000, "{got:?}");
    let away = &[LL0, ("injection", 0)];
    let got = run(PLEXTOR, away, reads(16), stalled_at_first(), ROUNDS);
    assert!((got.ratio() / 8.0 - 1.0).abs() < 0.05 && got.of_waker == 0, "{got:?}");
}

#[test]
fn weights_hold_for_stalled_clients_that_are_waited_for() {
    let longer = &[LL0, ("slice_idle", 30)];
    let got = run(PLEXTOR, longer, reads(16), stalls(10), ROUNDS);
    assert!((got.ratio() / 8.0 - 1.0).abs() < 0.05 && got.wakers == 0, "{got:?}");
}

#[test]
#[ignore = "prints the table of docs/results/serve.md"]
fn figures() {
    let sets: [&[(&str, u64)]; 6] = [
        &[LL0],
        &[LL0, ("slice_idle", 0)],
        &[LL0, ("injection", 0)],
        &[LL0, ("slice_idle", 30)],
        &[LL0, ("injection", 0), ("slice_idle", 30)],
        &[LL0, ("strict_guarantees", 1)],
    ];
    let writes = Load { write: true, random: false, kib: 256, depth: 4 };
    let rows = [
        (PLEXTOR, reads(1), ROUNDS),
        (PLEXTOR, reads(4), ROUNDS),
        (PLEXTOR, reads(16), ROUNDS),
        (PLEXTOR, reads(32), ROUNDS),
        (NVME, reads(1), ROUNDS),
        (NVME, reads(16), ROUNDS),
        (HITACHI, writes, 2 * ROUNDS),
        (HITACHI, Load { depth: 16, ..writes }, 2 * ROUNDS),
    ];
    for stall in [None, stalls(10)] {
        for (drive, load, n) in rows {
            let cells = sets.map(|set| {
                let got = run(drive, set, load, stall, n);
                format!("{:.1} ({:.0} : {:.0})", got.ratio(), got.rates[0], got.rates[1])
            });
            println!("| {drive}, {} | {} |", load.depth, cells.join(" | "));
        }
    }
}
