//! What is to be served, as people write it: flags and the configuration file.

use super::limits::Quantity;
use hoistway::IoPrio;
use hoistway::quantity;
use hoistway_files::input::{self, Limit};
use hoistway_lab::config::Config;
use hoistway_serve::front::FRONTS;
use hoistway_serve::front::nbd::ClientMatch;
use hoistway_serve::net::Listen;
use hoistway_serve::storage::{TARGETS, TargetKind};
use hoistway_serve::{DeviceOptions, Target};
use serde::de::{DeserializeSeed, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// The options of a server: flags, and keys of the file `--config` names. A flag goes before the key.
#[derive(Clone, Debug, Default, clap::Args, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ServeOptions {
    /// Configuration of the devices, such as bfq{low_latency=0}; none if not given
    #[arg(long, short, value_name = "CONFIG")]
    #[arg(value_parser = crate::common::known::Known(crate::common::known::configs), hide_possible_values = true)]
    pub scheduler: Option<String>,
    /// Further addresses: unix:PATH, tcp:PORT (this machine only) or tcp:ADDRESS:PORT
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Vec<String>,
    /// Serve other machines without encryption
    #[arg(long)]
    pub allow_plain_tcp: bool,
    /// off, on (clients may connect without TLS) or require. Default: off, with --tls-certificates require
    #[arg(long, value_name = "MODE")]
    pub tls: Option<String>,
    /// Directory with server-cert.pem and server-key.pem; to verify clients also ca-cert.pem and, optionally,
    /// ca-crl.pem
    #[arg(long, value_name = "DIR")]
    pub tls_certificates: Option<PathBuf>,
    /// Accept only clients with a certificate signed by the authority in ca-cert.pem
    #[arg(long)]
    pub tls_verify_peer: bool,
    /// Unix socket for `hoistway ctl`, for this user alone
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// PID file, written when the server is ready, removed at exit
    #[arg(long, short = 'P', value_name = "FILE")]
    pub pidfile: Option<PathBuf>,
    /// Shutdown timeout, such as 10s; if the storage has not answered by then, exit with code 1. Default: 60s
    #[arg(long, value_name = "TIME")]
    pub stop_limit: Option<String>,
    /// Warn when I/O has waited for so long while the device was idle; 0s: never. Default: 5s
    #[arg(long, value_name = "TIME")]
    pub stall_limit: Option<String>,
    /// Serve Prometheus metrics at http://ADDRESS/metrics: tcp:PORT (this machine only), tcp:ADDRESS:PORT or
    /// unix:PATH
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<String>,
    /// Connections at once; in a file alone.
    #[arg(skip)]
    pub connections: Option<usize>,
    /// Options of front-ends, by name; the value of a switch is empty.
    #[arg(skip)]
    #[serde(skip)]
    pub fronts: BTreeMap<String, String>,
    /// The exports.
    #[arg(skip)]
    #[serde(skip_serializing)]
    pub export: Vec<ExportSpec>,
    /// Groups of clients by user or certificate.
    #[arg(skip)]
    #[serde(skip_serializing)]
    pub client: Vec<ClientSpec>,
}

/// One export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportSpec {
    /// Its name.
    pub name: String,
    /// What it serves: a target of the registry.
    pub target: String,
    /// Configuration of the device, such as `bfq{low_latency=0}`.
    pub scheduler: Option<String>,
    /// Group of its clients; the export's name if there is a weight and no group.
    pub group: Option<String>,
    /// Weight of the group.
    pub weight: Option<u64>,
    /// Latency target of the group.
    pub latency: Option<String>,
    /// Most bytes read per second by the group.
    pub rbps: Option<Quantity>,
    /// Most bytes written.
    pub wbps: Option<Quantity>,
    /// Most reads per second.
    pub riops: Option<Quantity>,
    /// Most writes.
    pub wiops: Option<Quantity>,
    /// I/O priority of its clients.
    pub prio: Option<String>,
    /// First byte of the device that is served.
    pub offset: Option<String>,
    /// Bytes that are served.
    pub size: Option<String>,
    /// Nothing may be written.
    pub read_only: bool,
    /// Writes go to memory, and are gone at the end.
    pub cow: bool,
    /// Writes go to this file, which is kept.
    pub overlay: Option<String>,
    /// Keys that belong to the kind of target.
    pub of_target: BTreeMap<String, String>,
}

/// A group for the clients of one user, or of one certificate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ClientSpec {
    /// The user's number.
    pub uid: Option<u32>,
    /// Common name or DNS name of the certificate.
    pub certificate: Option<String>,
    /// Name of the group; `uid-N` or that of the certificate if not given.
    pub group: Option<String>,
    /// Its weight.
    pub weight: Option<u64>,
    /// Its latency target.
    pub latency: Option<String>,
    /// Most bytes read per second.
    pub rbps: Option<Quantity>,
    /// Most bytes written.
    pub wbps: Option<Quantity>,
    /// Most reads per second.
    pub riops: Option<Quantity>,
    /// Most writes.
    pub wiops: Option<Quantity>,
    /// I/O priority of the clients.
    pub prio: Option<String>,
}

impl ClientSpec {
    /// Name of the group.
    pub fn group_name(&self) -> String {
        let named = self.group.as_ref().or(self.certificate.as_ref()).cloned();
        named.unwrap_or_else(|| format!("uid-{}", self.uid.unwrap_or_default()))
    }

    /// Who is meant.
    pub fn who(&self) -> Result<ClientMatch, String> {
        match (self.uid, &self.certificate) {
            (Some(uid), None) => Ok(ClientMatch::User(uid)),
            (None, Some(name)) => Ok(ClientMatch::Certificate(name.clone())),
            _ => Err(format!(
                "client '{}': write uid = N or certificate = \"NAME\", one of them",
                self.group_name()
            )),
        }
    }
}

/// Configurations are written by hand, or name some ten thousand exports.
const CONFIGURATION: Limit = Limit { what: "a configuration of the server", bytes: 4 << 20 };

impl ServeOptions {
    /// Reads a configuration file; messages name file and line.
    pub fn read(path: &Path) -> Result<ServeOptions, String> {
        let text = input::text(path, CONFIGURATION).map_err(|e| e.to_string())?;
        let failed = |(at, message): (usize, String)| {
            let line = 1 + text[..at].matches('\n').count();
            format!("{}:{line}: {message}", path.display())
        };
        let (fronts, rest) = front_options(&text).map_err(failed)?;
        let file: ServeOptions = toml::from_str(&rest).map_err(|e| failed(place(&e)))?;
        Ok(ServeOptions { fronts, ..file })
    }

    /// These, and where they say nothing what `below` says; of lists both.
    pub fn over(&self, below: ServeOptions) -> ServeOptions {
        let table = |options: &ServeOptions| {
            toml::Table::try_from(options).expect("options are text, numbers and switches")
        };
        let mut all = table(&below);
        for (key, value) in table(self) {
            match (all.get_mut(&key), value) {
                (_, toml::Value::Boolean(false)) => {}
                (Some(toml::Value::Array(more)), toml::Value::Array(mut first)) => {
                    first.append(more);
                    *more = first;
                }
                (_, value) => drop(all.insert(key, value)),
            }
        }
        let both: ServeOptions = all.try_into().expect("both were options");
        let ServeOptions { mut fronts, mut export, mut client, .. } = below;
        fronts.extend(self.fronts.clone());
        export.extend(self.export.clone());
        client.extend(self.client.clone());
        ServeOptions { fronts, export, client, ..both }
    }

    /// The target of the device that `export` shares with others: for writing if one of them may be
    /// written, whichever comes first.
    pub fn target(&self, export: &ExportSpec) -> Result<Target, String> {
        let mut read_only = export.read_only;
        for other in self.export.iter().filter(|e| e.shares_device(export)) {
            if other.of_target != export.of_target {
                let keys = other.of_target.keys().chain(export.of_target.keys());
                let keys: BTreeSet<_> = keys.map(|key| &key[..]).collect();
                let keys: Vec<_> = keys.into_iter().collect();
                return Err(format!(
                    "it shares {} with export '{}': write the same {} for both",
                    export.target,
                    other.name,
                    keys.join(" and ")
                ));
            }
            read_only &= other.read_only;
        }
        ExportSpec { read_only, ..export.clone() }.target()
    }
}

/// A key of an export, as a flag (`NAME=TARGET,KEY=VALUE`) and in a file.
pub struct ExportKey {
    /// Its name.
    pub name: &'static str,
    /// Another name.
    alias: &'static str,
    /// What its value looks like; empty: it is a switch.
    pub value: &'static str,
    /// What it does.
    pub help: &'static str,
    field: fn(&mut ExportSpec) -> Field<'_>,
}

/// Where the value of a key is kept.
enum Field<'a> {
    Switch(&'a mut bool),
    Text(&'a mut Option<String>),
    Number(&'a mut Option<u64>),
    /// A number, or text with a unit.
    Quantity(&'a mut Option<Quantity>),
}

impl Field<'_> {
    fn set(self, text: &str) -> Result<(), String> {
        match self {
            Field::Switch(place) => *place = true,
            Field::Text(place) => *place = Some(text.into()),
            Field::Number(place) => {
                let number = text.parse().map_err(|_| format!("'{text}' is not a whole number"))?;
                *place = Some(number);
            }
            Field::Quantity(place) => *place = Some(Quantity(text.into())),
        }
        Ok(())
    }

    /// The value in a file, as text; `None`: the switch is off.
    fn accept(&self, value: FileValue) -> Result<Option<String>, &'static str> {
        match (self, value) {
            (Field::Switch(_), FileValue::Switch(on)) => Ok(on.then(String::new)),
            (Field::Text(_) | Field::Quantity(_), FileValue::Text(text)) => Ok(Some(text)),
            (Field::Number(_) | Field::Quantity(_), FileValue::Number(n)) => {
                Ok(Some(n.to_string()))
            }
            (Field::Switch(_), _) => Err("true or false"),
            (Field::Text(_), _) => Err("text"),
            (Field::Number(_), _) => Err("a whole number"),
            (Field::Quantity(_), _) => Err("a number, or text with a unit such as \"10M\""),
        }
    }
}

const fn key(
    name: &'static str,
    value: &'static str,
    help: &'static str,
    field: fn(&mut ExportSpec) -> Field<'_>,
) -> ExportKey {
    ExportKey { name, alias: "", value, help, field }
}

/// The keys every export may have; those of a kind of targets are in the registry of targets.
pub static EXPORT_KEYS: &[ExportKey] = &[
    ExportKey {
        alias: "read-only",
        ..key("ro", "", "nothing may be written", |e| Field::Switch(&mut e.read_only))
    },
    key("cow", "", "copy on write to memory", |e| Field::Switch(&mut e.cow)),
    key("overlay", "FILE", "copy on write to a file", |e| Field::Text(&mut e.overlay)),
    key("weight", "1..1000", "share of its group", |e| Field::Number(&mut e.weight)),
    key("group", "NAME", "group of its clients, its own if not given", |e| {
        Field::Text(&mut e.group)
    }),
    key("prio", "be/4", "I/O priority of its clients", |e| Field::Text(&mut e.prio)),
    key(
        "latency",
        "5ms",
        "latency target of its group (io.latency; paternoster: also auto)",
        |e| Field::Text(&mut e.latency),
    ),
    key("rbps", "10M", "bytes read per second, at most (io.max)", |e| Field::Quantity(&mut e.rbps)),
    key("wbps", "10M", "bytes written per second, at most", |e| Field::Quantity(&mut e.wbps)),
    key("riops", "500", "reads per second, at most", |e| Field::Quantity(&mut e.riops)),
    key("wiops", "500", "writes per second, at most", |e| Field::Quantity(&mut e.wiops)),
    key("offset", "SIZE", "first byte of the device that is served", |e| {
        Field::Text(&mut e.offset)
    }),
    key("size", "SIZE", "bytes that are served", |e| Field::Text(&mut e.size)),
];

/// All keys: name, what the value looks like, what it does, for which kind of targets alone.
pub fn export_keys()
-> impl Iterator<Item = (&'static str, &'static str, &'static str, &'static str)> {
    let common = EXPORT_KEYS.iter().map(|k| (k.name, k.value, k.help, ""));
    let of_target = |t: &&'static TargetKind| {
        let of = t.name;
        t.keys.iter().map(move |k| (k.name, k.value, k.help, of))
    };
    common.chain(TARGETS.iter().flat_map(of_target))
}

/// `ro, cow, overlay=FILE, ...`.
fn key_list() -> String {
    let shown = |(name, value, ..): (&str, &str, &str, &str)| match value {
        "" => name.to_string(),
        value => format!("{name}={value}"),
    };
    export_keys().map(shown).collect::<Vec<_>>().join(", ")
}

/// The text of `--export` in the help.
pub fn export_help() -> String {
    let targets: Vec<_> = TARGETS.iter().map(|t| t.syntax).collect();
    format!(
        "An export: NAME=TARGET,KEY=VALUE,... with target {} and keys {}. Exports of one target share a \
         device. May be repeated",
        targets.join(", "),
        key_list()
    )
}

/// A value of a key in a file.
#[derive(Deserialize)]
#[serde(untagged, expecting = "text, a whole number, or true or false")]
enum FileValue {
    Switch(bool),
    Number(u64),
    Text(String),
}

/// Sets the key of that name from the value that is read.
struct FileKey<'a>(&'a mut ExportSpec, &'a str);

impl<'de> DeserializeSeed<'de> for FileKey<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        let FileKey(spec, name) = self;
        let value = FileValue::deserialize(from)?;
        spec.set_in_file(name, value).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for ExportSpec {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<ExportSpec, D::Error> {
        struct ExportVisitor;
        impl<'de> Visitor<'de> for ExportVisitor {
            type Value = ExportSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an export: name, target and keys")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ExportSpec, A::Error> {
                let mut spec = ExportSpec::default();
                let mut seen = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    map.next_value_seed(FileKey(&mut spec, &name))?;
                    seen.push(name);
                }
                for name in ["name", "target"] {
                    if !seen.iter().any(|seen| seen == name) {
                        return Err(A::Error::missing_field(name));
                    }
                }
                Ok(spec)
            }
        }
        from.deserialize_map(ExportVisitor)
    }
}

/// Where a file is wrong, and what.
fn place(error: &toml::de::Error) -> (usize, String) {
    (error.span().map_or(0, |s| s.start), error.message().to_string())
}

/// The options of front-ends in a file, and the file without their lines.
fn front_options(text: &str) -> Result<(BTreeMap<String, String>, String), (usize, String)> {
    let top: BTreeMap<String, toml::Spanned<toml::Value>> =
        toml::from_str(text).map_err(|e| place(&e))?;
    let (mut given, mut rest) = (BTreeMap::new(), text.to_string());
    for option in FRONTS.iter().flat_map(|front| front.options) {
        let Some(value) = top.get(option.name) else { continue };
        let span = value.span();
        match (value.get_ref(), option.value) {
            (toml::Value::Boolean(true), "") => {
                given.insert(option.name.to_string(), String::new());
            }
            (toml::Value::Boolean(false), "") => {}
            (toml::Value::String(text), value) if !value.is_empty() => {
                given.insert(option.name.to_string(), text.clone());
            }
            (_, value) => {
                let wanted = if value.is_empty() { "true or false" } else { "text" };
                return Err((span.start, format!("{} wants {wanted}", option.name)));
            }
        }
        // Lines keep their numbers.
        let line = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
        rest.replace_range(line..span.end, &" ".repeat(span.end - line));
    }
    Ok((given, rest))
}

impl ExportSpec {
    fn set_in_file(&mut self, name: &str, value: FileValue) -> Result<(), String> {
        let of_itself = match name {
            "name" => Some(&mut self.name),
            "target" => Some(&mut self.target),
            "scheduler" => Some(self.scheduler.get_or_insert_default()),
            _ => None,
        };
        if let Some(place) = of_itself {
            let FileValue::Text(text) = value else { return Err(format!("{name} wants text")) };
            *place = text;
            return Ok(());
        }
        let known = EXPORT_KEYS.iter().find(|k| k.name == name || k.alias == name);
        if let Some(known) = known {
            let field = (known.field)(self);
            let text = field.accept(value).map_err(|wanted| format!("{name} wants {wanted}"))?;
            return text.map_or(Ok(()), |text| field.set(&text));
        }
        match (export_keys().find(|(known, ..)| *known == name), value) {
            (Some((_, "", ..)), FileValue::Switch(false)) => {}
            (Some((known, "", ..)), FileValue::Switch(true)) => {
                self.of_target.insert(known.into(), String::new());
            }
            (Some((_, "", ..)), _) => return Err(format!("{name} wants true or false")),
            (Some(_), FileValue::Switch(_)) => return Err(format!("{name} wants a value")),
            (Some((known, ..)), FileValue::Text(text)) => {
                self.of_target.insert(known.into(), text);
            }
            (Some((known, ..)), FileValue::Number(number)) => {
                self.of_target.insert(known.into(), number.to_string());
            }
            (None, _) => {
                let keys = key_list();
                return Err(format!(
                    "unknown key '{name}'; there are name, target, scheduler, {keys}"
                ));
            }
        }
        Ok(())
    }

    /// `NAME=TARGET[,KEY[=VALUE]]...`; a target alone is named `disk`.
    pub fn parse(text: &str) -> Result<ExportSpec, String> {
        let mut parts = text.split(',');
        let first = parts.next().unwrap_or_default();
        let (name, target) = match first.split_once('=') {
            Some((name, target)) => (name, target),
            None => ("disk", first),
        };
        let mut spec =
            ExportSpec { name: name.into(), target: target.into(), ..ExportSpec::default() };
        for part in parts {
            spec.set(part).map_err(|e| format!("--export {text}: {e}"))?;
        }
        Ok(spec)
    }

    fn set(&mut self, part: &str) -> Result<(), String> {
        let (name, value) = part.split_once('=').map_or((part, None), |(k, v)| (k, Some(v)));
        let unknown = || format!("'{part}' is not known; write {}", key_list());
        let known = EXPORT_KEYS.iter().find(|k| k.name == name || k.alias == name);
        if let Some(known) = known {
            if known.value.is_empty() != value.is_none() {
                return Err(unknown());
            }
            let value = value.unwrap_or_default();
            return (known.field)(self).set(value).map_err(|e| format!("{name} = {e}"));
        }
        match export_keys().find(|(known, ..)| *known == name) {
            Some((known, shape, ..)) if shape.is_empty() == value.is_none() => {
                self.of_target.insert(known.into(), value.unwrap_or_default().into());
                Ok(())
            }
            _ => Err(unknown()),
        }
    }

    /// The target, as if nobody shared it.
    pub fn target(&self) -> Result<Target, String> {
        let base = self.base()?;
        if !self.is_cow() {
            return Ok(base);
        }
        let overlay = self.overlay.as_ref().map(Into::into);
        Ok(Target::Cow { base: Box::new(base), overlay })
    }

    fn is_cow(&self) -> bool {
        self.cow || self.overlay.is_some()
    }

    /// The target without what is written to it.
    fn base(&self) -> Result<Target, String> {
        let target = TargetKind::target(&self.target, &self.of_target, self.read_only);
        target.map_err(|e| e.to_string())
    }

    /// What makes two exports share a device.
    pub fn device_key(&self) -> String {
        let ExportSpec { name, target, overlay, .. } = self;
        let data = self.of_target.get("data");
        match (overlay, self.cow) {
            (None, false) => format!("{target} {data:?}"),
            (Some(file), _) => format!("{target} {data:?} overlay {file}"),
            // What one client writes is no business of another's.
            (None, true) => format!("{target} {data:?} overlay of {name}"),
        }
    }

    /// The same as equal keys, without making them: each device is compared with every export.
    pub fn shares_device(&self, other: &ExportSpec) -> bool {
        let data = |e: &ExportSpec| e.of_target.get("data").cloned();
        let own_memory = self.cow && self.overlay.is_none();
        self.target == other.target
            && self.overlay == other.overlay
            && own_memory == (other.cow && other.overlay.is_none())
            && (!own_memory || self.name == other.name)
            && data(self) == data(other)
    }

    /// Refuses a base that is served for writing, too: what lies over it would no longer fit.
    pub fn check_base(&self, all: &[ExportSpec]) -> Result<(), String> {
        let writes = |other: &&ExportSpec| {
            let kept = other.target.starts_with("file:");
            kept && !other.is_cow() && !other.read_only && other.target == self.target
        };
        // Asked first: with ten thousand exports each look at all of them counts.
        if !self.is_cow() {
            return Ok(());
        }
        match all.iter().find(writes) {
            Some(other) => Err(format!(
                "{} is written by export '{}': serve that with ro, or with cow as well",
                self.target, other.name
            )),
            None => Ok(()),
        }
    }

    /// Offset and size in bytes.
    pub fn range(&self) -> Result<(u64, Option<u64>), String> {
        let bytes = |text: &Option<String>| text.as_deref().map(quantity::bytes).transpose();
        Ok((bytes(&self.offset)?.unwrap_or(0), bytes(&self.size)?))
    }
}

/// The tunables of a scheduler as a server wants them: those that were given, and others where its own
/// defaults are not for storage that is shared by tenants.
///
/// Deviation: `bfq` serves with `injection=0`; the reference fills the gaps in which it waits for a queue
/// with requests of others. That is limited by what the waited queue's requests took before, and learnt
/// anew while the drive is never empty. A database that syncs every transaction is away for as long as a
/// flush takes, which counts as thinking: it loses the protection of prompt queues, a busy neighbour
/// passes for the one who wakes it, and what is injected then knows no limit (docs/guide/serve.md). Who
/// names `injection` or `base` gets what he names. It serves with `low_latency=0` as well, unless that or `base` is
/// named: the reference raises who is new or comes back after a pause, as a program that starts on a desktop. A
/// server's clients connect and pause all day, each raised one is waited for, and everybody else waits with it.
///
/// Deviation: `kyber` serves with `flush_samples=0`; in the reference an empty flush counts as a write that has
/// been in the device for ever, so that beside clients who sync writes are throttled to one at a time
/// (docs/schedulers/kyber.md).
pub fn server_tunables(scheduler: &str, mut set: Vec<(String, u64)>) -> Vec<(String, u64)> {
    let own: &[&str] = match scheduler {
        // A version of the kernel's is asked for as that version.
        "bfq" if !set.iter().any(|(name, _)| name == "base") => &["injection", "low_latency"],
        "kyber" => &["flush_samples"],
        _ => &[],
    };
    for name in own {
        if !set.iter().any(|(given, _)| given == name) {
            set.push(((*name).into(), 0));
        }
    }
    set
}

/// Scheduler and tunables from a configuration, such as `none-bfq{slice_idle=0}`.
pub fn device_options(text: &str) -> Result<DeviceOptions, String> {
    let config = Config::parse(text).map_err(|e| e.to_string())?;
    if let Some((name, _)) = config.given.first() {
        return Err(format!(
            "'{text}': {name} is set for the groups of an experiment; here each export has its own \
             latency, rbps, wbps, riops, wiops and weight"
        ));
    }
    let mut options = DeviceOptions::new(config.scheduler);
    options.set = server_tunables(config.scheduler.name, config.set);
    options.queue = config.queue;
    options.controllers = config.controllers.into_iter().map(|c| (c.name, c.set)).collect();
    Ok(options)
}

/// `be/4`, `rt/0` to `rt/7`, `idle`, `none`.
pub fn prio(text: &str) -> Result<IoPrio, String> {
    let refused = || format!("priority '{text}': write rt/0 to rt/7, be/0 to be/7, idle or none");
    let level = |l: &str| l.parse::<u8>().ok().filter(|&l| l < 8).ok_or_else(refused);
    match text.split_once('/') {
        Some(("rt", l)) => Ok(IoPrio::rt(level(l)?)),
        Some(("be", l)) => Ok(IoPrio::be(level(l)?)),
        None if text == "idle" => Ok(IoPrio::idle()),
        None if text == "none" => Ok(IoPrio::NONE),
        _ => Err(refused()),
    }
}

/// `unix:PATH`, `tcp:ADDRESS:PORT`, `tcp:PORT`.
pub fn listen(text: &str) -> Result<Listen, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return Ok(Listen::Unix(path.into()));
    }
    let address = text.strip_prefix("tcp:").unwrap_or(text);
    let port = address.parse().map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    let address = port.or_else(|_| address.parse().map_err(|_| ()));
    address.map(Listen::Tcp).map_err(|()| {
        format!("'{text}': write unix:PATH, tcp:PORT (this machine only) or tcp:ADDRESS:PORT")
    })
}

#[cfg(test)]
mod tests;
