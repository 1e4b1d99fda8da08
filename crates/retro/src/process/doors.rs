//! Where the process can be asked: HTTP for agents and people, and its health for whoever runs it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use retro_bus::{BodyStore, EventIntake, Role};
use retro_config::{Config, Secret};
use retro_gateway::{Gateway, IngestService};
use retro_github::{Bridge, Outlets, Secrets};
use retro_http::{BodyBudget, BudgetBounds, Idempotency, Probes, TenantLimiter, serve_waiting};
use retro_operator::{
    Mending, Replays, SharedRedact, Steering, mend_router, replay_router, requests_router, steer_router,
};
use retro_redact::Redactor;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, warn};

use super::{Process, Running};
use crate::clock::SystemClock;
use crate::hands::Hands;

/// Requests of people that are answered at once, lists and exports among them: as many as people ask for, and few beside the connections and cores
/// that agents need.
const PEOPLE_AT_ONCE: usize = 32;
/// Of them, a tenant's.
const PEOPLE_AT_ONCE_OF_TENANT: usize = 24;

/// Listeners that were opened before anything else, so that an address that is taken ends the start.
pub(crate) struct Doors {
    /// Agents, people and health; of the gateway.
    http: Option<TcpListener>,
    /// GitHub; of the bridge.
    bridge: Option<TcpListener>,
    /// Health alone, for any role.
    health: Option<TcpListener>,
}

impl Doors {
    /// Opens what these roles need, and the health side where one is configured. Fails when there is no secret for a bridge.
    pub(crate) async fn open(config: &Config, roles: &BTreeSet<Role>) -> anyhow::Result<Self> {
        let http = match roles.contains(&Role::Gateway) {
            true => Some(
                retro_http::listen(config.http_listen)
                    .await
                    .context("the HTTP side cannot start; --http-listen chooses another address")?,
            ),
            false => None,
        };
        let bridge = match roles.contains(&Role::Bridge) {
            true => Some(open_bridge(config).await?),
            false => None,
        };
        let health = match config.health_listen {
            Some(address) => Some(
                retro_http::listen_anywhere(address)
                    .await
                    .context("the health side cannot start; --health-listen chooses another address")?,
            ),
            None => None,
        };
        Ok(Self { http, bridge, health })
    }

    /// The address of the HTTP side, with the port that was taken.
    pub(crate) fn http_url(&self) -> Option<String> {
        url(self.http.as_ref())
    }

    /// Where GitHub's webhooks are taken, likewise.
    pub(crate) fn bridge_url(&self) -> Option<String> {
        Some(format!("{}{}", url(self.bridge.as_ref())?, retro_github::ROUTE))
    }

    /// The address of the health side, likewise.
    pub(crate) fn health_url(&self) -> Option<String> {
        url(self.health.as_ref())
    }
}

impl Doors {
    /// Serves what can be served while the process cannot be put together yet: health, context and memories; everything
    /// else on the HTTP side is answered by 503 with what is missing. Ends with `stop`; the listeners stay open. The
    /// bridge's connections wait: GitHub tells of a failed delivery, which can be delivered again.
    pub(crate) fn serve_waiting(
        &self,
        gateway: &Gateway,
        probes: &Probes,
        stop: &CancellationToken,
        served: &TaskTracker,
    ) -> anyhow::Result<()> {
        if let Some(http) = &self.http {
            let api = retro_gateway::waiting_router(gateway.clone(), probes.clone());
            served.spawn(serve_waiting(again(http)?, api, probes.ready.clone(), stop.clone()));
        }
        if let Some(health) = &self.health {
            let (listener, probes, stop) = (again(health)?, probes.clone(), stop.clone());
            served.spawn(async move {
                if let Err(problem) = retro_http::serve_health(listener, probes, stop).await {
                    error!("the health side ended: {problem}");
                }
            });
        }
        Ok(())
    }
}

/// Another handle of the same listener: what waits to be accepted is not lost when one of them is closed.
fn again(listener: &TcpListener) -> anyhow::Result<TcpListener> {
    let other = listener.as_fd().try_clone_to_owned().context("a listener cannot be shared")?;
    Ok(TcpListener::from_std(std::net::TcpListener::from(other))?)
}

/// Nobody's webhook would be believed without a secret, and everybody's must not be.
async fn open_bridge(config: &Config) -> anyhow::Result<TcpListener> {
    if !config.is_bridged() {
        bail!(
            "the role bridge needs the secret of GitHub's webhooks: set github_secret or github_secret_file, or \
             github_tenant_secrets where each tenant has its own"
        );
    }
    let listener = retro_http::listen_anywhere(config.bridge_listen).await;
    listener.context("the bridge cannot start; bridge_listen chooses another address")
}

fn url(listener: Option<&TcpListener>) -> Option<String> {
    let address: SocketAddr = listener?.local_addr().ok()?;
    Some(format!("http://{address}"))
}

impl Running {
    /// Serves, from the first moment. The HTTP side ends with the stop; health is told until the returned token is
    /// cancelled.
    pub(super) fn open(&self, doors: Doors) -> CancellationToken {
        let closed = CancellationToken::new();
        if let Some(listener) = doors.http {
            let store = &self.process.store;
            // What only these routes need, the tokenizer's vocabulary, is read here.
            let gateway = self.gateway();
            let redact: SharedRedact = Arc::new(|text: &str| Redactor::shared().text(text).into_owned());
            let (policies, outbox) = (self.process.policies.clone(), self.outbox.clone());
            let vectors = self.process.vectors.clone();
            let hands = Arc::new(Hands::new(store.clone(), policies.clone(), vectors, outbox.clone()));
            let steering = Steering::new(store.clone(), Arc::new(SystemClock));
            let replays =
                Replays::new(store.clone(), policies, Arc::new(SystemClock), outbox, redact.clone());
            let replays = replays.taking_bodies_at(self.process.hosts());
            let mending =
                Mending::new(store.clone(), Arc::new(SystemClock), self.process.hosts(), redact.clone());
            let people = retro_operator::router(store.clone(), redact)
                .merge(steer_router(steering))
                .merge(mend_router(mending))
                .merge(replay_router(replays))
                .merge(requests_router(hands))
                .limit_in_flight(TenantLimiter::new(PEOPLE_AT_ONCE, PEOPLE_AT_ONCE_OF_TENANT));
            let idempotency = Idempotency::new(store.clone());
            self.tasks.spawn(idempotency.clone().forget_old(self.stop.clone()));
            let ingest = self.ingest(idempotency);
            let router = retro_gateway::router(gateway, ingest, self.probes()).merge(people);
            let stop = self.stop.clone();
            self.tasks.spawn(async move {
                if let Err(problem) = retro_http::serve(listener, router, stop).await {
                    error!("the HTTP side ended: {problem}");
                }
            });
        }
        if let Some(listener) = doors.bridge {
            let (router, stop) = (retro_github::router(self.bridge()), self.stop.clone());
            self.tasks.spawn(async move {
                if let Err(problem) = retro_http::serve_signed(listener, router, stop).await {
                    error!("the bridge ended: {problem}");
                }
            });
        }
        if let Some(listener) = doors.health {
            let (probes, closed) = (self.probes(), closed.clone());
            tokio::spawn(async move {
                if let Err(problem) = retro_http::serve_health(listener, probes, closed).await {
                    error!("the health side ended: {problem}");
                }
            });
        }
        closed
    }

    fn gateway(&self) -> Gateway {
        let Process { agents, policies, config, .. } = &self.process;
        let gateway = Gateway::new(agents.clone(), policies.clone());
        gateway.answering_within(Duration::from_millis(config.answer_ms))
    }

    fn bridge(&self) -> Bridge {
        let Process { bus, config, .. } = &self.process;
        let secrets = config.github_secrets();
        let secrets = Secrets::new(&secrets.iter().map(Secret::expose).collect::<Vec<_>>());
        let of_tenants = config.github_tenant_secrets();
        let of_tenants =
            of_tenants.expect("a line that cannot be used was refused when the configuration was read");
        let secrets = of_tenants
            .iter()
            .fold(secrets, |secrets, (tenant, secret)| secrets.and_of(tenant, secret.expose()));
        let tenants = config.github_tenants();
        let tenants =
            tenants.expect("an entry that cannot be used was refused when the configuration was read");
        if tenants.is_empty() {
            warn!(
                "github_tenants is empty: every webhook is left alone, since its repository belongs to no tenant"
            );
        }
        let intake = Arc::new(EventIntake::new(bus.clone()));
        let outlets = Outlets { events: intake.clone(), runs: intake };
        Bridge::new(secrets, tenants, outlets, Arc::new(SystemClock), mib(config.bridge_mib))
    }

    fn probes(&self) -> Probes {
        Probes { ready: self.ready.check(), metrics: self.process.metrics.clone() }
    }

    fn ingest(&self, idempotency: Idempotency) -> IngestService {
        let Process { bus, config, .. } = &self.process;
        let bounds = BudgetBounds {
            bytes_max: mib(config.intake_mib),
            owner_bytes_max: mib(config.intake_tenant_mib),
        };
        let (intake, objects) = (EventIntake::new(bus.clone()), BodyStore::new(bus.clone()));
        let budget = BodyBudget::new(bounds);
        IngestService::new(Arc::new(intake), Arc::new(objects), Arc::new(SystemClock), budget, idempotency)
            .taking_bodies_at(self.process.hosts())
    }
}

fn mib(mib: u32) -> u64 {
    u64::from(mib) * 1024 * 1024
}
