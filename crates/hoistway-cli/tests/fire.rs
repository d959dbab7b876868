//! fio verifies what eight connections wrote at depth 64 while `hoistway ctl` lets every scheduler
//! take over in turn. Skipped with a printed reason where fio is not installed.
//!
//! `HOISTWAY_SECONDS=60 cargo test -p hoistway-cli --test fire` runs fio for so long on each target and
//! switches every second; without it, two seconds and ten times a second. Where the machine was busy with
//! something else, and too little came of it, once more for longer.
#![cfg(all(feature = "live", target_os = "linux"))]

mod serving;

use hoistway::sched::SCHEDULERS;
use serde_json::Value;
use serving::{HOISTWAY, LIMIT, begun, wait_for};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const CONNECTIONS: usize = 8;
const DEPTH: u64 = 64;

/// A folder of this test alone, removed at its end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server that goes with the test, whatever happens.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ctl(control: &Path, args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new("timeout")
        .args([LIMIT, HOISTWAY, "ctl", "--control"])
        .arg(control)
        .args(args)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

/// `None` where the machine cannot serve it.
fn serve(folder: &Path, target: &str) -> Option<(Server, PathBuf, PathBuf)> {
    let (socket, control) = (folder.join("nbd.sock"), folder.join("ctl.sock"));
    let export = format!("disk={target},weight=300");
    let mut command = Command::new(HOISTWAY);
    command.args(["serve", "-q", "-e", &export, "-U"]).arg(&socket).arg("--control").arg(&control);
    let server = begun(&mut command, || ctl(&control, &["list"]).0 == Some(0))?;
    Some((Server(server), socket, control))
}

fn fio(folder: &Path, socket: &Path, seconds: u64) -> Child {
    let uri = format!("--uri=nbd+unix:///disk?socket={}", socket.display());
    let limit = (seconds + 300).to_string();
    Command::new("timeout")
        .args([&limit, "fio", "--ioengine=nbd", &uri, "--name=v", "--group_reporting"])
        .args(["--numjobs=8", "--iodepth=64", "--size=4M", "--offset_increment=4M"])
        .args(["--rw=randwrite", "--bsrange=512-64k", "--bs_unaligned=0", "--blockalign=512"])
        .args([
            "--verify=crc32c",
            "--verify_backlog=64",
            "--verify_fatal=1",
            "--serialize_overlap=1",
        ])
        .args(["--verify_state_save=0", "--time_based", &format!("--runtime={seconds}")])
        .args(["--fsync=200", "--output-format=json", "--output=out.json"])
        .current_dir(folder)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What the server says of its clients: reads, writes and what is outstanding, by connection.
fn clients(control: &Path) -> BTreeMap<u64, [u64; 3]> {
    let (code, text) = ctl(control, &["list", "--json"]);
    assert_eq!(code, Some(0), "{text}");
    let list: Value = serde_json::from_str(&text).unwrap();
    let clients = list["devices"][0]["clients"].as_array().unwrap();
    clients
        .iter()
        .map(|c| {
            assert_eq!((&c["errors"], &c["group"]), (&0.into(), &"disk".into()), "{c}");
            let number = |key: &str| c[key].as_u64().unwrap();
            (number("connection"), ["reads", "writes", "outstanding"].map(number))
        })
        .collect()
}

fn verified_under_switches(name: &str, target: impl Fn(&Path) -> String) {
    let fio_there = Command::new("fio").arg("--version").output().is_ok();
    if !fio_there {
        return println!("skipped: fio is not installed (./setup.sh test)");
    }
    let seconds: Option<u64> = std::env::var("HOISTWAY_SECONDS")
        .ok()
        .map(|s| s.parse().expect("HOISTWAY_SECONDS is a number of seconds"));
    let pause = Duration::from_millis(if seconds.is_some() { 1000 } else { 80 });
    let folder = std::env::temp_dir().join(format!("hoistway-fire-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let folder = Folder(folder);
    let target = target(&folder.0);
    let Some((mut server, socket, control)) = serve(&folder.0, &target) else { return };
    let lengths = seconds.map_or(vec![2, 8, 32, 128], |s| vec![s]);
    let enough = lengths.into_iter().any(|seconds| {
        let [reads, writes, most] = one_fire(&folder.0, &socket, &control, seconds, pause);
        println!("{target}: {writes} writes, {reads} reads verified, {most} connections at once");
        writes > 500 && reads > 500 && most == CONNECTIONS as u64
    });
    assert!(enough, "hardly a test");
    let pid = server.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(server.0.wait().unwrap().code(), Some(0));
}

/// One run of fio while schedulers change: what it read and wrote, and how many connections were seen at
/// once at most.
fn one_fire(
    folder: &Path,
    socket: &Path,
    control: &Path,
    seconds: u64,
    pause: Duration,
) -> [u64; 3] {
    let mut load = fio(folder, socket, seconds);
    let (mut switches, mut before, mut most) = (0, BTreeMap::new(), 0);
    let status = loop {
        if let Some(status) = load.try_wait().unwrap() {
            break status;
        }
        let entry = SCHEDULERS[switches % SCHEDULERS.len()];
        let (code, text) = ctl(control, &["scheduler", entry.name]);
        assert_eq!((code, &text[..]), (Some(0), ""), "{}", entry.name);
        switches += 1;
        let now = clients(control);
        most = most.max(now.len());
        for (connection, done) in &now {
            assert!(done[2] <= DEPTH + 1, "{connection} has {} outstanding", done[2]);
            if let Some(earlier) = before.get(connection) {
                let earlier: &[u64; 3] = earlier;
                assert!(done[0] >= earlier[0] && done[1] >= earlier[1], "counts only grow");
            }
        }
        before = now;
        std::thread::sleep(pause);
    };
    let error = load.stderr.take().map(|mut e| {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut e, &mut text).unwrap();
        text
    });
    assert!(status.success(), "fio: {status}, {error:?}");
    let out = std::fs::read_to_string(folder.join("out.json")).unwrap();
    let json: Value = serde_json::from_str(&out[out.find('{').unwrap()..]).unwrap();
    let job = &json["jobs"][0];
    assert_eq!(job["error"], 0);
    let count = |key: &str| job[key]["total_ios"].as_u64().unwrap();
    println!("{switches} switches");
    let gone = || clients(control).is_empty();
    assert!(wait_for(gone), "whoever leaves is not listed any more");
    assert!(most <= CONNECTIONS, "{most} connections");
    [count("read"), count("write"), most as u64]
}

fn file(folder: &Path) -> String {
    let path = folder.join("disk");
    std::fs::File::create(&path).unwrap().set_len(32 << 20).unwrap();
    format!("file:{}", path.display())
}

#[test]
fn memory_is_verified_while_schedulers_change() {
    verified_under_switches("ram", |_| "ram:32M".into());
}

#[test]
fn a_file_is_verified_while_schedulers_change() {
    verified_under_switches("buffered", file);
}

#[test]
fn a_file_past_the_page_cache_is_verified_while_schedulers_change() {
    verified_under_switches("direct", |folder| file(folder) + ",direct");
}

#[test]
fn an_emulated_drive_is_verified_while_schedulers_change() {
    verified_under_switches("emulated", |_| "emulate:plextor-px-256m5s:32M".into());
}
