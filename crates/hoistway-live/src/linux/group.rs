//! Processes that end together.

use rustix::process::{Pid, Signal, kill_process_group};
use std::process::Child;

/// A child that leads a process group; the whole group is gone when this is dropped.
#[derive(Debug)]
pub(super) struct Group {
    pub child: Child,
}

impl Group {
    /// Of a child that was started with `process_group(0)`.
    pub fn new(child: Child) -> Group {
        Group { child }
    }

    /// Kills all of them.
    pub fn kill(&mut self) {
        // The number is the group's as long as its leader was not waited for, even if that is dead.
        if let Ok(None) = self.child.try_wait() {
            if let Some(group) = Pid::from_raw(self.child.id() as i32) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = self.child.wait();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
