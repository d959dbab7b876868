//! What is to be served, as people write it: flags and the configuration file.

use super::limits::Quantity;
use hoistway::IoPrio;
use hoistway::quantity;
use hoistway_lab::config::Config;
use hoistway_live::front::nbd::ClientMatch;
use hoistway_live::net::Listen;
use hoistway_live::storage::{Emulation, FileOptions, Way};
use hoistway_live::{DeviceOptions, Target};
use hoistway_sim::drive::DriveFile;
use serde::Deserialize;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

/// `hoistway serve --config FILE`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct File {
    /// Sockets: `unix:PATH` or `tcp:ADDRESS:PORT`.
    #[serde(default)]
    pub listen: Vec<String>,
    /// Configuration of every device that names none.
    pub scheduler: Option<String>,
    /// Serve unencrypted beyond this machine.
    #[serde(default)]
    pub allow_plain_tcp: bool,
    /// `off`, `on` or `require`.
    pub tls: Option<String>,
    /// Folder of the certificates.
    pub tls_certificates: Option<std::path::PathBuf>,
    /// Let in only clients with a certificate.
    #[serde(default)]
    pub tls_verify_peer: bool,
    /// Unix socket for `hoistway ctl`.
    pub control: Option<std::path::PathBuf>,
    /// File for the number of the process.
    pub pidfile: Option<std::path::PathBuf>,
    /// Exports are block devices of the ublk driver.
    #[cfg(feature = "ublk")]
    #[serde(default)]
    pub ublk: bool,
    /// Folder in which the exports are files.
    #[cfg(feature = "fuse")]
    pub fuse: Option<std::path::PathBuf>,
    /// Other users may look into it.
    #[cfg(feature = "fuse")]
    #[serde(default)]
    pub fuse_allow_other: bool,
    /// Where metrics are served: `tcp:PORT`, `tcp:ADDRESS:PORT` or `unix:PATH`.
    pub metrics: Option<String>,
    /// Connections at once.
    pub connections: Option<usize>,
    /// How long the end may take.
    pub stop_limit: Option<String>,
    /// How long I/O may wait while the device has nothing to do before that is warned about.
    pub stall_limit: Option<String>,
    /// The exports.
    #[serde(default)]
    pub export: Vec<ExportSpec>,
    /// Groups of clients by user or certificate.
    #[serde(default)]
    pub client: Vec<ClientSpec>,
}

/// One export.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ExportSpec {
    /// Its name.
    pub name: String,
    /// What it serves: `ram:1G`, `null:1T`, `file:PATH`, `emulate:DRIVE`, `emulate:DRIVE:SIZE`.
    pub target: String,
    /// Configuration of the device, such as `bfq{low_latency=0}`.
    pub scheduler: Option<String>,
    /// Group of its clients; the export's name if there is a weight and no group.
    pub group: Option<String>,
    /// Weight of the group.
    pub weight: Option<u64>,
    /// Latency target of the group, such as `5ms`.
    pub latency: Option<String>,
    /// Most bytes read per second by the group, such as `10M`.
    pub rbps: Option<Quantity>,
    /// Most bytes written.
    pub wbps: Option<Quantity>,
    /// Most reads per second, such as `500` or `2k`.
    pub riops: Option<Quantity>,
    /// Most writes.
    pub wiops: Option<Quantity>,
    /// I/O priority of its clients, such as `be/4`, `rt/0`, `idle`.
    pub prio: Option<String>,
    /// First byte of the device that is served.
    pub offset: Option<String>,
    /// Bytes that are served.
    pub size: Option<String>,
    /// Nothing may be written.
    #[serde(default)]
    pub read_only: bool,
    /// Writes go to memory, and are gone at the end.
    #[serde(default)]
    pub cow: bool,
    /// Writes go to this file, which is kept.
    pub overlay: Option<String>,
    /// Past the page cache.
    #[serde(default)]
    pub direct: bool,
    /// `io_uring` or `threads` instead of the best there is.
    pub way: Option<String>,
    /// File for the data of an emulated drive.
    pub data: Option<String>,
    /// Seed of an emulated drive.
    pub seed: Option<u64>,
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

impl File {
    /// Reads a configuration file; messages name file and line.
    pub fn read(path: &Path) -> Result<File, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        toml::from_str(&text).map_err(|e| {
            let before = e.span().map_or(0, |s| s.start);
            let line = 1 + text[..before].matches('\n').count();
            format!("{}:{line}: {}", path.display(), e.message())
        })
    }

    /// The target of the device that `export` shares with others: for writing if one of them may be
    /// written, whichever comes first.
    pub fn target(&self, export: &ExportSpec) -> Result<Target, String> {
        let key = export.device_key();
        let mut read_only = export.read_only;
        for other in self.export.iter().filter(|e| e.device_key() == key) {
            let how = |e: &ExportSpec| (e.direct, e.way.clone(), e.seed);
            if how(other) != how(export) {
                return Err(format!(
                    "it shares {} with export '{}': write the same direct, way and seed for both",
                    export.target, other.name
                ));
            }
            read_only &= other.read_only;
        }
        ExportSpec { read_only, ..export.clone() }.target()
    }
}

impl ExportSpec {
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
        let (key, value) = part.split_once('=').map_or((part, None), |(k, v)| (k, Some(v)));
        let number =
            |v: &str| v.parse().map_err(|_| format!("{key} = '{v}' is not a whole number"));
        match (key, value) {
            ("ro" | "read-only", None) => self.read_only = true,
            ("direct", None) => self.direct = true,
            ("cow", None) => self.cow = true,
            ("overlay", Some(v)) => self.overlay = Some(v.into()),
            ("group", Some(v)) => self.group = Some(v.into()),
            ("weight", Some(v)) => self.weight = Some(number(v)?),
            ("seed", Some(v)) => self.seed = Some(number(v)?),
            ("latency", Some(v)) => self.latency = Some(v.into()),
            ("rbps", Some(v)) => self.rbps = Some(Quantity(v.into())),
            ("wbps", Some(v)) => self.wbps = Some(Quantity(v.into())),
            ("riops", Some(v)) => self.riops = Some(Quantity(v.into())),
            ("wiops", Some(v)) => self.wiops = Some(Quantity(v.into())),
            ("prio", Some(v)) => self.prio = Some(v.into()),
            ("offset", Some(v)) => self.offset = Some(v.into()),
            ("size", Some(v)) => self.size = Some(v.into()),
            ("way", Some(v)) => self.way = Some(v.into()),
            ("data", Some(v)) => self.data = Some(v.into()),
            _ => {
                return Err(format!(
                    "'{part}' is not known; write ro, direct, cow, overlay=FILE, weight=N, group=NAME, prio=be/4, \
                     latency=5ms, rbps=10M, wbps=10M, riops=500, wiops=500, offset=SIZE, \
                     size=SIZE, way=io_uring|threads, data=FILE or seed=N"
                ));
            }
        }
        Ok(())
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
        let (kind, rest) = self.target.split_once(':').ok_or_else(|| {
            format!(
                "target '{}': write ram:SIZE, null:SIZE, file:PATH or emulate:DRIVE",
                self.target
            )
        })?;
        if kind != "emulate" && (self.data.is_some() || self.seed.is_some()) {
            return Err(format!("{}: data and seed are for emulated drives", self.name));
        }
        if kind != "file" && (self.direct || self.way.is_some()) {
            return Err(format!("{}: direct and way are for files", self.name));
        }
        match kind {
            "ram" => Ok(Target::Ram { size: quantity::bytes(rest)? }),
            "null" => Ok(Target::Null { size: quantity::bytes(rest)? }),
            "file" => Ok(Target::File { path: rest.into(), options: self.file_options()? }),
            "emulate" => self.emulated(rest),
            other => Err(format!("no target '{other}'; write ram, null, file or emulate")),
        }
    }

    fn file_options(&self) -> Result<FileOptions, String> {
        let way = match self.way.as_deref() {
            None => Way::Best,
            Some("io_uring") => Way::IoUring,
            Some("threads") => Way::Threads,
            Some(other) => return Err(format!("way '{other}': write io_uring or threads")),
        };
        Ok(FileOptions { direct: self.direct, read_only: self.read_only, way })
    }

    fn emulated(&self, rest: &str) -> Result<Target, String> {
        let (drive, size) = match rest.rsplit_once(':') {
            // A path may have a colon, too: a size begins with a digit.
            Some((drive, size)) if size.starts_with(|c: char| c.is_ascii_digit()) => {
                (drive, Some(quantity::bytes(size)?))
            }
            _ => (rest, None),
        };
        let drive = DriveFile::load(drive).map_err(|e| e.to_string())?;
        let mut emulation = Emulation::new(drive);
        emulation.size = size;
        emulation.file = self.data.as_ref().map(Into::into);
        emulation.seed = self.seed.unwrap_or(1);
        Ok(Target::Emulated(Box::new(emulation)))
    }

    /// What makes two exports share a device.
    pub fn device_key(&self) -> String {
        let ExportSpec { name, target, data, overlay, .. } = self;
        match (overlay, self.cow) {
            (None, false) => format!("{target} {data:?}"),
            (Some(file), _) => format!("{target} {data:?} overlay {file}"),
            // What one client writes is no business of another's.
            (None, true) => format!("{target} {data:?} overlay of {name}"),
        }
    }

    /// Refuses a base that is served for writing, too: what lies over it would no longer fit.
    pub fn check_base(&self, all: &[ExportSpec]) -> Result<(), String> {
        let writes = |other: &&ExportSpec| {
            let kept = other.target.starts_with("file:");
            kept && !other.is_cow() && !other.read_only && other.target == self.target
        };
        match all.iter().find(writes).filter(|_| self.is_cow()) {
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
/// names `injection` or `base` gets what he names.
pub fn server_tunables(scheduler: &str, mut set: Vec<(String, u64)>) -> Vec<(String, u64)> {
    let chosen = set.iter().any(|(name, _)| matches!(&name[..], "injection" | "base"));
    if scheduler == "bfq" && !chosen {
        set.push(("injection".into(), 0));
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
mod tests {
    use super::*;

    #[test]
    fn bfq_serves_without_injection_unless_it_is_asked_for() {
        let injection = |config: &str| {
            let set = device_options(config).unwrap().set;
            set.iter().find(|(name, _)| name == "injection").map(|(_, value)| *value)
        };
        assert_eq!(injection("bfq"), Some(0));
        assert_eq!(injection("max-bfq{low_latency=0}"), Some(0));
        assert_eq!(injection("bfq{injection=1}"), Some(1));
        for other in ["bfq{base=6.1}", "bfq-v1", "mq-deadline", "none"] {
            assert_eq!(injection(other), None, "{other}");
        }
    }

    #[test]
    fn exports_are_read_from_flags_and_files_alike() {
        let flag = ExportSpec::parse("gold=ram:1G,weight=500,ro,offset=1M").unwrap();
        let file: File = toml::from_str(
            "[[export]]\nname = \"gold\"\ntarget = \"ram:1G\"\nweight = 500\nread-only = true\n\
             offset = \"1M\"\n",
        )
        .unwrap();
        assert_eq!(file.export, std::slice::from_ref(&flag));
        assert_eq!(flag.range(), Ok((1 << 20, None)));
        assert!(matches!(flag.target(), Ok(Target::Ram { size: 1_073_741_824 })));
        assert_eq!(ExportSpec::parse("ram:1M").unwrap().name, "disk");
    }

    #[test]
    fn mistakes_are_named() {
        let target = |text: &str| ExportSpec::parse(text).and_then(|e| e.target()).unwrap_err();
        assert!(target("a=ram:x").contains("'x' is not a size"));
        assert!(target("a=ram:1X").contains("'1X' is not a size"));
        assert!(target("a=emulate:plextor-px-256m5s:1X").contains("'1X' is not a size"));
        assert!(target("a=rom:1G").contains("no target 'rom'"));
        assert!(target("a=ram:1G,direct").contains("for files"));
        assert!(target("a=ram:1G,wight=1").contains("'wight=1' is not known"));
        assert!(target("a=emulate:plextor:1G").contains("no drive 'plextor'"));
        assert!(prio("be/8").unwrap_err().contains("be/8"));
        assert!(listen("here").unwrap_err().contains("here"));
        let at = Listen::Tcp("127.0.0.1:10809".parse().unwrap());
        assert_eq!(listen("tcp:10809"), Ok(at));
    }

    #[test]
    fn exports_that_share_a_device_agree_on_how_it_is_opened() {
        let file = |exports: &[&str]| {
            let export = exports.iter().map(|e| ExportSpec::parse(e).unwrap()).collect();
            File { export, ..File::default() }
        };
        let read_only = |exports: &[&str]| {
            let file = file(exports);
            let of = |export| match file.target(export).unwrap() {
                Target::File { options, .. } => options.read_only,
                other => panic!("{other:?}"),
            };
            file.export.iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(read_only(&["a=file:/x,ro", "b=file:/x"]), [false, false]);
        assert_eq!(read_only(&["a=file:/x", "b=file:/x,ro"]), [false, false]);
        assert_eq!(read_only(&["a=file:/x,ro", "b=file:/x,ro", "c=file:/y"]), [true, true, false]);
        for (one, other) in [
            ("a=file:/x,direct", "b=file:/x"),
            ("a=file:/x", "b=file:/x,way=threads"),
            ("a=emulate:plextor-px-256m5s", "b=emulate:plextor-px-256m5s,seed=2"),
        ] {
            let error = |exports: &[&str]| {
                let file = file(exports);
                file.target(&file.export[0]).unwrap_err()
            };
            assert!(error(&[one, other]).contains("with export 'b'"), "{one}");
            assert!(error(&[other, one]).contains("with export 'a'"), "{other}");
        }
    }
}
