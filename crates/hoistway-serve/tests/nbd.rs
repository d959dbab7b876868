//! The protocol, with the sockets served by io_uring where that works.
#![cfg(target_os = "linux")]

mod client;
mod protocol;

use hoistway_serve::device::SocketWay;

const SOCKETS: SocketWay = SocketWay::Best;
