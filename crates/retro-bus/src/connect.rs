//! The connection to the broker.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_nats::jetstream::{self, context::ContextBuilder};
use async_nats::{Client, ConnectOptions, Event, ServerAddr, connection::State};
use retro_events::rights::inbox_prefix;
use tracing::{debug, info, warn};

use crate::backoff;
use crate::refusal::Refusals;
use crate::topology::{StreamSizes, Upkeep};

/// How often the server is asked for a sign of life. The client's own minute takes three to notice a hang.
const PING_EVERY: Duration = Duration::from_secs(5);
/// How long a request to the broker may take. With `sync_interval: always` a publish costs one fsync: milliseconds.
const REQUEST_MAX: Duration = Duration::from_secs(5);
const RECONNECT_FIRST: Duration = Duration::from_millis(50);
/// A broker that is restarted beside us is back within a second: do not wait much longer to look.
const RECONNECT_LONGEST: Duration = Duration::from_secs(2);

/// Where the broker is and how much it may keep.
#[derive(Debug, Clone)]
pub struct BusConfig {
    /// One or more `nats://[user:password@]host:port`, separated by commas.
    pub url: String,
    /// The name of this connection, as the broker lists it.
    pub name: String,
    /// How large the streams may grow.
    pub sizes: StreamSizes,
    /// Whether this process makes streams and consumers, or finds them made.
    pub upkeep: Upkeep,
}

impl BusConfig {
    /// A configuration with the default sizes, of a process that makes what it needs.
    pub fn new(url: impl Into<String>, name: impl Into<String>) -> Self {
        Self { url: url.into(), name: name.into(), sizes: StreamSizes::default(), upkeep: Upkeep::Make }
    }
}

/// What went wrong between us and the broker.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// The address cannot be read.
    #[error("the broker's address is not one: {0}")]
    Address(String),
    /// The broker is away, or did not answer in time; the same call may succeed later.
    #[error("the broker did not do it: {action}: {reason}")]
    Unavailable {
        /// What was asked.
        action: String,
        /// What it said.
        reason: String,
    },
    /// The broker's permissions forbid it; a person has to look.
    #[error("the broker does not let the user {user} publish to {subject}; deploy/nats says who may what")]
    Refused {
        /// The user of the connection.
        user: String,
        /// The subject, that of a request included.
        subject: String,
    },
    /// A stream or consumer was not made yet, and this process may not make it.
    #[error("the broker has no {0}; `retro migrate` makes it")]
    Missing(String),
    /// A stream or consumer is another database's; a person has to decide.
    #[error(
        "{name} at the broker belongs to the database {theirs}, and this process works on the database {ours}: each would \
         count a part of the events. Give this process the other's database, or a broker of its own. If this database \
         takes the other's place, stop every process and run `retro migrate --take-over`"
    )]
    OtherDatabase {
        /// The stream or consumer.
        name: String,
        /// The identity that it carries.
        theirs: String,
        /// The identity of this process's database.
        ours: String,
    },
    /// A stream or consumer is there, but cannot be made what it has to be; a person has to look.
    #[error("{name} at the broker cannot be used: {problem}")]
    Unusable {
        /// The stream or consumer.
        name: String,
        /// What is wrong and what to do.
        problem: String,
    },
}

impl BusError {
    pub(crate) fn unavailable(action: impl Into<String>, reason: impl std::fmt::Display) -> Self {
        Self::Unavailable { action: action.into(), reason: reason.to_string() }
    }
}

/// A connection to the broker that comes back by itself. Clones share it.
#[derive(Debug, Clone)]
pub struct Bus {
    pub(crate) client: Client,
    pub(crate) jetstream: jetstream::Context,
    pub(crate) sizes: StreamSizes,
    pub(crate) upkeep: Upkeep,
    /// The identity of the database that messages are handled into, once it is known.
    pub(crate) database: Arc<OnceLock<String>>,
    /// As the broker knows us.
    pub(crate) user: String,
    pub(crate) refusals: Refusals,
}

impl Bus {
    /// Connects in the background and returns at once, also when the broker is not there yet; fails only on an
    /// address that cannot be read.
    pub async fn connect(config: BusConfig) -> Result<Self, BusError> {
        let addresses = addresses(&config.url)?;
        let login = addresses.iter().find_map(Login::of);
        let user = login.as_ref().map(|login| login.user.clone());
        let refusals = Refusals::default();
        let noted = refusals.clone();
        let client = options(login)
            .name(&config.name)
            .ping_interval(PING_EVERY)
            .request_timeout(Some(REQUEST_MAX))
            .retry_on_initial_connect()
            .reconnect_delay_callback(|attempts| {
                backoff::doubled(
                    RECONNECT_FIRST,
                    u32::try_from(attempts).unwrap_or(u32::MAX),
                    RECONNECT_LONGEST,
                )
            })
            .event_callback(move |event| {
                noted.note(&event);
                async move { log(&event) }
            })
            .connect(addresses)
            .await
            .map_err(|error| BusError::Address(error.to_string()))?;
        let jetstream = ContextBuilder::new().timeout(REQUEST_MAX).build(client.clone());
        let user = user.unwrap_or_else(|| "(none)".to_owned());
        let database = Arc::default();
        Ok(Self { client, jetstream, sizes: config.sizes, upkeep: config.upkeep, database, user, refusals })
    }

    /// Whether the connection stands at this moment.
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Whether the broker refused us, at the last attempt to connect, for who we are.
    pub fn is_login_refused(&self) -> bool {
        self.refusals.login_refused()
    }

    /// Why the connection does not stand at this moment, in a sentence; `None` when it does.
    pub fn problem(&self) -> Option<String> {
        if self.is_connected() {
            return None;
        }
        Some(if self.is_login_refused() {
            format!("the broker refuses the user {}: its name or password is not what it knows", self.user)
        } else {
            "the broker is away".to_owned()
        })
    }

    /// Sends what is still buffered (acknowledgements are) and waits for the broker to have it, at most `longest`.
    pub async fn flush(&self, longest: Duration) -> Result<(), BusError> {
        tokio::time::timeout(longest, self.client.flush())
            .await
            .map_err(|_| BusError::unavailable("flush", format!("no answer within {} s", longest.as_secs())))?
            .map_err(|error| BusError::unavailable("flush", error))
    }
}

/// Who we are for the broker.
struct Login {
    user: String,
    password: String,
}

impl Login {
    /// What stands before the `@` of an address. The client itself does not look there.
    fn of(address: &ServerAddr) -> Option<Self> {
        let user = decoded(address.username()?);
        Some(Self { user, password: decoded(address.password().unwrap_or_default()) })
    }
}

fn options(login: Option<Login>) -> ConnectOptions {
    let prefix = inbox_prefix(login.as_ref().map(|login| login.user.as_str()));
    let options = ConnectOptions::new().custom_inbox_prefix(prefix);
    match login {
        Some(Login { user, password }) => options.user_and_password(user, password),
        None => options,
    }
}

/// Undoes the percent-encoding of an address's part; what is not an escape stays.
fn decoded(text: &str) -> String {
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

fn addresses(url: &str) -> Result<Vec<ServerAddr>, BusError> {
    url.split(',')
        .map(|part| part.trim().parse::<ServerAddr>())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| BusError::Address(error.to_string()))
}

fn log(event: &Event) {
    match event {
        Event::Connected => info!("connected to the broker"),
        Event::Disconnected => warn!("lost the connection to the broker; reconnecting"),
        Event::LameDuckMode | Event::Draining | Event::Closed => info!("the broker's connection is {event}"),
        // Repeated at every attempt to reconnect; "lost" was said once.
        Event::ClientError(_) => debug!("the broker's client: {event}"),
        Event::SlowConsumer(_) | Event::ServerError(_) => warn!("the broker's client: {event}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_addresses_are_read_and_a_wrong_one_is_refused() {
        assert_eq!(addresses("nats://a:4222, b:4223").unwrap().len(), 2);
        assert!(matches!(addresses("http://a b"), Err(BusError::Address(_))));
    }

    #[test]
    fn the_user_and_password_of_an_address_are_read_as_they_were_meant() {
        let login = |url: &str| Login::of(&addresses(url).unwrap()[0]).map(|one| (one.user, one.password));
        let some = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        assert_eq!(login("nats://counter:p%40ss%25@a:4222"), some("counter", "p@ss%"));
        assert_eq!(login("nats://engine-gr=C3=B6=C3=9Fe:x@a:4222"), some("engine-gr=C3=B6=C3=9Fe", "x"));
        assert_eq!(login("nats://a:4222"), None);
        assert_eq!(decoded("100%"), "100%");
    }
}
