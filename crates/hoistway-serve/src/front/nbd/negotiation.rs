//! Negotiation: the [acceptor](crate::net::server) takes clients, this talks with all of them until each
//! has chosen an export, and sends each to the owner thread of that device.

use super::connection::Connection;
use super::handshake::{Choice, Handshake, HandshakeStep, Offer, Security};
use super::rules::{ClientMatch, Identity};
use super::tls::Relays;
use crate::device::{ConnectionInfo, Device, Group, Message};
use crate::front::{View, connection_number};
use crate::net::server::{Exchange, NewClient, Next, Permit, Protocol};
use hoistway::{IoPrio, Nanos};
use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl, set_tcp_nodelay,
    set_tcp_user_timeout, socket_peercred,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, getpeername, socketpair};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// What a client can get.
#[derive(Debug)]
pub(super) struct ServedExport {
    pub offer: Offer,
    pub view: View,
    /// Bytes that were asked for; `None`: all there are.
    pub size: Option<u64>,
    pub device: Device,
    /// Who, and what group and priority they get.
    pub rules: Vec<(ClientMatch, Group, IoPrio)>,
}

/// Negotiation with all clients of a server.
#[derive(Debug)]
pub(super) struct Negotiations {
    exports: Vec<ServedExport>,
    offers: Vec<Offer>,
    security: Security,
    relays: Option<Relays>,
}

/// A client that negotiates.
#[derive(Debug)]
pub(super) struct Negotiation {
    /// Its number as a connection.
    number: u64,
    permit: Permit,
    identity: Identity,
    /// Its address, for people, once its own socket is with a relay.
    address: Option<String>,
    handshake: Handshake,
    choice: Option<Choice>,
}

/// How long a client may take to choose, if nothing else is said.
pub(super) const HANDSHAKE_LIMIT: Nanos = Nanos::secs(30);
/// A TCP client that is silent for so long is asked whether it is there, so often, so many times.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);
const KEEPALIVE_TRIES: u32 = 6;

impl Negotiations {
    pub fn new(
        exports: Vec<ServedExport>,
        security: Security,
        relays: Option<Relays>,
    ) -> Negotiations {
        let offers = exports.iter().map(|e| e.offer.clone()).collect();
        Negotiations { exports, offers, security, relays }
    }
}

impl Protocol for Negotiations {
    type Client = Negotiation;
    /// More than the longest option.
    const INPUT_MAX: usize = 64 << 10;

    fn greet(&mut self, client: NewClient<'_>, output: &mut Vec<u8>) -> Negotiation {
        let NewClient { socket, unix, permit } = client;
        let uid = if unix { socket_peercred(socket).ok().map(|c| c.uid.as_raw()) } else { None };
        if !unix {
            // Answers are sent in one piece; waiting for more would only cost time.
            let _ = set_tcp_nodelay(socket, true);
            notice_death(socket);
        }
        Negotiation {
            number: connection_number(),
            permit,
            identity: Identity::of_user(uid),
            address: None,
            handshake: Handshake::new(self.security, output),
            choice: None,
        }
    }

    /// Files and devices may have grown or shrunk: whoever asks is told how large they are now.
    fn woken(&mut self) {
        for (export, offer) in self.exports.iter().zip(&mut self.offers) {
            // A device that was closed keeps its size.
            if let Ok(size) = export.device.refresh_size() {
                let rest = size.saturating_sub(export.view.offset);
                offer.size = export.size.map_or(rest, |asked| asked.min(rest));
            }
        }
    }

    fn advance(&mut self, client: &mut Negotiation, exchange: &mut Exchange) -> Next {
        let Exchange { input, output, .. } = exchange;
        let (used, step) = client.handshake.feed(input, &self.offers, output);
        input.drain(..used);
        match step {
            HandshakeStep::More => Next::Read,
            HandshakeStep::Answered => Next::Again,
            HandshakeStep::Close => Next::Drop,
            // Said in the clear, by whomever, to be heard as if it had come under TLS: no answer at all.
            HandshakeStep::Secure if !input.is_empty() => {
                output.clear();
                Next::Drop
            }
            HandshakeStep::Secure => Next::Replace,
            HandshakeStep::Chosen(choice) => {
                client.choice = Some(choice);
                Next::HandOver
            }
        }
    }

    /// Gives the client's socket to a relay, and goes on with it behind that.
    fn replace(&mut self, client: &mut Negotiation, socket: OwnedFd) -> io::Result<OwnedFd> {
        let Some(relays) = &self.relays else { return Err(io::ErrorKind::Unsupported.into()) };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (near, far) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        client.address = Some(peer(&socket));
        client.handshake.secured();
        let certificate = Arc::clone(&client.identity.certificate);
        relays.admit(socket, far, client.permit.clone(), certificate);
        Ok(near)
    }

    fn hand_over(&mut self, client: Negotiation, socket: OwnedFd, input: Vec<u8>) {
        let Some(choice) = client.choice else { return };
        let export = &self.exports[choice.export];
        let mut view = export.view;
        view.size = choice.size;
        let rule = export.rules.iter().find(|(who, ..)| client.identity.is(who));
        if let Some((_, group, prio)) = rule {
            (view.group, view.prio) = (group.0, *prio);
        }
        let (name, peer) = (export.offer.name.clone(), client.peer(&socket));
        let info = ConnectionInfo { connection: client.number, export: name, peer };
        let connection = Connection::new(socket, view, choice, input, client.permit, info);
        // A device that was closed takes nobody: the connection is dropped.
        let _ = export.device.send(Message::Session(Box::new(connection)));
    }

    /// Before the negotiation the protocol has no words for it.
    fn refusal(&self) -> Vec<u8> {
        Vec::new()
    }
}

impl Negotiation {
    /// Who it is, for people.
    fn peer(&self, socket: &OwnedFd) -> String {
        let certificate = self.identity.certificate.get();
        match (&self.address, certificate.and_then(|c| c.common_name.as_ref())) {
            (None, _) => peer(socket),
            (Some(address), None) => format!("{address} tls"),
            (Some(address), Some(name)) => format!("{address} tls cn={name}"),
        }
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
