//! What else went on while a run was measured.

use super::place::Place;
use super::queue::{Diskstats, Queue};

/// What a run moved itself, to be taken from the device's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests.
    pub ios: u64,
    /// Bytes, both directions.
    pub bytes: u64,
}

/// From the beginning of a run to its end.
#[derive(Debug)]
pub struct Watch {
    queues: Vec<(Queue, Diskstats)>,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// For the manifest, by name.
    pub rows: Vec<(String, String)>,
    /// What makes the run doubtful, in words.
    pub flags: Vec<String>,
}

impl Watch {
    /// Begins.
    pub fn begin(place: &Place) -> Watch {
        let queues = place.queues.iter();
        let queues = queues.filter_map(|q| Some((q.clone(), q.diskstats().ok()?)));
        Watch { queues: queues.collect() }
    }

    /// Ends. `ours` is what the run itself has moved, where it is known.
    pub fn end(self, ours: Option<Traffic>) -> Conditions {
        let _ = (self.queues, ours);
        Conditions::default()
    }
}
