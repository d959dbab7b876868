//! Slow obvious models of the deadline family (a `Vec`, sorted or searched anew for every question) against
//! the real ones, and the bounds the algorithms promise.

use hoistway::sched::{At, Dispatch};
use hoistway::testkit::Rng;
use hoistway::testkit::scenario::Bench;
use hoistway::testkit::scheduler::SLOTS;
use hoistway::{Class, Instant, Io, IoPrio, Nanos, Op, ProcId, ReqId};

/// A waiting request as the models see it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Waiting {
    id: ReqId,
    level: usize,
    dir: usize,
    start: u64,
    /// Order of arrival.
    seq: u64,
    deadline: i64,
}

/// What both models share: a heap of requests, and questions about it.
#[derive(Default)]
struct Crowd {
    all: Vec<Waiting>,
    seq: u64,
}

impl Crowd {
    fn add(&mut self, id: ReqId, level: usize, dir: usize, start: u64, deadline: i64) {
        self.seq += 1;
        self.all.push(Waiting { id, level, dir, start, seq: self.seq, deadline });
    }

    fn of(&self, level: usize, dir: usize) -> Vec<Waiting> {
        let mut some: Vec<_> =
            self.all.iter().copied().filter(|w| (w.level, w.dir) == (level, dir)).collect();
        some.sort_by_key(|w| (w.start, w.seq));
        some
    }

    fn oldest(&self, level: usize, dir: usize) -> Option<Waiting> {
        self.of(level, dir).into_iter().min_by_key(|w| w.seq)
    }

    fn after(&self, w: &Waiting) -> Option<Waiting> {
        self.of(w.level, w.dir).into_iter().find(|o| (o.start, o.seq) > (w.start, w.seq))
    }

    fn take(&mut self, w: &Waiting) {
        self.all.retain(|o| o.id != w.id);
    }
}

/// `deadline` by its text (specs/deadline.md A4, A6).
#[derive(Default)]
struct DeadlineModel {
    crowd: Crowd,
    out: Vec<ReqId>,
    next: [Option<Waiting>; 2],
    batching: u64,
    starved: u64,
    writes_starved: u64,
    fifo_batch: u64,
}

impl DeadlineModel {
    fn insert(&mut self, tick: i64, id: ReqId, dir: usize, start: u64) {
        if let Some(alias) = self.crowd.of(0, dir).into_iter().find(|w| w.start == start) {
            self.send(alias);
            self.out.push(alias.id);
        }
        self.crowd.add(id, 0, dir, start, tick + [500, 5000][dir]);
    }

    fn send(&mut self, w: Waiting) -> ReqId {
        self.next = [None; 2];
        self.next[w.dir] = self.crowd.after(&w);
        self.crowd.take(&w);
        w.id
    }

    fn dispatch(&mut self, tick: i64) -> Option<ReqId> {
        if !self.out.is_empty() {
            return Some(self.out.remove(0));
        }
        if let Some(w) = self.next[1].or(self.next[0]).filter(|_| self.batching < self.fifo_batch) {
            self.batching += 1;
            return Some(self.send(w));
        }
        let (reads, writes) = (self.crowd.oldest(0, 0), self.crowd.oldest(0, 1));
        let dir = match (reads, writes) {
            (None, None) => return None,
            (Some(_), None) => 0,
            (None, Some(_)) => 1,
            (Some(_), Some(_)) => {
                self.starved += 1;
                usize::from(self.starved > self.writes_starved)
            }
        };
        if dir == 1 {
            self.starved = 0;
        }
        let oldest = [reads, writes][dir].expect("the direction has requests");
        let start = self.next[dir].filter(|_| tick <= oldest.deadline).unwrap_or(oldest);
        self.batching = 1;
        Some(self.send(start))
    }
}

/// `mq-deadline` by its text (specs/deadline.md C5).
struct MqModel {
    crowd: Crowd,
    next: [[Option<Waiting>; 2]; 3],
    queued: [u64; 3],
    last_dir: usize,
    batching: u64,
    starved: u64,
    writes_starved: u64,
    fifo_batch: u64,
    aging: i64,
}

impl MqModel {
    fn insert(&mut self, tick: i64, id: ReqId, level: usize, dir: usize, start: u64) {
        self.queued[level] += 1;
        self.crowd.add(id, level, dir, start, tick + [500, 5000][dir]);
    }

    fn pick(&mut self, level: usize, tick: i64, latest: i64) -> Option<ReqId> {
        let going_on = self.next[level][self.last_dir].filter(|_| self.batching < self.fifo_batch);
        let w = match going_on {
            Some(w) => w,
            None => {
                let (reads, writes) = (self.crowd.oldest(level, 0), self.crowd.oldest(level, 1));
                let dir = match (reads, writes) {
                    (None, None) => return None,
                    (Some(_), None) => 0,
                    (None, Some(_)) => 1,
                    (Some(_), Some(_)) => {
                        self.starved += 1;
                        usize::from(self.starved > self.writes_starved)
                    }
                };
                if dir == 1 {
                    self.starved = 0;
                }
                let oldest = [reads, writes][dir].expect("the direction has requests");
                self.last_dir = dir;
                self.batching = 0;
                self.next[level][dir].filter(|_| tick < oldest.deadline).unwrap_or(oldest)
            }
        };
        if w.deadline - [500, 5000][w.dir] > latest {
            return None;
        }
        self.batching += 1;
        self.next[level][w.dir] = self.crowd.after(&w);
        self.crowd.take(&w);
        Some(w.id)
    }

    fn dispatch(&mut self, tick: i64) -> Option<ReqId> {
        if self.crowd.all.is_empty() {
            return None;
        }
        if self.queued.iter().filter(|&&n| n > 0).count() >= 2 {
            for level in [1, 2] {
                if let Some(id) = self.pick(level, tick, tick - self.aging) {
                    return Some(id);
                }
            }
        }
        for level in 0..3 {
            let found = self.pick(level, tick, tick);
            if found.is_some() || self.queued[level] > 0 {
                return found;
            }
        }
        None
    }
}

/// Random streams per differential test, and events in each.
const SEEDS: u64 = 30;
const STEPS: usize = 3000;

fn random_io(b: &mut Bench, rng: &mut Rng, places: u64) -> Io {
    let mut io = Io::read(b.ids.len() as u64, ProcId(0), 16 * rng.below(places), 8);
    if rng.one_in(3) {
        io.op = Op::Write;
    }
    io.prio = match rng.below(6) {
        0 => IoPrio::rt(0),
        1 => IoPrio::idle(),
        2 => IoPrio::NONE,
        _ => IoPrio::be(4),
    };
    io
}

fn level_of(io: &Io) -> usize {
    match io.prio.class() {
        Class::Rt => 0,
        Class::None | Class::Be => 1,
        Class::Idle => 2,
    }
}

fn add(b: &mut Bench, io: Io) -> ReqId {
    let id = b.create(io);
    b.prepare(id);
    b.rig.insert(id, At::Tail);
    id
}

fn ask(b: &mut Bench) -> Option<ReqId> {
    match b.dispatch() {
        Dispatch::Issue(id) => Some(id),
        Dispatch::Idle | Dispatch::Empty => None,
    }
}

fn complete(b: &mut Bench, id: ReqId) {
    b.complete(id);
}

fn tick(b: &Bench) -> i64 {
    (b.now.as_nanos() / 1_000_000) as i64
}

#[test]
fn deadline_agrees_with_its_model() {
    for seed in 0..SEEDS {
        let mut rng = Rng::new(seed);
        let (batch, starved) = (rng.below(6), rng.below(4));
        let tunables = [("fifo_batch", batch), ("writes_starved", starved)];
        let mut b = Bench::new("deadline", &tunables);
        let mut model = DeadlineModel {
            fifo_batch: batch,
            writes_starved: starved,
            ..DeadlineModel::default()
        };
        for step in 0..STEPS {
            // Long enough steps for reads, and at times writes, to expire.
            b.now += Nanos::us(rng.below(30_000));
            if rng.one_in(2) && b.env.requests.len() < SLOTS {
                // 64 places: equal starts are frequent.
                let io = random_io(&mut b, &mut rng, 64);
                let id = add(&mut b, io);
                model.insert(tick(&b), id, io.op.dir() as usize, io.start.0);
            } else {
                let got = ask(&mut b);
                assert_eq!(got, model.dispatch(tick(&b)), "seed {seed}, step {step}");
                if let Some(id) = got {
                    complete(&mut b, id);
                }
            }
        }
    }
}

#[test]
fn mq_deadline_agrees_with_its_model() {
    for seed in 0..SEEDS {
        let mut rng = Rng::new(seed);
        let (batch, starved, aging) = (rng.below(6), rng.below(4), 50 + rng.below(2000));
        let tunables =
            [("fifo_batch", batch), ("writes_starved", starved), ("prio_aging_expire", aging)];
        let mut b = Bench::new("mq-deadline", &tunables);
        let mut model = MqModel {
            crowd: Crowd::default(),
            next: [[None; 2]; 3],
            queued: [0; 3],
            last_dir: 1,
            batching: 0,
            starved: 0,
            writes_starved: starved,
            fifo_batch: batch,
            aging: aging as i64,
        };
        let mut flying: Vec<(ReqId, usize)> = Vec::new();
        for step in 0..STEPS {
            b.now += Nanos::us(rng.below(20_000));
            match rng.below(5) {
                0 | 1 if b.env.requests.len() < SLOTS => {
                    let io = random_io(&mut b, &mut rng, 64);
                    let id = add(&mut b, io);
                    model.insert(tick(&b), id, level_of(&io), io.op.dir() as usize, io.start.0);
                }
                2 | 3 => {
                    let got = ask(&mut b);
                    assert_eq!(got, model.dispatch(tick(&b)), "seed {seed}, step {step}");
                    for of in 0..3 {
                        let queued = b.figure("queued", Some(of));
                        assert_eq!(queued as u64, model.queued[of as usize]);
                    }
                    assert_eq!(b.figure("starved", None) as u64, model.starved);
                    if let Some(id) = got {
                        let r = b.env.requests[id];
                        flying.push((id, level_of(b.env.requests.bio(r.first_io.unwrap()))));
                    }
                }
                _ if !flying.is_empty() => {
                    let (id, level) = flying.swap_remove(rng.below(flying.len() as u64) as usize);
                    complete(&mut b, id);
                    model.queued[level] -= 1;
                }
                _ => {}
            }
        }
    }
}

/// A load that never lets reads or writes run out: what was served is replaced at a random place.
fn saturated(name: &str, tunables: &[(&str, u64)], seed: u64) -> (Bench, Rng) {
    let mut b = Bench::new(name, tunables);
    let mut rng = Rng::new(seed);
    for i in 0..80 {
        let mut io = Io::read(i, ProcId(0), 16 * rng.below(1 << 20), 8);
        io.op = if i % 2 == 0 { Op::Read } else { Op::Write };
        add(&mut b, io);
    }
    (b, rng)
}

/// Writes that wait are served after at most `(writes_starved + 1) * fifo_batch` reads in a row: the
/// batch that runs when they come is not cut, then `writes_starved` batches may pass.
#[test]
fn reads_in_a_row_are_bounded_while_writes_wait() {
    for name in ["deadline", "mq-deadline"] {
        for (starved, batch) in [(0, 1), (0, 16), (1, 3), (2, 16), (5, 2)] {
            let tunables = [("writes_starved", starved), ("fifo_batch", batch)];
            let (mut b, mut rng) = saturated(name, &tunables, starved * 31 + batch);
            let (mut row, mut longest) = (0, 0);
            for _ in 0..20_000 {
                b.now += Nanos::us(500);
                let id = ask(&mut b).expect("the load never ends");
                let op = b.env.requests[id].op;
                row = if op == Op::Read { row + 1 } else { 0 };
                longest = longest.max(row);
                complete(&mut b, id);
                let mut io = Io::read(0, ProcId(0), 16 * rng.below(1 << 20), 8);
                io.op = op;
                add(&mut b, io);
            }
            let bound = (starved + 1) * batch;
            assert!(
                longest <= bound,
                "{name} {tunables:?}: {longest} reads in a row, bound {bound}"
            );
            // The bound is not idle: all allowed batches are used (unless a sweep ends early).
            assert!(longest >= starved, "{name} {tunables:?}: only {longest}");
        }
    }
}

/// With at most `n` requests of a direction waiting, an expired one waits for at most `n` batches of its own
/// direction (every batch that begins while the FIFO head is expired takes that head), each preceded by
/// at most `writes_starved` batches of reads and followed by one of writes, and for the running batch.
#[test]
fn an_expired_request_waits_for_a_bounded_number_of_dispatches() {
    for name in ["deadline", "mq-deadline"] {
        for (starved, batch) in [(0, 1), (1, 4), (2, 16)] {
            let tunables = [
                ("writes_starved", starved),
                ("fifo_batch", batch),
                ("read_expire", 20),
                ("write_expire", 40),
            ];
            let (mut b, mut rng) = saturated(name, &tunables, 7);
            let mut born = vec![Instant::ZERO; SLOTS];
            let turn = Nanos::us(500);
            // 40 of each direction wait; a read needs at most 40 rounds of (one write batch + one read
            // batch), a write 40 rounds of (starved + 1 read batches + one write batch).
            let rounds = [2 * batch, (starved + 2) * batch].map(|n| 40 * n.max(2) + batch);
            for _ in 0..20_000 {
                b.now += turn;
                let id = ask(&mut b).expect("the load never ends");
                let op = b.env.requests[id].op;
                let dir = op.dir() as usize;
                let limit = Nanos::ms([20, 40][dir] + 1) + turn * rounds[dir];
                let waited = b.now.since(born[id.index()]);
                assert!(
                    waited <= limit,
                    "{name} {tunables:?}: {op:?} waited {waited:?} > {limit:?}"
                );
                complete(&mut b, id);
                // New ones all start low, where a pure sweep would take them first.
                let mut io = Io::read(0, ProcId(0), 16 * rng.below(64), 8);
                io.op = op;
                let new = add(&mut b, io);
                born[new.index()] = b.now;
            }
        }
    }
}

/// A real-time stream that never pauses: a lower request is served at the first dispatch at which it is
/// `prio_aging_expire` old (one request waits, so nothing hides it).
#[test]
fn ageing_serves_a_lower_level_at_the_promised_time() {
    for aging in [0, 1, 100, 1000] {
        for prio in [IoPrio::be(4), IoPrio::idle()] {
            let mut b = Bench::new("mq-deadline", &[("prio_aging_expire", aging)]);
            let mut rng = Rng::new(aging);
            let mut rt = |b: &mut Bench| {
                let mut io = Io::read(0, ProcId(0), 16 * rng.below(1 << 20), 8);
                io.prio = IoPrio::rt(0);
                add(b, io)
            };
            (0..8).for_each(|_| {
                rt(&mut b);
            });
            b.now += Nanos::ms(3);
            let mut io = Io::read(0, ProcId(0), 8, 8);
            io.prio = prio;
            let low = add(&mut b, io);
            let born = b.now;
            loop {
                let id = ask(&mut b).expect("the stream never ends");
                if id == low {
                    break;
                }
                assert!(b.now.since(born) < Nanos::ms(aging), "{prio} {aging} ms: too late");
                complete(&mut b, id);
                rt(&mut b);
                b.now += Nanos::us(250);
            }
            assert!(b.now.since(born) >= Nanos::ms(aging), "{prio} {aging} ms: too early");
        }
    }
}
