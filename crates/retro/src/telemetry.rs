//! What this process tells of itself to a collector, and under which name.

use std::sync::Arc;

use retro_config::Config;
use retro_events::Role;
use retro_http::Scrape;
use retro_telemetry::{Origin, Telemetry};
use tracing::warn;

use crate::cli::Command;

/// Starts it for the commands that do the work; those that ask and answer measure nothing. What cannot be set up is told,
/// and the work goes on without.
pub(crate) fn start(command: &Command, config: &Config) -> Option<Telemetry> {
    let origin = Origin { service: service(command)?, instance: process_name() };
    let started = Telemetry::start(&origin, config.otlp_endpoint.as_deref());
    started.inspect_err(|problem| warn!("neither traces nor metrics: {problem}")).ok()
}

/// What `/metrics` answers: nothing when nothing is measured.
pub(crate) fn scrape(telemetry: Option<&Telemetry>) -> Scrape {
    let telemetry = telemetry.cloned();
    Arc::new(move || telemetry.as_ref().map(Telemetry::metrics_text).unwrap_or_default())
}

/// For people who ask who holds a lease or sent a span: the container's name where there is one, and the process id.
pub(crate) fn process_name() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "here".to_owned());
    format!("{host}-{}", std::process::id())
}

/// The same for every process that does this work, so that a fleet's roles can be told apart.
fn service(command: &Command) -> Option<String> {
    match command {
        Command::Up(_) => Some("retro".to_owned()),
        Command::Emit(_) => Some("retro-emit".to_owned()),
        Command::Serve(args) => Some(serving(args.roles.iter().copied())),
        _ => None,
    }
}

fn serving(roles: impl Iterator<Item = Role>) -> String {
    let roles: std::collections::BTreeSet<_> = roles.map(Role::as_str).collect();
    roles.into_iter().fold("retro".to_owned(), |name, role| format!("{name}-{role}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleets_processes_are_named_by_what_they_do() {
        assert_eq!(serving([Role::Counter].into_iter()), "retro-counter");
        assert_eq!(serving([Role::Writer, Role::Relay, Role::Writer].into_iter()), "retro-relay-writer");
    }
}
