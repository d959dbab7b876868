//! The bounds B1 to B7 of the specification (section 5) over random loads. B2 is about drives, not about the scheduler.
//! Each test asks for the bound, and that what is seen comes near it: a looser scheduler or a bound that says nothing
//! fails.

use super::super::fair::Fair;
use super::*;

/// Sixteenths of units of a request of so many sectors.
const fn work(sectors: u64) -> u64 {
    UNIT + sectors
}

impl Bench {
    /// Nobody goes first because it has just begun, and these values.
    fn set(&mut self, values: &[(&str, u64)]) {
        for (name, value) in [("begin", 0)].iter().chain(values) {
            let cx = &mut self.env.cx();
            self.sched.set(self.now, name, *value, cx).expect("a value in its range");
        }
    }

    /// The time of a request is proportional to its units: `time` a sixteenth.
    fn serve_units(&mut self, time: u64) {
        (self.command, self.per_sector) = (UNIT * time, time);
    }
}

/// B1: a target takes no more than eps of what the drive can move, so its mean latency is at least b / (eps R). The
/// slack is the burst that may be owed. Nor is it held for longer than the budget's least part, 7/10, asks for.
#[test]
fn b1_one_outstanding_request_waits_for_what_the_others_keep() {
    let mut binds = 0;
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let mut b = Bench::new(1 + rng.below(2) as usize);
        let (eps, size, block) = (rng.pick(&[20, 30, 50]), rng.pick(&[64, 96, 128]), 8);
        let valve = (b.servers as u64 + 1) * work(size);
        b.set(&[("others_loss", eps), ("valve", valve / UNIT)]);
        // A small request costs little more than its sectors, or the drive would lose more than those.
        b.command = 2_000;
        let target = b.gold();
        let hogs = 25 + rng.below(8);
        let mut procs: Vec<_> = (0..hogs).map(|_| (b.proc(GroupId::ROOT), 4)).collect();
        procs.push((target, 1));
        let mut of = |p: ProcId| if p == target { block } else { size };
        b.run(&procs, Nanos::secs(1), &mut of);
        b.latencies.clear();
        let from = b.now;
        b.run(&procs, Nanos::secs(2), &mut of);
        let mean = b.mean(target);
        // Sectors that the drive can move in the time, and the part of them that may be taken.
        let (time, one) = (b.now.since(from).0, b.command + b.per_sector * size);
        let all = b.servers as u64 * size * time / one;
        let may = all * eps / 1000;
        let (bound, burst) = (block * time / may, 128 + 2 * block);
        let least = block * time / (may + burst);
        assert!(mean >= least, "seed {seed}: {mean} ns of {least}");
        let free =
            (b.servers as u64 + 1) * one / b.servers as u64 + b.command + b.per_sector * block;
        let most = free.max(bound * 10 / 7) * 11 / 10;
        assert!(mean <= most, "seed {seed}: {mean} ns, no more than {most}");
        binds += u32::from(mean * 10 <= bound * 11);
    }
    assert!(binds >= 4, "the bound is reached {binds} times");
}

/// What a max-min division gives each: a share by weight, at most `cap` (both of 1,000,000).
fn max_min(weights: &[u64], cap: u64) -> Vec<u64> {
    let mut shares = alloc::vec![0; weights.len()];
    let mut open: Vec<usize> = (0..weights.len()).collect();
    let mut left = 1_000_000;
    loop {
        let sum: u64 = open.iter().map(|&i| weights[i]).sum();
        let (full, rest): (Vec<usize>, Vec<usize>) =
            open.iter().partition(|&&i| left * weights[i] / sum.max(1) >= cap);
        if full.is_empty() {
            rest.iter().for_each(|&i| shares[i] = left * weights[i] / sum.max(1));
            return shares;
        }
        full.iter().for_each(|&i| shares[i] = cap);
        left = left.saturating_sub(cap * full.len() as u64);
        open = rest;
    }
}

/// B3: with q outstanding of N inside nobody gets more than q/N; the rest is divided by weight.
#[test]
fn b3_a_share_is_at_most_what_is_outstanding_of_what_is_inside() {
    let mut capped = 0;
    for seed in 0..16 {
        let mut rng = Rng::new(seed);
        let mut b = Bench::new(1 + rng.below(4) as usize);
        let (inside, q) = (8 + rng.below(20), 1 + rng.below(4));
        b.set(&[("valve", 2 * inside)]);
        b.serve_units(2_000);
        // Twice as much waits as is inside, or weights would have nothing to choose from.
        let n = (2 * inside).div_ceil(q).max(4);
        let weights: Vec<u64> = (0..n).map(|_| 100 << rng.below(4)).collect();
        let procs: Vec<_> = weights
            .iter()
            .map(|&w| {
                let group = b.group(GroupId::ROOT, w);
                (b.proc(group), q as usize)
            })
            .collect();
        b.run(&procs, Nanos::secs(1), &mut |_| 16);
        b.served.clear();
        b.run(&procs, Nanos::secs(2), &mut |_| 16);
        let all: u64 = b.served.values().sum();
        // A request arrives when the place of the one before it has been given away: one in N + 1.
        let expected = max_min(&weights, 1_000_000 * q / (inside + 1));
        for (i, (proc, _)) in procs.iter().enumerate() {
            let share = b.served[&proc.0] * 1_000_000 / all;
            let most = 1_000_000 * q / inside;
            assert!(share <= most * 101 / 100, "seed {seed}: {share} of {most}");
            let near = share.abs_diff(expected[i]) <= expected[i] / 20;
            assert!(near, "seed {seed}: weight {}, {share} and not {}", weights[i], expected[i]);
            capped += u32::from(expected[i] == 1_000_000 * q / (inside + 1));
        }
    }
    assert!(capped > 10, "{capped} reach their cap");
}

/// B4, in order of arrival: a target waits for what the valve lets in and for itself.
#[test]
fn b4_a_target_waits_for_one_valve_in_a_drive_that_serves_in_order() {
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let (servers, valve) = (1 + rng.below(6), 24 + rng.below(180));
        let (time, largest) = (250 + rng.below(1_500), 8 * (1 + rng.below(32)));
        let mut b = Bench::new(servers as usize);
        b.set(&[("valve", valve), ("others_loss", 1000)]);
        b.serve_units(time);
        let target = b.gold();
        let mut procs: Vec<_> = (0..4).map(|_| (b.proc(GroupId::ROOT), 50)).collect();
        procs.push((target, 1));
        let mut size = |p: ProcId| if p == target { 8 } else { 8 * (1 + rng.below(largest / 8)) };
        let mut held = Nanos::ZERO;
        let mut worst = 0;
        b.run(&procs, Nanos::ZERO, &mut size);
        while b.now < Instant::ZERO + Nanos::ms(800) {
            let own = b.inside.iter().map(|(id, _)| b.env.requests[*id]);
            if let Some(r) = own.into_iter().find(|r| r.proc == target) {
                held = r.issued.since(r.alloc);
            }
            let Some(proc) = b.step() else { continue };
            if proc == target {
                let last = b.latencies[&target.0].last().copied().unwrap_or(0);
                worst = worst.max(last - held.0);
            }
            let sectors = size(proc);
            b.submit(proc, sectors);
        }
        let most = (valve * UNIT).max(work(largest)) * time / servers + work(8) * time;
        assert!(worst <= most, "seed {seed}: {worst} of {most} ns");
        assert!(worst * 2 >= most, "seed {seed}: {worst} ns, far below {most}");
    }
}

/// B4, throughput: with the same time for each, min(k/L0, R).
#[test]
fn b4_a_drive_of_equal_services_delivers_what_the_valve_keeps_busy() {
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let (servers, inside) = (1 + rng.below(16), 3 + rng.below(20));
        let mut b = Bench::new(servers as usize);
        b.set(&[("valve", 2 * inside)]);
        let procs: Vec<_> = (0..4).map(|_| (b.proc(GroupId::ROOT), 20)).collect();
        b.run(&procs, Nanos::ms(100), &mut |_| 16);
        let before = (b.now, b.sectors);
        b.run(&procs, Nanos::ms(500), &mut |_| 16);
        let (time, done) = (b.now.since(before.0).0, (b.sectors - before.1) / 16);
        let lone = b.command + b.per_sector * 16;
        let expected = inside.min(servers) * time / lone;
        assert!(done.abs_diff(expected) <= servers + 1, "seed {seed}: {done} and not {expected}");
    }
}

/// A drive of stations: each request belongs to one of them, which serves its own in order of arrival; and with flushes
/// that stop them all. Writes go to its cache, past the stations.
struct Stations {
    b: Bench,
    stations: u64,
    /// Time of a service; a memoryless one if `spread`.
    service: u64,
    spread: bool,
    flush_time: Nanos,
    flush: Option<(Instant, Vec<ReqId>)>,
    /// Written, and waiting for a flush.
    asked: Vec<ReqId>,
    flushes: u64,
    /// Of each write: when it came, and how long it waited in the scheduler.
    waits: Vec<(Instant, Nanos)>,
    done: u64,
}

impl Stations {
    fn new(stations: u64, service: u64, spread: bool, flush_time: Nanos) -> Stations {
        // The bench serves nothing by itself.
        let b = Bench::new(0);
        let (flush, asked, waits) = (None, Vec::new(), Vec::new());
        let (flushes, done) = (0, 0);
        Stations { b, stations, service, spread, flush_time, flush, asked, flushes, waits, done }
    }

    /// Station and service time of a request, by its place.
    fn fate(&self, id: ReqId) -> (u64, Nanos) {
        let mut rng = Rng::new(self.b.env.requests[id].start.0);
        let station = rng.below(self.stations);
        let step = self.service / 16;
        let steps =
            if self.spread { 1 + (0..).take_while(|_| !rng.one_in(16)).count() } else { 16 };
        (station, Nanos(step * steps as u64))
    }

    fn serve(&mut self) {
        let mut busy = alloc::vec![self.flush.is_some(); self.stations as usize];
        for n in 0..self.b.inside.len() {
            let id = self.b.inside[n].0;
            let (station, time) = self.fate(id);
            let now = self.b.now;
            if self.is_write(id) || !core::mem::replace(&mut busy[station as usize], true) {
                self.b.inside[n].1.get_or_insert(now + time);
            }
        }
    }

    fn is_write(&self, id: ReqId) -> bool {
        self.b.env.requests[id].op == Op::Write
    }

    fn write(&mut self, proc: ProcId) {
        let b = &mut self.b;
        b.next += 1;
        let io = Io {
            group: b.env.procs.group(proc),
            prio: b.env.procs.prio(proc),
            flags: Flags::SYNC,
            ..Io::write(b.next, proc, b.next * 7919 * 4096 % (1 << 29), 8)
        };
        let id = b.env.requests.create(io, true, QueueId(0), b.now).expect("a free slot");
        b.sched.insert(b.now, id, At::Tail, &mut b.env.cx());
        b.dispatch();
    }

    fn flush(&mut self) {
        if self.asked.is_empty() {
            return;
        }
        let b = &mut self.b;
        b.sched.flush(b.now, FlushCommand::Began, &mut b.env.cx());
        for (id, end) in &mut b.inside {
            let stopped = end.as_mut().filter(|_| b.env.requests[*id].op == Op::Read);
            stopped.into_iter().for_each(|end| *end += self.flush_time);
        }
        self.flush = Some((b.now + self.flush_time, core::mem::take(&mut self.asked)));
        self.flushes += 1;
    }

    /// The flush is over: who asked for it writes again.
    fn flushed(&mut self) {
        let (_, askers) = self.flush.take().expect("one runs");
        let b = &mut self.b;
        b.sched.flush(b.now, FlushCommand::Ended, &mut b.env.cx());
        let mut procs = Vec::new();
        for &id in &askers {
            b.sched.flushed(b.now, id, askers.len() as u32, &mut b.env.cx());
            procs.push(b.env.requests[id].proc);
            b.env.requests.remove(id);
        }
        procs.into_iter().for_each(|proc| self.write(proc));
        self.flush();
        self.b.dispatch();
    }

    fn completed(&mut self, at: usize, sectors: u64) {
        let b = &mut self.b;
        let (id, _) = b.inside.remove(at);
        let r = b.env.requests[id];
        b.sched.complete(b.now, id, &mut b.env.cx());
        self.done += 1;
        if r.op == Op::Write {
            self.waits.push((r.alloc, r.issued.since(r.alloc)));
            self.asked.push(id);
            if self.flush.is_none() {
                self.flush();
            }
            self.b.dispatch();
        } else {
            b.env.requests.remove(id);
            b.dispatch();
            b.submit(r.proc, sectors);
        }
    }

    /// Readers ask again at once, for so many sectors.
    fn step(&mut self, sectors: u64) {
        self.serve();
        let end = self.b.inside.iter().filter_map(|&(_, end)| end).min();
        let timer = self.b.sched.next_timer();
        let flush = self.flush.as_ref().map(|f| f.0);
        let next = [end, timer, flush].into_iter().flatten().min().expect("something goes on");
        self.b.now = self.b.now.max(next);
        if flush == Some(next) {
            self.flushed();
        } else if timer == Some(next) {
            self.b.sched.timer(self.b.now, &mut self.b.env.cx());
            self.b.dispatch();
        } else {
            let at = self.b.inside.iter().position(|&(_, e)| e == end).expect("it is there");
            self.completed(at, sectors);
        }
    }

    fn run(&mut self, time: Nanos, sectors: u64) {
        let end = self.b.now + time;
        while self.b.now < end {
            self.step(sectors);
        }
    }
}

/// B4, throughput of M equal stations that are hit at random: R k/(k + M - 1); as much or more if service varies less.
#[test]
fn b4_stations_hit_at_random_deliver_the_balanced_job_bound() {
    for seed in 0..10 {
        let mut rng = Rng::new(seed);
        let (stations, inside, spread) = (2 + rng.below(7), 3 + rng.below(24), seed % 2 == 0);
        let mut s = Stations::new(stations, 160_000, spread, Nanos::ZERO);
        s.b.set(&[("valve", 2 * inside)]);
        for _ in 0..4 {
            let proc = s.b.proc(GroupId::ROOT);
            (0..20).for_each(|_| s.b.submit(proc, 16));
        }
        s.run(Nanos::ms(20), 16);
        let (from, before) = (s.b.now, s.done);
        s.run(Nanos::secs(2), 16);
        let (time, done) = (s.b.now.since(from).0, s.done - before);
        let expected = stations * time / s.service * inside / (inside + stations - 1);
        assert!(done * 100 >= expected * 95, "seed {seed}: {done} of {expected}");
        assert!(!spread || done * 100 <= expected * 105, "seed {seed}: {done}, over {expected}");
    }
}

/// B5: two groups that stay backlogged, through rows and with claims from before, in any interval.
#[test]
fn b5_shares_differ_by_a_request_a_row_and_a_claim_at_most() {
    let (largest, row, mut nearest) = (300u64, 40 * UNIT, 0);
    for seed in 0..10 {
        let mut rng = Rng::new(seed);
        let (mut fair, mut links) = (Fair::new(), Links::new(8));
        fair.claim = Units(rng.below(4_000));
        let weights: Vec<u64> = (0..5).map(|_| rng.pick(&[100, 200, 300, 800])).collect();
        let leaves: Vec<LeafId> = (0..5u32)
            .map(|n| {
                fair.add_group(GroupId(n + 1), GroupId::ROOT);
                fair.set_weight(GroupId(n + 1), weights[n as usize] as u32);
                fair.leaf_of(ProcId(n), GroupId(n + 1), true)
            })
            .collect();
        let (mut served, mut waits) = ([0u64; 5], [false; 5]);
        // Least and largest lead of one over the other since both are backlogged.
        let mut leads = [[None::<(i128, i128)>; 5]; 5];
        for _ in 0..20_000 {
            let at = rng.below(5) as usize;
            if rng.one_in(20) {
                waits[at] = !waits[at];
                match waits[at] {
                    true => fair.push(&mut links, leaves[at], at as u32),
                    false => fair.remove(&mut links, leaves[at], at as u32),
                }
            }
            let Some(leaf) = fair.smallest() else { continue };
            let one = leaves.iter().position(|&l| l == leaf).expect("one of them");
            let (mut run, rows) = (0, rng.one_in(2));
            while run == 0 || rows && run < row {
                let units = work(rng.below(largest - UNIT));
                fair.charge(leaf, units, run == 0);
                run += units;
                served[one] += units;
            }
            for (i, j) in (0..5).flat_map(|i| (0..i).map(move |j| (i, j))) {
                if !(waits[i] && waits[j]) {
                    leads[i][j] = None;
                    continue;
                }
                let (wi, wj) = (weights[i], weights[j]);
                let lead = i128::from(served[i] * wj) - i128::from(served[j] * wi);
                let (least, most) = leads[i][j].unwrap_or((lead, lead));
                let (least, most) = (least.min(lead), most.max(lead));
                leads[i][j] = Some((least, most));
                let bound = (largest + row + fair.claim.0) * (wi + wj) + wi * wj;
                let apart = (most - least) as u64;
                assert!(apart <= bound, "seed {seed}: {apart} of {bound}");
                nearest = nearest.max(100 * apart / bound);
            }
        }
    }
    assert!(nearest >= 60, "{nearest} % of the bound is the most: it says too little");
}

/// B6: sync writes that wait together. Each release is followed by two flush commands at most: the first write that is
/// over asks for one, the others for the next.
#[test]
fn b6_flushes_take_their_part_and_no_sync_write_waits_for_longer() {
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let flush = match rng.below(3) {
            0 => Nanos::us(300 + rng.below(600)),
            1 => Nanos::ms(2 + rng.below(50)),
            _ => Nanos::ms(60 + rng.below(100)),
        };
        let mut s = Stations::new(1 + rng.below(4), 144_000, false, flush);
        // Others always wait for the valve; while none does, flushes cost nobody anything.
        s.b.set(&[("valve", 3 * s.stations * work(64) / UNIT)]);
        for _ in 0..4 {
            let proc = s.b.proc(GroupId::ROOT);
            (0..20).for_each(|_| s.b.submit(proc, 64));
        }
        // What the drive does without flushes.
        s.run(Nanos::ms(300), 64);
        for _ in 0..2 + rng.below(6) {
            let proc = s.b.proc(GroupId::ROOT);
            s.write(proc);
        }
        s.run(Nanos::secs(3), 64);
        let (from, before) = (s.b.now, s.flushes);
        s.run(Nanos::secs(6), 64);
        let time = s.b.now.since(from).0;
        let wait = (flush * 8).clamp(Nanos::ms(20), Nanos::ms(500));
        let worst = s.waits.iter().filter(|(came, _)| *came >= from).map(|w| w.1).max();
        let worst = worst.expect("somebody writes").0;
        assert!(worst <= wait.0 + flush.0, "seed {seed}: {worst} of {wait:?}");
        assert!(worst * 2 >= wait.0, "seed {seed}: {worst}, far below {wait:?}");
        let lost = (s.flushes - before) * flush.0;
        let permille = (2_000 * flush.0 / (wait + flush).0).max(50);
        // The price is an estimate: a tenth more.
        let most = time / 1000 * permille * 11 / 10 + 2 * flush.0;
        assert!(lost <= most, "seed {seed}: {flush:?}, {lost} of {most} ns, {time}");
        assert!(lost * 2 >= most, "seed {seed}: {flush:?}, {lost} ns, far below {most}");
    }
}

/// B7: with 2 (z s/loss)^2 slices of each of two settings the worse one is known but for the tail beyond z = 2, 2.3 %;
/// with a sixteenth of them it is not.
#[test]
fn b7_slices_that_tell_two_settings_apart() {
    let mut rng = Rng::new(1);
    for (scatter, loss) in [(20u64, 3u64), (10, 3), (12, 2)] {
        let slices = 2 * (2 * scatter).pow(2) / loss.pow(2);
        let mut wrong = |slices: u64| {
            let mut sum = |mean: i64| -> i64 {
                // Twelve uniform parts: variance 1 in 1000 x 1000, so `scatter` percent of the mean.
                let slice = |rng: &mut Rng| -> i64 {
                    let parts: i64 = (0..12).map(|_| rng.below(1000) as i64 - 500).sum();
                    mean * 1000 + parts * scatter as i64
                };
                (0..slices).map(|_| slice(&mut rng)).sum()
            };
            (0..1000).filter(|_| sum(100) <= sum(100 - loss as i64)).count()
        };
        let (enough, few) = (wrong(slices), wrong(slices / 16));
        assert!(enough <= 40, "{scatter} %, {loss} %: {enough} of 1000 are wrong");
        assert!(few >= 200, "{scatter} %, {loss} %: {few} of 1000 are wrong");
    }
}
