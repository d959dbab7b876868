//! What is said of keys that are not carried out.

use super::Place;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// How much a [`Note`] matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// The key cannot matter here.
    Ignored,
    /// It would matter in fio: the load is another one.
    Unsupported,
}

/// A key that is not carried out, or a job that is not what it seems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Where it stands, first.
    pub place: Place,
    /// The key; empty: it is about the job.
    pub key: String,
    /// How much it matters.
    pub weight: Weight,
    /// Why.
    pub why: String,
    /// Further places of which the same holds.
    pub more: usize,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Note { place, key, why, more, .. } = self;
        match (key.is_empty(), self.weight) {
            (true, _) => write!(f, "{place}: {why}")?,
            (false, Weight::Ignored) => write!(f, "{place}: {key} is ignored: {why}")?,
            (false, Weight::Unsupported) => write!(f, "{place}: {key} is not supported: {why}")?,
        }
        match more {
            0 => Ok(()),
            1 => f.write_str(" (and in 1 further place)"),
            _ => write!(f, " (and in {more} further places)"),
        }
    }
}

/// Notes as they come in: one per key and reason.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    all: Vec<(Note, BTreeSet<Place>)>,
    by_key: BTreeMap<(String, String), usize>,
}

impl Notes {
    pub fn add(&mut self, place: &Place, key: &str, weight: Weight, why: impl Into<String>) {
        let why = why.into();
        let next = self.all.len();
        let at = *self.by_key.entry((key.to_string(), why.clone())).or_insert(next);
        if at == next {
            let note = Note { place: place.clone(), key: key.into(), weight, why, more: 0 };
            self.all.push((note, BTreeSet::new()));
        }
        // A line of [global] is read once for each job.
        self.all[at].1.insert(place.clone());
    }

    /// In the order of their first places, as they were read.
    pub fn finish(self, order: &[std::sync::Arc<super::Origin>]) -> Vec<Note> {
        let rank = |place: &Place| order.iter().position(|o| *o == place.origin);
        let mut notes: Vec<Note> = Vec::new();
        for (mut note, places) in self.all {
            note.more = places.len() - 1;
            notes.push(note);
        }
        notes.sort_by_key(|n| (rank(&n.place), n.place.number));
        notes
    }
}
