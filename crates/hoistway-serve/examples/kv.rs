//! A tiny key-value store on a hoistway device: a log of records and an index of it in memory. Its
//! compaction copies the log's live records to the other half of the device. Get and put belong to a
//! group of high weight, compaction to one of low weight: under `bfq` it hardly disturbs them.
//!
//! ```text
//! cargo run --release -p hoistway-serve --example kv -- [FILE [SCHEDULER]]
//! ```
//!
//! Without a file it runs on the emulated HITACHI disk under `bfq`. Deletion, crashes and growth are
//! left out: this is about who waits for whom.

use hoistway::{IoPrio, sched};
use hoistway_serve::storage::FileOptions;
use hoistway_serve::{Buffer, Client, Device, DeviceOptions, GroupSpec, Target};
use hoistway_sim::drive::DriveFile;
use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Every record takes one block: key, length, value.
const BLOCK: u64 = 4096;
const VALUE_MAX: usize = BLOCK as usize - 16;

struct Store {
    /// Gets and puts.
    front: Client,
    /// Compaction.
    back: Client,
    /// Blocks of one half of the device.
    half: u64,
    log: Mutex<Log>,
}

struct Log {
    /// Which half is written: 0 or 1.
    active: u64,
    /// First free block of it.
    end: u64,
    /// Where the newest record of each key is.
    index: BTreeMap<u64, u64>,
}

impl Store {
    fn new(device: &Device) -> Result<Store, Box<dyn Error>> {
        let (front, _) = device.set_group(&GroupSpec::new("front").weight(900))?;
        let (back, idle) = device.set_group(&GroupSpec::new("compaction").weight(10))?;
        idle.iter().for_each(|sentence| eprintln!("note: {sentence}"));
        let log = Log { active: 0, end: 0, index: BTreeMap::new() };
        Ok(Store {
            front: device.client_of(front, IoPrio::NONE)?,
            back: device.client_of(back, IoPrio::NONE)?,
            half: device.facts().size / BLOCK / 2,
            log: Mutex::new(log),
        })
    }

    fn put(&self, key: u64, value: &[u8]) -> io::Result<()> {
        let block = {
            let mut log = self.log.lock().expect("no thread panics with the log");
            let block = log.active * self.half + log.end;
            log.end += 1;
            block
        };
        self.front.start_write(block * BLOCK, record(key, value)).wait()?;
        self.log.lock().expect("no thread panics with the log").index.insert(key, block);
        Ok(())
    }

    fn get(&self, key: u64) -> io::Result<Option<Vec<u8>>> {
        let at = self.log.lock().expect("no thread panics with the log").index.get(&key).copied();
        let Some(block) = at else { return Ok(None) };
        let buffer = Buffer::zeroed(BLOCK as usize);
        value(key, &self.front.start_read(block * BLOCK, buffer).wait()?).map(Some)
    }

    /// Copies what lives into the other half, 32 records at a time, and gives the old half up.
    fn compact(&self) -> io::Result<()> {
        let (from, live) = {
            let mut log = self.log.lock().expect("no thread panics with the log");
            let from = log.active;
            (log.active, log.end) = (1 - from, 0);
            (from, log.index.iter().map(|(&k, &b)| (k, b)).collect::<Vec<_>>())
        };
        for chunk in live.chunks(32) {
            let reads = chunk.iter().map(|&(_, block)| {
                self.back.start_read(block * BLOCK, Buffer::zeroed(BLOCK as usize))
            });
            let reads: Vec<_> = reads.collect();
            for (&(key, old), read) in chunk.iter().zip(reads) {
                let buffer = read.wait()?;
                let new = {
                    let mut log = self.log.lock().expect("no thread panics with the log");
                    log.end += 1;
                    log.active * self.half + log.end - 1
                };
                self.back.start_write(new * BLOCK, buffer).wait()?;
                let mut log = self.log.lock().expect("no thread panics with the log");
                // A put in the meantime is newer.
                if log.index.get(&key) == Some(&old) {
                    log.index.insert(key, new);
                }
            }
        }
        self.back.flush()?;
        let result = self.back.discard(from * self.half * BLOCK, self.half * BLOCK);
        match result {
            // A disk keeps what it has.
            Err(e) if e.kind() == io::ErrorKind::Unsupported => Ok(()),
            other => other,
        }
    }
}

fn record(key: u64, value: &[u8]) -> Buffer {
    assert!(value.len() <= VALUE_MAX, "a record is one block");
    let mut buffer = Buffer::zeroed(BLOCK as usize);
    buffer[..8].copy_from_slice(&key.to_le_bytes());
    buffer[8..16].copy_from_slice(&(value.len() as u64).to_le_bytes());
    buffer[16..16 + value.len()].copy_from_slice(value);
    buffer
}

fn value(key: u64, record: &[u8]) -> io::Result<Vec<u8>> {
    let number =
        |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"));
    let (found, len) = (number(0), number(8) as usize);
    if found != key || len > VALUE_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("no record of key {key}")));
    }
    Ok(record[16..16 + len].to_vec())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let target = match args.next() {
        Some(path) => Target::File { path: path.into(), options: FileOptions::default() },
        None => Target::emulated(DriveFile::load("hitachi-hts727550a9e364")?),
    };
    let name = args.next().unwrap_or_else(|| "bfq".into());
    let scheduler = sched::find(&name).ok_or(format!("no scheduler '{name}'"))?;
    let device = Device::open(&target, &DeviceOptions::new(scheduler))?;
    println!("{} under {name}", device.facts().summary);
    let store = Store::new(&device)?;
    const KEYS: u64 = 400;
    for key in 0..KEYS {
        store.put(key, format!("value {key}").as_bytes())?;
    }
    let quiet = gets(&store, KEYS, &AtomicBool::new(true))?;
    let done = AtomicBool::new(false);
    let busy = std::thread::scope(|scope| -> io::Result<_> {
        let compaction = scope.spawn(|| {
            let result = store.compact();
            done.store(true, Ordering::Relaxed);
            result
        });
        let busy = gets(&store, KEYS, &done)?;
        compaction.join().expect("compaction does not panic")?;
        Ok(busy)
    })?;
    println!("mean get: {quiet} us alone, {busy} us while compacting");
    Ok(())
}

/// Gets keys one after the other, 300 at least and until `enough`; mean time of one in microseconds.
#[expect(clippy::disallowed_methods, reason = "an example measures on the wall clock")]
fn gets(store: &Store, keys: u64, enough: &AtomicBool) -> io::Result<u128> {
    let (began, mut n) = (std::time::Instant::now(), 0u64);
    while n < 300 || !enough.load(Ordering::Relaxed) {
        let key = n * 7919 % keys;
        let value = store.get(key)?.expect("every key was put");
        assert_eq!(value, format!("value {key}").as_bytes());
        n += 1;
    }
    Ok(began.elapsed().as_micros() / u128::from(n))
}
