//! Connects to the broker and defines its errors.

mod credential;
mod problem;
mod security;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_nats::jetstream::{self, context::ContextBuilder};
use async_nats::{Client, ConnectOptions, Event, ServerAddr, connection::State};
use retro_events::permissions::inbox_prefix;
use tracing::{debug, info, warn};

pub use self::credential::CredentialFile;
use self::problem::ConnectionProblems;
pub use self::security::{ClientCertificate, ConnectionSecurity, TlsMode};
use crate::backoff;
use crate::connection_loss::ConnectionLosses;
use crate::permission_violations::PermissionViolations;
use crate::topology::{StreamSizes, TopologyMode};

/// Interval at which the client pings the server. With the client's default of one minute, a hanging
/// connection would be noticed only after three minutes.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// Timeout for the broker's response. A publication takes only milliseconds: with `sync_interval: always` it
/// costs one fsync.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval of the check whether the connection is up.
const CONNECTION_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Wait before the first attempt to reconnect; later ones wait longer.
const RECONNECT_WAIT_MIN: Duration = Duration::from_millis(50);
/// Maximum wait between attempts to reconnect. A broker that was killed is back as soon as it has read its streams, about
/// a second for each 300,000 messages, and on average half of this wait later. An attempt at a broker that is away costs
/// next to nothing.
const RECONNECT_WAIT_MAX: Duration = Duration::from_millis(500);

/// Configuration of a connection to the broker.
#[derive(Debug, Clone)]
pub struct BusConfig {
    /// One or more addresses `nats://[user:password@]host:port`, separated by commas.
    pub url: String,
    /// Name under which this connection appears in the broker's list of connections.
    pub name: String,
    /// Size limits of the streams.
    pub sizes: StreamSizes,
    /// Mode that decides whether this process creates streams and consumers or expects them to exist.
    pub topology_mode: TopologyMode,
    /// Login, authorities and TLS.
    pub security: ConnectionSecurity,
    /// Prefix of the subjects on which the broker answers; `None` for the user's own (`_INBOX_<user>`).
    pub inbox_prefix: Option<String>,
    /// Number of servers that store each stream: 1, 3 or 5. Only a process that provisions uses it.
    pub replicas: u8,
    /// Maximum number of messages of a subscription that wait in this process; `None` for the client's own (65,536).
    pub waiting_messages_max: Option<usize>,
}

impl BusConfig {
    /// Creates a configuration with the default sizes, for a process that creates streams and consumers itself.
    pub fn new(url: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            name: name.into(),
            sizes: StreamSizes::default(),
            topology_mode: TopologyMode::Provision,
            security: ConnectionSecurity::default(),
            inbox_prefix: None,
            replicas: 1,
            waiting_messages_max: None,
        }
    }

    /// Returns this configuration with streams that share this space, in MiB.
    #[must_use]
    pub fn with_streams_mib(self, mib: u32) -> Self {
        Self { sizes: StreamSizes::divide(mib), ..self }
    }
}

/// Failure of a request to the broker.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// The address of the broker cannot be parsed.
    #[error("the broker's address cannot be parsed: {0}")]
    Address(String),
    /// The broker is unreachable or did not respond in time; the same call may succeed later.
    #[error("the broker did not do it: {action}: {reason}")]
    Unavailable {
        /// The request that failed.
        action: String,
        /// Cause of the failure, as reported by the broker or the client.
        reason: String,
    },
    /// The broker's permissions forbid the request; an operator has to act.
    #[error(
        "the broker denies the user {user} permission to publish to {subject}; deploy/nats lists all permissions"
    )]
    Refused {
        /// User name with which the connection logged in.
        user: String,
        /// Subject to which the user may not publish; for a request, the subject of the request.
        subject: String,
    },
    /// The broker's permissions forbid the answers to this process; an operator has to act.
    #[error(
        "the broker denies the user {user} its inbox {prefix}.>, on which it would be answered: set nats_inbox_prefix to \
         the prefix that its permissions allow"
    )]
    InboxRefused {
        /// User name with which the connection logged in.
        user: String,
        /// Prefix of the inbox.
        prefix: String,
    },
    /// A stream or consumer does not exist, and this process may not create it.
    #[error("the broker has no {0}; `retro migrate` creates it")]
    Missing(String),
    /// A stream or consumer belongs to another database; an operator has to decide which database uses it.
    #[error(
        "{name} at the broker belongs to the database {theirs}, but this process uses the database {ours}: each would \
         count only a part of the events. Give this process the other database, or a broker of its own. If this database \
         replaces the other, stop every process and run `retro migrate --take-over`"
    )]
    OtherDatabase {
        /// Name of the stream or consumer.
        name: String,
        /// Database identity in the metadata of the stream or consumer.
        theirs: String,
        /// Identity of the database that this process uses.
        ours: String,
    },
    /// A stream or consumer exists with settings that cannot be changed; an operator has to act.
    #[error("{name} at the broker cannot be used: {problem}")]
    Unusable {
        /// Name of the stream or consumer.
        name: String,
        /// Description of the problem and its remedy.
        problem: String,
    },
}

impl BusError {
    pub(crate) fn unavailable(action: impl Into<String>, reason: impl std::fmt::Display) -> Self {
        Self::Unavailable { action: action.into(), reason: reason.to_string() }
    }
}

/// A connection to the broker that reconnects automatically. All clones use the same connection.
#[derive(Debug, Clone)]
pub struct Bus {
    pub(crate) client: Client,
    pub(crate) jetstream: jetstream::Context,
    pub(crate) sizes: StreamSizes,
    pub(crate) topology_mode: TopologyMode,
    pub(crate) replicas: u8,
    /// Identity of the database in which the effects of messages are stored; empty until it is known.
    pub(crate) database: Arc<OnceLock<String>>,
    /// User name with which this connection logs in.
    pub(crate) user: String,
    pub(crate) inbox_prefix: String,
    pub(crate) violations: PermissionViolations,
    pub(crate) losses: ConnectionLosses,
    problems: ConnectionProblems,
}

impl Bus {
    /// Starts connecting in the background and returns immediately, even while the broker is unreachable.
    /// Fails only if the address cannot be parsed.
    pub async fn connect(config: BusConfig) -> Result<Self, BusError> {
        let addresses = parse_addresses(&config.url)?;
        let login = addresses.iter().find_map(Login::from_address);
        let named = login.as_ref().map(|login| login.user.clone());
        // A user may subscribe only to its own inbox, so the client's default prefix would be refused.
        let inbox_prefix = config.inbox_prefix.unwrap_or_else(|| inbox_prefix(named.as_deref()));
        let user = match &config.security.credential {
            Some(file) => file.read_user(),
            None => named.clone().unwrap_or_else(|| "(none)".to_owned()),
        };
        for exposed in config.security.find_exposed_files() {
            warn!("{exposed}");
        }
        let options = login_options(&config.security, login).custom_inbox_prefix(&inbox_prefix);
        let options = config.security.secure_options(options);
        let options = match config.waiting_messages_max {
            Some(max) => options.subscription_capacity(max),
            None => options,
        };
        let problems = ConnectionProblems::new(config.security, named);
        let refusals = PermissionViolations::default();
        let losses = ConnectionLosses::default();
        let client = watch_connection(options, &refusals, &losses, &problems)
            .name(&config.name)
            .ping_interval(PING_INTERVAL)
            .request_timeout(Some(REQUEST_TIMEOUT))
            // Otherwise connecting would fail if the broker is unreachable at start.
            .retry_on_initial_connect()
            .reconnect_delay_callback(|attempts| {
                backoff::exponential_wait(
                    RECONNECT_WAIT_MIN,
                    u32::try_from(attempts).unwrap_or(u32::MAX),
                    RECONNECT_WAIT_MAX,
                )
            })
            .connect(addresses)
            .await
            .map_err(|error| BusError::Address(error.to_string()))?;
        let jetstream = ContextBuilder::new().timeout(REQUEST_TIMEOUT).build(client.clone());
        let database = Arc::default();
        Ok(Self {
            client,
            jetstream,
            sizes: config.sizes,
            topology_mode: config.topology_mode,
            replicas: config.replicas,
            database,
            user,
            inbox_prefix,
            violations: refusals,
            losses,
            problems,
        })
    }

    /// Returns `true` if the connection is currently up.
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Waits until the connection is up.
    pub(crate) async fn wait_until_connected(&self) {
        while !self.is_connected() {
            tokio::time::sleep(CONNECTION_CHECK_INTERVAL).await;
        }
    }

    /// Returns `true` if the broker rejected the credentials at the latest attempt to connect.
    pub fn is_login_refused(&self) -> bool {
        self.problems.current().is_some_and(|problem| problem.is_login_refused)
    }

    /// Returns the reason why this process cannot use the broker, as a sentence with its remedy, if waiting does not
    /// help: a refused login or certificate, an unusable file, a wrong inbox. `None` if the connection is up, or down
    /// because the broker is away.
    pub fn connection_fault(&self) -> Option<String> {
        if self.is_connected() {
            return self
                .violations
                .is_inbox_refused(&self.inbox_prefix)
                .then(|| self.inbox_error().to_string());
        }
        self.problems.current().map(|problem| problem.sentence)
    }

    /// Returns the reason why the broker cannot be used, as a sentence; `None` if it can.
    pub fn connection_problem(&self) -> Option<String> {
        let fault = self.connection_fault();
        fault.or_else(|| (!self.is_connected()).then(|| "the broker is away".to_owned()))
    }

    pub(crate) fn inbox_error(&self) -> BusError {
        BusError::InboxRefused { user: self.user.clone(), prefix: self.inbox_prefix.clone() }
    }

    /// Writes buffered messages, such as acknowledgements, to the connection, and waits at most `longest` for that. They
    /// outlive this process then, but the broker may not have received them.
    pub async fn flush(&self, longest: Duration) -> Result<(), BusError> {
        tokio::time::timeout(longest, self.client.flush())
            .await
            .map_err(|_| BusError::unavailable("flush", format!("not sent within {} s", longest.as_secs())))?
            .map_err(|error| BusError::unavailable("flush", error))
    }
}

/// User name and password for the broker.
struct Login {
    user: String,
    password: String,
}

impl Login {
    /// Reads user and password from an address; `None` if the address contains none. The client itself
    /// ignores credentials in an address.
    fn from_address(address: &ServerAddr) -> Option<Self> {
        let user = percent_decode(address.username()?);
        Some(Self { user, password: percent_decode(address.password().unwrap_or_default()) })
    }
}

/// Returns options with the login of a file or of the address.
fn login_options(security: &ConnectionSecurity, login: Option<Login>) -> ConnectOptions {
    match (&security.credential, login) {
        (Some(file), _) => {
            let file = Arc::new(file.clone());
            ConnectOptions::with_auth_callback(move |nonce| {
                let file = file.clone();
                async move { file.sign_nonce(&nonce).await }
            })
        }
        (None, Some(Login { user, password })) => ConnectOptions::with_user_and_password(user, password),
        (None, None) => ConnectOptions::new(),
    }
}

/// Returns options with callbacks that record what happens to the connection.
fn watch_connection(
    options: ConnectOptions,
    refusals: &PermissionViolations,
    losses: &ConnectionLosses,
    problems: &ConnectionProblems,
) -> ConnectOptions {
    let (refusals, losses, noted, failed) =
        (refusals.clone(), losses.clone(), problems.clone(), problems.clone());
    let drops = AtomicU64::new(0);
    options
        .event_callback(move |event| {
            refusals.record_event(&event);
            losses.record_event(&event);
            noted.record_event(&event);
            let dropped = match event {
                Event::SlowConsumer(_) => drops.fetch_add(1, Ordering::Relaxed) + 1,
                _ => 0,
            };
            async move { log_event(&event, dropped) }
        })
        // Only this callback learns why an attempt failed. It leaves the choice of the server to the client.
        .reconnect_to_server_callback(move |servers, _| {
            failed.record_failures(&servers);
            async { None }
        })
}

/// Decodes percent-encoded text in an address. Invalid escapes are left unchanged.
fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let escape = after.get(..2).and_then(|two| str::from_utf8(two).ok());
        match escape.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn parse_addresses(url: &str) -> Result<Vec<ServerAddr>, BusError> {
    url.split(',')
        .map(|part| part.trim().parse::<ServerAddr>())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| BusError::Address(error.to_string()))
}

/// Logs an event. `dropped` is the number of messages that the client has dropped so far, if the event is about one.
fn log_event(event: &Event, dropped: u64) {
    match event {
        // One event for each message, in bursts of thousands: a line each would make the burst worse.
        Event::SlowConsumer(_) if !dropped.is_power_of_two() => {}
        Event::SlowConsumer(subscription) => warn!(
            "the broker's client: subscription {subscription} has too many messages waiting; {dropped} dropped since the \
             start"
        ),
        Event::Connected => info!("connected to the broker"),
        Event::Disconnected => warn!("lost the connection to the broker; reconnecting"),
        Event::LameDuckMode | Event::Draining | Event::Closed => info!("the broker's connection is {event}"),
        // Repeated at every attempt to reconnect; the disconnect was already logged.
        Event::ClientError(_) => debug!("the broker's client: {event}"),
        Event::ServerError(_) => warn!("the broker's client: {event}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_several_addresses_and_rejects_an_invalid_one() {
        assert_eq!(parse_addresses("nats://a:4222, b:4223").unwrap().len(), 2);
        assert!(matches!(parse_addresses("http://a b"), Err(BusError::Address(_))));
    }

    #[test]
    fn decodes_user_and_password_of_an_address() {
        let login = |url: &str| {
            Login::from_address(&parse_addresses(url).unwrap()[0]).map(|one| (one.user, one.password))
        };
        let some = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        assert_eq!(login("nats://counter:p%40ss%25@a:4222"), some("counter", "p@ss%"));
        assert_eq!(login("nats://engine-gr=C3=B6=C3=9Fe:x@a:4222"), some("engine-gr=C3=B6=C3=9Fe", "x"));
        assert_eq!(login("nats://a:4222"), None);
        assert_eq!(percent_decode("100%"), "100%");
    }
}
