//! One change of the machine, as a line of a state file.
//!
//! Fields are separated by tabs. What is made is noted twice: before, as a wish, and once it exists, with what tells it
//! from everything else that may stand there later.

use super::super::chain::file_name;
use hoistway_files::Identity;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// One change, with what it takes to undo it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum NotedChange {
    /// All settings of a queue, before the first was changed.
    Queue {
        name: String,
        number: String,
        /// That of its folder `queue`, which no other device ever has.
        inode: u64,
        folder: PathBuf,
        /// What is attached there, as [`disk_of`](super::super::disk_of) tells; `None`: nobody has noted it.
        disk: Option<String>,
        old: Vec<(String, String)>,
    },
    /// A setting of that queue is about to be written.
    Wrote { folder: PathBuf, file: String },
    /// A file of the kernel with one value.
    File { path: PathBuf, old: String },
    /// A file of a cgroup with one line per device.
    Keyed { path: PathBuf, key: String, old: Option<String> },
    /// Controllers that were enabled for the children of a cgroup.
    Enabled { path: PathBuf, controllers: Vec<String> },
    /// A cgroup.
    Cgroup { path: PathBuf, made: Option<Identity> },
    /// A folder, which did not exist.
    Folder { path: PathBuf, made: Option<Made> },
    /// A file, which did not exist.
    NewFile { path: PathBuf, made: Option<Made> },
    /// A mount, by the kernel's number of it.
    Mount { at: PathBuf, id: Option<u64> },
    /// A loop device, by what it was attached to, and the kernel's number of the attachment.
    Loop { device: PathBuf, backing: PathBuf, seq: Option<u64> },
    /// A process, by the time it was started.
    Process { pid: u32, started: u64 },
}

/// A file or folder that was made, and the folder around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Made {
    pub own: Identity,
    /// Where this one is, but not what was made, what was made is gone. Elsewhere it is merely not to be seen.
    pub around: Option<Identity>,
}

impl NotedChange {
    /// Whether it is still there after a reboot.
    pub fn lasts(&self) -> bool {
        matches!(self, NotedChange::Folder { .. } | NotedChange::NewFile { .. })
    }

    /// The same before it was made, which this takes the place of; `None`: it is the wish itself, or there is none.
    pub fn wish(&self) -> Option<NotedChange> {
        let mut wish = self.clone();
        match &mut wish {
            NotedChange::Cgroup { made, .. } => *made = None,
            NotedChange::Folder { made, .. } | NotedChange::NewFile { made, .. } => *made = None,
            NotedChange::Mount { id, .. } => *id = None,
            NotedChange::Loop { seq, .. } => *seq = None,
            _ => return None,
        }
        (wish != *self).then_some(wish)
    }

    /// In words.
    pub fn describe(&self) -> String {
        match self {
            NotedChange::Queue { name, old, .. } => {
                let scheduler = old.iter().find(|(key, _)| key == "scheduler");
                let scheduler = scheduler.map_or("", |(_, value)| value);
                format!("queue of {name}: scheduler {scheduler} and its settings")
            }
            NotedChange::Wrote { folder, file } => format!("{file} of {}", file_name(folder)),
            NotedChange::File { path, old } => format!("{}: {old}", path.display()),
            NotedChange::Keyed { path, key, old } => {
                format!("{}: {key} {}", path.display(), old.as_deref().unwrap_or("(none)"))
            }
            NotedChange::Enabled { path, controllers } => {
                format!("{}: {} enabled", path.display(), controllers.join(" "))
            }
            NotedChange::Cgroup { path, .. } => format!("cgroup {}", path.display()),
            NotedChange::Folder { path, .. } => format!("folder {}", path.display()),
            NotedChange::NewFile { path, .. } => format!("file {}", path.display()),
            NotedChange::Mount { at, .. } => format!("mount at {}", at.display()),
            NotedChange::Loop { device, backing, .. } => {
                format!("loop device {} on {}", device.display(), backing.display())
            }
            NotedChange::Process { pid, .. } => format!("process {pid}"),
        }
    }

    /// As a line, without its end.
    pub fn encode(&self) -> String {
        let text = |text: &str| escape(OsStr::new(text));
        let path = |path: &Path| escape(path.as_os_str());
        let made = |made: &Option<Made>| {
            let pair = made.map(|made| [Some(made.own), made.around]).into_iter().flatten();
            pair.map(|identity| identity.map_or("-".into(), |id| of_identity(&id)))
                .collect::<Vec<_>>()
        };
        let mut fields = vec![self.word().to_string()];
        match self {
            NotedChange::Queue { name, number, inode, folder, disk, old } => {
                fields.extend([text(name), text(number), inode.to_string(), path(folder)]);
                fields.push(text(disk.as_deref().unwrap_or_default()));
                fields.extend(old.iter().map(|(key, value)| text(&format!("{key}={value}"))));
            }
            NotedChange::Wrote { folder, file } => fields.extend([path(folder), text(file)]),
            NotedChange::File { path: p, old } => fields.extend([path(p), text(old)]),
            NotedChange::Keyed { path: p, key, old } => {
                fields.extend([path(p), text(key)]);
                fields.extend(old.as_deref().map(text));
            }
            NotedChange::Enabled { path: p, controllers } => {
                fields.extend([path(p), text(&controllers.join(" "))]);
            }
            NotedChange::Cgroup { path: p, made } => {
                fields.push(path(p));
                fields.extend(made.as_ref().map(of_identity));
            }
            NotedChange::Folder { path: p, made: m }
            | NotedChange::NewFile { path: p, made: m } => {
                fields.push(path(p));
                fields.extend(made(m));
            }
            NotedChange::Mount { at, id } => {
                fields.push(path(at));
                fields.extend(id.map(|id| id.to_string()));
            }
            NotedChange::Loop { device, backing, seq } => {
                fields.extend([path(device), path(backing)]);
                fields.extend(seq.map(|seq| seq.to_string()));
            }
            NotedChange::Process { pid, started } => {
                fields.extend([pid.to_string(), started.to_string()]);
            }
        }
        fields.join("\t")
    }

    fn word(&self) -> &'static str {
        match self {
            NotedChange::Queue { .. } => "queue",
            NotedChange::Wrote { .. } => "wrote",
            NotedChange::File { .. } => "file",
            NotedChange::Keyed { .. } => "keyed",
            NotedChange::Enabled { .. } => "enabled",
            NotedChange::Cgroup { .. } => "cgroup",
            NotedChange::Folder { .. } => "folder",
            NotedChange::NewFile { .. } => "new-file",
            NotedChange::Mount { .. } => "mount",
            NotedChange::Loop { .. } => "loop",
            NotedChange::Process { .. } => "process",
        }
    }

    /// The reverse, of a file of that version; `None`: it is no such line.
    pub fn decode(version: u32, line: &str) -> Option<NotedChange> {
        let fields: Vec<OsString> = line.split('\t').map(unescape).collect::<Option<_>>()?;
        let (word, rest) = fields.split_first()?;
        let text = |field: &OsString| field.to_str().map(String::from);
        let number = |field: &OsString| field.to_str()?.parse::<u64>().ok();
        Some(match (word.to_str()?, rest) {
            ("queue", [name, device, inode, folder, rows @ ..]) => {
                let (disk, rows) = match version {
                    1 => (None, rows),
                    _ => rows.split_first().map(|(disk, rows)| (text(disk), rows))?,
                };
                let row = |row: &OsString| {
                    let (key, value) = row.to_str()?.split_once('=')?;
                    Some((key.to_string(), value.to_string()))
                };
                NotedChange::Queue {
                    name: text(name)?,
                    number: text(device)?,
                    inode: number(inode)?,
                    folder: folder.into(),
                    disk,
                    old: rows.iter().map(row).collect::<Option<_>>()?,
                }
            }
            ("wrote", [folder, file]) => {
                NotedChange::Wrote { folder: folder.into(), file: text(file)? }
            }
            ("file", [path, old]) => NotedChange::File { path: path.into(), old: text(old)? },
            ("keyed", [path, key]) => {
                NotedChange::Keyed { path: path.into(), key: text(key)?, old: None }
            }
            ("keyed", [path, key, old]) => {
                NotedChange::Keyed { path: path.into(), key: text(key)?, old: Some(text(old)?) }
            }
            ("enabled", [path, controllers]) => NotedChange::Enabled {
                path: path.into(),
                controllers: text(controllers)?.split_whitespace().map(String::from).collect(),
            },
            ("cgroup", [path]) => NotedChange::Cgroup { path: path.into(), made: None },
            ("cgroup", [path, made]) => {
                NotedChange::Cgroup { path: path.into(), made: Some(identity(made)?) }
            }
            ("folder", [path, made @ ..]) => {
                NotedChange::Folder { path: path.into(), made: made_of(version, made)? }
            }
            ("new-file", [path, made @ ..]) => {
                NotedChange::NewFile { path: path.into(), made: made_of(version, made)? }
            }
            ("mount", [at]) => NotedChange::Mount { at: at.into(), id: None },
            ("mount", [at, id]) => NotedChange::Mount { at: at.into(), id: Some(number(id)?) },
            ("loop", [device, backing]) => {
                NotedChange::Loop { device: device.into(), backing: backing.into(), seq: None }
            }
            ("loop", [device, backing, seq]) => {
                let seq = Some(number(seq)?);
                NotedChange::Loop { device: device.into(), backing: backing.into(), seq }
            }
            ("process", [pid, started]) => NotedChange::Process {
                pid: number(pid)?.try_into().ok()?,
                started: number(started)?,
            },
            _ => return None,
        })
    }
}

/// `2049:131:1700000000123456789`; `-` for a time of birth that nobody knows.
fn of_identity(identity: &Identity) -> String {
    let born = identity.born.map_or("-".into(), |born| born.to_string());
    format!("{}:{}:{born}", identity.device, identity.inode)
}

fn identity(field: &OsString) -> Option<Identity> {
    let mut parts = field.to_str()?.split(':');
    let mut next = || parts.next();
    let (device, inode) = (next()?.parse().ok()?, next()?.parse().ok()?);
    let born = match next()? {
        "-" => None,
        born => Some(born.parse().ok()?),
    };
    next().is_none().then_some(Identity { device, inode, born })
}

/// What stands behind a path that was made.
fn made_of(version: u32, fields: &[OsString]) -> Option<Option<Made>> {
    let number = |field: &OsString| field.to_str()?.parse::<u64>().ok();
    Some(match (version, fields) {
        (_, []) => None,
        (1, [device, inode]) => {
            let own = Identity { device: number(device)?, inode: number(inode)?, born: None };
            Some(Made { own, around: None })
        }
        (2.., [own, around]) => {
            let around = if around == "-" { None } else { Some(identity(around)?) };
            Some(Made { own: identity(own)?, around })
        }
        _ => return None,
    })
}

/// Without tabs and ends of lines; bytes that are no text as `\xff`.
fn escape(text: &OsStr) -> String {
    let mut out = String::new();
    for chunk in text.as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out += "\\\\",
                '\t' => out += "\\t",
                '\n' => out += "\\n",
                '\r' => out += "\\r",
                c => out.push(c),
            }
        }
        chunk.invalid().iter().for_each(|byte| out += &format!("\\x{byte:02x}"));
    }
    out
}

fn unescape(text: &str) -> Option<OsString> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((plain, escaped)) = rest.split_once('\\') {
        out.extend_from_slice(plain.as_bytes());
        let mut chars = escaped.chars();
        match chars.next()? {
            't' => out.push(b'\t'),
            'n' => out.push(b'\n'),
            'r' => out.push(b'\r'),
            '\\' => out.push(b'\\'),
            'x' => {
                out.push(u8::from_str_radix(escaped.get(1..3)?, 16).ok()?);
                chars = escaped.get(3..)?.chars();
            }
            _ => return None,
        }
        rest = chars.as_str();
    }
    out.extend_from_slice(rest.as_bytes());
    Some(OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_as_they_were_written() {
        let own = Identity { device: 2049, inode: 7, born: Some(1_700_000_000_000_000_001) };
        let around = Some(Identity { device: 1, inode: 2, born: None });
        let odd = PathBuf::from(OsString::from_vec(b"/a\tb\n\\x\r \xff\xc3".to_vec()));
        let row = |key: &str, value: &str| (key.to_string(), value.to_string());
        let changes = [
            NotedChange::Queue {
                name: "loop0".into(),
                number: "7:0".into(),
                inode: 5,
                folder: "/sys/devices/virtual/block/loop0".into(),
                disk: Some("seq 17".into()),
                old: vec![row("scheduler", "none"), row("iosched/x", "a=b")],
            },
            NotedChange::Wrote { folder: odd.clone(), file: "scheduler".into() },
            NotedChange::File { path: odd.clone(), old: "a\tb".into() },
            NotedChange::Keyed { path: odd.clone(), key: "8:0".into(), old: None },
            NotedChange::Keyed {
                path: odd.clone(),
                key: "8:0".into(),
                old: Some("8:0 x=1".into()),
            },
            NotedChange::Enabled {
                path: odd.clone(),
                controllers: vec!["io".into(), "memory".into()],
            },
            NotedChange::Cgroup { path: odd.clone(), made: None },
            NotedChange::Cgroup { path: odd.clone(), made: Some(own) },
            NotedChange::Folder { path: odd.clone(), made: None },
            NotedChange::Folder { path: odd.clone(), made: Some(Made { own, around }) },
            NotedChange::NewFile { path: odd.clone(), made: Some(Made { own, around: None }) },
            NotedChange::Mount { at: odd.clone(), id: Some(9) },
            NotedChange::Loop { device: "/dev/loop7".into(), backing: odd.clone(), seq: None },
            NotedChange::Loop { device: "/dev/loop7".into(), backing: odd, seq: Some(4) },
            NotedChange::Process { pid: 5, started: 77 },
        ];
        for change in changes {
            let line = change.encode();
            assert!(!line.contains('\n') && !line.contains('\r'), "{line}");
            assert_eq!(NotedChange::decode(2, &line), Some(change), "{line}");
        }
    }

    #[test]
    fn lines_of_the_first_version_lack_what_it_did_not_note() {
        let queue = "queue\tsda\t8:0\t5\t/sys/devices/x/sda\tscheduler=none";
        let Some(NotedChange::Queue { disk: None, old, .. }) = NotedChange::decode(1, queue) else {
            panic!("{queue}");
        };
        assert_eq!(old, [("scheduler".to_string(), "none".to_string())]);
        let folder = NotedChange::decode(1, "folder\t/a\t5\t6").unwrap();
        let own = Identity { device: 5, inode: 6, born: None };
        let made = Some(Made { own, around: None });
        assert_eq!(folder, NotedChange::Folder { path: "/a".into(), made });
        assert_eq!(NotedChange::decode(2, "folder\t/a\t5\t6"), None);
    }

    #[test]
    fn what_is_no_entry_is_none() {
        for line in [
            "",
            "exec\trm",
            "file\t/a",
            "file\t/a\tb\tc",
            "process\t99999999999\t1",
            "process\t-1\t1",
            "folder\t/a\t1:2",
            "folder\t/a\t1:2:3:4\t-",
            "queue\tsda\t8:0\t5\t/sys/x\tseq\tno-value",
            "new-file\t/a\\q",
            "new-file\t/a\\x0",
            "new-file\t/a\\xé",
            "mount\t/a\tb",
        ] {
            assert_eq!(NotedChange::decode(2, line), None, "{line}");
        }
    }

    #[test]
    fn what_was_made_has_a_wish() {
        let own = Identity { device: 1, inode: 2, born: None };
        let wish = NotedChange::Cgroup { path: "/a".into(), made: None };
        let made = NotedChange::Cgroup { path: "/a".into(), made: Some(own) };
        assert_eq!(made.wish(), Some(wish.clone()));
        assert_eq!(wish.wish(), None);
        assert_eq!(NotedChange::Process { pid: 1, started: 2 }.wish(), None);
    }
}
