//! What somebody else does to the things of a guard between their making and their going. As root the folder around them
//! is user 65534's, who can move and exchange all that is in it; a user's attempts are made in the user's own.

use super::*;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::os::unix::fs::{chown, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

/// A folder of somebody else with a guard's folder and file in it, and things that nobody may touch.
struct Scene {
    scratch: Scratch,
    theirs: PathBuf,
    victim: PathBuf,
}

impl Scene {
    fn new(name: &str) -> Scene {
        let scratch = Scratch::new(name);
        let (theirs, victim) = (scratch.0.join("theirs"), scratch.0.join("victim"));
        for folder in [&theirs, &victim, &victim.join("inner")] {
            fs::create_dir(folder).unwrap();
        }
        if rustix::process::geteuid().is_root() {
            chown(&theirs, Some(65534), Some(65534)).unwrap();
        }
        for file in ["precious", "inner/precious", ".hoistway-7", "inner/.hoistway-7"] {
            fs::write(victim.join(file), file).unwrap();
        }
        Scene { scratch, theirs, victim }
    }

    fn guard(&self) -> Guard {
        Guard::begin_in(&System::real(), &self.scratch.0.join("state"), "a run").unwrap()
    }

    fn check(&self, attempt: &str) {
        for file in ["precious", "inner/precious", ".hoistway-7", "inner/.hoistway-7"] {
            let found = fs::read_to_string(self.victim.join(file));
            assert_eq!(found.ok().as_deref(), Some(file), "{attempt}: {file}");
        }
    }
}

/// What is done between making and removing, with the thing's path and the victim.
type Exchange = fn(&Path, &Path);

#[test]
fn what_was_exchanged_is_left_alone() {
    let attempts: [(&str, Exchange); 9] = [
        ("a link to another tree in its place", |own, victim| {
            fs::rename(own, own.with_extension("away")).unwrap();
            symlink(victim, own).unwrap();
        }),
        ("a link to another file in its place", |own, victim| {
            fs::rename(own, own.with_extension("away")).unwrap();
            symlink(victim.join("precious"), own).unwrap();
        }),
        ("another tree in its place", |own, victim| {
            fs::rename(own, own.with_extension("away")).unwrap();
            fs::rename(victim.join("inner"), own).unwrap();
        }),
        ("another name of another file in its place", |own, victim| {
            fs::rename(own, own.with_extension("away")).unwrap();
            fs::hard_link(victim.join("precious"), own).unwrap();
        }),
        ("a FIFO in its place", |own, _| {
            fs::rename(own, own.with_extension("away")).unwrap();
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mknodat(CWD, own, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        }),
        ("a link in place of the folder around it", |own, victim| {
            let around = own.parent().unwrap();
            fs::rename(around, around.with_extension("away")).unwrap();
            symlink(victim, around).unwrap();
        }),
        ("another tree in place of the folder around it", |own, victim| {
            let around = own.parent().unwrap();
            fs::rename(around, around.with_extension("away")).unwrap();
            fs::rename(victim.join("inner"), around).unwrap();
        }),
        ("it is moved elsewhere, and a tree with its name is there", |own, victim| {
            fs::rename(own, own.with_extension("away")).unwrap();
            fs::create_dir(own).unwrap();
            fs::rename(victim.join("inner"), own.join("inner")).unwrap();
        }),
        ("the folder around it is gone", |own, _| {
            let around = own.parent().unwrap();
            fs::rename(around, around.with_extension("away")).unwrap();
        }),
    ];
    for (attempt, exchange) in attempts {
        for is_folder in [true, false] {
            let scene = Scene::new("exchange");
            let own = scene.theirs.join(".hoistway-7");
            let mut guard = scene.guard();
            if is_folder {
                guard.make_dir(&place(&own)).unwrap();
                fs::write(own.join("data"), "x").unwrap();
            } else {
                guard.make_file(&place(&own)).unwrap();
            }
            exchange(&own, &scene.victim);
            let problems = guard.restore().unwrap_err();
            assert_eq!(problems.len(), 1, "{attempt}: {problems:?}");
            assert!(problems[0].contains(".hoistway-7"), "{attempt}: {problems:?}");
            // What was moved is where it was moved to, whole.
            let inner = [own.clone(), own.join("inner"), scene.theirs.clone()];
            let moved = inner.iter().find(|at| at.join("precious").exists());
            if let Some(at) = moved.filter(|_| !scene.victim.join("inner").exists()) {
                fs::rename(at, scene.victim.join("inner")).unwrap();
            }
            scene.check(attempt);
        }
    }
}

/// Set when it goes, so that no thread waits for ever behind a failure.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn exchanging_all_the_while_takes_nothing_of_others() {
    let scene = Scene::new("race");
    let (own, link) = (scene.theirs.join(".hoistway-7"), scene.theirs.join("link"));
    let mut removed = 0;
    for _ in 0..200 {
        symlink(&scene.victim, &link).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _stop = Stop(&stop);
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    // Fails while there is nothing of ours.
                    let _ = renameat_with(CWD, &own, CWD, &link, RenameFlags::EXCHANGE);
                }
            });
            let mut guard = scene.guard();
            // Not even made, if it was exchanged by then.
            if let Ok(dir) = guard.make_dir(&place(&own)) {
                let inner = dir.place("inner").unwrap().make_dir(0o700).unwrap();
                inner.place("precious").unwrap().create(0o600).unwrap();
                dir.place("precious").unwrap().create(0o600).unwrap();
            }
            removed += u32::from(guard.restore().is_ok());
        });
        for left in [&own, &link] {
            match fs::symlink_metadata(left).map(|meta| meta.is_dir()) {
                Ok(true) => fs::remove_dir_all(left).unwrap(),
                Ok(false) => fs::remove_file(left).unwrap(),
                Err(_) => {}
            }
        }
        scene.check("exchanging all the while");
    }
    println!("{removed} of 200 could be removed all the same");
}

#[test]
fn names_that_were_made_before_are_not_taken() {
    let scene = Scene::new("names");
    let own = scene.theirs.join(".hoistway-7");
    let takes: [(&str, Exchange); 4] = [
        ("a folder", |own, _| fs::create_dir(own).unwrap()),
        ("a link to a folder", |own, victim| symlink(victim, own).unwrap()),
        ("a link to nowhere", |own, victim| symlink(victim.join("new"), own).unwrap()),
        ("a file", |own, _| fs::write(own, "x").unwrap()),
    ];
    for (attempt, take) in takes {
        take(&own, &scene.victim);
        let mut guard = scene.guard();
        assert!(guard.make_dir(&place(&own)).is_err(), "{attempt}");
        assert!(guard.make_file(&place(&own)).is_err(), "{attempt}");
        assert_eq!(guard.restore(), Ok(()), "{attempt}");
        assert!(fs::symlink_metadata(&own).is_ok(), "{attempt}: it is gone");
        scene.check(attempt);
        assert!(!scene.victim.join("new").exists(), "{attempt}");
        let _ = fs::remove_dir(&own);
        let _ = fs::remove_file(&own);
    }
}

#[test]
fn a_wish_that_was_not_fulfilled_takes_nothing() {
    let scene = Scene::new("wish");
    let state = scene.scratch.0.join("state");
    let (folder, file) = (scene.theirs.join(".hoistway-7"), scene.theirs.join(".hoistway-8"));
    let wishes = |guard: &mut Guard| {
        guard.remember(NotedChange::Folder { path: folder.clone(), made: None }).unwrap();
        guard.remember(NotedChange::NewFile { path: file.clone(), made: None }).unwrap();
    };
    // The process died before it made them: links of others are at their places.
    let mut guard = scene.guard();
    wishes(&mut guard);
    drop(take_apart(guard));
    symlink(&scene.victim, &folder).unwrap();
    symlink(scene.victim.join("precious"), &file).unwrap();
    assert_eq!(repaired(&System::real(), &state, false)[0].problems, Vec::<String>::new());
    assert!(fs::symlink_metadata(&folder).is_ok() && fs::symlink_metadata(&file).is_ok());
    scene.check("links");
    // Just after: they are empty, and go.
    fs::remove_file(&folder).unwrap();
    fs::remove_file(&file).unwrap();
    let mut guard = scene.guard();
    wishes(&mut guard);
    drop(take_apart(guard));
    fs::create_dir(&folder).unwrap();
    fs::write(&file, "").unwrap();
    assert_eq!(repaired(&System::real(), &state, false)[0].problems, Vec::<String>::new());
    assert!(!folder.exists() && !file.exists());
    // What is not empty was not noted as ours.
    let mut guard = scene.guard();
    wishes(&mut guard);
    drop(take_apart(guard));
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("data"), "x").unwrap();
    fs::write(&file, "x").unwrap();
    assert_eq!(repaired(&System::real(), &state, false)[0].problems.len(), 2);
    assert!(folder.join("data").exists() && file.exists());
}

#[test]
fn a_loop_device_that_was_attached_anew_is_left_alone() {
    let Some(device) = Loop::new("anew") else { return };
    let ran = |command: &mut Command| assert!(command.output().unwrap().status.success());
    let name = device.device.trim_start_matches("/dev/").to_string();
    if !Path::new("/sys/block").join(&name).join("diskseq").exists() {
        println!("skipped: before Linux 5.15 attachments have no numbers");
        return;
    }
    let scheduler = |value: &str| put(&device.queue().attribute_file("scheduler"), value).unwrap();
    let mut guard = device.guard();
    guard.write(&device.queue().attribute_file("scheduler"), "none").unwrap();
    // Detached, and attached again by somebody else, to the same file.
    ran(Command::new("losetup").args(["-d", &device.device]));
    ran(Command::new("losetup").args([&device.device]).arg(&device.image));
    scheduler("none");
    let problems = guard.restore().unwrap_err();
    assert!(problems[0].contains("is not what was; left alone"), "{problems:?}");
    assert_eq!(device.queue().scheduler().unwrap(), "none");
    drop(guard);
    // Nor is such a device detached.
    let image = device.scratch.0.join("other");
    File::create(&image).unwrap().set_len(16 << 20).unwrap();
    let mut guard = device.guard();
    let own = guard.attach_loop(&image, LoopOptions::default()).unwrap();
    let path = own.path();
    ran(Command::new("losetup").arg("-d").arg(&path));
    ran(Command::new("losetup").arg(&path).arg(&image));
    let problems = guard.restore().unwrap_err();
    assert!(problems[0].contains("was attached anew"), "{problems:?}");
    let attached = super::super::super::loopdev::backing_file(own.number);
    assert_eq!(attached, Some(image.canonicalize().unwrap()));
    ran(Command::new("losetup").arg("-d").arg(&path));
    super::super::super::loopdev::remove_empty(own.number);
}

#[test]
fn a_mount_that_is_not_ours_is_left_alone() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: mounts need root");
        return;
    }
    let scene = Scene::new("mount");
    let at = scene.theirs.join(".hoistway-7");
    let tmpfs = |at: &Path| {
        Command::new("mount").args(["-t", "tmpfs", "x"]).arg(at).status().unwrap().success()
    };
    let mut guard = scene.guard();
    guard.make_dir(&place(&at)).unwrap();
    let mount = || {
        assert!(tmpfs(&at));
        Ok(())
    };
    guard.mount(&at, mount).unwrap();
    // Somebody takes it away, and mounts something else there.
    assert!(Command::new("umount").arg(&at).status().unwrap().success() && tmpfs(&at));
    fs::write(at.join("precious"), "x").unwrap();
    let problems = guard.restore().unwrap_err();
    assert!(problems[0].contains("left alone"), "{problems:?}");
    assert!(at.join("precious").exists());
    assert!(Command::new("umount").arg(&at).status().unwrap().success());
}

#[test]
fn a_process_of_somebody_else_is_not_ended() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can end processes of others");
        return;
    }
    let scene = Scene::new("process");
    let mut child = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "sleep", "100"])
        .spawn()
        .unwrap();
    // Until it is the other user's.
    let owner = || fs::metadata(format!("/proc/{}", child.id())).map(|meta| meta.uid());
    while owner().is_ok_and(|owner| owner != 65534) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let mut guard = scene.guard();
    guard.started(child.id()).unwrap();
    let problems = guard.restore().unwrap_err();
    assert!(problems[0].contains("is of user 65534"), "{problems:?}");
    assert_eq!(child.try_wait().unwrap(), None, "it lives");
    child.kill().unwrap();
    child.wait().unwrap();
}
