//! Storage that fails in earnest: a full file system, a file or loop device that was cut, a limit
//! on file sizes. The error is that of the request it concerns; everybody else, and the server, go
//! on. What needs root or a tool that is not there is skipped with a printed reason.
#![cfg(all(feature = "live", target_os = "linux"))]

#[path = "../../hoistway-serve/tests/client/mod.rs"]
mod client;
mod serving;

use client::{Client, FUA};
use serving::{HOISTWAY, begun};
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

const MIB: u64 = 1 << 20;
const EIO: u32 = 5;
const ENOSPC: u32 = 28;
const WAYS: [&str; 3] = ["", ",way=threads", ",direct"];

/// A folder of this test alone, with what it mounted or attached; all goes at its end.
struct Folder {
    path: PathBuf,
    mounted: bool,
    device: Option<String>,
}

impl Folder {
    fn new(name: &str) -> Folder {
        let path =
            std::env::temp_dir().join(format!("hoistway-storage-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder { path, mounted: false, device: None }
    }

    /// A tmpfs of that size instead; false where that is not allowed.
    fn mount(&mut self, size: &str) -> bool {
        self.mounted =
            succeeds("mount", &["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"], &self.path);
        self.mounted
    }

    fn file(&self, size: u64) -> PathBuf {
        let path = self.path.join("disk");
        File::create(&path).unwrap().set_len(size).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Some(device) = &self.device {
            succeeds("losetup", &["-d"], Path::new(device));
        }
        if self.mounted {
            succeeds("umount", &["-l"], &self.path);
        }
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn succeeds(command: &str, args: &[&str], last: &Path) -> bool {
    let output = Command::new(command).args(args).arg(last).output();
    output.is_ok_and(|o| {
        if !o.status.success() {
            println!("{command} {args:?}: {}", String::from_utf8_lossy(&o.stderr).trim());
        }
        o.status.success()
    })
}

struct Server {
    process: Child,
    socket: PathBuf,
}

impl Server {
    /// `None` where the machine cannot serve it (no direct I/O).
    fn start(disk: &Path, wishes: &str, socket: PathBuf, shell: &str) -> Option<Server> {
        let _ = std::fs::remove_file(&socket);
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{shell} exec \"$0\" \"$@\""), HOISTWAY, "serve", "-q"]);
        command.args(["-s", "mq-deadline", "-e"]);
        command.arg(format!("disk=file:{}{wishes}", disk.display())).arg("-U").arg(&socket);
        let process = begun(&mut command, || UnixStream::connect(&socket).is_ok())?;
        Some(Server { process, socket })
    }

    fn client(&self) -> Client {
        Client::go(&self.socket, "disk", true).unwrap()
    }

    fn stop(&mut self) -> Option<i32> {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.process.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Errors of 64 KiB writes side by side, all under way at once, from `from` on.
fn write_all(c: &mut Client, from: u64, to: u64, flags: u16, byte: u8) -> Vec<u32> {
    let places: Vec<u64> = (from..to).step_by(64 << 10).collect();
    let mut errors = vec![0; places.len()];
    for (batch, list) in places.chunks(32).enumerate() {
        for (n, at) in list.iter().enumerate() {
            c.send(1, flags, (batch * 32 + n) as u64, *at, 64 << 10, &vec![byte; 64 << 10]);
        }
        for _ in list {
            let (cookie, error, _) = c.reply(&[]);
            errors[cookie as usize] = error;
        }
    }
    errors
}

fn simple(c: &mut Client, kind: u16, offset: u64, len: u32) -> u32 {
    c.send(kind, 0, 77, offset, len, &[]);
    c.reply(&[]).1
}

#[test]
fn a_full_file_system_is_the_writers_error_and_passes() {
    for (n, wishes) in WAYS.iter().enumerate() {
        let mut folder = Folder::new(&format!("full-{n}"));
        if !folder.mount("4m") {
            return println!("skipped: a tmpfs cannot be mounted (not root?)");
        }
        let disk = folder.file(16 * MIB);
        let socket = folder.path.with_extension("sock");
        let Some(mut server) = Server::start(&disk, wishes, socket, "") else { continue };
        let (mut writer, mut other) = (server.client(), server.client());
        assert_eq!(write_all(&mut other, 0, MIB, 0, 0x11), [0; 16]);
        // The rest of the 4 MiB, and twice as much that does not fit; some of it durable.
        let errors = write_all(&mut writer, MIB, 8 * MIB, FUA * (n as u16 % 2), 0x22);
        assert!(errors.iter().all(|e| [0, ENOSPC].contains(e)), "{wishes}: {errors:?}");
        let written = errors.iter().filter(|&&e| e == 0).count();
        assert!((32..=48).contains(&written), "{wishes}: {written} fitted");
        // What is there can be read, and written again; a flush does not speak of what was refused.
        assert_eq!(other.read(0, MIB as u32), vec![0x11; MIB as usize]);
        assert_eq!(write_all(&mut other, 0, MIB, 0, 0x33), [0; 16]);
        assert_eq!(simple(&mut other, 3, 0, 0), 0, "flush");
        for (n, error) in errors.iter().enumerate().filter(|(_, e)| **e == 0) {
            let at = MIB + n as u64 * (64 << 10);
            assert_eq!(writer.read(at, 64 << 10), vec![0x22; 64 << 10], "{error}");
        }
        // Space comes back: by a trim through the server itself.
        assert_eq!(simple(&mut other, 4, 0, MIB as u32), 0, "trim");
        let failed = errors.iter().position(|e| *e != 0).unwrap() as u64;
        let at = MIB + failed * (64 << 10);
        assert_eq!(write_all(&mut writer, at, at + (512 << 10), 0, 0x44), [0; 8], "{wishes}");
        assert_eq!(simple(&mut writer, 3, 0, 0), 0, "flush");
        assert_eq!(writer.read(at, 512 << 10), vec![0x44; 512 << 10]);
        assert_eq!(server.stop(), Some(0));
    }
}

#[test]
fn a_file_that_was_cut_is_an_error_of_who_reads_beyond() {
    for (n, wishes) in WAYS.iter().enumerate() {
        let folder = Folder::new(&format!("cut-{n}"));
        let disk = folder.file(4 * MIB);
        let socket = folder.path.join("s");
        let Some(mut server) = Server::start(&disk, wishes, socket, "") else { continue };
        let (mut c, mut other) = (server.client(), server.client());
        assert_eq!(write_all(&mut c, 0, 4 * MIB, 0, 0x55), [0; 64]);
        // Not at the border of anything.
        File::options().write(true).open(&disk).unwrap().set_len(2 * MIB + 1000).unwrap();
        for at in (0..4 * MIB).step_by(128 << 10) {
            c.send(0, 0, at, at, 128 << 10, &[]);
        }
        for _ in 0..32 {
            let (at, error, data) = c.reply(&[]);
            let whole = at + (128 << 10) <= 2 * MIB;
            assert_eq!(error, if whole { 0 } else { EIO }, "{wishes}: read at {at}");
            assert!(!whole || data == vec![0x55; 128 << 10]);
        }
        assert_eq!(other.read(0, 4096), [0x55; 4096]);
        assert_eq!(write_all(&mut other, 0, MIB, FUA, 0x66), [0; 16]);
        assert_eq!(simple(&mut other, 3, 0, 0), 0, "flush");
        // A write beyond the end makes the file longer again, as everywhere.
        assert_eq!(write_all(&mut other, 4 * MIB - (64 << 10), 4 * MIB, 0, 0x77), [0]);
        assert_eq!(c.read(4 * MIB - 4096, 4096), [0x77; 4096]);
        assert_eq!(c.read(3 * MIB, 4096), [0; 4096]);
        assert_eq!(server.stop(), Some(0));
    }
}

#[test]
fn a_limit_on_file_sizes_is_an_error_and_no_signal() {
    for (n, wishes) in WAYS.iter().enumerate() {
        let folder = Folder::new(&format!("limit-{n}"));
        let disk = folder.file(4 * MIB);
        let socket = folder.path.join("s");
        // dash counts blocks of 512 bytes, others of 1024: 1 or 2 MiB.
        let Some(mut server) = Server::start(&disk, wishes, socket, "ulimit -f 2048;") else {
            continue;
        };
        let mut c = server.client();
        let errors = write_all(&mut c, 0, 4 * MIB, 0, 0x12);
        assert_eq!(errors[..16], [0; 16], "{wishes}");
        assert_eq!(errors[32..], [ENOSPC; 32], "{wishes}: EFBIG has no number of its own in NBD");
        assert_eq!(c.read(0, 4096), [0x12; 4096]);
        assert_eq!(c.read(3 * MIB, 4096), [0; 4096]);
        assert_eq!(server.stop(), Some(0), "{wishes}");
    }
}

#[test]
fn a_loop_device_whose_file_was_cut_gives_errors() {
    for (n, wishes) in WAYS.iter().enumerate() {
        let mut folder = Folder::new(&format!("loop-{n}"));
        let file = folder.file(8 * MIB);
        let made = Command::new("losetup").args(["--find", "--show"]).arg(&file).output();
        let device = match made {
            Ok(o) if o.status.success() => String::from_utf8(o.stdout).unwrap().trim().to_string(),
            other => return println!("skipped: no loop device here (not root?): {other:?}"),
        };
        folder.device = Some(device.clone());
        let socket = folder.path.join("s");
        let Some(mut server) = Server::start(Path::new(&device), wishes, socket, "") else {
            continue;
        };
        let mut c = server.client();
        assert_eq!(write_all(&mut c, 0, MIB, FUA, 0x21), [0; 16]);
        File::options().write(true).open(&file).unwrap().set_len(2 * MIB).unwrap();
        assert_eq!(simple(&mut c, 0, 6 * MIB, 64 << 10), EIO, "{wishes}: a read beyond the end");
        assert_eq!(c.read(0, MIB as u32), vec![0x21; MIB as usize], "{wishes}");
        assert_eq!(write_all(&mut c, 0, MIB, FUA, 0x22), [0; 16]);
        assert_eq!(c.read(MIB - 4096, 4096), [0x22; 4096]);
        assert_eq!(server.stop(), Some(0));
    }
}
