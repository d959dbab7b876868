//! The drive behind the disk of a kernel in virtual time: a model that the guest's driver asks over a socket.
//!
//! **Problem.** The kernel's driver must complete each command exactly when the model says, and the model must see the
//! same as in the simulator: the same commands, at the same instants, in the same batches, asked at the same times.
//!
//! **Protocol** (`linux/driver/hoistway.h`). The guest speaks, and its clock stands still until it is answered:
//!
//! ```text
//!   guest                                  here
//!   hello(version)                  ->
//!                                   <-     the drive as the block layer is to see it, the seed
//!   submit(now, commands)           ->     each to the adapter; then the model is asked
//!                                   <-     when to poll next, or never; `now` if something is done already
//!   poll(now)                       ->
//!                                   <-     tags that are done, in order; when to poll next
//!   bye(now)                        ->
//! ```
//!
//! A submission is what one run of a hardware queue hands over, as in the simulator, where the model is asked after all
//! that a run issued. The guest polls at exactly the instant it was told, so a completion is never late; that it
//! is not is counted ([`Figures::late`]).
//!
//! **Weakness.** A submission and a completion are a round trip each: two switches between processes. Commands that come
//! together share one.

use crate::MachineError;
use crate::linux::boot::Requests;
use crate::os;
use hoistway::{Instant, Nanos, Op};
use hoistway_sim::drive::{Adapter, Command, DriveFile, DriveOutput};
use std::collections::VecDeque;
use std::io::{self, Read, Write};

/// The drive of one run.
#[derive(Debug)]
pub struct Drive {
    adapter: Adapter,
    info: Vec<u8>,
    /// Tags that are done, and since when.
    done: VecDeque<(u32, Instant)>,
    now: Instant,
    /// When the model has something to do next.
    wake: Option<Instant>,
    requests: Requests,
    figures: Figures,
    digest: u64,
}

/// How it went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Messages that were answered.
    pub messages: u64,
    /// Commands that were collected later than they were done.
    pub late: u64,
    /// By how much at most.
    pub late_most: Nanos,
}

/// What the guest said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// It wants to go on.
    More,
    /// It ends.
    Bye,
    /// It is gone without a word.
    Gone,
    /// Nothing for as long as the socket's timeout.
    Nothing,
}

impl Drive {
    /// The drive of a file, in front of whose model is its host adapter. At most `data_limit` bytes of data that is
    /// not zero are kept.
    pub fn new(file: &DriveFile, seed: u64, data_limit: u64) -> Drive {
        let adapter = Adapter::new(file, file.build(seed));
        Drive {
            info: info(file, &adapter, seed, data_limit),
            adapter,
            done: VecDeque::new(),
            now: Instant::ZERO,
            wake: None,
            requests: Requests::default(),
            figures: Figures::default(),
            digest: FNV_BASIS,
        }
    }

    /// The guest's clock when it last spoke.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// What came.
    pub fn requests(&self) -> Requests {
        self.requests
    }

    /// How it went.
    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// Of all commands and completions with their instants.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Answers one message.
    ///
    /// # Errors
    ///
    /// What the socket says, and what is no message.
    pub fn serve(&mut self, guest: &mut (impl Read + Write)) -> Result<Said, MachineError> {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        match self.answer_one(guest) {
            // It died in the midst of its words, or of ours.
            Err(MachineError::Os { error, .. })
                if matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof) =>
            {
                Ok(Said::Gone)
            }
            other => other,
        }
    }

    fn answer_one(&mut self, guest: &mut (impl Read + Write)) -> Result<Said, MachineError> {
        let mut head = [0; HEAD];
        match read_head(guest, &mut head).map_err(os(SOCKET))? {
            Said::More => {}
            other => return Ok(other),
        }
        let (kind, count) = (word(&head, 0), word(&head, 4) as usize);
        let now = Instant::from_nanos(long(&head, 8));
        if kind != HELLO && now < self.now {
            return Err(wrong(format!("its clock went back from {:?} to {now:?}", self.now)));
        }
        self.figures.messages += 1;
        match kind {
            HELLO if count == VERSION => guest.write_all(&self.info).map_err(os(SOCKET))?,
            HELLO => {
                return Err(wrong(format!(
                    "its driver is of version {count}, this program of {VERSION}; build the kernel anew with \
                     `hoistway linux build`"
                )));
            }
            SUBMIT if (1..=BATCH).contains(&count) => {
                let mut commands = [0; BATCH * COMMAND];
                let commands = &mut commands[..count * COMMAND];
                read_rest(guest, commands).map_err(os(SOCKET))?;
                self.submit(now, commands)?;
                self.answer(guest, 0)?;
            }
            POLL => {
                self.now = now;
                self.ask();
                self.answer(guest, BATCH)?;
            }
            BYE => {
                self.now = now;
                return Ok(Said::Bye);
            }
            _ => return Err(wrong(format!("message {kind} with {count} parts is none"))),
        }
        Ok(Said::More)
    }

    fn submit(&mut self, now: Instant, commands: &[u8]) -> Result<(), MachineError> {
        self.now = now;
        self.fold(now.as_nanos());
        for bytes in commands.chunks_exact(COMMAND) {
            let command = self.command(bytes)?;
            if !self.adapter.runs_alone(&command) && !self.adapter.room() {
                return Err(wrong(format!("the drive has no room for {command:?}")));
            }
            self.adapter.handle(now, command);
        }
        self.ask();
        Ok(())
    }

    fn command(&mut self, bytes: &[u8]) -> Result<Command, MachineError> {
        let (tag, op, prio) = (word(bytes, 0), short(bytes, 4), short(bytes, 6));
        let (flags, len, sector) = (word(bytes, 8), word(bytes, 12), long(bytes, 16));
        self.fold(u64::from(tag) << 32 | u64::from(op) << 16 | u64::from(prio));
        self.fold(u64::from(flags) << 32 | u64::from(len));
        self.fold(sector);
        self.fold(long(bytes, 24));
        let requests = &mut self.requests;
        let op = match op {
            0 => {
                requests.reads += 1;
                Op::Read
            }
            1 => {
                requests.writes += 1;
                Op::Write
            }
            2 => {
                requests.flushes += 1;
                Op::Flush
            }
            3 => {
                requests.discards += 1;
                Op::Discard
            }
            _ => return Err(wrong(format!("operation {op} is none"))),
        };
        if matches!(op, Op::Read | Op::Write) {
            requests.bytes += u64::from(len);
        }
        let start = sector.checked_mul(512);
        let start = start.ok_or_else(|| wrong(format!("sector {sector} is none")))?;
        Ok(Command { tag: tag.into(), op, start, len: len.into(), fua: flags & FUA != 0 })
    }

    /// Takes what the model has done.
    fn ask(&mut self) {
        loop {
            match self.adapter.poll(self.now) {
                DriveOutput::Done(done) => self.done.push_back((done.tag as u32, done.at)),
                DriveOutput::WaitUntil(at) => {
                    self.wake = at;
                    return;
                }
            }
        }
    }

    /// Says what is done, at most so many, and when to poll next.
    fn answer(&mut self, guest: &mut impl Write, most: usize) -> Result<(), MachineError> {
        let count = self.done.len().min(most);
        let mut bytes = [0; ANSWER + BATCH * 4];
        for n in 0..count {
            let (tag, at) = self.done.pop_front().expect("it was counted");
            self.fold(self.now.as_nanos());
            self.fold(tag.into());
            let late = self.now.since(at);
            self.figures.late += u64::from(late > Nanos::ZERO);
            self.figures.late_most = self.figures.late_most.max(late);
            bytes[ANSWER + 4 * n..][..4].copy_from_slice(&tag.to_ne_bytes());
        }
        let wake = self.wake.map_or(NEVER, Instant::as_nanos);
        let next = if self.done.is_empty() { wake } else { self.now.as_nanos() };
        bytes[..8].copy_from_slice(&next.to_ne_bytes());
        bytes[8..12].copy_from_slice(&(count as u32).to_ne_bytes());
        guest.write_all(&bytes[..ANSWER + 4 * count]).map_err(os(SOCKET))
    }

    /// FNV-1a by words of 64 bits.
    fn fold(&mut self, value: u64) {
        self.digest = (self.digest ^ value).wrapping_mul(0x0100_0000_01b3);
    }
}

const SOCKET: &str = "socket to the kernel in virtual time";
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

// As in linux/driver/hoistway.h.
const VERSION: usize = 1;
const HELLO: u32 = 1;
const SUBMIT: u32 = 2;
const POLL: u32 = 3;
const BYE: u32 = 4;
const FUA: u32 = 1;
const NEVER: u64 = u64::MAX;
const BATCH: usize = 128;
const HEAD: usize = 16;
const COMMAND: usize = 32;
const ANSWER: usize = 16;
const MAGIC: u64 = u64::from_le_bytes(*b"hoistway");

/// `struct hoistway_info`.
fn info(file: &DriveFile, adapter: &Adapter, seed: u64, data_limit: u64) -> Vec<u8> {
    let device = file.device();
    let sector = file.identity.sector_bytes;
    let longs = [MAGIC, seed, device.capacity.0, data_limit];
    let alone =
        |op| u8::from(adapter.runs_alone(&Command { tag: 0, op, start: 0, len: 0, fua: false }));
    let words = [
        sector as u32,
        sector.max(4096) as u32,
        device.queue_depth,
        u32::from(device.hw_queues),
        device.max_sectors.0 as u32,
        device.max_segments,
        device.max_discard_sectors.0 as u32,
        (device.discard_granularity.0 * 512) as u32,
    ];
    let bytes = [
        u8::from(device.rotational),
        u8::from(device.write_cache),
        u8::from(device.fua),
        u8::from(device.scsi),
        u8::from(device.tags_round_robin),
        alone(Op::Flush),
        alone(Op::Discard),
        0,
    ];
    let mut info: Vec<u8> = longs.iter().flat_map(|l| l.to_ne_bytes()).collect();
    info.extend(words.iter().flat_map(|w| w.to_ne_bytes()));
    info.extend(bytes);
    info
}

/// Reads a head, if one comes.
fn read_head(guest: &mut impl Read, head: &mut [u8]) -> io::Result<Said> {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    loop {
        match guest.read(head) {
            Ok(0) => return Ok(Said::Gone),
            Ok(n) => return read_rest(guest, &mut head[n..]).map(|()| Said::More),
            Err(error) => match error.kind() {
                Interrupted => {}
                WouldBlock | TimedOut => return Ok(Said::Nothing),
                _ => return Err(error),
            },
        }
    }
}

/// Reads the rest of a message, which is under way however long it takes.
fn read_rest(guest: &mut impl Read, mut rest: &mut [u8]) -> io::Result<()> {
    use io::ErrorKind::{Interrupted, TimedOut, UnexpectedEof, WouldBlock};
    while !rest.is_empty() {
        match guest.read(rest) {
            Ok(0) => return Err(UnexpectedEof.into()),
            Ok(n) => rest = &mut rest[n..],
            Err(error) if matches!(error.kind(), Interrupted | WouldBlock | TimedOut) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn wrong(what: String) -> MachineError {
    MachineError::Refused(format!(
        "the kernel in virtual time does not keep to the protocol: {what}"
    ))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn short(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::thread;

    /// What the kernel's driver says, over a socket.
    struct Guest(UnixStream);

    impl Guest {
        fn head(&mut self, kind: u32, count: u32, now: u64) {
            let mut bytes = kind.to_ne_bytes().to_vec();
            bytes.extend(count.to_ne_bytes());
            bytes.extend(now.to_ne_bytes());
            self.0.write_all(&bytes).unwrap();
        }

        fn answer(&mut self) -> (u64, Vec<u32>) {
            let mut head = [0; ANSWER];
            self.0.read_exact(&mut head).unwrap();
            let mut tags = vec![0; 4 * word(&head, 8) as usize];
            self.0.read_exact(&mut tags).unwrap();
            (long(&head, 0), tags.chunks(4).map(|tag| word(tag, 0)).collect())
        }

        /// Commands as (tag, operation, sector, bytes); says when to poll.
        fn submit(&mut self, now: u64, commands: &[(u32, u16, u64, u32)]) -> u64 {
            self.head(SUBMIT, commands.len() as u32, now);
            for &(tag, op, sector, len) in commands {
                let mut bytes = tag.to_ne_bytes().to_vec();
                bytes.extend(op.to_ne_bytes());
                bytes.extend([0; 6]);
                bytes.extend(len.to_ne_bytes());
                bytes.extend(sector.to_ne_bytes());
                bytes.extend([0; 8]);
                self.0.write_all(&bytes).unwrap();
            }
            let (next, tags) = self.answer();
            assert_eq!(tags, [0; 0], "only a poll collects");
            next
        }

        fn poll(&mut self, now: u64) -> (u64, Vec<u32>) {
            self.head(POLL, 0, now);
            self.answer()
        }
    }

    /// Runs a guest against a drive; what it says at the end, with the drive.
    fn talk<T>(drive: &str, guest: impl FnOnce(&mut Guest) -> T) -> (Drive, T) {
        let file = DriveFile::load(drive).unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let server = thread::spawn(move || {
            let (mut drive, mut stream) = (Drive::new(&file, 1, 1 << 20), ours);
            while drive.serve(&mut stream).unwrap() == Said::More {}
            drive
        });
        let mut talker = Guest(theirs);
        let said = guest(&mut talker);
        drop(talker);
        (server.join().unwrap(), said)
    }

    const HDD: &str = "hitachi-hts727550a9e364";

    #[test]
    fn a_guest_that_dies_in_the_midst_of_a_message_is_gone() {
        let file = DriveFile::load(HDD).unwrap();
        // In the midst of its own; and before it has heard ours.
        for (kind, bytes) in [(SUBMIT, HEAD + 5), (POLL, HEAD), (HELLO, HEAD - 1)] {
            let (mut ours, mut theirs) = UnixStream::pair().unwrap();
            let mut said = kind.to_ne_bytes().to_vec();
            said.extend(1u32.to_ne_bytes());
            said.resize(bytes, 0);
            theirs.write_all(&said).unwrap();
            drop(theirs);
            let mut drive = Drive::new(&file, 1, 1 << 20);
            assert_eq!(drive.serve(&mut ours).unwrap(), Said::Gone, "message {kind}");
        }
    }

    #[test]
    fn a_guest_learns_what_the_drive_is() {
        let (_, info) = talk(HDD, |guest| {
            guest.head(HELLO, VERSION as u32, 0);
            let mut info = [0; 72];
            guest.0.read_exact(&mut info).unwrap();
            info
        });
        let device = DriveFile::load(HDD).unwrap().device();
        assert_eq!((long(&info, 0), long(&info, 8)), (MAGIC, 1));
        assert_eq!(long(&info, 16), device.capacity.0);
        assert_eq!(word(&info, 40), device.queue_depth);
        // Rotational, write cache, FUA, SCSI, tags in turn, flush alone, discard alone.
        let flags = [1, device.write_cache.into(), device.fua.into(), 1, 1, 1, 1, 0];
        assert_eq!(info[64..], flags);
    }

    #[test]
    fn completions_come_exactly_when_the_model_says() {
        let (drive, done) = talk(HDD, |guest| {
            let mut next = guest.submit(1000, &[(7, 0, 1 << 20, 4096), (3, 0, 1 << 28, 4096)]);
            let mut done = Vec::new();
            while next != NEVER {
                let now = next;
                let (then, tags) = guest.poll(now);
                done.extend(tags.into_iter().map(|tag| (tag, now)));
                next = then;
            }
            done
        });
        // The same commands at the model itself.
        let file = DriveFile::load(HDD).unwrap();
        let (mut adapter, mut now) =
            (Adapter::new(&file, file.build(1)), Instant::from_nanos(1000));
        for (tag, start) in [(7, 1 << 29), (3, 1 << 37)] {
            adapter.handle(now, Command { tag, op: Op::Read, start, len: 4096, fua: false });
        }
        let mut expected = Vec::new();
        loop {
            match adapter.poll(now) {
                DriveOutput::Done(c) => expected.push((c.tag as u32, c.at.as_nanos())),
                DriveOutput::WaitUntil(Some(at)) => now = at,
                DriveOutput::WaitUntil(None) => break,
            }
        }
        assert_eq!(done, expected);
        assert_eq!((drive.requests().reads, drive.requests().bytes), (2, 8192));
        assert_eq!(drive.figures().late, 0);
    }

    #[test]
    fn what_is_collected_late_is_counted() {
        let (drive, tags) = talk(HDD, |guest| {
            let (mut next, mut done) = (guest.submit(0, &[(1, 0, 0, 4096)]), Vec::new());
            while done.is_empty() {
                (next, done) = guest.poll(next + 500);
            }
            done
        });
        assert_eq!(tags, [1]);
        assert_eq!((drive.figures().late, drive.figures().late_most), (1, Nanos(500)));
    }

    #[test]
    fn a_flush_waits_outside_until_the_drive_is_empty() {
        let (drive, order) = talk(HDD, |guest| {
            let mut next = guest.submit(0, &[(1, 0, 0, 4096), (2, 2, 0, 0)]);
            let mut order = Vec::new();
            while next != NEVER {
                let (then, tags) = guest.poll(next);
                order.extend(tags);
                next = then;
            }
            order
        });
        assert_eq!(order, [1, 2]);
        assert_eq!(drive.requests().flushes, 1);
    }

    #[test]
    fn the_same_words_have_the_same_digest() {
        let run = |sector| {
            let said = talk(HDD, |guest| {
                let next = guest.submit(5, &[(1, 0, sector, 4096)]);
                guest.poll(next);
                guest.head(BYE, 0, next + 1);
            });
            (said.0.digest(), said.0.now())
        };
        assert_eq!(run(8), run(8));
        assert_ne!(run(8).0, run(16).0);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let file = DriveFile::load(HDD).unwrap();
        let refused = |kind: u32, count: u32, now: u64| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let mut guest = Guest(theirs);
            let (mut drive, mut stream) = (Drive::new(&file, 1, 0), ours);
            guest.head(POLL, 0, 10);
            drive.serve(&mut stream).unwrap();
            guest.head(kind, count, now);
            drive.serve(&mut stream).unwrap_err().to_string()
        };
        assert!(refused(9, 0, 10).ends_with("message 9 with 0 parts is none"));
        assert!(refused(SUBMIT, 129, 10).ends_with("message 2 with 129 parts is none"));
        assert!(refused(POLL, 0, 9).contains("its clock went back"));
        assert!(refused(HELLO, 99, 0).contains("build the kernel anew"));
    }
}
