//! The threads that carry TLS sessions, each many of them.

use super::Tls;
use super::relay::{Relay, RelayState, Side, scratch};
use crate::front::nbd::rules::Subject;
use crate::net::server::Permit;
use crate::system::EventFd;
use crate::system::{Clock, until};
use hoistway::{Instant, Nanos};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustls::{ServerConfig, ServerConnection};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};

/// Relay threads at most (chosen: one encrypts 1 GB/s and more; owner threads need processors, too).
const THREADS_MAX: usize = 4;
/// How long sessions may take to send their last answers when the server stops.
const STOPPING: Nanos = Nanos::secs(10);

/// The relay threads. Clones are the same threads; they end by [`stop`](Relays::stop).
#[derive(Clone, Debug)]
pub(in crate::front::nbd) struct Relays {
    threads: Arc<Vec<RelayThread>>,
    next: Arc<AtomicUsize>,
}

/// Where one thread is reached.
#[derive(Debug)]
struct RelayThread {
    mailbox: Arc<Mailbox>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Mailbox {
    wakeup: EventFd,
    messages: Mutex<Messages>,
}

#[derive(Debug, Default)]
struct Messages {
    new: Vec<NewSession>,
    stop: bool,
}

/// A client that asked for TLS.
#[derive(Debug)]
struct NewSession {
    outer: OwnedFd,
    inner: OwnedFd,
    permit: Permit,
    subject: Arc<OnceLock<Subject>>,
}

impl Relays {
    pub fn start(tls: &Tls) -> io::Result<Relays> {
        let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        let mut relays = Vec::new();
        for n in 0..threads {
            let mailbox = Arc::new(Mailbox { wakeup: EventFd::new()?, messages: Mutex::default() });
            let worker = RelayWorker::new(Arc::clone(&mailbox), Arc::clone(&tls.config))?;
            let name = format!("hoistway-tls-{n}");
            let thread = thread::Builder::new().name(name).spawn(move || worker.run())?;
            relays.push(RelayThread { mailbox, thread: Mutex::new(Some(thread)) });
        }
        Ok(Relays { threads: Arc::new(relays), next: Arc::default() })
    }

    /// From now on a relay carries what comes and goes on `outer`, decrypted, to and from `inner`. The
    /// client's names are in `subject` before the first byte is.
    pub fn admit(
        &self,
        outer: OwnedFd,
        inner: OwnedFd,
        permit: Permit,
        subject: Arc<OnceLock<Subject>>,
    ) {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % self.threads.len();
        let session = NewSession { outer, inner, permit, subject };
        self.threads[at].mailbox.put(|messages| messages.new.push(session));
    }

    /// Ends the threads when their sessions are over, after 10 s at the latest. Whoever is behind the
    /// inner ends must have closed them, or do so now.
    pub fn stop(&self) {
        self.threads.iter().for_each(|relay| relay.mailbox.put(|messages| messages.stop = true));
        for relay in self.threads.iter() {
            let thread = relay.thread.lock().expect("nobody panics while holding the lock").take();
            if let Some(thread) = thread {
                let _ = thread.join();
            }
        }
    }
}

impl Mailbox {
    fn put(&self, write: impl FnOnce(&mut Messages)) {
        write(&mut self.messages.lock().expect("nobody panics while holding the lock"));
        self.wakeup.signal();
    }
}

/// What a thread works on.
struct RelayWorker {
    mailbox: Arc<Mailbox>,
    config: Arc<ServerConfig>,
    epoll: OwnedFd,
    clock: Clock,
    sessions: Vec<Option<RelaySession>>,
    vacant: Vec<usize>,
    serial: u32,
    /// Sessions that have more to do although nothing happens on their sockets.
    ready: Vec<u64>,
    scratch: Vec<u8>,
    /// No session may go on beyond.
    last: Option<Instant>,
}

struct RelaySession {
    relay: Relay,
    serial: u32,
}

const WAKEUP: u64 = u64::MAX;

impl RelayWorker {
    fn new(mailbox: Arc<Mailbox>, config: Arc<ServerConfig>) -> io::Result<RelayWorker> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &mailbox.wakeup, EventData::new_u64(WAKEUP), EventFlags::IN)?;
        Ok(RelayWorker {
            mailbox,
            config,
            epoll,
            clock: Clock::new(),
            sessions: Vec::new(),
            vacant: Vec::new(),
            serial: 0,
            ready: Vec::new(),
            scratch: scratch(),
            last: None,
        })
    }

    fn run(mut self) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(256);
        loop {
            self.wait(&mut events);
            let now = self.clock.now();
            for event in &events {
                match event.data.u64() {
                    WAKEUP => self.read_post(now),
                    number => self.happened(now, number, event.flags),
                }
            }
            for number in std::mem::take(&mut self.ready) {
                self.go_on(now, number);
            }
            self.tidy(now);
            if self.last.is_some() && self.sessions.iter().all(Option::is_none) {
                return;
            }
        }
    }

    fn wait(&self, events: &mut Vec<epoll::Event>) {
        let now = self.clock.now();
        let sessions = self.sessions.iter().flatten();
        let limits = sessions.filter_map(|s| s.relay.deadline).chain(self.last);
        let at = if self.ready.is_empty() { limits.min() } else { Some(now) };
        let timeout = at.map(|at| until(now, at));
        events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("epoll_wait on descriptors of our own: {error}"),
        }
    }

    fn read_post(&mut self, now: Instant) {
        self.mailbox.wakeup.clear();
        let messages = std::mem::take(
            &mut *self.mailbox.messages.lock().expect("nobody panics while holding the lock"),
        );
        for session in messages.new {
            self.enter(now, session);
        }
        if messages.stop && self.last.is_none() {
            self.last = Some(now + STOPPING);
            for index in 0..self.sessions.len() {
                if let Some(session) = &mut self.sessions[index] {
                    session.relay.stop(now);
                    self.ready.push(number(index, session.serial));
                }
            }
        }
    }

    /// Without memory for another session the client sees its connection closed.
    fn enter(&mut self, now: Instant, session: NewSession) {
        let NewSession { outer, inner, permit, subject } = session;
        let Ok(tls) = ServerConnection::new(Arc::clone(&self.config)) else { return };
        let mut relay = Relay::new(now, tls, outer, inner, subject, permit);
        if self.last.is_some() {
            relay.stop(now);
        }
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.sessions.push(None);
            self.sessions.len() - 1
        });
        self.serial = self.serial.wrapping_add(1) & SERIALS;
        let number = number(index, self.serial);
        let sides = [(&relay.outer, OUTER), (&relay.inner, INNER)];
        let added = sides.iter().try_for_each(|(side, which)| {
            let data = EventData::new_u64(number | which);
            epoll::add(&self.epoll, &side.socket, data, EventFlags::empty())
        });
        if added.is_err() {
            self.vacant.push(index);
            return;
        }
        self.sessions[index] = Some(RelaySession { relay, serial: self.serial });
        self.go_on(now, number);
    }

    /// Something happened to one of a session's sockets.
    fn happened(&mut self, now: Instant, number: u64, flags: EventFlags) {
        let (index, serial) = session_of(number);
        let Some(session) = &mut self.sessions[index] else { return };
        if session.serial != serial {
            return;
        }
        if flags.intersects(EventFlags::HUP | EventFlags::ERR) {
            let relay = &mut session.relay;
            let side = if number & 1 == INNER { &mut relay.inner } else { &mut relay.outer };
            // It would be reported for ever. From now on the socket never has to be waited for.
            if side.interest.take().is_some() {
                let _ = epoll::delete(&self.epoll, &side.socket);
            }
        }
        self.go_on(now, number);
    }

    fn go_on(&mut self, now: Instant, number: u64) {
        let (index, serial) = session_of(number);
        let Some(session) = &mut self.sessions[index] else { return };
        if session.serial != serial {
            return;
        }
        match session.relay.go_on(now, &mut self.scratch) {
            RelayState::Over => return self.remove(index),
            RelayState::Ready => self.ready.push(number & !1),
            RelayState::Waits => {}
        }
        let number = number & !1;
        let [outer, inner] = session.relay.interests();
        watch(&self.epoll, &mut session.relay.outer, outer, number | OUTER);
        watch(&self.epoll, &mut session.relay.inner, inner, number | INNER);
    }

    /// Ends sessions that took too long.
    fn tidy(&mut self, now: Instant) {
        let last = self.last;
        for index in 0..self.sessions.len() {
            let Some(session) = &self.sessions[index] else { continue };
            let limits = [session.relay.deadline, last];
            if limits.into_iter().flatten().any(|at| at <= now) {
                self.remove(index);
            }
        }
    }

    fn remove(&mut self, index: usize) {
        if let Some(session) = self.sessions[index].take() {
            for side in [&session.relay.outer, &session.relay.inner] {
                // Descriptors may have been duplicated into a child process: closing is not enough.
                if side.interest.is_some() {
                    let _ = epoll::delete(&self.epoll, side.socket.as_fd());
                }
            }
            self.vacant.push(index);
        }
    }
}

fn watch(epoll: &OwnedFd, side: &mut Side, interest: EventFlags, number: u64) {
    if side.interest.is_some_and(|known| known != interest) {
        side.interest = Some(interest);
        epoll::modify(epoll, &side.socket, EventData::new_u64(number), interest)
            .expect("the socket was added and is open");
    }
}

const OUTER: u64 = 0;
const INNER: u64 = 1;
/// Serial numbers have 31 bits: no session is taken for the eventfd.
const SERIALS: u32 = u32::MAX >> 1;

fn number(index: usize, serial: u32) -> u64 {
    u64::from(serial) << 32 | (index as u64) << 1
}

fn session_of(number: u64) -> (usize, u32) {
    (((number & 0xffff_ffff) >> 1) as usize, (number >> 32) as u32)
}
