//! Tells why the connection is down, in sentences that name the configuration key to change.
//!
//! The client keeps trying, whatever the cause. It reports the kind of a failure in an event, but the cause only to the
//! callback that may choose the next server, as text. This module reads that text. Each sentence is held by a test against
//! a real server, so a client that words a cause differently is noticed.

use std::sync::{Arc, Mutex, PoisonError};

use async_nats::{ClientError, Event, Server, ServerAddr};
use jiff::Timestamp;
use tracing::warn;

use super::security::ConnectionSecurity;

/// Marker of a PEM file with certificates.
const PEM_CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";

/// Reason for which the connection is down although a server is there; waiting does not end it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConnectionProblem {
    /// The problem and its remedy, without secrets.
    pub(super) sentence: String,
    /// `true` if the server refused the login.
    pub(super) is_login_refused: bool,
}

/// The problem of the latest attempt to connect.
#[derive(Debug, Clone)]
pub(super) struct ConnectionProblems {
    security: Arc<ConnectionSecurity>,
    /// User of the address; `None` if it has none.
    user: Option<String>,
    current: Arc<Mutex<Option<ConnectionProblem>>>,
}

impl ConnectionProblems {
    pub(super) fn new(security: ConnectionSecurity, user: Option<String>) -> Self {
        Self { security: Arc::new(security), user, current: Arc::default() }
    }

    pub(super) fn current(&self) -> Option<ConnectionProblem> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records what the client reports. A refused login is known at once; other causes come with the next attempt.
    pub(super) fn record_event(&self, event: &Event) {
        match event {
            Event::Connected => self.set(None),
            Event::ClientError(ClientError::Other(text)) if is_refused_login(text) => {
                self.set(Some(self.describe_refused_login()));
            }
            _ => {}
        }
    }

    /// Records the failures of the latest attempts, one for each server. Called before the next attempt.
    pub(super) fn record_failures(&self, servers: &[Server]) {
        // The addresses of the configuration first: a cluster also announces addresses that a certificate may not name, and
        // these matter only if no configured one works.
        let (announced, configured): (Vec<&Server>, Vec<&Server>) =
            servers.iter().partition(|server| server.is_discovered);
        let mut failures = configured.into_iter().chain(announced);
        let failed = failures.find_map(|server| self.describe(&server.addr, server.last_error.as_deref()?));
        self.set(failed);
    }

    fn set(&self, problem: Option<ConnectionProblem>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if *current == problem {
            return;
        }
        if let Some(problem) = &problem {
            warn!("cannot connect to the broker: {}", problem.sentence);
        }
        *current = problem;
    }

    /// Describes a failure; `None` if the server is away, which may end by itself.
    fn describe(&self, server: &ServerAddr, error: &str) -> Option<ConnectionProblem> {
        if is_refused_login(error) {
            return Some(self.describe_refused_login());
        }
        let at = format!("{}:{}", server.host(), server.port());
        let sentence = describe_login_file(error)
            .or_else(|| self.describe_certificate(server, &at, error))
            .or_else(|| self.describe_client_certificate(&at, error))
            .or_else(|| self.describe_tls(&at, error))?;
        Some(ConnectionProblem { sentence, is_login_refused: false })
    }

    fn describe_refused_login(&self) -> ConnectionProblem {
        let sentence = match (&self.security.credential, &self.user) {
            (Some(file), _) => file.describe_refusal(),
            (None, Some(user)) => {
                format!("the broker refuses the user {user}: unknown name or wrong password")
            }
            (None, None) => "the broker refuses the user (none): it asks for a login; set nats_creds_file, \
                             nats_nkey_file, or a user and password in nats_url"
                .to_owned(),
        };
        ConnectionProblem { sentence, is_login_refused: true }
    }

    /// Describes why the server's certificate is refused.
    fn describe_certificate(&self, server: &ServerAddr, at: &str, error: &str) -> Option<String> {
        let (_, reason) = error.split_once("invalid peer certificate: ")?;
        let the = format!("the certificate of the broker at {at}");
        // `BadSignature`: an authority of the same name was made anew.
        Some(if reason.starts_with("UnknownIssuer") || reason.starts_with("BadSignature") {
            self.describe_untrusted(&the)
        } else if let Some((_, names)) = reason.split_once("certificate not valid for name") {
            let names = names.split_once("; ").map_or(names, |(_, names)| names);
            format!(
                "{the} is not for the name {}: the {names}; use one of its names in nats_url, or issue one with this name",
                server.host()
            )
        } else if let Some(end) = parse_moment(reason, "not valid after ") {
            format!("{the} expired at {end}: renew it at the broker")
        } else if let Some(begin) = parse_moment(reason, "not valid before ") {
            format!("{the} is not valid before {begin}: check the clock of this machine and of the authority")
        } else if reason.contains("CaUsedAsEndEntity") {
            format!(
                "{the} is an authority's own: give the broker one that this authority signed, and set nats_ca_file"
            )
        } else {
            format!("{the} cannot be used: {reason}")
        })
    }

    fn describe_untrusted(&self, the: &str) -> String {
        let Some(path) = &self.security.ca_file else {
            return format!(
                "{the} is not signed by an authority that this machine trusts: set nats_ca_file to the file of its authority"
            );
        };
        let holds = std::fs::read_to_string(path).is_ok_and(|text| text.contains(PEM_CERTIFICATE));
        if holds {
            format!(
                "{the} is not signed by an authority in nats_ca_file ({}): set the file of the authority that signed it",
                path.display()
            )
        } else {
            format!("nats_ca_file ({}) has no certificate in PEM format", path.display())
        }
    }

    /// Describes why the server refuses the client's certificate, or its absence.
    fn describe_client_certificate(&self, at: &str, error: &str) -> Option<String> {
        let (_, alert) = error.split_once("received fatal alert: ")?;
        Some(match &self.security.client_certificate {
            None if alert.contains("ertificate") => {
                format!(
                    "the broker at {at} asks for a client certificate: set nats_cert_file and nats_key_file"
                )
            }
            Some(files) if alert.contains("ertificate") || alert.contains("UnknownCA") => format!(
                "the broker at {at} refuses the client certificate of nats_cert_file ({}): {alert}; set one of an \
                 authority that it trusts",
                files.certificate.display()
            ),
            _ => format!("the broker at {at} ended the TLS handshake: {alert}"),
        })
    }

    /// Describes a failure of TLS that is not about a certificate of the other side.
    fn describe_tls(&self, at: &str, error: &str) -> Option<String> {
        if error.contains("received corrupt message") {
            return Some(format!(
                "the broker at {at} does not offer TLS, which nats_tls, a file of certificates or tls:// in nats_url \
                 requires: configure TLS there, or remove these"
            ));
        }
        let (_, reason) = error.split_once("TLS error: ")?;
        let files = self.security.tls_files();
        if let Some((key, path, problem)) =
            files.iter().find_map(|(key, path)| Some((key, path, std::fs::File::open(path).err()?)))
        {
            return Some(format!("{key} ({}) cannot be read: {problem}", path.display()));
        }
        if files.is_empty() {
            return Some(format!(
                "this machine has no authorities to check a certificate with ({reason}): set nats_ca_file"
            ));
        }
        let files: Vec<_> = files.iter().map(|(key, path)| format!("{key} ({})", path.display())).collect();
        Some(format!("the files for TLS cannot be used: {reason}; look at {}", files.join(", ")))
    }
}

/// Returns the sentence about a credential file that could not be used.
fn describe_login_file(error: &str) -> Option<String> {
    let (_, sentence) = error.split_once("AuthError(")?;
    Some(sentence.trim_end_matches(')').to_owned())
}

/// Returns `true` if the server refused the login, which it does in several words.
fn is_refused_login(error: &str) -> bool {
    let error = error.to_ascii_lowercase();
    ["authorization violation", "authentication expired", "authentication revoked", "account authentication"]
        .iter()
        .any(|words| error.contains(words))
}

/// Parses the seconds since 1970 that follow these words.
fn parse_moment(text: &str, words: &str) -> Option<Timestamp> {
    let (_, after) = text.split_once(words)?;
    let digits = after.split(|one: char| !one.is_ascii_digit()).next()?;
    Timestamp::from_second(digits.parse().ok()?).ok()
}
