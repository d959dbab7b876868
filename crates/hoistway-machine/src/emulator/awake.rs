//! Keeps the processors from going to sleep while the drive is in use.
//!
//! **Problem.** A processor that sleeps takes long to wake: some 100 us out of a deep state, or where a virtual machine
//! gives it back to the host. A command of the emulated drive is handed from thread to thread four times, each of
//! which may be waiting on a sleeping processor, so the path costs as much as an SSD's read, and not always the same.
//!
//! **Idea.** The kernel lets a process bound that time (`/dev/cpu_dma_latency`, the PM QoS of processors): with a
//! bound of 0 idle processors poll instead of sleeping. The bound holds as long as the file is open, so it goes with the
//! process however that ends. It costs power, or a neighbour's time on a shared host, so it is asked for only while
//! commands come.
//!
//! **Weaknesses.** The first commands after a pause find sleeping processors.

use super::acting::Acting;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

const FILE: &str = "/dev/cpu_dma_latency";
/// How often is looked whether commands came.
const LOOK: Duration = Duration::from_millis(100);
/// So many looks without a command, and the processors may sleep: two seconds, more than a load pauses between two
/// bursts, less than anybody leaves a drive unused.
const PATIENCE: u32 = 20;

/// Ends when it is dropped.
#[derive(Debug)]
pub(super) struct Awake {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Awake {
    /// Begins to watch a drive, with the processors awake. Without the kernel's file (it is the kernel's option
    /// CONFIG_CPU_IDLE, and root's) there is nothing to do: the path is measured as it is.
    pub fn watch(drive: &Arc<Acting>) -> io::Result<Awake> {
        let (stop, stopped) = channel();
        let mut held = hold();
        if held.is_none() {
            return Ok(Awake { stop: None, thread: None });
        }
        let drive = Arc::clone(drive);
        let watch = move || {
            let (mut seen, mut quiet) = (drive.taken(), 0);
            while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                let taken = drive.taken();
                quiet = if taken == seen { quiet + 1 } else { 0 };
                seen = taken;
                match quiet {
                    0 if held.is_none() => held = hold(),
                    PATIENCE => held = None,
                    _ => {}
                }
            }
        };
        let thread = Builder::new().name("hoistway-awake".into()).spawn(watch)?;
        Ok(Awake { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Processors stay awake until it is closed. `None`: the kernel does not offer it.
fn hold() -> Option<File> {
    let mut file = OpenOptions::new().write(true).open(FILE).ok()?;
    file.write_all(&0i32.to_ne_bytes()).ok()?;
    Some(file)
}
