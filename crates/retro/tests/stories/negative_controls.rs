//! Negative controls: one guard of the program is disabled, the situation that it protects against happens,
//! and the checker must report the broken invariant. With the guard, the same scenario passes.

use std::path::PathBuf;

use retro_checker::{CheckReport, Invariant, ProgressFloor};
use retro_fault::Guard;
use serde_json::Value;

use crate::world::{DatabaseKind, Fleet, NatsConnection, Observer, RawMessage, build_correcting_runs};

/// All roles except the gateway.
const ALL_ROLES: &str = "counter,sampler,investigator,writer,relay";
/// Reconciliation would feed a counter without an inbox again and again, so a slow machine would never become
/// idle. With this interval, it runs at the start of a process and not again during a test.
const RARE_RECONCILE: (&str, &str) = ("RETRO_RECONCILE_INTERVAL_MS", "3600000");
/// Number of runs that fill one window.
const RUNS: u64 = 10;

#[tokio::test]
async fn without_the_inbox_redelivered_runs_are_counted_twice_and_the_checker_reports_it() {
    assert_checker_reports(Guard::Inbox, Invariant::RunOnce, async |kind, guards| {
        let mut control = ControlFleet::start_process(kind, guards).await;
        let process = control.serve_until_ready(ALL_ROLES, &[]).await;
        control.emit_runs(0..RUNS).await;
        let floor = ProgressFloor { counted: RUNS, closed: 1, ..ProgressFloor::default() };
        control.witness.check_when_idle(&control.fleet, &floor).await;
        // A recreated consumer delivers all acknowledged messages again.
        control.fleet.stop(process).await;
        let deleted = control
            .connect_wire()
            .await
            .request_api("CONSUMER.DELETE.RETRO_INTAKE.counter", &Value::Null)
            .await;
        assert_eq!(deleted["success"], true, "{deleted}");
        control.witness.record_fault("redelivery", "every message of the intake stream");
        control.fleet.migrate_with_short_timeouts().await;
        control.serve_until_ready(ALL_ROLES, &[]).await;
        control.finish(floor.with_fault("redelivery", 1)).await
    })
    .await;
}

#[tokio::test]
async fn without_fencing_two_workers_hold_one_investigation_and_the_checker_reports_it() {
    assert_checker_reports(Guard::Fencing, Invariant::TokensGrow, async |kind, guards| {
        let mut control = ControlFleet::start_process(kind, guards).await;
        control.serve_until_ready("counter,sampler,writer,relay", &[]).await;
        // One investigator a process: a second one could be within a write when the first stops the process, and
        // on SQLite nobody else would write any more.
        let stop = [("FAULT_STOP", "claim.commit:after"), ("RETRO_INVESTIGATORS", "1")];
        let zombie = control.serve_until_ready("investigator", &stop).await;
        control.emit_runs(0..RUNS).await;
        control.fleet.wait_until_stopped(zombie).await;
        // The lease expires; another worker takes over and is stopped at the same point.
        let successor = control.start("investigator", &stop);
        control.fleet.wait_until_stopped(successor).await;
        control.witness.record_fault("stop", "two workers, each with the same investigation claimed");
        control.witness.capture_state().await;
        let log_length = control.fleet.read_log().len();
        control.fleet.resume(zombie);
        control.wait_until_resumed_or_fenced(log_length).await;
        control.fleet.resume(successor);
        let floor = ProgressFloor { counted: RUNS, closed: 1, ..ProgressFloor::default() };
        control.finish(floor.with_fault("stop", 1)).await
    })
    .await;
}

#[tokio::test]
async fn without_effect_keys_a_change_happens_twice_and_the_checker_reports_it() {
    assert_checker_reports(Guard::EffectKey, Invariant::EffectOnce, async |kind, guards| {
        let mut control = ControlFleet::start_process(kind, guards).await;
        control.serve_until_ready(ALL_ROLES, &[]).await;
        control.emit_runs(0..RUNS).await;
        let floor = ProgressFloor { counted: RUNS, closed: 1, ..ProgressFloor::default() };
        control.witness.check_when_idle(&control.fleet, &floor).await;
        control.redeliver_writer_wake_up().await;
        control.finish(floor.with_fault("redelivery", 1)).await
    })
    .await;
}

#[tokio::test]
async fn without_the_outbox_a_message_is_lost_when_the_relay_dies_and_the_checker_reports_it() {
    assert_checker_reports(Guard::Outbox, Invariant::OutboxDrained, async |kind, guards| {
        let mut control = ControlFleet::start_process(kind, guards).await;
        control.crash_at("relay.mark.commit:after").await;
        control.serve_until_ready(ALL_ROLES, &[]).await;
        control
            .finish(
                ProgressFloor { counted: RUNS, closed: 1, ..ProgressFloor::default() }.with_fault("crash", 1),
            )
            .await
    })
    .await;
}

#[tokio::test]
async fn without_its_id_a_dead_letter_is_stored_twice_and_the_checker_reports_it() {
    assert_checker_reports(Guard::DeadLetterId, Invariant::DeadLetterOnce, async |kind, guards| {
        let mut control = ControlFleet::start_process(kind, guards).await;
        let poison = control.witness.create_emitter("a broken engine");
        poison.emit_until_stored("deploy", &[b"\xff is no UTF-8".to_vec()]).await;
        control.crash_at("dead_letter.commit:after").await;
        control.serve_until_ready(ALL_ROLES, &[]).await;
        let floor = ProgressFloor { counted: RUNS, closed: 1, dead_letters: 1, ..ProgressFloor::default() };
        control.finish(floor.with_fault("crash", 1)).await
    })
    .await;
}

/// On each database, the program with all guards passes, and without this one the checker reports the
/// invariant.
#[expect(clippy::print_stdout, reason = "the checker's report is for readers of the test output")]
async fn assert_checker_reports(
    guard: Guard,
    invariant: Invariant,
    story: impl AsyncFn(DatabaseKind, Option<Guard>) -> CheckReport,
) {
    for kind in [DatabaseKind::Sqlite, DatabaseKind::Postgres] {
        let sound = story(kind, None).await;
        sound.assert_sound();
        let broken = story(kind, Some(guard)).await;
        let named: Vec<_> = broken.broken_invariants().into_iter().map(Invariant::as_str).collect();
        println!("{kind:?} without {}: {}", guard.as_str(), named.join(", "));
        assert!(
            broken.broken_invariants().contains(&invariant),
            "{} was not reported: {named:?}",
            invariant.as_str()
        );
    }
}

/// A small fleet with all guards, or with one of them disabled.
struct ControlFleet {
    fleet: Fleet,
    witness: Observer,
    guard: Option<Guard>,
}

impl ControlFleet {
    async fn start_process(kind: DatabaseKind, guard: Option<Guard>) -> Self {
        let fleet = Fleet::start_with_short_timeouts(kind).await;
        let history: PathBuf = fleet.path("history.jsonl");
        let witness = Observer::start(&fleet, &history).await;
        Self { fleet, witness, guard }
    }

    async fn connect_wire(&self) -> NatsConnection {
        NatsConnection::connect(self.fleet.nats_url()).await
    }

    /// Starts a process and waits until it is ready.
    async fn serve_until_ready(&mut self, roles: &str, environment: &[(&str, &str)]) -> usize {
        let process = self.start(roles, environment);
        self.fleet.wait_until_ready(process).await;
        process
    }

    fn start(&mut self, roles: &str, environment: &[(&str, &str)]) -> usize {
        let guard = self.guard.map_or("", Guard::as_str);
        let environment = [environment, &[("FAULT_BREAK", guard), RARE_RECONCILE]].concat();
        self.fleet.serve_with_short_timeouts(roles, &environment)
    }

    async fn emit_runs(&self, runs: std::ops::Range<u64>) {
        let events = build_correcting_runs("deploy", "deploy_service", runs);
        let payloads: Vec<_> = events.iter().map(|event| event.to_string().into_bytes()).collect();
        self.witness.create_emitter("an engine").emit_until_stored("deploy", &payloads).await;
    }

    /// Starts a process that dies at a fault label and gives it work until it does. It may die before it is
    /// ready, because there may already be work for it.
    async fn crash_at(&mut self, point: &str) {
        let process = self.start(ALL_ROLES, &[("FAULT_CRASH", point)]);
        self.emit_runs(0..RUNS).await;
        assert_eq!(self.fleet.wait_for_exit(process).await, None, "ended by a signal");
        self.witness.record_kill("crash", point);
    }

    /// Waits until the resumed worker has either continued or been fenced.
    async fn wait_until_resumed_or_fenced(&self, log_length: usize) {
        let look = async || {
            let fenced = self.fleet.read_log()[log_length..].contains("stopped investigation");
            let state = self.witness.read_state().await?;
            (fenced || state.investigations.iter().any(|one| one.ended)).then_some(())
        };
        self.fleet.wait_for("the resumed worker has done something", look).await;
    }

    /// Publishes the writer's wake-up again, without its message id.
    async fn redeliver_writer_wake_up(&mut self) {
        let mut wire = self.connect_wire().await;
        let sent = wire.list_messages("RETRO_WORK").await;
        let wakes = |message: &&RawMessage| message.subject.starts_with("retro.work.mutations.due");
        let again = sent.iter().rfind(wakes).expect("the writer's wake-up was sent").clone();
        let answer = wire.publish(&RawMessage { headers: Vec::new(), ..again }).await;
        assert!(answer["seq"].is_u64(), "{answer}");
        self.witness.record_fault("redelivery", "the writer's wake-up");
    }

    async fn finish(mut self, floor: ProgressFloor) -> CheckReport {
        let checked = self.witness.check_when_idle(&self.fleet, &floor).await;
        self.fleet.stop_all().await;
        checked
    }
}
