//! `hoistway emulate`: a file as a block device that behaves like a drive, and what is left of it when it ends.

use super::*;

/// `hoistway emulate` with a loop device.
fn emulator(args: &[&str]) -> Option<hoistway_machine::emulator::EmulatorProcess> {
    if !there_is(&["losetup", "mkfs.ext4", "e2fsck", "blkdiscard"]) {
        return None;
    }
    let all = [&["--anyway"], args].concat();
    match hoistway_machine::emulator::EmulatorProcess::start(Path::new(HOISTWAY), &all) {
        Ok(process) => Some(process),
        Err(error) => {
            // What is missing here is told by the loop driver or by FUSE; anything else is a mistake.
            let said = error.to_string();
            assert!(said.contains("loop") || said.contains("fuse"), "{said}");
            println!("skipped: {said}");
            None
        }
    }
}

fn queue(device: &Path, name: &str) -> String {
    let name = format!("/sys/block/{}/{name}", device.file_name().unwrap().to_str().unwrap());
    fs::read_to_string(&name).unwrap_or_else(|e| panic!("{name}: {e}")).trim().to_string()
}

/// Whether a process has a file open.
fn has_open(process: u32, file: &str) -> bool {
    let links = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    links.filter_map(|l| fs::read_link(l.ok()?.path()).ok()).any(|to| to == Path::new(file))
}

/// A file beside the one that a loop device has its data in.
fn beside(device: &Path, name: &str) -> PathBuf {
    Path::new(&queue(device, "loop/backing_file")).with_file_name(name)
}

#[test]
fn an_emulated_drive_is_a_block_device_like_the_drive() {
    let Some(drive) = emulator(&["--drive", "plextor-px-256m5s", "--size", "256M"]) else { return };
    let device = drive.device.clone();
    let facts: Value = serde_json::from_str(&drive.facts).unwrap();
    assert_eq!(facts["device"], text(&device));
    assert!(facts["carried_iops"].as_u64().unwrap() > 1000, "{facts}");
    for (name, wanted) in [
        ("size", "524288"),
        ("queue/rotational", "0"),
        ("queue/read_ahead_kb", "128"),
        ("queue/max_sectors_kb", "1280"),
        ("queue/write_cache", "write back"),
        ("queue/logical_block_size", "512"),
        ("loop/dio", "1"),
    ] {
        assert_eq!(queue(&device, name), wanted, "{name}");
    }
    let folder = Folder::new("emulate");
    let gold = folder.path("gold");
    must("mkfs.ext4", &["-q", text(&device)]);
    must("mount", &[text(&device), text(&gold)]);
    let content: Vec<u8> = (0..9_000_000u32).map(|n| (n ^ n >> 9) as u8).collect();
    let file = fs::File::create(gold.join("file")).unwrap();
    file.write_all_at(&content, 0).unwrap();
    file.sync_all().unwrap();
    drop(file);
    must("umount", &[text(&gold)]);
    must("e2fsck", &["-fn", text(&device)]);
    must("mount", &["-o", "ro", text(&device), text(&gold)]);
    let same = fs::read(gold.join("file")).unwrap() == content;
    must("umount", &[text(&gold)]);
    assert!(same, "what was written is read after the file system was mounted anew");
    let figures = fs::read_to_string(beside(&device, "figures")).unwrap();
    let rows: Vec<(&str, &str)> = figures.lines().filter_map(|l| l.split_once(' ')).collect();
    assert_eq!(rows.iter().map(|r| r.0).collect::<Vec<_>>(), ["modelled_ns", "late_ns"]);
    assert!(rows[0].1.parse::<u64>().unwrap() > 0, "{figures}");
    let (pid, bound) = (facts["pid"].as_u64().unwrap() as u32, "/dev/cpu_dma_latency");
    match fs::OpenOptions::new().write(true).open(bound) {
        Ok(_) => assert!(has_open(pid, bound), "processors stay awake while commands come"),
        Err(error) => println!("not looked at: {bound}: {error}"),
    }
    must("blkdiscard", &["-f", text(&device)]);
    assert!(fs::read(&device).unwrap().iter().all(|&byte| byte == 0), "all is discarded");
    let last: Value = serde_json::from_str(&drive.stop().unwrap()).unwrap();
    assert!(last["most_under_way"].as_u64().unwrap() > 1, "{last}");
    assert!(last["commands"].as_u64().unwrap() > 100, "{last}");
    assert!(!device.exists(), "the loop device went with the drive");
}

/// The depth of the drive is that of the driver's tags: as many commands come to it, and no more.
#[test]
fn as_many_commands_come_to_an_emulated_drive_as_it_takes() {
    let Some(drive) = emulator(&["--drive", "hitachi-hts727550a9e364", "--size", "1G"]) else {
        return;
    };
    assert_eq!(queue(&drive.device, "queue/rotational"), "1");
    assert_eq!(queue(&drive.device, "queue/discard_max_bytes"), "0");
    let device = fs::File::open(&drive.device).unwrap();
    let reads = |reader: u64| {
        let device = device.try_clone().unwrap();
        // Far from each other: neither read-ahead nor a merge makes two of them one. Several each, so that all readers
        // read at once however late the last begins.
        move || {
            for n in 0..4 {
                let at = ((reader * 7919 + n * 251) % 1000) << 20;
                device.read_exact_at(&mut [0; 4096], at).unwrap();
            }
        }
    };
    let readers: Vec<_> = (0..60).map(|n| std::thread::spawn(reads(n))).collect();
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    drop(device);
    let last: Value = serde_json::from_str(&drive.stop().unwrap()).unwrap();
    assert_eq!(last["most_under_way"], 31, "{last}");
}

/// A container that began meanwhile has copies of all mounts, which unmounting here does not take away: the connection
/// has to be cut.
#[test]
fn an_emulator_ends_although_another_namespace_has_its_mount() {
    if !there_is(&["unshare", "awk", "sh"]) {
        return;
    }
    let Some(drive) = emulator(&["--drive", "plextor-px-256m5s", "--size", "64M"]) else { return };
    let facts: Value = serde_json::from_str(&drive.facts).unwrap();
    let mount = beside(&drive.device, "");
    let mount = text(&mount).trim_end_matches('/').to_string();
    // What other tests have mounted is let go there, or it would be held up, too.
    let others = r#"awk -v ours="$1" '$3 ~ /^(fuse|ext)/ && $2 != "/" && $2 != ours {print $2}' /proc/self/mounts |
        while read -r at; do umount -l "$at"; done; grep -c " $1 " /proc/self/mounts; exec sleep 120"#;
    let mut other = Command::new("unshare")
        .args(["-m", "--propagation", "private", "sh", "-c", others, "sh", &mount])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut copies = [0];
    let ready = other.stdout.take().unwrap().read_exact(&mut copies);
    let ended = drive.stop();
    other.kill().unwrap();
    other.wait().unwrap();
    if ready.is_err() {
        println!("skipped: this machine makes no mount namespace");
        return;
    }
    assert_eq!(copies, *b"1", "the namespace has a copy of the mount");
    ended.unwrap();
    let list = must(HOISTWAY, &["emulate", "--list"]);
    assert!(!list.contains(&format!("process {}\n", facts["pid"])), "{list}");
}

#[test]
fn what_a_killed_emulator_leaves_is_taken_away() {
    let size = ["--drive", "plextor-px-256m5s", "--size", "64M"];
    let Some(drive) = emulator(&size) else { return };
    let (device, facts) = (drive.device.clone(), drive.facts.clone());
    let facts: Value = serde_json::from_str(&facts).unwrap();
    let pid = facts["pid"].as_u64().unwrap();
    assert!(must(HOISTWAY, &["emulate", "--list"]).contains(&format!("process {pid}\n")));
    must("kill", &["-KILL", &pid.to_string()]);
    drop(drive);
    assert!(device.exists(), "the loop device outlives the emulator");
    must(HOISTWAY, &["emulate", "--cleanup"]);
    assert!(!device.exists());
    assert!(!must(HOISTWAY, &["emulate", "--list"]).contains(&format!("process {pid}")));
    assert!(!fs::read_to_string("/proc/self/mountinfo").unwrap().contains(&format!("/{pid}/mnt")));
    let refused =
        run(HOISTWAY, &["emulate", "--drive", "plextor-px-256m5s", "--loop", "--size", "1000"]);
    assert_eq!(refused.status.code(), Some(2), "a size that is no multiple of a sector");
}

#[test]
fn what_is_missing_or_wrong_is_said_before_anything_begins() {
    let told = |arguments: &[&str], what: &str| {
        let refused = run(HOISTWAY, arguments);
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(2) && error.contains(what), "{arguments:?}: {error}");
    };
    told(&["emulate", "--drive", "plextor-px-256m5s"], "--loop (a block device), --nbd ADDRESS");
    told(&["linux", "build", "--source", "/nowhere"], "is no folder, no file, and no package");
    told(&["linux", "build", "--source", "/"], "is no source tree of Linux");
}
