//! What the broker's permissions refuse us. The server says so in a message that belongs to no request, and the
//! request itself is simply not answered: without this, a missing right would look like a slow broker.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_nats::{ClientError, Event, ServerError};
use futures::future::BoxFuture;
use tokio::sync::watch;

use crate::{Bus, BusError};

/// More subjects than one process asks about; beyond it the oldest knowledge is dropped, and a request times out.
const REMEMBERED_MAX: usize = 256;

/// Subjects that the broker refused on this connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refusals {
    subjects: Arc<watch::Sender<BTreeSet<String>>>,
    login: Arc<AtomicBool>,
}

impl Refusals {
    /// Remembers what a refusal was about. A new connection may have other rights.
    pub(crate) fn note(&self, event: &Event) {
        match event {
            Event::Connected => {
                self.login.store(false, Ordering::Relaxed);
                self.subjects.send_modify(BTreeSet::clear);
            }
            Event::ClientError(ClientError::Other(text)) => {
                self.login.store(text.contains("authorization violation"), Ordering::Relaxed);
            }
            Event::ServerError(ServerError::Other(text)) => {
                let Some(subject) = refused_subject(text) else { return };
                self.subjects.send_modify(|subjects| {
                    if subjects.len() >= REMEMBERED_MAX {
                        subjects.clear();
                    }
                    subjects.insert(subject.to_owned());
                });
            }
            _ => {}
        }
    }

    /// Whether the last attempt to connect was refused for who we are.
    pub(crate) fn login_refused(&self) -> bool {
        self.login.load(Ordering::Relaxed)
    }

    pub(crate) fn forget(&self, subject: &str) {
        self.subjects.send_if_modified(|subjects| subjects.remove(subject));
    }

    async fn about(&self, subject: &str) {
        // Its sender is this value, so that it cannot be gone.
        let _ = self.subjects.subscribe().wait_for(|subjects| subjects.contains(subject)).await;
    }
}

impl Bus {
    /// Asks JetStream something, named as in its API: `STREAM.INFO` and what it is about.
    pub(crate) async fn ask<T>(
        &self,
        verb: &str,
        about: &str,
        asked: BoxFuture<'_, T>,
    ) -> Result<T, BusError> {
        let subject = format!("$JS.API.{verb}.{about}");
        self.refusals.forget(&subject);
        self.unless_refused(&subject, asked).await
    }

    /// Waits for the answer to what was sent to a subject, unless the broker says that we may not. Whoever sends
    /// forgets what was refused there before: rights may have been given since.
    pub(crate) async fn unless_refused<T>(
        &self,
        subject: &str,
        answer: BoxFuture<'_, T>,
    ) -> Result<T, BusError> {
        tokio::select! {
            biased;
            answer = answer => Ok(answer),
            () = self.refusals.about(subject) => {
                Err(BusError::Refused { user: self.user.clone(), subject: subject.to_owned() })
            }
        }
    }
}

/// The subject of `Permissions Violation for Publish to "subject"`, as the server writes it.
fn refused_subject(text: &str) -> Option<&str> {
    let (_, after) = text.split_once("Permissions Violation for ")?;
    after.split('"').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subject_of_a_refusal_is_read_and_other_errors_are_none() {
        let text = r#"Permissions Violation for Publish to "$JS.API.STREAM.CREATE.X""#;
        assert_eq!(refused_subject(text), Some("$JS.API.STREAM.CREATE.X"));
        let text = r#"Permissions Violation for Subscription to "a.>" using queue "q""#;
        assert_eq!(refused_subject(text), Some("a.>"));
        assert_eq!(refused_subject("maximum connections exceeded"), None);
    }

    #[tokio::test]
    async fn a_new_connection_has_no_refusals() {
        let refusals = Refusals::default();
        refusals.note(&Event::ServerError(ServerError::Other(
            r#"Permissions Violation for Publish to "a""#.to_owned(),
        )));
        refusals.about("a").await;
        refusals.note(&Event::Connected);
        assert!(refusals.subjects.borrow().is_empty());
    }
}
