use super::clock::Clock;
use super::*;
use crate::drive::{Command, DriveOutput};
use hoistway::{Instant, Op};

/// 100 us a command, any number at once, no limits: what is late is late by a fault.
const FIXED: &str = "fixed-100us";

fn faulty(given: &[(&str, toml::Value)]) -> DriveFile {
    let given: Vec<(String, toml::Value)> =
        given.iter().map(|(k, v)| (k.to_string(), v.clone())).collect();
    DriveFile::load(FIXED).unwrap().with_faults(&given).unwrap()
}

fn int(n: i64) -> toml::Value {
    toml::Value::Integer(n)
}

/// Gives a command each `every` ns for `length` ns; (given, done) of each in µs, in order of arrival.
fn times(file: &DriveFile, op: Op, every: u64, length: u64, bytes: u64) -> Vec<(u64, u64)> {
    let mut drive = file.build(1);
    let count = length / every;
    let mut done = vec![0; count as usize];
    let mut now = Instant::ZERO;
    let mut take = |drive: &mut dyn crate::drive::Drive, from: u64, until: u64| {
        now = now.max(Instant::from_nanos(from));
        loop {
            match drive.poll(now) {
                DriveOutput::Done(c) => done[c.tag as usize] = c.at.as_nanos() / 1000,
                DriveOutput::WaitUntil(Some(at)) if at.as_nanos() <= until => now = at,
                DriveOutput::WaitUntil(_) => return,
            }
        }
    };
    for i in 0..count {
        take(&mut *drive, i.saturating_sub(1) * every, i * every);
        let command = Command { tag: i, op, start: i << 20, len: bytes, fua: false };
        drive.handle(Instant::from_nanos(i * every), command);
    }
    take(&mut *drive, (count - 1) * every, u64::MAX);
    (0..count).map(|i| (i * every / 1000, done[i as usize])).collect()
}

const MS: u64 = 1_000_000;

#[test]
fn without_faults_there_is_no_wrapper() {
    let file = faulty(&[("pause_every_ms", int(0)), ("noise_sigma", int(0))]);
    assert!(Faults::from_file(&file).is_none());
    assert!(format!("{:?}", file.build(1)).starts_with("Bucket"));
}

#[test]
fn drive_time_and_its_inverse_fit_in_every_segment() {
    let faults = Faults {
        pause: Some(Recurring { every: 3e6, length: 1e6 }),
        slow: Some((Recurring { every: 2e6, length: 2e6 }, 3_700)),
        start: Some((4_000_000, 1_500)),
        ..Faults::default()
    };
    let mut clock = Clock::new(&faults, 7, "t");
    let (mut pauses, mut before) = (0, 0);
    for _ in 0..2000 {
        let s = clock.now;
        pauses += u32::from(s.is_pause());
        for t in [before, before + 1, (before + s.end) / 2, s.end - 1, s.end] {
            let inner = s.inner_at(t);
            assert!(s.outer_of(inner) <= t || s.is_pause(), "{s:?} at {t}");
            assert!(s.is_pause() || s.inner_at(s.outer_of(inner)) >= inner, "{s:?} at {t}");
            assert!(s.inner_at(before) <= inner && inner <= t, "drive time never runs ahead");
        }
        before = s.end;
        clock.next();
        assert_eq!(clock.now.inner_at(before), s.inner_at(before), "no drive time is lost");
    }
    assert!(pauses > 100);
}

#[test]
fn in_a_pause_nothing_is_done_and_everything_behind_it() {
    let file = faulty(&[("pause_every_ms", int(50)), ("pause_ms", int(20))]);
    let all = times(&file, Op::Read, 100_000, 5_000 * MS, 4096);
    let waits: Vec<u64> = all.iter().map(|(given, done)| done - given).collect();
    let late = waits.iter().filter(|&&w| w > 100).count() as f64 / waits.len() as f64;
    // 20 of every 70 ms.
    assert!((0.2..0.38).contains(&late), "{late} of the commands met a pause");
    assert!(waits.iter().all(|&w| (100..=30_101).contains(&w)), "pauses are at most 1.5 x 20 ms");
    assert!(waits.iter().any(|&w| w > 20_000));
}

#[test]
fn in_a_slow_phase_everything_takes_the_factor() {
    let file = faulty(&[("start_ms", int(100)), ("start_factor", toml::Value::Float(2.5))]);
    let all = times(&file, Op::Write, MS, 200 * MS, 4096);
    let took = |i: usize| all[i].1 - all[i].0;
    assert!((0..99).all(|i| took(i) == 250), "{:?}", &all[..3]);
    assert!((100..200).all(|i| took(i) == 100));
    let slow = [("slow_every_ms", int(40)), ("slow_ms", int(10)), ("slow_factor", int(8))];
    let waits = times(&faulty(&slow), Op::Read, MS, 2_000 * MS, 4096);
    let slow = waits.iter().filter(|(given, done)| done - given >= 799).count();
    assert!((250..550).contains(&slow), "{slow} of 2000, expected a fifth");
}

#[test]
fn commands_pass_at_the_lower_rate_when_the_credit_is_spent() {
    let file = faulty(&[("credit_ios", int(100)), ("credit_iops", int(500))]);
    let all = times(&file, Op::Read, 1, 200, 4096);
    assert!(all[..100].iter().all(|&(_, done)| done == 100));
    // 2 ms each from then on.
    assert!((101..200).all(|i| all[i].1 == 100 + 2000 * (i as u64 - 99)), "{:?}", &all[100..104]);
    let file = faulty(&[("credit_mib", int(1)), ("credit_mb_s", "1MiB/s".into())]);
    let all = times(&file, Op::Read, 1, 8, 512 << 10);
    let done: Vec<u64> = all.iter().map(|a| a.1).collect();
    assert_eq!(&done[..4], [100, 100, 500_100, 1_000_100]);
}

#[test]
fn writes_that_wait_for_the_cache_are_passed_by_reads() {
    let file = faulty(&[("cache_mib", int(1)), ("cache_mb_s", "1MiB/s".into())]);
    let all = times(&file, Op::Write, 1, 4, 1 << 20);
    assert_eq!(all[3].1, 3_000_100);
    let mut drive = file.build(1);
    for (tag, op) in [(0, Op::Write), (1, Op::Write), (2, Op::Read), (3, Op::Flush)] {
        let len = if op == Op::Flush { 0 } else { 1 << 20 };
        drive.handle(Instant::ZERO, Command { tag, op, start: tag << 30, len, fua: false });
    }
    let mut order = Vec::new();
    while let DriveOutput::Done(c) = drive.poll(Instant::from_nanos(10_000 * MS)) {
        order.push(c.tag);
    }
    assert_eq!(order, [3, 0, 2, 1], "a flush takes 1 us here, and waits for nobody");
}

#[test]
fn in_a_read_only_phase_writes_and_flushes_stall_and_reads_do_not() {
    let file = faulty(&[("readonly_every_ms", int(30)), ("readonly_ms", int(30))]);
    let reads = times(&file, Op::Read, MS, 1_000 * MS, 4096);
    assert!(reads.iter().all(|(given, done)| done - given == 100));
    for op in [Op::Write, Op::Flush] {
        let waits = times(&file, op, MS, 1_000 * MS, 4096);
        let stalled = waits.iter().filter(|(given, done)| done - given > 100).count();
        assert!((300..700).contains(&stalled), "{op:?}: {stalled} of 1000, expected half");
    }
}

#[test]
fn noise_lengthens_each_service_by_its_own_factor() {
    let file = faulty(&[("noise_sigma", toml::Value::Float(0.5))]);
    let all = times(&file, Op::Read, MS, 10_000 * MS, 4096);
    let mut waits: Vec<u64> = all.iter().map(|(given, done)| done - given).collect();
    waits.sort_unstable();
    assert!(waits[0] >= 100);
    // exp(0.5 x 0.6745), the median of |n|.
    assert!(waits[5000].abs_diff(140) <= 3, "median {}", waits[5000]);
    let mean = waits.iter().sum::<u64>() as f64 / 1e4;
    // 2 exp(1/8) Phi(0.5).
    assert!((mean - 156.7).abs() < 4.0, "mean {mean}");
}

#[test]
fn the_same_seed_meets_the_same_faults_whatever_the_load() {
    let file = faulty(&[("pause_every_ms", int(50)), ("pause_ms", int(20))]);
    // Ends of pauses: the first completion behind one.
    let ends = |every: u64| -> Vec<u64> {
        let late = |&(given, done): &(u64, u64)| (done - given > 5_000).then_some(done);
        let mut ends: Vec<u64> =
            times(&file, Op::Read, every, 2_000 * MS, 4096).iter().filter_map(late).collect();
        ends.dedup();
        ends
    };
    let (dense, sparse) = (ends(50_000), ends(1_000_000));
    let common = sparse.iter().filter(|e| dense.iter().any(|d| d.abs_diff(**e) <= 100)).count();
    assert!(sparse.len() > 10 && common == sparse.len(), "{dense:?} and {sparse:?}");
}

#[test]
fn half_a_fault_is_refused_with_what_it_lacks() {
    let fixed = DriveFile::load(FIXED).unwrap();
    let said = |key: &str, value: toml::Value| {
        fixed.with_faults(&[(key.to_string(), value)]).unwrap_err().to_string()
    };
    assert_eq!(
        said("pause_every_ms", int(100)),
        "[faults]: pause_every_ms = 100 needs pause_ms above 0"
    );
    assert_eq!(
        said("pause_ms", int(100)),
        "[faults]: pause_ms does nothing without pause_every_ms; give both, or pause_every_ms = 0"
    );
    assert!(said("pauses_ms", int(1)).contains("did you mean 'pause_ms'?"));
    assert!(said("noise_sigma", int(11)).contains("is outside 0..=10"));
    let text = DriveFile::embedded(FIXED).unwrap().to_string() + "\n[faults]\nslow_every_ms = 3\n";
    let error = DriveFile::parse("x.toml", &text).unwrap_err().to_string();
    let line = text.lines().count();
    assert_eq!(error, format!("x.toml:{line}: slow_every_ms = 3 needs slow_ms above 0"));
}
