//! A steady load over NBD allocates nothing on the owner thread: an allocator counts.
#![cfg(target_os = "linux")]

mod client;

use client::Client;
use hoistway::sched;
use hoistway_serve::device::SocketWay;
use hoistway_serve::front::Export;
use hoistway_serve::front::nbd::{Server, ServerOptions};
use hoistway_serve::net::Listen;
use hoistway_serve::storage::{Emulation, FileOptions, Way};
use hoistway_serve::{Device, DeviceOptions, ServeError, Target};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::rng::{Rng, stream};
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::SeqCst};

/// The system's allocator, which counts what the owner thread asks for.
struct Counting;

static OWNER: AtomicI32 = AtomicI32::new(0);
static COUNT: AtomicU64 = AtomicU64::new(0);

fn count() {
    // SAFETY: asks for the number of this thread; no memory is involved.
    if OWNER.load(SeqCst) == unsafe { libc::gettid() } {
        COUNT.fetch_add(1, SeqCst);
    }
}

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SIZE: u64 = 16 << 20;
const CONNECTIONS: usize = 4;
const DEPTH: u64 = 32;
/// Batches per connection between two looks at the counter.
const BATCHES: u32 = 30;

/// The thread that owns the only device there is.
fn owner_thread() -> i32 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let owner = tasks.filter_map(Result::ok).find(|task| {
        std::fs::read_to_string(task.path().join("comm"))
            .is_ok_and(|c| c.trim() == "hoistway-owner")
    });
    owner.expect("the device has a thread").file_name().to_str().unwrap().parse().unwrap()
}

/// A batch of all kinds, as many under way as the depth.
fn batch(c: &mut Client, random: &mut Rng) {
    for cookie in 0..DEPTH {
        let len = [4096, 4096, 16 << 10, 64 << 10][random.below(4) as usize];
        let at = random.below((SIZE - len) / 4096) * 4096;
        match random.below(8) {
            0..4 => c.send(0, 0, cookie, at, len as u32, &[]),
            4..7 => c.send(1, 0, cookie, at, len as u32, &vec![7; len as usize]),
            _ => c.send(3, 0, cookie, 0, 0, &[]),
        }
    }
    (0..DEPTH).for_each(|_| assert_eq!(c.reply(&[]).1, 0));
}

fn steady(what: &str, target: &Target, scheduler: &str, sockets: SocketWay) {
    let mut options = DeviceOptions::new(sched::find(scheduler).unwrap());
    options.sockets = sockets;
    let device = match Device::open(target, &options) {
        Err(e @ ServeError::TooFast { .. }) => return println!("skipped: {e}"),
        other => other.unwrap(),
    };
    // An answer shows that the thread runs, and has its name.
    device.counters().unwrap();
    let owner = owner_thread();
    let path = std::env::temp_dir().join(format!("hoistway-alloc-{}.sock", std::process::id()));
    let exports = vec![Export::new("disk", device)];
    let server =
        Server::start(exports, &[Listen::Unix(path.clone())], &ServerOptions::default()).unwrap();
    let mut clients: Vec<_> = (0..CONNECTIONS as u64)
        .map(|n| (Client::go(&path, "disk", true).unwrap(), stream(n, "allocations")))
        .collect();
    // How many buffers are in use at once depends on the weather: each phase may still meet a new
    // record. An allocation per request, or per some, would show in all of them.
    let mut phases = Vec::new();
    while phases.last() != Some(&0) {
        assert!(phases.len() < 40, "{what}, {scheduler}: allocations per phase: {phases:?}");
        OWNER.store(owner, SeqCst);
        COUNT.store(0, SeqCst);
        std::thread::scope(|scope| {
            for (c, random) in &mut clients {
                scope.spawn(|| (0..BATCHES).for_each(|_| batch(c, random)));
            }
        });
        OWNER.store(0, SeqCst);
        phases.push(COUNT.load(SeqCst));
    }
    println!("{what}, {scheduler}: allocations per {} requests: {phases:?}", {
        CONNECTIONS as u64 * DEPTH * u64::from(BATCHES)
    });
    drop(clients);
    server.stop().unwrap();
}

/// One test, so that there is one device at a time.
#[test]
fn a_steady_load_allocates_nothing_on_the_owner_thread() {
    for scheduler in ["none", "mq-deadline", "kyber", "bfq", "cfq"] {
        steady("memory", &Target::Ram { size: SIZE }, scheduler, SocketWay::Best);
    }
    for scheduler in ["none", "bfq"] {
        steady("memory by epoll", &Target::Ram { size: SIZE }, scheduler, SocketWay::Epoll);
    }
    let mut emulation = Emulation::new(DriveFile::load("intel-320-160g").unwrap());
    emulation.size = Some(SIZE);
    steady("emulated", &Target::Emulated(Box::new(emulation)), "none", SocketWay::Best);
    let path: PathBuf =
        std::env::temp_dir().join(format!("hoistway-alloc-{}.disk", std::process::id()));
    std::fs::File::create(&path).unwrap().set_len(SIZE).unwrap();
    for way in [Way::Best, Way::Threads] {
        let options = FileOptions { way, ..FileOptions::default() };
        let target = Target::File { path: path.clone(), options };
        steady(&format!("file, {way:?}"), &target, "mq-deadline", SocketWay::Best);
    }
    std::fs::remove_file(&path).unwrap();
}
