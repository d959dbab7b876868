//! Groups of an experiment and what is written to their cgroup files, in the kernel's own lines
//! (specs/groups-and-priorities.md section 6): `[[files]]` for the groups that a configuration makes,
//! `[[group]]` or a directory for a tree of one's own.

use super::ExperimentError;
use super::source::{Result, Section};
use crate::config::{self, Config, DEVICE, FileLine, Member};
use crate::registry::Registry;
use hoistway::sched::Entry;
use hoistway_files::input::{self, Limit};
use hoistway_run::{ControlSpec, GroupSpec, ProcSpec, Role};
use hoistway_sim::drive::DriveFile;
use std::path::Path;

/// Stands for the device number in lines.
const DRIVE: &str = "drive";
/// Where a directory lists the processes of a group.
const PROCS: &str = "cgroup.procs";
/// Deepest directory that is read; a loop of links would never end.
const DEPTH_MAX: usize = 128;

/// Lines for the files of some groups under some configurations.
#[derive(Clone, Debug)]
pub struct FileRule {
    /// Only under these configurations (names before the braces); empty: under all.
    pub configs: Vec<String>,
    /// `root`, `target`, `interferers`, or the name of a process or of its kind (`reader`).
    pub of: String,
    /// File and line.
    pub write: Vec<FileLine>,
}

/// A group of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeGroup {
    /// From the root: `/batch/nightly`; `/` is the root itself.
    pub path: String,
    /// Names of processes in it, or of their kinds.
    pub procs: Vec<String>,
    /// File and line.
    pub write: Vec<FileLine>,
}

pub(super) fn read_rules(top: &Section<'_>) -> Result<Vec<FileRule>> {
    let mut rules = Vec::new();
    for s in top.sections("files")? {
        s.only(&["configs", "of", "write"])?;
        let configs = match s.table.contains_key("configs") {
            true => s.texts("configs")?,
            false => Vec::new(),
        };
        for (i, name) in configs.iter().enumerate() {
            if !config::is_known(name, s.schedulers()) {
                let what = format!("no configuration '{name}' (`hoistway list configs`)");
                return Err(s.wrong(&format!("configs[{i}]"), what));
            }
        }
        rules.push(FileRule { configs, of: s.text("of")?.to_string(), write: read_lines(&s)? });
    }
    Ok(rules)
}

pub(super) fn read_tree(top: &Section<'_>) -> Result<Vec<TreeGroup>> {
    let mut tree: Vec<TreeGroup> = Vec::new();
    for s in top.sections("group")? {
        s.only(&["path", "procs", "write"])?;
        let path = s.text("path")?;
        let parts = path.strip_prefix('/').unwrap_or("");
        let good = path == "/" || parts.split('/').all(|p| !p.is_empty() && p != "." && p != "..");
        if !good || !path.starts_with('/') {
            return Err(s.wrong("path", format!("'{path}' is not a path such as /batch/nightly")));
        }
        if tree.iter().any(|g| g.path == path) {
            return Err(s.wrong("path", format!("group {path} is defined twice")));
        }
        let procs = match s.table.contains_key("procs") {
            true => s.texts("procs")?,
            false => Vec::new(),
        };
        let write = match s.table.contains_key("write") {
            true => read_lines(&s)?,
            false => Vec::new(),
        };
        tree.push(TreeGroup { path: path.to_string(), procs, write });
    }
    Ok(tree)
}

fn read_lines(section: &Section<'_>) -> Result<Vec<FileLine>> {
    let texts = section.texts("write")?;
    let split = |(i, text): (usize, &String)| {
        file_line(text, section.schedulers())
            .map_err(|what| section.wrong(&format!("write[{i}]"), what))
    };
    texts.iter().enumerate().map(split).collect()
}

/// `io.max: 8:0 rbps=1048576`.
fn file_line(text: &str, known: &[&'static Entry]) -> std::result::Result<FileLine, String> {
    let Some((file, line)) = text.split_once(": ") else {
        return Err(format!("'{text}' is not a line for a file; write 'io.max: {DRIVE} rbps=...'"));
    };
    known_file(file, known)?;
    Ok((file.to_string(), with_device(line)))
}

fn known_file(file: &str, known: &[&'static Entry]) -> std::result::Result<(), String> {
    match config::is_file(file, known) {
        true => Ok(()),
        false => Err(format!("no scheduler or controller has a file '{file}'")),
    }
}

/// The device by its number, whatever it was called.
fn with_device(line: &str) -> String {
    match line.trim_start().split_once(char::is_whitespace) {
        Some((DRIVE, body)) => format!("{DEVICE} {body}"),
        _ => line.to_string(),
    }
}

/// A process that a file of a directory names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// File and line.
    pub place: String,
    /// The name.
    pub name: String,
}

/// Reads a tree from a directory: every folder is a group, every file in it a cgroup file with one line
/// per write, and `cgroup.procs` lists processes of the experiment, by name or kind. Files that the
/// kernel has for other purposes (`cgroup.*` and those of other controllers) are passed over. The registry says which
/// files schedulers have.
///
/// # Errors
///
/// What cannot be read, and `io.*` files that no stage has.
pub fn read_directory(dir: &Path, registry: &Registry) -> Result<(Vec<TreeGroup>, Vec<Listed>)> {
    let (mut tree, mut listed) = (Vec::new(), Vec::new());
    read_folder(registry, dir, "/", 0, &mut tree, &mut listed)?;
    Ok((tree, listed))
}

/// Most groups of a directory, and most names in one of its folders. A folder may be a link to one above it.
const GROUPS_MAX: usize = 10_000;
const ENTRIES_MAX: usize = 65_536;
const GROUP_FILE: Limit = Limit { what: "a file of a cgroup", bytes: 256 << 10 };

fn read_folder(
    registry: &Registry,
    dir: &Path,
    path: &str,
    depth: usize,
    tree: &mut Vec<TreeGroup>,
    listed: &mut Vec<Listed>,
) -> Result<()> {
    let failed = |what: &dyn std::fmt::Display| {
        ExperimentError(format!("{}: {what}; give a directory of groups", dir.display()))
    };
    if depth > DEPTH_MAX {
        return Err(failed(&format!("deeper than {DEPTH_MAX} levels")));
    }
    if tree.len() >= GROUPS_MAX {
        return Err(failed(&format!("more than {GROUPS_MAX} groups")));
    }
    let entries = std::fs::read_dir(dir).map_err(|e| failed(&e))?.take(ENTRIES_MAX + 1);
    let mut entries = entries.collect::<std::io::Result<Vec<_>>>().map_err(|e| failed(&e))?;
    if entries.len() > ENTRIES_MAX {
        return Err(failed(&format!("more than {ENTRIES_MAX} files and folders")));
    }
    entries.sort_by_key(std::fs::DirEntry::file_name);
    let mut group = TreeGroup { path: path.to_string(), procs: Vec::new(), write: Vec::new() };
    let mut folders = Vec::new();
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() {
            folders.push(name);
            continue;
        }
        if name != PROCS && !name.starts_with("io.") {
            continue;
        }
        let text =
            input::text(&entry.path(), GROUP_FILE).map_err(|e| ExperimentError(e.to_string()))?;
        let lines = text.lines().map(|l| l.split('#').next().unwrap_or("").trim_end());
        let lines = (1..).zip(lines).filter(|(_, l)| !l.trim().is_empty());
        if name == PROCS {
            for (number, line) in lines {
                let name = line.trim().to_string();
                let place = format!("{}:{number}", entry.path().display());
                listed.push(Listed { place, name: name.clone() });
                group.procs.push(name);
            }
            continue;
        }
        known_file(&name, registry.schedulers())
            .map_err(|what| ExperimentError(format!("{}: {what}", entry.path().display())))?;
        group.write.extend(lines.map(|(_, l)| (name.clone(), with_device(l))));
    }
    tree.push(group);
    for name in folders {
        let inner = if path == "/" { format!("/{name}") } else { format!("{path}/{name}") };
        read_folder(registry, &dir.join(&name), &inner, depth + 1, tree, listed)?;
    }
    Ok(())
}

/// Everything that decides the groups of one run.
pub(super) struct GroupPlan<'a> {
    pub config: &'a Config,
    pub drive: &'a DriveFile,
    pub rules: &'a [FileRule],
    pub tree: &'a [TreeGroup],
    /// Kind of each process, in the order of the processes.
    pub kinds: &'a [String],
}

impl GroupPlan<'_> {
    /// Makes the groups, puts the processes into them, and collects the lines for their files. A line
    /// for a file that no stage of the configuration has is left out: in the kernel, too, such a file
    /// has no effect on the device.
    pub fn make(&self, procs: &mut [ProcSpec]) -> (ControlSpec, Vec<GroupSpec>) {
        let mut control = ControlSpec {
            controllers: self.config.controllers.clone(),
            root: self.config.lines(self.drive, Member::Root),
            monitor: None,
        };
        let mut groups: Vec<GroupSpec> = Vec::new();
        if self.config.groups {
            self.add_tree(&mut control, &mut groups);
            for (i, proc) in procs.iter_mut().enumerate() {
                proc.group = self.place(&mut groups, proc, &self.kinds[i]);
            }
        }
        for rule in self.rules.iter().filter(|r| self.holds(r) && r.of == "root") {
            control.root.extend(rule.write.iter().cloned());
        }
        for (i, proc) in procs.iter().enumerate() {
            let Some(group) = proc.group else { continue };
            for rule in self.rules.iter().filter(|r| self.holds(r)) {
                let fits = match rule.of.as_str() {
                    "target" => proc.role == Role::Target,
                    "interferers" => proc.role == Role::Interferer,
                    name => name == proc.name || name == self.kinds[i],
                };
                if fits {
                    groups[group].write.extend(rule.write.iter().cloned());
                }
            }
        }
        let keep = |lines: &mut Vec<FileLine>| lines.retain(|(f, _)| self.config.has_file(f));
        keep(&mut control.root);
        groups.iter_mut().for_each(|g| keep(&mut g.write));
        (control, groups)
    }

    fn holds(&self, rule: &FileRule) -> bool {
        rule.configs.is_empty() || rule.configs.contains(&self.config.base)
    }

    fn add_tree(&self, control: &mut ControlSpec, groups: &mut Vec<GroupSpec>) {
        for node in self.tree {
            if node.path == "/" {
                control.root.extend(node.write.iter().cloned());
            } else {
                let at = group_at(groups, &node.path);
                groups[at].write.extend(node.write.iter().cloned());
            }
        }
    }

    /// The group of a process: that of the tree that lists it, or one of its own name below the root.
    fn place(&self, groups: &mut Vec<GroupSpec>, proc: &ProcSpec, kind: &str) -> Option<usize> {
        let listed = |g: &&TreeGroup| g.procs.iter().any(|p| *p == proc.name || p == kind);
        let at = match self.tree.iter().find(listed) {
            Some(node) if node.path == "/" => return None,
            Some(node) => group_at(groups, &node.path),
            None => group_at(groups, &format!("/{}", proc.name)),
        };
        let member = match proc.role {
            Role::Target => Member::Target,
            Role::Interferer => Member::Interferer,
        };
        let lines = self.config.lines(self.drive, member);
        // Before the tree's own lines, which have the last word.
        let old = std::mem::take(&mut groups[at].write);
        groups[at].write = lines;
        let fresh: Vec<_> =
            old.into_iter().filter(|line| !groups[at].write.contains(line)).collect();
        groups[at].write.extend(fresh);
        Some(at)
    }
}

/// Files of a group that do nothing under some configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idle {
    /// The group.
    pub path: String,
    /// The file.
    pub file: String,
    /// Under these configurations.
    pub configs: Vec<String>,
}

/// Files of the tree that a configuration has nobody for: it makes no groups, or neither its scheduler nor a controller
/// has the file.
pub fn idle_files(tree: &[TreeGroup], configs: &[Config]) -> Vec<Idle> {
    let mut all: Vec<Idle> = Vec::new();
    for group in tree {
        for (file, _) in &group.write {
            let known = all.iter().any(|i| (&i.path, &i.file) == (&group.path, file));
            let idle = |c: &&Config| !c.groups || !c.has_file(file);
            let configs: Vec<String> = configs.iter().filter(idle).map(|c| c.id.clone()).collect();
            if !known && !configs.is_empty() {
                all.push(Idle { path: group.path.clone(), file: file.clone(), configs });
            }
        }
    }
    all
}

/// What makes a file count: the configurations to name, in words.
pub fn who_heeds(file: &str) -> &'static str {
    match file {
        "io.weight" => "cost-NAME (io.cost), or a scheduler that shares, as slo-paternoster",
        "io.bfq.weight" => "prop-bfq",
        "io.max" => "max-NAME",
        "io.low" => "low-NAME",
        "io.latency" => "lat-NAME, or slo-paternoster",
        "io.cost.qos" | "io.cost.model" => "cost-NAME",
        _ => "a configuration whose scheduler or controller has it: hoistway list configs",
    }
}

/// The group at `path`, made with its ancestors if it does not exist yet.
fn group_at(groups: &mut Vec<GroupSpec>, path: &str) -> usize {
    let mut parent = None;
    for name in path.split('/').filter(|n| !n.is_empty()) {
        let found = groups.iter().position(|g| g.parent == parent && g.name == name);
        let at = found.unwrap_or_else(|| {
            groups.push(GroupSpec { name: name.to_string(), parent, ..GroupSpec::default() });
            groups.len() - 1
        });
        parent = Some(at);
    }
    parent.expect("a path other than the root's names a group")
}
