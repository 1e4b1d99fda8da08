//! Negative controls: a guard of the program is taken away, something happens that the guard is there for, and the checker
//! has to name what no longer holds. With the guard the same passes.

use std::path::PathBuf;

use retro_checker::{CheckReport, Invariant, ProgressFloor};
use retro_fault::Guard;
use serde_json::Value;

use crate::world::{Fleet, Kind, Sent, Wire, Witness, mending};

/// Everything but the gateway.
const ALL: &str = "counter,sampler,investigator,writer,relay";
/// The backstop feeds a counter without an inbox again and again, so that on a slow machine nothing ever comes to rest: it
/// looks when a process starts, and not while a control goes on.
const RARE: (&str, &str) = ("RETRO_RECONCILE_INTERVAL_MS", "3600000");
/// Enough for one retrospective.
const RUNS: u64 = 10;

#[tokio::test]
async fn without_the_inbox_redelivered_messages_count_their_runs_again_and_that_is_named() {
    caught(Guard::Inbox, Invariant::RunOnce, async |kind, guards| {
        let mut control = Control::begin(kind, guards).await;
        let process = control.serve(ALL, &[]).await;
        control.emit(0..RUNS).await;
        let floor = ProgressFloor { counted: RUNS, closed: 1, ..ProgressFloor::default() };
        control.witness.judge(&control.fleet, &floor).await;
        // Whoever makes the consumer anew gets every message again that was acknowledged.
        control.fleet.stop(process).await;
        let deleted = control.wire().await.ask("CONSUMER.DELETE.RETRO_INTAKE.counter", &Value::Null).await;
        assert_eq!(deleted["success"], true, "{deleted}");
        control.witness.fault("redelivery", "every message of the intake stream");
        control.fleet.migrate_impatient().await;
        control.serve(ALL, &[]).await;
        control.end(floor.with_fault("redelivery", 1)).await
    })
    .await;
}

#[tokio::test]
async fn without_fencing_two_workers_hold_one_investigation_and_that_is_named() {
    caught(Guard::Fencing, Invariant::TokensGrow, async |kind, guards| {
        let mut control = Control::begin(kind, guards).await;
        control.serve("counter,sampler,writer,relay", &[]).await;
        let stop = [("FAULT_STOP", "claim.commit:after")];
        let zombie = control.serve("investigator", &stop).await;
        control.emit(0..RUNS).await;
        control.fleet.stopped(zombie).await;
        // Its lease runs out, and another one takes over and comes no further.
        let heir = control.start("investigator", &stop);
        control.fleet.stopped(heir).await;
        control.witness.fault("stop", "two workers, each with the same investigation claimed");
        control.witness.moment().await;
        let told = control.fleet.whole_log().len();
        control.fleet.wake(zombie);
        control.goes_on_or_is_fenced(told).await;
        control.fleet.wake(heir);
        let floor = ProgressFloor { counted: RUNS, closed: 1, ..ProgressFloor::default() };
        control.end(floor.with_fault("stop", 1)).await
    })
    .await;
}

#[tokio::test]
async fn without_effect_keys_a_change_happens_twice_and_that_is_named() {
    caught(Guard::EffectKey, Invariant::EffectOnce, async |kind, guards| {
        let mut control = Control::begin(kind, guards).await;
        control.serve(ALL, &[]).await;
        control.emit(0..RUNS).await;
        let floor = ProgressFloor { counted: RUNS, closed: 1, ..ProgressFloor::default() };
        control.witness.judge(&control.fleet, &floor).await;
        control.closed_again().await;
        control.end(floor.with_fault("redelivery", 1)).await
    })
    .await;
}

#[tokio::test]
async fn without_the_outbox_a_message_is_lost_when_the_relay_dies_and_that_is_named() {
    caught(Guard::Outbox, Invariant::OutboxDrained, async |kind, guards| {
        let mut control = Control::begin(kind, guards).await;
        control.dies_at("relay.mark.commit:after").await;
        control.serve(ALL, &[]).await;
        control
            .end(
                ProgressFloor { counted: RUNS, closed: 1, ..ProgressFloor::default() }.with_fault("crash", 1),
            )
            .await
    })
    .await;
}

#[tokio::test]
async fn without_its_id_a_letter_is_written_twice_when_giving_up_is_repeated_and_that_is_named() {
    caught(Guard::LetterId, Invariant::LetterOnce, async |kind, guards| {
        let mut control = Control::begin(kind, guards).await;
        let poison = control.witness.emitter("a broken engine");
        poison.emit("deploy", &[b"\xff is no UTF-8".to_vec()]).await;
        control.dies_at("bury.commit:after").await;
        control.serve(ALL, &[]).await;
        let floor = ProgressFloor { counted: RUNS, closed: 1, letters: 1, ..ProgressFloor::default() };
        control.end(floor.with_fault("crash", 1)).await
    })
    .await;
}

/// On either database: with its guards the program passes; without this one the checker names the invariant.
#[expect(clippy::print_stdout, reason = "what the checker named is for whoever reads the suite")]
async fn caught(guard: Guard, invariant: Invariant, story: impl AsyncFn(Kind, Option<Guard>) -> CheckReport) {
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let sound = story(kind, None).await;
        sound.assert_sound();
        let broken = story(kind, Some(guard)).await;
        let named: Vec<_> = broken.broken_invariants().into_iter().map(Invariant::as_str).collect();
        println!("{kind:?} without {}: {}", guard.as_str(), named.join(", "));
        assert!(
            broken.broken_invariants().contains(&invariant),
            "{} was not named: {named:?}",
            invariant.as_str()
        );
    }
}

/// A small fleet, perhaps without one of its guards.
struct Control {
    fleet: Fleet,
    witness: Witness,
    guard: Option<Guard>,
}

impl Control {
    async fn begin(kind: Kind, guard: Option<Guard>) -> Self {
        let fleet = Fleet::impatient(kind).await;
        let history: PathBuf = fleet.path("history.jsonl");
        let witness = Witness::of(&fleet, &history).await;
        Self { fleet, witness, guard }
    }

    async fn wire(&self) -> Wire {
        Wire::to(self.fleet.nats_url()).await
    }

    /// Starts a process, which is ready when this returns.
    async fn serve(&mut self, roles: &str, environment: &[(&str, &str)]) -> usize {
        let process = self.start(roles, environment);
        self.fleet.ready(process).await;
        process
    }

    fn start(&mut self, roles: &str, environment: &[(&str, &str)]) -> usize {
        let guard = self.guard.map_or("", Guard::as_str);
        let environment = [environment, &[("FAULT_BREAK", guard), RARE]].concat();
        self.fleet.serve_impatient(roles, &environment)
    }

    async fn emit(&self, runs: std::ops::Range<u64>) {
        let events = mending("deploy", "deploy_service", runs);
        let payloads: Vec<_> = events.iter().map(|event| event.to_string().into_bytes()).collect();
        self.witness.emitter("an engine").emit("deploy", &payloads).await;
    }

    /// A process that dies at a point is given work until it does; perhaps before it says that it is ready, since there may be
    /// work for it already.
    async fn dies_at(&mut self, point: &str) {
        let process = self.start(ALL, &[("FAULT_CRASH", point)]);
        self.emit(0..RUNS).await;
        assert_eq!(self.fleet.ended(process).await, None, "a signal ended it");
        self.witness.death("crash", point);
    }

    /// The woken worker either went on, or was told that its claim is another's.
    async fn goes_on_or_is_fenced(&self, told: usize) {
        let look = async || {
            let fenced = self.fleet.whole_log()[told..].contains("stopped investigation");
            let state = self.witness.now().await?;
            (fenced || state.investigations.iter().any(|one| one.ended)).then_some(())
        };
        self.fleet.until("the woken worker has done something", look).await;
    }

    /// What woke the writer comes again, under an id of its own.
    async fn closed_again(&mut self) {
        let mut wire = self.wire().await;
        let sent = wire.all("RETRO_WORK").await;
        let wakes = |message: &&Sent| message.subject.starts_with("retro.work.mutations.due");
        let again = sent.iter().rfind(wakes).expect("the writer was woken").clone();
        let answer = wire.publish(&Sent { headers: Vec::new(), ..again }).await;
        assert!(answer["seq"].is_u64(), "{answer}");
        self.witness.fault("redelivery", "what woke the writer");
    }

    async fn end(mut self, floor: ProgressFloor) -> CheckReport {
        let checked = self.witness.judge(&self.fleet, &floor).await;
        self.fleet.stop_all().await;
        checked
    }
}
