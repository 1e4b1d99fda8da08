//! Tests that a task brings the memories that are about it to the front, that an agent finds them by searching, and that
//! neither shows anybody what it may not be handed.

use std::time::{Duration, Instant};

use retro_testkit::{Concepts, EmbeddingServer};
use serde_json::{Value, json};

use crate::world::{World, build_correcting_runs, json_items, json_text};

const WORKFLOW: &str = "release";
/// Heavy memories of the step, more than there are places.
const HEAVY: [&str; 14] = [
    "Tell the billing team before a deployment on Monday.",
    "Rebuild the search index after new synonyms.",
    "Send mail through the relay in Frankfurt.",
    "Keep audit records for seven years.",
    "Rotate session keys each quarter.",
    "Render reports at night only.",
    "Compress exports above ten megabytes.",
    "Read quotas from the customer contract.",
    "Check contrast when a theme changes.",
    "Answer webhooks within two seconds.",
    "Copy backups to another continent.",
    "Number invoices without gaps.",
    "Warn players five minutes ahead.",
    "Resize thumbnails on upload.",
];
const LIGHTEST: &str = "Freeze `checkout_carts` before a migration of the checkout database.";
const TASK: &str = "Write the migration that adds a column to checkout_carts";
/// Timeout of the gateway beside an embedder that says nothing, much shorter than the embedder's own of 5 s.
const TIMEOUT_MS: u64 = 1000;
/// Maximum time of such an answer: the timeout, and what the test and a busy machine need.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// Starts a world with a heavy memory for each subject and a light one, and returns the id of that one.
async fn start_with_memories(world: &mut World, variables: &[(&str, &str)]) -> String {
    world.write_policy("[learning]\nconfirmed_weight = 900\n[context]\nwithhold_permille = 0\n");
    world.up_with_env(variables).await;
    // An empty store proves nothing when it is verified.
    world
        .emit_and_wait("default", "runs.jsonl", &build_correcting_runs("ship", "deploy_service", 0..10))
        .await;
    for title in HEAVY {
        add(world, "default", title, None).await;
    }
    world.write_policy("[learning]\nconfirmed_weight = 150\n[context]\nwithhold_permille = 0\n");
    world.wait_for_log("confirmed_weight 900 -> 150").await;
    add(world, "default", LIGHTEST, None).await
}

/// Adds a memory and returns its id.
async fn add(world: &World, tenant: &str, title: &str, repo: Option<&str>) -> String {
    let words = ["--by", "ann", "--reason", "policy", "--title", title, "--tenant", tenant];
    let scope = ["memories", "add", "--workflow", WORKFLOW, "--step", "deploy"];
    let repo: Vec<&str> = repo.iter().flat_map(|repo| ["--repo", repo]).collect();
    let added = world.run_json(&[&scope[..], &words, &repo].concat()).await;
    json_text(&added, "memory").to_owned()
}

async fn ask(world: &World, tenant: &str, more: Value) -> Value {
    let mut question = json!({"workflow": WORKFLOW, "step": "deploy"});
    question.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    world.fetch_context(tenant, &question).await
}

fn find<'a>(answer: &'a Value, id: &str) -> Option<&'a Value> {
    json_items(&answer["memories"]).iter().find(|memory| memory["id"] == id)
}

/// Searches the step and returns the answer. `more` is further query parameters.
async fn search(world: &World, tenant: &str, query: &str, more: &str) -> Value {
    let query = query.replace(' ', "+").replace('`', "");
    let path = format!("/v1/memories/search?query={query}&workflow={WORKFLOW}&step=deploy{more}");
    let (status, body) = world.get(tenant, &path).await;
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).expect("JSON")
}

async fn decide(world: &World, what: &str, id: &str) {
    let done = world.run_retro(&["memories", what, id, "--by", "ann", "--reason", "policy"]).await;
    assert_eq!(done.code, Some(0), "{done:?}");
}

#[tokio::test]
async fn a_task_brings_the_lightest_memory_to_the_front_and_its_line_says_why() {
    let mut world = World::empty();
    let id = start_with_memories(&mut world, &[]).await;

    let without = ask(&world, "default", json!({})).await;
    assert_eq!((json_items(&without["memories"]).len(), find(&without, &id)), (10, None), "{without}");
    assert!(!without.to_string().contains("because") && without["ranking"].is_null(), "{without}");
    let with = ask(&world, "default", json!({"task": TASK})).await;
    let found = find(&with, &id).expect("it is about the task");
    assert_eq!(json_items(&with["memories"])[0]["id"], json!(id), "it stands in front: {with}");
    assert_eq!(found["because"]["place"], "task", "{found}");
    assert!(found["because"]["relevance"].as_u64().expect("a number") > 300, "{found}");
    assert!(json_items(&found["because"]["words"]).contains(&json!("checkout_carts")), "{found}");
    assert_eq!(json_items(&with["memories"]).len(), 10);
    assert!(json_text(&with, "text").contains(&id[..8]));
    assert_eq!(with["ranking"], json!({"embedder": "ngram-2"}));
    // A task that nothing is about leaves the order of the weights.
    let foreign = ask(&world, "default", json!({"task": "Paint a landscape with oil"})).await;
    assert_eq!(foreign["text"], without["text"]);

    // The same request gets the same list, and another task of the run one of its own; the run was handed both.
    let of_run = |task: Option<&str>| json!({"run_id": "run-1", "task": task});
    let first = ask(&world, "default", of_run(Some(TASK))).await;
    assert_eq!(ask(&world, "default", of_run(Some(TASK))).await, first);
    let other = ask(&world, "default", of_run(None)).await;
    // Which of the equally heavy ones it gets may have changed: those of the first request count as presented by now.
    assert_eq!((json_items(&other["memories"]).len(), find(&other, &id)), (10, None), "{other}");
    assert!(!other.to_string().contains("because") && other["ranking"].is_null(), "{other}");

    let shown =
        world.run_retro(&["context", "--workflow", WORKFLOW, "--step", "deploy", "--task", TASK]).await;
    assert!(shown.out.contains("for the task") && shown.out.contains("shares"), "{shown:?}");
    let searched =
        world.run_retro(&["memories", "search", TASK, "--workflow", WORKFLOW, "--step", "deploy"]).await;
    assert!(searched.out.contains(LIGHTEST) && searched.out.contains("relevance"), "{searched:?}");
    world.verify_store().await;
    world.stop().await;
}

#[tokio::test]
async fn a_search_finds_what_the_reader_may_be_handed_and_nothing_else() {
    let mut world = World::empty();
    let id = start_with_memories(&mut world, &[]).await;

    let found = search(&world, "default", TASK, "&k=2").await;
    assert_eq!(json_items(&found["memories"])[0]["id"], json!(id), "{found}");
    assert!(json_items(&found["memories"]).len() <= 2 && found["recorded"] == "preview", "{found}");
    assert!(json_text(&found, "text").contains(LIGHTEST), "{found}");
    let none = search(&world, "default", "Paint a landscape with oil", "").await;
    assert_eq!(none["memories"], json!([]), "{none}");
    assert!(json_text(&none, "reason").contains("about the query"), "{none}");
    for (path, named) in [
        ("?query=x&workflow=release&k=0", "k"),
        ("?query=x&workflow=release&k=21", "k"),
        ("?query=x", "workflow"),
        ("?workflow=release", "query"),
    ] {
        let (status, body) = world.get("default", &format!("/v1/memories/search{path}")).await;
        assert!(status == 400 && body.contains(named), "{path}: {status} {body}");
    }

    // Another tenant, and another step.
    let is_found = async |tenant: &str, title: &str, more: &str| {
        let in_search = search(&world, tenant, title, more).await.to_string().contains(title);
        let repo = more.strip_prefix("&repo=");
        let context = ask(&world, tenant, json!({"task": title, "repo": repo})).await;
        let in_context = context.to_string().contains(title);
        assert_eq!(in_search, in_context, "{tenant} {title} {more}");
        in_search
    };
    assert!(is_found("default", LIGHTEST, "").await, "positive control");
    assert!(!is_found("acme", LIGHTEST, "").await, "another tenant");
    add(&world, "acme", "Order the migration of the vault before noon.", None).await;
    assert!(is_found("acme", "Order the migration of the vault before noon.", "").await);
    assert!(!is_found("default", "Order the migration of the vault before noon.", "").await);

    // What was learnt in a repository.
    let of_repo = "Warm the vault cache after a migration.";
    let repo_id = add(&world, "default", of_repo, Some("acme/vault")).await;
    assert!(is_found("default", of_repo, "&repo=acme/vault").await, "positive control");
    assert!(
        !is_found("default", of_repo, "").await && !is_found("default", of_repo, "&repo=acme/open").await
    );
    // A run that has found it opens it, like one that was handed it.
    let open = async || world.get("default", &format!("/v1/memories/{repo_id}?run=run-7")).await.0;
    assert_eq!(open().await, 404);
    let found = search(&world, "default", of_repo, "&repo=acme/vault&run=run-7").await;
    assert_eq!(found["recorded"], "queued", "{found}");
    assert_eq!(open().await, 200, "what was found is presented to the run");

    // Rules of a repository are found with it.
    let rule = "Never log the token of a webhook.";
    let rule_added =
        ["rules", "add", "--repo", "acme/vault", "--title", rule, "--by", "ann", "--reason", "policy"];
    assert_eq!(world.run_retro(&rule_added).await.code, Some(0));
    let (_, body) = world.get("default", "/v1/memories/search?query=token+webhook&repo=acme/vault").await;
    assert!(body.contains(rule) && body.contains(r#""kind":"rule""#), "{body}");

    // Disabled and held ones.
    decide(&world, "disable", &id).await;
    assert!(!is_found("default", LIGHTEST, "").await, "disabled");
    decide(&world, "enable", &id).await;
    assert!(is_found("default", LIGHTEST, "").await, "enabled again");
    let dangerous = "Deploy the exporter with git push --force to the main branch.";
    let held = add(&world, "default", dangerous, None).await;
    assert!(!is_found("default", dangerous, "").await, "held");
    decide(&world, "release", &held).await;
    assert!(is_found("default", dangerous, "").await, "released");

    // What chance withholds from a run is not found by searching either.
    world.write_policy("[context]\nwithhold_permille = 500\n");
    world.wait_for_log("withhold_permille 0 -> 500").await;
    let mut withheld = 0;
    for number in 0..20 {
        let run = format!("chance-{number}");
        let context = ask(&world, "default", json!({"task": TASK, "run_id": run})).await;
        let found = search(&world, "default", TASK, &format!("&run={run}")).await;
        assert_eq!(find(&found, &id).is_some(), find(&context, &id).is_some(), "{found}");
        withheld += usize::from(find(&found, &id).is_none());
    }
    assert!((1..20).contains(&withheld), "{withheld} of 20");
    world.verify_store().await;
    world.stop().await;
}

/// Words that the tests' embedder treats as synonyms.
const CONCEPTS: Concepts =
    &[&["freeze", "migration", "checkout", "basket"], &["team", "deploy"], &["halt", "schema"]];
/// A token in the format of a well-known service.
const SECRET: &str = concat!("ghp_", "x7Kd93LmQz0pVb5RtYw2Nc8Hs4Jf6Ga1Ue7O");

fn embedder_variables(url: &str) -> Vec<(&'static str, String)> {
    vec![
        ("RETRO_EMBEDDER_URL", url.to_owned()),
        ("RETRO_EMBEDDER_MODEL", "small".to_owned()),
        ("RETRO_EMBEDDER_DIMENSIONS", CONCEPTS.len().to_string()),
        ("RETRO_EMBEDDER_SCALE", "300, 600, 800".to_owned()),
    ]
}

#[tokio::test]
async fn an_embedder_that_is_down_or_silent_is_left_out_and_gets_no_secret_when_it_is_back() {
    let server = EmbeddingServer::start(CONCEPTS).await;
    let variables = embedder_variables(server.url());
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut world = World::empty();
    let id = start_with_memories(&mut world, &variables).await;
    let embedded = async || server.embedded_texts().iter().any(|text| text == LIGHTEST).then_some(());
    world.wait_for("the memory's text is embedded", embedded).await;

    // It shares no word with the memory that the embedder says it is about.
    let task = format!("Alter the basket for {SECRET}");
    let by_vectors = async || {
        let answer = ask(&world, "default", json!({"task": task})).await;
        (answer["ranking"] == json!({"embedder": "small@3"}) && find(&answer, &id).is_some()).then_some(())
    };
    world.wait_for("the vectors are stored, and the memory is found by its vector", by_vectors).await;
    let texts = server.embedded_texts();
    let sent: Vec<&String> = texts.iter().filter(|text| text.contains("Alter the basket")).collect();
    assert!(!sent.is_empty() && sent.iter().all(|text| !text.contains(SECRET)), "{sent:?}");
    let logged = world.read_log();
    assert!(!logged.contains("Alter the basket"), "a task is in the log");

    server.set_unavailable(true);
    let down = ask(&world, "default", json!({"task": TASK})).await;
    assert!(json_text(&down["ranking"], "left_out").contains("embedder"), "{down}");
    assert!(find(&down, &id).is_some(), "by words: {down}");
    world.verify_store().await;
    world.stop().await;

    // An address that accepts connections and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/v1", silent.local_addr().expect("an address"));
    let mut variables = embedder_variables(&url);
    variables.push(("RETRO_CONTEXT_TIMEOUT_MS", TIMEOUT_MS.to_string()));
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    world.up_with_env(&variables).await;
    for nth in 0..4 {
        let began = Instant::now();
        let answer =
            ask(&world, "default", json!({"task": format!("{TASK} {nth}"), "run_id": "run-9"})).await;
        assert!(began.elapsed() < ANSWER_MAX, "{:?}", began.elapsed());
        assert!(find(&answer, &id).is_some(), "{answer}");
        assert!(json_text(&answer["ranking"], "left_out").contains("embedder"), "{answer}");
        let found = search(&world, "default", TASK, "").await;
        assert!(find(&found, &id).is_some(), "{found}");
    }
    world.verify_store().await;
    world.stop().await;
}
