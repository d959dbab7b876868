//! What an unprivileged user tries so that a command of root changes what is not its own: each attempt is a row of a table.
//! Root's things lie in a folder `victim`, of which everything is compared before and after; the other user is number
//! 65534, and owns a folder `theirs`.
//!
//! More attempts, those between two steps of one command, are in `hoistway-machine/src/kernel/guard/tests/others.rs`.

use super::*;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

/// The other user.
const NOBODY: u32 = 65534;

/// One more, to whom things may belong.
const SOMEBODY: &str = "65533";

struct Scene {
    folder: Folder,
    theirs: PathBuf,
    victim: PathBuf,
    state: PathBuf,
}

impl Scene {
    fn new(name: &str) -> Scene {
        let folder = Folder::new(name);
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755)).unwrap();
        let [theirs, victim, state] = ["theirs", "victim", "state"].map(|part| folder.path(part));
        for path in [&theirs, &state] {
            fs::create_dir(path).unwrap();
        }
        chown(&theirs, Some(NOBODY), Some(NOBODY)).unwrap();
        for (path, text) in VICTIM {
            let path = victim.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Scene { folder, theirs, victim, state }
    }

    /// A state file of root's, with these lines.
    fn plant(&self, head: &str, lines: &str) -> PathBuf {
        let file = self.state.join("77-0.state");
        fs::write(&file, format!("{head}{lines}\n")).unwrap();
        file
    }

    /// Another folder than the usual one for state.
    fn run_in(&self, state: &Path, args: &[&str]) -> Output {
        let mut command = Command::new("timeout");
        command.args(["-k", "5", "60", HOISTWAY]).args(args).env("HOISTWAY_STATE_DIR", state);
        command.stdin(Stdio::null()).output().unwrap()
    }

    fn run(&self, args: &[&str]) -> Output {
        self.run_in(&self.state, args)
    }

    /// The command, once `prepare` has been told the number of its process.
    fn run_as(&self, prepare: impl FnOnce(u32), args: &[&str], temporary: Option<&Path>) -> Output {
        let go = self.folder.path("go");
        let wait = "while [ ! -e \"$0\" ]; do sleep 0.01; done; exec \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", wait]).arg(&go).arg(HOISTWAY).args(args);
        command.env("HOISTWAY_STATE_DIR", &self.state).current_dir(&self.folder.0);
        command.envs(temporary.map(|folder| ("TMPDIR", folder)));
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        prepare(child.id());
        fs::write(&go, "").unwrap();
        let output = child.wait_with_output().unwrap();
        fs::remove_file(go).unwrap();
        output
    }
}

/// What root has, and nobody else may change.
const VICTIM: [(&str, &str); 8] = [
    ("passwd", "root:x:0:0\n"),
    ("tree/a", "a"),
    ("tree/b/c", "c"),
    (".hoistway-7/data", "of another run\n"),
    (".hoistway-calibrate-7", "of another run\n"),
    ("disk/queue/scheduler", "none [bfq]\n"),
    ("group/io.cost.qos", "8:0 enable=1\n"),
    ("hoistway-7/cgroup.procs", ""),
];

/// Everything about a tree that somebody would miss.
fn all_of(path: &Path) -> Vec<String> {
    let meta = fs::symlink_metadata(path).unwrap();
    let kind = meta.file_type();
    let text = if kind.is_file() { fs::read(path).unwrap() } else { Vec::new() };
    let text = String::from_utf8_lossy(&text[..text.len().min(99)]).into_owned();
    let (mode, owner, len) = (meta.mode(), meta.uid(), if kind.is_file() { meta.len() } else { 0 });
    let mut rows = vec![format!("{} {mode:o} {owner} {len} {text:?}", path.display())];
    if kind.is_dir() {
        let inner = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        let mut inner: Vec<PathBuf> = inner.collect();
        inner.sort();
        rows.extend(inner.iter().flat_map(|path| all_of(path)));
    }
    rows
}

fn said(output: &Output) -> String {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{out}{err}")
}

/// The first lines of a state file of this start of the machine.
fn head(version: u32) -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    format!("hoistway-state {version}\nboot {}\nowner 77 compare x\n", boot.trim())
}

fn root_or_skip(tools: &[&str]) -> bool {
    tools.is_empty() && is_root() || !tools.is_empty() && there_is(tools) || {
        println!("skipped: only root is tempted by another user's files");
        false
    }
}

/// What is planted, how restore ends, and what it says.
type Planted = (&'static str, fn(&Scene), i32, &'static str);

/// A line that would change something of root's, if it were believed.
fn harm(scene: &Scene) -> String {
    format!("new-file\t{0}/.hoistway-calibrate-7\nfolder\t{0}/.hoistway-7", scene.victim.display())
}

#[test]
fn restore_obeys_no_state_that_others_could_have_written() {
    if !root_or_skip(&[]) {
        return;
    }
    let attempts: [Planted; 15] = [
        (
            "the folder may be written by everybody",
            |s| open_to(&s.state, 0o777),
            3,
            "permissions 777",
        ),
        ("the folder may be written under a sticky bit", |s| open_to(&s.state, 0o1777), 3, "1777"),
        (
            "the folder may be written by a group",
            |s| open_to(&s.state, 0o770),
            3,
            "permissions 770",
        ),
        ("the folder is another user's", |s| give(&s.state), 3, "owner 65534"),
        (
            "the folder lies in one of another user's",
            |s| fs::rename(&s.state, s.theirs.join("state")).unwrap(),
            3,
            "owner 65534",
        ),
        (
            "the folder is a link of another user's",
            |s| {
                fs::rename(&s.state, s.folder.path("elsewhere")).unwrap();
                symlink(s.folder.path("elsewhere"), s.theirs.join("state")).unwrap();
            },
            3,
            "another user can change",
        ),
        ("the file is another user's", |s| give(&s.state.join("77-0.state")), 1, "belongs to user"),
        (
            "everybody may write the file",
            |s| open_to(&s.state.join("77-0.state"), 0o666),
            1,
            "others",
        ),
        (
            "a group may write the file",
            |s| open_to(&s.state.join("77-0.state"), 0o620),
            1,
            "others",
        ),
        (
            "the file is a link",
            |s| {
                fs::rename(s.state.join("77-0.state"), s.theirs.join("x")).unwrap();
                symlink(s.theirs.join("x"), s.state.join("77-0.state")).unwrap();
            },
            1,
            "is a link",
        ),
        (
            "the file has another name elsewhere",
            |s| fs::hard_link(s.state.join("77-0.state"), s.theirs.join("x")).unwrap(),
            1,
            "has 2 names",
        ),
        (
            "the file is a FIFO",
            |s| {
                fs::remove_file(s.state.join("77-0.state")).unwrap();
                must("mkfifo", &[text(&s.state.join("77-0.state"))]);
            },
            1,
            "is a FIFO",
        ),
        (
            "the file is a folder",
            |s| {
                fs::remove_file(s.state.join("77-0.state")).unwrap();
                fs::create_dir(s.state.join("77-0.state")).unwrap();
            },
            1,
            "is a folder",
        ),
        (
            "the file has no end to speak of",
            |s| {
                let file = fs::OpenOptions::new().write(true).open(s.state.join("77-0.state"));
                file.unwrap().set_len(1 << 40).unwrap();
            },
            1,
            "has 1099511627776 bytes",
        ),
        (
            "the file is no text",
            |s| fs::write(s.state.join("77-0.state"), b"hoistway-state 1\n\xff\n").unwrap(),
            1,
            "is no text",
        ),
    ];
    for (attempt, plant, code, why) in attempts {
        let scene = Scene::new("state");
        scene.plant(&head(1), &harm(&scene));
        plant(&scene);
        let state = match scene.state.exists() {
            true => scene.state.clone(),
            false => scene.theirs.join("state"),
        };
        let before = all_of(&scene.victim);
        let output = scene.run_in(&state, &["restore"]);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(code), "{attempt}: {said}");
        assert!(said.contains(why) && said.contains(text(&state)), "{attempt}: {said}");
        assert_eq!(all_of(&scene.victim), before, "{attempt}");
        // Nor does a run write its own there.
        if code == 3 {
            let output = scene.run_in(&state, &["emulate", "--list"]);
            assert!(output.status.code() == Some(3) || !state.join("emulate").exists());
        }
    }
}

fn open_to(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn give(path: &Path) {
    chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
}

/// A line of a file of root's; `{v}`: the victim, `{t}`: the other user's folder, `{l}`: a loop device of root's, by its name.
const LINES: [(&str, &str); 24] = [
    ("a file of the system", "file\t{v}/passwd\tpwned"),
    (
        "a file of the kernel that hoistway does not write",
        "file\t/sys/block/{l}/queue/read_ahead_kb\t4",
    ),
    ("a file by way of '..'", "file\t/sys/fs/cgroup/../../..{v}/passwd\tpwned"),
    ("a file of no cgroup, by its key", "keyed\t{v}/group/io.cost.qos\t8:0\t8:0 pwned"),
    ("a file of another user's", "keyed\t{t}/io.cost.qos\t8:0\t8:0 pwned"),
    ("controllers of no cgroup", "enabled\t{v}/passwd\tio"),
    ("a cgroup that is none", "cgroup\t{v}/hoistway-7"),
    ("the group that all are in", "cgroup\t/sys/fs/cgroup"),
    ("a folder of the system", "folder\t{v}/tree\t{d}\t{i}"),
    ("a folder of the system, by way of '..'", "folder\t{v}/x/.hoistway-1/../../tree\t{d}\t{i}"),
    ("a folder, by a relative path", "folder\tvictim/tree\t{d}\t{i}"),
    ("a folder of a run, of which only the name is right", "folder\t{v}/.hoistway-7\t1\t1"),
    ("a folder of a run that has only just begun", "folder\t{v}/.hoistway-7"),
    ("a file of the system, as if it was made", "new-file\t{v}/passwd"),
    ("a file of a run, of which only the name is known", "new-file\t{v}/.hoistway-calibrate-7"),
    ("a mount of the system", "mount\t{v}/mnt"),
    ("a mount by way of '..'", "mount\t{v}/.hoistway-7/../mnt"),
    ("a loop device that was attached by root", "loop\t/dev/{l}\t{v}/image"),
    ("a loop device by way of '..'", "loop\t/dev/../dev/{l}\t{v}/image"),
    ("a disk, as if it was a loop device", "loop\t/dev/vda\t{v}/image"),
    ("process 1", "process\t1\t1"),
    ("a process of somebody else", "process\t{p}\t{s}"),
    ("a queue below another folder", "queue\tdisk\t8:0\t{q}\t{v}/disk\tscheduler=pwned"),
    ("nothing that hoistway knows", "run\trm -r {v}"),
];

#[test]
fn a_state_file_says_no_more_than_a_run_can_have_done() {
    if !root_or_skip(&["losetup", "mount", "setpriv"]) {
        return;
    }
    let scene = Scene::new("lines");
    let (image, mnt) = (scene.victim.join("image"), scene.victim.join("mnt"));
    fs::File::create(&image).unwrap().set_len(8 << 20).unwrap();
    fs::create_dir(&mnt).unwrap();
    must("mount", &["-t", "tmpfs", "victim", text(&mnt)]);
    let mounted_there = Mounted(mnt.clone());
    let device = Loop(must("losetup", &["--find", "--show", text(&image)]).trim().into());
    let name = device.0.trim_start_matches("/dev/").to_string();
    let mut child = Command::new("setpriv")
        .args(["--reuid", SOMEBODY, "--regid", SOMEBODY, "--clear-groups", "sleep", "600"])
        .spawn()
        .unwrap();
    let pid = child.id().to_string();
    let status = format!("/proc/{pid}/stat");
    assert!(until(10, || fs::metadata(&status).is_ok_and(|m| m.uid().to_string() == SOMEBODY)));
    let stat = fs::read_to_string(&status).unwrap();
    let started = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().to_string();
    let inode = |path: &str| fs::metadata(scene.victim.join(path)).unwrap().ino().to_string();
    let fill = |line: &str| {
        let tree = fs::metadata(scene.victim.join("tree")).unwrap();
        let line = line.replace("{v}", text(&scene.victim)).replace("{t}", text(&scene.theirs));
        let line = line.replace("{d}", &tree.dev().to_string()).replace("{i}", &inode("tree"));
        let line = line.replace("{p}", &pid).replace("{s}", &started);
        line.replace("{l}", &name).replace("{q}", &inode("disk/queue"))
    };
    let settings = || {
        let names = ["scheduler", "read_ahead_kb", "nr_requests"];
        names.map(|n| fs::read_to_string(format!("/sys/block/{name}/queue/{n}")).unwrap())
    };
    let (before, queue) = (all_of(&scene.victim), settings());
    for version in [1, 2] {
        for (attempt, line) in LINES {
            let line = fill(line);
            let file = scene.plant(&head(version), &line);
            let output = scene.run(&["restore"]);
            let said = said(&output);
            assert_eq!(output.status.code(), Some(1), "{attempt} ({line}): {said}");
            assert!(said.contains("not put back: "), "{attempt}: {said}");
            assert!(said.contains(text(&file)), "{attempt}: {said}");
            assert_eq!(all_of(&scene.victim), before, "{attempt}");
            assert!(mounted(&mnt), "{attempt}");
            assert_eq!(settings(), queue, "{attempt}");
            let attached = format!("/sys/block/{name}/loop/backing_file");
            let attached = fs::read_to_string(attached).unwrap_or_default();
            assert_eq!(attached.trim(), text(&image), "{attempt}");
            assert!(child.try_wait().unwrap().is_none(), "{attempt}: the process was ended");
            // It is kept until somebody has looked at it.
            assert!(file.exists(), "{attempt}");
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    drop((mounted_there, device));
}

/// Unmounted at the end.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        run("umount", &[text(&self.0)]);
    }
}

#[test]
fn the_settings_of_a_loop_device_are_not_those_of_the_next() {
    if !root_or_skip(&["losetup"]) {
        return;
    }
    let scene = Scene::new("anew");
    let images = ["one", "two"].map(|name| scene.folder.path(name));
    for image in &images {
        fs::File::create(image).unwrap().set_len(8 << 20).unwrap();
    }
    let device = Loop(must("losetup", &["--find", "--show", text(&images[0])]).trim().into());
    let name = device.0.trim_start_matches("/dev/").to_string();
    let folder = fs::canonicalize(format!("/sys/block/{name}")).unwrap();
    let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap().trim().to_string();
    let Ok(seq) = fs::read_to_string(folder.join("diskseq")) else {
        return println!("skipped: before Linux 5.15 attachments have no numbers");
    };
    let inode = fs::metadata(folder.join("queue")).unwrap().ino();
    let line = |seq: &str| {
        let (number, path) = (read("dev"), text(&folder));
        format!(
            "queue\t{name}\t{number}\t{inode}\t{path}\t{seq}\tread_ahead_kb=64\nwrote\t{path}\tread_ahead_kb"
        )
    };
    let noted = line(&format!("seq {}", seq.trim()));
    fs::write(folder.join("queue/read_ahead_kb"), "128").unwrap();
    // What was changed is put back while it is the same.
    scene.plant(&head(2), &noted);
    let output = scene.run(&["restore"]);
    assert_eq!((output.status.code(), read("queue/read_ahead_kb").as_str()), (Some(0), "64"));
    for image in images.iter().rev() {
        must("losetup", &["-d", &device.0]);
        must("losetup", &[&device.0, text(image)]);
        fs::write(folder.join("queue/read_ahead_kb"), "128").unwrap();
        scene.plant(&head(2), &noted);
        let output = scene.run(&["restore"]);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("what is attached there now is not what was"), "{said}");
        assert_eq!(read("queue/read_ahead_kb"), "128");
    }
    // An earlier hoistway did not note what was attached.
    scene.plant(&head(1), &line("").replacen("\t\t", "\t", 1));
    let output = scene.run(&["restore"]);
    assert_eq!((output.status.code(), read("queue/read_ahead_kb").as_str()), (Some(1), "128"));
    assert!(said(&output).contains("does not say what was attached"), "{}", said(&output));
}

#[test]
fn without_a_home_nobody_looks_into_a_folder_of_everybody() {
    if !root_or_skip(&["setpriv", "losetup"]) {
        return;
    }
    let common = Path::new("/tmp/hoistway");
    if common.exists() {
        return println!("skipped: {} is there already", common.display());
    }
    let scene = Scene::new("home");
    fs::create_dir(common).unwrap();
    let planted = common.join("77-0.state");
    fs::write(&planted, head(1) + &harm(&scene)).unwrap();
    open_to(common, 0o755);
    let before = all_of(&scene.victim);
    // As a user whose home the list of users does not have either, and as root.
    let as_user = ["--reuid", SOMEBODY, "--regid", SOMEBODY, "--clear-groups", HOISTWAY, "restore"];
    let user = Command::new("setpriv").args(as_user).env_clear().output().unwrap();
    let root = Command::new(HOISTWAY).args(["restore", "--dry-run"]).env_clear().output().unwrap();
    let kept = planted.exists();
    fs::remove_dir_all(common).unwrap();
    assert!(kept && all_of(&scene.victim) == before);
    assert!(!said(&root).contains("/tmp"), "{}", said(&root));
    let text = said(&user);
    if text.contains("Permission denied") || text.contains("failed to execute") {
        return println!("skipped: another user cannot run {HOISTWAY}: {text}");
    }
    assert_eq!(user.status.code(), Some(3), "{text}");
    assert!(text.contains("set XDG_STATE_HOME"), "{text}");
}

/// An experiment of a second.
const SMALL: &str = r#"
schema = 1
title = "Small"
about = "To be watched."
drives = ["plextor-px-256m5s"]
configs = ["none", "mq-deadline"]
workloads = ["writers"]
reps = 1

[host]
profile = "today"

[window]
head_start = "100ms"
ramp = "0s"
measured = "500ms"
grace = "20s"
target_interval = "100ms"
device_interval = "100ms"

[target]
load = "reader"
pattern = "rand"
size = "2 MiB"

[workload.writers]
summary = "three writers"

[[workload.writers.procs]]
name = "writer"
count = 3
load = "writer"
size = "2 MiB"
dsync = 2
"#;

/// A file system on a loop device of its own, for schedulers to be chosen under; `None`, with the reason printed.
fn disk(scene: &Scene) -> Option<(Loop, Mounted)> {
    let (image, at) = (scene.folder.path("disk.img"), scene.folder.path("disk"));
    fs::File::create(&image).unwrap().set_len(1 << 30).unwrap();
    fs::create_dir(&at).unwrap();
    let device = Loop(must("losetup", &["--find", "--show", text(&image)]).trim().into());
    must("mkfs.ext4", &["-q", &device.0]);
    must("mount", &[&device.0, text(&at)]);
    fs::write(scene.folder.path("small.toml"), SMALL).unwrap();
    Some((device, Mounted(at)))
}

#[test]
fn names_that_another_user_has_made_before_are_not_taken() {
    if !root_or_skip(&["losetup", "mkfs.ext4", "mount"]) {
        return;
    }
    let scene = Scene::new("names");
    let Some((_device, at)) = disk(&scene) else { return };
    let theirs = at.0.join("theirs");
    fs::create_dir(&theirs).unwrap();
    give(&theirs);
    let dir = text(&theirs);
    let kernel: &[&str] =
        &["compare", "./small.toml", "--on", "kernel", "--target-dir", dir, "--size", "400MB"];
    let engine: &[&str] =
        &["compare", "./small.toml", "--on", "engine", "--target-dir", dir, "--size", "400MB"];
    let calibrate: &[&str] = &["calibrate", dir, "--size", "64MiB", "--quick", "--quiet"];
    let bench: &[&str] = &["bench", dir, "--quick", "--fresh"];
    let background: &[&str] = &["emulate", "--drive", "no-such-drive", "--loop", "--background"];
    // The command, the name that it will use, and what the link leads to.
    let attempts = [
        ("compare --on kernel: the folder", kernel, ".hoistway-", "", "tree"),
        ("compare --on kernel: nowhere", kernel, ".hoistway-", "", "new"),
        ("bench: the folder", bench, ".hoistway-", "", "tree"),
        ("compare --on engine: the file", engine, ".hoistway-scratch-", "", "passwd"),
        ("compare --on engine: nowhere", engine, ".hoistway-scratch-", "", "new"),
        ("calibrate: the file", calibrate, ".hoistway-calibrate-", "", "passwd"),
        ("calibrate: nowhere", calibrate, ".hoistway-calibrate-", "", "new"),
        ("emulate --background: what it says", background, "hoistway-emulate.", ".log", "passwd"),
    ];
    let before = all_of(&scene.victim);
    for (attempt, args, begin, end, to) in attempts {
        let link = |pid: u32| theirs.join(format!("{begin}{pid}{end}"));
        let mut made = PathBuf::new();
        let prepare = |pid: u32| {
            made = link(pid);
            symlink(scene.victim.join(to), &made).unwrap();
        };
        let output = scene.run_as(prepare, args, Some(&theirs));
        let said = said(&output);
        assert!(!output.status.success(), "{attempt}: {said}");
        assert!(said.contains("xists") || attempt.starts_with("emulate"), "{attempt}: {said}");
        assert_eq!(all_of(&scene.victim), before, "{attempt}");
        assert!(fs::symlink_metadata(&made).is_ok_and(|m| m.is_symlink()), "{attempt}");
        fs::remove_file(&made).unwrap();
        assert_eq!(fs::read_dir(&theirs).unwrap().count(), 0, "{attempt}: something is left");
        assert_eq!(fs::read_dir(&scene.state).unwrap().count(), 0, "{attempt}");
    }
}

#[test]
fn what_another_user_exchanges_meanwhile_leads_nowhere() {
    if !root_or_skip(&["losetup", "mkfs.ext4", "mount"]) {
        return;
    }
    let scene = Scene::new("meanwhile");
    let Some((_device, at)) = disk(&scene) else { return };
    let attempts = [
        ("compare --on kernel: a link to a tree", "kernel", false),
        ("compare --on kernel: a link in place of the directory", "kernel", true),
        ("bench: a link to a tree", "bench", false),
        ("calibrate: a link to a file", "calibrate", false),
        ("calibrate: a link in place of the directory", "calibrate", true),
    ];
    let before = all_of(&scene.victim);
    for (attempt, verb, around) in attempts {
        let theirs = at.0.join("theirs");
        fs::create_dir(&theirs).unwrap();
        give(&theirs);
        let dir = text(&theirs);
        let mut command = Command::new(HOISTWAY);
        let (name, to) = match verb {
            "kernel" => {
                command.args(["compare", "./small.toml", "--on", "kernel", "--target-dir", dir]);
                command.args(["--size", "400MB", "--fresh"]);
                (".hoistway-", "tree")
            }
            "bench" => {
                command.args(["bench", dir, "--quick", "--fresh"]);
                (".hoistway-", "tree")
            }
            _ => {
                command.args(["calibrate", dir, "--size", "64MiB", "--quick", "--write"]);
                (".hoistway-calibrate-", "passwd")
            }
        };
        command.env("HOISTWAY_STATE_DIR", &scene.state).current_dir(&scene.folder.0);
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let own = theirs.join(format!("{name}{}", child.id()));
        let there = until(60, || own.exists() || child.try_wait().unwrap().is_some());
        assert!(there && own.exists(), "{attempt}: {}", said(&child.wait_with_output().unwrap()));
        // Its files would be found by these names.
        if around {
            fs::rename(&theirs, at.0.join("away")).unwrap();
            symlink(&scene.victim, &theirs).unwrap();
        } else {
            fs::rename(&own, theirs.join("away")).unwrap();
            symlink(scene.victim.join(to), &own).unwrap();
        }
        if verb != "kernel" {
            // They take minutes; the end is the same.
            std::thread::sleep(Duration::from_millis(2000));
            must("kill", &["-INT", &child.id().to_string()]);
        }
        let output = child.wait_with_output().unwrap();
        let said = said(&output);
        assert!(said.contains(name), "{attempt}: {said}");
        assert_eq!(all_of(&scene.victim), before, "{attempt}: {said}");
        let left = fs::read_dir(&scene.state).unwrap().count();
        assert_eq!(left, 1, "{attempt}: it is kept in mind: {said}");
        // By then the other user puts a tree of root's there.
        let again = scene.run(&["restore"]);
        assert_eq!(again.status.code(), Some(1), "{attempt}");
        assert_eq!(all_of(&scene.victim), before, "{attempt}");
        fs::remove_file(if around { &theirs } else { &own }).unwrap();
        let away = if around { at.0.join("away") } else { theirs.join("away") };
        let back = if around { &theirs } else { &own };
        fs::rename(away, back).unwrap();
        // What was moved back is found, and goes.
        let last = scene.run(&["restore"]);
        assert_eq!(last.status.code(), Some(0), "{attempt}: {}", super::others::said(&last));
        assert_eq!(fs::read_dir(&theirs).unwrap().count(), 0, "{attempt}");
        fs::remove_dir(&theirs).unwrap();
    }
}

#[test]
fn what_root_is_told_to_use_is_no_link_of_somebody_else() {
    if !root_or_skip(&["losetup", "mkfs.ext4", "mount"]) {
        return;
    }
    let scene = Scene::new("told");
    let Some((device, at)) = disk(&scene) else { return };
    must("cp", &["-a", text(&scene.victim), text(&at.0.join("victim"))]);
    let victim = at.0.join("victim");
    let theirs = &scene.theirs;
    symlink(&victim, theirs.join("dir")).unwrap();
    symlink(victim.join("passwd"), theirs.join("file")).unwrap();
    symlink(victim.join("new"), theirs.join("nowhere")).unwrap();
    symlink(&device.0, theirs.join("device")).unwrap();
    fs::write(theirs.join("precious"), "not of hoistway").unwrap();
    // Another name of a file lies in the file system of the file.
    let same = scene.victim.join("same");
    fs::File::create(&same).unwrap().set_len(1 << 20).unwrap();
    fs::hard_link(&same, theirs.join("hard")).unwrap();
    let path = |name: &str| text(&theirs.join(name)).to_string();
    let on =
        |world: &str| vec!["compare".into(), "./small.toml".into(), "--on".into(), world.into()];
    let with = |mut args: Vec<String>, more: &[&str]| {
        args.extend(more.iter().map(|word| word.to_string()));
        args
    };
    let words = |words: &[&str]| with(Vec::new(), words);
    // Large enough to be exported.
    let big = fs::File::create(victim.join("big")).unwrap();
    big.set_len(1 << 20).unwrap();
    symlink(victim.join("big"), theirs.join("storage")).unwrap();
    let base = fs::File::create(scene.folder.path("base")).unwrap();
    base.set_len(1 << 20).unwrap();
    let serve = |more: &[&str]| {
        let socket = path("socket").replace("/theirs/", "/");
        let args = vec!["serve".to_string(), "-q".into(), "--socket".into(), socket];
        with(args, more)
    };
    let export =
        |target: &str, name: &str| with(serve(&["-e"]), &[&format!("d={target}{}", path(name))]);
    let store = ["emulate", "--loop", "--drive", "fixed-100us", "--size", "1MiB", "--store"];
    let attempts: Vec<(&str, Vec<String>)> = vec![
        ("compare --on kernel", with(on("kernel"), &["--target-dir", &path("dir")])),
        ("compare --on engine", with(on("engine"), &["--target-dir", &path("dir")])),
        ("bench", words(&["bench", &path("dir"), "--quick"])),
        ("calibrate", words(&["calibrate", &path("dir"), "--quick"])),
        ("a device", with(on("kernel"), &["--device", &path("device")])),
        ("a device of the engine", with(on("engine"), &["--device", &path("device")])),
        ("emulate --store: a link", with(words(&store), &[&path("file")])),
        ("emulate --store: nowhere", with(words(&store), &[&path("nowhere")])),
        ("emulate --store: below a link", with(words(&store), &[&path("dir/new")])),
        ("emulate --store: another name", with(words(&store), &[&path("hard")])),
        ("emulate --store: a file of theirs", with(words(&store), &[&path("precious")])),
        ("emulate --store: a folder", with(words(&store), &[text(&victim)])),
        ("serve: a file", export("file:", "storage")),
        ("serve: a file, read only", with(export("file:", "storage"), &["-r"])),
        ("serve: data=, a link", export("emulate:fixed-100us:1M,data=", "file")),
        ("serve: data=, nowhere", export("emulate:fixed-100us:1M,data=", "nowhere")),
        ("serve: overlay=, a link", export("file:base,overlay=", "file")),
        ("serve: overlay=, nowhere", export("file:base,overlay=", "nowhere")),
        ("serve: a PID file", serve(&["-e", "d=ram:1M", "--pidfile", &path("file")])),
        ("serve: a PID file, nowhere", serve(&["-e", "d=ram:1M", "--pidfile", &path("nowhere")])),
        ("serve: a control socket", serve(&["-e", "d=ram:1M", "--control", &path("nowhere")])),
        ("serve: a socket", words(&["serve", "-q", "-e", "d=ram:1M", "-U", &path("nowhere")])),
        ("serve: FUSE", serve(&["-e", "d=ram:1M", "--fuse", &path("dir")])),
        (
            "compare --on engine --file",
            with(
                on("engine"),
                &["--yes-destroy-data", &path("storage"), "--file", &path("storage")],
            ),
        ),
        ("record: a link", words(&["record", "--all", "-o", &path("file")])),
        ("record: nowhere", words(&["record", "--all", "-o", &path("nowhere")])),
        ("record: below a link", words(&["record", "--all", "-o", &path("dir/new")])),
        ("record: a file of theirs", words(&["record", "--all", "-o", &path("precious")])),
        (
            "record: a file of root's",
            words(&["record", "--all", "-o", text(&victim.join("passwd"))]),
        ),
    ];
    let all = || (all_of(&victim), all_of(&scene.victim), all_of(theirs));
    let before = all();
    for (attempt, args) in attempts {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let output = scene.run_as(|_| {}, &args, None);
        let said = said(&output);
        assert!(matches!(output.status.code(), Some(1..=3)), "{attempt}: {said}");
        let named = args.iter().rev().find(|word| !word.starts_with('-')).unwrap();
        let named = named.rsplit_once(['=', ':']).map_or(*named, |(_, path)| path);
        let named = named.strip_suffix("/new").unwrap_or(named);
        assert!(said.contains(named), "{attempt}: {said}");
        assert_eq!(all(), before, "{attempt}");
    }
}

#[test]
fn cleanup_obeys_no_state_that_others_could_have_written() {
    if !root_or_skip(&["losetup"]) {
        return;
    }
    /// What is done, how, and what is said of it.
    type Attempt = (&'static str, fn(&Scene), &'static str);
    let attempts: [Attempt; 5] = [
        (
            "the file is another user's",
            |s| give(&s.state.join("emulate/77/state")),
            "belongs to user",
        ),
        ("the folder is another user's", |s| give(&s.state.join("emulate/77")), "owner 65534"),
        ("all folders are another user's", |s| give(&s.state.join("emulate")), "owner 65534"),
        (
            "everybody may write the file",
            |s| open_to(&s.state.join("emulate/77/state"), 0o666),
            "others",
        ),
        ("the drive lies elsewhere", |_| {}, "lies elsewhere"),
    ];
    for (attempt, plant, why) in attempts {
        let scene = Scene::new("cleanup");
        let image = scene.victim.join("image");
        fs::File::create(&image).unwrap().set_len(8 << 20).unwrap();
        let device = Loop(must("losetup", &["--find", "--show", text(&image)]).trim().into());
        let number = device.0.trim_start_matches("/dev/loop");
        let folder = scene.state.join("emulate/77");
        fs::create_dir_all(folder.join("mnt")).unwrap();
        let lines = format!("drive x\nbacking {}\nown 0\nloop {number}\n", text(&image));
        fs::write(folder.join("state"), lines).unwrap();
        plant(&scene);
        let before = all_of(&scene.victim);
        let output = scene.run(&["emulate", "--cleanup"]);
        let said = said(&output);
        assert!(matches!(output.status.code(), Some(1..=3)), "{attempt}: {said}");
        assert!(said.contains(why), "{attempt}: {said}");
        let attached = format!("/sys/block/loop{number}/loop/backing_file");
        assert_eq!(fs::read_to_string(attached).unwrap().trim(), text(&image), "{attempt}");
        assert_eq!(all_of(&scene.victim), before, "{attempt}");
        assert!(folder.exists(), "{attempt}");
    }
}
