//! Opens and serves a process's listeners: HTTP for agents and operators, the bridge for GitHub, and health.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use retro_bus::{BodyStore, NatsIntakePublisher, Role, listen_for_memory_changes, serve_agents};
use retro_config::{Config, Secret};
use retro_core::time::Clock as _;
use retro_core::trace_collection::TraceWaits;
use retro_gateway::{AgentResponder, Gateway, IngestService, LessonSaver, TraceSettings};
use retro_github::{Bridge, Publishers, WebhookPublisher, WebhookSecrets};
use retro_http::{
    Api, Authenticator, BodyBudget, BudgetBounds, HttpServer, Idempotency, Probes, ServerCertificate,
    TenantLimiter, TokenRegistry,
};
use retro_operator::{
    CancelService, EditService, KillSwitchService, ReplayService, SharedRedactFn, cancel_router, edit_router,
    kill_switch_router, memory_commands_router, pipeline_router, replay_router, requests_router,
    rule_commands_router,
};
use retro_redact::Redactor;
use retro_store::{AgentStore, RecallStore};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, warn};

use super::running::{Process, RunningProcess};
use crate::clock::SystemClock;
use crate::github;
use crate::operator_commands::OperatorCommands;
use crate::policies::PolicySource;
use crate::run_importer::AdapterImporter;
use crate::store;
use crate::telemetry::process_name;

/// Maximum number of concurrent operator requests, including lists and exports. Enough for a team, and few
/// compared with the connections and cores that agents need.
const OPERATOR_REQUESTS_MAX: usize = 32;
/// Maximum number of concurrent operator requests per tenant.
const TENANT_OPERATOR_REQUESTS_MAX: usize = 24;

/// The listeners of a process. They are opened before anything else, so an address in use fails the start
/// early.
pub(crate) struct Listeners {
    /// Serves agents, operators and health; `None` without the gateway role.
    http: Option<TcpListener>,
    /// Certificate of the HTTP API; `None` serves it without TLS.
    certificate: Option<Arc<ServerCertificate>>,
    /// `true` if each request to the HTTP API needs an access token.
    requires_tokens: bool,
    /// Serves GitHub's webhooks; `None` without the bridge role.
    bridge: Option<TcpListener>,
    /// Serves only health, for any role; `None` if not configured.
    health: Option<TcpListener>,
}

impl Listeners {
    /// Opens the listeners for these roles, and the health listener if configured. Fails if the bridge has no
    /// webhook secret.
    pub(crate) async fn open(config: &Config, roles: &BTreeSet<Role>) -> anyhow::Result<Self> {
        let (http, certificate) = match roles.contains(&Role::Gateway) {
            true => (Some(listen_for_http(config).await?), load_certificate(config)?),
            false => (None, None),
        };
        let bridge = match roles.contains(&Role::Bridge) {
            true => Some(listen_for_webhooks(config).await?),
            false => None,
        };
        let health =
            match config.health_listen {
                Some(address) => Some(retro_http::listen_anywhere(address).await.context(
                    "the health listener cannot start; choose another address with --health-listen",
                )?),
                None => None,
            };
        Ok(Self { http, certificate, requires_tokens: config.requires_tokens(), bridge, health })
    }

    /// Returns the URL of the HTTP API with the actual port, or `None` without the gateway role.
    pub(crate) fn http_url(&self) -> Option<String> {
        let scheme = retro_http::url_scheme(self.certificate.as_deref());
        listener_url(scheme, self.http.as_ref())
    }

    /// Returns the URL for GitHub's webhooks with the actual port, or `None` without the bridge role.
    pub(crate) fn bridge_url(&self) -> Option<String> {
        Some(format!("{}{}", listener_url("http", self.bridge.as_ref())?, retro_github::ROUTE))
    }

    /// Returns the URL of the health listener with the actual port, or `None` if it is not configured.
    pub(crate) fn health_url(&self) -> Option<String> {
        listener_url("http", self.health.as_ref())
    }

    /// Returns the server of the HTTP API, which knows the access tokens of the store.
    fn http_server(&self, config: &Config, store: Arc<dyn AgentStore>) -> HttpServer {
        let timeout = Duration::from_millis(config.context_timeout_ms);
        let tokens = TokenRegistry::new(store, config.token_requests_per_s, timeout);
        let authenticator = match self.requires_tokens {
            true => Authenticator::with_required_tokens(tokens),
            false => Authenticator::with_optional_tokens(tokens),
        };
        HttpServer { authenticator, certificate: self.certificate.clone() }
    }
}

impl Listeners {
    /// Serves the routes that work before the process is assembled: health, context and memories. Every other
    /// HTTP route responds with 503 and a list of the missing parts. Stops when `stop` is cancelled, and
    /// leaves the listeners open. Connections to the bridge wait; GitHub shows a delivery that times out as
    /// failed and can redeliver it.
    pub(crate) fn serve_not_ready(
        &self,
        config: &Config,
        policies: &Arc<PolicySource>,
        probes: &Probes,
        stop: &CancellationToken,
        served: &TaskTracker,
    ) -> anyhow::Result<()> {
        if let Some(http) = &self.http {
            let agents = store::build_lazy_stores(config)?.agents;
            let gateway = Gateway::new(agents.clone(), policies.clone())
                .with_timeout(Duration::from_millis(config.context_timeout_ms));
            let api = retro_gateway::build_not_ready_router(gateway.clone(), probes.clone())
                .merge(retro_mcp::build_router(gateway, None));
            let (server, listener) = (self.http_server(config, agents), clone_listener(http)?);
            let serving = server.serve_not_ready(listener, api, probes.ready.clone(), stop.clone());
            served.spawn(async move {
                if let Err(problem) = serving.await {
                    error!("the HTTP listener failed: {problem}");
                }
            });
        }
        if let Some(health) = &self.health {
            let (listener, probes, stop) = (clone_listener(health)?, probes.clone(), stop.clone());
            served.spawn(async move {
                if let Err(problem) = retro_http::serve_health(listener, probes, stop).await {
                    error!("the health listener failed: {problem}");
                }
            });
        }
        Ok(())
    }
}

/// Duplicates a listener's handle, so closing one of the two handles does not lose the connections in the
/// accept queue.
fn clone_listener(listener: &TcpListener) -> anyhow::Result<TcpListener> {
    let other = listener.as_fd().try_clone_to_owned().context("a listener cannot be shared")?;
    Ok(TcpListener::from_std(std::net::TcpListener::from(other))?)
}

/// Opens the listener of the HTTP API. Fails if access tokens would be sent in clear text.
async fn listen_for_http(config: &Config) -> anyhow::Result<TcpListener> {
    if let Some((key, problem)) = config.find_http_problem() {
        bail!("the HTTP listener cannot start: {key} {problem}");
    }
    let address = config.http_listen;
    let listener = match config.requires_tokens() {
        true => retro_http::listen_anywhere(address).await,
        false => retro_http::listen(address).await,
    };
    listener.context("the HTTP listener cannot start; choose another address with --http-listen")
}

fn load_certificate(config: &Config) -> anyhow::Result<Option<Arc<ServerCertificate>>> {
    let Some((certificate, key)) = config.http_cert_file.as_ref().zip(config.http_key_file.as_ref()) else {
        return Ok(None);
    };
    let loaded = ServerCertificate::load(certificate, key);
    loaded.map(Some).context("the HTTP listener cannot start with `http_cert_file` and `http_key_file`")
}

/// Opens the listener for GitHub's webhooks. Fails without a webhook secret, because no signature could be
/// verified and unsigned webhooks must not be accepted.
async fn listen_for_webhooks(config: &Config) -> anyhow::Result<TcpListener> {
    if !config.has_bridge_secret() {
        bail!(
            "the role bridge needs the secret of GitHub's webhooks: set github_secret or github_secret_file, \
             or github_tenant_secrets if each tenant has its own"
        );
    }
    let listener = retro_http::listen_anywhere(config.bridge_listen).await;
    listener.context("the bridge cannot start; choose another address with bridge_listen")
}

fn listener_url(scheme: &str, listener: Option<&TcpListener>) -> Option<String> {
    let address: SocketAddr = listener?.local_addr().ok()?;
    Some(format!("{scheme}://{address}"))
}

impl RunningProcess {
    /// Serves all listeners from the start of the process: HTTP until the process stops, health until the
    /// returned token is cancelled.
    pub(super) fn serve_listeners(&self, listeners: Listeners) -> CancellationToken {
        let closed = CancellationToken::new();
        let Process { agents, config, .. } = &self.process;
        let server = listeners.http_server(config, agents.clone());
        if let Some(listener) = listeners.http {
            if let Some(certificate) = listeners.certificate {
                self.tasks.spawn(certificate.reload_when_changed(self.stop.clone()));
            }
            let router = self.build_http_router();
            let stop = self.stop.clone();
            self.tasks.spawn(async move {
                if let Err(problem) = server.serve(listener, router, stop).await {
                    error!("the HTTP listener failed: {problem}");
                }
            });
        }
        if let Some(listener) = listeners.bridge {
            let (router, stop) = (retro_github::router(self.build_bridge()), self.stop.clone());
            self.tasks.spawn(async move {
                if let Err(problem) = retro_http::serve_signed(listener, router, stop).await {
                    error!("the bridge failed: {problem}");
                }
            });
        }
        if let Some(listener) = listeners.health {
            // Not among `tasks`, because it must outlive them to report the shutdown.
            let (probes, closed) = (self.build_probes(), closed.clone());
            tokio::spawn(async move {
                if let Err(problem) = retro_http::serve_health(listener, probes, closed).await {
                    error!("the health listener failed: {problem}");
                }
            });
        }
        closed
    }

    /// Builds every route of the HTTP listener, and starts the tasks behind them until the process stops.
    fn build_http_router(&self) -> Api {
        let store = &self.process.store;
        // Also loads the tokenizer's vocabulary, which only these routes need.
        let gateway = self.start_gateway();
        self.start_agent_service(&gateway);
        let redact: SharedRedactFn = Arc::new(|text: &str| Redactor::shared().redact_text(text).into_owned());
        let (policies, outbox) = (self.process.policies.clone(), self.outbox.clone());
        let vectors = self.process.vectors.clone();
        let commands =
            Arc::new(OperatorCommands::new(store.clone(), policies.clone(), vectors, outbox.clone()));
        let lessons = commands.clone();
        let steering = CancelService::new(store.clone(), Arc::new(SystemClock));
        let replays =
            ReplayService::new(store.clone(), policies, Arc::new(SystemClock), outbox, redact.clone());
        let replays = replays.with_dataref_hosts(self.process.dataref_hosts());
        let edits = EditService::new(
            store.clone(),
            Arc::new(SystemClock),
            self.process.dataref_hosts(),
            redact.clone(),
        );
        let people = retro_operator::router(store.clone(), redact, Arc::new(SystemClock))
            .merge(cancel_router(steering))
            .merge(kill_switch_router(KillSwitchService::new(store.clone(), Arc::new(SystemClock))))
            .merge(pipeline_router(store.clone(), self.process.policies.clone()))
            .merge(edit_router(edits))
            .merge(replay_router(replays))
            .merge(requests_router(commands.clone()))
            .merge(memory_commands_router(commands.clone()))
            .merge(rule_commands_router(commands))
            .limit_in_flight(TenantLimiter::new(OPERATOR_REQUESTS_MAX, TENANT_OPERATOR_REQUESTS_MAX));
        let idempotency = Idempotency::new(store.clone());
        self.tasks.spawn(idempotency.clone().purge_expired(self.stop.clone()));
        let ingest = self.build_ingest(idempotency);
        self.start_reading_traces(ingest.clone());
        let saver: Arc<dyn LessonSaver> = lessons;
        let lessons = retro_gateway::lessons_router(saver.clone());
        retro_gateway::build_router(gateway.clone(), ingest, self.build_probes())
            .merge(lessons)
            .merge(retro_mcp::build_router(gateway, Some(saver)))
            .merge(people)
    }

    /// Returns the gateway, and starts what keeps its cache true.
    fn start_gateway(&self) -> Gateway {
        let Process { agents, policies, config, store, bus, vectors, .. } = &self.process;
        let gateway = Gateway::new(agents.clone(), policies.clone());
        let gateway = match vectors {
            Some(source) => gateway.with_embedder(source.clone(), agents.clone()),
            None => gateway,
        };
        let writes: Arc<dyn RecallStore> = store.clone();
        let name = format!("{} {}", process_name(), SystemClock.now().as_millisecond());
        let (gateway, worker) = gateway.with_cache(&writes, name);
        let caching = gateway.clone();
        let changed = move |key| caching.note_change(key);
        self.tasks.spawn(listen_for_memory_changes(bus.clone(), changed, self.stop.clone()));
        self.tasks.spawn(worker.run(self.stop.clone()));
        gateway.with_timeout(Duration::from_millis(config.context_timeout_ms))
    }

    /// Starts to answer agents over the broker, once the process is ready: the broker gives requests to any gateway that
    /// subscribes, and knows no readiness.
    fn start_agent_service(&self, gateway: &Gateway) {
        let Some(bus) = self.process.agents_bus.clone() else { return };
        let (service, started) = (Arc::new(AgentResponder::new(gateway.clone())), SystemClock.now());
        let (ready, stop) = (self.ready.clone(), self.stop.clone());
        self.tasks.spawn(async move {
            if stop.run_until_cancelled(ready.wait_until_ready()).await.is_some() {
                serve_agents(bus, service, started, stop).await;
            }
        });
    }

    fn build_bridge(&self) -> Bridge {
        let Process { bus, config, .. } = &self.process;
        let secrets = config.github_secrets();
        let secrets = WebhookSecrets::new(&secrets.iter().map(Secret::expose).collect::<Vec<_>>());
        let of_tenants = config.github_tenant_secrets();
        let of_tenants = of_tenants.expect("invalid lines were rejected when the configuration was loaded");
        let secrets = of_tenants
            .iter()
            .fold(secrets, |secrets, (tenant, secret)| secrets.with_tenant_secret(tenant, secret.expose()));
        let tenants = config.github_tenants();
        let tenants = tenants.expect("invalid entries were rejected when the configuration was loaded");
        if tenants.is_empty() {
            warn!(
                "github_tenants is empty: every webhook is ignored, since no repository is mapped to a tenant"
            );
        }
        let intake = Arc::new(NatsIntakePublisher::new(bus.clone()));
        let outlets = Publishers { events: intake.clone(), runs: intake };
        let publisher = WebhookPublisher::new(Arc::new(tenants), outlets, Arc::new(SystemClock))
            .with_log_host(github::log_host(config));
        Bridge::new(secrets, publisher, mib_to_bytes(config.bridge_mib))
    }

    fn build_probes(&self) -> Probes {
        Probes { ready: self.ready.ready_check(), metrics: self.process.metrics.clone() }
    }

    /// Starts the task that reads the runs of traces that came in parts, as soon as database and broker are there.
    fn start_reading_traces(&self, ingest: IngestService) {
        let interval = Duration::from_millis(self.process.config.sweep_interval_ms);
        let (ready, stop) = (self.ready.clone(), self.stop.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = ready.wait_until_ready() => ingest.read_traces(interval, stop.clone()).await,
            }
        });
    }

    fn build_ingest(&self, idempotency: Idempotency) -> IngestService {
        let Process { bus, config, .. } = &self.process;
        let bounds = BudgetBounds {
            bytes_max: mib_to_bytes(config.intake_mib),
            owner_bytes_max: mib_to_bytes(config.intake_tenant_mib),
        };
        let (intake, objects) = (NatsIntakePublisher::new(bus.clone()), BodyStore::new(bus.clone()));
        let budget = BodyBudget::new(bounds);
        let (clock, importer) = (Arc::new(SystemClock), Arc::new(AdapterImporter));
        let traces = TraceSettings {
            store: self.process.store.clone(),
            waits: TraceWaits { quiet_ms: config.trace_quiet_s * 1000, root_ms: config.trace_root_s * 1000 },
            tenant_bytes_max: mib_to_bytes(config.trace_tenant_mib),
            lease_s: config.lease_s,
        };
        IngestService::new(Arc::new(intake), Arc::new(objects), clock, budget, idempotency, importer, traces)
            .with_dataref_hosts(self.process.dataref_hosts())
    }
}

fn mib_to_bytes(mib: u32) -> u64 {
    u64::from(mib) * 1024 * 1024
}
