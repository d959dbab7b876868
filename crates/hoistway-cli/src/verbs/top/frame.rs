//! One frame: what happened between two looks, per client and per group, beside what each is
//! entitled to.
//!
//! *Share* is the part of what all clients of a device got in the interval, of the bytes and of the
//! time their requests spent with the device. *Entitled* is what the weights promise a client as
//! long as those that have I/O now all go on asking: its weight among the busy clients of its
//! group, times the weight of the group among the busy groups (clients of the root group stand
//! beside the groups). It is a promise for those who always want more, not for one that asks now
//! and then.

use super::sample::{Client, Device, Emulation, Figure, Measure, Sample, Stall, Target};
use serde_json::{Map, Value, json};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Version of the JSON frames.
const SCHEMA: u32 = 1;
/// Clients without a group stand in it.
const ROOT: &str = "root";

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    Clients,
    Groups,
}

impl Rows {
    pub fn other(self) -> Rows {
        if self == Rows::Clients { Rows::Groups } else { Rows::Clients }
    }
}

/// Order of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    Throughput,
    Iops,
    P99,
    Share,
    Name,
}

impl Sort {
    /// Names on the command line, whose first letters are the keys.
    pub const ALL: [(&'static str, Sort); 5] = [
        ("throughput", Sort::Throughput),
        ("iops", Sort::Iops),
        ("p99", Sort::P99),
        ("share", Sort::Share),
        ("name", Sort::Name),
    ];

    pub fn of(name: &str) -> Option<Sort> {
        Sort::ALL.iter().find(|(n, _)| *n == name).map(|(_, sort)| *sort)
    }

    pub fn by_key(key: char) -> Option<Sort> {
        Sort::ALL.iter().find(|(n, _)| n.starts_with(key)).map(|(_, sort)| *sort)
    }
}

/// What happened between two looks.
#[derive(Clone, Debug)]
pub struct Frame {
    pub devices: Vec<DeviceFrame>,
}

/// The part of a device.
#[derive(Clone, Debug)]
pub struct DeviceFrame {
    pub exports: Vec<String>,
    pub target: String,
    pub scheduler: String,
    pub changing: bool,
    pub waits_for: Option<String>,
    pub stall: Option<Stall>,
    pub stalls: u64,
    pub changed: Map<String, Value>,
    pub controllers: Vec<String>,
    pub nr_requests: u32,
    /// Requests that exist and are not with the device.
    pub queued: u32,
    pub in_flight: u32,
    pub in_service: Vec<u64>,
    pub state: Vec<Figure>,
    pub emulation: Option<Emulation>,
    pub targets: Vec<Target>,
    pub interval_ns: u64,
    pub merged: u64,
    pub clients: Vec<Row>,
    pub groups: Vec<Row>,
}

/// A line.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The connection, for that of a client.
    pub connection: Option<u64>,
    pub export: String,
    pub group: String,
    pub prio: String,
    pub peer: String,
    /// Clients, for that of a group.
    pub clients: u64,
    pub weight: Option<u64>,
    pub got: Got,
    /// Shares of the device, 0 to 1; `None`: nobody got anything.
    pub share_bytes: Option<f64>,
    pub share_service: Option<f64>,
    /// What the weights promise it; `None`: nothing, or it has no I/O.
    pub entitled: Option<f64>,
}

/// What was got in an interval.
#[derive(Clone, Debug, Default)]
pub struct Got {
    interval_ns: u64,
    pub count: u64,
    pub errors: u64,
    pub read: u64,
    pub written: u64,
    time_ns: u64,
    /// That of reads and writes.
    data_ns: u64,
    wait_ns: u64,
    depth_ns: u64,
    pub outstanding: u64,
    times: BTreeMap<u64, u64>,
}

impl Got {
    fn between(before: Option<&Measure>, now: &Measure, interval_ns: u64) -> Got {
        let nothing = Measure::default();
        let before = before.unwrap_or(&nothing);
        let mut got = Got {
            interval_ns,
            wait_ns: now.wait_ns.saturating_sub(before.wait_ns),
            depth_ns: now.depth_ns.saturating_sub(before.depth_ns),
            outstanding: now.outstanding,
            ..Got::default()
        };
        let none = super::sample::Op::default();
        for (name, op) in &now.ops {
            let old = before.ops.get(name).unwrap_or(&none);
            got.count += op.count - old.count.min(op.count);
            got.errors += op.errors - old.errors.min(op.errors);
            let time = op.time_ns - old.time_ns.min(op.time_ns);
            let bytes = op.bytes - old.bytes.min(op.bytes);
            got.time_ns += time;
            match &name[..] {
                "read" => got.read += bytes,
                "write" => got.written += bytes,
                _ => {}
            }
            if matches!(&name[..], "read" | "write") {
                got.data_ns += time;
            }
            let known: BTreeMap<u64, u64> = old.times.iter().copied().collect();
            for (top, n) in &op.times {
                let new = n.saturating_sub(known.get(top).copied().unwrap_or(0));
                if new > 0 {
                    *got.times.entry(*top).or_default() += new;
                }
            }
        }
        got
    }

    fn add(&mut self, other: &Got) {
        self.interval_ns = other.interval_ns;
        self.count += other.count;
        self.errors += other.errors;
        self.read += other.read;
        self.written += other.written;
        self.time_ns += other.time_ns;
        self.data_ns += other.data_ns;
        self.wait_ns += other.wait_ns;
        self.depth_ns += other.depth_ns;
        self.outstanding += other.outstanding;
        for (top, n) in &other.times {
            *self.times.entry(*top).or_default() += n;
        }
    }

    fn busy(&self) -> bool {
        self.count > 0 || self.outstanding > 0
    }

    /// Bytes moved.
    pub fn bytes(&self) -> u64 {
        self.read + self.written
    }

    /// Of anything, per second.
    pub fn per_second(&self, of: u64) -> f64 {
        of as f64 * 1e9 / self.interval_ns.max(1) as f64
    }

    /// Time with the device, in ns.
    fn service_ns(&self) -> u64 {
        self.time_ns.saturating_sub(self.wait_ns)
    }

    /// Part of the times of reads and writes that was spent waiting for the device, 0 to 1.
    pub fn waited(&self) -> Option<f64> {
        (self.data_ns > 0).then(|| (self.wait_ns as f64 / self.data_ns as f64).min(1.0))
    }

    /// Mean number of I/Os at a time.
    pub fn depth(&self) -> f64 {
        self.depth_ns as f64 / self.interval_ns.max(1) as f64
    }

    /// In ms, at most a sixteenth too high; `None`: nothing was over.
    pub fn percentile(&self, percent: u64) -> Option<f64> {
        let all: u64 = self.times.values().sum();
        let rank = (all * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let slot = self.times.iter().find(|(_, n)| {
            seen += **n;
            seen >= rank
        });
        slot.map(|(top, _)| *top as f64 / 1e6)
    }
}

impl Frame {
    /// `now` is a later look at the same server than `before`.
    pub fn between(before: &Sample, now: &Sample) -> Frame {
        let devices = now.devices.iter().enumerate();
        Frame { devices: devices.map(|(n, d)| device(before.devices.get(n), d)).collect() }
    }

    /// As one JSON object.
    pub fn json(&self, rows: Rows, sort: Sort) -> Value {
        let devices: Vec<_> = self.devices.iter().map(|d| d.json(rows, sort)).collect();
        json!({ "schema": SCHEMA, "devices": devices })
    }
}

fn device(before: Option<&Device>, now: &Device) -> DeviceFrame {
    let interval_ns = now.time_ns - before.map_or(0, |b| b.time_ns.min(now.time_ns));
    let counter = |d: &Device, name: &str| d.counters.get(name).copied().unwrap_or(0);
    let merged = |d: &Device| counter(d, "merged");
    let mut clients: Vec<Row> = Vec::new();
    for client in &now.clients {
        let same = |c: &&Client| c.connection == client.connection;
        let old = before.and_then(|b| b.clients.iter().find(same)).map(|c| &c.measure);
        clients.push(Row {
            connection: Some(client.connection),
            export: client.export.clone(),
            group: client.group.clone(),
            prio: client.prio.clone(),
            peer: client.peer.clone(),
            clients: 1,
            weight: client.weight,
            got: Got::between(old, &client.measure, interval_ns),
            ..Row::default()
        });
    }
    let mut groups = group_rows(before, now, interval_ns, &clients);
    entitle(&mut clients, &mut groups);
    // Those who left in the interval are in the sums of their groups alone.
    let bytes: u64 = groups.iter().map(|g| g.got.bytes()).sum();
    let service: u64 = groups.iter().map(|g| g.got.service_ns()).sum();
    for row in clients.iter_mut().chain(&mut groups) {
        row.share_bytes = (bytes > 0).then(|| row.got.bytes() as f64 / bytes as f64);
        row.share_service = (service > 0).then(|| row.got.service_ns() as f64 / service as f64);
    }
    DeviceFrame {
        exports: now.exports.iter().map(|e| e.name.clone()).collect(),
        target: now.target.clone(),
        scheduler: now.scheduler.clone(),
        changing: now.changing,
        waits_for: now.waits_for.clone(),
        stall: now.stall.clone(),
        stalls: now.stalls,
        changed: now.changed.clone(),
        controllers: now.controllers.clone(),
        nr_requests: now.nr_requests,
        queued: now.requests.saturating_sub(now.in_flight),
        in_flight: now.in_flight,
        in_service: now.in_service.clone(),
        state: now.state.clone(),
        emulation: now.emulation.clone(),
        targets: now.targets.clone(),
        interval_ns,
        merged: merged(now).saturating_sub(before.map_or(0, merged)),
        clients,
        groups,
    }
}

/// A line for every group that has clients, or had something done.
fn group_rows(before: Option<&Device>, now: &Device, interval: u64, clients: &[Row]) -> Vec<Row> {
    let mut groups: Vec<Row> = Vec::new();
    for sum in &now.sums {
        let same = |s: &&super::sample::Sum| (&s.export, &s.group) == (&sum.export, &sum.group);
        let old = before.and_then(|b| b.sums.iter().find(same)).map(|s| &s.measure);
        let got = Got::between(old, &sum.measure, interval);
        let at = groups.iter().position(|g| g.group == sum.group).unwrap_or_else(|| {
            let known = now.groups.iter().find(|g| g.name == sum.group);
            let weight = known.and_then(|g| g.weight);
            groups.push(Row { group: sum.group.clone(), weight, ..Row::default() });
            groups.len() - 1
        });
        groups[at].got.add(&got);
    }
    for group in &mut groups {
        group.clients = clients.iter().filter(|c| c.group == group.group).count() as u64;
    }
    groups.retain(|g| g.clients > 0 || g.got.busy());
    groups
}

/// Says what each is entitled to: see the head of this file.
fn entitle(clients: &mut [Row], groups: &mut [Row]) {
    // A group without a weight among others: nobody shares by weight here.
    let rivals = groups.iter().filter(|g| g.group != ROOT && g.got.busy());
    let Some(mut all) = rivals.map(|g| g.weight).sum::<Option<u64>>() else { return };
    let inside = |clients: &[Row], group: &str| -> u64 {
        let mine = clients.iter().filter(|c| c.group == group && c.got.busy());
        mine.filter_map(|c| c.weight).sum()
    };
    all += inside(clients, ROOT);
    if all == 0 {
        return;
    }
    for group in groups.iter_mut().filter(|g| g.got.busy()) {
        let among = inside(clients, &group.group);
        let weight = if group.group == ROOT { Some(among) } else { group.weight };
        let Some(weight) = weight.filter(|w| *w > 0) else { continue };
        let entitled = weight as f64 / all as f64;
        group.entitled = Some(entitled);
        for client in clients.iter_mut().filter(|c| c.group == group.group && c.got.busy()) {
            let part = client.weight.filter(|_| among > 0).map(|w| w as f64 / among as f64);
            client.entitled = part.map(|part| part * entitled);
        }
    }
}

impl DeviceFrame {
    /// The lines, in order.
    pub fn rows(&self, rows: Rows, sort: Sort) -> Vec<&Row> {
        let of = if rows == Rows::Clients { &self.clients } else { &self.groups };
        let mut all: Vec<&Row> = of.iter().collect();
        let most = |key: fn(&Row) -> f64| {
            move |a: &&Row, b: &&Row| key(b).partial_cmp(&key(a)).unwrap_or(Ordering::Equal)
        };
        // The sort is stable: what is equal stays in the order of connections.
        match sort {
            Sort::Throughput => all.sort_by(most(|r| r.got.bytes() as f64)),
            Sort::Iops => all.sort_by(most(|r| r.got.count as f64)),
            Sort::P99 => all.sort_by(most(|r| r.got.percentile(99).unwrap_or(-1.0))),
            Sort::Share => all.sort_by(most(|r| r.share_service.unwrap_or(-1.0))),
            Sort::Name => all.sort_by(|a, b| (&a.export, &a.group).cmp(&(&b.export, &b.group))),
        }
        all
    }

    fn json(&self, rows: Rows, sort: Sort) -> Value {
        let state: Vec<_> = self.state.iter().map(figure_json).collect();
        let lines: Vec<_> = self.rows(rows, sort).into_iter().map(Row::json).collect();
        let late = self.emulation.as_ref();
        json!({
            "exports": self.exports,
            "target": self.target,
            "scheduler": self.scheduler,
            "changing": self.changing,
            "waits_for": self.waits_for,
            "stalls": self.stalls,
            "stall": self.stall.as_ref().map(|stall| json!({
                "lasts_s": stall.lasts_ns as f64 / 1e9,
                "unfinished": stall.unfinished,
                "reason": stall.reason,
            })),
            "tunables_changed": self.changed,
            "controllers": self.controllers,
            "nr_requests": self.nr_requests,
            "queued": self.queued,
            "in_flight": self.in_flight,
            "in_service": self.in_service,
            "interval_s": self.interval_ns as f64 / 1e9,
            "merged": self.merged,
            "state": state,
            "targets": self.targets.iter().map(target_json).collect::<Vec<_>>(),
            "emulation": late.map(|e| json!({
                "late_p50_ms": e.late_p50_ns as f64 / 1e6,
                "late_p99_ms": e.late_p99_ns as f64 / 1e6,
            })),
            if rows == Rows::Clients { "clients" } else { "groups" }: lines,
        })
    }
}

fn target_json(t: &Target) -> Value {
    let ms = |ns: u64| ns as f64 / 1e6;
    json!({
        "group": t.group, "target_ms": t.target_ns.map(ms),
        "p99_ms": Some(t.p99_ns).filter(|ns| *ns > 0).map(ms),
        "share": f64::from(t.share_permille) / 1e3, "answer": t.answer, "words": t.words,
    })
}

fn figure_json(f: &Figure) -> Value {
    json!({
        "stage": f.stage, "name": f.name, "unit": f.unit, "group": f.group, "of": f.of,
        "gauge": f.gauge, "value": f.value,
    })
}

impl Row {
    fn json(&self) -> Value {
        let got = &self.got;
        let mut object = json!({
            "group": self.group,
            "weight": self.weight,
            "iops": got.per_second(got.count),
            "read_mb_per_s": got.per_second(got.read) / 1e6,
            "written_mb_per_s": got.per_second(got.written) / 1e6,
            "p50_ms": got.percentile(50),
            "p99_ms": got.percentile(99),
            "waited": got.waited(),
            "share_bytes": self.share_bytes,
            "share_service": self.share_service,
            "entitled": self.entitled,
            "depth": got.depth(),
            "outstanding": got.outstanding,
            "ios": got.count,
            "errors": got.errors,
        });
        match self.connection {
            Some(connection) => {
                object["client"] = connection.into();
                object["export"] = self.export.clone().into();
                object["prio"] = self.prio.clone().into();
                object["peer"] = self.peer.clone().into();
            }
            None => object["clients"] = self.clients.into(),
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(group: &str, weight: Option<u64>, count: u64) -> Row {
        let got = Got { count, ..Got::default() };
        Row { group: group.into(), weight, got, ..Row::default() }
    }

    /// In thousandths.
    fn entitled(clients: &mut [Row], groups: &mut [Row]) -> Vec<Option<u64>> {
        entitle(clients, groups);
        clients.iter().map(|c| c.entitled.map(|part| (1000.0 * part).round() as u64)).collect()
    }

    #[test]
    fn entitlement_is_the_share_of_weight_among_those_who_have_io() {
        let groups = || {
            vec![row("gold", Some(300), 1), row("bronze", Some(100), 1), row("idle", Some(1000), 0)]
        };
        let clients = || {
            vec![
                row("gold", Some(40), 1),
                row("gold", Some(80), 1),
                row("bronze", Some(40), 1),
                row("bronze", Some(40), 0),
                row("idle", Some(40), 0),
            ]
        };
        let expected = [Some(250), Some(500), Some(250), None, None];
        assert_eq!(entitled(&mut clients(), &mut groups()), expected);
        // Clients of no group stand beside the groups.
        let mut with_root = clients();
        with_root.push(row(ROOT, Some(100), 1));
        let mut and_root = groups();
        and_root.push(row(ROOT, None, 1));
        let expected = [Some(200), Some(400), Some(200), None, None, Some(200)];
        assert_eq!(entitled(&mut with_root, &mut and_root), expected);
        assert_eq!(and_root[3].entitled, Some(0.2));
        // Where groups have no weights nothing is promised.
        let mut none = vec![row("gold", None, 1), row(ROOT, None, 1)];
        assert_eq!(entitled(&mut [row("gold", Some(40), 1)], &mut none), [None]);
        // A client served before all others has no share.
        let mut real_time = [row(ROOT, None, 1), row(ROOT, Some(40), 1)];
        assert_eq!(entitled(&mut real_time, &mut [row(ROOT, None, 1)]), [None, Some(1000)]);
    }

    #[test]
    fn percentiles_are_those_of_the_interval() {
        let op = |count, times: &[(u64, u64)]| super::super::sample::Op {
            count,
            bytes: 4096 * count,
            times: times.to_vec(),
            ..Default::default()
        };
        let measure =
            |op| Measure { ops: BTreeMap::from([("read".to_string(), op)]), ..Measure::default() };
        let before = measure(op(100, &[(1_000_000, 100)]));
        let now = measure(op(200, &[(1_000_000, 100), (2_000_000, 98), (9_000_000, 2)]));
        let got = Got::between(Some(&before), &now, 500_000_000);
        assert_eq!((got.percentile(50), got.percentile(98)), (Some(2.0), Some(2.0)));
        assert_eq!((got.percentile(99), got.count), (Some(9.0), 100));
        assert_eq!((got.per_second(got.count), got.bytes()), (200.0, 409_600));
        assert_eq!(Got::between(Some(&now), &now, 1).percentile(50), None);
    }
}
