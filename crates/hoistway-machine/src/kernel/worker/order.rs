//! What a worker is told: the part of a job that decides what its processes do, as a text.
//!
//! A worker builds all loads of the job, as the simulator does, and carries out its own: files and random choices of a
//! load depend on those built before it.

use super::super::files::Ground;
use crate::words::{
    flag, host_of, int, list_of, number, parts, proc_of, proc_table, put_host, said, string,
    text_of, unsigned,
};
use hoistway::{Nanos, sched};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::host::HostConfig;
use hoistway_sim::world::{ControlSpec, Job, ProcSpec, SchedulerSpec, TraceMode, Window};
use toml::{Table, Value};

/// What is under the files of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// A device of a machine: id, name, bytes, bytes of a sector, rotational.
    Facts(String, String, u64, u64, bool),
    /// A drive that is known: its id, and its drive file. Files lie where they lie on it in the simulator.
    File(String, String),
}

impl Storage {
    /// As a drive.
    pub fn drive(&self) -> Result<DriveFile, String> {
        match self {
            Storage::Facts(id, title, bytes, sector, rotational) => {
                Ok(crate::engine::drive_of(id, title, *bytes, *sector, *rotational))
            }
            Storage::File(id, text) => DriveFile::parse(&format!("{id}.toml"), text).map_err(said),
        }
    }

    fn encode(&self) -> Value {
        Value::Array(match self {
            Storage::Facts(id, title, bytes, sector, rotational) => vec![
                id.clone().into(),
                title.clone().into(),
                int(*bytes),
                int(*sector),
                (*rotational).into(),
            ],
            Storage::File(id, text) => vec![id.clone().into(), text.clone().into()],
        })
    }

    fn decode(value: &Value) -> Result<Storage, String> {
        if let Ok([id, text]) = parts(value) {
            return Ok(Storage::File(string(id)?, string(text)?));
        }
        let [id, title, bytes, sector, rotational] = parts(value)?;
        let rotational = rotational.as_bool().ok_or("no drive")?;
        Ok(Storage::Facts(
            string(id)?,
            string(title)?,
            unsigned(bytes)?,
            unsigned(sector)?,
            rotational,
        ))
    }
}

/// What a run does, but for schedulers and groups.
#[derive(Debug)]
pub struct Order {
    /// Where the shared memory is.
    pub board: String,
    /// Where files are.
    pub ground: Ground,
    /// What is under them.
    pub storage: Storage,
    /// Processors take no time of their own: what the simulated host would have computed is slept.
    pub virtual_time: bool,
    pub host: HostConfig,
    pub procs: Vec<ProcSpec>,
    pub window: Window,
    pub seed: u64,
}

impl Order {
    /// The order as a text.
    pub fn encode(&self) -> String {
        let mut order = Table::new();
        let mut set = |name: &str, value: Value| drop(order.insert(name.into(), value));
        set("board", self.board.clone().into());
        let (kind, path, reached, writable) = self.ground.encode();
        set("ground", kind.into());
        set("path", path.into());
        set("reached", reached.into());
        set("writable", writable.into());
        set("drive", self.storage.encode());
        set("virtual_time", self.virtual_time.into());
        let times = [self.window.ramp, self.window.measured, self.window.grace];
        set("window", Value::Array(times.map(|t| int(t.0)).into()));
        set("seed", int(self.seed));
        set("procs", Value::Array(self.procs.iter().map(proc_table).collect()));
        put_host(&mut order, &self.host);
        order.to_string()
    }

    /// Reads it back.
    pub fn decode(text: &str) -> Result<Order, String> {
        let order: Table = text.parse().map_err(said)?;
        let window = order.get("window").and_then(Value::as_array).ok_or("no window")?;
        let time = |i: usize| {
            let ns = window.get(i).and_then(Value::as_integer).ok_or("no time")?;
            Ok::<Nanos, String>(Nanos(ns as u64))
        };
        let procs = list_of(&order, "procs")?;
        let interval = Nanos::secs(1);
        Ok(Order {
            board: text_of(&order, "board")?.to_string(),
            ground: Ground::decode(
                text_of(&order, "ground")?,
                text_of(&order, "path")?,
                text_of(&order, "reached")?,
                flag(&order, "writable")?,
            )?,
            storage: Storage::decode(order.get("drive").ok_or("no drive")?)?,
            virtual_time: flag(&order, "virtual_time")?,
            host: host_of(&order)?,
            procs: procs.iter().map(proc_of).collect::<Result<_, String>>()?,
            window: Window {
                ramp: time(0)?,
                measured: time(1)?,
                grace: time(2)?,
                target_interval: interval,
                device_interval: interval,
            },
            seed: number(&order, "seed")?,
        })
    }

    /// The job on its drive, with a scheduler that no worker asks for.
    pub fn job<'a>(&self, drive: &'a DriveFile) -> Job<'a> {
        // Who is in which group is settled before a worker begins.
        let procs = self.procs.iter().map(|p| ProcSpec { group: None, ..p.clone() }).collect();
        Job {
            drive,
            host: self.host.clone(),
            scheduler: SchedulerSpec {
                entry: sched::SCHEDULERS[0],
                set: Vec::new(),
                queue: Vec::new(),
            },
            control: ControlSpec::default(),
            groups: Vec::new(),
            procs,
            window: self.window,
            seed: self.seed,
            trace: TraceMode::Off,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway::IoPrio;
    use hoistway_sim::world::Role;

    #[test]
    fn what_is_told_is_understood() {
        let mut host = HostConfig::profile("2019").unwrap();
        host.set("layout_gap_kib", &Value::Integer(77)).unwrap();
        let params: Table = "pattern = \"rand\"\nbs = \"4k\"\nranges = [1, 2.5]".parse().unwrap();
        let spec = ProcSpec {
            name: "target \"x\"".into(),
            role: Role::Target,
            group: None,
            prio: IoPrio::rt(4),
            start: Nanos::ms(200),
            load: "reader".into(),
            params,
        };
        let idle = ProcSpec { prio: IoPrio::idle(), role: Role::Interferer, ..spec.clone() };
        let order = Order {
            board: "/proc/1/fd/9".into(),
            ground: Ground::Device { path: "/dev/loop7".into(), writable: true },
            storage: Storage::Facts("a".into(), "A \\ b".into(), 1 << 40, 4096, true),
            virtual_time: true,
            host,
            procs: vec![spec, idle],
            window: Window {
                ramp: Nanos::ms(5),
                measured: Nanos::secs(2),
                grace: Nanos::secs(60),
                target_interval: Nanos::secs(1),
                device_interval: Nanos::secs(1),
            },
            seed: 1 << 62,
        };
        let read = Order::decode(&order.encode()).unwrap();
        assert_eq!(format!("{read:?}"), format!("{order:?}"));
        assert!(Order::decode("seed = 1").is_err());
    }
}
