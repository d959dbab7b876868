//! On made-up files, and on a loop device where root runs them.

use super::super::state::repair_in;
use super::*;
use std::process::Command;

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
    _scratch: Scratch,
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
        let this = Loop { device, _scratch: scratch, state };
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
    let dry = repair_in(&System::real(), &device.state, true).unwrap();
    assert_eq!((dry.len(), dry[0].alive, dry[0].rebooted), (1, false, false));
    assert!(dry[0].changes[0].contains("scheduler mq-deadline"), "{:?}", dry[0].changes);
    assert_eq!(device.all(), changed);
    let done = repair_in(&System::real(), &device.state, false).unwrap();
    assert_eq!(done[0].problems, Vec::<String>::new());
    assert_eq!(device.all(), before);
    assert!(repair_in(&System::real(), &device.state, false).unwrap().is_empty());
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
    let (image, at) = (scratch.0.join("image"), scratch.0.join("at"));
    let mut guard = device.guard();
    guard.made_file(&image).unwrap();
    File::create(&image).unwrap().set_len(16 << 20).unwrap();
    let free = Command::new("losetup").arg("-f").output().unwrap();
    let own = PathBuf::from(String::from_utf8(free.stdout).unwrap().trim());
    guard.attached_loop(&own, &image).unwrap();
    let ran = |command: &mut Command| assert!(command.output().unwrap().status.success());
    ran(Command::new("losetup").arg(&own).arg(&image));
    // Its queue goes with it: no lock, nothing to remember.
    let name = own.file_name().unwrap().to_str().unwrap();
    let queue = Queue::by_name(&System::real(), name).unwrap();
    let known = guard.changes().len();
    guard.write(&queue.attribute_file("read_ahead_kb"), "40").unwrap();
    assert_eq!(guard.changes().len(), known);
    ran(Command::new("mkfs.ext4").arg("-q").arg(&own));
    guard.make_dir(&at).unwrap();
    guard.mounted(&at).unwrap();
    ran(Command::new("mount").arg(&own).arg(&at));
    guard.make_dir(&at.join("deep")).unwrap();
    fs::write(at.join("deep/file"), "data").unwrap();
    assert_eq!(guard.restore(), Ok(()));
    assert!(!at.exists() && !image.exists());
    let attached = format!("/sys/block/{}/loop", own.file_name().unwrap().to_str().unwrap());
    assert!(!Path::new(&attached).exists(), "still attached");
}

#[test]
fn what_outlives_a_reboot_is_removed_and_the_rest_forgotten() {
    let scratch = Scratch::new("reboot");
    let system = System::below(&scratch.0);
    let boot = system.path("/proc/sys/kernel/random/boot_id");
    fs::create_dir_all(boot.parent().unwrap()).unwrap();
    fs::write(&boot, "one\n").unwrap();
    let state = scratch.0.join("state");
    let setting = scratch.0.join("setting");
    fs::write(&setting, "old\n").unwrap();
    let mut guard = Guard::begin_in(&system, &state, "a run").unwrap();
    guard.write(&setting, "new").unwrap();
    let files = scratch.0.join("files");
    guard.make_dir(&files).unwrap();
    fs::create_dir(files.join("a")).unwrap();
    fs::write(files.join("a/b"), "x").unwrap();
    drop(take_apart(guard));
    fs::write(&boot, "two\n").unwrap();
    let done = repair_in(&system, &state, false).unwrap();
    assert!(done[0].rebooted && done[0].problems.is_empty());
    assert_eq!(done[0].changes, [format!("folder {}", files.display())]);
    assert!(!files.exists());
    assert_eq!(fs::read_to_string(&setting).unwrap().trim(), "new");
}

#[test]
fn a_folder_that_is_not_ours_stays() {
    let scratch = Scratch::new("foreign");
    let system = System::real();
    let state = scratch.0.join("state");
    let folder = scratch.0.join("folder");
    fs::create_dir(&folder).unwrap();
    let mut guard = Guard::begin_in(&system, &state, "a run").unwrap();
    assert!(guard.make_dir(&folder).unwrap_err().to_string().contains("exists already"));
    let own = scratch.0.join("own");
    guard.make_dir(&own).unwrap();
    // Somebody replaces it: another folder of that name is not what was made.
    fs::rename(&own, scratch.0.join("moved")).unwrap();
    fs::create_dir(&own).unwrap();
    fs::write(own.join("precious"), "x").unwrap();
    let problems = guard.restore().unwrap_err();
    assert!(problems[0].contains("is not the folder that was made"), "{problems:?}");
    assert!(own.join("precious").exists() && folder.exists());
}

#[test]
fn values_go_back_in_reverse_order_and_once() {
    let scratch = Scratch::new("values");
    let file = scratch.0.join("value");
    fs::write(&file, "first\n").unwrap();
    let mut guard = Guard::begin_in(&System::real(), &scratch.0.join("state"), "a run").unwrap();
    assert_eq!(guard.write(&file, "other").unwrap(), "other");
    guard.write(&file, "third").unwrap();
    assert_eq!(guard.changes().len(), 1);
    drop(guard);
    assert_eq!(line(&file).as_deref(), Some("first"));
}

#[test]
fn a_process_is_ended_only_if_it_is_the_one() {
    let scratch = Scratch::new("process");
    let mut guard = Guard::begin_in(&System::real(), &scratch.0.join("state"), "a run").unwrap();
    let mut child = Command::new("sleep").arg("100").spawn().unwrap();
    guard.started(child.id()).unwrap();
    assert!(undo::start_of(&System::real(), child.id()).is_some());
    guard.restore().unwrap();
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    assert_eq!(undo::start_of(&System::real(), child.id()), None);
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
    let failed = || -> Result<(), LiveError> {
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
    guard.make_dir(&at.join("files")).unwrap();
    fs::write(at.join("files/x"), "x").unwrap();
    ran(Command::new("umount").arg(&at));
    let problems = guard.restore().unwrap_err();
    assert!(problems[0].contains("its file system is not mounted"), "{problems:?}");
    drop(guard);
    ran(Command::new("mount").arg(&device.device).arg(&at));
    let done = repair_in(&System::real(), &device.state, false).unwrap();
    assert_eq!((done.len(), done[0].problems.len()), (1, 0));
    assert!(!at.join("files").exists());
    ran(Command::new("umount").arg(&at));
}
