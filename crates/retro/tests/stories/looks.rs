//! The broker keeps everything, and the program's looks at it are held up: the database restarts, processes stand still, the
//! line to the database freezes. Nobody is told that anything was lost. `make restarts RESTARTS=200` plays as many rounds as are asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::world::{Fleet, Kind, Line, Sent, Wire, items, mending, text};

/// Two processes of each.
const ROLES: [&str; 3] = ["counter", "relay", "sampler,investigator,writer,reviewer,tracker"];
/// The looks come as quickly as the configuration lets them.
const QUICK: [(&str, &str); 2] = [("RETRO_RECONCILE_INTERVAL_MS", "100"), ("RETRO_LEASE_S", "5")];
/// Restarts, and as many processes that stand still, unless the environment asks for more.
const ROUNDS: usize = 3;
/// Every so many rounds the line is held up as well: whoever stands still in a transaction holds up the others for seconds.
const HELD_UP_EVERY: usize = 10;
/// Between two messages that make the intake stream longer.
const PUBLISH_EVERY: Duration = Duration::from_millis(20);
/// So much longer has the stream to look to others before a look that was held up goes on.
const GROWS_BY: u64 = 5;

#[tokio::test]
async fn looks_that_are_held_up_while_the_broker_keeps_everything_tell_no_loss() {
    let rounds =
        std::env::var("RESTARTS").map_or(ROUNDS, |rounds| rounds.parse().expect("a number of rounds"));
    let began = Instant::now();
    let mut fleet = Fleet::start(Kind::Postgres, &[]).await;
    let line = Line::to(fleet.database_url()).await;
    for roles in ROLES {
        let held_up = [&QUICK[..], &[("DATABASE_URL", line.url())]].concat();
        for environment in [&held_up[..], &QUICK] {
            let nth = fleet.serve_with(roles, environment);
            fleet.ready(nth).await;
        }
    }
    let publisher = Publisher::start(&fleet).await;
    for round in 0..rounds {
        restart_database(&mut fleet, &publisher).await;
        freeze_process(&fleet, round % fleet.processes()).await;
        if round.is_multiple_of(HELD_UP_EVERY) {
            hold_up_line(&fleet, &line).await;
        }
        let run = mending("ci", "deploy", round as u64..round as u64 + 1);
        fleet.publish("default", "ci", &run[0]).await;
    }
    // And the event that the publisher repeats.
    fleet.counted("default", rounds as u64 + 1).await;
    for nth in 0..fleet.processes() {
        fleet.ready(nth).await;
    }
    let published = publisher.stop().await;
    let log = fleet.whole_log();
    let alarms: Vec<_> = ["was replaced: the broker created", "lost with the broker"]
        .map(|words| log.lines().filter(|line| line.contains(words)).count())
        .into();
    println!(
        "{rounds} restarts of Postgres, {rounds} processes stopped and woken, {} times the line held up, {published} messages in \
         {:.0} s: {} streams told as others, {} losses told",
        rounds.div_ceil(HELD_UP_EVERY),
        began.elapsed().as_secs_f64(),
        alarms[0],
        alarms[1],
    );
    assert_eq!(alarms, [0, 0], "{}", fleet.log());
    let rows = fleet.postgres().execute_sql("SELECT count(*) FROM streams WHERE number > 1").await;
    assert_eq!(rows[0][0].as_deref(), Some("0"), "the outbox is fed again for nothing");
    let doctor = fleet.ask(&["doctor"]).await;
    let lost = items(&doctor).iter().find(|check| check["what"] == "lost").expect("it looks");
    assert_eq!(text(lost, "detail"), "nothing that is known by name");
    fleet.still().await;
    assert_eq!(fleet.sound().await["runs"], json!(rounds + 1));
    fleet.stop_all().await;
}

/// Looks are on their way to a database that is away for a while.
async fn restart_database(fleet: &mut Fleet, publisher: &Publisher) {
    fleet.stop_database();
    publisher.sent_further(fleet).await;
    fleet.start_database().await;
    seen_further(fleet).await;
}

/// One process stands still wherever it is, and the others look on.
async fn freeze_process(fleet: &Fleet, nth: usize) {
    fleet.freeze(nth);
    fleet.stopped(nth).await;
    seen_further(fleet).await;
    fleet.wake(nth);
}

/// One process of each has asked the broker and cannot tell the database, and the others look on.
async fn hold_up_line(fleet: &Fleet, line: &Line) {
    line.freeze();
    seen_further(fleet).await;
    line.thaw();
}

/// Waits until the database knows of a longer intake stream than now.
async fn seen_further(fleet: &Fleet) {
    let before = seen_to(fleet).await;
    let further = async || (seen_to(fleet).await >= before + GROWS_BY).then_some(());
    fleet.until("somebody has seen a longer stream", further).await;
}

async fn seen_to(fleet: &Fleet) -> u64 {
    const SEEN: &str = "SELECT coalesce(max(seen_to), 0) FROM streams WHERE stream = 'RETRO_INTAKE'";
    let rows = fleet.postgres().execute_sql(SEEN).await;
    rows[0][0].as_deref().expect("a position").parse().expect("a number")
}

/// Somebody who sends one event again and again: the stream grows, and nothing else does.
struct Publisher {
    stop: CancellationToken,
    sent: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Publisher {
    async fn start(fleet: &Fleet) -> Self {
        let mut wire = Wire::to(fleet.nats_url()).await;
        let [event] = &mending("again", "deploy", 0..1)[..] else { panic!("one event") };
        let message = Sent {
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

    /// Waits until the stream is longer than now.
    async fn sent_further(&self, fleet: &Fleet) {
        let before = self.sent.load(Ordering::SeqCst);
        let further = async || (self.sent.load(Ordering::SeqCst) >= before + GROWS_BY).then_some(());
        fleet.until("the stream is longer", further).await;
    }

    /// Returns how many messages it has sent.
    async fn stop(self) -> u64 {
        self.stop.cancel();
        self.task.await.expect("it ends in order");
        self.sent.load(Ordering::SeqCst)
    }
}
