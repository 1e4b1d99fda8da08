//! A person has letters sent again, or puts them aside; what is sent again is refused again.

use retro_fault::Label;
use serde_json::{Value, json};

use super::ground::{Ground, Point, RUNS, tell};
use crate::world::{Kind, event, items, mending, text};

pub(super) const LABELS: [Label; 9] = [
    Label::ReplayCommit,
    Label::DiscardCommit,
    Label::BatchStartCommit,
    Label::BatchStepCommit,
    Label::ReplayPublish,
    Label::ReplayMarkCommit,
    Label::SettleCommit,
    Label::ReplayRefuseCommit,
    Label::BatchCancelCommit,
];
/// What the broker takes in one message, headers included.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// Room for the headers that the message has when it comes first, and none for those of a replay.
const ROOM_BYTES: usize = 100;

#[tokio::test]
async fn killed_at_every_step_of_a_replay_on_sqlite_each_letter_stays_one() {
    println!("{}", tell(Kind::Sqlite, &LABELS, script).await);
}

#[tokio::test]
async fn killed_at_every_step_of_a_replay_on_postgres_each_letter_stays_one() {
    println!("{}", tell(Kind::Postgres, &LABELS, script).await);
}

async fn script(ground: &mut Ground) {
    ground.up().await;
    // Something to compare: replays that fail again teach nobody.
    ground.publish_all("learnt", &mending("learnt", "deploy_service", 0..RUNS)).await;
    ground.finished("learnt", RUNS).await;
    for point in Point::of(&LABELS) {
        let workflow = point.workflow();
        let letter = match point.label {
            Label::ReplayRefuseCommit => refused(ground, &workflow, large(&workflow)).await,
            _ => refused(ground, &workflow, unreadable(&workflow)).await,
        };
        let why = ["--by", "ann", "--reason", "to see"];
        let one = [&["dead-letters", "replay", letter.as_str()], &why[..]].concat();
        let many =
            [&["dead-letters", "replay", "--workflow", workflow.as_str(), "--detach"], &why[..]].concat();
        let aside = [&["dead-letters", "discard", letter.as_str()], &why[..]].concat();
        match point.label {
            Label::ReplayCommit => ground.given_twice(point, &one).await,
            Label::DiscardCommit => ground.given_twice(point, &aside).await,
            Label::BatchStartCommit => ground.given_twice(point, &many).await,
            Label::BatchCancelCommit => {
                // A batch of one letter would perhaps be over before it is called off.
                refused(ground, &workflow, another(&workflow)).await;
                cancelled(ground, point, &[&many[..], &["--rate", "0.01"]].concat()).await
            }
            label => {
                if label == Label::SettleCommit {
                    // Only what is handled is settled: the letter gets its run's id.
                    let mend = ["dead-letters", "edit", letter.as_str(), "--set", "data.run_id=r"];
                    ground.ask(&[&mend[..], &why[..]].concat()).await;
                    let mut mended = unreadable(&workflow);
                    mended["data"]["run_id"] = json!("r");
                    ground.hands_over("ann", &workflow, &mended).finish_ok();
                }
                ground.arm(point);
                ground.ask(if label == Label::BatchStepCommit { &many } else { &one }).await;
                ground.dies(point).await;
                ground.recovered();
            }
        }
        ground.still().await;
    }
    let messages = 2 * (LABELS.len() as u64 + 1);
    assert_eq!(ground.letters().await, messages, "one for each message, however often it was sent");
}

/// A batch that a person calls off.
async fn cancelled(ground: &mut Ground, point: Point, slowly: &[&str]) {
    let started = ground.ask(slowly).await;
    let batch = text(&started, "batch");
    let cancel = ["dead-letters", "cancel", batch, "--by", "bob", "--reason", "not now"];
    ground.given_twice(point, &cancel).await;
}

/// An event without the id of its run.
fn unreadable(workflow: &str) -> Value {
    event(workflow, &json!({"workflow": workflow, "outcome": "success"}))
}

/// Another one of the workflow.
fn another(workflow: &str) -> Value {
    event(&format!("{workflow}, another"), &json!({"workflow": workflow, "outcome": "success"}))
}

/// The same, so large that the broker takes it once, and not with the headers of a replay.
fn large(workflow: &str) -> Value {
    let padded = |bytes: usize| {
        event(workflow, &json!({"workflow": workflow, "outcome": "success", "padding": "x".repeat(bytes)}))
    };
    let alone = padded(0).to_string().len();
    padded(MESSAGE_BYTES_MAX - ROOM_BYTES - alone)
}

/// The id of the letter that the event has become.
async fn refused(ground: &mut Ground, workflow: &str, event: Value) -> String {
    let before = ground.letters().await;
    ground.publish_all(workflow, &[event]).await;
    ground.until("its dead letter is there", async || (ground.letters().await > before).then_some(())).await;
    let listed = ground.ask(&["dead-letters", "list", "--workflow", workflow]).await;
    text(&items(&listed)[0], "id").to_owned()
}
