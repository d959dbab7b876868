use super::*;

fn hdd(id: &str) -> Hdd {
    Hdd::new(&DriveFile::load(id).unwrap())
}

/// Runs until the drive has nothing more to do; completions in order.
fn drain(drive: &mut Hdd, mut now: Instant) -> (Vec<Completion>, Instant) {
    let mut done = Vec::new();
    loop {
        match drive.poll(now) {
            DriveOutput::Done(c) => done.push(c),
            DriveOutput::WaitUntil(Some(at)) => now = at,
            DriveOutput::WaitUntil(None) => return (done, now),
        }
    }
}

fn command(tag: u64, op: Op, start: u64, len: u64) -> Command {
    Command { tag, op, start, len, fua: false }
}

#[test]
fn after_a_flush_nothing_is_dirty() {
    for id in ["hitachi-hts727550a9e364", "hdd-nearline-18tb-dual-actuator"] {
        let mut drive = hdd(id);
        let step = drive.capacity / 40 / 4096 * 4096;
        for n in 0..30 {
            drive.handle(Instant::ZERO, command(n, Op::Write, n * step, 4096 * (1 + n)));
        }
        let dirty: u64 = drive.mechanisms.iter().map(Mechanism::dirty_bytes).sum();
        assert_eq!(dirty, 30 * 31 / 2 * 4096);
        drive.handle(Instant::ZERO, command(99, Op::Flush, 0, 0));
        let (done, _) = drain(&mut drive, Instant::ZERO);
        assert_eq!(done.len(), 31);
        assert_eq!(done[30].tag, 99, "the writes completed before");
        assert!(done[30].at > Instant::from_nanos(50_000_000));
        assert!(drive.mechanisms.iter().all(|m| m.dirty_bytes() == 0));
    }
}

#[test]
fn a_fua_write_takes_media_time_and_a_cached_one_link_time() {
    let mut drive = hdd("hitachi-hts727550a9e364");
    drive.handle(Instant::ZERO, command(1, Op::Write, 1 << 30, 4096));
    let fua = Command { fua: true, ..command(2, Op::Write, 300 << 30, 4096) };
    drive.handle(Instant::ZERO, fua);
    let (done, _) = drain(&mut drive, Instant::ZERO);
    assert_eq!((done[0].tag, done[0].media), (1, Nanos::ZERO));
    assert!(done[0].at.as_nanos() < 400_000);
    assert!(done[1].tag == 2 && done[1].at.as_nanos() > 8_000_000);
}

#[test]
fn a_read_of_dirty_data_and_one_of_a_segment_need_no_mechanics() {
    let mut drive = hdd("hitachi-hts727550a9e364");
    drive.handle(Instant::ZERO, command(1, Op::Write, 1 << 30, 65536));
    drive.handle(Instant::ZERO, command(2, Op::Read, (1 << 30) + 4096, 4096));
    let (done, now) = drain(&mut drive, Instant::ZERO);
    assert_eq!(done[1].media, Nanos::ZERO);
    drive.handle(now, command(3, Op::Read, 4 << 30, 262_144));
    let (_, now) = drain(&mut drive, now);
    drive.handle(now, command(4, Op::Read, (4 << 30) + 8192, 4096));
    let (done, now) = drain(&mut drive, now);
    assert_eq!(done[0].media, Nanos::ZERO);
    // A write over it makes it stale; what is dirty now serves it instead.
    drive.handle(now, command(5, Op::Write, 4 << 30, 262_144));
    drive.handle(now, command(6, Op::Read, (4 << 30) + 8192, 4096));
    let (done, _) = drain(&mut drive, now);
    assert_eq!(done.iter().map(|c| c.tag).collect::<Vec<_>>(), [5, 6]);
}

#[test]
fn dirty_data_leave_an_idle_drive() {
    let mut drive = hdd("hitachi-hts727550a9e364");
    drive.handle(Instant::ZERO, command(1, Op::Write, 1 << 30, 4096));
    let (_, now) = drain(&mut drive, Instant::ZERO);
    assert!(now.as_nanos() > 30_000_000, "after the idle time");
    assert_eq!(drive.mechanisms[0].dirty_bytes(), 0);
}

#[test]
fn a_write_longer_than_the_buffer_ends_with_its_last_piece() {
    let mut drive = hdd("hitachi-hts727550a9e364");
    drive.handle(Instant::ZERO, command(1, Op::Write, 1 << 30, 64 << 20));
    let (done, now) = drain(&mut drive, Instant::ZERO);
    // 64 MiB at 124 MB/s less the 4 MiB that stay in the buffer.
    let seconds = done[0].at.as_nanos() as f64 / 1e9;
    assert!((0.45..0.60).contains(&seconds), "{seconds}");
    assert!(now > done[0].at);
    assert_eq!(drive.mechanisms[0].dirty_bytes(), 0);
}

#[test]
fn a_command_across_the_border_of_two_actuators_is_split() {
    let mut drive = hdd("hdd-nearline-18tb-dual-actuator");
    let border = drive.border;
    drive.handle(Instant::ZERO, command(7, Op::Read, border - 65536, 131_072));
    let (done, _) = drain(&mut drive, Instant::ZERO);
    assert_eq!(done.len(), 1);
    assert!(drive.mechanisms.iter().all(|m| m.next_event() == u64::MAX));
}

#[test]
fn the_age_limit_puts_the_oldest_first() {
    let text = DriveFile::embedded("hitachi-hts727550a9e364").unwrap();
    let text = text.replace("age_limit_ms = 0", "age_limit_ms = 50");
    let mut drive = Hdd::new(&DriveFile::parse("x.toml", &text).unwrap());
    // A far read beside a stream that always has the next read queued.
    let mut now = Instant::ZERO;
    drive.handle(now, command(0, Op::Read, 0, 262_144));
    drive.handle(now, command(1000, Op::Read, 400 << 30, 4096));
    drive.handle(now, command(1, Op::Read, 262_144, 262_144));
    let mut next = 2;
    loop {
        match drive.poll(now) {
            DriveOutput::Done(c) if c.tag == 1000 => break,
            DriveOutput::Done(_) => {
                drive.handle(now, command(next, Op::Read, next * 262_144, 262_144));
                next += 1;
            }
            DriveOutput::WaitUntil(at) => now = at.expect("reads are queued"),
        }
    }
    let ms = now.as_nanos() / 1_000_000;
    assert!((50..90).contains(&ms), "{ms} ms");
}

fn shingled(keys: &str) -> Result<Hdd, String> {
    let text = format!(
        "schema = 1\nbase = \"hdd-smr-8tb\"\nname = \"a small one\"\n[identity]\ncapacity_bytes = 80000000000\n\
         [hdd]\nmedia_cache_mib = 64\n{keys}\n"
    );
    DriveFile::parse("small.toml", &text).map(|f| Hdd::new(&f)).map_err(|e| e.to_string())
}

/// 64 scattered blocks and a flush: a few turns of the disk into the media cache. If it is full each cleaned band makes
/// room for a few blocks, and takes more than twice 30 MiB of reading and writing.
#[test]
fn a_shingled_drive_is_fast_as_long_as_its_media_cache_has_room() {
    let flushed = |keys: &str| {
        let mut drive = shingled(keys).unwrap();
        for n in 0..64 {
            drive.handle(Instant::ZERO, command(n, Op::Write, (n * 977 % 64) << 30, 4096));
        }
        drive.handle(Instant::ZERO, command(99, Op::Flush, 0, 0));
        let (done, end) = drain(&mut drive, Instant::ZERO);
        assert_eq!(done.len(), 65);
        let shingles = drive.mechanisms[0].shingles().unwrap();
        assert_eq!(shingles.next_band(), None, "left alone it cleans what there is");
        (done.iter().find(|c| c.tag == 99).unwrap().at - Instant::ZERO, end - Instant::ZERO)
    };
    let (room, cleaned) = flushed("");
    assert!(room < Nanos::ms(100), "{room:?}");
    // 64 blocks in 64 bands.
    assert!((Nanos::secs(20)..Nanos::secs(70)).contains(&cleaned), "{cleaned:?}");
    let (full, _) = flushed("media_cache_used_mib = 64");
    assert!((Nanos::secs(3)..Nanos::secs(20)).contains(&full), "{full:?}");
}

/// A long row of writes goes into its bands once the cache has had one band of it, full or not.
#[test]
fn a_shingled_drive_writes_in_sequence_at_the_rate_of_its_zones() {
    let mut drive = shingled("").unwrap();
    let mut now = Instant::ZERO;
    let mib = 1 << 20;
    for n in 0..1000 {
        drive.handle(now, command(n, Op::Write, n * mib, mib));
        // One after the other.
        now = loop {
            match drive.poll(now) {
                DriveOutput::Done(c) => break c.at,
                DriveOutput::WaitUntil(at) => now = at.expect("the write ends"),
            }
        };
    }
    let rate = 1000.0 * mib as f64 / (now - Instant::ZERO).0 as f64 * 1e3;
    assert!((170.0..200.0).contains(&rate), "{rate} MB/s");
}

#[test]
fn shingles_that_make_no_drive_are_refused() {
    for (keys, word) in [
        ("band_mib = 0", "band_mib"),
        ("band_mib = 65", "band_mib"),
        ("media_cache_used_mib = 65", "media_cache_used_mib"),
        ("write_cache = false", "needs write_cache = true"),
    ] {
        let error = shingled(keys).unwrap_err();
        assert!(error.contains(word) && error.starts_with("small.toml:"), "{error}");
    }
}

#[test]
fn a_drive_that_has_been_in_use_cleans_before_its_first_command() {
    assert!(hdd("hdd-smr-8tb-worn").due().is_some_and(|at| at > Instant::ZERO));
    assert_eq!(hdd("hdd-smr-8tb").due(), Some(Instant::from_nanos(u64::MAX)));
}
