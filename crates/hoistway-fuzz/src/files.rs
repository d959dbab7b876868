//! Any bytes as files of users: experiments, drives, directories of groups, recordings of decisions. What is
//! not valid is refused with a message that names the file; what is valid can be used; nothing panics.

use hoistway::{Device, Input, Instant, Output, Sectors, Stack};
use hoistway_lab::config::Config;
use hoistway_lab::experiment::{Experiment, Options, TreeGroup, read_directory};
use hoistway_lab::registry::Registry;
use hoistway_replay::{Recorded, replay};
use hoistway_sim::drive::DriveFile;
use std::path::{Component, Path, PathBuf};

/// Longer texts teach nothing that shorter ones do not.
const MOST: usize = 1 << 16;

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| text.len() <= MOST)
}

/// An experiment file. A valid one makes a job of every workload under some configurations.
pub fn experiment(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let experiment = match Experiment::parse("fuzz.toml", text) {
        Ok(experiment) => experiment,
        Err(error) => return assert!(error.0.starts_with("fuzz.toml"), "{error}"),
    };
    let drive = DriveFile::load("hitachi-hts727550a9e364").expect("the drive is embedded");
    for name in ["bfq", "none-none", "cost-none", "max-mq-deadline"] {
        let Ok(config) = Config::parse(name) else { continue };
        for workload in &experiment.workloads {
            let job = experiment.job(&drive, workload, &config, 1, &Options::default());
            // Refused, or of a size that can be run.
            assert!(job.is_err() || job.is_ok_and(|job| job.procs.len() < 1 << 20));
        }
    }
}

/// A drive file. A valid one makes a drive and a device that a stack takes.
pub fn drive(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    // A base may be a path: nothing of the machine's is read here.
    let foreign =
        |line: &str| line.trim_start().starts_with("base") && line.contains(['/', '.', '\\']);
    if text.lines().any(foreign) {
        return;
    }
    match DriveFile::parse("fuzz.toml", text) {
        Ok(drive) => {
            let entry = hoistway::sched::find("none").expect("none is a scheduler");
            Stack::new(drive.device(), entry, 16);
            drive.build(1);
        }
        Err(error) => assert!(error.0.contains(".toml"), "{error}"),
    }
}

/// A directory of groups: paths and contents in turn, separated by zero bytes. Its lines are written to the
/// files of a stack with every controller.
pub fn groups(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let folder = Folder::new();
    let mut parts = text.split('\0');
    while let (Some(path), Some(content)) = (parts.next(), parts.next()) {
        folder.write(path, content);
    }
    match read_directory(&folder.0, Registry::shipped()) {
        Ok((tree, _)) => write_all(&tree),
        Err(error) => assert!(error.0.starts_with(&*folder.0.to_string_lossy()), "{error}"),
    }
}

/// Writes every line to the stack; refused or not, it goes on.
fn write_all(tree: &[TreeGroup]) {
    let entry = hoistway::sched::find("bfq").expect("bfq is a scheduler");
    let mut stack = Stack::new(Device::new(Sectors(1 << 20), 8), entry, 16);
    for controller in hoistway::ctl::CONTROLLERS {
        stack.install(controller);
    }
    for group in tree {
        let id = match group.path.as_str() {
            "/" => hoistway::GroupId::ROOT,
            path => stack.add_group(Instant::ZERO, hoistway::GroupId::ROOT, path),
        };
        for (file, line) in &group.write {
            let before = stack.read_knob(id, file);
            let write = Input::Write { group: id, file: file.clone(), line: line.clone() };
            let refused = stack.handle(Instant::ZERO, write).is_err();
            while !matches!(stack.poll(Instant::ZERO), Output::WaitUntil(_)) {}
            assert!(!refused || stack.read_knob(id, file) == before, "{file}: {line:?}");
        }
    }
}

/// A recording of decisions, whose lines follow each other or are refused.
pub fn recording(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let _ = replay(text, &Recorded::linux_6_1());
}

/// A folder of this call alone, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("hoistway-fuzz-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the folder for temporary files can be written");
        Folder(path)
    }

    /// A file below it, if the path is one; what lies in the way of another stays.
    fn write(&self, path: &str, content: &str) {
        let plain = |c: Component<'_>| matches!(c, Component::Normal(name) if name.len() < 100);
        let path = Path::new(path);
        if path.as_os_str().is_empty()
            || path.components().count() > 6
            || !path.components().all(plain)
        {
            return;
        }
        let at = self.0.join(path);
        let parent = at.parent().expect("it lies below the folder");
        // May fail: a file where a folder should be, or the other way round.
        let _ = std::fs::create_dir_all(parent).and_then(|()| std::fs::write(&at, content));
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
