//! Certificates for tests, under the names that libnbd, nbdkit and QEMU use.
#![allow(dead_code, reason = "each test file uses a part of it")]

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams,
    SerialNumber, date_time_ymd,
};
use std::path::{Path, PathBuf};

/// An authority that signs.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A folder for the server: its certificate is for `localhost` and 127.0.0.1.
    pub fn server(&self, folder: &Path) -> PathBuf {
        let names = vec!["localhost".to_string(), "127.0.0.1".to_string()];
        self.sign(folder, "server", "server", names, ExtendedKeyUsagePurpose::ServerAuth, 1)
    }

    /// A folder for a client of that common name.
    pub fn client(&self, folder: &Path, name: &str, serial: u64) -> PathBuf {
        let usage = ExtendedKeyUsagePurpose::ClientAuth;
        self.sign(folder, "client", name, Vec::new(), usage, serial)
    }

    fn sign(
        &self,
        folder: &Path,
        role: &str,
        name: &str,
        names: Vec<String>,
        usage: ExtendedKeyUsagePurpose,
        serial: u64,
    ) -> PathBuf {
        std::fs::create_dir_all(folder).unwrap();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![usage];
        params.serial_number = Some(SerialNumber::from(serial));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        self.trust(folder);
        std::fs::write(folder.join(format!("{role}-cert.pem")), certificate.pem()).unwrap();
        std::fs::write(folder.join(format!("{role}-key.pem")), key.serialize_pem()).unwrap();
        folder.into()
    }

    /// The authority's own certificate alone: a client that comes without one.
    pub fn trust(&self, folder: &Path) -> PathBuf {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join("ca-cert.pem"), self.0.pem()).unwrap();
        folder.into()
    }

    /// Revokes certificates by their numbers.
    pub fn revoke(&self, folder: &Path, serials: &[u64]) {
        let revoked = |&serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(serial),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(2090, 1, 1),
            crl_number: SerialNumber::from(1u64),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.0).unwrap();
        std::fs::write(folder.join("ca-crl.pem"), list.pem().unwrap()).unwrap();
    }
}
