//! An NBD server: fixed newstyle, structured replies and extended headers, block status, several exports and connections.
//!
//! The protocol is that of <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>. Two
//! halves: the *acceptor*, one thread in which all clients negotiate (`handshake` decides, the acceptor
//! waits), and the *connection*, a session on the owner thread of the export's device (`connection`;
//! `wire` encodes and decodes). A client that never finishes its handshake, or sends garbage, never
//! reaches a thread that serves others.

mod connection;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzz_harness;
mod handshake;
mod negotiation;
mod rules;
mod server;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
mod tls;
mod wire;

pub use rules::{ClientMatch, ClientRule};
pub use server::{Server, ServerOptions, uri_escaped};
pub use tls::{Tls, TlsMode};

/// NBD in the registry.
pub static FRONT: super::Front = super::Front {
    name: "nbd",
    summary: "network block devices, by Unix sockets and TCP, with TLS",
    usage: "--socket PATH, --listen ADDRESS",
    missing: || None,
    options: &[],
    attach: None,
};
