//! The end of a server under load: what was answered is there, clients see whole answers or a
//! closed connection, and the exit code says whether everything was flushed.
//! And of measurements under the kernel's schedulers: the machine is as it was.
#![cfg(all(feature = "live", target_os = "linux"))]

#[path = "../../hoistway-serve/tests/client/mod.rs"]
mod client;
mod serving;

use client::Client;
use hoistway_sim::rng::stream;
use serving::{Folder, HOISTWAY, begun, run, wait_for};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const BLOCK: usize = 4096;
const BLOCKS: u64 = 64;
const CONNECTIONS: u64 = 8;

struct Server {
    process: Child,
    socket: PathBuf,
    control: PathBuf,
}

impl Server {
    /// `None` where the machine cannot serve it.
    fn start(folder: &Folder, args: &[&str]) -> Option<Server> {
        let (socket, control) = (folder.0.join("nbd.sock"), folder.0.join("ctl.sock"));
        let mut command = Command::new(HOISTWAY);
        command.args(["serve", "-q", "-U"]).arg(&socket).arg("--control").arg(&control).args(args);
        command.stderr(Stdio::piped());
        let process = begun(&mut command, || UnixStream::connect(&control).is_ok())?;
        Some(Server { process, socket, control })
    }

    fn signal(&self) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    }

    /// Waits for an end with exit code 0 at which no error is told: an emulated drive may have been late.
    fn end_well(&mut self, what: &str) {
        let (code, said) = self.end();
        assert_eq!(code, Some(0), "{what}: {said}");
        assert!(said.lines().all(|line| line.starts_with("warning: ")), "{what}: {said}");
    }

    /// Waits for the end: exit code and what it said.
    fn end(&mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        (self.process.wait().unwrap().code(), text)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn contents(block: u64, version: u64) -> Vec<u8> {
    [block, version].map(u64::to_le_bytes).concat().repeat(BLOCK / 16)
}

/// Writes until the server closes the connection; for each block the versions that were answered
/// and sent last.
fn write_until_closed(mut c: Client, connection: u64, done: &AtomicU64) -> Vec<(u64, u64)> {
    let mut random = stream(connection, "stop");
    let mut known = vec![(0, 0); BLOCKS as usize];
    for version in 1.. {
        // Every batch ends with a flush; the answers are taken while the next is on its way.
        let mut batch = Vec::new();
        for at in (0..BLOCKS).filter(|_| random.below(4) == 0) {
            let block = connection * BLOCKS + at;
            known[at as usize].1 = version;
            let data = contents(block, version);
            if c.try_send(1, 0, at, block * BLOCK as u64, BLOCK as u32, &data).is_err() {
                break;
            }
            batch.push(at);
        }
        let _ = c.try_send(3, 0, BLOCKS, 0, 0, &[]);
        for _ in 0..=batch.len() {
            match c.try_reply(&[]) {
                Ok((BLOCKS, error, _)) => assert_eq!(error, 0, "flush"),
                Ok((at, error, _)) => {
                    assert_eq!(error, 0, "write");
                    known[at as usize].0 = version;
                    done.fetch_add(1, SeqCst);
                }
                Err(e) => {
                    let closed = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset];
                    assert!(closed.contains(&e.kind()), "{e}");
                    // Nothing more, and no piece of an answer.
                    let mut rest = Vec::new();
                    let _ = c.stream.read_to_end(&mut rest);
                    assert!(rest.is_empty(), "behind the end: {rest:?}");
                    return known;
                }
            }
        }
    }
    unreachable!("the server ends first")
}

fn check(file: &Path, all: &[Vec<(u64, u64)>]) -> usize {
    let (file, mut answered) = (std::fs::File::open(file).unwrap(), 0);
    for (connection, known) in all.iter().enumerate() {
        for (at, (over, sent)) in known.iter().enumerate() {
            let block = connection as u64 * BLOCKS + at as u64;
            let mut bytes = [0; BLOCK];
            file.read_exact_at(&mut bytes, block * BLOCK as u64).unwrap();
            let version = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
            assert!(
                (*over..=*sent).contains(&version),
                "block {block}: {version}, {over} to {sent}"
            );
            assert!(version == 0 || bytes[..] == contents(block, version)[..], "block {block}");
            answered += usize::from(*over > 0);
        }
    }
    answered
}

/// One client that asks and takes no answer.
fn deaf(server: &Server) -> Client {
    let mut c = Client::go(&server.socket, "disk", true).unwrap();
    c.stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let request = c.request(0, 0, 1, 0, 1 << 20);
    for _ in 0..64 {
        let _ = c.stream.write_all(&request);
    }
    c
}

fn scheduler(control: &Path, name: &str) {
    let mut stream = UnixStream::connect(control).unwrap();
    writeln!(stream, "{{\"command\":\"scheduler\",\"scheduler\":\"{name}\"}}").unwrap();
}

/// I/Os of the only client that are under way.
fn outstanding(control: &Path) -> u64 {
    let control = control.to_str().unwrap();
    let (code, list, err) = run(HOISTWAY, &["ctl", "--control", control, "list", "--json"]);
    assert_eq!(code, Some(0), "{err}");
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    list["devices"][0]["clients"][0]["outstanding"].as_u64().unwrap()
}

#[test]
fn sigterm_under_load_keeps_what_was_answered() {
    let folder = Folder::new("stop-load");
    for (round, wishes) in ["", ",direct", ",way=threads", ""].iter().enumerate() {
        let disk = folder.file("disk", CONNECTIONS * BLOCKS * BLOCK as u64);
        let export = format!("disk=file:{disk}{wishes}");
        let Some(mut server) = Server::start(&folder, &["-e", &export, "-s", "bfq"]) else {
            continue;
        };
        let done = Arc::new(AtomicU64::new(0));
        let writers: Vec<_> = (0..CONNECTIONS)
            .map(|n| {
                let c = Client::go(&server.socket, "disk", n % 2 == 0).unwrap();
                let done = Arc::clone(&done);
                std::thread::spawn(move || write_until_closed(c, n, &done))
            })
            .collect();
        assert!(wait_for(|| done.load(SeqCst) > 600), "no load: {done:?}");
        if round == 3 {
            // In the middle of a change of scheduler.
            scheduler(&server.control, "mq-deadline");
        }
        server.signal();
        let known: Vec<_> = writers.into_iter().map(|w| w.join().unwrap()).collect();
        assert_eq!(server.end(), (Some(0), String::new()), "{wishes}");
        assert!(check(Path::new(&disk), &known) > 100, "hardly a load");
        assert!(!server.socket.exists() && !server.control.exists());
    }
}

#[test]
fn a_client_that_takes_no_answers_holds_up_the_end_for_ten_seconds_at_most() {
    let folder = Folder::new("stop-deaf");
    let disk = folder.file("disk", CONNECTIONS * BLOCKS * BLOCK as u64);
    let export = format!("disk=file:{disk}");
    let mut server = Server::start(&folder, &["-e", &export]).unwrap();
    let _deaf = deaf(&server);
    let c = Client::go(&server.socket, "disk", true).unwrap();
    let done = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&done);
    let writer = std::thread::spawn(move || write_until_closed(c, 0, &counted));
    assert!(wait_for(|| done.load(SeqCst) > 100), "no load: {done:?}");
    server.signal();
    let known = [writer.join().unwrap()];
    assert_eq!(server.end(), (Some(0), String::new()));
    assert!(check(Path::new(&disk), &known) > 10);
}

#[test]
fn a_second_signal_ends_at_once() {
    let folder = Folder::new("stop-twice");
    let disk = folder.file("disk", 16 << 20);
    let mut server = Server::start(&folder, &["-e", &format!("disk=file:{disk}")]).unwrap();
    let _deaf = deaf(&server);
    server.signal();
    assert!(wait_for(|| !server.control.exists()), "it is about to end");
    // Signals within a second are one.
    std::thread::sleep(Duration::from_millis(1300));
    assert_eq!(server.process.try_wait().unwrap(), None, "it waits for the client");
    // Where the machine is held up the second may have been longer.
    while server.process.try_wait().unwrap().is_none() {
        server.signal();
        std::thread::sleep(Duration::from_millis(1300));
    }
    let (code, error) = server.end();
    assert_eq!(code, Some(1));
    assert!(error.contains("second signal") && error.contains("nothing was flushed"), "{error}");
}

#[test]
fn storage_that_hangs_is_given_up_with_a_message() {
    let folder = Folder::new("stop-hangs");
    // A drive that takes an hour for a command.
    let drive = folder.path("slow.toml");
    let text = "schema = 1\nname = \"slow\"\nbase = \"fixed-100us\"\n[bucket]\nread_us = 3600000000\n\
                write_us = 3600000000\n[iocost]\nrrandiops = 1\nwrandiops = 1\n";
    std::fs::write(&drive, text).unwrap();
    let export = format!("disk=emulate:{drive}:16M");
    let Some(mut server) = Server::start(&folder, &["-e", &export, "--stop-limit", "700ms"]) else {
        return;
    };
    let mut c = Client::go(&server.socket, "disk", true).unwrap();
    for n in 0..3 {
        c.send(1, 0, n, n << 20, 4096, &[1; 4096]);
    }
    assert!(wait_for(|| outstanding(&server.control) == 3), "they have arrived");
    server.signal();
    let (code, error) = server.end();
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("after 0.7 s the storage has not answered 3 I/Os"), "{error}");
    assert!(error.contains("may be lost"), "{error}");
    assert!(c.try_reply(&[]).is_err(), "what was not done is not answered");
}

/// Sends a line to the control socket, and waits for the answer.
fn ask(control: &Path, line: &str) -> String {
    let mut stream = UnixStream::connect(control).unwrap();
    writeln!(stream, "{line}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Heaps of 64 random writes until the server closes the connection; counts the answers.
fn write_heaps(mut c: Client, n: u64, done: &AtomicU64) {
    let (mut random, blocks) = (stream(n, "heaps"), c.size / BLOCK as u64);
    let data = vec![n as u8; BLOCK];
    loop {
        for cookie in 0..64 {
            let at = random.below(blocks) * BLOCK as u64;
            if c.try_send(1, 0, cookie, at, BLOCK as u32, &data).is_err() {
                return;
            }
        }
        for _ in 0..64 {
            match c.try_reply(&[]) {
                Ok((_, error, _)) => assert_eq!(error, 0),
                Err(_) => return,
            }
            done.fetch_add(1, SeqCst);
        }
    }
}

/// Requests that were taken under a deadline of ten minutes are older than one of five seconds, not from
/// the future.
#[test]
fn an_expiry_that_is_lowered_under_load_loses_no_service() {
    let folder = Folder::new("stop-expiry");
    let args =
        ["-e", "disk=emulate:hitachi-hts727550a9e364:1G", "-s", "mq-deadline{write_expire=600000}"];
    let Some(mut server) = Server::start(&folder, &args) else { return };
    let done: Arc<[AtomicU64; 4]> = Arc::default();
    let writers: Vec<_> = (0..4)
        .map(|n| {
            let c = Client::go(&server.socket, "disk", true).unwrap();
            let done = Arc::clone(&done);
            std::thread::spawn(move || write_heaps(c, n as u64, &done[n]))
        })
        .collect();
    let counts = || [0, 1, 2, 3].map(|n: usize| done[n].load(SeqCst));
    let more_than = |before: [u64; 4], n| (0..4).all(|at| counts()[at] >= before[at] + n);
    assert!(wait_for(|| more_than([0; 4], 64)), "no load: {:?}", counts());
    for value in ["5000", "600000", "5000"] {
        let line =
            format!("{{\"command\":\"set\",\"name\":\"write_expire\",\"value\":\"{value}\"}}");
        assert!(ask(&server.control, &line).contains("true"));
        let before = counts();
        // Everything that was there at the change, and as much again.
        assert!(wait_for(|| more_than(before, 128)), "{value}: {before:?}, then {:?}", counts());
    }
    server.signal();
    server.end_well("write_expire");
    writers.into_iter().for_each(|w| w.join().unwrap());
}

/// BFQ waits ten minutes for a client that has nothing more to say, a change waits for the device, and
/// the server is to end: what was asked is answered, and nobody waits for any policy.
#[test]
fn no_policy_and_no_pending_change_puts_off_the_end() {
    let folder = Folder::new("stop-change");
    // Half a second for a command: the changes are still pending when the signal comes.
    let drive = folder.path("slow.toml");
    let text = "schema = 1\nname = \"slow\"\nbase = \"fixed-100us\"\n[host]\nqueue_depth = 2\n[bucket]\n\
                read_us = 500000\nwrite_us = 500000\n[iocost]\nrrandiops = 2\nwrandiops = 2\n";
    std::fs::write(&drive, text).unwrap();
    let export = format!("disk=emulate:{drive}:16M");
    let bfq = "bfq{slice_idle=600000,strict_guarantees=1,stable_merge=0}";
    for change in [
        "{\"command\":\"set\",\"name\":\"low_latency\",\"value\":\"0\"}",
        "{\"command\":\"set\",\"name\":\"nr_requests\",\"value\":\"8\"}",
        "{\"command\":\"scheduler\",\"scheduler\":\"mq-deadline\"}",
    ] {
        // Five commands of half a second, two at a time, and a flush; policies would take ten minutes. An end
        // that takes longer than its limit has exit code 1.
        let args = ["-e", &export, "-s", bfq, "--stop-limit", "30s"];
        let Some(mut server) = Server::start(&folder, &args) else { return };
        let mut awaited = Client::go(&server.socket, "disk", true).unwrap();
        assert_eq!(awaited.read(0, 4096), [0; 4096]);
        let mut c = Client::go(&server.socket, "disk", true).unwrap();
        for n in 0..3 {
            c.send(1, 0, n, n << 20, 4096, &[1; 4096]);
        }
        // The idle wait has begun; a read of the awaited client is at the device or behind it.
        awaited.send(0, 0, 9, 8 << 20, 4096, &[]);
        let (control, line) = (server.control.clone(), change.to_string());
        let asked = std::thread::spawn(move || ask(&control, &line));
        std::thread::sleep(Duration::from_millis(100));
        server.signal();
        server.end_well(change);
        let _ = asked.join().unwrap();
        let mut cookies: Vec<_> = (0..3).map(|_| c.reply(&[])).map(|(n, e, _)| (n, e)).collect();
        cookies.sort_unstable();
        assert_eq!(cookies, [(0, 0), (1, 0), (2, 0)], "{change}: what was taken is answered");
        assert_eq!(awaited.reply(&[]).1, 0, "{change}");
    }
}

#[test]
fn ten_interrupted_measurements_leave_the_machine_as_it_was() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/interrupt.sh");
    let mut command = Command::new(script);
    command.args(["10", "1"]).env("HOISTWAY", HOISTWAY).env("ROUND_MS", "4000");
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    match output.status.code() {
        // No root, no loop devices, no mkfs.ext4.
        Some(3) => println!("{told}"),
        code => assert_eq!(code, Some(0), "{told}{}", String::from_utf8_lossy(&output.stderr)),
    }
}

#[test]
fn restore_takes_away_what_a_run_left_before_the_machine_was_started_anew() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let folder = Folder::new("restore");
    let (state, left) = (folder.0.join("state"), folder.0.join(".hoistway-77"));
    std::fs::create_dir_all(&state).unwrap();
    std::fs::create_dir(&left).unwrap();
    std::fs::write(left.join("file0"), "data of a run").unwrap();
    let file = state.join("77-0.state");
    let meta = std::fs::metadata(&left).unwrap();
    let text = format!(
        "hoistway-state 1\nboot of-another-start\nowner 77 compare latency-2019\n\
         process\t{}\t1\nfolder\t{}\t{}\t{}\n",
        std::process::id(),
        left.display(),
        meta.dev(),
        meta.ino(),
    );
    std::fs::write(&file, text).unwrap();
    // Whatever is usual here: what others can write is refused.
    for (path, mode) in [(&state, 0o700), (&file, 0o600)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let restore = |args: &[&str]| {
        let mut command = Command::new(HOISTWAY);
        command.arg("restore").args(args).env("HOISTWAY_STATE_DIR", &state);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let dry = restore(&["--dry-run"]);
    let would = format!("  would put back: folder {}\n", left.display());
    assert!(dry.starts_with("compare latency-2019 (process 77) ended with the machine"), "{dry}");
    assert!(dry.ends_with(&would) && left.exists(), "{dry}");
    let json: serde_json::Value = serde_json::from_str(&restore(&["--json"])).unwrap();
    assert_eq!((&json[0]["restored"], &json[0]["rebooted"]), (&true.into(), &true.into()));
    assert!(!left.exists() && !file.exists());
    assert_eq!(restore(&[]), "nothing to put back\n");
}
