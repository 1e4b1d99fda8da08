//! Runs `retro doctor`, which checks the program's environment and prints advice for each failure.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use retro_bus::{Bus, BusConfig, BusError, NatsServer, Role, TopologyMode, topology};
use retro_config::Config;
use retro_events::agents::AgentOperation;
use retro_http::ServerCertificate;
use serde::Serialize;
use tokio::net::TcpListener;

use super::ready::find_missing;
use crate::cli::Output;
use crate::exit::Exit;
use crate::instance::Instance;
use crate::policies::PolicySource;
use crate::{broker, embedder, model, output, store};

/// Timeout for connecting to the broker. A local broker takes milliseconds, a remote one much less than this.
const BROKER_TIMEOUT: Duration = Duration::from_secs(3);

/// Name and result of a check.
#[derive(Debug, Serialize)]
struct Check {
    check: &'static str,
    ok: bool,
    detail: String,
}

impl Check {
    fn from_result(check: &'static str, result: anyhow::Result<String>) -> Self {
        match result {
            Ok(detail) => Self { check, ok: true, detail },
            Err(problem) => Self { check, ok: false, detail: format!("{problem:#}") },
        }
    }
}

/// Runs all checks and prints their results. Exits with [`Exit::ProblemFound`] if any of them fails.
pub(crate) async fn run_command(config: &Config, output: Output) -> anyhow::Result<Exit> {
    let running = Instance::find(&config.data_dir);
    let checks = vec![
        Check::from_result("data folder", check_data_folder(&config.data_dir)),
        Check::from_result("database", check_database(config).await),
        Check::from_result("retention", check_retention(config).await),
        Check::from_result("losses", check_losses(config).await),
        Check::from_result("nats-server", check_broker(config, running.as_ref()).await),
        Check::from_result("HTTP address", check_http_address(config, running.as_ref()).await),
        Check::from_result("webhooks", check_webhooks(config)),
        Check::from_result("GitHub token", Ok(describe_github_token(config))),
        Check::from_result("pipelines", check_pipelines(config)),
        Check::from_result("embedder", embedder::check_embedder(config).await),
        Check::from_result("model", model::check_model(config).await),
    ];
    let in_order = checks.iter().all(|check| check.ok);
    output::print_data(output, &checks, || {
        let line = |check: &Check| {
            format!("{} {:<13} {}", if check.ok { "ok " } else { "BAD" }, check.check, check.detail)
        };
        checks.iter().map(line).collect::<Vec<_>>().join("\n")
    })?;
    Ok(if in_order { Exit::Done } else { Exit::ProblemFound })
}

fn check_data_folder(data_dir: &Path) -> anyhow::Result<String> {
    std::fs::create_dir_all(data_dir)?;
    let probe = data_dir.join("doctor.probe");
    std::fs::write(&probe, b"probe")?;
    std::fs::remove_file(&probe)?;
    Ok(format!("{} is writable", data_dir.display()))
}

async fn check_database(config: &Config) -> anyhow::Result<String> {
    let name = store::database_name(config);
    if store::is_not_created(config) {
        return Ok(format!("{name} does not exist yet; `retro up` or `retro migrate` creates it"));
    }
    let store = store::open_store(config).await?;
    let health = store.load_health().await?;
    Ok(format!(
        "{name}: {} migrations, {} events seen, {} messages unsent, {} investigations waiting, {} dead \
         letters open",
        health.migrations,
        health.events_seen,
        health.outbox_unsent,
        store.count_claimable().await?,
        health.dead_letters_open
    ))
}

/// Reports the number of purged rows, to show the operator that retention works.
async fn check_retention(config: &Config) -> anyhow::Result<String> {
    if store::is_not_created(config) {
        return Ok("nothing is stored yet".to_owned());
    }
    let rows = store::open_store(config).await?.list_retention_totals().await?;
    let Some(last) = rows.iter().map(|row| row.last).max() else {
        return Ok("nothing was purged yet".to_owned());
    };
    let descriptions: Vec<_> =
        rows.iter().map(|row| format!("{} {}", row.purged, row.stage.as_str())).collect();
    Ok(format!("purged so far: {}; the last at {last:.0}", descriptions.join(", ")))
}

/// Reports messages that were lost with the broker's data. Fails if a known message was lost and neither
/// received again nor closed.
async fn check_losses(config: &Config) -> anyhow::Result<String> {
    if store::is_not_created(config) {
        return Ok("nothing".to_owned());
    }
    let store = store::open_store(config).await?;
    let (open, closed) = (store.list_losses().await?, store.list_closed_losses().await?.len());
    let closed = match closed {
        0 => String::new(),
        closed => format!("; {closed} closed, see `retro losses list --all`"),
    };
    let descriptions = open.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    if open.iter().any(|loss| loss.message.is_some()) {
        anyhow::bail!(
            "lost with the broker's data; emit these again, redeliver them by id at GitHub, or close what \
             nobody misses with `retro losses close`: {descriptions}{closed}"
        );
    }
    Ok(if descriptions.is_empty() {
        format!("nothing that is known by name{closed}")
    } else {
        format!("{descriptions}{closed}")
    })
}

/// Checks that the configured broker responds. If none is configured, checks that a usable nats-server is
/// installed and, if `retro up` is running, that its broker responds.
async fn check_broker(config: &Config, running: Option<&Instance>) -> anyhow::Result<String> {
    if let Some(url) = &config.nats_url {
        check_broker_answers(config, url.expose()).await?;
        let exposed = broker::connection_security(config).find_exposed_files();
        let warnings: String = exposed.iter().map(|warning| format!("; {warning}")).collect();
        return Ok(format!("not supervised: {url} answers{warnings}"));
    }
    let (path, version) = NatsServer::find_usable(config.nats_server.as_deref()).await?;
    if let Some(instance) = running {
        let bus = check_broker_answers(config, &instance.nats_url)
            .await
            .with_context(|| format!("the broker of `retro up` (pid {})", instance.pid))?;
        return Ok(format!("{} {version} answers{}", path.display(), describe_agent_service(&bus).await));
    }
    Ok(format!("{} {version}", path.display()))
}

/// Returns where agents are answered, or that nobody answers them.
async fn describe_agent_service(bus: &Bus) -> String {
    let subject = format!("{}.<tenant>", AgentOperation::Context.subject_prefix());
    match bus.finds_agent_service().await {
        true => format!("; agents are answered on {subject}"),
        false => format!("; nobody answers agents on {subject} (nats_agents)"),
    }
}

/// Sends a small request to the broker and checks that its streams belong to this database. A broker that
/// refuses the request or has no streams yet passes. Returns the connection.
async fn check_broker_answers(config: &Config, url: &str) -> anyhow::Result<Bus> {
    let bus = Bus::connect(BusConfig {
        topology_mode: TopologyMode::Verify,
        ..broker::bus_config(config, url, "retro-doctor")
    })
    .await?;
    broker::wait_until_connected(&bus, BROKER_TIMEOUT).await?;
    // An unreadable database fails its own check; without its identity, the owner of the streams is not
    // compared.
    let _ = store::set_bus_database(config, &bus).await;
    for problem in topology::find_problems(&bus, &[Role::Counter]).await {
        match problem {
            BusError::Missing(_) | BusError::Refused { .. } => {}
            other => bail!("{other}"),
        }
    }
    Ok(bus)
}

async fn check_http_address(config: &Config, running: Option<&Instance>) -> anyhow::Result<String> {
    if let Some(instance) = running {
        instance.check_alive(&config.data_dir)?;
        check_certificate(config)?;
        return match find_missing(config, instance.http_address()?, instance.speaks_tls()).await {
            None => Ok(format!("`retro up` (pid {}) is ready at {}", instance.pid, instance.http_url)),
            Some(missing) => bail!("`retro up` (pid {}) is not ready: {missing}", instance.pid),
        };
    }
    if let Some((key, problem)) = config.find_http_problem() {
        bail!("{key} {problem}");
    }
    check_certificate(config)?;
    match TcpListener::bind(config.http_listen).await {
        Ok(_) => Ok(format!("{} is free", config.http_listen)),
        Err(problem) => bail!("{}: {problem}; choose another with --http-listen", config.http_listen),
    }
}

/// Checks that the files of the certificate can be used, if there are any.
fn check_certificate(config: &Config) -> anyhow::Result<()> {
    if let Some((certificate, key)) = config.http_cert_file.as_ref().zip(config.http_key_file.as_ref()) {
        ServerCertificate::load(certificate, key)?;
    }
    Ok(())
}

/// Checks the configuration of the webhook bridge. Fails if the bridge would ignore every webhook; passes if
/// there is no bridge.
fn check_webhooks(config: &Config) -> anyhow::Result<String> {
    if !config.has_bridge_secret() {
        return Ok("none are accepted: github_secret is not set".to_owned());
    }
    if config.github_tenants()?.is_empty() {
        anyhow::bail!(
            "github_tenants is empty, so every webhook is ignored; map each repository to a tenant"
        );
    }
    let of_tenants = config.github_tenant_secrets().map_err(anyhow::Error::msg)?;
    let secrets = config.github_secrets().len() + of_tenants.len();
    Ok(format!(
        "accepted at {}{}, signed with one of {secrets} secrets",
        config.bridge_listen,
        retro_github::ROUTE
    ))
}

/// Says what a GitHub token is there for, or what is missing without one. It is not sent to GitHub.
fn describe_github_token(config: &Config) -> String {
    match &config.github_token {
        Some(_) => {
            format!("set, for the logs of failed CI runs and `retro github sync` at {}", config.github_host)
        }
        None => "none: logs of failed CI runs are not read, and `retro github sync` needs github_token_file"
            .to_owned(),
    }
}

fn check_pipelines(config: &Config) -> anyhow::Result<String> {
    PolicySource::load(config.pipelines.as_deref())?;
    Ok(config
        .pipelines
        .as_ref()
        .map_or("the built-in policy applies".to_owned(), |path| path.display().to_string()))
}
