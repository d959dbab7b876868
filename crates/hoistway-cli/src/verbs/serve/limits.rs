//! What a group of clients may have: weight, latency target, limits, as people write them; and which
//! groups a device needs for them.

use super::spec::{ClientSpec, ExportSpec, ServeOptions};
use hoistway::Weight;
use hoistway::quantity;
use hoistway_serve::device::LATENCY_AUTO;
use hoistway_serve::{DeviceOptions, GroupSpec};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

/// A number or a text with a unit; TOML has both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantity(pub String);

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Quantity, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a number, or text with a unit such as \"10M\"")]
        enum Form {
            Number(u64),
            Text(String),
        }
        Ok(Quantity(match Form::deserialize(from)? {
            Form::Number(n) => n.to_string(),
            Form::Text(text) => text,
        }))
    }
}

/// The keys of an export or a client rule that are about its group, as written.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a> {
    pub weight: Option<u64>,
    pub latency: Option<&'a str>,
    /// `rbps`, `wbps`, `riops`, `wiops`.
    pub rates: [Option<&'a Quantity>; 4],
}

/// Names of the limits of io.max, in the order of [`Keys::rates`].
const RATES: [&str; 4] = ["rbps", "wbps", "riops", "wiops"];
/// Weight of a group without one.
const WEIGHT: u64 = 100;
const IO_MAX: &str = "io.max";
const IO_LATENCY: &str = "io.latency";
const IO_COST: &str = "io.cost";

/// What a group may have; what is not given is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    weight: Option<u64>,
    /// [`LATENCY_AUTO`]: as low as goes without loss.
    latency_us: Option<u64>,
    rates: [Option<u64>; 4],
}

impl Keys<'_> {
    /// Reads the values; a message names the key.
    pub fn limits(&self) -> Result<Limits, String> {
        if let Some(weight) = self.weight.filter(|w| Weight::new(*w).is_none()) {
            return Err(format!("weight = {weight} is outside 1..=1000; choose one in that range"));
        }
        let mut limits = Limits { weight: self.weight, ..Limits::default() };
        if self.latency == Some("auto") {
            limits.latency_us = Some(LATENCY_AUTO);
        } else if let Some(text) = self.latency {
            let target = quantity::duration(text).map_err(|e| format!("latency = {e}, or auto"))?;
            if target.0 == 0 || !target.0.is_multiple_of(1_000) {
                return Err(format!("latency = '{text}': write whole microseconds, 1us or more"));
            }
            limits.latency_us = Some(target.as_us());
        }
        for ((value, name), text) in limits.rates.iter_mut().zip(RATES).zip(self.rates) {
            *value = text.map(|Quantity(text)| rate(name, text)).transpose()?.flatten();
        }
        Ok(limits)
    }
}

/// `None`: no limit, which is written `max`.
fn rate(name: &str, text: &str) -> Result<Option<u64>, String> {
    if text == "max" {
        return Ok(None);
    }
    let number = match name {
        // The kernel's io.max has bare bytes per second.
        "rbps" | "wbps" if text.parse::<u64>().is_ok() => quantity::bytes(text),
        "rbps" | "wbps" => quantity::rate(text),
        _ => quantity::count(text),
    };
    match number {
        // As the kernel's io.max: 2 is the least.
        Ok(n) if n >= 2 => Ok(Some(n)),
        Ok(n) => Err(format!("{name} = {n}: write 2 or more, or max")),
        Err(e) => Err(format!("{name} = {e}")),
    }
}

/// Below it 4 KiB take longer than a tenth of a second: hardly what anybody means by a limit.
const SLOW_BYTES: u64 = 40 << 10;
/// The same for I/Os.
const SLOW_IOS: u64 = 10;
/// Beyond what any storage moves.
const FAST: u64 = 1_000_000_000_000;
/// A latency target outside of these, in microseconds, holds everybody back for ever, or nobody at all.
const LATENCIES: std::ops::RangeInclusive<u64> = 10..=10_000_000;

impl Limits {
    /// What was hardly meant, as sentences.
    pub fn warnings(&self) -> Vec<String> {
        let mut said = Vec::new();
        for (name, value) in RATES.into_iter().zip(self.rates) {
            let Some(n) = value else { continue };
            if name.ends_with("bps") && n < SLOW_BYTES {
                let seconds = 4096.0 / n as f64;
                said.push(format!(
                    "{name} = {n} is {n} bytes a second, and 4 KiB take {seconds:.1} s; {n}M would be MiB a \
                     second"
                ));
            } else if name.ends_with("iops") && n < SLOW_IOS {
                let ms = 1000 / n;
                said.push(format!(
                    "{name} = {n} lets an I/O through every {ms} ms; {n}k would be thousands"
                ));
            } else if n >= FAST {
                said.push(format!("{name} = {n} is more than any storage does; max is no limit"));
            }
        }
        match self.latency_us {
            Some(us) if us < *LATENCIES.start() && us != LATENCY_AUTO => {
                said.push(format!(
                    "latency = {us}us is less than storage takes: the others are held back always"
                ));
            }
            Some(us) if us > *LATENCIES.end() => {
                let seconds = us / 1_000_000;
                said.push(format!(
                    "latency = {seconds}s is more than anybody waits: nobody is held back for it"
                ));
            }
            _ => {}
        }
        said
    }

    /// Nothing is asked for.
    pub fn is_none(&self) -> bool {
        *self == Limits::default()
    }

    /// The same, and what `other` adds; `Err`: the names of a setting they contradict each other in, and
    /// the two values.
    fn and(self, other: Limits) -> Result<Limits, (&'static str, u64, u64)> {
        let mut both = self;
        let pairs = [("weight", &mut both.weight, other.weight)]
            .into_iter()
            .chain([("latency (us)", &mut both.latency_us, other.latency_us)])
            .chain(
                RATES
                    .into_iter()
                    .zip(&mut both.rates)
                    .zip(other.rates)
                    .map(|((n, a), b)| (n, a, b)),
            );
        for (name, mine, theirs) in pairs {
            match (*mine, theirs) {
                (Some(a), Some(b)) if a != b => return Err((name, a, b)),
                _ => *mine = mine.or(theirs),
            }
        }
        Ok(both)
    }

    /// The settings of a group of that name.
    pub fn group(&self, name: &str) -> GroupSpec {
        let mut spec = GroupSpec::new(name);
        if let Some(weight) = self.weight {
            spec = spec.weight(weight);
        }
        if let Some(target) = self.latency_us {
            spec = spec.latency_us(target);
        }
        for (name, value) in RATES.into_iter().zip(self.rates) {
            if let Some(value) = value {
                spec = spec.limit(name, value);
            }
        }
        spec
    }

    fn controllers(&self) -> impl Iterator<Item = &'static str> {
        let limited = self.rates.iter().any(Option::is_some);
        limited.then_some(IO_MAX).into_iter().chain(self.latency_us.map(|_| IO_LATENCY))
    }
}

/// The groups of one device and what they want.
#[derive(Debug, Default)]
pub struct Groups {
    wanted: BTreeMap<String, Limits>,
}

impl Groups {
    /// Those of the device that the exports of `file` with that key share, and of the client rules,
    /// which hold on every device.
    pub fn of(file: &ServeOptions, of: &ExportSpec) -> Result<Groups, String> {
        let mut groups = Groups::default();
        for export in file.export.iter().filter(|e| e.shares_device(of)) {
            let limits = export.keys().limits().map_err(|e| in_export(export, e))?;
            if let Some(name) = export.group_name(&limits) {
                groups.add(name, limits).map_err(|e| in_export(export, e))?;
            }
        }
        for client in &file.client {
            let named = |e| format!("client '{}': {e}", client.group_name());
            let limits = client.keys().limits().map_err(named)?;
            groups.add(&client.group_name(), limits).map_err(named)?;
        }
        Ok(groups)
    }

    fn add(&mut self, name: &str, limits: Limits) -> Result<(), String> {
        let known = self.wanted.entry(name.to_string()).or_default();
        *known = known.and(limits).map_err(|(what, one, other)| {
            format!("group '{name}' has {what} = {one} and {other}; write one of them")
        })?;
        Ok(())
    }

    /// Refuses what nobody on a device with these options knows.
    pub fn check(&self, options: &DeviceOptions) -> Result<(), String> {
        let auto = self.wanted.iter().find(|(_, l)| l.latency_us == Some(LATENCY_AUTO));
        match auto {
            Some((group, _)) if !takes_targets(options) => Err(format!(
                "group '{group}': latency = auto needs a scheduler that takes latency targets, such as \
                 paternoster; under {} write a time",
                options.scheduler.name
            )),
            _ => Ok(()),
        }
    }

    /// The controllers that are missing for what is wanted are added; returns their names, each with a
    /// group that needs it.
    pub fn complete<'a>(&'a self, options: &mut DeviceOptions) -> Vec<(&'static str, &'a str)> {
        let mut added = Vec::new();
        for (group, limits) in &self.wanted {
            for controller in limits.controllers() {
                if controller == IO_LATENCY && takes_targets(options) {
                    continue;
                }
                if !options.controllers.iter().any(|(name, _)| name == controller) {
                    options.controllers.push((controller.into(), Vec::new()));
                    added.push((controller, &group[..]));
                }
            }
        }
        added
    }

    /// Policies that work against each other on a device with these options, as sentences.
    pub fn contradictions(&self, options: &DeviceOptions) -> Vec<String> {
        let has = |name: &str| options.controllers.iter().any(|(known, _)| known == name);
        let shares = options.scheduler.knobs.iter().any(|k| k.file.ends_with("weight"));
        let mut said = Vec::new();
        if has(IO_LATENCY) {
            let targets = self.wanted.iter().filter(|(_, l)| l.latency_us.is_some());
            for (group, limits) in targets {
                let own = limits.weight.unwrap_or(WEIGHT);
                let heavier =
                    |l: &Limits| l.latency_us.is_none() && l.weight.unwrap_or(WEIGHT) > own;
                let heavier =
                    self.wanted.iter().filter(|(_, l)| heavier(l)).map(|(name, _)| &name[..]);
                let heavier = heavier.collect::<Vec<_>>().join(", ");
                if !heavier.is_empty() {
                    said.push(format!(
                        "group '{group}' has a latency target, which io.latency keeps by holding back all others, \
                         the heavier ones too: {heavier} will not get the part that the weight promises; \
                         --scheduler paternoster keeps targets and weights"
                    ));
                }
            }
        }
        if has(IO_COST) && has(IO_LATENCY) {
            said.push(
                "io.cost and io.latency both hold groups back, and neither knows what the other holds: use one"
                    .into(),
            );
        }
        if has(IO_COST) && shares {
            said.push(format!(
                "io.cost and {} both share by weight, by other measures: use one",
                options.scheduler.name
            ));
        }
        said
    }

    /// The group of an export: its settings, united with those of others that name it; `None`: the
    /// root.
    pub fn export(&self, export: &ExportSpec, options: &DeviceOptions) -> Option<GroupSpec> {
        let limits = export.keys().limits().ok()?;
        // The root is never held back by these: an export without a group would escape them.
        let held = |name: &str| options.controllers.iter().any(|(known, _)| known == name);
        let alone = (held(IO_LATENCY) || held(IO_COST)).then_some(&export.name[..]);
        let name = export.group_name(&limits).or(alone)?;
        Some(self.wanted.get(name).copied().unwrap_or_default().group(name))
    }
}

/// The scheduler itself takes latency targets.
fn takes_targets(options: &DeviceOptions) -> bool {
    options.scheduler.knobs.iter().any(|k| k.file == IO_LATENCY)
}

impl ExportSpec {
    pub(super) fn keys(&self) -> Keys<'_> {
        let ExportSpec { weight, latency, rbps, wbps, riops, wiops, .. } = self;
        let rates = [rbps, wbps, riops, wiops].map(Option::as_ref);
        Keys { weight: *weight, latency: latency.as_deref(), rates }
    }

    /// The group it names, or that of its own name if it wants something.
    fn group_name(&self, limits: &Limits) -> Option<&str> {
        self.group.as_deref().or((!limits.is_none()).then_some(&self.name))
    }
}

impl ClientSpec {
    /// What its group may have.
    pub fn keys(&self) -> Keys<'_> {
        let ClientSpec { weight, latency, rbps, wbps, riops, wiops, .. } = self;
        let rates = [rbps, wbps, riops, wiops].map(Option::as_ref);
        Keys { weight: *weight, latency: latency.as_deref(), rates }
    }
}

fn in_export(export: &ExportSpec, error: String) -> String {
    format!("export '{}': {error}", export.name)
}

#[cfg(test)]
mod tests {
    use super::super::spec::device_options;
    use super::*;
    use hoistway::stack::StageName;

    fn file(exports: &[&str]) -> ServeOptions {
        let export = exports.iter().map(|e| ExportSpec::parse(e).unwrap()).collect();
        ServeOptions { export, ..ServeOptions::default() }
    }

    fn values(spec: &GroupSpec) -> Vec<(String, u64)> {
        spec.set.iter().map(|s| (s.name.clone(), s.value)).collect()
    }

    /// An export of the device that the files below are about.
    fn ram() -> ExportSpec {
        ExportSpec::parse("ram:1G").unwrap()
    }

    #[test]
    fn limits_are_read_with_their_units() {
        let text = "a=ram:1G,weight=7,latency=5ms,rbps=10M,wbps=10MB/s,riops=2k,wiops=max";
        let file = file(&[text]);
        let groups = Groups::of(&file, &ram()).unwrap();
        let mut options = device_options("none").unwrap();
        assert_eq!(groups.complete(&mut options), [("io.max", "a"), ("io.latency", "a")]);
        let spec = groups.export(&file.export[0], &options).unwrap();
        let expected = [
            ("weight", 7),
            ("target", 5000),
            ("rbps", 10 << 20),
            ("wbps", 10_000_000),
            ("riops", 2000),
        ];
        assert_eq!(values(&spec), expected.map(|(n, v)| (n.to_string(), v)));
        assert_eq!(spec.set[2].stage, StageName::Controller("io.max".into()));
        let toml = "[[export]]\nname = \"a\"\ntarget = \"ram:1G\"\nrbps = 500\nwiops = \"2k\"\n\
                    [[client]]\nuid = 7\nlatency = \"10ms\"\n";
        let file: ServeOptions = toml::from_str(toml).unwrap();
        let groups = Groups::of(&file, &ram()).unwrap();
        assert_eq!(groups.wanted["a"].rates, [Some(500), None, None, Some(2000)]);
        assert_eq!(groups.wanted["uid-7"].latency_us, Some(10_000));
    }

    #[test]
    fn policies_that_work_against_each_other_are_named() {
        let said = |config: &str, exports: &[&str]| {
            let export = exports.iter().map(|e| ExportSpec::parse(e).unwrap()).collect();
            let file = ServeOptions { export, ..ServeOptions::default() };
            let groups = Groups::of(&file, &file.export[0]).unwrap();
            let mut options = super::super::spec::device_options(config).unwrap();
            groups.complete(&mut options);
            groups.contradictions(&options).join("; ")
        };
        let pair = ["gold=ram:1M,weight=800", "bronze=ram:1M,latency=5ms"];
        assert!(said("bfq", &pair).contains("heavier ones too: gold will not get"));
        assert_eq!(said("paternoster", &pair), "");
        for harmless in [
            ["gold=ram:1M,weight=800,latency=5ms", "bronze=ram:1M"],
            ["gold=ram:1M", "bronze=ram:1M,latency=5ms"],
            ["gold=ram:1M,weight=800", "bronze=ram:1M,rbps=1M"],
        ] {
            assert_eq!(said("bfq", &harmless), "", "{harmless:?}");
        }
        assert!(said("cost-bfq", &pair).contains("both share by weight"));
        assert!(said("cost-none", &pair).contains("both hold groups back"));
        assert_eq!(said("cost-none", &["gold=ram:1M,weight=800", "bronze=ram:1M"]), "");
    }

    #[test]
    fn what_was_hardly_meant_is_warned_about() {
        let warnings = |export: &str| {
            let spec = ExportSpec::parse(&format!("a=ram:1G,{export}")).unwrap();
            spec.keys().limits().unwrap().warnings().join("; ")
        };
        for (export, said) in [
            ("rbps=10", "4 KiB take 409.6 s; 10M would be"),
            ("wbps=4k", "4 KiB take 1.0 s"),
            ("riops=2,wiops=9", "every 500 ms; 2k would be thousands; wiops = 9"),
            ("wbps=2T", "max is no limit"),
            ("latency=9us", "held back always"),
            ("latency=11s", "nobody is held back"),
        ] {
            assert!(warnings(export).contains(said), "{export}: {}", warnings(export));
        }
        assert_eq!(warnings("rbps=40k,wbps=max,riops=10,wiops=2M,latency=10us,weight=1"), "");
    }

    #[test]
    fn mistakes_and_contradictions_are_named() {
        let cases: &[(&[&str], &str)] = &[
            (&["a=ram:1G,latency=5"], "latency = '5' is not a time"),
            (&["a=ram:1G,latency=10ns"], "whole microseconds"),
            (&["a=ram:1G,rbps=fast"], "rbps = 'fast' is not a rate"),
            (&["a=ram:1G,riops=1"], "riops = 1: write 2 or more"),
            (&["a=ram:1G,wiops=2.5"], "'2.5' is not a count"),
            (&["a=ram:1G,weight=0"], "weight = 0 is outside 1..=1000"),
            (
                &["a=ram:1G,group=g,weight=5", "b=ram:1G,group=g,weight=6"],
                "export 'b': group 'g' has weight = 5 and 6",
            ),
            (&["a=ram:1G,rbps=5M", "b=ram:1G,group=a,rbps=6M"], "group 'a' has rbps"),
        ];
        for (exports, message) in cases {
            let error = Groups::of(&file(exports), &ram()).unwrap_err();
            assert!(error.contains(message), "{exports:?}: {error}");
        }
        let agree = file(&["a=ram:1G,group=g,weight=5", "b=ram:1G,group=g,riops=9"]);
        let groups = Groups::of(&agree, &ram()).unwrap();
        let options = device_options("none").unwrap();
        let spec = groups.export(&agree.export[0], &options).unwrap();
        assert_eq!(values(&spec), [("weight".to_string(), 5), ("riops".to_string(), 9)]);
        let apart = file(&["a=ram:1G,group=g,weight=5", "b=ram:2G,group=g,weight=6"]);
        assert!(Groups::of(&apart, &ram()).is_ok(), "groups of two devices");
    }

    #[test]
    fn nobody_escapes_a_controller_that_never_holds_the_root() {
        let file = file(&["victim=ram:1G,latency=5ms", "hog=ram:1G"]);
        let groups = Groups::of(&file, &ram()).unwrap();
        let mut options = device_options("none").unwrap();
        assert_eq!(groups.export(&file.export[1], &options), None);
        groups.complete(&mut options);
        let spec = groups.export(&file.export[1], &options).unwrap();
        assert_eq!((&spec.name[..], spec.set.len()), ("hog", 0));
    }
}
