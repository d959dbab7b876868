//! Running `hoistway serve` from tests, bounded in time.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::Duration;

pub const HOISTWAY: &str = env!("CARGO_BIN_EXE_hoistway");

/// A folder of this test alone, removed at its end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("hoistway-{}-{name}", std::process::id()));
        // Of a process of the same number that was killed.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// A file of that size, of zeroes.
    pub fn file(&self, name: &str, size: u64) -> String {
        std::fs::File::create(self.0.join(name)).unwrap().set_len(size).unwrap();
        self.path(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn installed(tools: &[&str]) -> bool {
    let found = |tool: &&&str| {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&paths).any(|p| p.join(tool).exists())
    };
    let missing: Vec<_> = tools.iter().filter(|t| !found(t)).collect();
    if !missing.is_empty() {
        println!("skipped: {missing:?} not installed (./setup.sh test)");
    }
    missing.is_empty()
}

/// Seconds until a command or server of a test is ended, as a last resort: more than any of them takes on
/// a machine that is busy with something else.
pub const LIMIT: &str = "300";

/// Exit code, stdout, stderr of a command.
pub fn run(program: &str, args: &[&str]) -> (Option<i32>, String, String) {
    texts(&Command::new("timeout").arg(LIMIT).arg(program).args(args).output().unwrap())
}

pub fn texts(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A server in the background, stopped at the end.
pub struct Server(pub Child);

impl Server {
    /// Serves, and waits until `sign` exists (a pid file) or takes connections (a socket): a socket's file is
    /// there a moment before it listens.
    pub fn start(args: &[&str], sign: &Path) -> Server {
        let mut command = Command::new("timeout");
        command.args(["--foreground", LIMIT, HOISTWAY, "serve", "-q"]).args(args);
        let there = || match std::fs::metadata(sign) {
            Ok(file) => !file.file_type().is_socket() || UnixStream::connect(sign).is_ok(),
            Err(_) => false,
        };
        Server(begun(&mut command, there).expect("it needs nothing that a machine may lack"))
    }

    /// SIGTERM; the exit code. `timeout` passes both on.
    pub fn stop(&mut self) -> Option<i32> {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.0.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let over = self.0.try_wait().is_ok_and(|s| s.is_some());
        if !over {
            let _ = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
            let _ = self.0.wait();
        }
    }
}

/// Spawns a server and waits until it is there. `None`, with the reason printed, where it ended with exit code 3: not
/// every machine, and a busy one less, can carry every drive.
pub fn begun(command: &mut Command, mut there: impl FnMut() -> bool) -> Option<Child> {
    let mut server = Guarded(Some(command.spawn().unwrap()));
    let child = server.0.as_mut().unwrap();
    let mut over = None;
    let decided = wait_for(|| {
        over = child.try_wait().unwrap();
        over.is_some() || there()
    });
    let Some(status) = over else {
        assert!(decided, "{command:?}: it serves nothing");
        return server.0.take();
    };
    let mut said = String::new();
    if let Some(mut pipe) = child.stderr.take() {
        pipe.read_to_string(&mut said).unwrap();
    }
    assert_eq!(status.code(), Some(3), "{command:?}: {said}");
    println!("skipped: {command:?}: {}", said.trim());
    None
}

/// A process that ends with the test, unless it is taken out.
struct Guarded(Option<Child>);

impl Drop for Guarded {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Looks until something holds, about a minute at most.
pub fn wait_for(mut holds: impl FnMut() -> bool) -> bool {
    (0..6000).any(|_| {
        let now = holds();
        if !now {
            std::thread::sleep(Duration::from_millis(10));
        }
        now
    })
}
