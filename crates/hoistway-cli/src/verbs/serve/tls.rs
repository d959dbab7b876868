//! TLS as people ask for it.

use super::spec::ServeOptions;
use crate::failure::Failure;
use hoistway_serve::front::nbd::{Tls, TlsMode, uri_escaped};
use std::path::PathBuf;

/// TLS that is asked for.
#[derive(Debug)]
pub struct TlsSettings {
    mode: TlsMode,
    folder: PathBuf,
    verify_peer: bool,
}

impl TlsSettings {
    /// As the options say; `None`: off.
    pub fn of(config: &ServeOptions) -> Result<Option<TlsSettings>, Failure> {
        let mode = config.tls.as_deref();
        let folder = config.tls_certificates.as_ref();
        let verify_peer = config.tls_verify_peer;
        let mode = match (mode, folder) {
            (Some("off"), _) | (None, None) if verify_peer => {
                let message = "peers are verified under TLS: write --tls=require and \
                               --tls-certificates DIR";
                return Err(Failure::Usage(message.into()));
            }
            (Some("off"), _) | (None, None) => return Ok(None),
            (Some("on"), _) => TlsMode::On,
            // Who brings certificates does not mean to do without.
            (Some("require"), _) | (None, Some(_)) => TlsMode::Require,
            (Some(other), _) => {
                return Err(Failure::Usage(format!("--tls={other}: write off, on or require")));
            }
        };
        if verify_peer && mode == TlsMode::On {
            eprintln!(
                "warning: with --tls=on, who asks for no TLS is let in without a certificate; \
                 --tls=require lets nobody in without"
            );
        }
        match folder {
            Some(folder) => Ok(Some(TlsSettings { mode, folder: folder.clone(), verify_peer })),
            None => {
                let message = "TLS wants certificates: write --tls-certificates DIR, a folder with \
                               server-cert.pem and server-key.pem";
                Err(Failure::Usage(message.into()))
            }
        }
    }

    /// Reads the certificates.
    pub fn load(&self) -> Result<Tls, Failure> {
        Tls::load(&self.folder, self.mode, self.verify_peer).map_err(super::failure)
    }

    /// The URI for a client on this machine: where it finds the authority, and a certificate of its own if
    /// one is there.
    pub fn with_certificates(&self, uri: &str) -> String {
        if !uri.starts_with("nbds") {
            return uri.into();
        }
        let separator = if uri.contains('?') { '&' } else { '?' };
        let folder = uri_escaped(&self.folder.to_string_lossy());
        format!("{uri}{separator}tls-certificates={folder}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_folder_of_certificates_fits_into_a_uri() {
        let folder = "/srv/a b&c".into();
        let settings = TlsSettings { mode: TlsMode::Require, folder, verify_peer: false };
        let with = |uri: &str| settings.with_certificates(uri);
        let expected = "nbds://h/x?tls-certificates=/srv/a%20b%26c";
        assert_eq!(with("nbds://h/x"), expected);
        assert!(with("nbds+unix:///x?socket=/s").ends_with("/s&tls-certificates=/srv/a%20b%26c"));
        assert_eq!(with("nbd://h/x"), "nbd://h/x");
    }
}
