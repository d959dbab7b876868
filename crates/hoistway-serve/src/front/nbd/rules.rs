//! Which group a client gets: by the user at the other end of a Unix socket, or by its certificate.

use crate::device::GroupSpec;
use hoistway::IoPrio;
use std::sync::{Arc, OnceLock};

/// Clients that are known get a group of their own instead of the export's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRule {
    /// Who is meant.
    pub who: ClientMatch,
    /// Name and settings of the group.
    pub group: GroupSpec,
    /// Priority of its connections.
    pub prio: IoPrio,
}

/// How a client is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientMatch {
    /// The user's number, as the Unix socket tells it.
    User(u32),
    /// The common name, or a DNS name, of the certificate it came with; clients are only asked for one
    /// where it is verified.
    Certificate(String),
}

/// The names in a certificate that was verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Subject {
    /// The common name; `None`: there is none, or there are several.
    pub common_name: Option<String>,
    /// The DNS names among the alternative names.
    pub dns_names: Vec<String>,
}

/// What is known of a client.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    /// User at the other end of a Unix socket.
    pub uid: Option<u32>,
    /// Set once its certificate is verified, before anything it says under TLS is heard.
    pub certificate: Arc<OnceLock<Subject>>,
}

impl Identity {
    pub fn of_user(uid: Option<u32>) -> Identity {
        Identity { uid, certificate: Arc::default() }
    }

    pub fn is(&self, who: &ClientMatch) -> bool {
        match who {
            ClientMatch::User(uid) => self.uid == Some(*uid),
            ClientMatch::Certificate(name) => self.certificate.get().is_some_and(|subject| {
                subject.common_name.as_ref() == Some(name) || subject.dns_names.contains(name)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_known_by_exact_names() {
        let client = Identity::of_user(Some(7));
        let named = |name: &str| ClientMatch::Certificate(name.into());
        assert!(client.is(&ClientMatch::User(7)) && !client.is(&ClientMatch::User(8)));
        assert!(!client.is(&named("")), "no certificate has no name");
        let subject =
            Subject { common_name: Some("alice".into()), dns_names: vec!["host.example".into()] };
        client.certificate.set(subject).unwrap();
        assert!(client.is(&named("alice")) && client.is(&named("host.example")));
        for other in ["Alice", "alic", "alice ", "example", "", "*.example"] {
            assert!(!client.is(&named(other)), "{other}");
        }
    }
}
