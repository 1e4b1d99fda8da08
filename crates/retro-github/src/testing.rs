//! A broker in memory and real payloads, for the tests of this crate.

use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use retro_core::time::FixedClock;
use retro_events::github::tenants::GithubTenants;
use retro_events::{CheckedEvent, GithubIntake, GithubMessage, Intake, IntakeError};

use crate::{Bridge, Outlets, Secrets};

/// A payload of the fixtures.
pub(crate) fn fixture(event: &str, name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/{event}/{name}.json"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What the broker has.
#[derive(Default)]
pub(crate) struct Broker {
    pub(crate) trouble: Option<IntakeError>,
    pub(crate) told: Mutex<Vec<GithubMessage>>,
    pub(crate) runs: Mutex<Vec<CheckedEvent>>,
}

#[async_trait]
impl GithubIntake for Broker {
    async fn tell(&self, message: GithubMessage) -> Result<(), IntakeError> {
        self.trouble.clone().map_or(Ok(()), Err)?;
        self.told.lock().unwrap().push(message);
        Ok(())
    }
}

#[async_trait]
impl Intake for Broker {
    async fn take(&self, events: &[CheckedEvent]) -> Result<(), IntakeError> {
        self.trouble.clone().map_or(Ok(()), Err)?;
        self.runs.lock().unwrap().extend_from_slice(events);
        Ok(())
    }
}

/// The secrets of the bridge, the old one and the new one.
pub(crate) const SECRETS: [&str; 2] = ["an old secret", "a new secret"];

/// A bridge before this broker on 20 November 2026, for the tenant `acme` and the room of two of the largest bodies.
pub(crate) fn bridge(broker: &Arc<Broker>) -> Bridge {
    let tenants = GithubTenants::parse("Codertocat/* = acme, Kobzol/* = acme").unwrap();
    let outlets = Outlets { events: broker.clone(), runs: broker.clone() };
    let clock = FixedClock("2026-11-20T10:00:00Z".parse().unwrap());
    Bridge::new(Secrets::new(&SECRETS), tenants, outlets, Arc::new(clock), 50 * 1024 * 1024)
}
