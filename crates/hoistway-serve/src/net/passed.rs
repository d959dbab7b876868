//! Sockets that were opened by whoever started this process: a service manager (systemd), a client that
//! starts its own server (libnbd), a parent that lets its child continue where it was.
//!
//! The protocol is that of `sd_listen_fds(3)`: LISTEN_FDS descriptors from 3 on, for the process LISTEN_PID,
//! with names in LISTEN_FDNAMES.

use crate::error::{ServeError, os};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::sockopt::{socket_acceptconn, socket_type};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, getsockname};
use std::net::SocketAddr;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A listening socket that was passed on. Clones are the same socket.
#[derive(Clone, Debug)]
pub struct Passed {
    socket: Arc<OwnedFd>,
    /// What it is called; `unknown` if nobody said.
    pub name: String,
}

impl PartialEq for Passed {
    fn eq(&self, other: &Passed) -> bool {
        Arc::ptr_eq(&self.socket, &other.socket)
    }
}

impl Eq for Passed {}

/// The first descriptor that is passed on.
const FIRST: RawFd = 3;
/// More than anybody passes.
const MOST: u32 = 1024;

/// The sockets that were passed to this process; none where the environment speaks of none or of another
/// process. They are given out once: the next call finds none.
///
/// # Errors
///
/// When LISTEN_FDS is no number, or a descriptor is not a listening stream socket.
pub fn passed() -> Result<Vec<Passed>, ServeError> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let variable = |name: &str| std::env::var(name).ok();
    let own = std::process::id().to_string();
    if variable("LISTEN_PID") != Some(own) || TAKEN.swap(true, Ordering::SeqCst) {
        return Ok(Vec::new());
    }
    let count = variable("LISTEN_FDS").unwrap_or_default();
    let count: u32 = count.parse().ok().filter(|n| *n <= MOST).ok_or_else(|| {
        ServeError::Refused(format!("LISTEN_FDS='{count}' is not a number of descriptors"))
    })?;
    let names = variable("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':').filter(|n| !n.is_empty());
    let sockets = (FIRST..FIRST + count as RawFd).map(|fd| {
        // SAFETY: whoever started us says that this descriptor is open and ours; nothing of this process
        // has it, since it was there before the first descriptor of our own, and it is taken only once.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let name = names.next().unwrap_or("unknown").to_string();
        let what = format!("descriptor {fd} ('{name}') that was passed on");
        check(&socket, &what)?;
        Ok(Passed { socket: Arc::new(socket), name })
    });
    sockets.collect()
}

fn check(socket: &OwnedFd, what: &str) -> Result<(), ServeError> {
    // A descriptor that is not open, or no socket, is an error of the first call.
    let kind = socket_type(socket).map_err(os(what))?;
    if kind != SocketType::STREAM || !socket_acceptconn(socket).map_err(os(what))? {
        return Err(ServeError::Refused(format!(
            "{what}: not a listening stream socket (in a .socket unit: ListenStream=, and \
             Accept=no)"
        )));
    }
    fcntl_setfd(socket, FdFlags::CLOEXEC).map_err(os(what))?;
    let flags = fcntl_getfl(socket).map_err(os(what))?;
    fcntl_setfl(socket, flags | OFlags::NONBLOCK).map_err(os(what))
}

/// Where a passed socket listens.
pub(crate) enum PassedAddress {
    Tcp(SocketAddr),
    /// Its path; text for people where it has none.
    Unix(String),
}

impl Passed {
    pub(crate) fn socket(&self) -> Result<OwnedFd, ServeError> {
        self.socket.try_clone().map_err(os(format!("socket '{}'", self.name)))
    }

    pub(crate) fn place(&self) -> Result<PassedAddress, ServeError> {
        let address = getsockname(&self.socket).map_err(os(format!("socket '{}'", self.name)))?;
        if address.address_family() != AddressFamily::UNIX {
            let refused = |_| ServeError::Refused(format!("socket '{}': of no use", self.name));
            return SocketAddr::try_from(address).map(PassedAddress::Tcp).map_err(refused);
        }
        let address = SocketAddrUnix::try_from(address).ok();
        let path = address.as_ref().and_then(SocketAddrUnix::path);
        let text = path.map(|path| path.to_string_lossy().into_owned());
        Ok(PassedAddress::Unix(text.unwrap_or_else(|| format!("({})", self.name))))
    }
}
