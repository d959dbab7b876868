//! The acceptor: one thread accepts clients, negotiates with all of them at once, and sends each to the
//! owner thread of the device it chose.

use super::connection::Connection;
use super::handshake::{Choice, Handshake, Offer, Security, Step};
use super::rules::{ClientMatch, Identity};
use super::tls::Relays;
use crate::clock::{Clock, until};
use crate::device::{ConnectionInfo, Device, Group, Message};
use crate::eventfd::EventFd;
use crate::front::{View, connection_number};
use crate::net::listen::{Full, PAUSE, accept};
use hoistway::{Instant, IoPrio, Nanos};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl, set_tcp_nodelay,
    set_tcp_user_timeout, socket_peercred,
};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, getpeername, recv, send,
    socketpair,
};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What a client can get.
#[derive(Debug)]
pub(super) struct ServedExport {
    pub offer: Offer,
    pub view: View,
    /// Bytes that are wished for; `None`: all there are.
    pub size: Option<u64>,
    pub device: Device,
    /// Who, and what group and priority they get.
    pub rules: Vec<(ClientMatch, Group, IoPrio)>,
}

#[derive(Debug)]
pub(super) struct ListeningSocket {
    pub socket: OwnedFd,
    pub unix: bool,
}

#[derive(Debug)]
pub(super) struct Acceptor {
    exports: Vec<ServedExport>,
    offers: Vec<Offer>,
    listeners: Vec<ListeningSocket>,
    security: Security,
    relays: Option<Relays>,
    epoll: OwnedFd,
    /// Open as long as it is watched.
    _bell: Arc<EventFd>,
    clock: Clock,
    clients: BTreeMap<u64, Negotiation>,
    /// Connections that exist, here and on the owner threads.
    open: Arc<AtomicUsize>,
    most: usize,
    /// How long a client may take to choose.
    handshake_limit: Nanos,
    /// No room for another descriptor: listening pauses until then.
    paused_until: Option<Instant>,
}

/// A client that negotiates.
#[derive(Debug)]
struct Negotiation {
    socket: OwnedFd,
    permit: Permit,
    identity: Identity,
    /// Its address, for people, once its own socket is with a relay.
    address: Option<String>,
    handshake: Handshake,
    input: Vec<u8>,
    output: Vec<u8>,
    /// What follows once the output is sent.
    then: Option<Step>,
    writing: bool,
    deadline: Instant,
}

/// A place among the connections that may exist; free again when the last clone is dropped.
#[derive(Clone, Debug)]
pub(super) struct Permit {
    _taken: Arc<OpenConnections>,
}

impl Permit {
    /// Of a server of one client.
    #[cfg(any(test, feature = "fuzzing"))]
    pub fn alone() -> Permit {
        Permit { _taken: Arc::new(OpenConnections(Arc::new(AtomicUsize::new(1)))) }
    }
}

#[derive(Debug)]
struct OpenConnections(Arc<AtomicUsize>);

impl Drop for OpenConnections {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// To stop the acceptor.
#[derive(Clone, Debug)]
pub(super) struct StopHandle(Arc<EventFd>);

impl StopHandle {
    pub fn stop(&self) {
        self.0.signal();
    }
}

const WAKEUP: u64 = u64::MAX;
const LISTENERS: u64 = 1 << 62;
/// How long a client may take to choose, if nothing else is wished.
pub(super) const HANDSHAKE_LIMIT: Nanos = Nanos::secs(30);
/// A TCP client that is silent for so long is asked whether it is there, so often, so many times.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);
const KEEPALIVE_TRIES: u32 = 6;
/// Unanswered bytes kept per client: more than the longest option.
const INPUT_MAX: usize = 64 << 10;

impl Acceptor {
    pub fn new(
        exports: Vec<ServedExport>,
        listeners: Vec<ListeningSocket>,
        security: Security,
        relays: Option<Relays>,
        most: usize,
        handshake_limit: Nanos,
    ) -> io::Result<(Acceptor, StopHandle)> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wakeup = Arc::new(EventFd::new()?);
        epoll::add(&epoll, &*wakeup, EventData::new_u64(WAKEUP), EventFlags::IN)?;
        let mut acceptor = Acceptor {
            offers: exports.iter().map(|r| r.offer.clone()).collect(),
            exports,
            listeners,
            security,
            relays,
            epoll,
            _bell: Arc::clone(&wakeup),
            clock: Clock::new(),
            clients: BTreeMap::new(),
            open: Arc::new(AtomicUsize::new(0)),
            most,
            handshake_limit,
            paused_until: None,
        };
        acceptor.listen(true)?;
        Ok((acceptor, StopHandle(wakeup)))
    }

    fn listen(&mut self, on: bool) -> io::Result<()> {
        for (n, listener) in self.listeners.iter().enumerate() {
            if on {
                let data = EventData::new_u64(LISTENERS + n as u64);
                match epoll::add(&self.epoll, &listener.socket, data, EventFlags::IN) {
                    // It was not stopped, or an attempt that failed came as far as this.
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
            } else {
                epoll::delete(&self.epoll, &listener.socket)?;
            }
        }
        Ok(())
    }

    /// Runs until told to stop; clients that negotiate are dropped then.
    pub fn run(mut self) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(64);
        loop {
            let now = self.clock.now();
            self.tidy(now);
            let deadlines = self.clients.values().map(|c| c.deadline).chain(self.paused_until);
            let timeout = deadlines.min().map(|at| until(now, at));
            events.clear();
            let spare = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, spare, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => panic!("epoll_wait on descriptors of our own: {error}"),
            }
            for event in &events {
                match event.data.u64() {
                    WAKEUP => return,
                    number if number >= LISTENERS => self.accept((number - LISTENERS) as usize),
                    number => self.client(number),
                }
            }
        }
    }

    /// Drops who took too long, and listens again after a pause.
    fn tidy(&mut self, now: Instant) {
        self.clients.retain(|_, client| client.deadline > now);
        if self.paused_until.is_some_and(|at| at <= now) {
            self.paused_until = None;
            // If even this fails for want of memory, the next pause tries again.
            if self.listen(true).is_err() {
                self.paused_until = Some(now + PAUSE);
            }
        }
    }

    fn accept(&mut self, listener: usize) {
        let ListeningSocket { socket, unix } = &self.listeners[listener];
        let unix = *unix;
        let socket = match accept(socket) {
            Ok(Some(socket)) => socket,
            Ok(None) => return,
            Err(Full) => {
                self.paused_until = Some(self.clock.now() + PAUSE);
                let _ = self.listen(false);
                return;
            }
        };
        if self.open.fetch_add(1, Ordering::Relaxed) >= self.most {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let permit = Permit { _taken: Arc::new(OpenConnections(Arc::clone(&self.open))) };
        let uid = if unix { socket_peercred(&socket).ok().map(|c| c.uid.as_raw()) } else { None };
        if !unix {
            // Answers are sent in one piece; waiting for more would only cost time.
            let _ = set_tcp_nodelay(&socket, true);
            notice_death(&socket);
        }
        let number = connection_number();
        let data = EventData::new_u64(number);
        if epoll::add(&self.epoll, &socket, data, EventFlags::IN).is_err() {
            return;
        }
        let mut output = Vec::with_capacity(256);
        let handshake = Handshake::new(self.security, &mut output);
        let deadline = self.clock.now() + self.handshake_limit;
        let client = Negotiation {
            socket,
            permit,
            identity: Identity::of_user(uid),
            address: None,
            handshake,
            input: Vec::new(),
            output,
            then: None,
            writing: false,
            deadline,
        };
        self.clients.insert(number, client);
        self.client(number);
    }

    /// Files and devices may have grown or shrunk: whoever asks is told how large they are now.
    fn refresh_sizes(&mut self) {
        for (served, offer) in self.exports.iter().zip(&mut self.offers) {
            // A device that was closed keeps its size.
            if let Ok(size) = served.device.refresh_size() {
                let rest = size.saturating_sub(served.view.offset);
                offer.size = served.size.map_or(rest, |wish| wish.min(rest));
            }
        }
    }

    /// Something happened to a client's socket, or it has just come.
    fn client(&mut self, number: u64) {
        self.refresh_sizes();
        let Some(client) = self.clients.get_mut(&number) else { return };
        match client.go_on(&self.offers) {
            Next::Wait { write } => {
                if client.writing != write {
                    client.writing = write;
                    let flags = if write { EventFlags::OUT } else { EventFlags::IN };
                    let data = EventData::new_u64(number);
                    if epoll::modify(&self.epoll, &client.socket, data, flags).is_err() {
                        self.clients.remove(&number);
                    }
                }
            }
            Next::Serve(choice) => {
                if let Some(client) = self.clients.remove(&number) {
                    self.serve(number, client, choice);
                }
            }
            Next::Secure => {
                if self.secure(number).is_err() {
                    self.clients.remove(&number);
                }
            }
            Next::Drop => {
                self.clients.remove(&number);
            }
        }
    }

    /// Gives the client's socket to a relay, and goes on with it behind that.
    fn secure(&mut self, number: u64) -> io::Result<()> {
        let (Some(relays), Some(client)) = (&self.relays, self.clients.get_mut(&number)) else {
            return Ok(());
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (near, far) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        epoll::delete(&self.epoll, &client.socket)?;
        client.address = Some(peer(&client.socket));
        let outer = std::mem::replace(&mut client.socket, near);
        epoll::add(&self.epoll, &client.socket, EventData::new_u64(number), EventFlags::IN)?;
        client.writing = false;
        client.handshake.secured();
        let certificate = Arc::clone(&client.identity.certificate);
        relays.admit(outer, far, client.permit.clone(), certificate);
        Ok(())
    }

    fn serve(&self, number: u64, client: Negotiation, choice: Choice) {
        let served = &self.exports[choice.export];
        let mut view = served.view;
        view.size = choice.size;
        let rule = served.rules.iter().find(|(who, ..)| client.identity.is(who));
        if let Some((_, group, prio)) = rule {
            (view.group, view.prio) = (group.0, *prio);
        }
        let _ = epoll::delete(&self.epoll, client.socket.as_fd());
        let (export, peer) = (served.offer.name.clone(), client.peer());
        let info = ConnectionInfo { connection: number, export, peer };
        let Negotiation { socket, input, permit, .. } = client;
        let connection = Connection::new(socket, view, choice, input, permit, info);
        // A device that was closed takes nobody: the connection is dropped.
        let _ = served.device.send(Message::Session(Box::new(connection)));
    }
}

/// A client whose machine is gone says nothing any more: the kernel is to ask it. Where it refuses, such
/// a client keeps its place.
fn notice_death(socket: &OwnedFd) {
    let _ = set_socket_keepalive(socket, true);
    let _ = set_tcp_keepidle(socket, KEEPALIVE_IDLE);
    let _ = set_tcp_keepintvl(socket, KEEPALIVE_EVERY);
    let _ = set_tcp_keepcnt(socket, KEEPALIVE_TRIES);
    // The same limit for a client that leaves what we send without an answer.
    let limit = KEEPALIVE_IDLE + KEEPALIVE_EVERY * KEEPALIVE_TRIES;
    let _ = set_tcp_user_timeout(socket, limit.as_millis() as u32);
}

/// The other end of a connection, for people.
fn peer(socket: &OwnedFd) -> String {
    match getpeername(socket).ok().flatten().map(SocketAddr::try_from) {
        Some(Ok(address)) => format!("tcp {address}"),
        // No address: a Unix socket, or a client that has gone already.
        _ => socket_peercred(socket).map_or_else(
            |_| "gone".into(),
            |who| format!("unix uid={} pid={}", who.uid.as_raw(), who.pid.as_raw_nonzero()),
        ),
    }
}

enum Next {
    Wait { write: bool },
    Serve(Choice),
    Secure,
    Drop,
}

impl Negotiation {
    fn go_on(&mut self, offers: &[Offer]) -> Next {
        loop {
            match self.send() {
                Ok(true) => {}
                Ok(false) => return Next::Wait { write: true },
                Err(_) => return Next::Drop,
            }
            match self.then.take() {
                Some(Step::Chosen(choice)) => return Next::Serve(choice),
                Some(Step::Secure) => return Next::Secure,
                Some(Step::Close) => return Next::Drop,
                _ => {}
            }
            let (used, step) = self.handshake.feed(&self.input, offers, &mut self.output);
            self.input.drain(..used);
            if step == Step::Secure && !self.input.is_empty() {
                // Said in the clear, by whomever, to be heard as if it had come under TLS.
                return Next::Drop;
            }
            if step != Step::More {
                self.then = Some(step);
                continue;
            }
            match self.receive() {
                Ok(true) => {}
                Ok(false) => return Next::Wait { write: false },
                Err(_) => return Next::Drop,
            }
        }
    }

    /// Who it is, for people.
    fn peer(&self) -> String {
        let certificate = self.identity.certificate.get();
        match (&self.address, certificate.and_then(|c| c.common_name.as_ref())) {
            (None, _) => peer(&self.socket),
            (Some(address), None) => format!("{address} tls"),
            (Some(address), Some(name)) => format!("{address} tls cn={name}"),
        }
    }

    /// True when everything is sent.
    fn send(&mut self) -> io::Result<bool> {
        while !self.output.is_empty() {
            match send(&self.socket, &self.output, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => drop(self.output.drain(..sent)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    /// True when something came.
    fn receive(&mut self) -> io::Result<bool> {
        let mut chunk = [0; 4096];
        if self.input.len() > INPUT_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        match recv(&self.socket, &mut chunk, RecvFlags::DONTWAIT) {
            Ok((_, 0)) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((_, got)) => {
                self.input.extend_from_slice(&chunk[..got]);
                Ok(true)
            }
            Err(Errno::INTR) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Memory may run out between two of them.
    #[test]
    fn listening_goes_on_where_it_was_stopped_in_part() {
        let listener = || {
            let socket = TcpListener::bind("127.0.0.1:0").unwrap();
            ListeningSocket { socket: socket.into(), unix: false }
        };
        let listeners = vec![listener(), listener()];
        let acceptor =
            Acceptor::new(Vec::new(), listeners, Security::None, None, 1, HANDSHAKE_LIMIT);
        let (mut acceptor, _handle) = acceptor.unwrap();
        epoll::delete(&acceptor.epoll, &acceptor.listeners[1].socket).unwrap();
        acceptor.listen(true).unwrap();
        let stopped = acceptor.listeners.iter().map(|l| epoll::delete(&acceptor.epoll, &l.socket));
        assert!(stopped.collect::<Vec<_>>().iter().all(Result::is_ok), "all were listened to");
    }
}
