//! The host adapter between block layer and drive: depth, and commands that run alone
//! (specs/drives.md 1.2).

use super::{Command, Drive, DriveFile, Said};
use hoistway::{Instant, Op};
use std::collections::VecDeque;

/// A drive behind its host adapter.
#[derive(Debug)]
pub struct Adapter {
    drive: Box<dyn Drive>,
    depth: u32,
    flush_alone: bool,
    discard_alone: bool,
    /// Commands in the drive.
    in_flight: u32,
    /// Non-queued commands that wait for the drive to drain.
    waiting: VecDeque<Command>,
    /// A non-queued command is in the drive.
    alone: bool,
}

impl Adapter {
    /// The adapter of `file`'s `[host]` in front of `drive`.
    pub fn new(file: &DriveFile, drive: Box<dyn Drive>) -> Adapter {
        Adapter {
            drive,
            depth: file.host.queue_depth,
            flush_alone: file.host.flush_nonqueued,
            // Queued trim is not modelled.
            discard_alone: matches!(file.host.bus.as_str(), "sata" | "pata"),
            in_flight: 0,
            waiting: VecDeque::new(),
            alone: false,
        }
    }

    /// Whether a read, a write or a queued command may come now.
    pub fn room(&self) -> bool {
        self.in_flight < self.depth && self.waiting.is_empty() && !self.alone
    }

    /// Commands in the drive.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Takes a command. Non-queued ones may come at any time and are held until the drive is empty;
    /// all others only while there is [room](Adapter::room).
    pub fn handle(&mut self, now: Instant, command: Command) {
        if self.runs_alone(&command) {
            self.waiting.push_back(command);
            self.pass_waiting(now);
            return;
        }
        assert!(self.room(), "a command came without room: {command:?}");
        self.in_flight += 1;
        self.drive.handle(now, command);
    }

    /// As [`Drive::poll`]: ask until `WaitUntil`.
    pub fn poll(&mut self, now: Instant) -> Said {
        let said = self.drive.poll(now);
        if let Said::Done(_) = said {
            self.in_flight = self.in_flight.checked_sub(1).expect("a drive completes what it got");
            self.alone = false;
            self.pass_waiting(now);
        }
        said
    }

    fn runs_alone(&self, command: &Command) -> bool {
        match command.op {
            Op::Flush => self.flush_alone,
            Op::Discard => self.discard_alone,
            Op::Read | Op::Write | Op::WriteZeroes => false,
        }
    }

    fn pass_waiting(&mut self, now: Instant) {
        if self.in_flight == 0
            && let Some(command) = self.waiting.pop_front()
        {
            self.in_flight = 1;
            self.alone = true;
            self.drive.handle(now, command);
        }
    }
}
