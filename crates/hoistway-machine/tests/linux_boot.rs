//! A kernel in virtual time, where one is built: it boots, its disk is the drive, and it does the same every time.
//!
//! Process 1 of the guest is this very program, which then runs [`guest`] alone.
#![cfg(target_os = "linux")]

use hoistway_machine::linux::{Boot, Ended, find};
use hoistway_sim::drive::DriveFile;
use std::ffi::{CString, OsString};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

const DRIVE: &str = "hitachi-hts727550a9e364";

fn mount(what: &str, at: &str, kind: &str, data: &str) {
    let [what, at, kind, data] = [what, at, kind, data].map(|text| CString::new(text).unwrap());
    // SAFETY: four strings that end with zero and live through the call.
    let done =
        unsafe { libc::mount(what.as_ptr(), at.as_ptr(), kind.as_ptr(), 0, data.as_ptr().cast()) };
    assert_eq!(done, 0, "{at:?}: {}", std::io::Error::last_os_error());
}

/// Memory as O_DIRECT wants it.
#[repr(align(4096))]
struct Page([u8; 4096]);

fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it is written to a structure of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// What the guest does, if this is one: random reads, a write that is read back, and how long each took.
fn act(folder: &str) {
    mount("none", "/tmp", "hostfs", folder);
    let disk = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_DIRECT)
        .open("/dev/hw0")
        .unwrap();
    let mut times = String::new();
    let mut page = Page([0; 4096]);
    for n in 0..20u64 {
        let at = n * 0x9e37_79b9 % 100_000 * (1 << 20);
        let began = monotonic();
        disk.read_exact_at(&mut page.0, at).unwrap();
        assert!(page.0.iter().all(|&byte| byte == 0), "nothing was written there");
        times += &format!("{}\n", monotonic() - began);
    }
    page.0.fill(7);
    disk.write_all_at(&page.0, 1 << 30).unwrap();
    disk.sync_all().unwrap();
    page.0.fill(0);
    disk.read_exact_at(&mut page.0, 1 << 30).unwrap();
    assert!(page.0.iter().all(|&byte| byte == 7), "what was written is read");
    File::create("/tmp/times").unwrap().write_all(times.as_bytes()).unwrap();
}

#[test]
fn guest() {
    let arguments: Vec<String> = std::env::args().collect();
    if std::process::id() != 1 {
        // Everywhere but in the guest it is no test.
        return;
    }
    mount("none", "/proc", "proc", "");
    // The kernel puts a word of its own behind the arguments.
    let folder = arguments.iter().skip_while(|a| *a != "--skip").nth(1).unwrap();
    let acted = std::panic::catch_unwind(|| act(folder));
    println!("guest: {acted:?}");
    // SAFETY: it takes no memory of ours.
    unsafe { libc::reboot(libc::LINUX_REBOOT_CMD_POWER_OFF) };
}

fn run(folder: &Path, seed: u64) -> Option<(Ended, String)> {
    let kernel = match find(None) {
        Ok(kernel) => kernel,
        Err(error) => {
            eprintln!("skipped: {error}");
            return None;
        }
    };
    let program = std::env::current_exe().unwrap();
    let mut init: Vec<OsString> = vec![program.into()];
    init.extend(
        ["--exact", "guest", "--nocapture", "--test-threads=1", "--skip"].map(OsString::from),
    );
    init.push(folder.into());
    let drive = DriveFile::load(DRIVE).unwrap();
    let boot = Boot { kernel: &kernel, drive: &drive, seed, memory_mib: 256, init, record: None };
    let ended = boot.run(&mut || true).unwrap();
    assert!(ended.console.contains("guest: Ok"), "{}", ended.console);
    let times = fs::read_to_string(folder.join("times")).unwrap();
    Some((ended, times))
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let folder = std::env::temp_dir().join(format!("hoistway-boot-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let runs: Vec<_> = [1, 1, 1].iter().map_while(|&seed| run(&folder, seed)).collect();
    fs::remove_dir_all(&folder).unwrap();
    let [(first, times), (second, again), (third, _)] = runs.as_slice() else {
        return;
    };
    assert_eq!((first.requests.reads, first.requests.writes), (21, 1));
    assert_eq!(first.requests.bytes, 22 * 4096);
    assert_eq!(
        (first.digest, times, first.virtual_time),
        (second.digest, again, second.virtual_time)
    );
    assert_eq!((third.digest, &first.console), (second.digest, &second.console));
}
