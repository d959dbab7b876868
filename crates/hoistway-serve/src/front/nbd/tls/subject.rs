//! The names in a client's certificate. It has been verified by then: this only reads.

use crate::front::nbd::rules::Subject;
use rustls::pki_types::CertificateDer;

/// The names of a certificate; none if it is not one.
pub(super) fn names(certificate: &CertificateDer<'_>) -> Subject {
    let Ok(parsed) = webpki::EndEntityCert::try_from(certificate) else {
        return Subject::default();
    };
    let mut names = common_names(parsed.subject());
    Subject {
        // Two common names are no name: who made the certificate knows which one is meant, we do not.
        common_name: if names.len() == 1 { names.pop() } else { None },
        dns_names: parsed.valid_dns_names().map(String::from).collect(),
    }
}

/// Values of `commonName` (2.5.4.3) in the content of a Name (RFC 5280 4.1.2.4): a sequence of sets of
/// sequences of a type and a value.
fn common_names(mut rdns: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    while let Some((SET, mut set, rest)) = element(rdns) {
        rdns = rest;
        while let Some((SEQUENCE, pair, rest)) = element(set) {
            set = rest;
            let Some((OID, COMMON_NAME, value)) = element(pair) else { continue };
            if let Some((UTF8_STRING | PRINTABLE_STRING | IA5_STRING, text, [])) = element(value)
                && let Ok(text) = std::str::from_utf8(text)
            {
                names.push(text.to_string());
            }
        }
    }
    names
}

/// Tag, content and what is behind the first DER element.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, bytes) = bytes.split_first()?;
    let (&first, bytes) = bytes.split_first()?;
    let (len, bytes) = match first {
        0..=0x7f => (usize::from(first), bytes),
        0x81 => (usize::from(*bytes.first()?), &bytes[1..]),
        0x82 => (usize::from(u16::from_be_bytes(*bytes.first_chunk()?)), &bytes[2..]),
        // Names are not that long.
        _ => return None,
    };
    Some((tag, bytes.get(..len)?, &bytes[len..]))
}

const OID: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

#[cfg(test)]
mod tests {
    use super::*;

    fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
        let len = content.len();
        let head = if len < 0x80 { vec![tag, len as u8] } else { vec![tag, 0x81, len as u8] };
        [&head, content].concat()
    }

    fn rdn(oid: &[u8], tag: u8, text: &[u8]) -> Vec<u8> {
        let pair = [tagged(OID, oid), tagged(tag, text)].concat();
        tagged(SET, &tagged(SEQUENCE, &pair))
    }

    #[test]
    fn the_common_name_is_found_among_others() {
        let long = "x".repeat(200);
        let name = [
            rdn(&[0x55, 0x04, 0x0a], PRINTABLE_STRING, b"Org"),
            rdn(COMMON_NAME, UTF8_STRING, "müller".as_bytes()),
            rdn(COMMON_NAME, IA5_STRING, long.as_bytes()),
            // A kind of text that nobody uses any more.
            rdn(COMMON_NAME, 0x1e, b"\0a"),
        ]
        .concat();
        assert_eq!(common_names(&name), ["müller".to_string(), long]);
        for cut in 0..name.len() {
            assert!(common_names(&name[..cut]).len() <= 2, "cut at {cut}");
        }
        assert!(common_names(&rdn(COMMON_NAME, UTF8_STRING, &[0xff])).is_empty());
    }

    #[test]
    fn names_are_those_of_a_real_certificate() {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["host.example".to_string()]).unwrap();
        params.distinguished_name.push(rcgen::DnType::OrganizationName, "Org");
        params.distinguished_name.push(rcgen::DnType::CommonName, "alice");
        let certificate = params.self_signed(&key).unwrap();
        let names = names(certificate.der());
        assert_eq!(names.common_name.as_deref(), Some("alice"));
        assert_eq!(names.dns_names, ["host.example"]);
        assert_eq!(super::names(&CertificateDer::from(vec![1, 2, 3])), Subject::default());
    }
}
