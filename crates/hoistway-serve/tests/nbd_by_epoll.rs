//! The protocol, with the sockets served as where the kernel has no ring for them.
#![cfg(target_os = "linux")]

mod client;
mod protocol;

use hoistway_serve::device::SocketWay;

const SOCKETS: SocketWay = SocketWay::Epoll;
