//! Sets up traces and metrics for this process.

use std::sync::Arc;

use retro_config::Config;
use retro_events::Role;
use retro_http::Scrape;
use retro_telemetry::export::{ServiceIdentity, Telemetry};
use tracing::warn;

use crate::cli::Command;

/// Starts telemetry for `up`, `serve` and `emit`. Returns `None` for other commands, which measure nothing,
/// and if the start fails; the failure is logged, and the command continues without telemetry.
pub(crate) fn start_telemetry(command: &Command, config: &Config) -> Option<Telemetry> {
    let origin = ServiceIdentity { service: service_name(command)?, instance: process_name() };
    let started = Telemetry::start(&origin, config.otlp_endpoint.as_deref());
    started.inspect_err(|problem| warn!("traces and metrics are disabled: {problem}")).ok()
}

/// Returns the callback for `/metrics`, whose output is empty without telemetry.
pub(crate) fn build_scrape(telemetry: Option<&Telemetry>) -> Scrape {
    let telemetry = telemetry.cloned();
    Arc::new(move || telemetry.as_ref().map(Telemetry::metrics_text).unwrap_or_default())
}

/// Returns a name by which operators recognize the process that has a lease or sent a span: the container's
/// host name, if any, and the process id.
pub(crate) fn process_name() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "here".to_owned());
    format!("{host}-{}", std::process::id())
}

/// Returns the service name for telemetry, or `None` for commands without telemetry. Processes with the same
/// roles share a name, so the roles of a fleet can be distinguished.
fn service_name(command: &Command) -> Option<String> {
    match command {
        Command::Up(_) => Some("retro".to_owned()),
        Command::Emit(_) => Some("retro-emit".to_owned()),
        Command::Serve(args) => Some(fleet_service_name(args.roles.iter().copied())),
        _ => None,
    }
}

fn fleet_service_name(roles: impl Iterator<Item = Role>) -> String {
    let roles: std::collections::BTreeSet<_> = roles.map(Role::as_str).collect();
    roles.into_iter().fold("retro".to_owned(), |name, role| format!("{name}-{role}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_a_fleet_are_named_by_their_roles() {
        assert_eq!(fleet_service_name([Role::Counter].into_iter()), "retro-counter");
        assert_eq!(
            fleet_service_name([Role::Writer, Role::Relay, Role::Writer].into_iter()),
            "retro-relay-writer"
        );
    }
}
