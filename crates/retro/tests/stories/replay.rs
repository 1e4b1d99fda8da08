//! Dead letters that are sent again: one by two people at once, many with a canary, and through a crash of the relay.

use retro_bus::OutgoingEvent;
use retro_core::id::{DeadLetterId, Tenant, Workflow, WorkflowKey};
use retro_core::replay::ReplayOutcome;
use retro_events::subject;
use retro_store::{DeadLetter, DeadLetterFilter, DeadLetterStatus, ReplayRow, ReplayState};
use serde_json::{Value, json};

use crate::world::{Fleet, Kind, World, carry_out, event, items, mending, text};

pub(crate) const ROLES: &str = "counter,sampler,investigator,writer,relay,gateway";
/// With it the letters of these stories are taken; without it they are refused.
pub(crate) const HOSTS: (&str, &str) = ("RETRO_DATAREF_HOSTS", "runs.example.com");

#[tokio::test]
async fn the_life_of_a_dead_letter_that_two_people_replay_at_once() {
    life(Kind::Sqlite).await;
}

#[tokio::test]
async fn the_life_of_a_dead_letter_that_two_people_replay_at_once_over_postgres() {
    life(Kind::Postgres).await;
}

async fn life(kind: Kind) {
    let mut fleet = Fleet::start(kind, &[(ROLES, 1)]).await;
    refused(&fleet, "one").await;
    let letter = letters(&fleet, 1).await.remove(0);
    let id = letter.id.to_string();
    let dry = ["dead-letters", "replay", &id, "--dry-run"];
    let seen = fleet.ask(&dry).await;
    assert_eq!((text(&seen, "will"), text(&seen, "code")), ("fail_again", "dataref_refused"), "{seen}");

    let seen = fleet.retro(&dry).await.out;
    assert!(seen.contains("it would fail again, dataref_refused at data.dataref"), "{seen}");
    assert!(seen.ends_with("nothing was sent\n"), "{seen}");

    // Replayed too early it fails again: one message, one letter.
    let early = fleet.ask(&["dead-letters", "replay", &id, "--by", "ann", "--reason", "is it mended?"]).await;
    assert_eq!(early["did"], "done", "{early}");
    let failed = came_of(&fleet, letter.id, 1).await;
    assert!(matches!(&failed.outcome, Some(ReplayOutcome::Failed { .. })), "{failed:?}");
    let again = letters(&fleet, 1).await.remove(0);
    assert_eq!((again.status, again.replays, &again.message), (DeadLetterStatus::Open, 1, &letter.message));

    // The host is allowed now.
    fleet.stop(0).await;
    let mended = fleet.serve_with(ROLES, &[HOSTS]);
    fleet.ready(mended).await;
    let seen = carry_out(fleet.command(&[&dry[..], &["-o", "json"]].concat()).env(HOSTS.0, HOSTS.1)).await;
    let seen = seen.json();
    assert_eq!(text(&seen, "will"), "count", "{seen}");
    assert!(text(&seen, "why").contains("counts as run 1 of workflow shop"), "{seen}");
    let replay =
        |by: &'static str| ["dead-letters", "replay", &id, "--by", by, "--reason", "the host is allowed"];
    let (bob, cem) = (replay("bob"), replay("cem"));
    let (one, two) = tokio::join!(fleet.ask(&bob), fleet.ask(&cem));
    let mut did = [text(&one, "did"), text(&two, "did")];
    did.sort_unstable();
    assert_eq!(did, ["done", "done_before"], "{one} {two}");
    assert_eq!(one["replay"], two["replay"], "both speak of the same one");
    let handled = came_of(&fleet, letter.id, 2).await;
    assert_eq!((handled.state, &handled.outcome), (ReplayState::Handled, &Some(ReplayOutcome::Handled)));
    fleet.counted("default", 1).await;
    assert_eq!(letters(&fleet, 1).await[0].status, DeadLetterStatus::Handled);

    // Whoever comes late is told what came of it, and what was counted stays counted once.
    let late = fleet.ask(&replay("dan")).await;
    assert_eq!(late["did"], "done_before", "{late}");
    assert!(text(&late, "detail").contains("it was handled"), "{late}");
    let acts = fleet.ask(&["dead-letters", "show", &id]).await;
    let who: Vec<&str> = items(&acts["acts"]).iter().map(|act| text(act, "by")).collect();
    assert_eq!(who, ["ann", handled.act.by.as_str()], "{acts}");
    let shown = fleet.retro(&["dead-letters", "show", &id]).await.out;
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
    refused(&fleet, "one").await;
    fleet.still().await;
    assert_eq!(fleet.sound().await["runs"], 1, "the same event by the other road is known");
    fleet.stop_all().await;
}

#[tokio::test]
async fn a_batch_whose_canary_fails_stops_and_the_rest_is_put_aside() {
    let mut world = World::start().await;
    for number in 0..4 {
        publish(&world, format!("not JSON {number}").as_bytes()).await;
    }
    letters(&world, 4).await;
    let nothing = world.retro(&["dead-letters", "replay", "--reason", "all of them?"]).await;
    assert!(nothing.code == Some(1) && nothing.err.contains("no dead letters are selected"), "{nothing:?}");
    let reasonless = world.retro(&["dead-letters", "replay", "--all"]).await;
    assert!(reasonless.code == Some(2) && reasonless.err.contains("--reason"), "{reasonless:?}");
    let dry = world.ask(&["dead-letters", "replay", "--code", "not_json", "--dry-run"]).await;
    assert_eq!(items(&dry["items"]).len(), 4);
    assert!(items(&dry["items"]).iter().all(|one| one["will"] == "fail_again"), "{dry}");
    let arguments = ["dead-letters", "replay", "--code", "not_json", "--canary", "1", "--reason", "a try"];
    let stopped = world.retro(&arguments).await;
    assert_eq!(stopped.code, Some(4), "{stopped:?}");
    assert!(stopped.out.contains("1 of the 1 that went first failed again"), "{stopped:?}");
    let all = letters(&world, 4).await;
    assert!(all.iter().all(|letter| letter.status == DeadLetterStatus::Open), "{all:?}");
    assert_eq!(all.iter().map(|letter| letter.replays).sum::<u32>(), 1, "only the canary went");
    assert_eq!(all.last().map(|oldest| oldest.replays), Some(1), "the oldest one");
    let batches = world.ask(&["dead-letters", "batches"]).await;
    let batch = text(&items(&batches)[0], "id").to_owned();
    let shown = world.retro(&["dead-letters", "batches", &batch]).await.out;
    for part in
        ["stopped", "not_json", "5 letters a second at the most, 1 first; stops when more than 20 % fail"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }

    // Over HTTP the same, and another tenant sees nothing of it.
    let path = format!("/v1/dead-letters/batches/{batch}");
    assert_eq!(world.get("acme", &path).await.0, 404);
    let (status, told) = world.get("default", &path).await;
    assert!(status == 200 && told.contains("stopped"), "{told}");
    let (status, told) = world.get("acme", "/v1/dead-letters/batches").await;
    assert_eq!((status, told.as_str()), (200, "{\"items\":[]}"));
    let aside = json!({"code": "not_json", "reason": "a load test", "by": "ann"});
    let (status, theirs) = world.post("acme", "/v1/dead-letters/discard", &aside).await;
    assert!(status == 200 && text(&theirs, "detail").starts_with("0 letters"), "{theirs}");
    let (status, told) = world.post("default", "/v1/dead-letters/discard", &aside).await;
    assert!(status == 200 && text(&told, "detail").starts_with("4 letters discarded"), "{told}");
    let (status, refused) =
        world.post("default", "/v1/dead-letters/discard", &json!({"reason": "all?"})).await;
    assert_eq!((status, refused["path"].as_str()), (400, Some("all")), "{refused}");
    let all = letters(&world, 4).await;
    assert!(all.iter().all(|letter| letter.status == DeadLetterStatus::Discarded), "{all:?}");
    for path in ["replay", "discard"] {
        let path = format!("/v1/dead-letters/{}/{path}", all[0].id);
        let (status, told) = world.post("acme", &path, &json!({"reason": "mine?"})).await;
        assert_eq!(status, 404, "{told}");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_batch_goes_on_though_whoever_asked_and_the_relay_die() {
    through_a_crash(Kind::Sqlite, "replay.publish:after:2").await;
}

#[tokio::test]
async fn a_batch_goes_on_though_the_relay_dies_over_postgres() {
    through_a_crash(Kind::Postgres, "replay.mark.commit:before:2").await;
}

/// Four letters; the relay's process is killed at the second one and started again.
async fn through_a_crash(kind: Kind, point: &str) {
    let mut fleet = Fleet::start(kind, &[(ROLES, 1)]).await;
    for run in ["one", "two", "three", "four"] {
        refused(&fleet, run).await;
    }
    let ids: Vec<DeadLetterId> = letters(&fleet, 4).await.iter().map(|letter| letter.id).collect();
    fleet.stop(0).await;
    let quick = ("RETRO_REPLAY_TIMEOUT_S", "1");
    let dies = fleet.serve_with(ROLES, &[HOSTS, quick, ("FAULT_CRASH", point)]);
    fleet.ready(dies).await;
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
    let batch = text(&fleet.ask(&arguments).await, "batch").to_owned();
    assert_eq!(fleet.ended(dies).await, None, "it was killed");
    let after = fleet.serve_with(ROLES, &[HOSTS, quick]);
    fleet.ready(after).await;
    fleet.counted("default", 4).await;
    let done = fleet
        .until("the batch is done", async || {
            let shown = fleet.ask(&["dead-letters", "batches", &batch]).await;
            (shown[0]["state"] == "done").then(|| shown[0].clone())
        })
        .await;
    assert_eq!(done["progress"]["handled"], 4, "{done}");
    for id in ids {
        assert_eq!(came_of(&fleet, id, 1).await.state, ReplayState::Handled);
    }
    fleet.still().await;
    assert_eq!(fleet.sound().await["runs"], 4, "each counts once");
    fleet.stop_all().await;
}

#[tokio::test]
async fn replaying_everything_that_was_ever_learned_from_changes_nothing() {
    let mut world = World::start().await;
    let runs = mending("release", "deploy_service", 0..20);
    world.emit("default", "runs.jsonl", &runs).await;
    world.still().await;
    let learned = world.export().await;
    assert!(learned.contains("\"kind\":\"memory\""), "{learned}");
    let rows = world.ask(&["retrospectives", "list"]).await;
    let mut publisher = world.publisher().await;
    for _ in 0..3 {
        for run in &runs {
            world.publish("default", "release", run).await;
        }
        for row in items(&rows) {
            for (prefix, notice) in wake_ups(&row["retrospective"]["id"]) {
                let message = json!({
                    "id": "00000000-0000-8000-8000-000000000000", "tenant": "default", "workflow": "release", "notice": notice,
                });
                let subject = format!("{prefix}.default.release");
                let payload = message.to_string().into();
                let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
                publisher
                    .publish_event(OutgoingEvent { subject, headers, payload })
                    .await
                    .expect("it is taken");
            }
        }
    }
    publisher.confirm_all().await.expect("the broker has them");
    world.still().await;
    assert_eq!(world.export().await, learned, "weights moved once");
    let store = world.store().await;
    let filter = DeadLetterFilter { limit: 9, ..DeadLetterFilter::default() };
    assert_eq!(store.list_dead_letters(&Tenant::default_tenant(), &filter).await.expect("listing"), []);
    world.sound().await;
    world.stop().await;
}

/// Every message of ours that speaks of a retrospective.
fn wake_ups(retrospective: &Value) -> Vec<(&'static str, Value)> {
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

/// A run whose body lies at a host that is not allowed.
pub(crate) async fn refused(world: &World, run: &str) {
    let body = json!({"url": format!("https://runs.example.com/{run}.json"), "sha256": "0".repeat(64)});
    let data = json!({"workflow": "shop", "run_id": run, "outcome": "success", "dataref": body});
    world.publish("default", "shop", &event(&format!("event of {run}"), &data)).await;
}

async fn publish(world: &World, payload: &[u8]) {
    let key =
        WorkflowKey { tenant: Tenant::default_tenant(), workflow: Workflow::new("shop").expect("a name") };
    let headers = vec![("content-type".to_owned(), "application/cloudevents+json".to_owned())];
    let event = OutgoingEvent {
        subject: subject::run_completed_subject(&key),
        headers,
        payload: payload.to_vec().into(),
    };
    let mut publisher = world.publisher().await;
    publisher.publish_event(event).await.expect("the broker takes it");
    publisher.confirm_all().await.expect("the broker has it");
}

/// The default tenant's dead letters, the newest first, when there are so many.
pub(crate) async fn letters(world: &World, count: usize) -> Vec<DeadLetter> {
    let (store, tenant) = (world.store().await, Tenant::default_tenant());
    let filter = DeadLetterFilter { limit: 1000, ..DeadLetterFilter::default() };
    world
        .until(&format!("{count} dead letters"), async || {
            let letters = store.list_dead_letters(&tenant, &filter).await.ok()?;
            assert!(letters.len() <= count, "{letters:?}");
            (letters.len() == count).then_some(letters)
        })
        .await
}

/// Waits until something came of a letter's replay.
pub(crate) async fn came_of(world: &World, letter: DeadLetterId, number: u32) -> ReplayRow {
    let (store, tenant) = (world.store().await, Tenant::default_tenant());
    world
        .until(&format!("replay {number} of {letter} has ended"), async || {
            let rows = store.list_replays(&tenant, letter).await.ok()?;
            rows.into_iter().find(|row| row.number == number && row.outcome.is_some())
        })
        .await
}
