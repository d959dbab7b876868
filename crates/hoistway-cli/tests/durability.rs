//! The server is killed (`kill -9`) at random points under writes, zeroes, flushes and changes of
//! scheduler; whatever it had confirmed as durable must be in the file. What this cannot show is a
//! lost power supply: the kernel survives. That a flush reaches the storage at all is shown beside
//! it, on a file whose storage keeps a log.
//!
//! `HOISTWAY_ROUNDS=200 cargo test -p hoistway-cli --test durability` for more than a few rounds.
#![cfg(all(feature = "live", target_os = "linux"))]

#[path = "../../hoistway-serve/tests/client/mod.rs"]
mod client;
mod serving;

use client::{Client, FUA, NO_HOLE};
use hoistway::sched::SCHEDULERS;
use hoistway_sim::rng::{Rng, stream};
use serving::{Folder, LIMIT, begun, installed, wait_for};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const BLOCK: usize = 4096;
/// Blocks each of the connections writes to: pairs side by side, the next pair is the next
/// connection's.
const BLOCKS: u64 = 64;
const CONNECTIONS: u64 = 4;
/// Ways to a file, with the schedulers to begin with.
const WISHES: [&str; 4] = ["", ",direct", ",way=threads", "emulated"];

/// What all connections know of one block. Versions grow; every fourth one is zeroes.
#[derive(Debug, Default)]
struct Known {
    /// Newest version that was sent.
    sent: AtomicU64,
    /// Newest version that was answered.
    answered: AtomicU64,
    /// Newest version that a flush, on whichever connection, or forced unit access made durable.
    durable: AtomicU64,
}

type Shared = Arc<Vec<Known>>;

#[test]
fn what_was_confirmed_survives_kill_9() {
    let rounds =
        std::env::var("HOISTWAY_ROUNDS").map_or(8, |n| n.parse().expect("a number of rounds"));
    let folder = Folder::new("durability");
    let mut random = stream(11, "durability");
    let (mut confirmed, mut done) = (0, 0);
    for round in 0..rounds {
        let wishes = WISHES[round % WISHES.len()];
        match one_round(&folder, wishes, &mut random, round as u64) {
            Some(blocks) => (confirmed, done) = (confirmed + blocks, done + 1),
            None => println!("skipped: {wishes} cannot be served here"),
        }
    }
    println!("{done} rounds, {confirmed} blocks with confirmed contents");
    assert!(done == 0 || confirmed > done * 20, "hardly a test");
}

fn one_round(folder: &Folder, wishes: &str, random: &mut Rng, round: u64) -> Option<u64> {
    let disk = folder.file("disk", CONNECTIONS * BLOCKS * BLOCK as u64);
    let target = match wishes {
        "emulated" => format!("disk=emulate:plextor-px-256m5s:1M,data={disk}"),
        _ => format!("disk=file:{disk}{wishes}"),
    };
    let (socket, control) = (folder.0.join("s.sock"), folder.0.join("c.sock"));
    let entry = SCHEDULERS[round as usize % SCHEDULERS.len()];
    let mut server = start(&target, entry.name, &socket, &control)?;
    let known: Shared = Arc::new((0..CONNECTIONS * BLOCKS).map(|_| Known::default()).collect());
    let writers: Vec<_> = (0..CONNECTIONS)
        .map(|n| {
            let client = Client::go(&socket, "disk", n % 2 == 0).unwrap();
            let known = Arc::clone(&known);
            std::thread::spawn(move || write_until_it_dies(client, n, round, &known))
        })
        .collect();
    // Until there is something to lose, and then for a while.
    let durable = || known.iter().filter(|k| k.durable.load(SeqCst) > 0).count();
    assert!(wait_for(|| durable() > 40), "nothing becomes durable");
    std::thread::sleep(Duration::from_millis(random.below(40)));
    if round.is_multiple_of(2) {
        // Another scheduler is taking over, or has just done so.
        let next = SCHEDULERS[random.below(SCHEDULERS.len() as u64) as usize];
        let mut stream = UnixStream::connect(&control).unwrap();
        writeln!(stream, "{{\"command\":\"scheduler\",\"scheduler\":\"{}\"}}", next.name).unwrap();
    }
    std::thread::sleep(Duration::from_millis(random.below(25)));
    server.kill().unwrap();
    server.wait().unwrap();
    writers.into_iter().for_each(|w| w.join().unwrap());
    Some(check(Path::new(&disk), &known, &format!("round {round} ({wishes:?}, {})", entry.name)))
}

fn check(disk: &Path, known: &[Known], what: &str) -> u64 {
    let (file, mut confirmed) = (std::fs::File::open(disk).unwrap(), 0);
    for (block, known) in known.iter().enumerate() {
        let mut bytes = [0; BLOCK];
        file.read_exact_at(&mut bytes, (block * BLOCK) as u64).unwrap();
        let (durable, sent) = (known.durable.load(SeqCst), known.sent.load(SeqCst));
        let version = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
        if version == 0 {
            assert_eq!(bytes, [0; BLOCK], "{what}: block {block} is torn");
            let legal = (durable..=sent).any(is_zero);
            assert!(legal, "{what}: block {block} is zeroes, {known:?}");
        } else {
            assert_eq!(
                bytes[..],
                contents(block as u64, version),
                "{what}: block {block} is torn or misplaced"
            );
            let legal = (durable..=sent).contains(&version) && !is_zero(version);
            assert!(legal, "{what}: block {block} has version {version}, {known:?}");
        }
        confirmed += u64::from(durable > 0);
    }
    confirmed
}

fn start(target: &str, scheduler: &str, socket: &PathBuf, control: &PathBuf) -> Option<Child> {
    for old in [socket, control] {
        let _ = std::fs::remove_file(old);
    }
    let mut command = Command::new(serving::HOISTWAY);
    command.args(["serve", "-q", "-e", target, "-s", scheduler, "-U"]);
    command.arg(socket).arg("--control").arg(control);
    begun(&mut command, || UnixStream::connect(control).is_ok())
}

/// Batches of writes and zeroes, some with forced unit access; after some batches a flush, which
/// speaks for everybody.
fn write_until_it_dies(mut client: Client, connection: u64, round: u64, known: &[Known]) {
    let mut random = stream(round * 100 + connection, "durability");
    for version in 1.. {
        if batch(&mut client, connection, version, &mut random, known).is_err() {
            return;
        }
    }
}

fn batch(
    client: &mut Client,
    connection: u64,
    version: u64,
    random: &mut Rng,
    known: &[Known],
) -> io::Result<()> {
    let mut durable = Vec::new();
    let mut count = 0;
    for at in 0..BLOCKS {
        if random.below(3) == 0 {
            continue;
        }
        let block = (at / 2 * CONNECTIONS + connection) * 2 + at % 2;
        let fua = random.below(8) == 0;
        known[block as usize].sent.store(version, SeqCst);
        let flags = if fua { FUA } else { 0 };
        let offset = block * BLOCK as u64;
        if is_zero(version) {
            let hole = if random.below(2) == 0 { NO_HOLE } else { 0 };
            client.try_send(6, flags | hole, block, offset, BLOCK as u32, &[])?;
        } else {
            client.try_send(1, flags, block, offset, BLOCK as u32, &contents(block, version))?;
        }
        if fua {
            durable.push(block);
        }
        count += 1;
    }
    for _ in 0..count {
        let (block, error, _) = client.try_reply(&[])?;
        assert_eq!(error, 0);
        known[block as usize].answered.store(version, SeqCst);
        if durable.contains(&block) {
            known[block as usize].durable.fetch_max(version, SeqCst);
        }
    }
    if random.below(2) == 0 {
        return Ok(());
    }
    // What was answered to anybody before the flush is asked for.
    let before: Vec<u64> = known.iter().map(|k| k.answered.load(SeqCst)).collect();
    client.try_send(3, 0, 100_000, 0, 0, &[])?;
    assert_eq!(client.try_reply(&[])?, (100_000, 0, Vec::new()));
    for (known, version) in known.iter().zip(before) {
        known.durable.fetch_max(version, SeqCst);
    }
    Ok(())
}

fn is_zero(version: u64) -> bool {
    version.is_multiple_of(4)
}

/// A block full of its number and its version: a torn or misplaced one is noticed.
fn contents(block: u64, version: u64) -> Vec<u8> {
    [block, version].map(u64::to_le_bytes).concat().repeat(BLOCK / 16)
}

/// Ended and unmounted with the test.
struct Mounted {
    processes: Vec<Child>,
    place: PathBuf,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.place).status();
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

#[test]
fn flushes_and_durable_writes_reach_the_storage() {
    if !installed(&["nbdkit", "nbdfuse"]) {
        return;
    }
    let folder = Folder::new("reach");
    let (far, log, place) = (folder.path("far.sock"), folder.path("log"), folder.0.join("mnt"));
    std::fs::create_dir(&place).unwrap();
    let nbdkit = Command::new("timeout")
        .args([LIMIT, "nbdkit", "-f", "-U", &far, "--filter=log", "memory", "16M"])
        .arg(format!("logfile={log}"))
        .spawn()
        .unwrap();
    let mut mounted = Mounted { processes: vec![nbdkit], place: place.clone() };
    assert!(wait_for(|| UnixStream::connect(&far).is_ok()), "nbdkit listens");
    let mut nbdfuse = Command::new("timeout");
    nbdfuse.args([LIMIT, "nbdfuse"]).arg(&place).args(["--unix", &far]);
    mounted.processes.push(nbdfuse.spawn().unwrap());
    let disk = place.join("nbd");
    // It ends, with its reason, where it cannot mount.
    let mut ended = || mounted.processes[1].try_wait().unwrap().is_some();
    assert!(wait_for(|| disk.exists() || ended()), "nbdfuse does nothing");
    if !disk.exists() {
        return println!("skipped: FUSE cannot be mounted here");
    }
    let flushes = || {
        let text = std::fs::read_to_string(&log).unwrap();
        text.lines().filter(|l| l.contains("Flush id=")).count()
    };
    let (socket, control) = (folder.0.join("s.sock"), folder.0.join("c.sock"));
    for wishes in ["", ",way=threads"] {
        let target = format!("disk=file:{}{wishes}", disk.display());
        let Some(mut server) = start(&target, "mq-deadline", &socket, &control) else {
            println!("skipped: file{wishes} on FUSE cannot be served here");
            continue;
        };
        let mut c = Client::go(&socket, "disk", true).unwrap();
        let mut asked = |kind, flags, data: &[u8]| {
            let before = flushes();
            c.send(kind, flags, 1, 0, if kind == 3 { 0 } else { 4096 }, data);
            assert_eq!(c.reply(&[]), (1, 0, Vec::new()), "{kind}{wishes}");
            flushes() - before
        };
        assert_eq!(asked(1, 0, &[1; 4096]), 0, "{wishes}: a plain write flushes nothing");
        assert!(asked(3, 0, &[]) > 0, "{wishes}: a flush reaches the storage");
        assert!(asked(1, FUA, &[2; 4096]) > 0, "{wishes}: a durable write reaches the storage");
        assert!(asked(6, FUA | NO_HOLE, &[]) > 0, "{wishes}: durable zeroes reach the storage");
        let before = flushes();
        c.send(1, 0, 1, 0, 4096, &[3; 4096]);
        assert_eq!(c.reply(&[]).1, 0);
        let pid = server.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert_eq!(server.wait().unwrap().code(), Some(0));
        assert!(flushes() > before, "{wishes}: so does the flush of the end");
    }
}
