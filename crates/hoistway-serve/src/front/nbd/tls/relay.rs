//! One TLS session between a client's socket (*outer*) and the socket pair whose other end negotiates,
//! and is served (*inner*).
//!
//! Nothing is read from one side while what came before has not left on the other, so a session keeps
//! at most [`RAW_MAX`] bytes inwards and [`CLEAR_MAX`] outwards, whatever a client does. The ends of the two
//! directions are kept apart: when the client has said that it sends no more (close_notify, or the
//! end of its stream), the inner end sees that behind the last byte and its answers still go out; when
//! the inner end closes, the client gets close_notify behind the last answer.

use super::subject;
use crate::front::nbd::rules::Subject;
use crate::net::server::Permit;
use hoistway::{Instant, Nanos};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use rustls::ServerConnection;
use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

/// How long a client may take for the handshake of TLS.
const HANDSHAKE: Nanos = Nanos::secs(10);
/// How long it may take to read the last answers.
const ENDING: Nanos = Nanos::secs(5);
/// How long it may take to hang up after them.
const LINGER: Nanos = Nanos::secs(1);
/// Bytes taken from the client at once, before decryption.
const RAW_MAX: usize = 64 << 10;
/// Bytes taken for the client at once, before encryption.
const CLEAR_MAX: usize = 128 << 10;
/// Rounds before other sessions have their turn.
const ROUNDS: usize = 16;

/// Room for one session's bytes; threads have one each.
pub(super) fn scratch() -> Vec<u8> {
    vec![0; CLEAR_MAX]
}

pub(super) struct Relay {
    pub outer: Side,
    pub inner: Side,
    tls: ServerConnection,
    /// Where the client's names go once it is verified.
    subject: Arc<OnceLock<Subject>>,
    /// Its place among the connections the server takes.
    _permit: Permit,
    phase: Phase,
    /// Came, not decrypted yet.
    raw: Bytes,
    /// Decrypted, not handed in yet.
    clear: Bytes,
    /// Over then, whatever happens; none while the session is served.
    pub deadline: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Handshake,
    Served,
    /// The inner end is closed, or TLS failed: what is left goes out.
    Ending,
    /// Everything is sent; the client is given time to see it.
    Lingering,
}

/// One of the two sockets.
#[derive(Debug)]
pub(super) struct Side {
    pub socket: OwnedFd,
    /// What it is watched for; `None`: it is finished in both directions, and no longer watched.
    pub interest: Option<EventFlags>,
    readable: bool,
    writable: bool,
}

impl Side {
    fn new(socket: OwnedFd) -> Side {
        Side { socket, interest: Some(EventFlags::empty()), readable: true, writable: true }
    }

    /// `None`: nothing there now. `Some(0)`: the end, or an error, which is as good.
    fn receive(&mut self, into: &mut [u8]) -> Option<usize> {
        loop {
            match recv(&self.socket, &mut *into, RecvFlags::DONTWAIT) {
                Ok((_, got)) => {
                    self.readable = got > 0;
                    return Some(got);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return None,
                Err(_) => {
                    self.readable = false;
                    return Some(0);
                }
            }
        }
    }
}

impl Write for Side {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match send(&self.socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => return Ok(sent),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Err(io::ErrorKind::WouldBlock.into()),
                Err(error) => {
                    self.writable = false;
                    return Err(error.into());
                }
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Bytes with a beginning that was used up.
#[derive(Default)]
struct Bytes {
    bytes: Vec<u8>,
    used: usize,
}

impl Bytes {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.used..]
    }

    fn is_empty(&self) -> bool {
        self.used == self.bytes.len()
    }

    fn consume(&mut self, n: usize) {
        self.used += n;
        if self.is_empty() {
            self.clear();
        }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.used = 0;
    }
}

/// How a session goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RelayState {
    /// It waits for one of its sockets.
    Waits,
    /// It has more to do at once.
    Ready,
    Over,
}

impl Relay {
    pub fn new(
        now: Instant,
        tls: ServerConnection,
        outer: OwnedFd,
        inner: OwnedFd,
        subject: Arc<OnceLock<Subject>>,
        permit: Permit,
    ) -> Relay {
        let mut tls = tls;
        // Bounded by what is written to it at once.
        tls.set_buffer_limit(None);
        Relay {
            outer: Side::new(outer),
            inner: Side::new(inner),
            tls,
            subject,
            _permit: permit,
            phase: Phase::Handshake,
            raw: Bytes::default(),
            clear: Bytes::default(),
            deadline: Some(now + HANDSHAKE),
        }
    }

    /// The server stops: a session that nobody is behind yet ends.
    pub fn stop(&mut self, now: Instant) {
        if self.phase == Phase::Handshake {
            self.end(now);
        }
    }

    /// Moves what can be moved.
    pub fn go_on(&mut self, now: Instant, scratch: &mut [u8]) -> RelayState {
        for _ in 0..ROUNDS {
            let moved = self.round(now, scratch);
            if self.is_over() {
                return RelayState::Over;
            }
            if !moved {
                return RelayState::Waits;
            }
        }
        RelayState::Ready
    }

    /// True if anything was moved.
    fn round(&mut self, now: Instant, scratch: &mut [u8]) -> bool {
        let mut moved = self.receive(scratch);
        moved |= self.decrypt(now);
        moved |= self.hand_in();
        moved |= self.take(now, scratch);
        moved |= self.send();
        self.close_inwards();
        moved | self.finish(now, scratch)
    }

    fn is_over(&self) -> bool {
        match self.phase {
            Phase::Lingering => !self.outer.readable,
            // Neither direction leads anywhere.
            Phase::Ending => !self.outer.writable,
            Phase::Handshake => !self.outer.readable && self.raw.is_empty(),
            Phase::Served => false,
        }
    }

    fn wants_bytes(&self) -> bool {
        let open = matches!(self.phase, Phase::Handshake | Phase::Served);
        open && self.outer.readable && self.raw.is_empty() && self.clear.is_empty()
    }

    fn receive(&mut self, scratch: &mut [u8]) -> bool {
        if !self.wants_bytes() {
            return false;
        }
        match self.outer.receive(&mut scratch[..RAW_MAX]) {
            None => false,
            Some(got) => {
                self.raw.bytes.extend_from_slice(&scratch[..got]);
                true
            }
        }
    }

    /// Decrypts what came; every record is checked whole before a byte of it is handed in.
    fn decrypt(&mut self, now: Instant) -> bool {
        let mut moved = false;
        while !self.raw.is_empty() && matches!(self.phase, Phase::Handshake | Phase::Served) {
            if !self.tls.wants_read() {
                // Behind close_notify nothing counts; in the handshake an answer goes out first.
                if !self.tls.wants_write() {
                    self.raw.clear();
                }
                return moved;
            }
            let before = self.raw.rest().len();
            let mut rest = self.raw.rest();
            let read = self.tls.read_tls(&mut rest);
            let used = before - rest.len();
            self.raw.consume(used);
            let state =
                read.map_err(drop).and_then(|_| self.tls.process_new_packets().map_err(drop));
            let Ok(state) = state else {
                // The alert that says why is among what is to be sent.
                self.end(now);
                return true;
            };
            moved |= used > 0;
            self.arrived();
            let mut plain = state.plaintext_bytes_to_read();
            while plain > 0 {
                let from = self.clear.bytes.len();
                self.clear.bytes.resize(from + plain, 0);
                let got = self.tls.reader().read(&mut self.clear.bytes[from..]).unwrap_or(0);
                self.clear.bytes.truncate(from + got);
                plain = if got == 0 { 0 } else { plain - got };
            }
            if state.peer_has_closed() {
                self.outer.readable = false;
                self.raw.clear();
            }
        }
        moved
    }

    /// Behind the handshake the client's names are known.
    fn arrived(&mut self) {
        if self.phase != Phase::Handshake || self.tls.is_handshaking() {
            return;
        }
        self.phase = Phase::Served;
        self.deadline = None;
        if let Some(certificate) = self.tls.peer_certificates().and_then(|chain| chain.first()) {
            // The relay is the only one who sets it.
            let _ = self.subject.set(subject::names(certificate));
        }
    }

    fn hand_in(&mut self) -> bool {
        if self.clear.is_empty() || self.phase == Phase::Handshake {
            return false;
        }
        match self.inner.write(self.clear.rest()) {
            Ok(sent) => self.clear.consume(sent),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return false,
            // Nobody is there any more: its last answers are still to be taken.
            Err(_) => self.clear.clear(),
        }
        true
    }

    fn takes(&self) -> bool {
        // Also while the handshake goes on: the acceptor may give the client up.
        let open = matches!(self.phase, Phase::Handshake | Phase::Served);
        open && self.inner.readable && !self.tls.wants_write()
    }

    /// Takes answers, and encrypts them.
    fn take(&mut self, now: Instant, scratch: &mut [u8]) -> bool {
        if !self.takes() {
            return false;
        }
        match self.inner.receive(scratch) {
            None => false,
            Some(0) => {
                self.end(now);
                true
            }
            Some(got) => {
                let written = self.tls.writer().write_all(&scratch[..got]);
                debug_assert!(written.is_ok(), "the session has no limit of its own");
                true
            }
        }
    }

    /// No more goes to the client than what there is, and close_notify.
    fn end(&mut self, now: Instant) {
        self.tls.send_close_notify();
        self.raw.clear();
        self.clear.clear();
        self.phase = Phase::Ending;
        self.deadline = Some(now + ENDING);
    }

    fn send(&mut self) -> bool {
        let mut moved = false;
        while self.tls.wants_write() && self.outer.writable {
            match self.tls.write_tls(&mut self.outer) {
                Ok(_) => moved = true,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                // Nobody reads answers any more: requests are of no use either.
                Err(_) => {
                    self.phase = Phase::Ending;
                    break;
                }
            }
        }
        moved
    }

    /// The client sends no more, and the inner end has all of it.
    fn close_inwards(&mut self) {
        let all = !self.outer.readable && self.raw.is_empty() && self.clear.is_empty();
        if all && self.phase == Phase::Served && self.inner.writable {
            self.inner.writable = false;
            let _ = shutdown(&self.inner.socket, Shutdown::Write);
        }
    }

    /// All is sent: hangs up, and waits for the client to do so. Closing at once would take the last
    /// answers away from a client whose own last words were not read.
    fn finish(&mut self, now: Instant, scratch: &mut [u8]) -> bool {
        if self.phase == Phase::Ending && !self.tls.wants_write() {
            self.phase = Phase::Lingering;
            self.deadline = Some(now + LINGER);
            let _ = shutdown(&self.outer.socket, Shutdown::Write);
        }
        self.phase == Phase::Lingering
            && self.outer.readable
            && self.outer.receive(scratch).is_some()
    }

    /// What the two sockets are to be watched for.
    pub fn interests(&self) -> [EventFlags; 2] {
        let (mut outer, mut inner) = (EventFlags::empty(), EventFlags::empty());
        let lingers = self.phase == Phase::Lingering && self.outer.readable;
        outer.set(EventFlags::IN, self.wants_bytes() || lingers);
        outer.set(EventFlags::OUT, self.tls.wants_write());
        inner.set(EventFlags::IN, self.takes());
        inner.set(EventFlags::OUT, !self.clear.is_empty());
        [outer, inner]
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("phase", &self.phase).finish_non_exhaustive()
    }
}
