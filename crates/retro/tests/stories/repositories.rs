//! Tests that what was learnt in a repository is handed to its runs alone until another one has shown it, and that what
//! a private repository has shown reaches no public one, on every road out of the program.

use serde_json::{Value, json};

use crate::world::{RunBuilder, World, json_items, json_text};

const WORKFLOW: &str = "release";
/// Value that only the private repository uses.
const SECRET_REGION: &str = "vault-region-7";

/// Returns ten runs of a repository. In each, the agent corrects two calls: one needs a value of this repository, and
/// the other needs the same everywhere.
fn build_runs(name: &str, repo: Option<(&str, Option<&str>)>, region: &str) -> Vec<Value> {
    let run = |number| {
        let mut event = RunBuilder::new(WORKFLOW, &format!("{name}-{number}"))
            .with_message("Deploy the service.")
            .with_call(
                "deploy_service",
                &json!({"service": "checkout"}),
                "Error: missing required argument 'region'",
            )
            .with_call("deploy_service", &json!({"service": "checkout", "region": region}), "deployed")
            .with_call("notify", &json!({"text": "done"}), "Error: missing required argument 'channel'")
            .with_call("notify", &json!({"text": "done", "channel": "ops"}), "sent")
            .build_event();
        if let Some((repo, visibility)) = repo {
            event["data"]["repo"] = json!(repo);
            event["data"]["repo_visibility"] = json!(visibility);
        }
        event
    };
    (0..10).map(run).collect()
}

async fn ask(world: &World, run: Option<&str>, repo: Option<(&str, Option<&str>)>) -> Value {
    let mut question = json!({"workflow": WORKFLOW, "step": "deploy", "run_id": run});
    if let Some((repo, visibility)) = repo {
        question["repo"] = json!(repo);
        question["repo_visibility"] = json!(visibility);
    }
    world.fetch_context("default", &question).await
}

/// Returns the tools that the handed memories are about, sorted.
async fn handed(world: &World, repo: Option<(&str, Option<&str>)>) -> Vec<&'static str> {
    let answer = ask(world, None, repo).await;
    let about = |memory: &Value| {
        let title = json_text(memory, "title");
        ["deploy_service", "notify"].into_iter().find(|tool| title.contains(tool)).expect("a known tool")
    };
    let mut tools: Vec<_> = json_items(&answer["memories"]).iter().map(about).collect();
    tools.sort_unstable();
    if repo.is_none_or(|(repo, _)| repo != "acme/vault") {
        assert!(!answer.to_string().contains(SECRET_REGION), "{answer}");
    }
    tools
}

async fn open(world: &World, id: &str, query: &str) -> u16 {
    let (status, body) = world.get("default", &format!("/v1/memories/{id}{query}")).await;
    assert!(status == 200 || !body.contains(SECRET_REGION), "{body}");
    status
}

const VAULT: Option<(&str, Option<&str>)> = Some(("acme/vault", Some("private")));
const CELLAR: Option<(&str, Option<&str>)> = Some(("acme/cellar", Some("private")));
const OPEN: Option<(&str, Option<&str>)> = Some(("acme/open", Some("public")));
const DOCS: Option<(&str, Option<&str>)> = Some(("acme/docs", Some("public")));

#[tokio::test]
async fn what_was_learnt_in_a_repository_is_handed_to_its_runs_until_another_has_shown_it() {
    let mut world = World::empty();
    world.write_policy("[context]\nwithhold_permille = 0\n");
    world.up().await;
    world.emit_and_wait("default", "vault.jsonl", &build_runs("vault", VAULT, SECRET_REGION)).await;

    // The private repository alone is handed its lessons.
    assert_eq!(handed(&world, VAULT).await, ["deploy_service", "notify"], "a positive control");
    for other in [CELLAR, OPEN, Some(("acme/other", None)), None] {
        assert_eq!(handed(&world, other).await, [""; 0], "{other:?}");
    }
    let nothing = ask(&world, Some("asks-without"), None).await;
    assert!(json_text(&nothing, "reason").contains("`repo`"), "{nothing}");

    // A memory of another repository is as missing as one that never was.
    let answer = ask(&world, Some("vault-asks"), VAULT).await;
    let of_tool = |answer: &Value, tool: &str| {
        let found = json_items(&answer["memories"]).iter().find(|one| json_text(one, "title").contains(tool));
        json_text(found.expect("it is handed"), "id").to_owned()
    };
    let (deploy, notify) = (of_tool(&answer, "deploy_service"), of_tool(&answer, "notify"));
    for query in ["", "?repo=acme/open", "?repo=acme/open&repo_visibility=private", "?run=open-asks"] {
        assert_eq!(open(&world, &deploy, query).await, 404, "{query}");
    }
    for query in ["?repo=acme/vault", "?run=vault-asks"] {
        assert_eq!(open(&world, &deploy, query).await, 200, "{query}");
    }

    // A public repository shows one of the two as well. Now every private one is handed it; the public one learns for
    // itself.
    world.emit_and_wait("default", "open.jsonl", &build_runs("open", OPEN, "eu-west-1")).await;
    assert_eq!(handed(&world, VAULT).await, ["deploy_service", "notify"]);
    assert_eq!(handed(&world, CELLAR).await, ["notify"]);
    assert_eq!(handed(&world, OPEN).await, ["deploy_service", "notify"]);
    for other in [DOCS, Some(("acme/other", None)), None] {
        assert_eq!(handed(&world, other).await, [""; 0], "{other:?}");
    }
    let why = world.run_json(&["memories", "why", &notify[..8]]).await;
    assert!(why.to_string().contains("several repositories have shown it"), "{why}");

    // A second public repository shows it: it is everyone's, with public evidence only.
    world.emit_and_wait("default", "docs.jsonl", &build_runs("docs", DOCS, "us-east-2")).await;
    for other in [CELLAR, Some(("acme/other", None)), None] {
        assert_eq!(handed(&world, other).await, ["notify"], "{other:?}");
    }
    let answer = ask(&world, None, None).await;
    let everyones = of_tool(&answer, "notify");
    let (status, body) = world.get("default", &format!("/v1/memories/{everyones}")).await;
    assert_eq!(status, 200, "{body}");
    assert!(!body.contains("vault"), "{body}");
    // Markdown does not wrap its cells.
    let listed = world.run_retro(&["memories", "list", "-o", "markdown"]).await;
    for scope in ["step deploy of acme/vault", "step deploy of acme/open"] {
        assert!(listed.out.contains(scope), "{scope}: {listed:?}");
    }

    // A person writes a memory for one repository.
    let words = ["--title", "Call `freeze` before the deployment.", "--by", "anna", "--reason", "outage"];
    let scope = ["--workflow", WORKFLOW, "--step", "deploy", "--repo", "acme/docs"];
    let added = world.run_retro(&[&["memories", "add"][..], &scope, &words].concat()).await;
    assert_eq!(added.code, Some(0), "{added:?}");
    let freeze = |answer: &Value| answer.to_string().contains("freeze");
    assert!(freeze(&ask(&world, None, DOCS).await));
    assert!(!freeze(&ask(&world, None, OPEN).await));
    assert!(!freeze(&ask(&world, None, None).await));
    world.verify_store().await;
    world.stop().await;
}

#[tokio::test]
async fn a_tenant_may_forbid_that_a_lesson_leaves_its_repository() {
    let mut world = World::empty();
    world.write_policy("[learning]\nwiden_repositories = false\n[context]\nwithhold_permille = 0\n");
    world.up().await;
    for (name, repo) in [("open", OPEN), ("docs", DOCS)] {
        world.emit_and_wait("default", &format!("{name}.jsonl"), &build_runs(name, repo, "eu-west-1")).await;
        assert_eq!(handed(&world, repo).await, ["deploy_service", "notify"], "{name}");
    }
    for other in [Some(("acme/other", Some("public"))), None] {
        assert_eq!(handed(&world, other).await, [""; 0], "{other:?}");
    }
    world.verify_store().await;
    world.stop().await;
}
