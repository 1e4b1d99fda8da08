//! Replays dead letters: one by two operators at once, many with a canary, and through a crash of the relay.

use retro_bus::OutgoingEvent;
use retro_core::id::{DeadLetterId, Tenant, Workflow, WorkflowKey};
use retro_core::replay::ReplayOutcome;
use retro_events::subject;
use retro_store::{DeadLetter, DeadLetterFilter, DeadLetterStatus, ReplayRow, ReplayState};
use serde_json::{Value, json};

use crate::world::{
    DatabaseKind, Fleet, World, build_correcting_runs, build_event, json_items, json_text, run_command,
};

pub(crate) const ROLES: &str = "counter,sampler,investigator,writer,relay,gateway";
/// With this variable, the events of these tests are accepted; without it, they are rejected.
pub(crate) const ALLOWED_HOSTS: (&str, &str) = ("RETRO_DATAREF_HOSTS", "runs.example.com");

#[tokio::test]
async fn a_dead_letter_replayed_by_two_people_at_once_is_handled_once() {
    check_concurrent_replay(DatabaseKind::Sqlite).await;
}

#[tokio::test]
async fn a_dead_letter_replayed_by_two_people_at_once_is_handled_once_over_postgres() {
    check_concurrent_replay(DatabaseKind::Postgres).await;
}

async fn check_concurrent_replay(kind: DatabaseKind) {
    let mut fleet = Fleet::start(kind, &[(ROLES, 1)]).await;
    publish_refused_run(&fleet, "one").await;
    let dead_letter = wait_for_dead_letters(&fleet, 1).await.remove(0);
    let id = dead_letter.id.to_string();
    let dry = ["dead-letters", "replay", &id, "--dry-run"];
    let seen = fleet.run_json(&dry).await;
    assert_eq!(
        (json_text(&seen, "effect"), json_text(&seen, "code")),
        ("fail_again", "dataref_refused"),
        "{seen}"
    );

    let seen = fleet.run_retro(&dry).await.out;
    assert!(seen.contains("it would fail again, dataref_refused at data.dataref"), "{seen}");
    assert!(seen.ends_with("nothing was sent\n"), "{seen}");

    // Replayed too early, it fails again and stays a single dead letter.
    let early =
        fleet.run_json(&["dead-letters", "replay", &id, "--by", "ann", "--reason", "is it mended?"]).await;
    assert_eq!(early["status"], "done", "{early}");
    let failed = wait_for_replay_outcome(&fleet, dead_letter.id, 1).await;
    assert!(matches!(&failed.outcome, Some(ReplayOutcome::Failed { .. })), "{failed:?}");
    let again = wait_for_dead_letters(&fleet, 1).await.remove(0);
    assert_eq!(
        (again.status, again.replays, &again.message),
        (DeadLetterStatus::Open, 1, &dead_letter.message)
    );

    // The host is allowed now.
    fleet.stop(0).await;
    let restarted = fleet.serve_with_env(ROLES, &[ALLOWED_HOSTS]);
    fleet.wait_until_ready(restarted).await;
    let seen = run_command(
        fleet.command(&[&dry[..], &["-o", "json"]].concat()).env(ALLOWED_HOSTS.0, ALLOWED_HOSTS.1),
    )
    .await;
    let seen = seen.parse_json();
    assert_eq!(json_text(&seen, "effect"), "count", "{seen}");
    assert!(json_text(&seen, "reason").contains("counts as run 1 of workflow shop"), "{seen}");
    let replay =
        |by: &'static str| ["dead-letters", "replay", &id, "--by", by, "--reason", "the host is allowed"];
    let (bob, cem) = (replay("bob"), replay("cem"));
    let (one, two) = tokio::join!(fleet.run_json(&bob), fleet.run_json(&cem));
    let mut statuses = [json_text(&one, "status"), json_text(&two, "status")];
    statuses.sort_unstable();
    assert_eq!(statuses, ["already_done", "done"], "{one} {two}");
    assert_eq!(one["replay"], two["replay"], "both name the same replay");
    let handled = wait_for_replay_outcome(&fleet, dead_letter.id, 2).await;
    assert_eq!((handled.state, &handled.outcome), (ReplayState::Handled, &Some(ReplayOutcome::Handled)));
    fleet.wait_until_counted("default", 1).await;
    assert_eq!(wait_for_dead_letters(&fleet, 1).await[0].status, DeadLetterStatus::Handled);

    // A later replay reports the earlier outcome, and the run is still counted once.
    let late = fleet.run_json(&replay("dan")).await;
    assert_eq!(late["status"], "already_done", "{late}");
    assert!(json_text(&late, "detail").contains("it was handled"), "{late}");
    let shown = fleet.run_json(&["dead-letters", "show", &id]).await;
    let who: Vec<&str> = json_items(&shown["audit_log"]).iter().map(|entry| json_text(entry, "by")).collect();
    assert_eq!(who, ["ann", handled.act.by.as_str()], "{shown}");
    let shown = fleet.run_retro(&["dead-letters", "show", &id]).await.out;
    for part in [
        "status     handled",
        "replay     nothing is left to do",
        "replay 1, by ann",
        "(is it mended?); it failed again: dataref_refused",
        &format!("replay 2, by {}", handled.act.by),
        "(the host is allowed); it was handled at",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    publish_refused_run(&fleet, "one").await;
    fleet.wait_until_idle().await;
    assert_eq!(fleet.verify_store().await["runs"], 1, "the same event published again is recognised");
    fleet.stop_all().await;
}

#[tokio::test]
async fn a_batch_whose_canary_fails_stops_and_the_rest_can_be_discarded() {
    let mut world = World::start().await;
    for number in 0..4 {
        publish_payload(&world, format!("not JSON {number}").as_bytes()).await;
    }
    wait_for_dead_letters(&world, 4).await;
    let nothing = world.run_retro(&["dead-letters", "replay", "--reason", "all of them?"]).await;
    assert!(nothing.code == Some(1) && nothing.err.contains("no dead letters are selected"), "{nothing:?}");
    let reasonless = world.run_retro(&["dead-letters", "replay", "--all"]).await;
    assert!(reasonless.code == Some(2) && reasonless.err.contains("--reason"), "{reasonless:?}");
    let dry = world.run_json(&["dead-letters", "replay", "--code", "not_json", "--dry-run"]).await;
    assert_eq!(json_items(&dry["items"]).len(), 4);
    assert!(json_items(&dry["items"]).iter().all(|one| one["effect"] == "fail_again"), "{dry}");
    let arguments = ["dead-letters", "replay", "--code", "not_json", "--canary", "1", "--reason", "a try"];
    let stopped = world.run_retro(&arguments).await;
    assert_eq!(stopped.code, Some(4), "{stopped:?}");
    assert!(stopped.out.contains("1 of the 1 that went first failed again"), "{stopped:?}");
    let all = wait_for_dead_letters(&world, 4).await;
    assert!(all.iter().all(|dead_letter| dead_letter.status == DeadLetterStatus::Open), "{all:?}");
    assert_eq!(all.iter().map(|dead_letter| dead_letter.replays).sum::<u32>(), 1, "only the canary went");
    assert_eq!(all.last().map(|oldest| oldest.replays), Some(1), "the oldest one");
    let batches = world.run_json(&["dead-letters", "batches"]).await;
    let batch = json_text(&json_items(&batches)[0], "id").to_owned();
    let shown = world.run_retro(&["dead-letters", "batches", &batch]).await.out;
    for part in
        ["stopped", "not_json", "at most 5 dead letters a second, 1 first; stops if more than 20 % fail"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }

    // The same over HTTP, where another tenant cannot see it.
    let path = format!("/v1/dead-letters/batches/{batch}");
    assert_eq!(world.get("acme", &path).await.0, 404);
    let (status, body) = world.get("default", &path).await;
    assert!(status == 200 && body.contains("stopped"), "{body}");
    let (status, body) = world.get("acme", "/v1/dead-letters/batches").await;
    assert_eq!((status, body.as_str()), (200, "{\"items\":[]}"));
    let discard = json!({"code": "not_json", "reason": "a load test", "by": "ann"});
    let (status, other_tenants) = world.post_json("acme", "/v1/dead-letters/discard", &discard).await;
    assert!(
        status == 200 && json_text(&other_tenants, "detail").starts_with("0 dead letters"),
        "{other_tenants}"
    );
    let (status, body) = world.post_json("default", "/v1/dead-letters/discard", &discard).await;
    assert!(status == 200 && json_text(&body, "detail").starts_with("4 dead letters discarded"), "{body}");
    let (status, refused) =
        world.post_json("default", "/v1/dead-letters/discard", &json!({"reason": "all?"})).await;
    assert_eq!((status, refused["path"].as_str()), (400, Some("all")), "{refused}");
    let all = wait_for_dead_letters(&world, 4).await;
    assert!(all.iter().all(|dead_letter| dead_letter.status == DeadLetterStatus::Discarded), "{all:?}");
    for path in ["replay", "discard"] {
        let path = format!("/v1/dead-letters/{}/{path}", all[0].id);
        let (status, body) = world.post_json("acme", &path, &json!({"reason": "mine?"})).await;
        assert_eq!(status, 404, "{body}");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_batch_continues_after_the_caller_and_the_relay_die() {
    check_batch_through_crash(DatabaseKind::Sqlite, "replay.publish:after:2").await;
}

#[tokio::test]
async fn a_batch_continues_after_the_relay_dies_over_postgres() {
    check_batch_through_crash(DatabaseKind::Postgres, "replay.mark.commit:before:2").await;
}

/// Replays four dead letters; the relay's process is killed at the second and restarted.
async fn check_batch_through_crash(kind: DatabaseKind, point: &str) {
    let mut fleet = Fleet::start(kind, &[(ROLES, 1)]).await;
    for run in ["one", "two", "three", "four"] {
        publish_refused_run(&fleet, run).await;
    }
    let ids: Vec<DeadLetterId> =
        wait_for_dead_letters(&fleet, 4).await.iter().map(|dead_letter| dead_letter.id).collect();
    fleet.stop(0).await;
    let quick = ("RETRO_REPLAY_TIMEOUT_S", "1");
    let dies = fleet.serve_with_env(ROLES, &[ALLOWED_HOSTS, quick, ("FAULT_CRASH", point)]);
    fleet.wait_until_ready(dies).await;
    let arguments = [
        "dead-letters",
        "replay",
        "--workflow",
        "shop",
        "--detach",
        "--rate",
        "50",
        "--reason",
        "allowed now",
    ];
    let batch = json_text(&fleet.run_json(&arguments).await, "batch").to_owned();
    assert_eq!(fleet.wait_for_exit(dies).await, None, "ended by a signal");
    let after = fleet.serve_with_env(ROLES, &[ALLOWED_HOSTS, quick]);
    fleet.wait_until_ready(after).await;
    fleet.wait_until_counted("default", 4).await;
    let done = fleet
        .wait_for("the batch is done", async || {
            let shown = fleet.run_json(&["dead-letters", "batches", &batch]).await;
            (shown[0]["state"] == "done").then(|| shown[0].clone())
        })
        .await;
    assert_eq!(done["progress"]["handled"], 4, "{done}");
    for id in ids {
        assert_eq!(wait_for_replay_outcome(&fleet, id, 1).await.state, ReplayState::Handled);
    }
    fleet.wait_until_idle().await;
    assert_eq!(fleet.verify_store().await["runs"], 4, "each counts once");
    fleet.stop_all().await;
}

#[tokio::test]
async fn replaying_everything_that_was_ever_learned_from_changes_nothing() {
    let mut world = World::start().await;
    let runs = build_correcting_runs("release", "deploy_service", 0..20);
    world.emit_and_wait("default", "runs.jsonl", &runs).await;
    world.wait_until_idle().await;
    let learned = world.export_canonical().await;
    assert!(learned.contains("\"kind\":\"memory\""), "{learned}");
    let rows = world.run_json(&["retrospectives", "list"]).await;
    let mut publisher = world.connect_publisher().await;
    for _ in 0..3 {
        for run in &runs {
            world.publish_event("default", "release", run).await;
        }
        for row in json_items(&rows) {
            for (prefix, notice) in build_wake_ups(&row["retrospective"]["id"]) {
                let message = json!({
                    "id": "00000000-0000-8000-8000-000000000000", "tenant": "default", "workflow": "release", "notice": notice,
                });
                let subject = format!("{prefix}.default.release");
                let payload = message.to_string().into();
                let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
                publisher
                    .publish_event(OutgoingEvent { subject, headers, payload })
                    .await
                    .expect("the broker accepts it");
            }
        }
    }
    publisher.confirm_all().await.expect("the broker confirms them");
    world.wait_until_idle().await;
    assert_eq!(world.export_canonical().await, learned, "weights moved once");
    let store = world.open_store().await;
    let filter = DeadLetterFilter { limit: 9, ..DeadLetterFilter::default() };
    assert_eq!(store.list_dead_letters(&Tenant::default_tenant(), &filter).await.expect("listing"), []);
    world.verify_store().await;
    world.stop().await;
}

/// Returns all of the program's messages about a retrospective.
fn build_wake_ups(retrospective: &Value) -> Vec<(&'static str, Value)> {
    let due = |notice: &str| json!({"notice": notice, "retrospective": retrospective});
    let mut wake_ups = vec![
        (subject::RETROSPECTIVE_DUE, due("retrospective_due")),
        (subject::MUTATIONS_DUE, due("mutations_due")),
    ];
    for number in 1..=5 {
        let mut notice = due("investigation_due");
        notice["investigation"] = json!(number);
        wake_ups.push((subject::INVESTIGATION_DUE, notice));
    }
    wake_ups
}

/// Publishes a run whose body is on a host that is not allowed.
pub(crate) async fn publish_refused_run(world: &World, run: &str) {
    let body = json!({"url": format!("https://runs.example.com/{run}.json"), "sha256": "0".repeat(64)});
    let data = json!({"workflow": "shop", "run_id": run, "outcome": "success", "dataref": body});
    world.publish_event("default", "shop", &build_event(&format!("event of {run}"), &data)).await;
}

async fn publish_payload(world: &World, payload: &[u8]) {
    let key =
        WorkflowKey { tenant: Tenant::default_tenant(), workflow: Workflow::new("shop").expect("a name") };
    let headers = vec![("content-type".to_owned(), "application/cloudevents+json".to_owned())];
    let event = OutgoingEvent {
        subject: subject::run_completed_subject(&key),
        headers,
        payload: payload.to_vec().into(),
    };
    let mut publisher = world.connect_publisher().await;
    publisher.publish_event(event).await.expect("the broker accepts it");
    publisher.confirm_all().await.expect("the broker confirms it");
}

/// Waits until the default tenant has this many dead letters and returns them, newest first.
pub(crate) async fn wait_for_dead_letters(world: &World, count: usize) -> Vec<DeadLetter> {
    let (store, tenant) = (world.open_store().await, Tenant::default_tenant());
    let filter = DeadLetterFilter { limit: 1000, ..DeadLetterFilter::default() };
    world
        .wait_for(&format!("{count} dead letters"), async || {
            let dead_letters = store.list_dead_letters(&tenant, &filter).await.ok()?;
            assert!(dead_letters.len() <= count, "{dead_letters:?}");
            (dead_letters.len() == count).then_some(dead_letters)
        })
        .await
}

/// Waits for the outcome of this 1-based replay of a dead letter.
pub(crate) async fn wait_for_replay_outcome(
    world: &World,
    dead_letter: DeadLetterId,
    number: u32,
) -> ReplayRow {
    let (store, tenant) = (world.open_store().await, Tenant::default_tenant());
    world
        .wait_for(&format!("replay {number} of {dead_letter} has ended"), async || {
            let rows = store.list_replays(&tenant, dead_letter).await.ok()?;
            rows.into_iter().find(|row| row.number == number && row.outcome.is_some())
        })
        .await
}
