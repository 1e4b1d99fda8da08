//! A certificate authority for tests.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, date_time_ymd,
};

/// A certificate authority of one test.
pub struct TestAuthority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// Time in which a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// Valid for as long as tests will run.
    Valid,
    /// Expired in 2020.
    Expired,
    /// Valid from 2400 on.
    NotYet,
}

impl std::fmt::Debug for TestAuthority {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("TestAuthority")
    }
}

impl TestAuthority {
    /// Creates an authority that nobody trusts yet.
    #[expect(clippy::new_without_default, reason = "it generates a key")]
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key can be generated");
        let certificate = params.self_signed(&key).expect("an authority signs itself");
        Self { pem: certificate.pem(), issuer: Issuer::new(params, key) }
    }

    /// Writes the authority's certificate to `ca.pem` in this folder.
    pub fn write_to(&self, folder: &Path) -> PathBuf {
        write_file(folder, "ca.pem", &self.pem)
    }

    /// Writes a certificate for these names, usable by servers and clients, to `<name>.pem` and its key to `<name>.key`.
    pub fn issue(&self, folder: &Path, name: &str, hosts: &[&str], validity: Validity) -> (PathBuf, PathBuf) {
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(hosts).expect("valid names");
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let (from, to) = match validity {
            Validity::Valid => (2000, 2500),
            Validity::Expired => (2000, 2020),
            Validity::NotYet => (2400, 2500),
        };
        (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
        let key = KeyPair::generate().expect("a key can be generated");
        let certificate = params.signed_by(&key, &self.issuer).expect("the authority signs");
        let certificate = write_file(folder, &format!("{name}.pem"), &certificate.pem());
        (certificate, write_file(folder, &format!("{name}.key"), &key.serialize_pem()))
    }
}

fn write_file(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("the folder can be written");
    path
}
