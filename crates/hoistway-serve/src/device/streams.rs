//! The ring's part in the loop around a device: what it has received and sent goes to the sessions.
//!
//! While the ring receives for a session, epoll does not know its socket, but for room to send. A session that
//! takes no requests for now, or reads by itself, is received for no longer, and waits by epoll as all do where
//! there is no ring.

use super::core::Core;
use super::reactor::{Reactor, SessionSlot, Stream, number, slot_of};
use crate::system::{SocketEvent, SocketRing};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use std::os::fd::BorrowedFd;

/// What the ring does for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receiving {
    No,
    Yes,
    /// It was cancelled, and what came until then is on the way.
    Ending,
}

/// Bytes that sessions have received and cannot use yet. Until a receive is cancelled the ring takes all that the socket
/// holds, up to all of its buffers (1 MiB), which a thousand clients that send and do not read could each make it do.
/// While all sessions carry [`CARRIED_MAX`], each reads by itself instead, 256 KiB at most.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    bytes: usize,
    much: bool,
}

/// From here on much is carried, until half of it is left.
const CARRIED_MAX: usize = 64 << 20;

impl Carried {
    /// A session has so many instead of those before.
    pub fn changes(&mut self, before: usize, now: usize) {
        self.bytes = self.bytes - before + now;
    }

    /// Decides whether it is much; true if that is new.
    fn judge(&mut self) -> bool {
        let before = self.much;
        self.much = self.bytes >= if before { CARRIED_MAX / 2 } else { CARRIED_MAX };
        self.much != before
    }
}

/// Numbers of the descriptors that are no sessions.
const INBOX: u64 = 0;
const BACKEND: u64 = 1;
const LOOKUPS: u64 = 2;
const EPOLL: u64 = 3;

impl Reactor {
    /// Moves to a ring, which also looks at the descriptors that are no sessions. Without the means for one all stays
    /// with epoll, as [`DeviceReport`](super::DeviceReport) says.
    pub(super) fn open_ring(&mut self) {
        let Ok(ring) = SocketRing::new() else { return };
        self.ring = Some(ring);
        self.core.socket_ring = true;
        let others =
            [Some(self.inbox.fd()), self.core.backend().fd(), Some(self.core.lookups_fd())];
        for fd in others.into_iter().flatten() {
            epoll::delete(&self.epoll, fd).expect("it was added at the start");
        }
        [INBOX, BACKEND, LOOKUPS, EPOLL].into_iter().for_each(|which| self.watch_again(which));
    }

    /// Whether something can be read there is looked at when the entry is submitted, after the turn has read it.
    fn watch_again(&mut self, which: u64) {
        let Reactor { core, inbox, epoll, ring: Some(ring), .. } = self else { return };
        let fd = match which {
            INBOX => Some(inbox.fd()),
            BACKEND => core.backend().fd(),
            LOOKUPS => Some(core.lookups_fd()),
            _ => Some(std::os::fd::AsFd::as_fd(epoll)),
        };
        if let Some(fd) = fd {
            ring.watch(fd, which);
        }
    }

    /// Hands out what the ring has done; true if epoll has something.
    pub(super) fn take_completions(&mut self) -> bool {
        let Some(ring) = &mut self.ring else { return false };
        let mut list = ring.take_completed();
        // What was sent first: its buffers are free then for what was received.
        for entry in &list {
            if let Some(SocketEvent::Sent { number, result }) = SocketRing::event(entry) {
                self.stream(number, |stream, core| stream.sent(core, Some(result)));
                self.touch(slot_of(number).0);
            }
        }
        while let Some(number) = self.ring.as_mut().and_then(SocketRing::take_sent) {
            self.stream(number, |stream, core| stream.sent(core, None));
        }
        let (mut batch, mut look) = (None, false);
        for event in list.drain(..).filter_map(|entry| SocketRing::event(&entry)) {
            match event {
                SocketEvent::Received { number, result, buffer, more } => {
                    if batch != Some(number) {
                        self.end_batch(batch.replace(number));
                        self.stream(number, |stream, core| stream.begin_batch(core));
                    }
                    self.received(number, result, buffer, more);
                }
                SocketEvent::Sent { .. } => {}
                SocketEvent::NotCancelled { number } => self.not_cancelled(number),
                SocketEvent::Readable { number } => {
                    match number {
                        INBOX => self.inbox.awake(true),
                        EPOLL => look = true,
                        _ => {}
                    }
                    self.watch_again(number);
                }
            }
        }
        self.end_batch(batch);
        if let Some(ring) = &mut self.ring {
            ring.put_back(list);
        }
        look
    }

    fn end_batch(&mut self, batch: Option<u64>) {
        if let Some(number) = batch {
            self.stream(number, |stream, core| stream.end_batch(core));
        }
    }

    /// A completion of a receive. A session that has left meanwhile is not there any more.
    fn received(
        &mut self,
        number: u64,
        result: Result<usize, Errno>,
        buffer: Option<u16>,
        more: bool,
    ) {
        let Reactor { core, sessions, ring: Some(ring), .. } = self else { return };
        if let Some(slot) = session(sessions, number) {
            if !more {
                slot.receiving = Receiving::No;
            }
            match (result, slot.session.stream()) {
                (Ok(len), Some(stream)) => {
                    stream.received(core, buffer.map_or(&[], |buffer| ring.bytes(buffer, len)));
                }
                // Cancelled, or the buffers were used up: it is received again when it is to be.
                (Err(Errno::CANCELED | Errno::NOBUFS | Errno::INTR | Errno::AGAIN), _) => {}
                _ => slot.session.hung_up(),
            }
        }
        if let Some(buffer) = buffer {
            ring.give_back(buffer);
        }
        self.touch(slot_of(number).0);
    }

    /// A receive that is over has said so before: this one goes on, and is cancelled again unless it is wanted by now.
    fn not_cancelled(&mut self, number: u64) {
        if let Some(slot) = session(&mut self.sessions, number)
            && slot.receiving == Receiving::Ending
        {
            slot.receiving = Receiving::Yes;
            self.touch(slot_of(number).0);
        }
    }

    /// All sessions are settled in the next turn where the ring is to receive for none from now on, or again for all: those
    /// that are idle, too.
    pub(super) fn watch_carried(&mut self) {
        if self.core.carried.judge() {
            (0..self.sessions.len()).for_each(|index| self.touch(index));
        }
    }

    fn stream(&mut self, number: u64, act: impl FnOnce(&mut dyn Stream, &mut Core)) {
        let stream = session(&mut self.sessions, number).and_then(|slot| slot.session.stream());
        if let Some(stream) = stream {
            act(stream, &mut self.core);
        }
    }

    /// Begins or ends to receive, as the session wants to read; says how it stands.
    pub(super) fn receive_by_ring(&mut self, index: usize, read: bool) -> Receiving {
        let (Some(ring), Some(slot)) = (&mut self.ring, &mut self.sessions[index]) else {
            return Receiving::No;
        };
        let Some(stream) = slot.session.stream() else { return Receiving::No };
        let wanted = read && !stream.reads_by_itself() && !self.core.carried.much;
        let number = number(index, slot.serial);
        match slot.receiving {
            Receiving::No if wanted => {
                ring.receive(slot.session.fd(), number);
                slot.receiving = Receiving::Yes;
            }
            Receiving::Yes if !wanted => {
                ring.cancel(number);
                slot.receiving = Receiving::Ending;
            }
            _ => {}
        }
        slot.receiving
    }

    /// The session is about to go, and with it the socket and the answers that entries of the ring name.
    pub(super) fn leave_ring(&mut self, number: u64, receiving: Receiving, socket: BorrowedFd<'_>) {
        let Some(ring) = &mut self.ring else { return };
        if receiving != Receiving::No {
            // Else the ring would keep the socket open. Shut down, a receive ends that is not found to be cancelled.
            let _ = shutdown(socket, Shutdown::Both);
            ring.cancel(number);
        }
        ring.submit();
    }
}

fn session(sessions: &mut [Option<SessionSlot>], number: u64) -> Option<&mut SessionSlot> {
    let (index, serial) = slot_of(number);
    sessions.get_mut(index)?.as_mut().filter(|slot| slot.serial == serial)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn much_is_carried_until_half_of_it_is_left() {
        let mut carried = Carried::default();
        let mut now = |before, after| {
            carried.changes(before, after);
            (carried.judge(), carried.much)
        };
        assert_eq!(now(0, CARRIED_MAX - 1), (false, false));
        assert_eq!(now(0, 1), (true, true));
        assert_eq!(now(CARRIED_MAX - 1, CARRIED_MAX / 2), (false, true));
        assert_eq!(now(1, 0), (false, true));
        assert_eq!(now(CARRIED_MAX / 2, CARRIED_MAX / 2 - 1), (true, false));
        assert_eq!(now(CARRIED_MAX / 2 - 1, CARRIED_MAX - 1), (false, false));
    }
}
