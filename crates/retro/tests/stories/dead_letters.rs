//! Tests the commands for dead letters: list, group, show with the runbook page, edit, read the exact bytes
//! and export.

use serde_json::{Value, json};

use crate::world::{CommandOutput, World, build_event, json_items, json_text};

const SECRET: &str = concat!("ghp_", "x7Kd93LmQz0pVb5RtYw2Nc8Hs4Jf6Ga1Ue7O");

#[tokio::test]
async fn a_poisoned_message_is_listed_shown_and_edited() {
    let mut world = World::start().await;
    let tokens = |value: Value| json!({"workflow": "shop", "run_id": "r-1", "outcome": "success", "user": SECRET, "usage": {"input_tokens": value}});
    world.publish_event("default", "shop", &build_event("first", &tokens(json!("twelve")))).await;
    world.publish_event("default", "shop", &build_event("second", &tokens(json!("thirteen")))).await;
    world.publish_event("default", "shop", &build_event("third", &json!({"workflow": "shop"}))).await;
    world.publish_event("acme", "shop", &build_event("theirs", &json!({"workflow": "shop"}))).await;
    let listed = world
        .wait_for("three dead letters", async || {
            let listed = world.run_json(&["dead-letters", "list"]).await;
            (json_items(&listed).len() == 3).then_some(listed)
        })
        .await;
    assert!(!listed.to_string().contains("payload\""), "a list holds no message");

    // The two events with a word in place of a number form one group.
    let stats = world.run_json(&["dead-letters", "stats"]).await;
    let groups: Vec<_> = json_items(&stats["groups"])
        .iter()
        .map(|group| (group["dead_letters"].clone(), group["path"].clone()))
        .collect();
    assert_eq!(groups, [(json!(2), json!("data.usage.input_tokens")), (json!(1), json!("data.run_id"))]);
    let table = world.run_retro(&["dead-letters", "stats", "--code", "field_invalid"]).await.out;
    assert!(table.contains("3 dead letters in 2 groups"), "{table}");
    assert_eq!(world.run_json(&["dead-letters", "stats", "--role", "writer"]).await["dead_letters"], 0);

    // Pagination, and search in the redacted text.
    let first = world.run_retro(&["dead-letters", "list", "--limit", "2", "-o", "json"]).await;
    let last = json_text(&json_items(&first.parse_json())[1], "id").to_owned();
    assert!(first.err.contains(&format!("--after {last}")), "{first:?}");
    let rest = world.run_json(&["dead-letters", "list", "--limit", "2", "--after", &last]).await;
    assert_eq!(json_items(&rest).len(), 1);
    let id = json_text(&json_items(&rest)[0], "id");
    assert_eq!(json_items(&world.run_json(&["dead-letters", "list", "--text", "twelve"]).await).len(), 1);
    assert_eq!(
        json_items(&world.run_json(&["dead-letters", "list", "--text", SECRET]).await).len(),
        0,
        "redacted"
    );

    let shown = world.run_retro(&["dead-letters", "show", id]).await.out;
    for part in [
        "field_invalid at data.usage.input_tokens",
        "[redacted:",
        "1. 2",
        "# field_invalid",
        "## Is replay safe?",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    check_edit(&world, id).await;
    check_raw_access(&world, id).await;
    world.stop().await;
    let log = std::fs::read_to_string(world.path("retro.log")).unwrap();
    assert!(!log.contains(SECRET), "the log shows a secret");
}

async fn check_edit(world: &World, id: &str) {
    let edit = |more: &[&'static str]| {
        let edit = ["dead-letters", "edit", id, "--by", "ann", "--reason", "a word for a number"];
        edit.iter().chain(more).map(|part| (*part).to_owned()).collect::<Vec<_>>()
    };
    let output = run_retro(world, &edit(&["--set", "data.usage.input_tokens=12", "--dry-run"])).await;
    assert!(output.out.starts_with("no version was made"), "{output:?}");
    let output = run_retro(world, &edit(&["--set", "data.usage.input_tokens=12"])).await;
    assert_eq!(output.code, Some(0), "{output:?}");
    for part in [
        "version 1 of dead letter",
        "it would be accepted as run r-1 of workflow shop",
        "-      \"input_tokens\": \"twelve\"",
        "+      \"input_tokens\": 12",
    ] {
        assert!(output.out.contains(part), "{part}: {}", output.out);
    }
    assert!(!output.out.contains(SECRET), "{}", output.out);
    let shown = world.run_retro(&["dead-letters", "show", id]).await.out;
    assert!(shown.contains("replay     sends version 1; `retro dead-letters replay"), "{shown}");
    let refused = run_retro(world, &edit(&["--set", "id=other"])).await;
    assert_eq!((refused.code, refused.out.as_str()), (Some(4), ""), "{refused:?}");
    assert!(refused.err.contains("source or id"), "{refused:?}");
    let shown = world.run_json(&["dead-letters", "show", id]).await;
    assert_eq!((&shown["versions"][0]["version"], &shown["versions"][0]["by"]), (&json!(1), &json!("ann")));
    assert_eq!(shown["audit_log"][0]["action"], "edited");
    assert!(json_text(&shown, "payload").contains("twelve"), "the original is unchanged: {shown}");
}

async fn check_raw_access(world: &World, id: &str) {
    let without = world.run_retro(&["dead-letters", "show", id, "--raw"]).await;
    assert_eq!((without.code, without.out.as_str()), (Some(2), ""), "a reason is required: {without:?}");
    let raw = ["dead-letters", "show", id, "--raw", "--by", "bob", "--reason", "to call the sender"];
    let exact = world.run_retro(&raw).await;
    let sent: Value = serde_json::from_str(&exact.out).expect("only the message's bytes");
    assert_eq!(sent["data"]["user"], SECRET);
    let foreign = world.run_retro(&[&["--tenant", "acme"], &raw[..]].concat()).await;
    assert_eq!((foreign.code, foreign.out.as_str()), (Some(3), ""), "{foreign:?}");

    // Editing in the operator's editor also reads the exact bytes.
    let mut edit =
        world.command(&["dead-letters", "edit", id, "--from", "0", "--by", "ann", "--reason", "by hand"]);
    edit.env_remove("VISUAL").env("EDITOR", "sed -i s/twelve/12.5/");
    let output = edit.output().await.expect("the command ends");
    let output = String::from_utf8(output.stdout).expect("a text");
    assert!(output.contains("version 2") && output.contains("would be refused again"), "{output}");

    let exported = world.run_retro(&["dead-letters", "export", "--text", "twelve"]).await;
    assert!(exported.out.lines().count() == 1 && !exported.out.contains(SECRET), "{exported:?}");
    let exported = world.run_retro(&["dead-letters", "export", "--raw", "--reason", "to move"]).await;
    assert_eq!(exported.out.lines().count(), 3, "{exported:?}");
    let actions: Vec<_> = json_items(&world.run_json(&["dead-letters", "show", id]).await["audit_log"])
        .iter()
        .map(|act| (json_text(act, "action").to_owned(), json_text(act, "reason").to_owned()))
        .collect();
    let actions: Vec<_> = actions.iter().map(|(action, reason)| (action.as_str(), reason.as_str())).collect();
    let expected = [
        ("edited", "a word for a number"),
        ("read_raw", "to call the sender"),
        ("read_raw", "by hand"),
        ("edited", "by hand"),
        ("exported", "to move"),
    ];
    assert_eq!(actions, expected);
}

async fn run_retro(world: &World, arguments: &[String]) -> CommandOutput {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    world.run_retro(&arguments).await
}
