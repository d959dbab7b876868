//! An emulator in a process of its own: for programs that measure a drive of their own making.
//!
//! It ends with the program that started it, however that ends: its standard input is a pipe from there.

use super::known;
use crate::{MachineError, os};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A running `hoistway emulate`. Dropping it stops it.
#[derive(Debug)]
pub struct EmulatorProcess {
    /// The block device.
    pub device: PathBuf,
    /// What `emulate --json` says of it, as JSON.
    pub facts: String,
    child: Child,
    output: BufReader<ChildStdout>,
}

impl EmulatorProcess {
    /// Starts `PROGRAM emulate --loop` with more arguments, such as `--drive NAME`, and waits for the device.
    ///
    /// # Errors
    ///
    /// What it said when it could not.
    pub fn start<A: AsRef<OsStr>>(
        program: &Path,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<EmulatorProcess, MachineError> {
        let what = || format!("{} emulate", program.display());
        let mut command = Command::new(program);
        command.args(["emulate", "--loop", "--json", "--attended"]).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(os(what()))?;
        let mut output = BufReader::new(child.stdout.take().expect("it was asked for"));
        let mut facts = String::new();
        let heard = output.read_line(&mut facts);
        let all = known().map(|(all, _)| all).unwrap_or_default();
        let device = all.into_iter().find(|known| known.pid == child.id());
        match (heard, device.and_then(|known| known.device)) {
            (Ok(1..), Some(device)) => Ok(EmulatorProcess { device, facts, child, output }),
            _ => {
                // If it runs and its device is not listed, it waits for the end of its input.
                drop(child.stdin.take());
                let mut said = String::new();
                let errors =
                    child.stderr.take().expect("it was asked for").read_to_string(&mut said);
                let _ = (errors, child.wait());
                Err(MachineError::Refused(said.trim().trim_start_matches("error: ").to_string()))
            }
        }
    }

    /// Stops it and waits until nothing of it is left; what it says at the end, as JSON.
    ///
    /// # Errors
    ///
    /// When it ended otherwise, or the device is still used.
    pub fn stop(mut self) -> Result<String, MachineError> {
        self.ask();
        let mut last = String::new();
        self.output.read_to_string(&mut last).map_err(os("hoistway emulate"))?;
        let status = self.child.wait().map_err(os("hoistway emulate"))?;
        match status.success() {
            true => Ok(last),
            false => Err(MachineError::Refused(format!("hoistway emulate: {status}"))),
        }
    }

    fn ask(&self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may have ended by itself: nobody else has its number before `wait`.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

impl Drop for EmulatorProcess {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.ask();
            let _ = self.child.wait();
        }
    }
}
