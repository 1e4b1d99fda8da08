//! From a signed body to the broker: believe, read, look whose it is, hand over.

use std::sync::Arc;

use axum::http::HeaderMap;
use bytes::Bytes;
use jiff::Timestamp;
use retro_core::dead_letter::Rejection;
use retro_core::id::{Tenant, WorkflowKey};
use retro_core::time::Clock;
use retro_events::github::GithubData;
use retro_events::github::tenants::GithubTenants;
use retro_events::hosts::DatarefHosts;
use retro_events::run_completed::{self, RunEvent};
use retro_events::{CheckedEvent, GithubIntake, GithubMessage, Intake, IntakeError, github, subject};
use retro_http::{BodyBudget, BudgetBounds};

use crate::read::{Fact, Left, Reading, Taken, read};
use crate::signature::{self, Secrets, Unsigned};
use crate::unmapped::Unmapped;

/// Where webhooks are taken.
pub const ROUTE: &str = "/github/webhook";
/// The largest webhook, in bytes: GitHub sends none above 25 MB.
pub const WEBHOOK_BYTES_MAX: usize = 25 * 1024 * 1024;
/// The longest id of a delivery, in bytes; GitHub's are UUIDs.
const DELIVERY_BYTES_MAX: usize = 128;

/// Where what happened goes.
#[derive(Clone)]
pub struct Outlets {
    /// What happened to pull requests.
    pub events: Arc<dyn GithubIntake>,
    /// Workflows that are over.
    pub runs: Arc<dyn Intake>,
}

/// Takes webhooks. Clones are the same.
#[derive(Clone)]
pub struct Bridge {
    secrets: Secrets,
    tenants: Arc<GithubTenants>,
    outlets: Outlets,
    clock: Arc<dyn Clock>,
    unmapped: Arc<Unmapped>,
    pub(crate) budget: BodyBudget,
}

/// What became of a webhook that was believed and read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Done {
    /// The broker has it on disk.
    Taken,
    /// Somebody is there.
    Ping,
    /// It was left alone.
    Left(Left),
    /// It is nobody's, or none of whoever signed it.
    Unmapped,
}

/// Why a webhook is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error(transparent)]
    Unsigned(#[from] Unsigned),
    /// A header is missing or no such thing.
    #[error("the header {0}")]
    Header(&'static str),
    /// The body is no JSON, or not of GitHub's shape.
    #[error("the body cannot be read: {0}")]
    Unreadable(String),
    /// The broker does not have it, or did not say.
    #[error(transparent)]
    Broker(#[from] IntakeError),
}

impl Bridge {
    /// A bridge that believes these secrets, over ports; `bytes_max` bounds the bodies that it has in hand at once.
    pub fn new(
        secrets: Secrets,
        tenants: GithubTenants,
        outlets: Outlets,
        clock: Arc<dyn Clock>,
        bytes_max: u64,
    ) -> Self {
        let (tenants, unmapped) = (Arc::new(tenants), Arc::default());
        // Whose a webhook is is not known before its last byte, so each may take what is left.
        let budget = BodyBudget::new(BudgetBounds { bytes_max, owner_bytes_max: bytes_max });
        Self { secrets, tenants, outlets, clock, unmapped, budget }
    }

    /// Takes one webhook. Nothing of the body is looked at before its signature was.
    pub(crate) async fn take(&self, headers: &HeaderMap, body: &Bytes) -> Result<Done, Refused> {
        let signature = headers.get(signature::HEADER).map(axum::http::HeaderValue::as_bytes);
        let speaker = self.secrets.check(signature, body)?;
        let event = header(headers, "x-github-event", "X-GitHub-Event is missing, which names the event")?;
        let delivery = header(
            headers,
            "x-github-delivery",
            "X-GitHub-Delivery is missing, which tells a delivery from its repetition",
        )?;
        let taken = match read(event, delivery, body).map_err(Refused::Unreadable)? {
            Reading::Ping => return Ok(Done::Ping),
            Reading::Left(left) => return Ok(Done::Left(left)),
            Reading::Taken(taken) => *taken,
        };
        let tenant = match self.tenants.of(&taken.host, &taken.repo, taken.installation) {
            Some(tenant) if speaker.may_speak_for(tenant) => tenant,
            // Another tenant's repository is answered for like one that is nobody's.
            owner => {
                self.unmapped.tell(&taken, owner);
                return Ok(Done::Unmapped);
            }
        };
        let (now, Taken { at, fact, .. }) = (self.clock.now(), taken);
        match fact {
            Fact::Happened(data) => self.tell(tenant, &data, delivery, at.unwrap_or(now)).await?,
            Fact::Run(run) => self.count(tenant, run, now).await?,
        }
        Ok(Done::Taken)
    }

    async fn tell(
        &self,
        tenant: &Tenant,
        data: &GithubData,
        delivery: &str,
        at: Timestamp,
    ) -> Result<(), Refused> {
        let subject = github::subject_of(tenant, data);
        let payload = data.envelope(delivery, at).structured().payload;
        let sending = retro_trace::send_event(subject::GITHUB);
        Ok(sending.around(self.outlets.events.tell(GithubMessage { subject, payload })).await?)
    }

    /// Checked as the counter will check it, as whatever comes over HTTP is.
    async fn count(&self, tenant: &Tenant, run: RunEvent, now: Timestamp) -> Result<(), Refused> {
        let unreadable = |rejection: Rejection| Refused::Unreadable(rejection.to_string());
        let run = run_completed::receive(run.envelope, tenant, now, &DatarefHosts::default());
        let run = run.map_err(unreadable)?;
        let key = WorkflowKey { tenant: tenant.clone(), workflow: run.workflow };
        let payload = run.envelope.structured().payload;
        let sending = retro_trace::send_event(subject::RUN_COMPLETED);
        Ok(sending.around(self.outlets.runs.take(&[CheckedEvent { key, payload }])).await?)
    }
}

/// A header that has to be there, once, and short.
fn header<'a>(headers: &'a HeaderMap, name: &str, missing: &'static str) -> Result<&'a str, Refused> {
    let value = headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    value.filter(|value| (1..=DELIVERY_BYTES_MAX).contains(&value.len())).ok_or(Refused::Header(missing))
}
