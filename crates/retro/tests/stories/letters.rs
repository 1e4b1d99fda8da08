//! A dead letter in people's hands: poisoned over NATS, listed, grouped, shown with its page, mended, read exactly, exported.

use serde_json::{Value, json};

use crate::world::{Answer, World, event, items, text};

const SECRET: &str = concat!("ghp_", "x7Kd93LmQz0pVb5RtYw2Nc8Hs4Jf6Ga1Ue7O");

#[tokio::test]
async fn a_poisoned_message_is_found_understood_and_mended() {
    let mut world = World::start().await;
    let tokens = |value: Value| json!({"workflow": "shop", "run_id": "r-1", "outcome": "success", "user": SECRET, "usage": {"input_tokens": value}});
    world.publish("default", "shop", &event("first", &tokens(json!("twelve")))).await;
    world.publish("default", "shop", &event("second", &tokens(json!("thirteen")))).await;
    world.publish("default", "shop", &event("third", &json!({"workflow": "shop"}))).await;
    world.publish("acme", "shop", &event("theirs", &json!({"workflow": "shop"}))).await;
    let listed = world
        .until("three dead letters", async || {
            let listed = world.ask(&["dead-letters", "list"]).await;
            (items(&listed).len() == 3).then_some(listed)
        })
        .await;
    assert!(!listed.to_string().contains("payload\""), "a list holds no message");

    // Grouped: the two with a word for a number are one mistake.
    let stats = world.ask(&["dead-letters", "stats"]).await;
    let groups: Vec<_> = items(&stats["groups"])
        .iter()
        .map(|group| (group["letters"].clone(), group["path"].clone()))
        .collect();
    assert_eq!(groups, [(json!(2), json!("data.usage.input_tokens")), (json!(1), json!("data.run_id"))]);
    let table = world.retro(&["dead-letters", "stats", "--code", "field_invalid"]).await.out;
    assert!(table.contains("3 letters in 2 groups"), "{table}");
    assert_eq!(world.ask(&["dead-letters", "stats", "--role", "writer"]).await["letters"], 0);

    // Page by page, and by what is shown.
    let first = world.retro(&["dead-letters", "list", "--limit", "2", "-o", "json"]).await;
    let last = text(&items(&first.json())[1], "id").to_owned();
    assert!(first.err.contains(&format!("--behind {last}")), "{first:?}");
    let rest = world.ask(&["dead-letters", "list", "--limit", "2", "--behind", &last]).await;
    assert_eq!(items(&rest).len(), 1);
    let id = text(&items(&rest)[0], "id");
    assert_eq!(items(&world.ask(&["dead-letters", "list", "--text", "twelve"]).await).len(), 1);
    assert_eq!(items(&world.ask(&["dead-letters", "list", "--text", SECRET]).await).len(), 0, "redacted");

    let shown = world.retro(&["dead-letters", "show", id]).await.out;
    for part in [
        "field_invalid at data.usage.input_tokens",
        "[redacted:",
        "1. 2",
        "# field_invalid",
        "## Is replay safe?",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    mended(&world, id).await;
    exact(&world, id).await;
    world.stop().await;
    let log = std::fs::read_to_string(world.path("retro.log")).unwrap();
    assert!(!log.contains(SECRET), "the log shows a secret");
}

async fn mended(world: &World, id: &str) {
    let edit = |more: &[&'static str]| {
        let edit = ["dead-letters", "edit", id, "--by", "ann", "--reason", "a word for a number"];
        edit.iter().chain(more).map(|part| (*part).to_owned()).collect::<Vec<_>>()
    };
    let told = retro(world, &edit(&["--set", "data.usage.input_tokens=12", "--dry-run"])).await;
    assert!(told.out.starts_with("no version was made"), "{told:?}");
    let told = retro(world, &edit(&["--set", "data.usage.input_tokens=12"])).await;
    assert_eq!(told.code, Some(0), "{told:?}");
    for part in [
        "version 1 of dead letter",
        "it would be accepted as run r-1 of workflow shop",
        "-      \"input_tokens\": \"twelve\"",
        "+      \"input_tokens\": 12",
    ] {
        assert!(told.out.contains(part), "{part}: {}", told.out);
    }
    assert!(!told.out.contains(SECRET), "{}", told.out);
    let shown = world.retro(&["dead-letters", "show", id]).await.out;
    assert!(shown.contains("replay     sends version 1; `retro dead-letters replay"), "{shown}");
    let refused = retro(world, &edit(&["--set", "id=other"])).await;
    assert_eq!((refused.code, refused.out.as_str()), (Some(4), ""), "{refused:?}");
    assert!(refused.err.contains("source or id"), "{refused:?}");
    let shown = world.ask(&["dead-letters", "show", id]).await;
    assert_eq!((&shown["versions"][0]["version"], &shown["versions"][0]["by"]), (&json!(1), &json!("ann")));
    assert_eq!(shown["acts"][0]["deed"], "edited");
    assert!(text(&shown, "payload").contains("twelve"), "the original is as it came: {shown}");
}

async fn exact(world: &World, id: &str) {
    let without = world.retro(&["dead-letters", "show", id, "--raw"]).await;
    assert_eq!((without.code, without.out.as_str()), (Some(2), ""), "a reason is asked for: {without:?}");
    let raw = ["dead-letters", "show", id, "--raw", "--by", "bob", "--reason", "to call the sender"];
    let exact = world.retro(&raw).await;
    let sent: Value = serde_json::from_str(&exact.out).expect("the bytes and nothing else");
    assert_eq!(sent["data"]["user"], SECRET);
    let foreign = world.retro(&[&["--tenant", "acme"], &raw[..]].concat()).await;
    assert_eq!((foreign.code, foreign.out.as_str()), (Some(3), ""), "{foreign:?}");

    // The same in a person's editor, which is a reading of the exact bytes too.
    let mut edit =
        world.command(&["dead-letters", "edit", id, "--from", "0", "--by", "ann", "--reason", "by hand"]);
    edit.env_remove("VISUAL").env("EDITOR", "sed -i s/twelve/12.5/");
    let told = edit.output().await.expect("it ends");
    let told = String::from_utf8(told.stdout).expect("a text");
    assert!(told.contains("version 2") && told.contains("would be refused again"), "{told}");

    let exported = world.retro(&["dead-letters", "export", "--text", "twelve"]).await;
    assert!(exported.out.lines().count() == 1 && !exported.out.contains(SECRET), "{exported:?}");
    let exported = world.retro(&["dead-letters", "export", "--raw", "--reason", "to move"]).await;
    assert_eq!(exported.out.lines().count(), 3, "{exported:?}");
    let deeds: Vec<_> = items(&world.ask(&["dead-letters", "show", id]).await["acts"])
        .iter()
        .map(|act| (text(act, "deed").to_owned(), text(act, "reason").to_owned()))
        .collect();
    let deeds: Vec<_> = deeds.iter().map(|(deed, reason)| (deed.as_str(), reason.as_str())).collect();
    let expected = [
        ("edited", "a word for a number"),
        ("read_raw", "to call the sender"),
        ("read_raw", "by hand"),
        ("edited", "by hand"),
        ("exported", "to move"),
    ];
    assert_eq!(deeds, expected);
}

async fn retro(world: &World, arguments: &[String]) -> Answer {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    world.retro(&arguments).await
}
