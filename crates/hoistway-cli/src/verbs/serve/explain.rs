//! `{"command":"explain"}`: a timeline of a client, or of a group, while it happens.

use hoistway::Instant;
use hoistway::Nanos;
use hoistway::sched::Entry;
use hoistway_lab::explain::{StoryWriter, Subject};
use hoistway_serve::Device;
use hoistway_serve::device::{TraceBatch, TraceClient, TraceReader};
use hoistway_serve::net::line::{Answer, Lines};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Longest timeline in seconds.
const SECONDS_MAX: f64 = 3600.0;
/// Most lines.
const LINES_MAX: usize = 1_000_000;
/// How often the trace is taken out.
const LOOK: Nanos = Nanos::ms(20);

/// Of whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// A connection.
    Client(u64),
    /// Everybody in a group.
    Group(String),
}

/// Checks the request, and makes the stream with the timeline.
pub fn stream(device: Device, about: About, limit: u64, seconds: f64) -> Result<Answer, String> {
    let limit = usize::try_from(limit).ok().filter(|l| (1..=LINES_MAX).contains(l));
    let limit = limit.ok_or_else(|| format!("limit: choose 1 to {LINES_MAX} lines"))?;
    if !(seconds > 0.0 && seconds <= SECONDS_MAX) {
        return Err(format!("{seconds} s: choose more than 0 and at most {SECONDS_MAX} s"));
    }
    let span = Nanos((seconds * 1e9) as u64);
    Ok(Answer::Stream {
        say: Box::new(move |lines| match device.subscribe() {
            Ok(trace) => Narration::new(trace, about, limit).tell(lines, span),
            Err(error) => {
                lines.send(&json!({ "ok": false, "error": error.to_string() }).to_string());
            }
        }),
        busy: json!({ "ok": false, "error": "too many `explain` streams are running (8 at most); try again later" }).to_string(),
    })
}

struct Narration {
    trace: TraceReader,
    about: About,
    writer: StoryWriter,
    scheduler: Option<&'static Entry>,
    limit: usize,
    told: usize,
    dropped: u64,
}

impl Narration {
    fn new(trace: TraceReader, about: About, limit: usize) -> Narration {
        let subject = Subject {
            names: BTreeMap::new(),
            procs: BTreeSet::new(),
            scheduler: None,
            begin: trace.begin(),
            end: Instant::from_nanos(u64::MAX),
        };
        let writer = StoryWriter::new(subject, usize::MAX);
        Narration { trace, about, writer, scheduler: None, limit, told: 0, dropped: 0 }
    }

    /// Until the time is over, the lines are told, the client has left, or nobody listens.
    fn tell(mut self, lines: &Lines, span: Nanos) {
        if !lines.send(&json!({ "ok": true, "schema": 1 }).to_string()) {
            return;
        }
        let looks = span.0.div_ceil(LOOK.0);
        let mut end = "time";
        for look in 0..looks {
            let nap = if look + 1 < looks { LOOK } else { Nanos(span.0 - look * LOOK.0) };
            if !lines.pause(nap) {
                return;
            }
            let Ok(batch) = self.trace.take() else { return };
            let present = self.hear(batch);
            let told = self.writer.take();
            if !self.say(lines, told) {
                return;
            }
            if self.told == self.limit {
                end = "limit";
                break;
            }
            if !present {
                end = "gone";
                break;
            }
        }
        let told = self.writer.finish();
        if self.say(lines, told) {
            let last = json!({ "end": end, "lines": self.told, "dropped": self.dropped });
            lines.send(&last.to_string());
        }
    }

    /// Takes in what happened; false when the client it is about has gone.
    fn hear(&mut self, batch: TraceBatch) -> bool {
        let known = self.scheduler.replace(batch.scheduler);
        if !known.is_some_and(|known| std::ptr::eq(known, batch.scheduler)) {
            self.met(batch.scheduler);
        }
        let is_mine = |who: &&TraceClient| match &self.about {
            About::Client(number) => who.connection == Some(*number),
            About::Group(name) => who.group == *name,
        };
        let procs: BTreeSet<u32> = batch.clients.iter().filter(is_mine).map(|w| w.proc.0).collect();
        let subject = self.writer.subject_mut();
        let present = !procs.is_empty() || matches!(self.about, About::Group(_));
        // Who has just left is still told of.
        if present {
            subject.procs = procs;
        }
        for who in &batch.clients {
            let name = match who.connection {
                Some(number) => format!("client {number}"),
                None => "the server".into(),
            };
            subject.names.insert(who.proc.0, name);
        }
        batch.records.iter().for_each(|record| self.writer.tell(record));
        if batch.dropped > 0 {
            self.dropped += batch.dropped;
            self.writer.missed(batch.dropped);
        }
        present
    }

    /// The scheduler there is, at the beginning or from now on: its queues are its own.
    fn met(&mut self, scheduler: &'static Entry) {
        let mut subject = self.writer.subject_mut().clone();
        subject.scheduler = Some(scheduler);
        let first = self.writer.subject_mut().names.is_empty();
        self.writer = StoryWriter::new(subject, usize::MAX);
        if first {
            for used in self.trace.queues() {
                self.writer.uses(used.proc, used.sync, used.queue);
            }
        }
    }

    fn say(&mut self, lines: &Lines, told: Vec<String>) -> bool {
        for line in told {
            if self.told == self.limit {
                break;
            }
            self.told += 1;
            if !lines.send(&json!({ "line": Value::String(line) }).to_string()) {
                return false;
            }
        }
        true
    }
}
