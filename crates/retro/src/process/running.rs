//! Parts of a process, before and while it runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use retro_bus::server::ServerState;
use retro_bus::{Bus, Role};
use retro_config::Config;
use retro_consumer::Watchdog;
use retro_events::JobLogFetcher;
use retro_events::hosts::DatarefHosts;
use retro_http::Scrape;
use retro_investigator::Engine;
use retro_reviewer::RemarkReader;
use retro_store::{AgentStore, EmbeddingSource, Store};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::readiness::ReadinessState;
use crate::policies::PolicySource;

/// The parts of a process that is about to run.
pub(crate) struct Process {
    pub(crate) config: Config,
    pub(crate) roles: BTreeSet<Role>,
    pub(crate) store: Arc<dyn Store>,
    /// Handle to the same database with its own connection pool, for agents' requests.
    pub(crate) agents: Arc<dyn AgentStore>,
    pub(crate) bus: Bus,
    /// Connection for requests of agents over the broker; `None` if this process does not answer them.
    pub(crate) agents_bus: Option<Bus>,
    pub(crate) policies: Arc<PolicySource>,
    /// Engine of the investigators.
    pub(crate) engine: Arc<dyn Engine>,
    /// Reader of the remarks of reviews.
    pub(crate) reader: Arc<dyn RemarkReader>,
    /// Fetcher of the logs of failed jobs, for the investigators; `None` without a token.
    pub(crate) job_logs: Option<Arc<dyn JobLogFetcher>>,
    /// Source of the embeddings for comparing lessons; `None` for the built-in embedder.
    pub(crate) vectors: Option<Arc<dyn EmbeddingSource>>,
    /// State of the supervised broker; `None` if the broker is external.
    pub(crate) supervised: Option<watch::Receiver<ServerState>>,
    /// Callback for `/metrics`.
    pub(crate) metrics: Scrape,
}

/// A running process, with the state shared by its tasks.
pub(super) struct RunningProcess {
    pub(super) process: Process,
    /// Notified if there may be messages to send.
    pub(super) outbox: Arc<Notify>,
    pub(super) ready: ReadinessState,
    pub(super) stop: CancellationToken,
    /// `true` if the last check found that the broker belongs to another database.
    pub(super) is_foreign: Arc<watch::Sender<bool>>,
    pub(super) tasks: TaskTracker,
    pub(super) watchdog: Watchdog,
}

impl Process {
    /// Returns the hosts, other than the broker, from which bodies may be fetched.
    pub(super) fn dataref_hosts(&self) -> DatarefHosts {
        self.config.allowed_hosts().expect("invalid hosts were rejected when the configuration was loaded")
    }
}
