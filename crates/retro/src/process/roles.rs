//! Assembles and starts the roles of a process. Every role may run in any number of processes.

use std::sync::Arc;
use std::time::Duration;

use retro_bus::{
    BodyStore, ConsumerProgress, DurableConsumer, OutboxPublisher, ReplayPublisher, Role, Subscription,
    announce_outbox, listen_for_outbox, run_consumer, run_reconciler, run_relay, watch_streams,
};
use retro_consumer::{Consumer, Sweep, run_sweep};
use retro_core::time::Clock;
use retro_counter::Counter;
use retro_events::Publisher;
use retro_fetch::Fetcher;
use retro_investigator::{BodySources, Worker, WorkerSettings};
use retro_reviewer::{Reviewer, ReviewerPorts};
use retro_sampler::Sampler;
use retro_store::{BrokerStore, DeliveryStore};
use retro_tracker::Tracker;
use retro_writer::{VectorSweep, Writer};

use super::gauges::GaugeUpdater;
use super::replay::Replayer;
use super::retention;
use super::running::RunningProcess;
use crate::clock::SystemClock;
use crate::telemetry::process_name;

/// Maximum number of events counted per transaction: enough to spread the cost of the fsync, and few enough
/// to stay well below a second.
const EVENTS_PER_BATCH: usize = 500;
/// Maximum number of messages pulled together, each handled in its own transaction.
const NOTICES_PER_BATCH: usize = 20;

impl RunningProcess {
    /// Starts the task that wakes the relay of another process, unless this process has the role of the relay.
    pub(super) fn start_outbox_announcements(&self) {
        if !self.process.roles.contains(&Role::Relay) {
            let (bus, written) = (self.process.bus.clone(), self.outbox.clone());
            self.tasks.spawn(announce_outbox(bus, written, self.stop.clone()));
        }
    }

    /// Starts the tasks of one role.
    pub(super) fn start_role(&self, role: Role) {
        match role {
            Role::Counter => self.start_counter(),
            Role::Sampler => self.start_sampler(),
            Role::Investigator => self.start_investigators(),
            Role::Writer => self.start_writer(),
            Role::Reviewer => self.start_reviewer(),
            Role::Tracker => self.start_tracker(),
            Role::Relay => self.start_relay(),
            // These roles have been serving since their listeners opened.
            Role::Gateway | Role::Bridge => {}
        }
    }

    fn start_counter(&self) {
        let (store, policies) = (self.process.store.clone(), self.process.policies.clone());
        let counter = Counter::new(store, policies, system_clock(), self.outbox.clone());
        let durable = Role::Counter.durable_consumer().expect("the counter has a durable consumer");
        let progress = ConsumerProgress::new(self.process.bus.clone(), durable);
        let counter =
            counter.with_dataref_hosts(self.process.dataref_hosts()).with_progress(Arc::new(progress));
        let counter = Arc::new(counter);
        self.start_consumer(Role::Counter, counter.clone(), EVENTS_PER_BATCH);
        let stores: (Arc<dyn DeliveryStore>, Arc<dyn BrokerStore>) =
            (self.process.store.clone(), self.process.store.clone());
        let subscription = self.build_subscription(Role::Counter, EVENTS_PER_BATCH);
        let (bus, pause, stop) = (self.process.bus.clone(), self.reconcile_interval(), self.stop.clone());
        self.tasks.spawn(run_reconciler(bus, counter.clone(), subscription, stores, pause, stop));
        let (opener, stop) = (counter.clone(), self.stop.clone());
        self.tasks.spawn(async move { opener.open_in_order(stop).await });
        self.start_sweep(Role::Counter, counter);
    }

    fn start_sampler(&self) {
        let sampler = Arc::new(Sampler::new(self.process.store.clone(), self.outbox.clone()));
        self.start_consumer(Role::Sampler, sampler.clone(), NOTICES_PER_BATCH);
        self.start_sweep(Role::Sampler, sampler);
    }

    fn start_writer(&self) {
        let (store, policies) = (self.process.store.clone(), self.process.policies.clone());
        let writer = Writer::new(store, policies, system_clock(), self.outbox.clone());
        let writer = Arc::new(writer.with_vector_source(self.process.vectors.clone()));
        self.start_consumer(Role::Writer, writer.clone(), NOTICES_PER_BATCH);
        self.start_sweep(Role::Writer, writer.clone());
        // A sweep of its own, so a slow model does not delay other work.
        self.start_sweep(Role::Writer, Arc::new(VectorSweep::new(writer)));
    }

    /// Starts the reviewer, whose sweep makes the decisions, because no message announces that the debounce
    /// time of a pull request is over.
    fn start_reviewer(&self) {
        let judgement = ReviewerPorts {
            reader: self.process.reader.clone(),
            policies: self.process.policies.clone(),
            pipelines: self.process.policies.clone(),
            vectors: self.process.vectors.clone(),
            clock: system_clock(),
        };
        let (wait_s, claim_s) = (self.process.config.review_debounce_s, self.process.config.lease_s);
        let reviewer =
            Reviewer::new(self.process.store.clone(), judgement, self.outbox.clone(), wait_s, claim_s);
        let reviewer = Arc::new(reviewer);
        self.start_consumer(Role::Reviewer, reviewer.clone(), EVENTS_PER_BATCH);
        self.start_sweep(Role::Reviewer, reviewer);
    }

    fn start_tracker(&self) {
        let tracker = Arc::new(Tracker::new(self.process.store.clone(), self.outbox.clone()));
        self.start_consumer(Role::Tracker, tracker.clone(), NOTICES_PER_BATCH);
        self.start_sweep(Role::Tracker, tracker);
    }

    /// Starts the investigators. They need no sweep, because each one polls for investigations that it can
    /// claim.
    fn start_investigators(&self) {
        let config = &self.process.config;
        let settings = WorkerSettings {
            worker: process_name(),
            lease_s: config.lease_s,
            investigation_timeout_s: config.investigation_timeout_s,
            sweep_interval: Duration::from_millis(config.sweep_interval_ms),
            shutdown_grace: Duration::from_secs(config.shutdown_grace_s),
            watchdog: self.watchdog.clone(),
        };
        let bodies = BodySources {
            objects: Arc::new(BodyStore::new(self.process.bus.clone())),
            https: Arc::new(Fetcher::new(self.process.dataref_hosts())),
            job_logs: self.process.job_logs.clone(),
        };
        let (store, engine) = (self.process.store.clone(), self.process.engine.clone());
        let worker = Arc::new(Worker::new(store, bodies, engine, self.outbox.clone(), settings));
        self.start_consumer(Role::Investigator, worker.clone(), NOTICES_PER_BATCH);
        for _ in 0..config.investigators {
            let (worker, stop) = (worker.clone(), self.stop.clone());
            self.tasks.spawn(async move { worker.run(stop).await });
        }
    }

    /// Starts the relay. As the role with the least to do, it also sends replays, purges expired details,
    /// checks that the broker's streams were not replaced, and updates the database gauges.
    fn start_relay(&self) {
        let publisher: Arc<dyn Publisher> = Arc::new(OutboxPublisher::new(self.process.bus.clone()));
        let (store, outbox) = (self.process.store.clone(), self.outbox.clone());
        self.tasks.spawn(run_relay(store, publisher, outbox.clone(), self.stop.clone()));
        // Other processes write messages too.
        self.tasks.spawn(listen_for_outbox(self.process.bus.clone(), outbox, self.stop.clone()));
        let broker: Arc<dyn BrokerStore> = self.process.store.clone();
        let (bus, pause, stop) = (self.process.bus.clone(), self.reconcile_interval(), self.stop.clone());
        self.tasks.spawn(watch_streams(bus, broker, pause, stop));
        let replayer = Replayer {
            store: self.process.store.clone(),
            policies: self.process.policies.clone(),
            clock: system_clock(),
            resender: ReplayPublisher::new(self.process.bus.clone()),
            outbox: self.outbox.clone(),
            lost_after_s: self.process.config.replay_timeout_s,
        };
        self.tasks.spawn(replayer.run(self.stop.clone()));
        let ages = retention::RetentionAges::from_config(&self.process.config);
        self.tasks.spawn(retention::run_retention(self.process.store.clone(), ages, self.stop.clone()));
        self.tasks.spawn(self.gauge_updater().update_database_gauges(self.process.store.clone()));
    }

    fn start_consumer(&self, role: Role, consumer: Arc<dyn Consumer>, batch_max: usize) {
        let subscription = self.build_subscription(role, batch_max);
        let deliveries: Arc<dyn DeliveryStore> = self.process.store.clone();
        let bus = self.process.bus.clone();
        let durable = role.durable_consumer().expect("every consuming role has a durable consumer");
        self.tasks.spawn(self.gauge_updater().update_lag(bus.clone(), durable));
        self.tasks.spawn(run_consumer(bus, consumer, subscription, deliveries, self.stop.clone()));
    }

    fn build_subscription(&self, role: Role, batch_max: usize) -> Subscription {
        let durable: DurableConsumer =
            role.durable_consumer().expect("every consuming role has a durable consumer");
        let config = &self.process.config;
        Subscription {
            ack_wait: Duration::from_secs(config.ack_wait_s),
            handle_timeout: Duration::from_secs(config.handler_timeout_s),
            retry_wait_min: Duration::from_millis(config.retry_initial_ms),
            watchdog: self.watchdog.clone(),
            ..Subscription::for_durable(durable, batch_max)
        }
    }

    const fn reconcile_interval(&self) -> Duration {
        Duration::from_millis(self.process.config.reconcile_interval_ms)
    }

    pub(super) fn gauge_updater(&self) -> GaugeUpdater {
        let every = Duration::from_secs(self.process.config.metrics_interval_s);
        GaugeUpdater { interval: every, clock: system_clock(), stop: self.stop.clone() }
    }

    /// Starts a role's sweep, which finds work whose message was lost.
    fn start_sweep(&self, role: Role, sweep: Arc<dyn Sweep>) {
        let interval = Duration::from_millis(self.process.config.sweep_interval_ms);
        self.tasks.spawn(run_sweep(role.as_str(), sweep, interval, self.stop.clone()));
    }
}

fn system_clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}
