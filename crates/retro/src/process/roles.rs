//! Each role, put together from its ports. Every one may run any number of times.

use std::sync::Arc;
use std::time::Duration;

use retro_bus::{
    BodyStore, Durable, NoticePublisher, Resender, Role, Subscription, run_consumer, run_reconciler,
    run_relay, watch_streams,
};
use retro_core::time::Clock;
use retro_counter::Counter;
use retro_events::{Consumer, Publisher};
use retro_fetch::Fetcher;
use retro_investigator::{Bodies, Heuristics, Settings, Worker};
use retro_reviewer::{Judgement, Reviewer};
use retro_sampler::Sampler;
use retro_store::{BrokerStore, DeliveryStore, StoreError};
use retro_tracker::Tracker;
use retro_watchdog::caught;
use retro_writer::Writer;
use tracing::{error, info, warn};

use super::levels::Looking;
use super::replay::Replayer;
use super::{Running, keep};
use crate::clock::SystemClock;
use crate::telemetry::process_name;

/// Events counted in one transaction: enough to make its fsync cheap, few enough to stay well below a second.
const EVENTS_PER_BATCH: usize = 200;
/// Wake-ups handled together; each is a transaction of its own.
const NOTICES_PER_BATCH: usize = 20;

impl Running {
    /// Starts one role's work.
    pub(super) fn start_role(&self, role: Role) {
        match role {
            Role::Counter => self.start_counter(),
            Role::Sampler => self.start_sampler(),
            Role::Investigator => self.start_investigators(),
            Role::Writer => self.start_writer(),
            Role::Reviewer => self.start_reviewer(),
            Role::Tracker => self.start_tracker(),
            Role::Relay => self.start_relay(),
            // They answer since their doors are open.
            Role::Gateway | Role::Bridge => {}
        }
    }

    fn start_counter(&self) {
        let (store, policies) = (self.process.store.clone(), self.process.policies.clone());
        let counter = Counter::new(store, policies, clock(), self.outbox.clone());
        let counter = Arc::new(counter.taking_bodies_at(self.process.hosts()));
        self.consume(Role::Counter, counter.clone(), EVENTS_PER_BATCH);
        let stores: (Arc<dyn DeliveryStore>, Arc<dyn BrokerStore>) =
            (self.process.store.clone(), self.process.store.clone());
        let subscription = self.subscription(Role::Counter, EVENTS_PER_BATCH);
        let (bus, pause, stop) = (self.process.bus.clone(), self.backstop_pause(), self.stop.clone());
        self.tasks.spawn(run_reconciler(bus, counter.clone(), subscription, stores, pause, stop));
        self.sweep(Role::Counter, move || {
            let counter = counter.clone();
            async move { counter.sweep().await }
        });
    }

    fn start_sampler(&self) {
        let sampler = Arc::new(Sampler::new(self.process.store.clone(), self.outbox.clone()));
        self.consume(Role::Sampler, sampler.clone(), NOTICES_PER_BATCH);
        self.sweep(Role::Sampler, move || {
            let sampler = sampler.clone();
            async move { sampler.sweep().await }
        });
    }

    fn start_writer(&self) {
        let (store, policies) = (self.process.store.clone(), self.process.policies.clone());
        let writer = Writer::new(store, policies, clock(), self.outbox.clone());
        let writer = Arc::new(writer.comparing_by(self.process.vectors.clone()));
        self.consume(Role::Writer, writer.clone(), NOTICES_PER_BATCH);
        let embedding = writer.clone();
        self.sweep(Role::Writer, move || {
            let writer = writer.clone();
            async move { writer.sweep().await }
        });
        // By itself: a model that is slow keeps nothing else waiting.
        self.sweep(Role::Writer, move || {
            let writer = embedding.clone();
            async move { writer.sweep_vectors().await }
        });
    }

    /// Its sweep is what decides: a pull request is due when its wait is over, of which no message tells.
    fn start_reviewer(&self) {
        let judgement = Judgement {
            reader: Arc::new(retro_reviewer::Heuristics),
            policies: self.process.policies.clone(),
            vectors: self.process.vectors.clone(),
            clock: clock(),
        };
        let wait_s = self.process.config.review_wait_s;
        let reviewer = Reviewer::new(self.process.store.clone(), judgement, self.outbox.clone(), wait_s);
        let reviewer = Arc::new(reviewer);
        self.consume(Role::Reviewer, reviewer.clone(), EVENTS_PER_BATCH);
        self.sweep(Role::Reviewer, move || {
            let reviewer = reviewer.clone();
            async move { reviewer.sweep().await }
        });
    }

    fn start_tracker(&self) {
        let tracker = Arc::new(Tracker::new(self.process.store.clone(), self.outbox.clone()));
        self.consume(Role::Tracker, tracker.clone(), NOTICES_PER_BATCH);
        self.sweep(Role::Tracker, move || {
            let tracker = tracker.clone();
            async move { tracker.sweep().await }
        });
    }

    /// Their sweep is the claim itself, which each makes every so often.
    fn start_investigators(&self) {
        let config = &self.process.config;
        let settings = Settings {
            worker: process_name(),
            lease_s: config.lease_s,
            deadline_s: config.deadline_s,
            sweep: Duration::from_millis(config.sweep_ms),
            finish_within: Duration::from_secs(config.finish_s),
            watchdog: self.watchdog.clone(),
        };
        let bodies = Bodies {
            objects: Arc::new(BodyStore::new(self.process.bus.clone())),
            https: Arc::new(Fetcher::new(self.process.hosts())),
        };
        let (store, engine) = (self.process.store.clone(), Arc::new(Heuristics));
        let worker = Arc::new(Worker::new(store, bodies, engine, self.outbox.clone(), settings));
        self.consume(Role::Investigator, worker.clone(), NOTICES_PER_BATCH);
        for _ in 0..config.investigators {
            let (worker, stop) = (worker.clone(), self.stop.clone());
            self.tasks.spawn(async move { worker.run(stop).await });
        }
    }

    /// Of all roles it has the least to do: it sends dead letters again, purges what has grown old, and looks whether the
    /// broker's streams are the ones that they were, and how things stand.
    fn start_relay(&self) {
        let publisher: Arc<dyn Publisher> = Arc::new(NoticePublisher::new(self.process.bus.clone()));
        let (store, outbox) = (self.process.store.clone(), self.outbox.clone());
        self.tasks.spawn(run_relay(store, publisher, outbox, self.stop.clone()));
        let broker: Arc<dyn BrokerStore> = self.process.store.clone();
        let (bus, pause, stop) = (self.process.bus.clone(), self.backstop_pause(), self.stop.clone());
        self.tasks.spawn(watch_streams(bus, broker, pause, stop));
        let replayer = Replayer {
            store: self.process.store.clone(),
            policies: self.process.policies.clone(),
            clock: clock(),
            resender: Resender::new(self.process.bus.clone()),
            outbox: self.outbox.clone(),
            lost_after_s: self.process.config.replay_lost_s,
        };
        self.tasks.spawn(replayer.run(self.stop.clone()));
        let ages = keep::Ages::of(&self.process.config);
        self.tasks.spawn(keep::run(self.process.store.clone(), ages, self.stop.clone()));
        self.tasks.spawn(self.looking().at_database(self.process.store.clone()));
    }

    fn consume(&self, role: Role, consumer: Arc<dyn Consumer>, batch_max: usize) {
        let subscription = self.subscription(role, batch_max);
        let deliveries: Arc<dyn DeliveryStore> = self.process.store.clone();
        let bus = self.process.bus.clone();
        let durable = role.durable().expect("a role that consumes has a consumer");
        self.tasks.spawn(self.looking().at_consumer(bus.clone(), durable));
        self.tasks.spawn(run_consumer(bus, consumer, subscription, deliveries, self.stop.clone()));
    }

    fn subscription(&self, role: Role, batch_max: usize) -> Subscription {
        let durable: Durable = role.durable().expect("a role that consumes has a consumer");
        let config = &self.process.config;
        Subscription {
            ack_wait: Duration::from_secs(config.ack_wait_s),
            handle_max: Duration::from_secs(config.handle_max_s),
            retry_first: Duration::from_millis(config.retry_first_ms),
            watchdog: self.watchdog.clone(),
            ..Subscription::of(durable, batch_max)
        }
    }

    const fn backstop_pause(&self) -> Duration {
        Duration::from_millis(self.process.config.backstop_ms)
    }

    pub(super) fn looking(&self) -> Looking {
        let every = Duration::from_secs(self.process.config.levels_s);
        Looking { every, clock: clock(), stop: self.stop.clone() }
    }

    /// Looks every so often for what a lost message left.
    fn sweep<F, R>(&self, role: Role, look: F)
    where
        F: Fn() -> R + Send + 'static,
        R: Future<Output = Result<usize, StoreError>> + Send,
    {
        let (pause, stop) = (Duration::from_millis(self.process.config.sweep_ms), self.stop.clone());
        self.tasks.spawn(async move {
            loop {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                }
                match caught(look()).await {
                    Ok(Ok(0)) => {}
                    Ok(Ok(found)) => info!(found, "the {role}'s sweep took up {found}"),
                    Ok(Err(problem)) => warn!("the {role}'s sweep failed: {problem}"),
                    Err(panicked) => error!("the {role}'s sweep failed: {panicked}"),
                }
            }
        });
    }
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}
