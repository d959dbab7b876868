//! One job as the parameters of load `job`.

use super::experiment::Part;
use super::job::{Amount, Direction, Hint, Job, Service};

/// A value of an experiment file.
pub(crate) enum Setting {
    Text(String),
    Texts(Vec<String>),
    Bare(String),
}

/// Parameters in order.
#[derive(Default)]
struct Process(Vec<(&'static str, Setting)>);

/// What copy number `copy` of a job is told.
pub(crate) fn process(job: &Job, copy: u64, part: &Part<'_>) -> Vec<(&'static str, Setting)> {
    let mut p = Process::default();
    let random = if job.random { "rand" } else { "" };
    p.text("load", "job");
    if let Some(prio) = &job.prio {
        p.text("prio", prio);
    }
    p.text("rw", &format!("{random}{}", job.direction.word()));
    if job.direction == Direction::Mixed {
        p.bare("mix", job.mix);
    }
    p.text("bs", &job.sizes[0]);
    p.text("bs_write", &job.sizes[1]);
    p.places(job, copy, part);
    p.times(job);
    if job.random {
        p.random(job);
    }
    p.number("hole", job.hole, 0);
    p.number("depth", job.depth, 1);
    if let Some(low) = job.depth_low {
        p.bare("depth_low", low);
    }
    p.number("batch", job.batch, 1);
    p.number("batch_complete", job.batch_complete, 1);
    p.number("fsync", job.fsync, 0);
    p.number("fdatasync", job.fdatasync, 0);
    p.number("loops", job.loops, 1);
    p.number("rate", job.rate[0], 0);
    p.number("rate_write", job.rate[1], 0);
    p.number("rate_iops", job.rate_iops[0], 0);
    p.number("rate_iops_write", job.rate_iops[1], 0);
    for (key, value, usual) in [
        ("direct", job.direct, false),
        ("repeat_blocks", job.repeat_blocks && job.random, false),
        ("advice", job.hint == Hint::Pattern, true),
        ("keep_cache", !job.invalidate, false),
        ("poisson", job.poisson, false),
        ("catch_up", !job.rate_ignore_thinktime, true),
        ("end_fsync", job.end_fsync, false),
        ("sync", job.sync, false),
        ("time_based", job.time_based, false),
    ] {
        if value != usual {
            p.bare(key, value);
        }
    }
    p.words("waits_for", &part.waits_for);
    p.words("ends_at", &part.ends_at);
    p.words("stops", part.stops.as_slice());
    p.words("stopped_by", &part.stopped_by);
    p.0
}

impl Process {
    fn text(&mut self, key: &'static str, value: &str) {
        self.0.push((key, Setting::Text(value.to_string())));
    }

    fn bare(&mut self, key: &'static str, value: impl ToString) {
        self.0.push((key, Setting::Bare(value.to_string())));
    }

    fn number<N: PartialEq + ToString>(&mut self, key: &'static str, value: N, usual: N) {
        if value != usual {
            self.bare(key, value);
        }
    }

    fn words(&mut self, key: &'static str, words: &[String]) {
        if !words.is_empty() {
            self.text(key, &words.join(" "));
        }
    }

    fn amount(&mut self, key: &'static str, amount: Amount) {
        match amount {
            Amount::Bytes(bytes) => self.bare(key, bytes),
            Amount::Percent(percent) => self.text(key, &format!("{percent}%")),
        }
    }

    /// Files, and the part of them that it uses.
    fn places(&mut self, job: &Job, copy: u64, part: &Part<'_>) {
        self.offset(job, copy);
        let files = job.file_count();
        match (job.size, job.filesize) {
            // Of a device the size says so itself.
            (size, Some(whole)) if job.raw => {
                self.bare("size", whole);
                if let (Some(amount), None) = (size, job.io_size) {
                    self.amount("io_size", amount);
                }
            }
            // The file says where the region ends, and the size how much is moved in it.
            // All of it is one pass, however much of it holes leave out.
            (Some(Amount::Bytes(size)), Some(_))
                if job.io_size.is_none() && size < job.room(copy) =>
            {
                self.0.push(("io_size", Setting::Bare(size.to_string())));
            }
            (Some(Amount::Bytes(_)) | None, Some(_)) => {}
            (Some(Amount::Bytes(size)), None) => self.bare("size", size / files),
            (Some(percent), _) => self.amount("size", percent),
            (None, None) => {}
        }
        match (job.io_size, job.size) {
            (Some(Amount::Percent(percent)), Some(Amount::Bytes(size))) => {
                let bytes = u128::from(size) * u128::from(percent) / 100;
                self.bare("io_size", bytes.max(1));
            }
            (Some(amount), _) => self.amount("io_size", amount),
            (None, _) => {}
        }
        if let Some(calls) = job.number_ios {
            self.bare("calls", calls);
        }
        if job.raw {
            return self.bare("raw", true);
        }
        match part.names {
            [] if files > 1 => self.bare("files", files),
            [] => {}
            [name] => self.text("file", name),
            names => self.0.push(("file", Setting::Texts(names.to_vec()))),
        }
        if let Some(whole) = part.shared.or(job.filesize) {
            self.bare("file_size", whole);
        }
        if files > 1 {
            self.turns(job);
        }
        // Nobody has written it before.
        if job.direction == Direction::Write && !job.overwrite && part.names.is_empty() {
            self.bare("new_file", true);
        }
    }

    fn offset(&mut self, job: &Job, copy: u64) {
        let (mut bytes, mut percent) = (0u64, 0u64);
        let parts = [(job.offset, 1), (job.offset_increment, copy)];
        for (amount, times) in parts {
            match amount {
                Amount::Bytes(n) => bytes = bytes.saturating_add(n.saturating_mul(times)),
                Amount::Percent(n) => percent = percent.saturating_add(n.saturating_mul(times)),
            }
        }
        match (bytes, percent) {
            (0, 0) => {}
            (bytes, 0) => self.bare("offset", bytes),
            (0, percent) => self.text("offset", &format!("{percent}%")),
            _ => self.text("offset", &format!("{bytes} + {percent}%")),
        }
        if percent > 0 {
            self.number("offset_align", job.offset_align, 0);
        }
    }

    fn turns(&mut self, job: &Job) {
        match job.service {
            Service::RoundRobin => {}
            Service::Random => self.text("turns", "random"),
            Service::Sequential => self.text("turns", "sequential"),
        }
        self.number("turn_calls", job.service_calls, 1);
        if let Some(open) = job.openfiles {
            self.bare("open_files", open);
        }
    }

    fn random(&mut self, job: &Job) {
        let [reads, writes] = job.percentage_random;
        self.number("random", reads, 100);
        self.number("random_write", writes, reads);
        self.number("row", job.row, 1);
        self.number("row_stays", job.row_stays, false);
        // One side has the default where the other one is aligned.
        let smallest = |sizes: &str| {
            let of = |part: &str| part.split(['/', '-']).next().and_then(|n| n.parse().ok());
            sizes.split(':').filter_map(of).min().unwrap_or(4096u64)
        };
        if job.align != [None, None] {
            self.bare("align", job.align[0].unwrap_or_else(|| smallest(&job.sizes[0])));
            self.bare("align_write", job.align[1].unwrap_or_else(|| smallest(&job.sizes[1])));
        }
        if let Some(distribution) = &job.distribution[0] {
            self.text("distribution", distribution);
        }
        if job.distribution[1] != job.distribution[0]
            && let Some(distribution) = &job.distribution[1]
        {
            self.text("distribution_write", distribution);
        }
    }

    fn times(&mut self, job: &Job) {
        // What is not measured comes before the time that is.
        let run = job.runtime.map_or(0, |t| t.saturating_add(job.ramp));
        for (key, ns) in [
            ("run", run),
            ("delay", job.startdelay),
            ("think", job.think),
            ("think_spin", job.think_spin),
            ("think_every", job.think_every),
        ] {
            if ns > 0 {
                self.text(key, &format!("{}us", ns / 1000));
            }
        }
        if job.think > 0 {
            for (key, calls) in
                [("think_blocks", job.think_blocks), ("think_first", job.think_first)]
            {
                if let Some(calls) = calls {
                    self.bare(key, calls);
                }
            }
        }
    }
}

/// Sizes as far as they are known.
impl Job {
    /// How many files it uses.
    pub(crate) fn file_count(&self) -> u64 {
        match self.raw {
            true => 1,
            false => (self.files.len() as u64).max(self.nrfiles),
        }
    }

    /// The size that each of its files has at least.
    pub(crate) fn file_end(&self) -> u64 {
        let bytes = |amount: Amount| match amount {
            Amount::Bytes(n) => n,
            Amount::Percent(_) => 0,
        };
        let last = (self.numjobs - 1).saturating_mul(bytes(self.offset_increment));
        let own = self.size.map_or(0, bytes) / self.file_count();
        let end = bytes(self.offset).saturating_add(last).saturating_add(own);
        self.filesize.unwrap_or(end)
    }

    /// Bytes behind the offset in all its files together.
    fn room(&self, copy: u64) -> u64 {
        let Some(whole) = self.filesize else { return u64::MAX };
        let percent = |n: u64| (u128::from(whole) * u128::from(n) / 100) as u64;
        let bytes = |amount: Amount| match amount {
            Amount::Bytes(n) => n,
            Amount::Percent(n) => percent(n),
        };
        let begin =
            bytes(self.offset).saturating_add(bytes(self.offset_increment).saturating_mul(copy));
        whole.saturating_sub(begin).saturating_mul(self.file_count()).max(1)
    }
}
