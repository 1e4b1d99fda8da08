//! Defines how a connection to the broker is secured: the login, the authorities, and TLS.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use async_nats::ConnectOptions;

use super::credential::CredentialFile;

/// Permission bit with which every user of the machine may read a file.
const OTHERS_MAY_READ: u32 = 0o004;

/// Login, authorities and TLS of a connection. The files are read again at each connection, so a rotated file takes
/// effect at the next one.
#[derive(Debug, Clone, Default)]
pub struct ConnectionSecurity {
    /// File with which the connection logs in; `None` to log in with the user and password of the address, if any.
    pub credential: Option<CredentialFile>,
    /// PEM file with the authorities that may sign the server's certificate; `None` for those of the machine.
    pub ca_file: Option<PathBuf>,
    /// Client certificate for mutual TLS.
    pub client_certificate: Option<ClientCertificate>,
    /// Use of TLS.
    pub tls: TlsMode,
}

/// PEM files of a client certificate and its private key.
#[derive(Debug, Clone)]
pub struct ClientCertificate {
    /// File of the certificate, followed by its intermediate ones.
    pub certificate: PathBuf,
    /// File of the private key.
    pub key: PathBuf,
}

/// Use of TLS by a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsMode {
    /// TLS is used if the server or the address asks for it.
    #[default]
    Auto,
    /// A connection without TLS is refused.
    Required,
    /// TLS starts before the server's greeting.
    First,
}

impl ConnectionSecurity {
    /// Returns these options with TLS as configured.
    pub(super) fn secure_options(&self, mut options: ConnectOptions) -> ConnectOptions {
        if let Some(file) = &self.ca_file {
            options = options.add_root_certificates(file.clone());
        }
        if let Some(files) = &self.client_certificate {
            options = options.add_client_certificate(files.certificate.clone(), files.key.clone());
        }
        match self.tls {
            TlsMode::First => options.tls_first(),
            // Who names certificates expects TLS: without this, anybody on the way could answer without it and be sent the
            // login.
            TlsMode::Auto => options.require_tls(self.ca_file.is_some() || self.client_certificate.is_some()),
            TlsMode::Required => options.require_tls(true),
        }
    }

    /// Returns a sentence for each file with a secret that every user of the machine may read. They are warnings, because
    /// a file in a container or a closed folder may have such a mode and be protected all the same.
    pub fn find_exposed_files(&self) -> Vec<String> {
        let credential = self.credential.as_ref().map(|file| (file.key(), file.path()));
        let key = self.client_certificate.as_ref().map(|files| ("nats_key_file", files.key.as_path()));
        let is_exposed =
            |path: &Path| std::fs::metadata(path).is_ok_and(|found| found.mode() & OTHERS_MAY_READ != 0);
        let exposed = credential.into_iter().chain(key).filter(|(_, path)| is_exposed(path));
        let describe = |(key, path): (&str, &Path)| {
            format!(
                "every user of this machine may read the secret in {key} ({path}): chmod o= {path}",
                path = path.display()
            )
        };
        exposed.map(describe).collect()
    }

    /// Returns the files that TLS needs, each with its key.
    pub(super) fn tls_files(&self) -> Vec<(&'static str, &Path)> {
        let authorities = self.ca_file.as_deref().map(|path| ("nats_ca_file", path));
        let client = self.client_certificate.as_ref();
        let client =
            client.map(|files| [("nats_cert_file", &*files.certificate), ("nats_key_file", &*files.key)]);
        authorities.into_iter().chain(client.into_iter().flatten()).collect()
    }
}
