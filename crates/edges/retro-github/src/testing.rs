//! Provides an in-memory broker and real payloads for the tests of this crate.

use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use retro_core::time::FixedClock;
use retro_events::github::tenants::GithubTenants;
use retro_events::{GithubMessage, GithubPublisher, IntakeError, IntakePublisher, ValidatedEvent};

use crate::{Bridge, Publishers, WebhookPublisher, WebhookSecrets};

/// Reads the payload of a webhook from the fixtures.
pub(crate) fn read_fixture(event: &str, name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/{event}/{name}.json"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A broker that records published messages, or fails.
#[derive(Default)]
pub(crate) struct FakeBroker {
    pub(crate) error: Option<IntakeError>,
    pub(crate) published: Mutex<Vec<GithubMessage>>,
    pub(crate) runs: Mutex<Vec<ValidatedEvent>>,
}

#[async_trait]
impl GithubPublisher for FakeBroker {
    async fn publish_message(&self, message: GithubMessage) -> Result<(), IntakeError> {
        self.error.clone().map_or(Ok(()), Err)?;
        self.published.lock().unwrap().push(message);
        Ok(())
    }
}

#[async_trait]
impl IntakePublisher for FakeBroker {
    async fn publish_events(&self, events: &[ValidatedEvent]) -> Result<(), IntakeError> {
        self.error.clone().map_or(Ok(()), Err)?;
        self.runs.lock().unwrap().extend_from_slice(events);
        Ok(())
    }
}

/// Secrets of the bridge during a rotation: the old and the new one.
pub(crate) const SECRETS: [&str; 2] = ["an old secret", "a new secret"];

/// Creates a bridge over this broker for the tenant `acme`, with the clock fixed at 20 November 2026 and a
/// budget for two bodies of maximum size.
pub(crate) fn test_bridge(broker: &Arc<FakeBroker>) -> Bridge {
    let tenants = GithubTenants::parse("Codertocat/* = acme, Kobzol/* = acme").unwrap();
    let outlets = Publishers { events: broker.clone(), runs: broker.clone() };
    let clock = FixedClock("2026-11-20T10:00:00Z".parse().unwrap());
    let publisher = WebhookPublisher::new(Arc::new(tenants), outlets, Arc::new(clock));
    Bridge::new(WebhookSecrets::new(&SECRETS), publisher, 50 * 1024 * 1024)
}
