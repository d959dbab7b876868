//! TLS for NBD: the server's certificate, whom it believes, and the threads that carry sessions.
//!
//! A client asks for TLS with NBD_OPT_STARTTLS. The acceptor answers, gives the client's socket to a
//! *relay* and goes on negotiating with it over one end of a socket pair, whose other end the relay has;
//! later that end is the session on the owner thread. So everything behind the handshake of TLS is
//! written once, and no owner thread ever encrypts.
//!
//! What a client said before TLS is forgotten, what it sent behind STARTTLS without waiting for the answer
//! ends the connection (an attacker could have put it there), sessions are not resumed (a revoked
//! certificate is revoked at the next connection), early data and renegotiation do not exist.

mod relay;
mod subject;
mod threads;

pub(super) use threads::Relays;

use super::handshake::Security;
use crate::error::{ServeError, os};
use hoistway_files::input::{self, Limit, ReadError};
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, ServerConfig, WebPkiClientVerifier};
use std::path::Path;
use std::sync::Arc;

/// How a server speaks TLS.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ServerConfig>,
    mode: TlsMode,
    verifies: bool,
}

/// Whether clients may do without TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsMode {
    /// They may.
    On,
    /// They may not: until TLS is there they are told nothing about exports.
    Require,
}

impl Tls {
    /// Reads certificates and keys, PEM files under the names that libnbd, nbdkit and QEMU use:
    /// `server-cert.pem` (with intermediate ones behind it), `server-key.pem`; and, to verify clients,
    /// `ca-cert.pem` and, if it is there, `ca-crl.pem`, a list of revoked certificates.
    ///
    /// # Errors
    ///
    /// When a file is missing or is not what its name says, or key and certificate do not fit.
    pub fn load(folder: &Path, mode: TlsMode, verify_peer: bool) -> Result<Tls, ServeError> {
        let provider = Arc::new(ring::default_provider());
        let chain: Vec<CertificateDer<'static>> = items(&folder.join("server-cert.pem"))?;
        let key_file = folder.join("server-key.pem");
        let key = input::bytes(&key_file, PEM).map_err(unread)?;
        let key = PrivateKeyDer::from_pem_slice(&key).map_err(|e| wrong(&key_file, &e))?;
        let refused = |e: rustls::Error| {
            let message = format!("{}: certificate and key: {e}", folder.display());
            ServeError::Refused(message)
        };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(refused)?;
        let builder = if verify_peer {
            builder.with_client_cert_verifier(verifier(folder, provider)?)
        } else {
            builder.with_no_client_auth()
        };
        let mut config = builder.with_single_cert(chain, key).map_err(refused)?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.max_early_data_size = 0;
        Ok(Tls { config: Arc::new(config), mode, verifies: verify_peer })
    }

    pub(super) fn verifies_clients(&self) -> bool {
        self.verifies
    }

    pub(super) fn security(&self) -> Security {
        match self.mode {
            TlsMode::On => Security::Offered,
            TlsMode::Require => Security::Required,
        }
    }
}

/// Believes clients whose certificate goes back to one of `ca-cert.pem` and is not revoked. A list of
/// revoked certificates that has run out revokes everything; one that does not speak of an issuer
/// says nothing about it.
fn verifier(
    folder: &Path,
    provider: Arc<rustls::crypto::CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, ServeError> {
    let file = folder.join("ca-cert.pem");
    let mut roots = RootCertStore::empty();
    for certificate in items::<CertificateDer<'static>>(&file)? {
        roots
            .add(certificate)
            .map_err(|e| ServeError::Refused(format!("{}: {e}", file.display())))?;
    }
    let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let list = folder.join("ca-crl.pem");
    // What is there and cannot be read must not pass for a list that revokes nothing.
    if list.symlink_metadata().map_or_else(|e| e.kind() != std::io::ErrorKind::NotFound, |_| true) {
        let lists: Vec<CertificateRevocationListDer<'static>> = items(&list)?;
        builder = builder
            .with_crls(lists)
            .allow_unknown_revocation_status()
            .enforce_revocation_expiration();
    }
    builder.build().map_err(|e| ServeError::Refused(format!("{}: {e}", folder.display())))
}

/// Everything of one kind in a PEM file; at least one.
fn items<T: PemObject>(file: &Path) -> Result<Vec<T>, ServeError> {
    let bytes = input::bytes(file, PEM).map_err(unread)?;
    let list = T::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>();
    let list = list.map_err(|e| wrong(file, &e))?;
    if list.is_empty() {
        return Err(wrong(file, &pem::Error::NoItemsFound));
    }
    Ok(list)
}

/// Certificates and lists of revoked ones are of any number, within reason.
const PEM: Limit = Limit { what: "a PEM file", bytes: 16 << 20 };

fn unread(error: ReadError) -> ServeError {
    match error {
        ReadError::Io { path, error } => os(path.display().to_string())(error),
        other => ServeError::Refused(other.to_string()),
    }
}

fn wrong(file: &Path, error: &pem::Error) -> ServeError {
    let what = match error {
        // They say what stands in the file, which may be any.
        pem::Error::IllegalSectionStart { .. } | pem::Error::MissingSectionEnd { .. } => {
            "a section that does not begin or end as it should".into()
        }
        other => other.to_string(),
    };
    let file = file.display();
    ServeError::Refused(format!("{file}: not what it should be: {what}; PEM files are wanted"))
}
