//! `hoistway serve --fuse` under real file systems: losetup, mkfs, mount, fill, check. Needs root, /dev/fuse
//! and loop devices; what is missing is a printed skip. Everything is unmounted and detached at the end,
//! by guards, also when a test fails; a server that hangs is ended by `timeout`, and its files with it.
//!
//! One program, since each links the whole command line anew, which takes longer than its tests.
#![cfg(all(feature = "fuse", target_os = "linux"))]

mod emulate;
mod others;

use serde_json::Value;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const HOISTWAY: &str = env!("CARGO_BIN_EXE_hoistway");

/// A folder of this test alone, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path =
            std::env::temp_dir().join(format!("hoistway-files-{}-{name}", std::process::id()));
        for part in ["shaft", "gold", "bronze"] {
            fs::create_dir_all(path.join(part)).unwrap();
        }
        Folder(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Never through a mount that was left behind.
        if !mounted(&self.path("shaft")) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

fn run(program: &str, args: &[&str]) -> Output {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output();
    output.unwrap_or_else(|e| panic!("{program}: {e}"))
}

/// What it printed; it must succeed.
fn must(program: &str, args: &[&str]) -> String {
    let output = run(program, args);
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {args:?}: {}\n{out}\n{err}", output.status);
    out.into_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// By the table of mounts: asking the folder could wait for a server.
fn mounted(folder: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    table.lines().any(|l| l.split(' ').nth(4) == Some(text(folder)))
}

/// True if the machine has all of it; else says what is missing.
fn there_is(tools: &[&str]) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = |tool: &&&str| std::env::split_paths(&paths).any(|p| p.join(tool).exists());
    let missing: Vec<_> = tools.iter().filter(|t| !found(t)).collect();
    let device = fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let reason = if !missing.is_empty() {
        format!("{missing:?} not installed (./setup.sh test)")
    } else if !is_root() {
        "not root".into()
    } else if let Err(error) = device {
        format!("/dev/fuse: {error}")
    } else if tools.contains(&"losetup") && !run("losetup", &["-f"]).status.success() {
        "no loop devices".into()
    } else {
        return true;
    };
    println!("skipped: {reason}");
    false
}

fn is_root() -> bool {
    must("id", &["-u"]).trim() == "0"
}

/// A server with a mounted folder; ended by SIGTERM, and if need be the hard way.
struct Server {
    child: Child,
    shaft: PathBuf,
    control: PathBuf,
}

impl Server {
    /// `None` with the printed reason where mounting is not allowed.
    fn start(folder: &Folder, args: &[&str]) -> Option<Server> {
        let (shaft, control) = (folder.path("shaft"), folder.path("ctl"));
        let mut child = Command::new("timeout")
            .args(["-k", "30", "300", HOISTWAY, "serve", "-q", "--fuse"])
            .arg(&shaft)
            .arg("--control")
            .arg(&control)
            .args(args)
            .stderr(fs::File::create(folder.path("log")).unwrap())
            .spawn()
            .unwrap();
        let up = until(60, || mounted(&shaft) || child.try_wait().unwrap().is_some());
        assert!(up, "the folder is mounted");
        if let Some(status) = child.try_wait().unwrap() {
            let log = fs::read_to_string(folder.path("log")).unwrap();
            assert_eq!(status.code(), Some(3), "{log}");
            println!("skipped: {}", log.trim());
            return None;
        }
        Some(Server { child, shaft, control })
    }

    fn ctl(&self, args: &[&str]) -> String {
        must(HOISTWAY, &[&["ctl", "--control", text(&self.control)], args].concat())
    }

    fn signal(&self, name: &str) {
        // `timeout` passes it on.
        must("kill", &[name, &self.child.id().to_string()]);
    }

    /// Ends it; the exit code.
    fn stop(&mut self) -> Option<i32> {
        self.signal("-TERM");
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            self.signal("-TERM");
            if !until(60, || self.child.try_wait().unwrap().is_some()) {
                let _ = self.child.kill();
                let _ = self.child.wait();
            }
        }
        if mounted(&self.shaft) {
            run("umount", &["-l", text(&self.shaft)]);
        }
    }
}

/// Looks for so many seconds.
fn until(seconds: u32, mut reached: impl FnMut() -> bool) -> bool {
    (0..seconds * 100).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        reached()
    })
}

/// A loop device of ours.
struct Loop(String);

impl Loop {
    fn new(file: &Path) -> Loop {
        let device = must("losetup", &["--find", "--show", "--direct-io=on", text(file)]);
        let device = Loop(device.trim().into());
        assert_eq!(must("losetup", &["-n", "-O", "DIO", "-l", &device.0]).trim(), "1");
        device
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        run("losetup", &["-d", &self.0]);
    }
}

/// A mounted file system.
struct Mounted(PathBuf);

impl Mounted {
    fn new(device: &Loop, folder: &Path) -> Mounted {
        must("mount", &[&device.0, text(folder)]);
        Mounted(folder.into())
    }

    fn umount(self) {
        must("umount", &[text(&self.0)]);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if mounted(&self.0) {
            run("umount", &["-l", text(&self.0)]);
        }
    }
}

/// Sizes of the files in each folder of the tree: nothing, less and more than a block, longer than a
/// request of the kernel, of a merge window, of the loop device's queue.
const SIZES: [usize; 9] = [0, 1, 511, 4096, 5000, 100_000, 600_000, 3_000_001, 9_000_000];
const FOLDERS: u64 = 3;

/// Content that nobody produces by chance.
fn content(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

fn tree(root: &Path) -> impl Iterator<Item = (PathBuf, u64, usize)> {
    (0..FOLDERS).flat_map(move |f| {
        let folder = root.join(format!("folder {f}"));
        SIZES
            .into_iter()
            .enumerate()
            .map(move |(n, size)| (folder.join(format!("file {n}")), f * 100 + n as u64, size))
    })
}

fn fill(root: &Path, seed: u64) -> io::Result<()> {
    for (path, number, size) in tree(root) {
        fs::create_dir_all(path.parent().unwrap())?;
        let mut file = fs::File::create(&path)?;
        let whole = content(seed + number, size);
        let mut first = whole.clone();
        if size > 5000 {
            first[1000..3000].fill(0xff);
        }
        for piece in first.chunks(70_000) {
            file.write_all(piece)?;
        }
        if number.is_multiple_of(2) {
            file.sync_all()?;
        }
        // What is overwritten in place and what is removed again.
        if size > 5000 {
            file.write_all_at(&whole[1000..3000], 1000)?;
            let other = path.with_extension("gone");
            fs::write(&other, &whole[size / 2..])?;
            fs::remove_file(other)?;
        }
    }
    Ok(())
}

fn check(root: &Path, seed: u64) {
    for (path, number, size) in tree(root) {
        let found = fs::read(&path).unwrap();
        assert!(found == content(seed + number, size), "{} differs", path.display());
    }
}

/// Two weighted exports of one device with a file system each, filled at the same time while the
/// scheduler is changed; then everything must be there, and the file system in order.
fn file_system(name: &str, make: &[&str], repair: &[&str]) {
    if !there_is(&["losetup", "mount", make[0], repair[0]]) {
        return;
    }
    let folder = Folder::new(name);
    // The smallest file system of XFS has 300 MiB.
    let args = ["-s", "bfq", "-e", "gold=ram:640M,weight=800,size=320M", "-e"];
    let args = [&args[..], &["bronze=ram:640M,weight=100,offset=320M"]].concat();
    let Some(mut server) = Server::start(&folder, &args) else { return };
    let devices = ["gold", "bronze"].map(|n| Loop::new(&server.shaft.join(n)));
    let places = ["gold", "bronze"].map(|n| folder.path(n));
    for device in &devices {
        must(make[0], &[&make[1..], &[&device.0]].concat());
    }
    let mounts: Vec<_> = devices.iter().zip(&places).map(|(d, p)| Mounted::new(d, p)).collect();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let fills: Vec<_> =
            places.iter().zip([1, 2]).map(|(p, s)| scope.spawn(move || fill(p, s))).collect();
        let changer = scope.spawn(|| {
            let mut changes = 0;
            for scheduler in ["mq-deadline", "none", "kyber", "bfq"].into_iter().cycle() {
                if over.load(Ordering::SeqCst) {
                    break;
                }
                server.ctl(&["scheduler", scheduler]);
                changes += 1;
                std::thread::sleep(Duration::from_millis(100));
            }
            changes
        });
        let results: Vec<_> = fills.into_iter().map(|f| f.join().unwrap()).collect();
        over.store(true, Ordering::SeqCst);
        assert!(changer.join().unwrap() > 0);
        for result in results {
            result.unwrap();
        }
    });
    for place in &places {
        must("sync", &["-f", text(place)]);
    }
    mounts.into_iter().for_each(Mounted::umount);
    let mounts: Vec<_> = devices.iter().zip(&places).map(|(d, p)| Mounted::new(d, p)).collect();
    for (place, seed) in places.iter().zip([1, 2]) {
        check(place, seed);
    }
    mounts.into_iter().for_each(Mounted::umount);
    for device in &devices {
        must(repair[0], &[&repair[1..], &[&device.0]].concat());
    }
    let list: Value = serde_json::from_str(&server.ctl(&["list", "--json"])).unwrap();
    let clients = &list["devices"][0]["clients"];
    for (client, name) in clients.as_array().unwrap().iter().zip(["gold", "bronze"]) {
        let peer = format!("fuse {}", server.shaft.join(name).display());
        assert_eq!((&client["peer"], &client["group"]), (&peer.into(), &name.into()));
        let bytes = client["written_bytes"].as_u64().unwrap();
        let least = FOLDERS * SIZES.iter().map(|&s| s as u64).sum::<u64>();
        assert!(bytes >= least, "{name}: {bytes} bytes of {least} came here");
        assert_eq!((&client["errors"], &client["outstanding"]), (&0.into(), &0.into()));
    }
    drop(devices);
    assert_eq!(server.stop(), Some(0), "{}", fs::read_to_string(folder.path("log")).unwrap());
    assert!(!mounted(&server.shaft));
}

#[test]
fn ext4_is_made_filled_and_found_in_order() {
    file_system("ext4", &["mkfs.ext4", "-q"], &["e2fsck", "-fn"]);
}

#[test]
fn xfs_is_made_filled_and_found_in_order() {
    file_system("xfs", &["mkfs.xfs", "-q"], &["xfs_repair", "-n"]);
}

#[test]
fn btrfs_is_made_filled_and_found_in_order() {
    file_system("btrfs", &["mkfs.btrfs", "-q"], &["btrfs", "check", "--readonly"]);
}

/// A file for a device, of zeroes.
fn disk(folder: &Folder, name: &str, size: u64) -> PathBuf {
    let path = folder.path(name);
    fs::File::create(&path).unwrap().set_len(size).unwrap();
    path
}

fn log(folder: &Folder) -> String {
    fs::read_to_string(folder.path("log")).unwrap()
}

#[test]
fn a_folder_in_use_is_served_until_it_is_free() {
    if !there_is(&["losetup", "mount", "mkfs.ext4", "e2fsck"]) {
        return;
    }
    let folder = Folder::new("busy");
    let disk = disk(&folder, "disk", 64 << 20);
    let export = format!("gold=file:{},weight=300", disk.display());
    let Some(mut server) = Server::start(&folder, &["-e", &export, "-s", "bfq"]) else { return };
    let device = Loop::new(&server.shaft.join("gold"));
    must("mkfs.ext4", &["-q", &device.0]);
    let place = folder.path("gold");
    let mount = Mounted::new(&device, &place);
    let bytes = content(9, 5 << 20);
    fs::write(place.join("kept"), &bytes).unwrap();
    server.signal("-TERM");
    let named = format!("in use by {}, mounted on {}", device.0, place.display());
    assert!(until(60, || log(&folder).contains(&named)), "{}", log(&folder));
    // Nothing is lost: what the file system still holds back goes out now.
    mount.umount();
    drop(device);
    assert_eq!(server.child.wait().unwrap().code(), Some(0), "{}", log(&folder));
    assert!(!mounted(&server.shaft) && !log(&folder).contains("cut off from"));
    must("e2fsck", &["-fn", text(&disk)]);
    let device = Loop(must("losetup", &["--find", "--show", text(&disk)]).trim().into());
    let mount = Mounted::new(&device, &place);
    assert!(fs::read(place.join("kept")).unwrap() == bytes);
    mount.umount();
}

#[test]
fn a_folder_that_stays_in_use_is_cut_off_after_what_was_written_is_durable() {
    if !there_is(&[]) {
        return;
    }
    let folder = Folder::new("cut");
    let disk = disk(&folder, "disk", 1 << 20);
    let export = format!("gold=file:{}", disk.display());
    let Some(mut server) = Server::start(&folder, &["-e", &export]) else { return };
    let file = fs::OpenOptions::new().write(true).open(server.shaft.join("gold")).unwrap();
    file.write_all_at(b"before", 100).unwrap();
    assert_eq!(server.stop(), Some(0), "{}", log(&folder));
    let process = format!("process {} (", std::process::id());
    for words in [&format!("in use by {process}"), &format!("is cut off from {process}")] {
        assert!(log(&folder).contains(words), "{}", log(&folder));
    }
    assert!(file.write_all_at(b"behind", 200).is_err());
    assert!(!mounted(&server.shaft));
    assert_eq!(&fs::read(&disk).unwrap()[100..106], b"before");
}

#[test]
fn the_dead_mount_of_a_killed_server_is_cleaned_up() {
    if !there_is(&["losetup"]) {
        return;
    }
    let folder = Folder::new("dead");
    let disk = disk(&folder, "disk", 1 << 20);
    let export = format!("gold=file:{}", disk.display());
    let Some(mut server) = Server::start(&folder, &["-e", &export]) else { return };
    let file = fs::OpenOptions::new().write(true).open(server.shaft.join("gold")).unwrap();
    file.write_all_at(b"durable", 4000).unwrap();
    file.sync_all().unwrap();
    drop(file);
    // Somebody uses it, and will get errors.
    let _device = Loop::new(&server.shaft.join("gold"));
    let children = format!("/proc/{0}/task/{0}/children", server.child.id());
    must("kill", &["-KILL", fs::read_to_string(children).unwrap().trim()]);
    server.child.wait().unwrap();
    let dead = fs::metadata(&server.shaft).unwrap_err();
    assert!(dead.to_string().contains("Transport endpoint is not connected"), "{dead}");
    let shaft = server.shaft.clone();
    let mut second = Server::start(&folder, &["-e", &export]).unwrap();
    // The folder counts as mounted all the time: wait for the new one.
    assert!(until(60, || shaft.join("gold").exists()), "{}", log(&folder));
    assert!(log(&folder).contains("its dead mount was removed"), "{}", log(&folder));
    assert_eq!(&fs::read(shaft.join("gold")).unwrap()[4000..4007], b"durable");
    assert_eq!(second.stop(), Some(0));
    assert!(!mounted(&shaft));
}

#[test]
fn whoever_unmounts_the_folder_ends_a_server_that_serves_nothing_else() {
    if !there_is(&["umount"]) {
        return;
    }
    let folder = Folder::new("umount");
    let Some(mut server) = Server::start(&folder, &["-e", "ram:1M"]) else { return };
    assert!(server.shaft.join("disk").exists());
    must("umount", &[text(&server.shaft)]);
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    assert!(log(&folder).contains("was unmounted"));
}

/// What is written through the file is read over NBD, and the other way round.
#[test]
fn files_and_sockets_show_the_same_bytes() {
    if !there_is(&["nbdcopy", "cmp"]) {
        return;
    }
    let folder = Folder::new("both");
    let config = folder.path("serve.toml");
    let wishes = format!(
        "scheduler = \"bfq\"\nfuse = \"{}\"\n\n[[export]]\nname = \"gold\"\ntarget = \"ram:4M\"\n\
         size = \"2M\"\nweight = 300\n\n[[export]]\nname = \"bronze\"\ntarget = \"ram:4M\"\noffset = \"2M\"\n",
        folder.path("shaft").display()
    );
    fs::write(&config, wishes).unwrap();
    let script = format!(
        "set -e; cd '{}'; head -c 2M /dev/urandom >a; head -c 2M /dev/urandom >b; \
         cat a >\"$fuse/gold\"; nbdcopy \"$uri\" back; cmp a back; \
         nbdcopy --flush b \"$uri\"; cmp b \"$fuse/gold\"; cmp -n 2M /dev/zero \"$fuse/bronze\"",
        folder.0.display()
    );
    let args = ["300", HOISTWAY, "serve", "-q", "--config", text(&config), "--run", &script];
    let output = run("timeout", &args);
    let err = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) {
        return println!("skipped: {}", err.trim());
    }
    assert_eq!((output.status.code(), &err[..]), (Some(0), ""));
    assert!(!mounted(&folder.path("shaft")));
}

#[test]
fn a_full_file_system_below_is_an_error_of_the_write_that_met_it() {
    if !there_is(&["mount"]) {
        return;
    }
    let folder = Folder::new("full");
    let small = folder.path("bronze");
    let options = ["-t", "tmpfs", "-o", "size=1m", "hoistway-test", text(&small)];
    if !run("mount", &options).status.success() {
        return println!("skipped: tmpfs cannot be mounted");
    }
    let small = Mounted(small);
    let disk = small.0.join("disk");
    fs::File::create(&disk).unwrap().set_len(8 << 20).unwrap();
    let export = format!("gold=file:{}", disk.display());
    let Some(mut server) = Server::start(&folder, &["-e", &export, "-s", "mq-deadline"]) else {
        return;
    };
    let file = fs::OpenOptions::new().read(true).write(true).open(server.shaft.join("gold"));
    let file = file.unwrap();
    file.write_all_at(&[1; 300_000], 12_345).unwrap();
    let error = file.write_all_at(&[2; 2 << 20], 4 << 20).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}");
    let mut got = [0; 10];
    file.read_exact_at(&mut got, 312_340).unwrap();
    assert_eq!(got, [1, 1, 1, 1, 1, 0, 0, 0, 0, 0]);
    let list: Value = serde_json::from_str(&server.ctl(&["list", "--json"])).unwrap();
    let errors = list["devices"][0]["clients"][0]["errors"].as_u64().unwrap();
    assert!(errors > 0);
    drop(file);
    assert_eq!(server.stop(), Some(0), "{}", log(&folder));
    small.umount();
}

#[test]
fn folders_and_names_that_do_not_fit_are_refused() {
    let folder = Folder::new("refused");
    fs::write(folder.path("shaft/file"), "x").unwrap();
    let (full, gold) = (folder.path("shaft"), folder.path("gold"));
    let (none, file) = (folder.path("none"), folder.path("shaft/file"));
    let cases: [(&str, &Path, &str); 5] = [
        ("ram:1M", &none, "no such folder; make it with mkdir"),
        ("ram:1M", &full, "not empty"),
        ("ram:1M", &file, "not a folder"),
        ("ram:1M", Path::new("/proc"), "mounted there already"),
        ("a/b=ram:1M", &gold, "has a slash"),
    ];
    for (export, place, message) in cases {
        let args = ["300", HOISTWAY, "serve", "-q", "-e", export, "--fuse", text(place)];
        let output = run("timeout", &args);
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{export} {}: {err}", place.display());
        assert!(err.contains(message), "{err}");
    }
}

/// A server that is not root's mounts through the helper, and cleans up as well.
#[test]
fn a_user_mounts_with_the_helper() {
    if !there_is(&["fusermount3", "setpriv", "cmp"]) {
        return;
    }
    let folder = Folder::new("user");
    must("chown", &["-R", "nobody", text(&folder.0)]);
    let script = "set -e; head -c 5000 /dev/urandom >a; dd if=a of=\"$fuse/disk\" bs=777 conv=notrunc \
                  status=none; cmp -n 5000 a \"$fuse/disk\"; stat -c %U \"$fuse/disk\"";
    let script = format!("cd '{}'; {script}", folder.0.display());
    let user = ["--reuid=nobody", "--regid=nogroup", "--clear-groups", "timeout", "300", HOISTWAY];
    let as_user = |args: &[&str]| run("setpriv", &[&user[..], args].concat());
    if !as_user(&["--version"]).status.success() {
        return println!("skipped: this program cannot be run by nobody");
    }
    let shaft = folder.path("shaft");
    let wishes = ["serve", "-q", "-e", "ram:1M", "--fuse", text(&shaft), "--run", &script];
    let output = as_user(&wishes);
    let err = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) {
        return println!("skipped: {}", err.trim());
    }
    assert_eq!((output.status.code(), &err[..]), (Some(0), ""));
    assert_eq!(output.stdout, b"nobody\n");
    assert!(!mounted(&shaft));
}

/// With the feature, but mostly without the driver.
#[cfg(feature = "ublk")]
#[test]
fn block_devices_need_the_driver_and_say_so() {
    let folder = Folder::new("ublk");
    let args = ["300", HOISTWAY, "serve", "-q", "-e", "ram:8M", "--ublk", "--socket"];
    let socket = folder.path("socket");
    if Path::new("/dev/ublk-control").exists() {
        return println!("skipped: this machine has the driver");
    }
    let output = run("timeout", &[&args[..], &[text(&socket)]].concat());
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{err}");
    assert!(err.contains("modprobe ublk_drv"), "{err}");
    assert!(!socket.exists());
}

#[test]
fn record_takes_a_loop_devices_requests_and_leaves_no_trace_of_itself() {
    if !is_root() || !run("losetup", &["-f"]).status.success() {
        println!("skipped: not root, or no loop devices");
        return;
    }
    let folder = Folder::new("record");
    let (image, out) = (folder.path("image"), folder.path("t.blktrace.gz"));
    fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
    let device = Loop(must("losetup", &["--find", "--show", text(&image)]).trim().into());
    // Of what is mounted only what a recorder mounts: other tests mount their drives meanwhile.
    let mounts = || -> Vec<String> {
        let all = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let tracing =
            all.lines().filter(|l| l.contains(" - tracefs ") || l.contains(" - debugfs "));
        tracing.map(String::from).collect()
    };
    let before = mounts();
    let hoistway = env!("CARGO_BIN_EXE_hoistway");
    let args = ["record", "--device", &device.0, "--duration", "60s", "-o", text(&out)];
    let mut child = Command::new(hoistway)
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stderr = child.stderr.take().unwrap();
    let mut first = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stderr), &mut first).unwrap();
    if !first.starts_with("recording") {
        assert_eq!(child.wait().unwrap().code(), Some(3), "{first}");
        println!("skipped: {first}");
        return;
    }
    let to = format!("of={}", device.0);
    let words = ["if=/dev/zero", &to, "bs=64k", "count=16", "oflag=direct", "conv=notrunc"];
    let mut dd = Command::new("dd").args(words).stderr(Stdio::null()).spawn().unwrap();
    assert!(dd.wait().unwrap().success());
    must("kill", &["-INT", &child.id().to_string()]);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let json = must(hoistway, &["describe", text(&out), "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["format"], "blktrace");
    assert!(json["operations"]["write"]["bytes"].as_u64().unwrap() >= 1 << 20, "{json:#}");
    assert!(json["depth"]["response_other_ns"]["count"].as_u64().unwrap() >= 16);
    // Not the first row everywhere: where udev probes a device that was written, its reads outnumber these writes.
    let rows = json["processes"]["top"].as_array().unwrap();
    // The kernel notes the name of a process unless somebody else notes one at that moment: then it says `<...>`.
    let names = ["dd", "<...>"].map(|name| format!("{name}/{}", dd.id()));
    let dd = rows.iter().find(|row| names.iter().any(|name| row["name"] == name.as_str()));
    assert!(dd.is_some_and(|row| row["writes"].as_u64() >= Some(16)), "{json:#}");
    assert_eq!(mounts(), before);
}
