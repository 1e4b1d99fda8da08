//! Finds keys of the broker's connection that contradict each other, and files that cannot be read.

use std::path::Path;

use crate::config::Config;
use crate::nats_tls::NatsTls;

/// Maximum size of a file of credentials or certificates, in bytes. A bundle of all public authorities has about
/// 250 KB.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Numbers of servers that can store a stream. With an even number, a stream tolerates no more failures than with one
/// server less.
const REPLICAS: [u8; 3] = [1, 3, 5];

type Problem = (&'static str, String);

impl Config {
    /// Returns the problems of the keys that secure the connection to the broker, each as a key and a sentence.
    pub(crate) fn find_nats_problems(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        found.extend(self.find_nats_contradictions());
        found.extend(self.find_unreadable_nats_files());
        if self.nats_inbox_prefix.as_deref().is_some_and(|prefix| !is_subject(prefix)) {
            let why = "is not a subject such as _INBOX_counter: words of visible characters, separated by dots, without * and >";
            found.push(("nats_inbox_prefix", why.to_owned()));
        }
        if !REPLICAS.contains(&self.nats_replicas) {
            let why = format!("is {}; it must be 1, 3 or 5", self.nats_replicas);
            found.push(("nats_replicas", why));
        }
        found
    }

    /// Returns the files of credentials and certificates, each with its key.
    fn nats_files(&self) -> [(&'static str, Option<&Path>); 5] {
        [
            ("nats_creds_file", self.nats_creds_file.as_deref()),
            ("nats_nkey_file", self.nats_nkey_file.as_deref()),
            ("nats_ca_file", self.nats_ca_file.as_deref()),
            ("nats_cert_file", self.nats_cert_file.as_deref()),
            ("nats_key_file", self.nats_key_file.as_deref()),
        ]
    }

    fn find_nats_contradictions(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        let files = self.nats_files().map(|(key, path)| (key, path.is_some()));
        let others = [
            ("nats_tls", self.nats_tls != NatsTls::Auto),
            ("nats_inbox_prefix", self.nats_inbox_prefix.is_some()),
            ("nats_replicas", self.nats_replicas > 1),
        ];
        if self.nats_url.is_none() {
            let why = "is only for a broker of your own, and `nats_url` is not set; set it too (NATS_URL)";
            let given = files.iter().chain(&others).filter(|(_, given)| *given);
            found.extend(given.map(|(key, _)| (*key, why.to_owned())));
        }
        if self.nats_creds_file.is_some() && self.nats_nkey_file.is_some() {
            found.push((
                "nats_nkey_file",
                "is set together with `nats_creds_file`; keep one of them".to_owned(),
            ));
        }
        let login = files.iter().take(2).find(|(_, given)| *given);
        if let Some((key, _)) = login.filter(|_| self.nats_url_has_login()) {
            let why = "is set, and `nats_url` has a user or token, too; remove it from the address or leave this key out";
            found.push((key, why.to_owned()));
        }
        match (&self.nats_cert_file, &self.nats_key_file) {
            (Some(_), None) => {
                found.push(("nats_cert_file", "is set without `nats_key_file`, its private key".to_owned()));
            }
            (None, Some(_)) => {
                found.push(("nats_key_file", "is set without `nats_cert_file`, its certificate".to_owned()));
            }
            _ => {}
        }
        found
    }

    /// Returns `true` if one of the addresses contains a user, a password or a token.
    fn nats_url_has_login(&self) -> bool {
        self.nats_url.as_ref().is_some_and(|url| url.expose().contains('@'))
    }

    fn find_unreadable_nats_files(&self) -> Vec<Problem> {
        let given = self.nats_files().into_iter().filter_map(|(key, path)| Some((key, path?)));
        given.filter_map(|(key, path)| Some((key, find_file_problem(path)?))).collect()
    }
}

/// Explains why a file cannot be read; `None` if it can. Its content is checked when it is used.
fn find_file_problem(path: &Path) -> Option<String> {
    let is = format!("is {}", path.display());
    let opened = std::fs::File::open(path).and_then(|file| file.metadata());
    match opened {
        Err(error) => Some(format!("{is}, which cannot be read: {error}")),
        Ok(found) if !found.is_file() => Some(format!("{is}, which is not a file")),
        Ok(found) if found.len() == 0 => Some(format!("{is}, which is empty")),
        Ok(found) if found.len() > FILE_BYTES_MAX => {
            Some(format!("{is}, which holds {} bytes; at most {FILE_BYTES_MAX} are read", found.len()))
        }
        Ok(_) => None,
    }
}

/// Returns `true` if the text is a subject without wildcards.
fn is_subject(text: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.chars().all(|one| one.is_ascii_graphic() && !"*>".contains(one))
    };
    text.split('.').all(is_word)
}
