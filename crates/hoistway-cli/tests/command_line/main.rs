//! The binary from outside: what it prints, what it writes, how it ends.
//!
//! One program, since each links the whole command line anew, which takes longer than its tests; a module for each kind
//! of question.

mod agreement;
mod answers;
mod beside_fio;
mod choosing;
mod fio;
#[cfg(unix)]
mod first_build;
#[cfg(unix)]
mod hostile;
mod interruption;
#[cfg(all(feature = "live", target_os = "linux"))]
mod kernel_module;
mod mistakes;
mod modules;
mod output;
mod outputs;
mod packaging;
#[cfg(unix)]
mod products;
mod records;
#[cfg(all(feature = "live", target_os = "linux"))]
mod surroundings;
mod traces;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

/// An empty folder that is gone at the test's end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        // Two tests at a time may want one of the same name.
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let own = format!("hoistway-cli-{name}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(own);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hoistway"));
        command.args(args).current_dir(&self.0).output().unwrap()
    }

    fn entries(&self) -> usize {
        fs::read_dir(&self.0).unwrap().count()
    }

    fn file(&self, name: &str) -> Vec<u8> {
        fs::read(self.0.join(name)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

const JOBS: &str = "[global]\nsize=4m\ndirect=1\nioengine=libaio\nthread\n[deep]\nrw=randread\niodepth=16\n\
                    [mixed]\nrw=randrw\nrwmixread=70\nbs=4k,8k\n[log]\nstonewall\nrw=write\nfdatasync=8\nverify=md5\n";
