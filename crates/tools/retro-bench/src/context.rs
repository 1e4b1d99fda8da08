//! Measures what agents are told and how fast, with a million stored memories, beside a server of the same library whose
//! answers are constant or come from a map.

mod constant;
mod load;
mod memories;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use retro_testkit::free_port;
use tokio::process::Command;

use crate::child::MeasuredProcess;
use crate::servers::{Broker, Database, DatabaseKind};
use load::{ContextLoad, LoadFigures, Route};

pub(crate) use load::wait_until_ready;
pub(crate) use memories::Scopes;

/// Rate of a token that nobody reaches.
const TOKEN_REQUESTS_PER_S: &str = "100000";
/// Clients that ask for every step once before the program counts as warm.
const FILLING_CLIENTS: u64 = 16;

/// Options of `retro-bench context`.
#[derive(Debug, clap::Args)]
pub(crate) struct ContextOptions {
    /// Number of memories, all of them active.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1_000..=20_000_000))]
    memories: u64,
    /// Number of workflows, over which the memories are spread; each has steps of 50 memories.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    workflows: u64,
    /// Number of tenants, over which the workflows are spread.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    tenants: u64,
    /// Number of clients, each with one request at a time; may be repeated.
    #[arg(long, default_values_t = [1, 16, 64])]
    clients: Vec<usize>,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Databases to measure; may be repeated.
    #[arg(long, default_values = ["sqlite", "postgres"])]
    database: Vec<DatabaseKind>,
}

/// Runs the measurements and prints them.
pub(crate) async fn run_context(retro: &Path, folder: &Path, options: &ContextOptions) -> Result<()> {
    let scopes = Scopes::new(options.memories, options.workflows, options.tenants);
    let broker = Broker::start().await?;
    for kind in &options.database {
        let folder = tempfile::tempdir_in(folder)?;
        let database = Database::create(*kind, &folder.path().join("data"), retro).await?;
        scopes.store(&database).await?;
        println!(
            "{kind:?}: {} memories of {} steps, {} workflows and {} tenants, {} MiB on disk; every request has an access \
             token, every answer is recorded",
            options.memories,
            scopes.number(),
            options.workflows,
            options.tenants,
            database.size().await? / (1024 * 1024)
        );
        let measurement = Measurement { retro, folder: folder.path(), broker: &broker, database: &database };
        let tokens = measurement.create_tokens(&scopes).await?;
        let mut body = None;
        for clients in &options.clients {
            let duration = Duration::from_secs(options.seconds);
            let load = ContextLoad { scopes, tokens: tokens.clone(), clients: *clients, duration };
            measurement.run(&load, &mut body).await?;
        }
        let presented = database.query_number("SELECT count(*) FROM presentations").await?;
        let waiting = database.query_number("SELECT count(*) FROM pending_presentations").await?;
        println!("  {presented} presentations are stored, and {waiting} answers wait to be counted");
    }
    Ok(())
}

/// Serves constant answers until it is killed.
pub(crate) async fn serve_constant(
    listen: &str,
    body: &Path,
    memories: u64,
    workflows: u64,
    tenants: u64,
) -> Result<()> {
    let body = std::fs::read(body)?;
    constant::run_constant_server(listen, body.into(), &Scopes::new(memories, workflows, tenants)).await
}

/// What all measurements of one database share.
struct Measurement<'a> {
    retro: &'a Path,
    folder: &'a Path,
    broker: &'a Broker,
    database: &'a Database,
}

impl Measurement<'_> {
    /// Creates an access token of each tenant, as a user would.
    async fn create_tokens(&self, scopes: &Scopes) -> Result<Arc<[String]>> {
        const CREATE: [&str; 9] = [
            "tokens",
            "create",
            "--name",
            "bench",
            "--scopes",
            "context",
            "--never-expires",
            "--reason",
            "bench",
        ];
        let mut tokens = Vec::new();
        for tenant in scopes.tenants() {
            let mut create = Command::new(self.retro);
            create.args(CREATE).args(["--tenant", &tenant, "-o", "json"]).args(self.database.arguments());
            let done = create.envs(self.database.variables()).output().await?;
            ensure!(done.status.success(), "`retro tokens`: {}", String::from_utf8_lossy(&done.stderr));
            let created: serde_json::Value = serde_json::from_slice(&done.stdout)?;
            tokens.push(created["token"].as_str().context("no token was printed")?.to_owned());
        }
        Ok(tokens.into())
    }

    /// Measures the program, just started and then warm, and the servers beside it. The first answer of the program is
    /// the constant one.
    async fn run(&self, load: &ContextLoad, body: &mut Option<Vec<u8>>) -> Result<()> {
        self.database.evict_from_page_cache()?;
        let address = format!("127.0.0.1:{}", free_port());
        let log = self.folder.join("gateway.log");
        let arguments = ["--http-listen", address.as_str()];
        let servers = (self.broker, self.database);
        // Nobody is slowed down by the rate of a token.
        let variables = [
            ("RUST_LOG", "error"),
            ("RETRO_HTTP_REQUIRE_TOKENS", "true"),
            ("RETRO_TOKEN_REQUESTS_PER_S", TOKEN_REQUESTS_PER_S),
        ];
        let gateway =
            MeasuredProcess::start_roles(self.retro, servers, &["gateway"], &arguments, &variables, &log)?;
        load::wait_until_ready(&address)
            .await
            .with_context(|| std::fs::read_to_string(&log).unwrap_or_default())?;
        println!("  {} clients", load.clients);
        let cold = self.measure(&gateway, &address, load, Route::Context, "cold").await?;
        let filled = load.ask_for_every_step(&address, FILLING_CLIENTS).await?;
        let held = gateway.resident_memory()? / (1024 * 1024);
        println!("    every step was asked for once in {:.1} s; {held} MiB", filled.as_secs_f64());
        let warm = self.measure(&gateway, &address, load, Route::Context, "warm").await?;
        let previews = self.measure(&gateway, &address, load, Route::Preview, "previews").await?;
        ensure!(cold.answers > 0 && warm.answers > 0, "no request was answered");
        if body.is_none() {
            *body = Some(load.fetch_body(&address).await?);
        }
        let stopped = Instant::now();
        gateway.stop().await?;
        let stopped = stopped.elapsed().as_secs_f64() * 1e3;
        println!("    stopped, with everything recorded that it had promised, in {stopped:.0} ms");

        let file = self.folder.join("answer.json");
        std::fs::write(&file, body.as_deref().unwrap_or_default())?;
        let address = format!("127.0.0.1:{}", free_port());
        let program = std::env::current_exe()?;
        let (file, workflows) = (file.display().to_string(), load.scopes.workflows.to_string());
        let (memories, tenants) = (load.scopes.memories.to_string(), load.scopes.tenants.to_string());
        let arguments = [
            "constant-server",
            "--listen",
            &address,
            "--body",
            &file,
            "--memories",
            &memories,
            "--workflows",
            &workflows,
            "--tenants",
            &tenants,
        ];
        let server = MeasuredProcess::start(&program, &arguments, &[], &log)?;
        load::wait_until_ready(&address).await?;
        for (route, name) in [(Route::Map, "map"), (Route::Constant, "constant")] {
            let figures = load.measure(&address, route).await?;
            figures.print(name, None);
            println!(
                "      ratio of the warm program to it {:.3}, of its previews {:.3}",
                warm.rate() / figures.rate(),
                previews.rate() / figures.rate()
            );
        }
        server.stop().await
    }

    async fn measure(
        &self,
        gateway: &MeasuredProcess,
        address: &str,
        load: &ContextLoad,
        route: Route,
        name: &str,
    ) -> Result<LoadFigures> {
        let before = gateway.cpu_time()?;
        let figures = load.measure(address, route).await?;
        let cpu = gateway.cpu_time()?.saturating_sub(before);
        figures.print(name, Some((cpu, gateway.resident_memory()?)));
        Ok(figures)
    }
}
