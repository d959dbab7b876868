//! The host adapter between block layer and drive: depth, and commands that run alone
//! (specs/drives.md 1.2).

use super::{Command, Drive, DriveFile, DriveOutput};
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
    pub fn poll(&mut self, now: Instant) -> DriveOutput {
        let said = self.drive.poll(now);
        if let DriveOutput::Done(_) = said {
            self.in_flight = self.in_flight.checked_sub(1).expect("a drive completes what it got");
            self.alone = false;
            self.pass_waiting(now);
        }
        said
    }

    /// As [`Drive::due`].
    #[inline]
    pub fn due(&self) -> Option<Instant> {
        self.drive.due()
    }

    /// A command that the drive takes only when it is empty, and that is held until then.
    pub fn runs_alone(&self, command: &Command) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    const HDD: &str = "hitachi-hts727550a9e364";

    fn adapter(text: &str) -> Adapter {
        let file = DriveFile::parse("x.toml", text).unwrap();
        let drive = file.build(1);
        Adapter::new(&file, drive)
    }

    fn command(tag: u64, op: Op) -> Command {
        let len = if op == Op::Flush { 0 } else { 4096 };
        Command { tag, op, start: tag << 30, len, fua: false }
    }

    /// Tags in order of completion, with whether there was room right after each.
    fn drain(adapter: &mut Adapter) -> Vec<(u64, bool)> {
        let (mut now, mut done) = (Instant::ZERO, Vec::new());
        loop {
            match adapter.poll(now) {
                DriveOutput::Done(c) => done.push((c.tag, adapter.room())),
                DriveOutput::WaitUntil(Some(at)) => now = at,
                DriveOutput::WaitUntil(None) => return done,
            }
        }
    }

    #[test]
    fn a_non_queued_command_waits_until_the_drive_is_empty_and_runs_alone() {
        for op in [Op::Flush, Op::Discard] {
            let mut a = adapter(DriveFile::embedded(HDD).unwrap());
            a.handle(Instant::ZERO, command(1, Op::Read));
            a.handle(Instant::ZERO, command(2, Op::Write));
            a.handle(Instant::ZERO, command(3, op));
            assert!(!a.room(), "nothing is passed on meanwhile");
            assert_eq!(a.in_flight(), 2);
            assert_eq!(drain(&mut a), [(2, false), (1, false), (3, true)]);
        }
    }

    #[test]
    fn a_queued_flush_is_an_ordinary_command() {
        let text = DriveFile::embedded(HDD).unwrap();
        let text = text.replace("flush_nonqueued = true", "flush_nonqueued = false");
        let mut a = adapter(&text);
        a.handle(Instant::ZERO, command(1, Op::Read));
        a.handle(Instant::ZERO, command(2, Op::Flush));
        assert!(a.room());
        assert_eq!(a.in_flight(), 2);
        assert_eq!(drain(&mut a).len(), 2);
    }

    #[test]
    fn there_is_room_for_as_many_as_there_are_tags() {
        let mut a = adapter(DriveFile::embedded(HDD).unwrap());
        for tag in 0..31 {
            assert!(a.room());
            a.handle(Instant::ZERO, command(tag, Op::Read));
        }
        assert!(!a.room());
        assert_eq!(drain(&mut a).len(), 31);
    }

    #[test]
    #[should_panic(expected = "without room")]
    fn a_command_without_room_is_a_mistake_of_the_caller() {
        let mut a = adapter(DriveFile::embedded(HDD).unwrap());
        a.handle(Instant::ZERO, command(1, Op::Read));
        a.handle(Instant::ZERO, command(2, Op::Flush));
        a.handle(Instant::ZERO, command(3, Op::Read));
    }
}
