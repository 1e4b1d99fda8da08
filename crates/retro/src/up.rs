//! `retro up`: everything in one process. The composition root: stages meet their broker and database here.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use retro_bus::server::{NatsServer, ServerConfig};
use retro_bus::{
    BodyStore, Bus, BusConfig, EventIntake, NoticePublisher, Subscription, run_consumer, run_relay, topology,
};
use retro_config::Config;
use retro_core::similar::NgramEmbedder;
use retro_core::time::Clock;
use retro_counter::Counter;
use retro_events::{Consumer, Objects, Publisher};
use retro_gateway::{Gate, GateBounds, Gateway, Readiness, ReadyCheck, Reception};
use retro_investigator::{Heuristics, Settings, Worker};
use retro_operator::{SharedRedact, Steering, steer_router};
use retro_redact::Redactor;
use retro_sampler::Sampler;
use retro_store::{DeliveryStore, StoreError};
use retro_store_sqlite::SqliteStore;
use retro_writer::Writer;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use crate::clock::SystemClock;
use crate::commands::Exit;
use crate::instance::{self, Instance};
use crate::output;
use crate::policies::PolicyBook;

/// How long an orderly stop may take before the process ends anyway.
const STOP_MAX: Duration = Duration::from_secs(10);
/// How long an investigation in hand may go on after the stop: most of the time there is.
const FINISH_WITHIN: Duration = Duration::from_secs(5);
/// Events counted in one transaction: enough to make its fsync cheap, few enough to stay well below a second.
const EVENTS_PER_BATCH: usize = 200;
/// Wake-ups handled together; each is a transaction of its own.
const NOTICES_PER_BATCH: usize = 20;

/// Runs until a signal asks it to stop.
pub(crate) async fn up(config: Config) -> anyhow::Result<Exit> {
    let policies = Arc::new(PolicyBook::load(config.pipelines.as_deref())?);
    std::fs::create_dir_all(&config.data_dir)
        .with_context(|| format!("cannot make the data folder {}", config.data_dir.display()))?;
    let _lock = lock(&config.data_dir)?;
    let server = supervise(&config).await?;
    let nats_url = match (&server, &config.nats_url) {
        (Some(server), _) => server.url().to_owned(),
        (None, Some(url)) => url.expose().to_owned(),
        (None, None) => unreachable!("without an address a server is supervised"),
    };
    let database = instance::database(&config.data_dir);
    let store = SqliteStore::open_and_migrate(&database).await;
    let store =
        Arc::new(store.with_context(|| format!("the database {} cannot be used", database.display()))?);
    let listener = retro_http::listen(config.http_listen)
        .await
        .context("the HTTP side cannot start; --http-listen chooses another address")?;
    let http_url = format!("http://{}", listener.local_addr()?);

    let stop = CancellationToken::new();
    let tasks = TaskTracker::new();
    let root = Root { config: &config, store, policies, stop: stop.clone(), tasks: tasks.clone() };
    let bus = root.connect(&nats_url).await?;
    let outbox = Arc::new(Notify::new());
    root.start_stages(&bus, &outbox);
    root.start_http(listener, &bus, &outbox);

    Instance { pid: std::process::id(), nats_url, http_url: http_url.clone() }.write(&config.data_dir)?;
    output::told(&format!("retro is up: {http_url} (data in {})", config.data_dir.display()));
    wait_for_signal().await?;
    stop_in_order(&config, stop, tasks, server).await
}

/// Two processes on one data folder would fight over the broker's store.
fn lock(data_dir: &Path) -> anyhow::Result<File> {
    let path = data_dir.join("lock");
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    if file.try_lock().is_err() {
        bail!("another `retro up` uses {}; stop it or give another --data-dir", data_dir.display());
    }
    Ok(file)
}

/// Starts a nats-server of our own, unless an address was given.
async fn supervise(config: &Config) -> anyhow::Result<Option<NatsServer>> {
    if config.nats_url.is_some() {
        return Ok(None);
    }
    let server = NatsServer::start(ServerConfig {
        binary: config.nats_server.clone(),
        data_dir: config.data_dir.join("nats"),
        port: Some(config.nats_port).filter(|port| *port != 0),
    })
    .await?;
    info!(url = server.url(), "nats-server is healthy");
    Ok(Some(server))
}

/// What the stages are put together from.
struct Root<'a> {
    config: &'a Config,
    store: Arc<SqliteStore>,
    policies: Arc<PolicyBook>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Root<'_> {
    async fn connect(&self, url: &str) -> anyhow::Result<Bus> {
        let bus = Bus::connect(BusConfig::new(url, "retro-up")).await?;
        topology::ensure(&bus).await.context("cannot set up the broker's streams")?;
        Ok(bus)
    }

    fn start_stages(&self, bus: &Bus, outbox: &Arc<Notify>) {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let counter =
            Arc::new(Counter::new(self.store.clone(), self.policies.clone(), clock.clone(), outbox.clone()));
        let sampler = Arc::new(Sampler::new(self.store.clone(), outbox.clone()));
        let writer = Arc::new(Writer::new(
            self.store.clone(),
            self.policies.clone(),
            Arc::new(NgramEmbedder),
            clock,
            outbox.clone(),
        ));
        let publisher: Arc<dyn Publisher> = Arc::new(NoticePublisher::new(bus.clone()));
        self.tasks.spawn(run_relay(self.store.clone(), publisher, outbox.clone(), self.stop.clone()));
        self.consume(
            bus,
            counter.clone(),
            Subscription::new(topology::INTAKE, &["retro.run.completed.>"], EVENTS_PER_BATCH),
        );
        self.consume(bus, sampler.clone(), woken_by("retrospective.due"));
        self.consume(bus, writer.clone(), woken_by("mutations.due"));
        self.start_investigators(bus, outbox);
        self.sweep("counter", move || {
            let counter = counter.clone();
            async move { counter.sweep().await }
        });
        self.sweep("sampler", move || {
            let sampler = sampler.clone();
            async move { sampler.sweep().await }
        });
        self.sweep("writer", move || {
            let writer = writer.clone();
            async move { writer.sweep().await }
        });
    }

    fn start_investigators(&self, bus: &Bus, outbox: &Arc<Notify>) {
        let objects: Arc<dyn Objects> = Arc::new(BodyStore::new(bus.clone()));
        let settings = Settings {
            worker: format!("up-{}", std::process::id()),
            lease_s: self.config.lease_s,
            deadline_s: self.config.deadline_s,
            sweep: Duration::from_millis(self.config.sweep_ms),
            finish_within: FINISH_WITHIN,
        };
        let worker = Arc::new(Worker::new(
            self.store.clone(),
            objects,
            Arc::new(Heuristics),
            outbox.clone(),
            settings,
        ));
        self.consume(bus, worker.clone(), woken_by("investigation.due"));
        for _ in 0..self.config.investigators {
            let (worker, stop) = (worker.clone(), self.stop.clone());
            self.tasks.spawn(async move { worker.run(stop).await });
        }
    }

    fn consume(&self, bus: &Bus, consumer: Arc<dyn Consumer>, subscription: Subscription) {
        let deliveries: Arc<dyn DeliveryStore> = self.store.clone();
        self.tasks.spawn(run_consumer(bus.clone(), consumer, subscription, deliveries, self.stop.clone()));
    }

    /// Looks every so often for what a lost message left.
    fn sweep<F, R>(&self, who: &'static str, look: F)
    where
        F: Fn() -> R + Send + 'static,
        R: Future<Output = Result<usize, StoreError>> + Send,
    {
        let (pause, stop) = (Duration::from_millis(self.config.sweep_ms), self.stop.clone());
        self.tasks.spawn(async move {
            loop {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                }
                match look().await {
                    Ok(0) => {}
                    Ok(found) => info!(found, "the {who}'s sweep took up {found}"),
                    Err(problem) => warn!("the {who}'s sweep failed: {problem}"),
                }
            }
        });
    }

    /// The agents' routes and the people's, on one address.
    fn start_http(&self, listener: TcpListener, bus: &Bus, outbox: &Arc<Notify>) {
        let broker = bus.clone();
        let ready: ReadyCheck = Arc::new(move || {
            if broker.is_connected() {
                Readiness::Ready
            } else {
                Readiness::NotReady("the broker is away".to_owned())
            }
        });
        let redact: SharedRedact = Arc::new(|text: &str| Redactor::shared().text(text).into_owned());
        let gateway = Gateway::new(self.store.clone(), self.policies.clone());
        let reception = Reception::new(
            Arc::new(EventIntake::new(bus.clone())),
            Arc::new(BodyStore::new(bus.clone())),
            Arc::new(SystemClock),
            Gate::new(gate_bounds(self.config)),
        );
        let people = retro_operator::router(self.store.clone(), redact);
        let steering =
            Steering::new(self.store.clone(), self.policies.clone(), Arc::new(SystemClock), outbox.clone());
        let people = people.merge(steer_router(steering));
        let router = retro_gateway::router(gateway, reception, ready).merge(people);
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            if let Err(problem) = retro_http::serve(listener, router, stop).await {
                error!("the HTTP side ended: {problem}");
            }
        });
    }
}

fn gate_bounds(config: &Config) -> GateBounds {
    const MIB: u64 = 1024 * 1024;
    GateBounds {
        bytes_max: u64::from(config.intake_mib) * MIB,
        tenant_bytes_max: u64::from(config.intake_tenant_mib) * MIB,
    }
}

/// The wake-ups of one kind.
fn woken_by(kind: &str) -> Subscription {
    Subscription::new(topology::WORK, &[&format!("retro.work.{kind}.>")], NOTICES_PER_BATCH)
}

/// The first signal asks for an orderly stop.
async fn wait_for_signal() -> anyhow::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// Drains the stages, then ends the server. A second signal, or too long a wait, ends at once.
async fn stop_in_order(
    config: &Config,
    stop: CancellationToken,
    tasks: TaskTracker,
    server: Option<NatsServer>,
) -> anyhow::Result<Exit> {
    output::told("stopping; a second signal ends at once");
    stop.cancel();
    tasks.close();
    let in_order = tokio::select! {
        () = tasks.wait() => true,
        () = tokio::time::sleep(STOP_MAX) => false,
        _ = wait_for_signal() => false,
    };
    if let Some(server) = server {
        server.stop().await;
    }
    Instance::remove(&config.data_dir);
    if !in_order {
        bail!("stopped before everything was drained; nothing is lost, the next start takes it up");
    }
    Ok(Exit::Done)
}
