//! The control socket of a running server: one JSON object in, one out (docs/guide/serve.md). What a
//! command does to a device is in `hoistway-serve`; here it is only found, checked and told.

use super::explain::{self, About};
use super::metrics::{self, DeviceSnapshot};
use super::spec::server_tunables;
use super::stats;
use hoistway::Weight;
use hoistway_lab::config::Config;
use hoistway_serve::device::{
    ClientReport, DeviceReport, GroupReport, GroupSetting, LATENCY_AUTO, ROOT_NAME, TargetReport,
};
use hoistway_serve::front::Export;
use hoistway_serve::net::line::{Answer, BadLine, LINE_MAX, LineServer};
use hoistway_serve::{Device, Group, GroupSpec, ServeError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// What may be asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Everything about devices, exports and clients.
    List {},
    /// The same with everything that is measured.
    Stats {},
    /// Prometheus' text.
    Metrics {},
    /// The timeline of a client or a group, as many lines.
    Explain {
        /// The number of a connection, or the name of a group.
        of: String,
        /// Lines at most.
        #[serde(default = "explain_limit")]
        limit: u64,
        /// How long to listen.
        #[serde(default = "explain_seconds")]
        seconds: f64,
        /// For a group.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        export: Option<String>,
    },
    /// The weight of a group under the scheduler.
    SetWeight {
        /// Its name.
        group: String,
        /// 1 to 1000.
        weight: u64,
        /// An export of the device that is meant, where there are several; so below.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        export: Option<String>,
    },
    /// A tunable of the scheduler, the block layer or a controller.
    Set {
        /// Its name.
        name: String,
        /// The value as text: a number, a quantity with its unit, a word.
        value: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        export: Option<String>,
    },
    /// A line for a cgroup file.
    Write {
        /// The group.
        group: String,
        /// The file.
        file: String,
        /// The line, without its end.
        line: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        export: Option<String>,
    },
    /// What a cgroup file prints.
    Read {
        /// The group.
        group: String,
        /// The file.
        file: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        export: Option<String>,
    },
    /// Look how large files and block devices are now.
    Resize {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        export: Option<String>,
    },
    /// Another scheduler.
    Scheduler {
        /// Its name, with tunables in braces.
        scheduler: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        export: Option<String>,
    },
}

/// How long a change of scheduler is waited for; it goes on after that.
const SWITCH_LOOKS: u32 = 500;
const SWITCH_LOOK: Duration = Duration::from_millis(2);

fn explain_limit() -> u64 {
    200
}

fn explain_seconds() -> f64 {
    5.0
}

/// What the commands act on.
#[derive(Clone, Debug)]
pub struct ControlService {
    devices: Vec<Device>,
    /// Exports with the number of their device.
    exports: Vec<(Export, usize)>,
    /// Names of their groups.
    groups: Vec<String>,
}

/// Opens the control socket.
pub fn open(path: &Path, control_service: ControlService) -> Result<LineServer, ServeError> {
    let full = json!({ "ok": false, "error": "too many connections; try again" }).to_string();
    LineServer::start(path, &full, move |line| control_service.answer(line))
}

impl ControlService {
    /// `of` tells the device of each export.
    pub fn new(
        exports: &[Export],
        devices: &[Device],
        of: &[usize],
    ) -> Result<ControlService, ServeError> {
        let exports: Vec<_> = exports.iter().cloned().zip(of.iter().copied()).collect();
        let groups: Result<Vec<_>, _> =
            exports.iter().map(|(e, _)| e.device.group_name(e.group)).collect();
        Ok(ControlService { devices: devices.to_vec(), exports, groups: groups? })
    }

    fn answer(&self, line: Result<&str, BadLine>) -> Answer {
        let request = match line {
            Err(BadLine::TooLong) => Err(format!("a line is at most {LINE_MAX} bytes")),
            Err(BadLine::NotText) => Err("the line is not UTF-8".into()),
            Ok(text) => serde_json::from_str(text).map_err(|e| format!("the request: {e}")),
        };
        let answer = match request {
            Ok(Request::Explain { of, limit, seconds, export }) => {
                match self.explain(&of, limit, seconds, export.as_deref()) {
                    Ok(stream) => return stream,
                    Err(error) => Err(error),
                }
            }
            Ok(request) => self.perform(request),
            Err(error) => Err(error),
        };
        let answer = match answer {
            Ok(mut answer) => {
                answer["ok"] = true.into();
                answer
            }
            Err(error) => json!({ "ok": false, "error": error }),
        };
        answer.to_string().into()
    }

    /// A connection's number goes before a group's name.
    fn explain(
        &self,
        of: &str,
        limit: u64,
        seconds: f64,
        export: Option<&str>,
    ) -> Result<Answer, String> {
        if let Ok(number) = of.parse::<u64>() {
            for device in &self.devices {
                let clients = device.report().map_err(text)?.clients;
                if clients.iter().any(|c| c.connection == number) {
                    return explain::stream(device.clone(), About::Client(number), limit, seconds);
                }
            }
        }
        let (device, _) = self.group(of, export).map_err(|e| match of.parse::<u64>() {
            Ok(_) => format!("no client {of}, and {e}"),
            Err(_) => e,
        })?;
        explain::stream(device.clone(), About::Group(of.into()), limit, seconds)
    }

    /// Prometheus' text.
    pub fn metrics(&self) -> Result<String, ServeError> {
        let mut snapshots = Vec::new();
        for (at, device) in self.devices.iter().enumerate() {
            let exports: Vec<_> = (self.exports.iter().zip(&self.groups))
                .filter(|((_, of), _)| *of == at)
                .map(|((e, _), group)| (e.name.clone(), group.clone()))
                .collect();
            snapshots.push(DeviceSnapshot {
                device: exports.first().map_or_else(String::new, |(name, _)| name.clone()),
                target: device.facts().summary.clone(),
                exports,
                stats: device.stats()?,
            });
        }
        Ok(metrics::text(&snapshots))
    }

    fn perform(&self, request: Request) -> Result<Value, String> {
        match request {
            Request::List {} => self.list(),
            Request::Stats {} => self.stats(),
            Request::Metrics {} => Ok(json!({ "text": self.metrics().map_err(text)? })),
            Request::Explain { .. } => Err("explain is a stream, not an answer".into()),
            Request::SetWeight { group, weight, export } => {
                let weight = checked_weight(weight)?;
                let (device, id) = self.group(&group, export.as_deref())?;
                if id == Group::ROOT {
                    return Err(format!("'{group}' is not below another group: no weight"));
                }
                let spec = GroupSpec::new(&group).weight(weight);
                let (_, warnings) = device.set_group(&spec).map_err(text)?;
                Ok(json!({ "warnings": warnings }))
            }
            Request::Set { name, value, export } => {
                self.set(self.device(export.as_deref())?, &name, &value)
            }
            Request::Write { group, file, line, export } => {
                let (device, group) = self.group(&group, export.as_deref())?;
                device.write_knob(group, &file, &line).map_err(text)?;
                Ok(json!({}))
            }
            Request::Read { group, file, export } => {
                let (device, group) = self.group(&group, export.as_deref())?;
                match device.read_knob(group, &file).map_err(text)? {
                    Some(text) => Ok(json!({ "text": text })),
                    None => Err(format!(
                        "no installed stage has the file '{file}'; there are {}",
                        device.knobs().map_err(text)?.join(", ")
                    )),
                }
            }
            Request::Resize { export } => self.resize(export.as_deref()),
            Request::Scheduler { scheduler, export } => {
                switch(self.device(export.as_deref())?, &scheduler)
            }
        }
    }

    /// The device that is meant.
    fn device(&self, export: Option<&str>) -> Result<&Device, String> {
        match (export, &self.devices[..]) {
            (None, [only]) => Ok(only),
            (None, several) => Err(format!(
                "there are {} devices; choose one by naming one of its exports",
                several.len()
            )),
            (Some(name), _) => {
                let known = self.exports.iter().find(|(e, _)| e.name == name);
                known.map(|(_, at)| &self.devices[*at]).ok_or_else(|| {
                    let names: Vec<_> = self.exports.iter().map(|(e, _)| &e.name[..]).collect();
                    format!("no export '{name}'; there are {}", names.join(", "))
                })
            }
        }
    }

    /// The group that is meant: where there are several devices, the one that has it.
    fn group(&self, name: &str, export: Option<&str>) -> Result<(&Device, Group), String> {
        let candidates: Vec<&Device> = match export {
            Some(_) => vec![self.device(export)?],
            None => self.devices.iter().collect(),
        };
        let mut found = Vec::new();
        let mut names = vec![ROOT_NAME.to_string()];
        for device in candidates {
            match device.group(name).map_err(text)? {
                Some(group) => found.push((device, group)),
                None => {
                    names.extend(device.report().map_err(text)?.groups.into_iter().map(|g| g.name));
                }
            }
        }
        match found[..] {
            [one] => Ok(one),
            [] => {
                names.dedup();
                Err(format!("no group '{name}'; there are {}", names.join(", ")))
            }
            _ => Err(format!(
                "group '{name}' is on {} devices; choose one by naming one of its exports",
                found.len()
            )),
        }
    }

    /// Of the device that is meant, or of all.
    fn resize(&self, export: Option<&str>) -> Result<Value, String> {
        let devices = match export {
            Some(_) => vec![self.device(export)?],
            None => self.devices.iter().collect(),
        };
        let mut sizes = Vec::new();
        for device in devices {
            let (before, bytes) = (device.size(), device.refresh_size().map_err(text)?);
            let target = &device.facts().summary;
            sizes.push(json!({ "target": target, "before": before, "bytes": bytes }));
        }
        Ok(json!({ "devices": sizes }))
    }

    fn set(&self, device: &Device, name: &str, value: &str) -> Result<Value, String> {
        let tunables = device.tunables().map_err(text)?;
        let Some((stage, tunable)) = tunables.iter().find(|(_, t)| t.name == name) else {
            let names: Vec<_> = tunables.iter().map(|(_, t)| t.name).collect();
            let scheduler = device.scheduler().map_err(text)?;
            return Err(format!(
                "no tunable '{name}' under {scheduler}; there are {}",
                names.join(", ")
            ));
        };
        let number = tunable.parse(value)?;
        device.set(stage.clone(), name, number).map_err(text)?;
        Ok(json!({}))
    }

    fn list(&self) -> Result<Value, String> {
        let mut devices = Vec::new();
        for at in 0..self.devices.len() {
            devices.push(self.describe(at, &self.devices[at].report().map_err(text)?));
        }
        Ok(json!({ "schema": 1, "devices": devices }))
    }

    fn stats(&self) -> Result<Value, String> {
        let mut devices = Vec::new();
        for at in 0..self.devices.len() {
            let stats = self.devices[at].stats().map_err(text)?;
            let mut object = self.describe(at, &stats.report);
            stats::add(&mut object, &stats);
            devices.push(object);
        }
        Ok(json!({ "schema": stats::SCHEMA, "devices": devices }))
    }

    fn describe(&self, at: usize, report: &DeviceReport) -> Value {
        let device = &self.devices[at];
        let mut object = device_json(report);
        let facts = device.facts();
        object["target"] = facts.summary.clone().into();
        object["bytes"] = device.size().into();
        let exports = self.exports.iter().filter(|(_, of)| *of == at);
        object["exports"] = exports.map(|(e, _)| export_json(e, device)).collect();
        object
    }
}

fn checked_weight(weight: u64) -> Result<u64, String> {
    let known = Weight::new(weight).map(Weight::value);
    known.ok_or_else(|| format!("weight = {weight} is outside 1..=1000; choose one in that range"))
}

/// Switches and waits for it, within limits: a device that does not answer holds it up.
fn switch(device: &Device, asked: &str) -> Result<Value, String> {
    let config = Config::parse(asked).map_err(|e| e.to_string())?;
    if !config.controllers.is_empty() || config.groups || !config.given.is_empty() {
        return Err(format!(
            "'{asked}' is more than a scheduler: controllers and groups are chosen when the server \
             starts"
        ));
    }
    if let Some((name, _)) = config.queue.first() {
        return Err(format!(
            "{name} is the block layer's: change the scheduler, then set {name} by itself"
        ));
    }
    let set = server_tunables(config.scheduler.name, config.set);
    device.switch_scheduler(config.scheduler, &set).map_err(text)?;
    let mut waits_for = None;
    for _ in 0..SWITCH_LOOKS {
        let report = device.report().map_err(text)?;
        if !report.changing {
            return Ok(json!({
                "scheduler": config.scheduler.name,
                "done": true,
                "controllers": report.controllers,
            }));
        }
        waits_for = report.waits_for;
        std::thread::sleep(SWITCH_LOOK);
    }
    let name = config.scheduler.name;
    Ok(json!({ "scheduler": name, "done": false, "waits_for": waits_for }))
}

fn device_json(report: &DeviceReport) -> Value {
    let tunables: serde_json::Map<_, _> =
        report.tunables.iter().map(|(name, value)| (name.to_string(), (*value).into())).collect();
    json!({
        "sockets": report.sockets,
        "scheduler": report.scheduler,
        "changing": report.changing,
        "waits_for": report.waits_for,
        "tunables": tunables,
        "nr_requests": report.nr_requests,
        "controllers": report.controllers,
        "groups": report.groups.iter().map(group_json).collect::<Vec<_>>(),
        "clients": report.clients.iter().map(client_json).collect::<Vec<_>>(),
        "targets": report.targets.iter().map(target_json).collect::<Vec<_>>(),
    })
}

fn target_json(target: &TargetReport) -> Value {
    let state = &target.state;
    let figures: serde_json::Map<_, _> =
        state.answer.figures().into_iter().map(|(name, v)| (name.into(), v.into())).collect();
    json!({
        "group": target.group,
        "target_ns": state.target.map(|t| t.0),
        "p99_ns": state.p99.0,
        "mean_ns": state.mean.0,
        "share_permille": state.share_permille,
        "answer": state.answer.name(),
        "figures": figures,
        "words": state.words(),
    })
}

fn group_json(group: &GroupReport) -> Value {
    let set: serde_json::Map<_, _> =
        group.set.iter().map(|s| (s.name.clone(), setting_value(s))).collect();
    json!({ "name": group.name, "set": set })
}

fn setting_value(setting: &GroupSetting) -> Value {
    match setting.is_latency() && setting.value == LATENCY_AUTO {
        true => "auto".into(),
        false => setting.value.into(),
    }
}

fn export_json(export: &Export, device: &Device) -> Value {
    let rest = device.size().saturating_sub(export.offset);
    json!({
        "name": export.name,
        "offset": export.offset,
        "bytes": export.size.map_or(rest, |asked| asked.min(rest)),
        "read_only": export.read_only || device.facts().read_only,
        "prio": export.prio.to_string(),
    })
}

fn client_json(client: &ClientReport) -> Value {
    json!({
        "connection": client.connection,
        "export": client.export,
        "group": client.group,
        "prio": client.prio.to_string(),
        "peer": client.peer,
        "reads": client.done.reads,
        "read_bytes": client.done.read_bytes,
        "writes": client.done.writes,
        "written_bytes": client.done.written_bytes,
        "others": client.done.others,
        "errors": client.done.errors,
        "outstanding": client.outstanding,
    })
}

fn text(error: ServeError) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_serve::{DeviceOptions, Target};

    fn device(scheduler: &str) -> Device {
        let options = super::super::spec::device_options(scheduler).unwrap();
        Device::open(&Target::Ram { size: 1 << 20 }, &options).unwrap()
    }

    fn control_service(devices: Vec<Device>) -> ControlService {
        let exports: Vec<_> = ["a", "b"]
            .iter()
            .zip(&devices)
            .map(|(name, device)| Export::new(name, device.clone()))
            .collect();
        ControlService::new(&exports, &devices, &[0, 1][..devices.len()]).unwrap()
    }

    fn answer(control_service: &ControlService, line: Result<&str, BadLine>) -> Value {
        match control_service.answer(line) {
            Answer::Line(line) => serde_json::from_str(&line).unwrap(),
            stream => panic!("{stream:?}"),
        }
    }

    fn error(control_service: &ControlService, line: &str) -> String {
        let answer = answer(control_service, Ok(line));
        assert_eq!(answer["ok"], false, "{line}: {answer}");
        answer["error"].as_str().unwrap().to_string()
    }

    #[test]
    fn bad_input_is_named_and_changes_nothing() {
        let gold = device("bfq");
        gold.set_group(&GroupSpec::new("gold").weight(300)).unwrap();
        let control_service = control_service(vec![gold.clone()]);
        let before = gold.report().unwrap();
        let cases = [
            ("", "request"),
            ("[1]", "request"),
            ("{\"command\":\"lists\"}", "lists"),
            ("{\"command\":\"list\",\"all\":1}", "all"),
            ("{\"command\":\"set-weight\",\"group\":\"gold\",\"weight\":-1}", "-1"),
            ("{\"command\":\"set-weight\",\"group\":\"gold\",\"weight\":0}", "1..=1000"),
            ("{\"command\":\"set-weight\",\"group\":\"gold\",\"weight\":1001}", "1..=1000"),
            ("{\"command\":\"set-weight\",\"group\":\"root\",\"weight\":10}", "no weight"),
            ("{\"command\":\"set-weight\",\"group\":\"gild\",\"weight\":10}", "root, gold"),
            ("{\"command\":\"set\",\"name\":\"fifo_batch\",\"value\":\"8\"}", "under bfq"),
            ("{\"command\":\"set\",\"name\":\"slice_idle\",\"value\":\"x\"}", "'x'"),
            ("{\"command\":\"set\",\"name\":\"nr_requests\",\"value\":\"9999\"}", "9999"),
            (
                "{\"command\":\"set\",\"name\":\"nr_requests\",\"value\":\"8\",\"export\":\"c\"}",
                "'c'",
            ),
            ("{\"command\":\"scheduler\",\"scheduler\":\"bfk\"}", "bfk"),
            ("{\"command\":\"scheduler\",\"scheduler\":\"max-none\"}", "more than a scheduler"),
            ("{\"command\":\"scheduler\",\"scheduler\":\"none{nr_requests=8}\"}", "by itself"),
            ("{\"command\":\"read\",\"group\":\"gold\",\"file\":\"io.max\"}", "io.bfq.weight"),
            ("{\"command\":\"explain\",\"of\":\"gild\"}", "no group 'gild'"),
            ("{\"command\":\"explain\",\"of\":\"7\"}", "no client 7"),
            ("{\"command\":\"explain\",\"of\":\"gold\",\"limit\":0}", "limit"),
            ("{\"command\":\"explain\",\"of\":\"gold\",\"seconds\":-1}", "-1 s"),
            ("{\"command\":\"explain\",\"of\":\"gold\",\"seconds\":1e99}", "at most"),
            (
                "{\"command\":\"write\",\"group\":\"gold\",\"file\":\"io.max\",\"line\":\"x\"}",
                "io.max",
            ),
        ];
        for (line, message) in cases {
            let error = error(&control_service, line);
            assert!(error.contains(message), "{line}: {error}");
        }
        assert_eq!(answer(&control_service, Err(BadLine::TooLong))["ok"], false);
        assert_eq!(gold.report().unwrap(), before);
    }

    #[test]
    fn any_line_is_answered_and_the_device_goes_on() {
        let gold = device("max-bfq");
        gold.set_group(&GroupSpec::new("gold").weight(300)).unwrap();
        let control_service = control_service(vec![gold.clone()]);
        let lines = [
            "{\"command\":\"list\"}",
            "{\"command\":\"set-weight\",\"group\":\"gold\",\"weight\":500}",
            "{\"command\":\"set\",\"name\":\"nr_requests\",\"value\":\"64\"}",
            "{\"command\":\"set\",\"name\":\"slice_idle\",\"value\":\"8ms\",\"export\":\"a\"}",
            "{\"command\":\"write\",\"group\":\"gold\",\"file\":\"io.max\",\"line\":\"8:0 rbps=1048576 wiops=max\"}",
            "{\"command\":\"read\",\"group\":\"gold\",\"file\":\"io.stat\"}",
            "{\"command\":\"scheduler\",\"scheduler\":\"bfq{low_latency=0}\"}",
            "[[[[[[[[{\"a\":[1e999,-0,null,true]}]]]]]]]]",
        ];
        let (mut random, mut done) = (super::super::fuzz::Mutator::new(4), 0);
        for _ in 0..3000 {
            let answer = answer(&control_service, Ok(&random.text(&lines)));
            done += u32::from(answer["ok"] == true);
            assert!(
                answer["ok"] == true || answer["error"].as_str().is_some_and(|e| !e.is_empty())
            );
        }
        assert!(done > 300, "{done} were carried out");
        let nested = "[".repeat(50_000);
        assert_eq!(answer(&control_service, Ok(&nested))["ok"], false, "depth is bounded");
        let client = gold.client(hoistway::IoPrio::NONE).unwrap();
        client.write(0, &[1; 512]).unwrap();
    }

    #[test]
    fn where_there_are_several_devices_one_is_named() {
        let (first, second) = (device("bfq"), device("none"));
        first.set_group(&GroupSpec::new("gold")).unwrap();
        for device in [&first, &second] {
            device.set_group(&GroupSpec::new("both")).unwrap();
        }
        let control_service = control_service(vec![first.clone(), second.clone()]);
        let set = "{\"command\":\"set\",\"name\":\"nr_requests\",\"value\":\"8\"}";
        assert!(error(&control_service, set).contains("2 devices"));
        let both = "{\"command\":\"set-weight\",\"group\":\"both\",\"weight\":10}";
        assert!(error(&control_service, both).contains("2 devices"));
        let gold = "{\"command\":\"set-weight\",\"group\":\"gold\",\"weight\":10}";
        assert_eq!(answer(&control_service, Ok(gold)), json!({ "ok": true, "warnings": [] }));
        assert_eq!(first.report().unwrap().groups[0].set[0].value, 10);
        let idle = "{\"command\":\"set-weight\",\"group\":\"both\",\"weight\":10,\"export\":\"b\"}";
        let told = answer(&control_service, Ok(idle));
        assert!(told["warnings"][0].as_str().unwrap().contains("no effect under none"));
        let switch = "{\"command\":\"scheduler\",\"scheduler\":\"kyber\",\"export\":\"b\"}";
        assert_eq!(answer(&control_service, Ok(switch))["done"], true);
        assert_eq!((first.scheduler().unwrap(), second.scheduler().unwrap()), ("bfq", "kyber"));
    }

    #[test]
    fn lines_of_cgroup_files_are_written_and_read_back() {
        let device = device("max-none");
        device.set_group(&GroupSpec::new("gold")).unwrap();
        let control_service = control_service(vec![device]);
        let write = "{\"command\":\"write\",\"group\":\"gold\",\"file\":\"io.max\",\
                     \"line\":\"8:0 rbps=10000000\"}";
        assert_eq!(answer(&control_service, Ok(write)), json!({ "ok": true }));
        let read = "{\"command\":\"read\",\"group\":\"gold\",\"file\":\"io.max\"}";
        let expected = "8:0 rbps=10000000 wbps=max riops=max wiops=max\n";
        assert_eq!(answer(&control_service, Ok(read))["text"], expected);
    }

    #[test]
    fn every_scheduler_takes_over_with_each_tunable_at_its_ends() {
        let options = DeviceOptions::default();
        let device = Device::open(&Target::Ram { size: 1 << 20 }, &options).unwrap();
        for entry in hoistway::sched::SCHEDULERS {
            for t in entry.tunables {
                for value in [t.min, t.max] {
                    device.switch_scheduler(entry, &[(t.name.to_string(), value)]).unwrap();
                    let report = device.report().unwrap();
                    assert_eq!((report.scheduler, report.changing), (entry.name, false));
                }
            }
        }
    }
}
