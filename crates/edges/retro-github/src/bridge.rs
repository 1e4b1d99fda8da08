//! Turns webhooks into events: verifies the signature, parses the body, maps the repository to a tenant and
//! publishes.

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
use retro_events::{
    GithubMessage, GithubPublisher, IntakeError, IntakePublisher, ValidatedEvent, github, subject,
};
use retro_http::{BodyBudget, BudgetBounds};

use crate::ignored::Ignored;
use crate::signature::{self, SignatureError, WebhookSecrets};
use crate::unmapped::UnmappedRepositories;
use crate::webhook::{AcceptedWebhook, ParsedWebhook, WebhookContent, parse_webhook};

/// Path of the webhook endpoint.
pub const ROUTE: &str = "/github/webhook";
/// Maximum size of a webhook, in bytes. GitHub sends none above 25 MB.
pub const WEBHOOK_BYTES_MAX: usize = 25 * 1024 * 1024;
/// Maximum length of a delivery id, in bytes. GitHub's delivery ids are UUIDs.
const DELIVERY_BYTES_MAX: usize = 128;

/// Publishers of the events that are built from webhooks.
#[derive(Clone)]
pub struct Publishers {
    /// Publishes events of pull requests and pushes.
    pub events: Arc<dyn GithubPublisher>,
    /// Publishes finished workflow runs.
    pub runs: Arc<dyn IntakePublisher>,
}

/// Verifies, parses and publishes webhooks. Clones share their state.
#[derive(Clone)]
pub struct Bridge {
    secrets: WebhookSecrets,
    tenants: Arc<GithubTenants>,
    publishers: Publishers,
    clock: Arc<dyn Clock>,
    unmapped: Arc<UnmappedRepositories>,
    pub(crate) budget: BodyBudget,
}

/// Outcome of an authentic webhook that was parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WebhookOutcome {
    /// The event was published and is on the broker's disk.
    Accepted,
    /// The webhook is a ping.
    Ping,
    /// The webhook is ignored for the given reason.
    Ignored(Ignored),
    /// The repository belongs to no tenant, or to a tenant that the signing secret may not act for.
    Unmapped,
}

/// Reason why a webhook is rejected.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WebhookError {
    #[error(transparent)]
    Unsigned(#[from] SignatureError),
    /// A header is missing or invalid.
    #[error("the header {0}")]
    Header(&'static str),
    /// The body is not JSON or not in GitHub's format.
    #[error("the body cannot be read: {0}")]
    Unreadable(String),
    /// The broker did not store the event, or did not confirm that it did.
    #[error(transparent)]
    Broker(#[from] IntakeError),
}

impl Bridge {
    /// Creates a bridge that accepts webhooks signed with these secrets. `bytes_max` limits the total size of
    /// the bodies buffered at the same time.
    pub fn new(
        secrets: WebhookSecrets,
        tenants: GithubTenants,
        publishers: Publishers,
        clock: Arc<dyn Clock>,
        bytes_max: u64,
    ) -> Self {
        let (tenants, unmapped) = (Arc::new(tenants), Arc::default());
        // The tenant is unknown until the last byte has arrived, so a single owner gets the whole budget.
        let budget = BodyBudget::new(BudgetBounds { bytes_max, owner_bytes_max: bytes_max });
        Self { secrets, tenants, publishers, clock, unmapped, budget }
    }

    /// Processes one webhook. The signature is verified before the body is parsed.
    pub(crate) async fn handle_webhook(
        &self,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<WebhookOutcome, WebhookError> {
        let signature = headers.get(signature::SIGNATURE_HEADER).map(axum::http::HeaderValue::as_bytes);
        // Verified first, so an unsigned request learns nothing from the errors below.
        let speaker = self.secrets.verify_signature(signature, body)?;
        let event =
            required_header(headers, "x-github-event", "X-GitHub-Event is missing, which names the event")?;
        let delivery = required_header(
            headers,
            "x-github-delivery",
            "X-GitHub-Delivery is missing, which identifies the delivery",
        )?;
        let webhook = match parse_webhook(event, body).map_err(WebhookError::Unreadable)? {
            ParsedWebhook::Ping => return Ok(WebhookOutcome::Ping),
            ParsedWebhook::Ignored(left) => return Ok(WebhookOutcome::Ignored(left)),
            ParsedWebhook::Accepted(webhook) => *webhook,
        };
        let tenant = match self.tenants.find_tenant(&webhook.host, &webhook.repo, webhook.installation) {
            Some(tenant) if speaker.allows(tenant) => tenant,
            // The response for another tenant's repository must not differ from that for an unmapped one, or
            // it would reveal that the repository is mapped.
            owner => {
                self.unmapped.log_once(&webhook, owner);
                return Ok(WebhookOutcome::Unmapped);
            }
        };
        let (now, AcceptedWebhook { occurred_at: at, content: fact, .. }) = (self.clock.now(), webhook);
        match fact {
            WebhookContent::Repository(data) => {
                self.publish_github_event(tenant, &data, delivery, at.unwrap_or(now)).await?
            }
            WebhookContent::Run(run) => self.publish_run(tenant, run, now).await?,
        }
        Ok(WebhookOutcome::Accepted)
    }

    async fn publish_github_event(
        &self,
        tenant: &Tenant,
        data: &GithubData,
        delivery: &str,
        at: Timestamp,
    ) -> Result<(), WebhookError> {
        let subject = github::event_subject(tenant, data);
        let payload = data.to_envelope(delivery, at).to_structured().payload;
        let sending = retro_telemetry::trace::start_send_event_span(subject::GITHUB);
        Ok(sending
            .instrument(self.publishers.events.publish_message(GithubMessage { subject, payload }))
            .await?)
    }

    /// Validates the run exactly as the counter will, like any event received over HTTP, and publishes it.
    async fn publish_run(&self, tenant: &Tenant, run: RunEvent, now: Timestamp) -> Result<(), WebhookError> {
        let unreadable = |rejection: Rejection| WebhookError::Unreadable(rejection.to_string());
        let run = run_completed::validate_envelope(run.envelope, tenant, now, &DatarefHosts::default());
        let run = run.map_err(unreadable)?;
        let key = WorkflowKey { tenant: tenant.clone(), workflow: run.workflow };
        let payload = run.envelope.to_structured().payload;
        let sending = retro_telemetry::trace::start_send_event_span(subject::RUN_COMPLETED);
        Ok(sending
            .instrument(self.publishers.runs.publish_events(&[ValidatedEvent { key, payload }]))
            .await?)
    }
}

/// Returns a required header, trimmed. Fails if it is missing, empty or longer than [`DELIVERY_BYTES_MAX`].
fn required_header<'a>(
    headers: &'a HeaderMap,
    name: &str,
    missing: &'static str,
) -> Result<&'a str, WebhookError> {
    let value = headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    value.filter(|value| (1..=DELIVERY_BYTES_MAX).contains(&value.len())).ok_or(WebhookError::Header(missing))
}
