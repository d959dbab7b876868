//! The server is killed (`kill -9`) at random points under writes and flushes; whatever it had confirmed
//! as durable must be in the file. What this cannot show is a lost power supply: the kernel survives.
//!
//! `HOISTWAY_ROUNDS=200 cargo test -p hoistway-cli --test durability` for more than a few rounds.
#![cfg(all(feature = "live", target_os = "linux"))]

#[path = "../../hoistway-live/tests/client/mod.rs"]
mod client;

use client::{Client, FUA, Random};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

const BLOCK: usize = 4096;
/// Blocks each of the connections writes to.
const BLOCKS: u64 = 64;
const CONNECTIONS: u64 = 4;

/// What a connection knows of one block: the newest version confirmed as durable, and the newest sent.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    durable: u64,
    sent: u64,
}

#[test]
fn what_was_confirmed_survives_kill_9() {
    let rounds =
        std::env::var("HOISTWAY_ROUNDS").map_or(6, |n| n.parse().expect("a number of rounds"));
    let folder = std::env::temp_dir().join(format!("hoistway-durability-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut random = Random(11);
    for round in 0..rounds {
        let wishes = ["", ",direct", ",way=threads"][round % 3];
        let scheduler = ["bfq", "none", "mq-deadline", "kyber"][round % 4];
        if !one_round(&folder, wishes, scheduler, &mut random, round as u64) {
            println!("skipped: file{wishes} cannot be served here");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

fn one_round(
    folder: &Path,
    wishes: &str,
    scheduler: &str,
    random: &mut Random,
    round: u64,
) -> bool {
    let (disk, socket) = (folder.join("disk"), folder.join("s.sock"));
    let _ = std::fs::remove_file(&socket);
    let file = std::fs::File::create(&disk).unwrap();
    file.set_len(CONNECTIONS * BLOCKS * BLOCK as u64).unwrap();
    let Some(mut server) = start(&disk, wishes, scheduler, &socket) else { return false };
    let writers: Vec<_> = (0..CONNECTIONS)
        .map(|n| {
            let client = Client::go(&socket, "disk", n % 2 == 0).unwrap();
            std::thread::spawn(move || write_until_it_dies(client, n, round))
        })
        .collect();
    std::thread::sleep(Duration::from_millis(5 + random.below(60)));
    server.kill().unwrap();
    server.wait().unwrap();
    let file = std::fs::File::open(&disk).unwrap();
    let mut confirmed = 0;
    for (n, writer) in writers.into_iter().enumerate() {
        for (at, known) in writer.join().unwrap().iter().enumerate() {
            let block = n as u64 * BLOCKS + at as u64;
            let mut bytes = [0; BLOCK];
            file.read_exact_at(&mut bytes, block * BLOCK as u64).unwrap();
            let version = version_of(&bytes, block, round);
            assert!(
                (known.durable..=known.sent).contains(&version),
                "round {round} ({wishes:?}, {scheduler}): block {block} has version {version}, {known:?}"
            );
            confirmed += u64::from(known.durable > 0);
        }
    }
    println!("round {round}: {confirmed} blocks with confirmed contents");
    true
}

fn start(disk: &Path, wishes: &str, scheduler: &str, socket: &PathBuf) -> Option<Child> {
    let export = format!("disk=file:{}{wishes}", disk.display());
    let mut server = Command::new(env!("CARGO_BIN_EXE_hoistway"))
        .args(["serve", "-q", "-e", &export, "-s", scheduler, "-U"])
        .arg(socket)
        .spawn()
        .unwrap();
    for _ in 0..1000 {
        if std::os::unix::net::UnixStream::connect(socket).is_ok() {
            return Some(server);
        }
        if let Some(status) = server.try_wait().unwrap() {
            assert_eq!(status.code(), Some(3), "only the environment is an excuse");
            return None;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the server does not listen");
}

/// Batches of writes, some with forced unit access, each batch followed by a flush.
fn write_until_it_dies(mut client: Client, connection: u64, round: u64) -> Vec<Known> {
    let mut known = vec![Known::default(); BLOCKS as usize];
    let mut random = Random(round * 100 + connection);
    let mut version = 0;
    loop {
        version += 1;
        match batch(&mut client, connection, round, version, &mut random, &mut known) {
            Ok(()) => {}
            Err(_) => return known,
        }
    }
}

fn batch(
    client: &mut Client,
    connection: u64,
    round: u64,
    version: u64,
    random: &mut Random,
    known: &mut [Known],
) -> io::Result<()> {
    let mut written = Vec::new();
    for at in 0..BLOCKS {
        if random.below(3) != 0 {
            continue;
        }
        let (block, fua) = (connection * BLOCKS + at, random.below(8) == 0);
        known[at as usize].sent = version;
        let flags = if fua { FUA } else { 0 };
        let offset = block * BLOCK as u64;
        client.try_send(1, flags, at, offset, BLOCK as u32, &contents(block, round, version))?;
        written.push((at, fua));
    }
    for _ in 0..written.len() {
        let (at, error, _) = client.try_reply(&[])?;
        assert_eq!(error, 0);
        if written.contains(&(at, true)) {
            known[at as usize].durable = version;
        }
    }
    client.try_send(3, 0, 1000, 0, 0, &[])?;
    assert_eq!(client.try_reply(&[])?, (1000, 0, Vec::new()));
    for (at, _) in written {
        known[at as usize].durable = version;
    }
    Ok(())
}

/// A block full of its number, the round and its version: a torn or misplaced one is noticed.
fn contents(block: u64, round: u64, version: u64) -> Vec<u8> {
    [block, round, version].map(u64::to_le_bytes).concat().repeat(BLOCK / 24 + 1)[..BLOCK].to_vec()
}

fn version_of(bytes: &[u8], block: u64, round: u64) -> u64 {
    if bytes.iter().all(|&b| b == 0) {
        return 0;
    }
    let version = u64::from_le_bytes(bytes[16..24].try_into().unwrap());
    assert!(bytes == contents(block, round, version), "block {block} is torn or misplaced");
    version
}
