//! On made-up files, and on a loop device where root runs them.

use super::super::state::{Repaired, repair_in};
use super::*;
use std::process::Command;

/// What is put back of runs whose files are all believed.
fn repaired(system: &System, folder: &Path, dry_run: bool) -> Vec<Repaired> {
    let found = repair_in(system, folder, dry_run);
    assert_eq!(found.refused, []);
    found.runs
}

fn place(path: &Path) -> Place {
    Place::of(path).unwrap()
}

/// A folder for one test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path =
            std::env::temp_dir().join(format!("hoistway-guard-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A loop device on a sparse file, which goes with it.
struct Loop {
    device: String,
    image: PathBuf,
    scratch: Scratch,
    state: PathBuf,
}

impl Loop {
    /// `None`, with the reason printed, where there can be none.
    fn new(name: &str) -> Option<Loop> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: loop devices need root");
            return None;
        }
        let scratch = Scratch::new(name);
        let image = scratch.0.join("image");
        File::create(&image).unwrap().set_len(64 << 20).unwrap();
        let made = Command::new("losetup").args(["-f", "--show"]).arg(&image).output();
        let Some(made) = made.ok().filter(|made| made.status.success()) else {
            eprintln!("skipped: losetup makes no loop device");
            return None;
        };
        let device = String::from_utf8(made.stdout).unwrap().trim().to_string();
        let state = scratch.0.join("state");
        let this = Loop { device, image, scratch, state };
        // What an earlier user of this device has left.
        for scheduler in ["none", "mq-deadline"] {
            put(&this.queue().attribute_file("scheduler"), scheduler).unwrap();
        }
        Some(this)
    }

    fn queue(&self) -> Queue {
        Queue::by_name(&System::real(), self.device.trim_start_matches("/dev/")).unwrap()
    }

    fn guard(&self) -> Guard {
        Guard::begin_in(&System::real(), &self.state, "a test").unwrap()
    }

    /// Every file of the queue, not only those that the guard looks at.
    fn all(&self) -> Vec<(PathBuf, String)> {
        let mut rows = Vec::new();
        let queue = self.queue().folder.join("queue");
        for folder in [queue.clone(), queue.join("iosched")] {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                rows.extend(line(&entry.path()).map(|text| (entry.path(), text)));
            }
        }
        let depth = self.queue().depth().map(|depth| depth.to_string());
        rows.push(("depth".into(), depth.unwrap_or_default()));
        rows.sort();
        rows
    }

    /// Whatever a run might do to a queue.
    fn change_everything(&self, guard: &mut Guard) {
        let queue = self.queue();
        let mut write = |name: &str, value: &str| {
            let file = queue.attribute_file(name);
            // What the scheduler at the beginning does not have.
            if name == "iosched/fifo_batch" && !file.exists() {
                return;
            }
            guard.write(&file, value).unwrap();
        };
        write("read_ahead_kb", "64");
        write("nr_requests", "99");
        write("iosched/fifo_batch", "3");
        write("scheduler", "none");
        write("nr_requests", "32");
        write("scheduler", "bfq");
        write("iosched/slice_idle", "0");
        write("iosched/low_latency", "0");
        write("scheduler", "mq-deadline");
        write("iosched/writes_starved", "7");
        write("nomerges", "2");
        write("max_sectors_kb", "128");
        write("wbt_lat_usec", "0");
        write("scheduler", "kyber");
        write("iosched/read_lat_nsec", "1000000");
        write("rotational", "0");
        write("iostats", "0");
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.device]).status();
    }
}

#[test]
fn everything_of_a_queue_is_as_it_was() {
    let Some(device) = Loop::new("queue") else { return };
    let queue = device.queue();
    let set = |name: &str, value: &str| put(&queue.attribute_file(name), value).unwrap();
    // Each way that a machine may have been set up.
    let setups: [&[(&str, &str)]; 5] = [
        &[],
        &[("iosched/fifo_batch", "5"), ("nr_requests", "200"), ("read_ahead_kb", "96")],
        &[("scheduler", "bfq"), ("iosched/slice_idle", "4"), ("iosched/low_latency", "0")],
        &[("scheduler", "none"), ("nr_requests", "20"), ("wbt_lat_usec", "1234")],
        &[("scheduler", "kyber"), ("scheduler", "none")],
    ];
    for setup in setups {
        setup.iter().for_each(|(name, value)| set(name, value));
        let before = device.all();
        let mut guard = device.guard();
        device.change_everything(&mut guard);
        assert_ne!(device.all(), before);
        // Between two runs, and then once more.
        guard.reset(&queue).unwrap();
        assert_eq!(device.all(), before, "{setup:?}");
        device.change_everything(&mut guard);
        assert_eq!(guard.restore(), Ok(()), "{setup:?}");
        assert_eq!(device.all(), before, "{setup:?}");
        assert_eq!(fs::read_dir(&device.state).unwrap().count(), 0, "a state file is left");
    }
}

#[test]
fn a_read_ahead_that_the_kernel_moved_is_put_back() {
    let Some(device) = Loop::new("ahead") else { return };
    let queue = device.queue();
    put(&queue.attribute_file("read_ahead_kb"), "96").unwrap();
    let before = device.all();
    let mut guard = device.guard();
    // Linux 6.18 makes the read-ahead twice that; older ones leave it.
    guard.write(&queue.attribute_file("max_sectors_kb"), "256").unwrap();
    assert_eq!(guard.restore(), Ok(()));
    assert_eq!(device.all(), before);
}

#[test]
fn files_that_were_not_written_stay_as_others_set_them() {
    let Some(device) = Loop::new("others") else { return };
    let queue = device.queue();
    let mut guard = device.guard();
    guard.write(&queue.attribute_file("scheduler"), "bfq").unwrap();
    put(&queue.attribute_file("read_ahead_kb"), "52").unwrap();
    guard.restore().unwrap();
    assert_eq!(queue.attribute("read_ahead_kb").as_deref(), Some("52"));
    assert_eq!(queue.scheduler().unwrap(), "mq-deadline");
}

#[test]
fn what_a_killed_run_left_is_repaired_and_nothing_begins_before() {
    let Some(device) = Loop::new("killed") else { return };
    let before = device.all();
    let mut guard = device.guard();
    device.change_everything(&mut guard);
    let changed = device.all();
    // As by kill -9: no restore, and the locks go with the files.
    drop(take_apart(guard));
    assert_eq!(device.all(), changed);
    let error = device.guard().hold(&device.queue()).unwrap_err().to_string();
    assert!(error.contains("run `hoistway restore` first"), "{error}");
    let dry = repaired(&System::real(), &device.state, true);
    assert_eq!((dry.len(), dry[0].alive, dry[0].rebooted), (1, false, false));
    assert!(dry[0].changes[0].contains("scheduler mq-deadline"), "{:?}", dry[0].changes);
    assert_eq!(device.all(), changed);
    let done = repaired(&System::real(), &device.state, false);
    assert_eq!(done[0].problems, Vec::<String>::new());
    assert_eq!(device.all(), before);
    assert!(repaired(&System::real(), &device.state, false).is_empty());
}

/// The guard without its end.
fn take_apart(mut guard: Guard) -> Guard {
    guard.done = true;
    guard
}

#[test]
fn a_queue_belongs_to_one_process_at_a_time() {
    let Some(device) = Loop::new("two") else { return };
    let mut guard = device.guard();
    guard.hold(&device.queue()).unwrap();
    // A guard within a guard is of the same process.
    let mut inner = device.guard();
    inner.write(&device.queue().attribute_file("scheduler"), "bfq").unwrap();
    inner.restore().unwrap();
    let folder = device.queue().folder.join("queue");
    let other = Command::new("flock").arg("-n").arg(&folder).arg("true").status();
    assert!(!other.unwrap().success(), "still held by the outer one");
    guard.restore().unwrap();
    let other = Command::new("flock").arg("-n").arg(&folder).arg("true").status();
    assert!(other.unwrap().success());
}

#[test]
fn folders_files_mounts_and_loop_devices_go() {
    let Some(device) = Loop::new("mounts") else { return };
    let scratch = Scratch::new("mounts-own");
    let (image, at) = (scratch.0.join(".hoistway-image"), scratch.0.join(".hoistway-at"));
    let mut guard = device.guard();
    guard.make_file(&place(&image)).unwrap().set_len(16 << 20).unwrap();
    let own = guard.attach_loop(&image, LoopOptions::default()).unwrap();
    // Its queue goes with it: no lock, nothing to remember.
    let queue = Queue::by_name(&System::real(), &own.name()).unwrap();
    let known = guard.changes().len();
    guard.write(&queue.attribute_file("read_ahead_kb"), "40").unwrap();
    assert_eq!(guard.changes().len(), known);
    let ran = |command: &mut Command| assert!(command.output().unwrap().status.success());
    ran(Command::new("mkfs.ext4").arg("-q").arg(own.path()));
    guard.make_dir(&place(&at)).unwrap();
    let mount = || {
        ran(Command::new("mount").arg(own.path()).arg(&at));
        Ok(())
    };
    guard.mount(&at, mount).unwrap();
    guard.make_dir(&place(&at.join(".hoistway-deep"))).unwrap();
    fs::write(at.join(".hoistway-deep/file"), "data").unwrap();
    assert_eq!(guard.restore(), Ok(()));
    assert!(!at.exists() && !image.exists());
    let attached = format!("/sys/block/{}/loop", own.name());
    assert!(!Path::new(&attached).exists(), "still attached");
}

/// A machine of files with one hierarchy of cgroups, which was started.
fn machine(scratch: &Scratch) -> (System, PathBuf) {
    let files = [
        ("proc/self/mountinfo", "32 31 0:29 / /group rw - cgroup2 cgroup2 rw\n"),
        ("proc/sys/kernel/random/boot_id", "one\n"),
        ("group/blkio.bfq.weight", "old\n"),
    ];
    for (name, text) in files {
        let file = scratch.0.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    (System::below(&scratch.0), scratch.0.join("group/blkio.bfq.weight"))
}

#[test]
fn what_outlives_a_reboot_is_removed_and_the_rest_forgotten() {
    let scratch = Scratch::new("reboot");
    let (system, setting) = machine(&scratch);
    let state = scratch.0.join("state");
    let mut guard = Guard::begin_in(&system, &state, "a run").unwrap();
    guard.write(&setting, "new").unwrap();
    let files = scratch.0.join(".hoistway-files");
    guard.make_dir(&place(&files)).unwrap();
    fs::create_dir(files.join("a")).unwrap();
    fs::write(files.join("a/b"), "x").unwrap();
    drop(take_apart(guard));
    fs::write(system.path("/proc/sys/kernel/random/boot_id"), "two\n").unwrap();
    let done = repaired(&system, &state, false);
    assert!(done[0].rebooted && done[0].problems.is_empty(), "{:?}", done[0].problems);
    assert_eq!(done[0].changes, [format!("folder {}", files.display())]);
    assert!(!files.exists());
    assert_eq!(fs::read_to_string(&setting).unwrap().trim(), "new");
}

#[test]
fn a_folder_that_is_not_ours_stays() {
    let scratch = Scratch::new("foreign");
    let system = System::real();
    let state = scratch.0.join("state");
    let folder = scratch.0.join(".hoistway-folder");
    fs::create_dir(&folder).unwrap();
    let mut guard = Guard::begin_in(&system, &state, "a run").unwrap();
    let error = guard.make_dir(&place(&folder)).unwrap_err().to_string();
    assert!(error.contains("exists already"), "{error}");
    let own = scratch.0.join(".hoistway-own");
    guard.make_dir(&place(&own)).unwrap();
    // Somebody replaces it: another folder of that name is not what was made.
    fs::rename(&own, scratch.0.join("moved")).unwrap();
    fs::create_dir(&own).unwrap();
    fs::write(own.join("precious"), "x").unwrap();
    let problems = guard.restore().unwrap_err();
    assert!(problems[0].contains("is not what was made"), "{problems:?}");
    assert!(own.join("precious").exists() && folder.exists());
}

#[test]
fn what_no_run_changes_is_not_changed() {
    let scratch = Scratch::new("limits");
    let system = System::real();
    let state = scratch.0.join("state");
    let mut guard = Guard::begin_in(&system, &state, "a run").unwrap();
    let file = scratch.0.join("passwd");
    fs::write(&file, "root").unwrap();
    assert!(guard.write(&file, "x").unwrap_err().to_string().contains("cgroup"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "root");
    assert!(guard.make_dir(&place(&scratch.0.join("folder"))).is_err());
    assert!(guard.make_file(&place(&scratch.0.join("file"))).is_err());
    assert!(guard.make_group(&scratch.0.join("hoistway-1")).is_err());
    assert!(guard.changes().is_empty());
    drop(guard);
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 2);
}

#[test]
fn values_go_back_in_reverse_order_and_once() {
    let scratch = Scratch::new("values");
    let (system, file) = machine(&scratch);
    let mut guard = Guard::begin_in(&system, &scratch.0.join("state"), "a run").unwrap();
    assert_eq!(guard.write(&file, "new").unwrap(), "new");
    guard.write(&file, "odd").unwrap();
    assert_eq!(guard.changes().len(), 1);
    drop(guard);
    assert_eq!(line(&file).as_deref(), Some("old"));
}

#[test]
fn a_process_is_ended_only_if_it_is_the_one() {
    let scratch = Scratch::new("process");
    let mut guard = Guard::begin_in(&System::real(), &scratch.0.join("state"), "a run").unwrap();
    let mut child = Command::new("sleep").arg("100").spawn().unwrap();
    guard.started(child.id()).unwrap();
    assert!(start_of(&System::real(), child.id()).is_some());
    guard.restore().unwrap();
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    assert_eq!(start_of(&System::real(), child.id()), None);
}

/// The controller of I/O, on a loop device; `None`, with the reason printed, where there is none.
fn groups(device: &Loop) -> Option<super::super::Groups> {
    let groups = super::super::Groups::open(&[device.queue()]);
    if groups.word() == "none" {
        eprintln!("skipped: {}", groups.lacks("io.max").unwrap());
        return None;
    }
    Some(groups)
}

#[test]
fn groups_are_made_written_joined_and_taken_away() {
    let Some(device) = Loop::new("groups") else { return };
    let Some(groups) = groups(&device) else { return };
    let root = groups.root();
    let enabled = || line(&root.join("cgroup.subtree_control"));
    let before = enabled();
    let mut guard = device.guard();
    let base =
        groups.make(&mut guard, &root, &format!("hoistway-test-{}", std::process::id())).unwrap();
    let gold = groups.make(&mut guard, &base, "gold").unwrap();
    if groups.lacks("io.max").is_none() {
        groups.write(&mut guard, &gold, "io.max", "8:0 rbps=1048576 wbps=max riops=50").unwrap();
        let file = match groups.word() {
            "v1" => "blkio.throttle.read_bps_device",
            _ => "io.max",
        };
        let text = line(&gold.join(file)).unwrap();
        let number = device.queue().number;
        assert!(text.starts_with(&number) && text.contains("1048576"), "{text}");
        let error = groups.write(&mut guard, &gold, "io.max", "8:0 speed=1").unwrap_err();
        assert!(error.to_string().contains("io.max"), "{error}");
    }
    if groups.lacks("io.bfq.weight").is_none() {
        guard.write(&device.queue().attribute_file("scheduler"), "bfq").unwrap();
        groups.write(&mut guard, &gold, "weight", "300").unwrap();
        let file = if groups.word() == "v1" { "blkio.bfq.weight" } else { "io.bfq.weight" };
        assert!(line(&gold.join(file)).unwrap().ends_with("300"));
        let error = groups.write(&mut guard, &gold, "weight", "5000").unwrap_err();
        assert!(error.to_string().contains("'5000'"), "{error}");
    }
    let mut child = Command::new("sleep").arg("100").spawn().unwrap();
    groups.join(&gold, child.id()).unwrap();
    assert_eq!(line(&gold.join("cgroup.procs")), Some(child.id().to_string()));
    assert_eq!(guard.restore(), Ok(()));
    assert!(!base.exists());
    // Whoever was in it goes on, in the group above.
    let of = fs::read_to_string(format!("/proc/{}/cgroup", child.id())).unwrap();
    assert!(!of.contains("hoistway-test"), "{of}");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(enabled(), before);
}

#[test]
fn what_a_hierarchy_has_no_file_for_is_a_lack() {
    let Some(device) = Loop::new("lacks") else { return };
    let Some(groups) = groups(&device) else { return };
    if groups.word() == "v1" {
        for file in ["io.latency", "io.cost.qos", "io.weight"] {
            let lack = groups.lacks(file).unwrap();
            assert!(lack.remedy.contains("cgroup_no_v1=blkio"), "{lack}");
        }
    }
    assert_eq!(groups.lacks("io.low").unwrap().why, "no kernel of today has it");
    let left = fs::read_dir(groups.root()).unwrap().flatten();
    let left = left.filter(|e| e.file_name().to_string_lossy().starts_with("hoistway-look"));
    assert_eq!(left.count(), 0);
}

#[test]
fn a_panic_and_an_error_put_back_what_was_changed() {
    let Some(device) = Loop::new("panic") else { return };
    let before = device.all();
    let panicked = std::panic::catch_unwind(|| {
        let mut guard = device.guard();
        device.change_everything(&mut guard);
        assert_ne!(device.all(), before);
        panic!("in the middle of a run");
    });
    assert!(panicked.is_err());
    assert_eq!(device.all(), before);
    let failed = || -> Result<(), MachineError> {
        let mut guard = device.guard();
        device.change_everything(&mut guard);
        guard.write(&device.queue().attribute_file("scheduler"), "no-such-scheduler")?;
        Ok(())
    };
    let error = failed().unwrap_err().to_string();
    assert!(error.contains("queue/scheduler: writing 'no-such-scheduler'"), "{error}");
    assert_eq!(device.all(), before);
    assert_eq!(fs::read_dir(&device.state).unwrap().count(), 0);
}

#[test]
fn a_folder_on_a_file_system_that_is_not_mounted_is_kept_in_mind() {
    let Some(device) = Loop::new("unmounted") else { return };
    let scratch = Scratch::new("unmounted-own");
    let at = scratch.0.join("at");
    fs::create_dir(&at).unwrap();
    let ran = |command: &mut Command| assert!(command.output().unwrap().status.success());
    ran(Command::new("mkfs.ext4").arg("-q").arg(&device.device));
    ran(Command::new("mount").arg(&device.device).arg(&at));
    let mut guard = device.guard();
    let files = at.join(".hoistway-files");
    guard.make_dir(&place(&files)).unwrap();
    fs::write(files.join("x"), "x").unwrap();
    ran(Command::new("umount").arg(&at));
    let problems = guard.restore().unwrap_err();
    assert!(problems[0].contains("its file system is not mounted"), "{problems:?}");
    drop(guard);
    // By another device, as after a reboot that finds the disks in another order.
    let other = Command::new("losetup").args(["-f", "--show"]).arg(&device.image).output().unwrap();
    let other = String::from_utf8(other.stdout).unwrap();
    ran(Command::new("mount").arg(other.trim()).arg(&at));
    let done = repaired(&System::real(), &device.state, false);
    assert_eq!((done.len(), done[0].problems.len()), (1, 0), "{done:?}");
    assert!(!files.exists());
    ran(Command::new("umount").arg(&at));
    ran(Command::new("losetup").args(["-d", other.trim()]));
}

#[test]
fn what_was_put_back_is_not_put_back_again() {
    let scratch = Scratch::new("marks");
    let (system, state) = (System::real(), scratch.0.join("state"));
    let mut guard = Guard::begin_in(&system, &state, "a run").unwrap();
    let names = [".hoistway-1", ".hoistway-2", ".hoistway-3"].map(|name| scratch.0.join(name));
    for folder in &names {
        guard.make_dir(&place(folder)).unwrap();
    }
    drop(take_apart(guard));
    // A second one of that name, which nobody has made.
    fs::rename(&names[1], scratch.0.join("moved")).unwrap();
    fs::create_dir(&names[1]).unwrap();
    let done = repaired(&system, &state, false);
    assert!(done[0].kept && done[0].problems.len() == 1, "{done:?}");
    assert_eq!(done[0].changes.len(), 2);
    assert!(!names[0].exists() && names[1].exists() && !names[2].exists());
    // Others that have the names by now have nothing to do with the run.
    fs::create_dir(&names[0]).unwrap();
    let again = repaired(&system, &state, false);
    assert_eq!((again[0].changes.len(), again[0].problems.len()), (0, 1), "{again:?}");
    assert!(names[0].exists());
    fs::remove_dir(&names[1]).unwrap();
    fs::rename(scratch.0.join("moved"), &names[1]).unwrap();
    let last = repaired(&system, &state, false);
    assert_eq!((last[0].changes.len(), last[0].kept), (1, false), "{last:?}");
    assert!(repaired(&system, &state, false).is_empty());
}

mod others;
