//! `retro doctor`: what the program needs, looked at one by one, each with what to do when it is missing.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use retro_bus::{Bus, BusConfig, BusError, NatsServer, Role, Upkeep, topology};
use retro_config::Config;
use serde::Serialize;
use tokio::net::TcpListener;

use super::Exit;
use super::ready::missing_at;
use crate::cli::Output;
use crate::instance::Instance;
use crate::policies::PolicyBook;
use crate::{embedder, output, store};

/// A broker that is there is connected to within milliseconds; one that is far away, within this.
const BROKER_WITHIN: Duration = Duration::from_secs(3);
/// How often the connection is looked at until then.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    what: &'static str,
    ok: bool,
    detail: String,
}

impl Check {
    fn of(what: &'static str, looked: anyhow::Result<String>) -> Self {
        match looked {
            Ok(detail) => Self { what, ok: true, detail },
            Err(problem) => Self { what, ok: false, detail: format!("{problem:#}") },
        }
    }
}

/// Looks at everything and prints it; not in order when anything is missing.
pub(crate) async fn run(config: &Config, output: Output) -> anyhow::Result<Exit> {
    let running = Instance::find(&config.data_dir);
    let checks = vec![
        Check::of("data folder", writable(&config.data_dir)),
        Check::of("database", database(config).await),
        Check::of("retention", retention(config).await),
        Check::of("lost", losses(config).await),
        Check::of("nats-server", broker(config, running.as_ref()).await),
        Check::of("HTTP address", address(config, running.as_ref()).await),
        Check::of("webhooks", webhooks(config)),
        Check::of("pipelines", pipelines(config)),
        Check::of("embedder", embedder::looked_at(config).await),
    ];
    let in_order = checks.iter().all(|check| check.ok);
    output::data(output, &checks, || {
        let line = |check: &Check| {
            format!("{} {:<13} {}", if check.ok { "ok " } else { "BAD" }, check.what, check.detail)
        };
        checks.iter().map(line).collect::<Vec<_>>().join("\n")
    })?;
    Ok(if in_order { Exit::Done } else { Exit::NotInOrder })
}

fn writable(data_dir: &Path) -> anyhow::Result<String> {
    std::fs::create_dir_all(data_dir)?;
    let probe = data_dir.join("doctor.probe");
    std::fs::write(&probe, b"probe")?;
    std::fs::remove_file(&probe)?;
    Ok(format!("{} can be written", data_dir.display()))
}

async fn database(config: &Config) -> anyhow::Result<String> {
    let name = store::name(config);
    if store::is_to_be_made(config) {
        return Ok(format!("{name} is not there yet; `retro up` or `retro migrate` makes it"));
    }
    let store = store::open(config).await?;
    let health = store.health().await?;
    Ok(format!(
        "{name}: {} migrations, {} events seen, {} messages unsent, {} investigations waiting, {} dead letters open",
        health.migrations,
        health.events_seen,
        health.outbox_unsent,
        store.claimable().await?,
        health.dead_letters_open
    ))
}

/// How much was purged, so that a person sees that it happens.
async fn retention(config: &Config) -> anyhow::Result<String> {
    if store::is_to_be_made(config) {
        return Ok("nothing is kept yet".to_owned());
    }
    let rows = store::open(config).await?.purges().await?;
    let Some(last) = rows.iter().map(|row| row.last).max() else {
        return Ok("nothing was purged yet".to_owned());
    };
    let told: Vec<_> = rows.iter().map(|row| format!("{} {}", row.purged, row.stage.as_str())).collect();
    Ok(format!("purged so far: {}; the last at {last:.0}", told.join(", ")))
}

/// What went with the broker's data. Bad as long as something that is known by name has neither come again nor been closed.
async fn losses(config: &Config) -> anyhow::Result<String> {
    if store::is_to_be_made(config) {
        return Ok("nothing".to_owned());
    }
    let store = store::open(config).await?;
    let (open, closed) = (store.losses().await?, store.closed_losses().await?.len());
    let closed = match closed {
        0 => String::new(),
        closed => format!("; {closed} closed, see `retro losses list --all`"),
    };
    let told = open.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    if open.iter().any(|loss| loss.message.is_some()) {
        anyhow::bail!(
            "lost with the broker's data, to be emitted again or, by their ids, delivered again at GitHub; what is not \
             missed is closed by `retro losses close`: {told}{closed}"
        );
    }
    Ok(if told.is_empty() {
        format!("nothing that is known by name{closed}")
    } else {
        format!("{told}{closed}")
    })
}

/// The broker that is used answers; where none runs, there is one to start.
async fn broker(config: &Config, running: Option<&Instance>) -> anyhow::Result<String> {
    if let Some(url) = &config.nats_url {
        reach_broker(config, url.expose()).await?;
        return Ok(format!("not supervised: {url} is used, and answers"));
    }
    let (path, version) = NatsServer::usable(config.nats_server.as_deref()).await?;
    if let Some(instance) = running {
        reach_broker(config, &instance.nats_url)
            .await
            .with_context(|| format!("the broker of `retro up` (pid {})", instance.pid))?;
        return Ok(format!("{} {version} answers", path.display()));
    }
    Ok(format!("{} {version}", path.display()))
}

/// Asks the broker for something small, and whose it is. One that refuses the question, or has no streams yet, answers all the same.
async fn reach_broker(config: &Config, url: &str) -> anyhow::Result<()> {
    let bus = Bus::connect(BusConfig { upkeep: Upkeep::Look, ..BusConfig::new(url, "retro-doctor") }).await?;
    let mut looks = tokio::time::interval(LOOK_EVERY);
    let connected = async {
        while bus.problem().is_some() {
            looks.tick().await;
        }
    };
    if tokio::time::timeout(BROKER_WITHIN, connected).await.is_err()
        && let Some(problem) = bus.problem()
    {
        bail!("{problem}");
    }
    // A database that cannot be read is told of by its own check; without it nothing is compared.
    let _ = store::introduce(config, &bus).await;
    for problem in topology::check(&bus, &[Role::Counter]).await {
        match problem {
            BusError::Missing(_) | BusError::Refused { .. } => {}
            other => bail!("{other}"),
        }
    }
    Ok(())
}

async fn address(config: &Config, running: Option<&Instance>) -> anyhow::Result<String> {
    if let Some(instance) = running {
        instance.check_alive(&config.data_dir)?;
        return match missing_at(instance.http_address()?).await {
            None => Ok(format!("`retro up` (pid {}) is ready at {}", instance.pid, instance.http_url)),
            Some(missing) => bail!("`retro up` (pid {}) is not ready: {missing}", instance.pid),
        };
    }
    match TcpListener::bind(config.http_listen).await {
        Ok(_) => Ok(format!("{} is free", config.http_listen)),
        Err(problem) => bail!("{}: {problem}; choose another with --http-listen", config.http_listen),
    }
}

/// Whether there is a bridge. None is no mistake; one that leaves everything alone is.
fn webhooks(config: &Config) -> anyhow::Result<String> {
    if !config.is_bridged() {
        return Ok("none are taken: there is no github_secret".to_owned());
    }
    if config.github_tenants()?.is_empty() {
        anyhow::bail!(
            "github_tenants is empty, so every webhook is left alone; say whose each repository is"
        );
    }
    let of_tenants = config.github_tenant_secrets().map_err(anyhow::Error::msg)?;
    let secrets = config.github_secrets().len() + of_tenants.len();
    Ok(format!("taken at {}{}, signed by one of {secrets}", config.bridge_listen, retro_github::ROUTE))
}

fn pipelines(config: &Config) -> anyhow::Result<String> {
    PolicyBook::load(config.pipelines.as_deref())?;
    Ok(config
        .pipelines
        .as_ref()
        .map_or("the built-in policy holds".to_owned(), |path| path.display().to_string()))
}
