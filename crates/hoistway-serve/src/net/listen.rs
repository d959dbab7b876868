//! Where servers listen, and how they take clients.

use super::passed::{Passed, PassedAddress};
use super::socket_file::{SocketFile, busy};
use crate::error::{ServeError, os};
use hoistway::Nanos;
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A Unix socket. A socket of this user or root that nobody listens on any more is replaced, and nothing else.
    Unix(PathBuf),
    /// TCP; port 0 takes any free one.
    Tcp(SocketAddr),
    /// A socket that listens already. It stays open, and its file stays, when the server stops.
    Passed(Passed),
}

impl Listen {
    /// Listens there, without blocking. `local`: why other machines must not reach it, and what to do.
    ///
    /// # Errors
    ///
    /// When the address cannot be listened on, or other machines could reach it although it must not.
    pub(crate) fn bind(&self, local: Option<&str>) -> Result<Bound, ServeError> {
        match self {
            Listen::Tcp(address) => {
                check_reach(address, local)?;
                let listener = TcpListener::bind(address)
                    .map_err(|e| os(busy(&e, format!("listen on {address}")))(e))?;
                listener.set_nonblocking(true).map_err(os("listener"))?;
                let address = Listen::Tcp(listener.local_addr().map_err(os("listener"))?);
                Ok(Bound { socket: listener.into(), address, file: None })
            }
            Listen::Unix(path) => {
                let (listener, file) =
                    SocketFile::bind(path, "listen on", |path| UnixListener::bind(path))?;
                listener.set_nonblocking(true).map_err(os("listener"))?;
                Ok(Bound { socket: listener.into(), address: self.clone(), file: Some(file) })
            }
            Listen::Passed(passed) => {
                let address = match passed.place()? {
                    PassedAddress::Unix(path) => Listen::Unix(path.into()),
                    PassedAddress::Tcp(address) => {
                        check_reach(&address, local)?;
                        Listen::Tcp(address)
                    }
                };
                Ok(Bound { socket: passed.socket()?, address, file: None })
            }
        }
    }
}

/// A socket that listens.
#[derive(Debug)]
pub(crate) struct Bound {
    pub socket: OwnedFd,
    /// Where: a port that was left open is filled in, a passed socket stands with its address.
    pub address: Listen,
    /// Its socket file, if it is ours to remove.
    pub file: Option<SocketFile>,
}

fn check_reach(address: &SocketAddr, local: Option<&str>) -> Result<(), ServeError> {
    match local {
        Some(why) if !address.ip().is_loopback() => Err(ServeError::Refused(format!(
            "{address} is reachable from other machines, and {why}"
        ))),
        _ => Ok(()),
    }
}

/// The process has no room for another descriptor: nobody is to be accepted for [`PAUSE`].
#[derive(Debug)]
pub(crate) struct Full;

/// How long nobody is accepted after the process ran out of descriptors.
pub(crate) const PAUSE: Nanos = Nanos::ms(100);

/// Takes the next client of a socket that listens; `None`: it has gone again.
pub(crate) fn accept(socket: &OwnedFd) -> Result<Option<OwnedFd>, Full> {
    match accept_with(socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
        Ok(client) => Ok(Some(client)),
        Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => Err(Full),
        Err(_) => Ok(None),
    }
}
