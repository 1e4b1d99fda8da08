//! Turns webhooks into events: verifies the signature, parses the body, maps the repository to a tenant and
//! publishes.

use std::sync::Arc;

use axum::http::HeaderMap;
use bytes::Bytes;
use retro_events::IntakeError;
use retro_http::{BodyBudget, BudgetBounds};

use crate::ignored::Ignored;
use crate::publish::{PublishWebhookError, WebhookPublisher};
use crate::signature::{self, SignatureError, WebhookSecrets};
use crate::unmapped::UnmappedRepositories;
use crate::webhook::{ParsedWebhook, parse_webhook};

/// Path of the webhook endpoint.
pub const ROUTE: &str = "/github/webhook";
/// Maximum size of a webhook, in bytes. GitHub sends none above 25 MB.
pub const WEBHOOK_BYTES_MAX: usize = 25 * 1024 * 1024;
/// Maximum length of a delivery id, in bytes. GitHub's delivery ids are UUIDs.
const DELIVERY_BYTES_MAX: usize = 128;

/// Verifies, parses and publishes webhooks. Clones share their state.
#[derive(Clone)]
pub struct Bridge {
    secrets: WebhookSecrets,
    publisher: WebhookPublisher,
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

impl From<PublishWebhookError> for WebhookError {
    fn from(error: PublishWebhookError) -> Self {
        match error {
            PublishWebhookError::Invalid(problem) => Self::Unreadable(problem),
            PublishWebhookError::Broker(error) => Self::Broker(error),
        }
    }
}

impl Bridge {
    /// Creates a bridge that accepts webhooks signed with these secrets. `bytes_max` limits the total size of
    /// the bodies buffered at the same time.
    pub fn new(secrets: WebhookSecrets, publisher: WebhookPublisher, bytes_max: u64) -> Self {
        // The tenant is unknown until the last byte has arrived, so a single owner gets the whole budget.
        let budget = BodyBudget::new(BudgetBounds { bytes_max, owner_bytes_max: bytes_max });
        Self { secrets, publisher, unmapped: Arc::default(), budget }
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
        let tenant =
            match self.publisher.tenants().find_tenant(&webhook.host, &webhook.repo, webhook.installation) {
                Some(tenant) if speaker.allows(tenant) => tenant,
                // The response for another tenant's repository must not differ from that for an unmapped one, or
                // it would reveal that the repository is mapped.
                owner => {
                    self.unmapped.log_once(&webhook, owner);
                    return Ok(WebhookOutcome::Unmapped);
                }
            };
        self.publisher.publish(tenant, webhook, delivery).await?;
        Ok(WebhookOutcome::Accepted)
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
