//! A build without the feature `tls`: no server can be set up to offer it.

use super::handshake::Security;
use super::rules::Subject;
use crate::error::ServeError;
use crate::net::server::Permit;
use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// How a server speaks TLS: not in this build.
#[derive(Clone, Debug)]
pub struct Tls(Infallible);

/// Whether clients may do without TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsMode {
    /// They may.
    On,
    /// They may not.
    Require,
}

impl Tls {
    /// Refused: this build has no TLS.
    pub fn load(_: &Path, _: TlsMode, _: bool) -> Result<Tls, ServeError> {
        let message = "this build has no TLS; build with the feature `tls`";
        Err(ServeError::Refused(message.into()))
    }

    pub(super) fn verifies_clients(&self) -> bool {
        match self.0 {}
    }

    pub(super) fn security(&self) -> Security {
        match self.0 {}
    }
}

#[derive(Clone, Debug)]
pub(super) struct Relays(Infallible);

impl Relays {
    pub fn start(tls: &Tls) -> io::Result<Relays> {
        match tls.0 {}
    }

    pub fn admit(&self, _: OwnedFd, _: OwnedFd, _: Permit, _: Arc<OnceLock<Subject>>) {
        match self.0 {}
    }

    pub fn stop(&self) {
        match self.0 {}
    }
}
