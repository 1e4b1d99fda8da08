#![doc = include_str!("../README.md")]

mod bridge;
mod http;
mod ignored;
mod payload;
mod publish;
mod revert;
mod signature;
mod sync;
mod text;
mod trailer;
mod unmapped;
mod webhook;
mod workflow_run;

#[cfg(test)]
mod testing;

pub use bridge::{Bridge, ROUTE, WEBHOOK_BYTES_MAX};
pub use http::router;
pub use ignored::Ignored;
pub use publish::{PublishWebhookError, Publishers, WebhookPublisher};
pub use signature::{AllowedTenants, SignatureError, WebhookSecrets};
pub use sync::{PullRequestRecord, SyncResult, SyncedEvent, events_of_record};
pub use webhook::{AcceptedWebhook, ParsedWebhook, WebhookContent, parse_webhook};
