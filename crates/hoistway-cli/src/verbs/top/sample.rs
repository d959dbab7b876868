//! What the server answers to `{"command":"stats"}` (docs/guide/observe.md).

use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The schema that is understood.
const SCHEMA: u64 = 1;

/// Everything at one moment.
#[derive(Clone, Debug, Deserialize)]
pub struct Sample {
    pub devices: Vec<Device>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Device {
    pub target: String,
    pub scheduler: String,
    pub changing: bool,
    /// For whom and what the change waits.
    pub waits_for: Option<String>,
    pub nr_requests: u32,
    pub controllers: Vec<String>,
    pub exports: Vec<Export>,
    pub groups: Vec<Group>,
    pub clients: Vec<Client>,
    pub sums: Vec<Sum>,
    pub time_ns: u64,
    pub changed: Map<String, Value>,
    pub requests: u32,
    pub in_flight: u32,
    pub in_service: Vec<u64>,
    pub counters: BTreeMap<String, u64>,
    pub state: Vec<Figure>,
    pub emulation: Option<Emulation>,
    pub stall: Option<Stall>,
    pub stalls: u64,
    // Older servers tell of none.
    #[serde(default)]
    pub targets: Vec<Target>,
}

/// A latency target of a group.
#[derive(Clone, Debug, Deserialize)]
pub struct Target {
    pub group: String,
    /// `None`: as low as goes without loss.
    pub target_ns: Option<u64>,
    /// As the scheduler counts it; 0: not known.
    pub p99_ns: u64,
    pub share_permille: u32,
    pub answer: String,
    pub words: String,
}

/// I/O that stands still.
#[derive(Clone, Debug, Deserialize)]
pub struct Stall {
    pub lasts_ns: u64,
    pub unfinished: u64,
    pub reason: String,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Export {
    pub name: String,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Group {
    pub name: String,
    pub weight: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Client {
    pub connection: u64,
    pub export: String,
    pub group: String,
    pub prio: String,
    pub peer: String,
    pub weight: Option<u64>,
    pub measure: Measure,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Sum {
    pub export: String,
    pub group: String,
    pub measure: Measure,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct Measure {
    pub outstanding: u64,
    pub depth_ns: u64,
    pub wait_ns: u64,
    pub ops: BTreeMap<String, Op>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct Op {
    pub count: u64,
    pub errors: u64,
    pub bytes: u64,
    pub time_ns: u64,
    /// Upper bound of a slot in ns, and how many.
    pub times: Vec<(u64, u64)>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Figure {
    pub stage: String,
    pub name: String,
    pub unit: String,
    pub group: Option<String>,
    pub of: Option<u32>,
    pub gauge: bool,
    pub value: i64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Emulation {
    pub late_p50_ns: u64,
    pub late_p99_ns: u64,
}

impl Sample {
    /// Understands an answer.
    pub fn read(answer: Value) -> Result<Sample, String> {
        if answer["schema"] != SCHEMA {
            let other = &answer["schema"];
            return Err(format!("the server tells of itself in schema {other}, not {SCHEMA}"));
        }
        serde_json::from_value(answer).map_err(|e| format!("the server's answer: {e}"))
    }
}
