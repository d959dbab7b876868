//! Clients that vanish, stall, flood: what a server of its own process makes of them, measured from
//! outside. Others are served meanwhile, and its memory stays within the bounds of
//! docs/guide/serve.md.
#![cfg(all(feature = "live", target_os = "linux"))]

#[path = "../../hoistway-serve/tests/client/mod.rs"]
mod client;
mod serving;

use client::{Client, wait_for};
use hoistway_sim::rng::{Rng, stream};
use serving::{HOISTWAY, begun};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// A server over memory, with a folder for its sockets.
struct Server {
    process: Child,
    folder: PathBuf,
    socket: PathBuf,
    control: PathBuf,
}

impl Server {
    /// `wishes`: further lines of its configuration, before the export.
    fn start(name: &str, target: &str, wishes: &str) -> Server {
        let folder =
            std::env::temp_dir().join(format!("hoistway-clients-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let (socket, control) = (folder.join("nbd.sock"), folder.join("ctl.sock"));
        let config = folder.join("serve.toml");
        let text = format!(
            "listen = [\"unix:{}\", \"tcp:0\"]\ncontrol = \"{}\"\nscheduler = \"bfq{{slice_idle=0}}\"\n{wishes}\n[[export]]\n\
             name = \"disk\"\ntarget = \"{target}\"\n",
            socket.display(),
            control.display()
        );
        std::fs::write(&config, text).unwrap();
        let mut command = Command::new(HOISTWAY);
        command.args(["serve", "-q", "--config"]).arg(&config);
        let process = begun(&mut command, || UnixStream::connect(&control).is_ok()).unwrap();
        Server { process, folder, socket, control }
    }

    fn client(&self) -> Client {
        Client::go(&self.socket, "disk", true).unwrap()
    }

    /// The port the kernel chose: the listening socket of that process.
    fn port(&self) -> u16 {
        let listening: Vec<(String, u16)> = std::fs::read_to_string("/proc/net/tcp")
            .unwrap()
            .lines()
            .filter_map(|line| {
                let words: Vec<_> = line.split_whitespace().collect();
                let port = words.get(1)?.split_once(':')?.1;
                let port = u16::from_str_radix(port, 16).ok()?;
                (words[3] == "0A").then(|| (format!("socket:[{}]", words[9]), port))
            })
            .collect();
        std::fs::read_dir(format!("/proc/{}/fd", self.process.id()))
            .unwrap()
            .filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok())
            .find_map(|to| listening.iter().find(|(s, _)| *to == **s).map(|l| l.1))
            .expect("it listens on TCP")
    }

    fn list(&self) -> Vec<serde_json::Value> {
        let output = Command::new(HOISTWAY)
            .args(["ctl", "--control"])
            .arg(&self.control)
            .args(["list", "--json"])
            .output()
            .unwrap();
        let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        list["devices"][0]["clients"].as_array().unwrap().clone()
    }

    /// Resident memory at its highest so far.
    fn memory_most(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    }

    fn stop(mut self) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert_eq!(self.process.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The bounds that docs/guide/serve.md states, and 64 MiB for the program itself.
fn bound(connections: u64) -> u64 {
    (512 + 32 + 64 + 64) * MIB + connections * MIB / 2
}

/// Writes and reads its own blocks, one after the other, until told to stop.
fn steady(mut c: Client, number: u64, stop: &AtomicBool, served: &AtomicU64) {
    let mut random = stream(number, "clients");
    while !stop.load(SeqCst) {
        let at = (number * 64 + random.below(64)) * 4096;
        let byte = random.below(256) as u8;
        c.send(1, 0, 1, at, 4096, &[byte; 4096]);
        assert_eq!(c.reply(&[]), (1, 0, Vec::new()));
        assert_eq!(c.read(at, 4096), [byte; 4096]);
        served.fetch_add(1, SeqCst);
    }
    c.disconnect();
}

fn tcp(port: u16) -> UnixStream {
    // The client only reads and writes: to it every socket is alike.
    UnixStream::from(OwnedFd::from(TcpStream::connect(("127.0.0.1", port)).unwrap()))
}

/// Goes away at some point of a conversation: within a request, a payload, or the replies.
fn vanish(mut c: Client, random: &mut Rng) {
    let end = random.below(4);
    for n in 0..random.below(24) {
        let at = MIB + random.below(64) * 4096;
        match random.below(3) {
            0 => c.send(0, 0, n, at, 16 << 10, &[]),
            1 => c.send(1, 1, n, at, 16 << 10, &[1; 16 << 10]),
            _ => c.send(3, 0, n, 0, 0, &[]),
        }
    }
    match end {
        0 => {
            let request = c.request(0, 0, 99, 0, 4096);
            c.raw(&request[..random.below(28) as usize]);
        }
        1 => {
            let request = c.request(1, 0, 99, MIB, 1 << 20);
            c.raw(&request);
            c.raw(&vec![2; random.below(1 << 19) as usize]);
        }
        // Some of the replies: what is left unread makes the kernel reset the connection.
        2 => {
            c.send(0, 0, 99, MIB, 64 << 10, &[]);
            let _ = c.stream.read(&mut vec![0; random.below(20_000) as usize + 1]);
        }
        _ => {
            let _ = c.stream.shutdown(std::net::Shutdown::Write);
            if random.below(2) == 0 {
                let _ = c.stream.read_to_end(&mut Vec::new());
            }
        }
    }
}

#[test]
fn clients_that_vanish_anywhere_disturb_nobody_and_leave_nothing() {
    let server = Server::start("vanish", "ram:16M", "");
    let port = server.port();
    let (stop, served) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for n in 0..3 {
            let (c, stop, served) = (server.client(), &stop, &served);
            scope.spawn(move || steady(c, n, stop, served));
        }
        let vanishing: Vec<_> = (0..2u64)
            .map(|n| {
                let server = &server;
                scope.spawn(move || {
                    let mut random = stream(100 + n, "clients");
                    for round in 0..150 {
                        let c = if round % 2 == 0 {
                            server.client()
                        } else {
                            Client::go_over(tcp(port), "disk", round % 3 == 0).unwrap()
                        };
                        vanish(c, &mut random);
                    }
                })
            })
            .collect();
        let ended: Vec<_> = vanishing.into_iter().map(|v| v.join()).collect();
        stop.store(true, SeqCst);
        ended.into_iter().for_each(|e| e.unwrap());
    });
    assert!(served.load(SeqCst) > 100, "{served:?} rounds of the others");
    assert!(wait_for(|| server.list().is_empty()), "{:?} are left", server.list());
    assert!(server.memory_most() < 256 * MIB, "{} MiB", server.memory_most() / MIB);
    server.stop();
}

#[test]
fn clients_that_take_no_answers_are_bounded_and_give_way() {
    let server = Server::start("stalled", "null:1G", "");
    let (stop, served) = (AtomicBool::new(false), AtomicU64::new(0));
    let stalled = 12;
    std::thread::scope(|scope| {
        let (c, stop, served) = (server.client(), &stop, &served);
        scope.spawn(move || {
            let mut c = c;
            while !stop.load(SeqCst) {
                assert_eq!(c.read(0, 4096), [0; 4096]);
                served.fetch_add(1, SeqCst);
            }
        });
        let at_the_end = Stop(stop);
        let holding: Vec<Client> = (0..stalled)
            .map(|n| {
                let mut c = server.client();
                c.stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
                if n % 3 != 0 {
                    // 16 x 8 MiB of answers that are not read.
                    for cookie in 0..16 {
                        c.send(0, 0, cookie, 0, 8 << 20, &[]);
                    }
                } else {
                    // 32 MiB of data that do not come: as much as is taken.
                    let request = c.request(1, 0, 1, 0, 32 << 20);
                    let _ = c.stream.write_all(&request);
                    let _ = c.stream.write_all(&vec![0; 8 << 20]);
                }
                c
            })
            .collect();
        let before = served.load(SeqCst);
        assert!(wait_for(|| served.load(SeqCst) > before + 10), "small requests are served");
        // A large one is served when those who hold everything have been cut off.
        let mut large = server.client();
        assert_eq!(large.read(0, 16 << 20).len(), 16 << 20);
        drop(holding);
        drop(at_the_end);
    });
    let (most, limit) = (server.memory_most(), bound(stalled + 2));
    println!("{} MiB at most, bound {} MiB", most / MIB, limit / MIB);
    assert!(most < limit, "{} MiB of {} MiB", most / MIB, limit / MIB);
    server.stop();
}

/// Sets a flag when it is dropped, also by a panic.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn a_flood_of_connections_beyond_the_limit_is_closed_and_passes() {
    let server = Server::start("flood", "ram:16M", "connections = 50");
    let mut stays = server.client();
    let mut flood = Vec::new();
    for _ in 0..400 {
        flood.push(UnixStream::connect(&server.socket).unwrap());
        assert_eq!(stays.read(0, 512), [0; 512]);
    }
    let greeted = flood
        .iter_mut()
        .filter_map(|s| {
            s.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            match s.read_exact(&mut [0; 18]) {
                Ok(()) => Some(()),
                Err(e) => {
                    assert_ne!(e.kind(), ErrorKind::WouldBlock, "closed, not left waiting");
                    None
                }
            }
        })
        .count();
    // The control socket has looked in, and gone, before.
    assert!((47..=49).contains(&greeted), "{greeted} greeted");
    drop(flood);
    let mut again = None;
    assert!(wait_for(|| {
        again = Client::go(&server.socket, "disk", true).ok();
        again.is_some()
    }));
    assert_eq!(again.expect("there is room again").read(0, 512), [0; 512]);
    drop(stays);
    server.stop();
}

#[test]
fn a_thousand_connections_work_at_once_in_bounded_memory() {
    let server = Server::start("thousand", "null:1G", "");
    let mut all = Vec::new();
    for n in 0..1000u64 {
        match Client::go(&server.socket, "disk", true) {
            Ok(c) => all.push(c),
            Err(e) => return println!("skipped: {n} connections, then {e} (ulimit -n?)"),
        }
    }
    for round in 0..3u64 {
        for (n, c) in all.iter_mut().enumerate() {
            (0..4).for_each(|k| {
                c.send(1, 0, k, n as u64 * 65536, 16 << 10, &[round as u8; 16 << 10])
            });
        }
        for c in &mut all {
            (0..4).for_each(|_| assert_eq!(c.reply(&[]).1, 0));
        }
    }
    assert_eq!(server.list().len(), 1000);
    println!("{} MiB at most", server.memory_most() / MIB);
    assert!(server.memory_most() < bound(1000));
    drop(all);
    server.stop();
}
