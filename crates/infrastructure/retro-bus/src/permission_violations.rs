//! Detects requests that the broker's permissions forbid. The server reports a violation in a separate message and
//! never answers the request, so without this module a missing permission would look like a slow broker.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_nats::{Event, ServerError};
use tokio::sync::watch;

/// Maximum number of refused subjects to remember; one process sends requests to fewer subjects. At the limit
/// the list is cleared, and a request whose refusal was removed times out.
const SUBJECTS_MAX: usize = 256;

/// Subjects to which the broker refused messages on this connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct PermissionViolations {
    subjects: Arc<watch::Sender<BTreeSet<String>>>,
}

impl PermissionViolations {
    /// Records a violation that the client reports. An event about a new connection clears the list, because its
    /// permissions may be different.
    pub(crate) fn record_event(&self, event: &Event) {
        match event {
            Event::Connected => self.subjects.send_modify(BTreeSet::clear),
            Event::ServerError(ServerError::Other(text)) => {
                let Some(subject) = parse_refused_subject(text) else { return };
                self.subjects.send_modify(|subjects| {
                    if subjects.len() >= SUBJECTS_MAX {
                        subjects.clear();
                    }
                    subjects.insert(subject.to_owned());
                });
            }
            _ => {}
        }
    }

    pub(crate) fn forget_subject(&self, subject: &str) {
        self.subjects.send_if_modified(|subjects| subjects.remove(subject));
    }

    /// Returns `true` if the broker has refused messages to `subject` on this connection.
    pub(crate) fn is_refused(&self, subject: &str) -> bool {
        self.subjects.borrow().contains(subject)
    }

    /// Returns `true` if the broker has refused the subscription to the inbox with this prefix.
    pub(crate) fn is_inbox_refused(&self, prefix: &str) -> bool {
        has_inbox(&self.subjects.borrow(), prefix)
    }

    /// Waits until the broker refuses the subscription to the inbox with this prefix.
    pub(crate) async fn wait_for_inbox_refusal(&self, prefix: &str) {
        let _ = self.subjects.subscribe().wait_for(|subjects| has_inbox(subjects, prefix)).await;
    }

    /// Waits until the broker refuses messages to `subject`.
    pub(crate) async fn wait_for_refusal(&self, subject: &str) {
        // This cannot fail: the sender lives in this value.
        let _ = self.subjects.subscribe().wait_for(|subjects| subjects.contains(subject)).await;
    }
}

/// Returns `true` if the subjects contain one of the inbox with this prefix.
fn has_inbox(subjects: &BTreeSet<String>, prefix: &str) -> bool {
    subjects.iter().any(|subject| subject.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.')))
}

/// Parses the subject from the server's error text, `Permissions Violation for Publish to "subject"`.
fn parse_refused_subject(text: &str) -> Option<&str> {
    let (_, after) = text.split_once("Permissions Violation for ")?;
    after.split('"').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_subject_of_a_violation_and_ignores_other_errors() {
        let text = r#"Permissions Violation for Publish to "$JS.API.STREAM.CREATE.X""#;
        assert_eq!(parse_refused_subject(text), Some("$JS.API.STREAM.CREATE.X"));
        let text = r#"Permissions Violation for Subscription to "a.>" using queue "q""#;
        assert_eq!(parse_refused_subject(text), Some("a.>"));
        assert_eq!(parse_refused_subject("maximum connections exceeded"), None);
    }

    #[tokio::test]
    async fn a_new_connection_has_no_refusals() {
        let refusals = PermissionViolations::default();
        refusals.record_event(&Event::ServerError(ServerError::Other(
            r#"Permissions Violation for Publish to "a""#.to_owned(),
        )));
        refusals.wait_for_refusal("a").await;
        refusals.record_event(&Event::Connected);
        assert!(refusals.subjects.borrow().is_empty());
    }
}
