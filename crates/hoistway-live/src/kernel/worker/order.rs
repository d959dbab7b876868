//! What a worker is told: the part of a job that decides what its processes do, as a text.
//!
//! A worker builds all loads of the job, as the simulator does, and carries out its own: files and random choices of a
//! load depend on those built before it.

use super::super::files::Ground;
use hoistway::{IoPrio, Nanos, sched};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::host::HostConfig;
use hoistway_sim::world::{ControlSpec, Job, ProcSpec, Role, SchedulerSpec, TraceMode, Window};
use std::fmt::Display;
use toml::{Table, Value};

/// What a run does, but for schedulers and groups.
#[derive(Debug)]
pub struct Order {
    /// Where the shared memory is.
    pub board: String,
    /// Where files are.
    pub ground: Ground,
    /// The storage as a drive: id, name, bytes, bytes of a sector, rotational.
    pub drive: (String, String, u64, u64, bool),
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
        let (kind, path, writable) = self.ground.encode();
        set("ground", kind.into());
        set("path", path.into());
        set("writable", writable.into());
        let (id, title, bytes, sector, rotational) = &self.drive;
        set("drive", Value::Array(vec![id.clone().into(), title.clone().into()]));
        set("bytes", int(*bytes));
        set("sector", int(*sector));
        set("rotational", (*rotational).into());
        set("profile", self.host.profile_name().into());
        let host = self.host.differences();
        set("host", Value::Table(host.into_iter().map(|(n, v)| (n.into(), v.into())).collect()));
        let times = [self.window.ramp, self.window.measured, self.window.grace];
        set("window", Value::Array(times.map(|t| int(t.0)).into()));
        set("seed", int(self.seed));
        set("procs", Value::Array(self.procs.iter().map(proc_table).collect()));
        order.to_string()
    }

    /// Reads it back.
    pub fn decode(text: &str) -> Result<Order, String> {
        let order: Table = text.parse().map_err(said)?;
        let drive = order.get("drive").and_then(Value::as_array).ok_or("no drive")?;
        let drive_text = |i: usize| {
            let text = drive.get(i).and_then(Value::as_str);
            text.map(str::to_string).ok_or("no name of the drive")
        };
        let mut host = HostConfig::profile(text_of(&order, "profile")?).map_err(said)?;
        for (name, value) in order.get("host").and_then(Value::as_table).ok_or("no host")? {
            host.set(name, value).map_err(said)?;
        }
        let window = order.get("window").and_then(Value::as_array).ok_or("no window")?;
        let time = |i: usize| {
            let ns = window.get(i).and_then(Value::as_integer).ok_or("no time")?;
            Ok::<Nanos, String>(Nanos(ns as u64))
        };
        let procs = order.get("procs").and_then(Value::as_array).ok_or("no processes")?;
        let interval = Nanos::secs(1);
        Ok(Order {
            board: text_of(&order, "board")?.to_string(),
            ground: Ground::decode(
                text_of(&order, "ground")?,
                text_of(&order, "path")?,
                flag(&order, "writable")?,
            )?,
            drive: (
                drive_text(0)?,
                drive_text(1)?,
                number(&order, "bytes")?,
                number(&order, "sector")?,
                flag(&order, "rotational")?,
            ),
            host,
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
            procs: self.procs.clone(),
            window: self.window,
            seed: self.seed,
            trace: TraceMode::Off,
        }
    }
}

fn proc_table(spec: &ProcSpec) -> Value {
    let mut table = Table::new();
    let mut set = |name: &str, value: Value| drop(table.insert(name.into(), value));
    set("name", spec.name.clone().into());
    set("target", (spec.role == Role::Target).into());
    set("class", int(spec.prio.word().into()));
    set("start", int(spec.start.0));
    set("load", spec.load.clone().into());
    set("params", Value::Table(spec.params.clone()));
    Value::Table(table)
}

fn proc_of(value: &Value) -> Result<ProcSpec, String> {
    let table = value.as_table().ok_or("a process is no table")?;
    let word = number(table, "class")?;
    let class = match word >> 13 {
        1 => hoistway::Class::Rt,
        2 => hoistway::Class::Be,
        3 => hoistway::Class::Idle,
        _ => hoistway::Class::None,
    };
    Ok(ProcSpec {
        name: text_of(table, "name")?.into(),
        role: if flag(table, "target")? { Role::Target } else { Role::Interferer },
        group: None,
        prio: IoPrio::new(class, (word & 7) as u8).ok_or("no priority")?,
        start: Nanos(number(table, "start")?),
        load: text_of(table, "load")?.into(),
        params: table.get("params").and_then(Value::as_table).ok_or("no parameters")?.clone(),
    })
}

/// Sizes and times are far below 2^63.
fn int(n: u64) -> Value {
    Value::Integer(i64::try_from(n).unwrap_or(i64::MAX))
}

fn said(error: impl Display) -> String {
    error.to_string()
}

fn number(table: &Table, name: &str) -> Result<u64, String> {
    let n = table.get(name).and_then(Value::as_integer).ok_or(format!("no {name}"))?;
    u64::try_from(n).map_err(|_| format!("{name} = {n}"))
}

fn flag(table: &Table, name: &str) -> Result<bool, String> {
    table.get(name).and_then(Value::as_bool).ok_or(format!("no {name}"))
}

fn text_of<'a>(table: &'a Table, name: &str) -> Result<&'a str, String> {
    table.get(name).and_then(Value::as_str).ok_or(format!("no {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            drive: ("a".into(), "A \\ b".into(), 1 << 40, 4096, true),
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
