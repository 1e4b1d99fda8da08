//! Publishes the events of webhooks. A bridge publishes what GitHub sent, and `retro github sync` what GitHub
//! would have sent.

use std::sync::Arc;

use jiff::Timestamp;
use retro_core::id::{Tenant, WorkflowKey};
use retro_core::run::GithubLogRef;
use retro_core::time::Clock;
use retro_events::github::GithubData;
use retro_events::github::tenants::GithubTenants;
use retro_events::hosts::DatarefHosts;
use retro_events::run_completed::{self, RunEvent};
use retro_events::{
    GithubMessage, GithubPublisher, IntakeError, IntakePublisher, ValidatedEvent, github, subject,
};

use crate::webhook::{AcceptedWebhook, WebhookContent};

/// Publishers of the events that are built from webhooks.
#[derive(Clone)]
pub struct Publishers {
    /// Publishes events of pull requests and pushes.
    pub events: Arc<dyn GithubPublisher>,
    /// Publishes finished workflow runs.
    pub runs: Arc<dyn IntakePublisher>,
}

/// Reason why a webhook was not published.
#[derive(Debug, thiserror::Error)]
pub enum PublishWebhookError {
    /// The event would be rejected by whoever receives it.
    #[error("the event would be rejected: {0}")]
    Invalid(String),
    /// The broker did not store the event, or did not confirm that it did.
    #[error(transparent)]
    Broker(#[from] IntakeError),
}

/// Publishes accepted webhooks for their tenants. Clones share their state.
#[derive(Clone)]
pub struct WebhookPublisher {
    tenants: Arc<GithubTenants>,
    publishers: Publishers,
    clock: Arc<dyn Clock>,
    log_host: Option<String>,
}

impl WebhookPublisher {
    /// Creates a publisher for the repositories of these tenants. By default, runs have no body.
    pub fn new(tenants: Arc<GithubTenants>, publishers: Publishers, clock: Arc<dyn Clock>) -> Self {
        Self { tenants, publishers, clock, log_host: None }
    }

    /// Sets the host whose logs the investigators can fetch, because a token is configured. Failed runs of its
    /// repositories then get their log as their body.
    pub fn with_log_host(self, host: Option<String>) -> Self {
        Self { log_host: host, ..self }
    }

    /// Returns the tenants of the repositories.
    pub fn tenants(&self) -> &GithubTenants {
        &self.tenants
    }

    /// Publishes a webhook and returns when the broker has its event on disk. `id` becomes the id of the event,
    /// except for a run, whose id is derived from its content.
    pub async fn publish(
        &self,
        tenant: &Tenant,
        webhook: AcceptedWebhook,
        id: &str,
    ) -> Result<(), PublishWebhookError> {
        let now = self.clock.now();
        match webhook.content {
            WebhookContent::Repository(data) => {
                self.publish_github_event(tenant, &data, id, webhook.occurred_at.unwrap_or(now)).await
            }
            WebhookContent::Run(run) => {
                let run = self.add_log(tenant, &webhook.host, &webhook.repo, run);
                self.publish_run(tenant, run, now).await
            }
        }
    }

    /// Adds the log of a failed run if an investigator may fetch it: it checks the tenant in the same way.
    fn add_log(&self, tenant: &Tenant, host: &str, repo: &str, run: RunEvent) -> RunEvent {
        let has_token = self.log_host.as_ref().is_some_and(|of| of.eq_ignore_ascii_case(host));
        let is_owner = self.tenants.find_tenant_by_name(host, repo) == Some(tenant);
        let failed = run.run.outcome.succeeded() == Some(false);
        match run.run.run_id.as_str().parse() {
            Ok(id) if has_token && is_owner && failed => {
                let (host, repo) = (host.to_owned(), repo.to_owned());
                let log = GithubLogRef { host, repo, run: id, attempt: run.run.attempt };
                run.with_github_log(&log)
            }
            _ => run,
        }
    }

    async fn publish_github_event(
        &self,
        tenant: &Tenant,
        data: &GithubData,
        id: &str,
        at: Timestamp,
    ) -> Result<(), PublishWebhookError> {
        let subject = github::event_subject(tenant, data);
        let payload = data.to_envelope(id, at).to_structured().payload;
        let sending = retro_telemetry::trace::start_send_event_span(subject::GITHUB);
        Ok(sending
            .instrument(self.publishers.events.publish_message(GithubMessage { subject, payload }))
            .await?)
    }

    /// Validates the run exactly as the counter will, like any event received over HTTP, and publishes it.
    async fn publish_run(
        &self,
        tenant: &Tenant,
        run: RunEvent,
        now: Timestamp,
    ) -> Result<(), PublishWebhookError> {
        let run = run_completed::validate_envelope(run.envelope, tenant, now, &DatarefHosts::default())
            .map_err(|rejection| PublishWebhookError::Invalid(rejection.to_string()))?;
        let key = WorkflowKey { tenant: tenant.clone(), workflow: run.workflow };
        let payload = run.envelope.to_structured().payload;
        let sending = retro_telemetry::trace::start_send_event_span(subject::RUN_COMPLETED);
        Ok(sending
            .instrument(self.publishers.runs.publish_events(&[ValidatedEvent { key, payload }]))
            .await?)
    }
}
