use crate::*;
use hoistway::target::Answer;
use hoistway::{Instant, Nanos};

/// A generator of its own: the streams are the simulator's.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 11) % n
    }

    fn time(&mut self) -> Nanos {
        Nanos(self.below(1 << 40))
    }

    fn maybe(&mut self) -> Option<Nanos> {
        (self.below(2) == 0).then(|| self.time())
    }

    fn unit(&mut self) -> f64 {
        self.below(1 << 52) as f64 / (1u64 << 52) as f64
    }

    fn histogram(&mut self) -> Histogram {
        let mut h = Histogram::new();
        for _ in 0..self.below(200) {
            let bits = self.below(50);
            h.record_n(self.below(1 << bits), 1 + self.below(3));
        }
        h
    }

    fn intervals(&mut self) -> Vec<Interval> {
        let n = self.below(5);
        (0..n)
            .map(|i| Interval {
                at: Nanos(i * 500_000_000),
                bytes: self.below(1 << 40),
                ios: self.below(1 << 20),
            })
            .collect()
    }

    fn phase(&mut self) -> PhaseRecord {
        PhaseRecord {
            name: "random \"read\"".into(),
            begin: self.maybe(),
            end: self.maybe(),
            turns: self.below(9),
            spent: self.time(),
            bytes: self.below(1 << 50),
            ios: self.below(1 << 30),
            latency: self.histogram(),
        }
    }

    fn proc(&mut self, i: u64) -> ProcRecord {
        ProcRecord {
            name: format!("reader{i}"),
            role: if i == 0 { Role::Target } else { Role::Interferer },
            bytes: self.below(1 << 50),
            ios: self.below(1 << 30),
            censored: self.maybe(),
            starved: self.time(),
            latency: self.histogram(),
            counts: vec![("frames_dropped".into(), self.below(100))],
            phases: (0..self.below(3)).map(|_| self.phase()).collect(),
            intervals: self.intervals(),
        }
    }

    fn device(&mut self) -> DeviceRecord {
        DeviceRecord {
            read_bytes: u64::MAX - self.below(2),
            written_bytes: self.below(1 << 50),
            commands: self.below(1 << 30),
            flushes: self.below(1 << 30),
            sequential: self.below(1 << 30),
            merges: self.below(1 << 30),
            utilisation: self.unit(),
            depth: self.unit() * 32.0,
            device_time: self.histogram(),
            intervals: self.intervals(),
        }
    }

    fn outcome(&mut self) -> Outcome {
        let mark = Mark {
            at: self.time(),
            process: "target".into(),
            text: "unfinished after 5ns".into(),
            moved: self.below(1 << 50),
        };
        let target = TargetRecord {
            group: "/a".into(),
            target: self.maybe(),
            p99: self.time(),
            mean: self.time(),
            share_permille: self.below(1000) as u32,
            answer: if self.below(2) == 0 { Answer::Met } else { Answer::Unknown },
        };
        let figure = |name: &str, of, value| NamedFigure { name: name.into(), of, value };
        let gauge = Monitor {
            stage: "io.cost".into(),
            name: "vrate".into(),
            unit: "0.01 %".into(),
            group: Some("/a".into()),
            points: vec![(-5, 10_000), (i64::MAX, i64::MIN)],
        };
        Outcome {
            procs: (0..self.below(4)).map(|i| self.proc(i)).collect(),
            device: self.device(),
            measured: self.time(),
            marks: vec![mark; self.below(3) as usize],
            tunables: vec![("slice_idle".into(), 8), ("fifo_batch".into(), self.below(100))],
            host_parameters: vec![("nr_requests".into(), "64 \\ 'x'".into())],
            host_figures: vec![figure("a_ns", None, -5), figure("b", Some(7), i64::MAX)],
            controller_figures: vec![("wbt".into(), figure("c", None, 1))],
            files: vec![("/a/b".into(), "io.stat".into(), "8:0 rbytes=1\n".into())],
            targets: vec![target],
            monitor: vec![gauge],
            begin: Instant::from_nanos(self.below(1 << 40)),
            end: Instant::from_nanos(self.below(1 << 40)),
            commands_total: self.below(1 << 40),
            trace_digest: u64::MAX - self.below(1 << 60),
            ..Outcome::default()
        }
    }
}

#[test]
fn random_outcomes_are_read_back_exactly() {
    for seed in 0..200 {
        let outcome = Random(seed).outcome();
        let text = outcome.encode();
        let read = Outcome::decode(&text).unwrap();
        assert!(read.encode() == text, "seed {seed}");
        assert!(format!("{read:?}") == format!("{outcome:?}"), "seed {seed}");
    }
    assert!(Outcome::decode("[{\"device\":1},[]]").is_err());
    let text = Random(1).outcome().encode();
    assert!(Outcome::decode(&text[..text.len() / 2]).is_err(), "half a text is none");
}

/// The form of records in run directories.
#[test]
fn records_are_written_with_their_units() {
    let mut latency = Histogram::new();
    latency.record_n(5, 2);
    let proc = ProcRecord { name: "a".into(), latency, ios: 2, ..ProcRecord::default() };
    assert_eq!(
        encode(&proc),
        "{\"name\":\"a\",\"target\":true,\"bytes\":0,\"ios\":2,\"censored_ns\":null,\"starved_ns\":0,\"latency_ns\":\
         {\"count\":2,\"sum\":\"10\",\"sum_sq\":\"50\",\"min\":5,\"max\":5,\"overflow\":0,\"slots\":[[5,2]]}}"
    );
    let target = TargetRecord {
        group: "/a".into(),
        target: None,
        p99: Nanos(2),
        mean: Nanos(1),
        share_permille: 31,
        answer: Answer::Unknown,
    };
    assert_eq!(
        encode(&target),
        "{\"group\":\"/a\",\"p99_ns\":2,\"mean_ns\":1,\"share_permille\":31,\"answer\":\"unknown\",\"figures\":[]}"
    );
    let interval = Interval { at: Nanos(1), bytes: 2, ios: 3 };
    assert_eq!(encode(&interval), "[1,2,3]");
}

#[test]
fn series_that_lack_a_process_are_refused() {
    let (mut device, mut procs) = (DeviceRecord::default(), vec![ProcRecord::default()]);
    let mut put = |n: usize| put_series(vec![Vec::new(); n], &mut device, &mut procs);
    assert!(put(2).is_ok());
    assert_eq!(put(1).unwrap_err().to_string(), "a process without its series");
    assert_eq!(put(0).unwrap_err().to_string(), "no series of the device");
}

#[test]
fn a_full_drive_says_what_lies_on_it() {
    let text = JobError::DoesNotFit { needed: 1 << 20, available: 300_000 }.to_string();
    assert!(
        text.starts_with("the drive is full: 1 MiB are needed, 0 MiB are left behind"),
        "{text}"
    );
    assert!(
        text.contains("layout_gap_kib") && text.contains("files that processes share"),
        "{text}"
    );
}
