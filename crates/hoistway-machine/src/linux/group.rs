//! Processes that end together.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io;
use std::process::{Child, ExitStatus};

/// A child that leads a process group; the whole group is gone when this is dropped.
#[derive(Debug)]
pub(super) struct Group {
    child: Child,
    /// Once it has ended and been waited for.
    status: Option<ExitStatus>,
}

impl Group {
    /// Of a child that was started with `process_group(0)`.
    pub fn new(child: Child) -> Group {
        Group { child, status: None }
    }

    /// Process id of the leader, and number of the group.
    pub fn leader(&self) -> u32 {
        self.child.id()
    }

    /// How the leader ended, if it has; then nobody of the group is left.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        match self.has_ended(WaitIdOptions::NOHANG)? {
            true => self.wait().map(Some),
            false => Ok(None),
        }
    }

    /// Waits until the leader ends, and takes the others with it.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.has_ended(WaitIdOptions::empty())?;
        self.kill()
    }

    /// Kills all of them.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        // The number is the group's until its leader was waited for, even if that is dead; afterwards it may be
        // somebody else's.
        if let Some(group) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let status = self.child.wait()?;
        self.status = Some(status);
        Ok(status)
    }

    /// Without taking the leader's number away.
    fn has_ended(&self, how: WaitIdOptions) -> io::Result<bool> {
        let Some(leader) = Pid::from_raw(self.child.id() as i32).filter(|_| self.status.is_none())
        else {
            return Ok(true);
        };
        loop {
            let how = how | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            match waitid(WaitId::Pid(leader), how) {
                Ok(ended) => return Ok(ended.is_some()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}
