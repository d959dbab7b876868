//! What a process records: calls, and what its load says.

use super::shared::Raw;
use hoistway::{Instant, Nanos};
use hoistway_sim::host::{Notice, Ran};
use hoistway_sim::load::{LOADS, LoadEntry};
use std::sync::Mutex;

const RAN: u32 = 1;
const MARK: u32 = 2;
const GIVEN_UP: u32 = 3;
const COUNT: u32 = 4;
const PHASE: u32 = 5;
const PHASE_END: u32 = 6;
const EXITED: u32 = 7;

/// A record as both sides mean it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A call is over.
    Ran(Ran),
    /// The load said something that is counted or marked.
    Noticed(Instant, Notice),
    /// The load has ended.
    Exited(Instant),
}

impl Event {
    /// When it happened.
    pub fn at(&self) -> Instant {
        match self {
            Event::Ran(ran) => ran.first_end,
            Event::Noticed(at, _) | Event::Exited(at) => *at,
        }
    }

    /// A call that began and ended then.
    pub fn call(bytes: u64, write: bool, begun: Instant, end: Instant) -> Event {
        let first = end.since(begun);
        let each = Nanos::ZERO;
        Event::Ran(Ran { first, first_end: end, each, calls: 1, bytes, write, until: end })
    }

    /// The record; the error says what has no place in it.
    pub fn encode(&self) -> Result<Raw, String> {
        let raw = |kind, extra, numbers| Raw { kind, extra, numbers, text: [0; 32] };
        Ok(match self {
            Event::Ran(ran) => {
                raw(RAN, ran.write.into(), [ran.first_end.as_nanos(), ran.first.0, ran.bytes])
            }
            Event::Exited(at) => raw(EXITED, 0, [at.as_nanos(), 0, 0]),
            Event::Noticed(at, notice) => {
                let at = at.as_nanos();
                match *notice {
                    Notice::Mark(text) => named(raw(MARK, 0, [at, 0, 0]), text)?,
                    Notice::GivenUp(limit) => raw(GIVEN_UP, 0, [at, limit.0, 0]),
                    Notice::Count { what, n } => named(raw(COUNT, 0, [at, n, 0]), what)?,
                    Notice::Phase(name) => named(raw(PHASE, 0, [at, 0, 0]), name)?,
                    Notice::PhaseEnd => raw(PHASE_END, 0, [at, 0, 0]),
                    Notice::RunAs { .. } | Notice::EndProcs => {
                        return Err("who does the I/O is not recorded".into());
                    }
                }
            }
        })
    }

    /// What a record says; `None`: it is none of ours.
    pub fn decode(raw: &Raw) -> Option<Event> {
        let [at, n, bytes] = raw.numbers;
        let (now, first) = (Instant::from_nanos(at), Nanos(n));
        let told = |notice| Some(Event::Noticed(now, notice));
        match raw.kind {
            RAN => {
                let (each, write) = (Nanos::ZERO, raw.extra != 0);
                let ran = Ran { first, first_end: now, each, calls: 1, bytes, write, until: now };
                Some(Event::Ran(ran))
            }
            MARK => told(Notice::Mark(text_of(raw)?)),
            GIVEN_UP => told(Notice::GivenUp(Nanos(n))),
            COUNT => told(Notice::Count { what: text_of(raw)?, n }),
            PHASE => told(Notice::Phase(text_of(raw)?)),
            PHASE_END => told(Notice::PhaseEnd),
            EXITED => Some(Event::Exited(now)),
            _ => None,
        }
    }
}

fn named(mut raw: Raw, text: &str) -> Result<Raw, String> {
    let place = raw.text.get_mut(..text.len());
    let place = place.ok_or_else(|| format!("'{text}' is too long a name for a record"))?;
    place.copy_from_slice(text.as_bytes());
    raw.extra = text.len() as u32;
    Ok(raw)
}

/// The name in a record: one of the few that loads have.
fn text_of(raw: &Raw) -> Option<&'static str> {
    let bytes = raw.text.get(..raw.extra as usize)?;
    let text = std::str::from_utf8(bytes).ok()?;
    let counts = |load: &'static LoadEntry| load.counts.iter().map(|count| count.name);
    if let Some(known) = LOADS.iter().flat_map(counts).find(|name| *name == text) {
        return Some(known);
    }
    Some(interned(text))
}

/// Names of marks and phases are texts in the program; there are a few dozen, so that keeping each once for ever is
/// cheap.
fn interned(text: &str) -> &'static str {
    static NAMES: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let mut names = NAMES.lock().expect("nobody panics while holding the lock");
    if let Some(known) = names.iter().find(|name| **name == text) {
        return known;
    }
    let name: &'static str = Box::leak(text.to_string().into_boxed_str());
    names.push(name);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_is_read_back() {
        let at = Instant::from_nanos(5_000);
        let events = [
            Event::call(4096, true, Instant::from_nanos(1_000), at),
            Event::Noticed(at, Notice::Mark("start")),
            Event::Noticed(at, Notice::GivenUp(Nanos::secs(60))),
            Event::Noticed(at, Notice::Count { what: "frames_dropped", n: 3 }),
            Event::Noticed(at, Notice::Phase("random read")),
            Event::Noticed(at, Notice::PhaseEnd),
            Event::Exited(at),
        ];
        for event in events {
            let read = Event::decode(&event.encode().unwrap()).unwrap();
            assert_eq!((read, read.at()), (event, at));
        }
        assert_eq!(Event::decode(&Raw::default()), None);
        let long = Event::Noticed(at, Notice::Mark("a name that is longer than thirty-two bytes"));
        assert!(long.encode().unwrap_err().contains("too long"));
    }
}
