#![doc = include_str!("../README.md")]

mod bridge;
mod http;
mod ignored;
mod payload;
mod revert;
mod signature;
mod text;
mod trailer;
mod unmapped;
mod webhook;
mod workflow_run;

#[cfg(test)]
mod testing;

pub use bridge::{Bridge, Publishers, ROUTE, WEBHOOK_BYTES_MAX};
pub use http::router;
pub use ignored::Ignored;
pub use signature::{AllowedTenants, SignatureError, WebhookSecrets};
pub use webhook::{AcceptedWebhook, ParsedWebhook, WebhookContent, parse_webhook};
