//! An NBD server: fixed newstyle, structured replies, block status, several exports and connections.
//!
//! The protocol is that of <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>. Two
//! halves: the *lobby*, one thread in which all clients negotiate (`handshake` decides, the lobby
//! waits), and the *connection*, a guest on the owner thread of the export's device (`connection`;
//! `wire` encodes and decodes). A client that never finishes its handshake, or sends garbage, never
//! reaches a thread that serves others.

mod connection;
mod handshake;
mod lobby;
mod server;
mod wire;

pub use server::{ClientRule, Export, Listen, Server, ServerOptions};
