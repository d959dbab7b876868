//! What every drive model promises, under random mixes of commands (specs/drives.md 8.2, rows 2, 5, 6
//! and 7).

use hoistway::{Instant, Nanos, Op};
use hoistway_sim::drive::{Command, Completion, Drive, DriveFile, DriveOutput};
use hoistway_sim::rng::{self, Rng};

/// A drive directly below a test that keeps up to `depth` commands in it.
#[derive(Debug)]
struct Rig {
    drive: Box<dyn Drive>,
    now: Instant,
    /// When each command was given, until it is done.
    given: Vec<Option<Instant>>,
    in_drive: usize,
    done: Vec<Completion>,
    /// What the drive has said unasked behind a command or a completion, and when.
    told: Option<(Instant, Instant)>,
}

impl Rig {
    fn new(file: &DriveFile, seed: u64) -> Rig {
        let drive = file.build(seed);
        let (given, done) = (Vec::new(), Vec::new());
        Rig { drive, now: Instant::ZERO, given, in_drive: 0, done, told: None }
    }

    fn give(&mut self, op: Op, start: u64, len: u64, fua: bool) {
        let tag = self.given.len() as u64;
        self.given.push(Some(self.now));
        self.in_drive += 1;
        self.drive.handle(self.now, Command { tag, op, start, len, fua });
        self.told = self.due().map(|due| (self.now, due));
    }

    /// When the drive is due, if it says so unasked and that is not now.
    fn due(&self) -> Option<Instant> {
        self.drive.due().filter(|&due| due > self.now)
    }

    /// Takes what is due; the next time the drive names.
    fn drain(&mut self) -> Option<Instant> {
        loop {
            // What it has said unasked it says when asked.
            let told = self.told.take().filter(|told| told.0 == self.now);
            let due = self.due();
            match self.drive.poll(self.now) {
                DriveOutput::Done(c) => {
                    assert_eq!((told, due), (None, None), "{c:?}");
                    self.told = self.due().map(|due| (self.now, due));
                    let given = self.given[c.tag as usize].take().expect("each is done once");
                    assert!(c.at >= given && c.at <= self.now, "{c:?} given at {given:?}");
                    assert_eq!(given + c.waiting + c.media + c.transfer, c.at, "{c:?}");
                    let last = self.done.last().map_or(Instant::ZERO, |last| last.at);
                    assert!(c.at >= last, "{c:?} after {last:?}");
                    self.done.push(c);
                    self.in_drive -= 1;
                }
                DriveOutput::WaitUntil(next) => {
                    let said = next.unwrap_or(Instant::from_nanos(u64::MAX));
                    assert!(told.is_none_or(|told| told.1 == said), "{told:?}, {said:?}");
                    assert!(self.due().is_none_or(|due| due == said), "{said:?}");
                    assert!(next.is_none_or(|at| at > self.now), "woken at {next:?}");
                    assert!(next.is_some() || self.in_drive == 0, "a command was forgotten");
                    return next;
                }
            }
        }
    }

    /// Goes on to `until`, stopping at every time the drive names.
    fn run_to(&mut self, until: Instant) {
        while let Some(next) = self.drain().filter(|&next| next <= until) {
            self.now = next;
        }
        self.now = self.now.max(until);
        self.drain();
    }

    fn finish(&mut self) {
        while let Some(next) = self.drain().filter(|_| self.in_drive > 0) {
            self.now = next;
        }
        assert_eq!(self.in_drive, 0);
    }
}

/// Streams and random places, all operations, bursts and pauses.
fn mix(file: &DriveFile, seed: u64, commands: usize) -> Vec<Completion> {
    let mut r: Rng = rng::stream(seed, "test/mix");
    let mut rig = Rig::new(file, seed);
    let depth = u64::from(file.host.queue_depth).min(64);
    let pages = file.identity.capacity_bytes / 4096 - 1024;
    let mut cursors: Vec<u64> = (0..8).map(|_| r.below(pages)).collect();
    for _ in 0..commands {
        while rig.in_drive as u64 >= depth {
            let next = rig.drain();
            if rig.in_drive as u64 >= depth {
                rig.now = next.expect("commands are in the drive");
            }
        }
        let len = 1 + r.below(64);
        let start = if r.below(2) == 0 {
            let cursor = &mut cursors[r.below(8) as usize];
            let start = *cursor % pages;
            *cursor = start + len;
            start
        } else {
            r.below(pages)
        };
        let (start, len) = (start * 4096, len * 4096);
        match r.below(20) {
            0 => rig.give(Op::Flush, 0, 0, false),
            1 => rig.give(Op::Discard, start, len, false),
            2..9 => rig.give(Op::Write, start, len, r.below(8) == 0),
            _ => rig.give(Op::Read, start, len, false),
        }
        let pause = match r.below(40) {
            0 => r.below(20_000_000),
            1..20 => r.below(200_000),
            _ => 0,
        };
        rig.run_to(rig.now + Nanos(pause));
    }
    rig.finish();
    assert_eq!(rig.done.len(), commands);
    rig.done
}

#[test]
fn every_drive_keeps_the_contract_and_repeats_itself() {
    for id in DriveFile::ids() {
        let file = DriveFile::load(id).unwrap();
        for seed in 1..=3 {
            let first = mix(&file, seed, 3000);
            assert!(first == mix(&file, seed, 3000), "{id}: seed {seed} does not repeat");
        }
    }
}

/// The faults of a drive that has them all, often enough to meet in a short run.
fn all_faults(file: &DriveFile) -> DriveFile {
    let text = "pause_every_ms = 40\npause_ms = 7\nslow_every_ms = 30\nslow_ms = 20\nslow_factor = 3.3\n\
                start_ms = 50\nstart_factor = 4\ncredit_ios = 500\ncredit_iops = 4000\ncredit_mib = 64\n\
                credit_mb_s = 90\ncache_mib = 8\ncache_mb_s = 20\nreadonly_every_ms = 60\nreadonly_ms = 15\n\
                noise_sigma = 0.4\n";
    let table: toml::Table = text.parse().unwrap();
    file.with_faults(&table.into_iter().collect::<Vec<_>>()).unwrap()
}

#[test]
fn with_faults_too_every_drive_keeps_the_contract_and_repeats_itself() {
    for id in DriveFile::ids() {
        let sound = DriveFile::load(id).unwrap();
        let file = all_faults(&sound);
        for seed in 1..=2 {
            let first = mix(&file, seed, 1500);
            assert!(first == mix(&file, seed, 1500), "{id}: seed {seed} does not repeat");
            let end = |done: &[Completion]| done.last().map(|c| c.at);
            assert!(end(&first) > end(&mix(&sound, seed, 1500)), "{id}: faults cost nothing");
        }
    }
}

/// Asking a drive more often, or later, than it wants does not change its completions.
#[test]
fn idle_polls_change_nothing() {
    let sound: Vec<DriveFile> =
        DriveFile::ids().into_iter().map(|id| DriveFile::load(id).unwrap()).collect();
    let faulty: Vec<DriveFile> = sound.iter().map(all_faults).collect();
    for file in sound.into_iter().chain(faulty) {
        let run = |step: u64| {
            let mut r = rng::stream(1, "test/polls");
            let mut rig = Rig::new(&file, 1);
            for i in 0..300u64 {
                let at = Instant::from_nanos(i * 400_000);
                if step > 0 {
                    while rig.now + Nanos(step) < at {
                        rig.now += Nanos(step);
                        rig.drain();
                    }
                }
                rig.now = at;
                rig.drain();
                let op = if r.below(3) == 0 { Op::Write } else { Op::Read };
                let start = r.below(file.identity.capacity_bytes / 4096 - 16) * 4096;
                rig.give(op, start, 4096 * (1 + r.below(16)), false);
            }
            // Long for 300 commands, and short enough for faults that recur each 30 ms.
            rig.run_to(Instant::from_nanos(1 << 41));
            assert_eq!(rig.in_drive, 0);
            rig.done
        };
        assert!(run(0) == run(7_777), "{}", file.id);
    }
}

/// With variants no shipped file has: hiccups, partial suspends, small buffers, odd dies.
#[test]
fn variants_keep_the_contract() {
    let text = DriveFile::embedded("nvme-consumer-gen4").unwrap();
    let set = |text: &str, key: &str, value: &str| {
        let lines = text.lines().map(|line| {
            let matches = line.split_once('=').is_some_and(|(k, _)| k.trim() == key);
            if matches { format!("{key} = {value}\n") } else { format!("{line}\n") }
        });
        lines.collect::<String>()
    };
    let mut text = set(text, "hiccup_interval_ms", "5");
    for (key, value) in [
        ("hiccup_us", "800"),
        ("write_buffer_kib", "512"),
        ("dies", "24"),
        ("channels", "8"),
        ("program_unit_kib", "96"),
        ("seq_quantum_kib", "512"),
        ("quantum_jitter", "0.3"),
        ("flush_blocks", "\"all\""),
        ("plp", "false"),
        ("clean_pool_mib", "4"),
    ] {
        text = set(&text, key, value);
    }
    let file = DriveFile::parse("variant.toml", &text).unwrap();
    for seed in 1..=5 {
        assert!(mix(&file, seed, 4000) == mix(&file, seed, 4000));
    }
}

/// Row 6, in every prefix of a run of reads that saturates the link.
#[test]
fn the_link_never_moves_more_than_its_rate() {
    for id in ["samsung-970-pro", "plextor-px-256m5s", "nvme-enterprise-gen4"] {
        let file = DriveFile::load(id).unwrap();
        let mut rig = Rig::new(&file, 1);
        let len = 262_144;
        for i in 0..2000 {
            while rig.in_drive >= 30 {
                let next = rig.drain();
                if rig.in_drive >= 30 {
                    rig.now = next.expect("commands are in the drive");
                }
            }
            rig.give(Op::Read, (i % 15) * (1 << 30) + i / 15 * len, len, false);
        }
        rig.finish();
        for (n, c) in rig.done.iter().enumerate() {
            let bytes = (n as u64 + 1) * len;
            let least = bytes as f64 / file.link.read_rate * 1e9;
            // A nanosecond of rounding each.
            assert!(c.at.as_nanos() as f64 >= least - n as f64, "{id}: {n} done at {:?}", c.at);
        }
    }
}

/// Row 7: a second flush right after the first finds nothing to write.
#[test]
fn after_a_flush_nothing_is_pending() {
    for id in ["samsung-970-pro", "plextor-px-256m5s", "emmc-5.1-64g"] {
        let file = DriveFile::load(id).unwrap();
        let mut rig = Rig::new(&file, 1);
        for i in 0..10 {
            rig.give(Op::Write, i << 30, 4096, false);
            rig.run_to(rig.now + Nanos::ms(1));
        }
        rig.give(Op::Flush, 0, 0, false);
        rig.finish();
        rig.give(Op::Flush, 0, 0, false);
        rig.finish();
        let second = rig.done[11];
        let flush = Nanos((file.f64("flash", "flush_us") * 1e3) as u64);
        assert_eq!(second.media + second.waiting, flush, "{id}");
    }
}

/// Programs long over, a flush costs its fixed part and the map entries of what was written since the last:
/// 8 bytes for each page of 4 KiB.
#[test]
fn a_flush_pays_for_every_page_written_since_the_last() {
    for id in ["samsung-970-pro", "plextor-px-256m5s"] {
        let file = DriveFile::load(id).unwrap();
        let mut rig = Rig::new(&file, 1);
        let num = |key| file.f64("flash", key);
        let entry = num("program_us") * 8.0 / (file.u64("flash", "page_kib") << 10) as f64;
        for pages in [1u64, 64, 4096] {
            for i in 0..pages {
                rig.give(Op::Write, i * 8192, 4096, false);
                rig.finish();
            }
            rig.run_to(rig.now + Nanos::secs(1));
            rig.give(Op::Flush, 0, 0, false);
            rig.finish();
            let last = rig.done.last().expect("the flush");
            let took = (last.media + last.waiting).0 as f64 / 1e3;
            let expected = num("flush_us") + pages as f64 * entry;
            assert!(
                (took - expected).abs() < 0.01,
                "{id}: {pages} pages: {took} us, not {expected}"
            );
        }
    }
}
