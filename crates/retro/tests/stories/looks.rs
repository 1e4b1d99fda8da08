//! Delays the stream checks while the broker keeps everything: the database restarts, processes are stopped,
//! the connection to the database freezes. No loss may be reported. `make restarts RESTARTS=200` runs the
//! given number of rounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::world::{
    DatabaseKind, Fleet, FreezableProxy, NatsConnection, RawMessage, build_correcting_runs, json_items,
    json_text,
};

/// Roles of the processes, each started twice.
const ROLES: [&str; 3] = ["counter", "relay", "sampler,investigator,writer,reviewer,tracker"];
/// The shortest interval between stream checks that the configuration allows.
const FAST_ENV: [(&str, &str); 2] = [("RETRO_RECONCILE_INTERVAL_MS", "100"), ("RETRO_LEASE_S", "5")];
/// Number of database restarts, and of stopped processes, unless the environment sets another.
const ROUNDS: usize = 3;
/// Interval in rounds at which the connection is frozen as well: a process stopped within a transaction
/// blocks the others for seconds.
const FREEZE_LINE_EVERY: usize = 10;
/// Pause between messages to the intake stream.
const PUBLISH_EVERY: Duration = Duration::from_millis(20);
/// Number of messages by which other processes must see the stream grow before a delayed check continues.
const GROWTH_MESSAGES: u64 = 5;

#[tokio::test]
async fn delayed_stream_checks_report_no_loss_while_the_broker_keeps_everything() {
    let rounds =
        std::env::var("RESTARTS").map_or(ROUNDS, |rounds| rounds.parse().expect("a number of rounds"));
    let began = Instant::now();
    let mut fleet = Fleet::start(DatabaseKind::Postgres, &[]).await;
    let line = FreezableProxy::start(fleet.database_url()).await;
    for roles in ROLES {
        let held_up = [&FAST_ENV[..], &[("DATABASE_URL", line.url())]].concat();
        for environment in [&held_up[..], &FAST_ENV] {
            let nth = fleet.serve_with_env(roles, environment);
            fleet.wait_until_ready(nth).await;
        }
    }
    let publisher = Publisher::start(&fleet).await;
    for round in 0..rounds {
        restart_database(&mut fleet, &publisher).await;
        freeze_process(&fleet, round % fleet.process_count()).await;
        if round.is_multiple_of(FREEZE_LINE_EVERY) {
            freeze_line(&fleet, &line).await;
        }
        let run = build_correcting_runs("ci", "deploy", round as u64..round as u64 + 1);
        fleet.publish_event("default", "ci", &run[0]).await;
    }
    // One more for the event that the publisher repeats.
    fleet.wait_until_counted("default", rounds as u64 + 1).await;
    for nth in 0..fleet.process_count() {
        fleet.wait_until_ready(nth).await;
    }
    let published = publisher.stop().await;
    let log = fleet.read_log();
    let alarms: Vec<_> = ["was replaced: the broker created", "lost with the broker"]
        .map(|words| log.lines().filter(|line| line.contains(words)).count())
        .into();
    println!(
        "{rounds} restarts of Postgres, {rounds} processes stopped and woken, {} times the line held up, {published} messages in \
         {:.0} s: {} streams told as others, {} losses told",
        rounds.div_ceil(FREEZE_LINE_EVERY),
        began.elapsed().as_secs_f64(),
        alarms[0],
        alarms[1],
    );
    assert_eq!(alarms, [0, 0], "{}", fleet.log_tail());
    let rows = fleet.postgres().execute_sql("SELECT count(*) FROM streams WHERE incarnation > 1").await;
    assert_eq!(rows[0][0].as_deref(), Some("0"), "the outbox was published again needlessly");
    let doctor = fleet.run_json(&["doctor"]).await;
    let lost =
        json_items(&doctor).iter().find(|check| check["check"] == "losses").expect("the check is listed");
    assert_eq!(json_text(lost, "detail"), "nothing that is known by name");
    fleet.wait_until_idle().await;
    assert_eq!(fleet.verify_store().await["runs"], json!(rounds + 1));
    fleet.stop_all().await;
}

/// Stops the database while stream checks are on their way to it.
async fn restart_database(fleet: &mut Fleet, publisher: &Publisher) {
    fleet.stop_database();
    publisher.wait_until_sent_further(fleet).await;
    fleet.start_database().await;
    wait_until_observed_further(fleet).await;
}

/// Stops one process at an arbitrary moment while the others check the streams.
async fn freeze_process(fleet: &Fleet, nth: usize) {
    fleet.freeze(nth);
    fleet.wait_until_stopped(nth).await;
    wait_until_observed_further(fleet).await;
    fleet.resume(nth);
}

/// Freezes the database connection of one process of each kind after it has queried the broker, while the
/// others check the streams.
async fn freeze_line(fleet: &Fleet, line: &FreezableProxy) {
    line.freeze();
    wait_until_observed_further(fleet).await;
    line.thaw();
}

/// Waits until a process has observed a longer intake stream.
async fn wait_until_observed_further(fleet: &Fleet) {
    let before = read_observed_position(fleet).await;
    let further = async || (read_observed_position(fleet).await >= before + GROWTH_MESSAGES).then_some(());
    fleet.wait_for("a process has observed a longer stream", further).await;
}

async fn read_observed_position(fleet: &Fleet) -> u64 {
    const OBSERVED_POSITION: &str =
        "SELECT coalesce(max(last_sequence), 0) FROM streams WHERE stream = 'RETRO_INTAKE'";
    let rows = fleet.postgres().execute_sql(OBSERVED_POSITION).await;
    rows[0][0].as_deref().expect("a position").parse().expect("a number")
}

/// A publisher that repeats one event, so the stream grows and nothing else does.
struct Publisher {
    stop: CancellationToken,
    sent: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Publisher {
    async fn start(fleet: &Fleet) -> Self {
        let mut wire = NatsConnection::connect(fleet.nats_url()).await;
        let [event] = &build_correcting_runs("again", "deploy", 0..1)[..] else { panic!("one event") };
        let message = RawMessage {
            subject: "retro.run.completed.default.again".to_owned(),
            headers: vec![("content-type".to_owned(), "application/cloudevents+json".to_owned())],
            payload: event.to_string().into_bytes(),
        };
        let stop = CancellationToken::new();
        let (stopped, sent) = (stop.clone(), Arc::<AtomicU64>::default());
        let counter = sent.clone();
        let task = tokio::spawn(async move {
            let mut pace = tokio::time::interval(PUBLISH_EVERY);
            while stopped.run_until_cancelled(pace.tick()).await.is_some() {
                let stored = wire.publish(&message).await;
                assert_eq!(stored["error"], Value::Null, "{stored}");
                counter.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { stop, sent, task }
    }

    /// Waits until more messages were sent.
    async fn wait_until_sent_further(&self, fleet: &Fleet) {
        let before = self.sent.load(Ordering::SeqCst);
        let further = async || (self.sent.load(Ordering::SeqCst) >= before + GROWTH_MESSAGES).then_some(());
        fleet.wait_for("the stream is longer", further).await;
    }

    /// Stops the publisher and returns the number of sent messages.
    async fn stop(self) -> u64 {
        self.stop.cancel();
        self.task.await.expect("the task ends without a panic");
        self.sent.load(Ordering::SeqCst)
    }
}
