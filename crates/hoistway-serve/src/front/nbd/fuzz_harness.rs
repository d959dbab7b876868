//! What any bytes of a client may lead to: targets for `cargo fuzz` (folder `fuzz`) and for a test
//! that makes up and mutates sessions by itself.
//!
//! A session runs the handshake and then a real connection with its socket, core and memory, while
//! an independent reading of the same bytes says what must be answered.

use super::connection::Connection;
use super::handshake::{Choice, Handshake, HandshakeStep, Offer, Security};
use super::wire::{CommandKind, NbdRequest, PAYLOAD_MAX, Style, command_flags, u32_at, u64_at};
use crate::device::{ConnectionInfo, Core, DeviceOptions, ReplyTo, Session, SessionState, Stream};
use crate::front::View;
use crate::net::server::Permit;
use crate::storage::Target;
use crate::system::{SocketEvent, SocketRing};
use hoistway::{GroupId, IoPrio, sched};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

/// Bytes of the export.
const SIZE: u64 = 1 << 20;
/// Bytes of a session beyond which nothing new is learnt.
const SESSION_MAX: usize = 1 << 20;

fn offers() -> Vec<Offer> {
    let offer = |name: &str, flags| Offer {
        name: name.into(),
        description: "memory".into(),
        size: SIZE,
        flags,
        block: 512,
    };
    vec![offer("disk", 0xd6d), offer("second", 0x403), offer("", 0xd6d)]
}

/// Where a handshake ended.
#[derive(Debug, PartialEq, Eq)]
struct Agreed {
    step: HandshakeStep,
    /// Bytes that were consumed.
    used: usize,
    out: Vec<u8>,
}

/// Runs a handshake over bytes that come in pieces of `piece`.
fn negotiate(bytes: &[u8], piece: usize) -> Agreed {
    let (offers, mut out) = (offers(), Vec::new());
    let mut handshake = Handshake::new(Security::None, &mut out);
    let (mut used, mut come) = (0, 0);
    loop {
        let before = out.len();
        let (taken, step) = handshake.feed(&bytes[used..come], &offers, &mut out);
        assert!(taken <= come - used, "more was consumed than there was");
        assert!(out.len() - before < 64 << 10, "an answer without measure");
        used += taken;
        match step {
            HandshakeStep::Answered => {}
            HandshakeStep::More if come == bytes.len() => return Agreed { step, used, out },
            HandshakeStep::More => {
                assert!(come - used <= 48 << 10, "an option without end is waited for");
                come = (come + piece).min(bytes.len());
            }
            step => return Agreed { step, used, out },
        }
    }
}

/// The answers of a handshake, one after the other, are well formed.
fn check_answers(agreed: &Agreed) {
    let mut rest = &agreed.out[18..];
    assert_eq!(&agreed.out[..16], b"NBDMAGICIHAVEOPT");
    while rest.len() >= 20 && u64_at(rest, 0) == 0x0003_e889_0455_65a9 {
        let len = u32_at(rest, 16) as usize;
        assert!(rest.len() >= 20 + len, "an answer is cut");
        rest = &rest[20 + len..];
    }
    // Only the old way of choosing an export has an answer of another form.
    let chosen = matches!(agreed.step, HandshakeStep::Chosen(_));
    assert!(rest.is_empty() || (chosen && [10, 134].contains(&rest.len())), "{} bytes", rest.len());
}

/// Any bytes as a handshake: no panic, bounded and well-formed answers, the same however they come.
pub fn handshake(bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(SESSION_MAX)];
    let whole = negotiate(bytes, usize::MAX >> 1);
    check_answers(&whole);
    if let HandshakeStep::Chosen(Choice { export, size, style, allocation }) = whole.step {
        assert_eq!(size, SIZE);
        assert!(export < offers().len() && (style != Style::Simple || !allocation));
    }
    let piece = 1 + bytes.first().map_or(0, |b| usize::from(*b) % 31);
    let pieces = negotiate(bytes, piece);
    assert_eq!((pieces.step, &pieces.out), (whole.step, &whole.out), "pieces of {piece} bytes");
}

/// What the client's bytes ask for, read by other means than the server's.
#[derive(Debug, Default)]
struct Asked {
    /// Requests that may be answered, by cookie.
    owed: BTreeMap<u64, Vec<NbdRequest>>,
    count: usize,
    /// All of them must be: the stream ends at the border of a request or by a disconnect.
    clean: bool,
}

impl Asked {
    fn of(mut bytes: &[u8], style: Style) -> Asked {
        let mut asked = Asked::default();
        loop {
            let Some(head) = bytes.get(..style.header()) else {
                // A request that is only half there is no request; those before it were.
                asked.clean = true;
                return asked;
            };
            let Some(request) = NbdRequest::decode(style, head) else { return asked };
            bytes = &bytes[head.len()..];
            if request.payload > u32::MAX.into() {
                return asked;
            }
            if request.kind == CommandKind::Disconnect && request.payload == 0 {
                asked.clean = true;
                return asked;
            }
            // Also what is refused is passed over: the next request stands behind it.
            match bytes.get(request.payload as usize..) {
                Some(behind) => bytes = behind,
                None => {
                    asked.clean = true;
                    return asked;
                }
            }
            asked.owed.entry(request.cookie).or_default().push(request);
            asked.count += 1;
        }
    }

    /// Takes the answers off the list; each must belong to a request.
    fn check(mut self, choice: Choice, mut replies: &[u8]) {
        let what = |r: &NbdRequest| (r.kind, r.offset, r.len);
        let alike = |l: &Vec<NbdRequest>| l.iter().all(|r| what(r) == what(&l[0]));
        if !self.owed.values().all(alike) {
            // Answers to different requests of one cookie cannot be told apart by anybody.
            return;
        }
        while !replies.is_empty() {
            let Some((chunk, cookie, error, len)) = reply(&mut replies, choice, &self.owed) else {
                // Behind garbage the connection is dropped wherever it is.
                assert!(!self.clean, "half an answer");
                return;
            };
            let list = self.owed.get_mut(&cookie).expect("nobody asked that");
            let fits = |r: &NbdRequest| {
                let chunks = match choice.style {
                    Style::Simple => false,
                    Style::Structured => {
                        matches!(r.kind, CommandKind::Read | CommandKind::BlockStatus)
                    }
                    Style::Extended => true,
                };
                if chunk != chunks {
                    return false;
                }
                let data = r.kind == CommandKind::Read && error == 0;
                let refused = error == 22;
                match r.kind {
                    CommandKind::BlockStatus => true,
                    // Of a read-only export, or beyond its end, for that reason.
                    CommandKind::Write if r.payload > PAYLOAD_MAX.into() => {
                        [1, 22, 28].contains(&error)
                    }
                    CommandKind::Write if r.flags & command_flags::PAYLOAD_LEN != 0 => refused,
                    CommandKind::Write => len.is_none(),
                    _ if r.payload > 0 => refused,
                    _ if data => len == Some(r.len as usize),
                    _ => len.is_none(),
                }
            };
            let at = list.iter().position(fits);
            let at =
                at.unwrap_or_else(|| panic!("{cookie}, {error}, {len:?} answers none of {list:?}"));
            list.swap_remove(at);
            self.count -= 1;
        }
        assert!(
            self.count == 0 || !self.clean,
            "{} requests have no answer: {:?}",
            self.count,
            self.owed
        );
    }
}

/// One answer: whether it is a chunk, cookie, error, length of the data. `None`: it is cut.
fn reply(
    replies: &mut &[u8],
    choice: Choice,
    owed: &BTreeMap<u64, Vec<NbdRequest>>,
) -> Option<(bool, u64, u32, Option<usize>)> {
    let bytes = *replies;
    let known =
        |error: u32| assert!([0, 1, 5, 12, 22, 28, 75, 95, 108].contains(&error), "{error}");
    match u32_at(bytes.get(..16)?, 0) {
        0x6744_6698 => {
            let (error, cookie) = (u32_at(bytes, 4), u64_at(bytes, 8));
            known(error);
            let first = owed.get(&cookie).and_then(|l| l.first());
            let read = first.filter(|r| {
                r.kind == CommandKind::Read && error == 0 && choice.style == Style::Simple
            });
            let len = read.map(|r| r.len as usize);
            *replies = bytes.get(16 + len.unwrap_or(0)..)?;
            Some((false, cookie, error, len))
        }
        magic @ (0x668e_33ef | 0x6e8a_278c) => {
            let extended = magic == 0x6e8a_278c;
            let agreed = if extended { Style::Extended } else { Style::Structured };
            assert_eq!(choice.style, agreed, "chunks that were not agreed on");
            let size = if extended { 32 } else { 20 };
            let head = bytes.get(..size)?;
            let (flags, kind) = (u32_at(head, 4) >> 16, u32_at(head, 4) & 0xffff);
            let cookie = u64_at(head, 8);
            let len = if extended { u64_at(head, 24) as usize } else { u32_at(head, 16) as usize };
            let body = bytes.get(size..size + len)?;
            *replies = &bytes[size + len..];
            assert_eq!(flags, 1, "one chunk per answer");
            let asked = owed.get(&cookie).map_or(&[][..], |l| l);
            let offsets = |r: &NbdRequest| u64_at(head, 16) == r.offset;
            assert!(!extended || asked.iter().any(offsets), "the offset of no request");
            match kind {
                0 => {
                    assert!(extended && len == 0);
                    Some((true, cookie, 0, None))
                }
                1 => Some((true, cookie, 0, Some(len - 8))),
                5 => {
                    assert!(!extended && choice.allocation && len >= 12 && (len - 4) % 8 == 0);
                    assert!(body[4..].chunks(8).all(|d| u32_at(d, 0) > 0 && u32_at(d, 4) < 4));
                    Some((true, cookie, 0, None))
                }
                6 => {
                    assert!(extended && choice.allocation && len >= 24 && (len - 8) % 16 == 0);
                    assert_eq!(u32_at(body, 4) as usize, (len - 8) / 16);
                    assert!(body[8..].chunks(16).all(|d| u64_at(d, 0) > 0 && u64_at(d, 8) < 4));
                    Some((true, cookie, 0, None))
                }
                0x8001 => {
                    known(u32_at(body, 0));
                    assert!(u32_at(body, 0) != 0 && len == 6);
                    Some((true, cookie, u32_at(body, 0), None))
                }
                other => panic!("chunk of kind {other}"),
            }
        }
        other => panic!("an answer does not begin with {other:x}"),
    }
}

/// Any bytes as a whole session.
pub fn session(bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(SESSION_MAX)];
    let agreed = negotiate(bytes, usize::MAX >> 1);
    if let HandshakeStep::Chosen(choice) = agreed.step {
        let rest = &bytes[agreed.used..];
        Served::new(choice, rest, false).run(rest);
        if SocketRing::works() {
            Served::new(choice, rest, true).run(rest);
        }
    }
}

/// A connection with both ends of its socket.
struct Served {
    core: Core,
    session: Connection,
    client: UnixStream,
    choice: Choice,
    scratch: Vec<u8>,
    replies: Vec<u8>,
    gone: bool,
    /// The ring that receives and sends for it, and whether it does, or is asked to end that.
    ring: Option<SocketRing>,
    receiving: bool,
    ending: bool,
}

/// The number of the only session.
const SESSION: u64 = 7;

impl Served {
    /// The scheduler and the way the bytes come in are drawn from the bytes.
    fn new(choice: Choice, bytes: &[u8], by_ring: bool) -> Served {
        let names = ["none", "mq-deadline", "kyber"];
        let scheduler = names[bytes.iter().map(|b| usize::from(*b)).sum::<usize>() % names.len()];
        let options = DeviceOptions::new(sched::find(scheduler).expect("it is registered"));
        let opened = Target::Ram { size: SIZE }.open().expect("a MiB of memory");
        let mut core = Core::new(opened, &options).expect("no setting can be refused");
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let pair = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let (server, client) = pair.expect("two descriptors");
        let view = View {
            offset: 0,
            size: SIZE,
            read_only: choice.export == 1,
            trim: true,
            discard_zeroes: true,
            group: GroupId::ROOT,
            prio: IoPrio::NONE,
        };
        let info = ConnectionInfo { connection: 0, export: "disk".into(), peer: "fuzz".into() };
        // As the acceptor does: what came with the handshake goes along.
        let carry = bytes[..bytes.len().min(2000)].to_vec();
        let mut session = Connection::new(server, view, choice, carry, Permit::alone(), info);
        core.read_clock();
        session.arrived(SESSION, &mut core);
        let client = UnixStream::from(client);
        let (scratch, replies) = (vec![0; 256 << 10], Vec::new());
        let ring = by_ring.then(|| SocketRing::new().expect("it works, as was seen"));
        let (gone, receiving, ending) = (false, false, false);
        Served { core, session, client, choice, scratch, replies, gone, ring, receiving, ending }
    }

    fn run(mut self, bytes: &[u8]) {
        let mut to_send = &bytes[bytes.len().min(2000)..];
        let mut ended = false;
        for turn in 0.. {
            assert!(turn < 200_000, "it never ends");
            if to_send.is_empty() && !ended {
                ended = true;
                let _ = self.client.shutdown(std::net::Shutdown::Write);
            }
            // From single bytes to all at once.
            let piece = (turn * 7919 % 4093 + 1).min(to_send.len());
            match self.client.write(&to_send[..piece]) {
                Ok(sent) => to_send = &to_send[sent..],
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                // The server has hung up: what it wants of this is no matter.
                Err(_) => to_send = &[],
            }
            self.turn();
            if self.gone {
                break;
            }
        }
        let Served { mut core, session, choice, replies, ring, .. } = self;
        drop(ring);
        drop(session);
        let mut turns = 0;
        while !core.is_idle() {
            core.read_clock();
            core.turn();
            while let Some(crate::device::Finished { buffer, .. }) = core.next_finished() {
                core.pool.give(buffer);
            }
            turns += 1;
            assert!(turns < 200_000, "it never ends");
        }
        assert_eq!(core.pool.used(), 0, "a buffer is lost");
        Asked::of(bytes, choice.style).check(choice, &replies);
    }

    /// As the owner thread does with what the ring has done.
    fn take_completions(&mut self) {
        let Served { core, session, ring: Some(ring), .. } = self else { return };
        ring.submit();
        let mut list = ring.take_completed();
        session.begin_batch(core);
        for event in list.drain(..).filter_map(|entry| SocketRing::event(&entry)) {
            match event {
                SocketEvent::Received { result, buffer, more, .. } => {
                    if !more {
                        (self.receiving, self.ending) = (false, false);
                    }
                    if let Ok(len) = result {
                        session.received(core, buffer.map_or(&[], |id| ring.bytes(id, len)));
                    }
                    buffer.into_iter().for_each(|id| ring.give_back(id));
                }
                SocketEvent::Sent { result, .. } => session.sent(core, Some(result)),
                SocketEvent::NotCancelled { .. } => self.ending = false,
                SocketEvent::Readable { .. } => panic!("nothing is watched"),
            }
        }
        session.end_batch(core);
        ring.put_back(list);
        while ring.take_sent().is_some() {
            session.sent(core, None);
        }
    }

    /// As the owner thread does.
    fn turn(&mut self) {
        self.take_completions();
        let Served { core, session, ring, receiving, .. } = self;
        core.read_clock();
        session.read(core, (!*receiving).then_some(&mut self.scratch[..]));
        core.turn();
        while let Some(io) = core.next_finished() {
            let ReplyTo::Session { session: SESSION, cookie } = io.reply_to else {
                panic!("there is one session")
            };
            session.finished(core, cookie, io);
        }
        let state = session.settle(core, ring.as_mut());
        core.kick();
        if let (Some(ring), SessionState::Waits { read, .. }) = (ring, state) {
            let wanted = read && !session.reads_by_itself();
            if wanted && !*receiving {
                ring.receive(session.fd(), SESSION);
                *receiving = true;
            } else if !wanted && *receiving && !self.ending {
                ring.cancel(SESSION);
                self.ending = true;
            }
        }
        assert!(core.pool.used() <= (64 << 20) + (32 << 20), "memory without bound");
        if state == SessionState::Gone {
            session.left(core);
            self.gone = true;
        }
        let mut chunk = [0; 64 << 10];
        while let Ok(got @ 1..) = self.client.read(&mut chunk) {
            self.replies.extend_from_slice(&chunk[..got]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_sim::rng::{Rng, stream};

    fn option(id: u32, data: &[u8]) -> Vec<u8> {
        [b"IHAVEOPT", &id.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
    }

    fn text(bytes: &[u8]) -> Vec<u8> {
        [&(bytes.len() as u32).to_be_bytes(), bytes].concat()
    }

    /// A session that a client might have: options, then requests.
    fn made_up(random: &mut Rng) -> Vec<u8> {
        let mut bytes = (random.below(4) as u32).to_be_bytes().to_vec();
        let name = random.one_of(&[&b"disk"[..], b"second", b"", b"none such"]);
        for _ in 0..random.below(5) {
            let id = random.one_of(&[3, 5, 6, 8, 8, 9, 10, 11, 11, 99]);
            let data = match id {
                6 => [text(name), vec![0, 2, 0, 1, 0, 3]].concat(),
                9 | 10 => [text(name), vec![0, 0, 0, 1], text(b"base:allocation")].concat(),
                3 | 8 => Vec::new(),
                11 if random.below(8) > 0 => Vec::new(),
                _ => vec![1; random.below(40) as usize],
            };
            bytes.extend(option(id, &data));
        }
        bytes.extend(match random.below(4) {
            0 => option(1, name),
            _ => option(7, &[text(name), vec![0, 0]].concat()),
        });
        let style = match negotiate(&bytes, 1 << 20).step {
            HandshakeStep::Chosen(choice) => choice.style,
            _ => Style::Simple,
        };
        for n in 0..random.below(40) {
            bytes.extend(request(random, n, style));
        }
        bytes
    }

    fn request(random: &mut Rng, n: u64, style: Style) -> Vec<u8> {
        let extended = style == Style::Extended;
        let kind = random.one_of(&[0u16, 0, 0, 1, 1, 1, 3, 4, 5, 6, 7, 7, 8, 2]);
        let kind = if kind == 2 && random.below(8) > 0 { 0 } else { kind };
        let mut flags = random.one_of(&[0u16, 0, 0, 1, 2, 4, 8, 3, 16, 18, 1 << 14]);
        let len =
            random.one_of(&[512u64, 4096, 4096, 5000, 0, 100_000, 1 << 20, 40 << 20, 1 << 40]);
        let len = if extended { len } else { len.min(u32::MAX.into()) };
        let len = if kind == 1 && len > 100_000 { 4096 } else { len };
        let carries = if extended { random.below(10) > 0 } else { true };
        let carries = carries && (kind == 1 || (extended && len <= 5000 && random.below(20) == 0));
        if extended && carries {
            flags |= 1 << 5;
        }
        let near = SIZE - len.min(1 << 20) / 2;
        let offset = random.one_of(&[0, 4096, 4096 * 7, 513, near, SIZE, u64::MAX - 10]);
        let cookie = if random.below(10) == 0 { 5 } else { 1000 + n };
        let magic = if extended { 0x21e4_1c71u32 } else { 0x2560_9513 };
        let mut bytes = [
            &magic.to_be_bytes()[..],
            &flags.to_be_bytes(),
            &kind.to_be_bytes(),
            &cookie.to_be_bytes(),
            &offset.to_be_bytes(),
        ]
        .concat();
        match extended {
            true => bytes.extend(len.to_be_bytes()),
            false => bytes.extend((len as u32).to_be_bytes()),
        }
        if carries {
            bytes.resize(bytes.len() + len as usize, n as u8);
        }
        bytes
    }

    fn mutate(bytes: &mut Vec<u8>, random: &mut Rng) {
        for _ in 0..random.below(4) {
            if bytes.is_empty() {
                return;
            }
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(6) {
                0 => bytes[at] ^= 1 << random.below(8),
                1 => bytes[at] = random.one_of(&[0, 1, 0x7f, 0x80, 0xff]),
                2 => bytes.truncate(at),
                3 => drop(bytes.drain(at..(at + random.below(30) as usize).min(bytes.len()))),
                4 => {
                    let piece =
                        bytes[at..(at + random.below(60) as usize).min(bytes.len())].to_vec();
                    bytes.splice(at..at, piece);
                }
                _ => {
                    let end = (at + 4).min(bytes.len());
                    let word =
                        random.one_of(&[0u32, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX]).to_be_bytes();
                    bytes[at..end].copy_from_slice(&word[..end - at]);
                }
            }
        }
    }

    /// Recorded from real clients, or of old failures.
    fn corpus() -> Vec<(String, Vec<u8>)> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus");
        let files = std::fs::read_dir(folder).expect("the corpus is part of the repository");
        let mut files: Vec<_> = files.map(|f| f.expect("a file").path()).collect();
        files.sort();
        assert!(files.len() >= 10);
        let read = |p: std::path::PathBuf| (p.display().to_string(), std::fs::read(p).unwrap());
        files.into_iter().map(read).collect()
    }

    #[test]
    fn recorded_sessions_are_served_and_so_is_what_mutation_makes_of_them() {
        let mut random = stream(1, "session");
        for (name, bytes) in corpus() {
            println!("{name}");
            handshake(&bytes);
            session(&bytes);
            for _ in 0..150 {
                let mut bytes = bytes.clone();
                mutate(&mut bytes, &mut random);
                handshake(&bytes);
                session(&bytes);
            }
        }
    }

    #[test]
    fn made_up_sessions_are_answered_exactly() {
        let mut chosen = 0;
        for seed in 0..9000 {
            let mut random = stream(seed, "session");
            let mut bytes = made_up(&mut random);
            if seed % 3 != 0 {
                mutate(&mut bytes, &mut random);
            }
            chosen +=
                u32::from(matches!(negotiate(&bytes, 1 << 20).step, HandshakeStep::Chosen(_)));
            // A failure is repeated by its number.
            println!("seed {seed}");
            handshake(&bytes);
            session(&bytes);
        }
        assert!(chosen > 2400, "{chosen} sessions came to requests");
    }

    /// A device that has run for long must not take a client that has just come for one that stalls.
    #[test]
    fn a_client_has_its_time_from_the_arrival_on() {
        let choice = Choice { export: 0, size: SIZE, style: Style::Simple, allocation: false };
        let head =
            [&0x2560_9513u32.to_be_bytes()[..], &[0, 0, 0, 1], &[0; 16], &4096u32.to_be_bytes()];
        let half_a_write = [&head.concat()[..], &[7; 100]].concat();
        let mut served = Served::new(choice, &half_a_write, false);
        let Served { core, session, scratch, .. } = &mut served;
        let came = core.now();
        assert!(came > hoistway::Instant::ZERO);
        session.read(core, Some(scratch));
        assert_eq!(session.holds_since(), Some(came));
    }
}
