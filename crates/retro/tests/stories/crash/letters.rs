//! What cannot be handled, what is tried again, and what a person replays.

use retro_fault::{Label, Side};
use serde_json::json;

use super::ground::{Ground, POISONED, Point, RUNS, tell};
use crate::world::{Kind, Run, event, items, mending, text};

pub(super) const LABELS: [Label; 8] = [
    Label::BuryCommit,
    Label::BuryAck,
    Label::AttemptCommit,
    Label::AttemptForgetCommit,
    Label::FailureCommit,
    Label::PutOffNak,
    Label::ReopenCommit,
    Label::MendCommit,
];

#[tokio::test]
async fn killed_at_every_step_of_giving_up_and_trying_again_on_sqlite_it_keeps_each_letter_once() {
    println!("{}", tell(Kind::Sqlite, &LABELS, script).await);
}

#[tokio::test]
async fn killed_at_every_step_of_giving_up_and_trying_again_on_postgres_it_keeps_each_letter_once() {
    println!("{}", tell(Kind::Postgres, &LABELS, script).await);
}

async fn script(ground: &mut Ground) {
    ground.up().await;
    for point in Point::of(&LABELS) {
        match point.label {
            Label::BuryCommit | Label::BuryAck => buried(ground, point).await,
            Label::AttemptCommit | Label::AttemptForgetCommit => tried_again(ground, point).await,
            Label::FailureCommit | Label::PutOffNak => poisoned(ground, point).await,
            Label::MendCommit => mended(ground, point).await,
            _ => replayed(ground, point).await,
        }
    }
    let letters = ground.ask(&["dead-letters", "list"]).await;
    let mut codes: Vec<&str> = items(&letters).iter().map(|letter| text(letter, "code")).collect();
    codes.sort_unstable();
    let malformed = ["field_invalid"; 6];
    let (panicked, failed) = (["handler_panicked"; 4], ["retrospective_failed"; 4]);
    let every = [&malformed[..], &panicked, &failed].concat();
    assert_eq!(codes, every, "one for each message, and for each epoch of the failed ones");
}

/// An event that can never be read.
async fn buried(ground: &mut Ground, point: Point) {
    let workflow = point.workflow();
    let before = ground.letters().await;
    ground.arm(point);
    ground
        .publish_all(&workflow, &[event(&workflow, &json!({"workflow": workflow, "outcome": "success"}))])
        .await;
    ground.dies(point).await;
    let one_more = async || (ground.letters().await > before).then_some(());
    ground.until("its dead letter is there", one_more).await;
    ground.still().await;
    ground.recovered();
}

/// A person makes a version of a letter; it is there once the command has committed, and not before.
async fn mended(ground: &mut Ground, point: Point) {
    let workflow = point.workflow();
    let before = ground.letters().await;
    let unreadable = json!({"workflow": workflow, "outcome": "success"});
    ground.publish_all(&workflow, &[event(&workflow, &unreadable)]).await;
    ground.until("its dead letter is there", async || (ground.letters().await > before).then_some(())).await;
    let listed = ground.ask(&["dead-letters", "list", "--workflow", &workflow]).await;
    let letter = text(&items(&listed)[0], "id").to_owned();
    let edit =
        ["dead-letters", "edit", &letter, "--set", "data.run_id=r", "--by", "ann", "--reason", "it is r"];
    let mut versions = 0;
    if ground.is_killed() {
        ground.command_dies(point, &edit).await;
        versions = versions_of(ground, &letter).await;
        assert_eq!(versions, usize::from(point.side == Side::After), "{}", point.word());
    }
    if versions == 0 {
        ground.ask(&edit).await;
    }
    assert_eq!(versions_of(ground, &letter).await, 1);
    ground.recovered();
}

async fn versions_of(ground: &Ground, letter: &str) -> usize {
    items(&ground.ask(&["dead-letters", "show", letter]).await["versions"]).len()
}

/// What the dead had in hand comes again, alone, and its attempt is counted first.
async fn tried_again(ground: &mut Ground, point: Point) {
    let workflow = point.workflow();
    let counting = Point { label: Label::CountCommit, side: Side::Before };
    ground.arm(counting);
    ground.publish_all(&workflow, &mending(&workflow, "deploy_service", 0..RUNS)).await;
    if ground.is_killed() {
        ground.fleet.up_died(&counting.word()).await;
        ground.dead(counting).await;
        ground.command_dies(point, &["up", "--http-listen", "127.0.0.1:0"]).await;
        ground.up().await;
    }
    ground.finished(&workflow, RUNS).await;
}

/// A message that its handler panics over is noted and put off, and in the end it is a dead letter.
async fn poisoned(ground: &mut Ground, point: Point) {
    let workflow = point.workflow();
    let before = ground.letters().await;
    ground.arm(point);
    let run = Run::new(&workflow, &format!("{workflow}-0")).told(POISONED);
    ground.publish_all(&workflow, &[run.event()]).await;
    ground.dies(point).await;
    ground.until("it is given up", async || (ground.letters().await > before).then_some(())).await;
    ground.still().await;
    ground.recovered();
}

/// Every body is gone, the retrospective fails, and a person replays its letter: the next one fails too.
async fn replayed(ground: &mut Ground, point: Point) {
    let workflow = point.workflow();
    let before = ground.letters().await;
    let lost = |number: u64| {
        let run = format!("{workflow}-{number}");
        let body = json!({"name": format!("default/{number:064x}"), "sha256": format!("{number:064x}"), "bytes": 70_000});
        let data = json!({"workflow": workflow, "run_id": run, "outcome": "success", "dataref": body});
        event(&format!("event of {run}"), &data)
    };
    let events: Vec<_> = (0..RUNS).map(lost).collect();
    ground.publish_all(&workflow, &events).await;
    ground.until("it failed", async || (ground.letters().await > before).then_some(())).await;
    let listed = ground.ask(&["dead-letters", "list", "--workflow", &workflow]).await;
    let letter = text(&items(&listed)[0], "id").to_owned();
    let replay = ["dead-letters", "replay", &letter, "--by", "ann", "--reason", "the store is back"];
    ground.given_twice(point, &replay).await;
    ground.until("it failed again", async || (ground.letters().await > before + 1).then_some(())).await;
}
