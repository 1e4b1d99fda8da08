//! Agents ask over NATS: the answers are those of HTTP, each to the tenant of its subject, and what is handed out is
//! recorded. The client is written by hand, so nothing of the program's own library is in the way.

use std::collections::BTreeSet;

use retro_core::id::{MemoryId, RunId, Tenant, Workflow, WorkflowKey};
use retro_events::Role;
use retro_events::permissions::{BrokerUser, inbox_prefix};
use retro_testkit::SecuredNats;
use serde_json::{Value, json};

use crate::world::{
    DatabaseKind, Fleet, FreezableProxy, NatsConnection, RawMessage, World, build_correcting_runs,
    json_items, json_text,
};

const WORKFLOW: &str = "release";
/// Number of requests that are sent one after another, to see that every one is answered.
const REQUESTS: usize = 200;

/// Sends a request until somebody answers, for a gateway that has just started. Returns the answer.
async fn ask_until_answered(
    world: &World,
    nats: &mut NatsConnection,
    subject: &str,
    request: &Value,
) -> Value {
    let mut answer = nats.request(subject, &request.to_string()).await;
    if answer.payload.is_empty() {
        // A connection of its own, because the closure cannot lend this one.
        let answered = world.wait_for("a gateway answers over NATS", async || {
            let mut nats = NatsConnection::connect(world.nats_url()).await;
            let answer = nats.request(subject, &request.to_string()).await;
            (!answer.payload.is_empty()).then_some(answer)
        });
        answer = answered.await;
    }
    parse(&answer)
}

fn parse(answer: &RawMessage) -> Value {
    serde_json::from_slice(&answer.payload).unwrap_or_else(|_| panic!("no JSON: {answer:?}"))
}

/// Sends a request that is refused. Returns the code of the header and the problem.
async fn ask_refused(nats: &mut NatsConnection, subject: &str, request: &str) -> (String, Value) {
    let answer = nats.request(subject, request).await;
    let code = answer.find_header("Nats-Service-Error-Code").unwrap_or_else(|| panic!("{answer:?}"));
    assert!(answer.find_header("Nats-Service-Error").is_some_and(|reason| !reason.is_empty()), "{answer:?}");
    assert_eq!(answer.find_header("Content-Type"), Some("application/problem+json"));
    (code.to_owned(), parse(&answer))
}

async fn was_presented(world: &World, tenant: &str, run: &str, memory: &str) -> bool {
    let key = WorkflowKey {
        tenant: Tenant::new(tenant).expect("a name"),
        workflow: Workflow::new(WORKFLOW).expect("a name"),
    };
    let id: MemoryId = memory.parse().expect("an id");
    let store = world.open_store().await;
    store.was_presented(&key, &RunId::new(run).expect("an id"), id).await.expect("the database answers")
}

#[tokio::test]
async fn an_agent_gets_over_nats_what_it_gets_over_http_and_no_other_tenants() {
    let mut world = World::empty();
    world.write_policy("[context]\nwithhold_permille = 0\n");
    world.up().await;
    for tenant in ["default", "acme"] {
        let runs = build_correcting_runs(WORKFLOW, "deploy_service", 0..10);
        world.emit_and_wait(tenant, &format!("{tenant}.jsonl"), &runs).await;
    }
    let memories = world.run_json(&["memories", "list", "--status", "active"]).await;
    let memory = json_text(&json_items(&memories)[0], "id").to_owned();
    let mut nats = NatsConnection::connect(world.nats_url()).await;

    // A preview is the same JSON, whichever way it is asked for. An unknown field is ignored, and so is a tenant.
    let preview = json!({"workflow": WORKFLOW, "step": "deploy", "task": "deploy the service"});
    let over_http = world.fetch_context("default", &preview).await;
    let mut asked = preview.clone();
    asked["tenant"] = json!("acme");
    let answer = ask_until_answered(&world, &mut nats, "retro.agents.context.default", &asked).await;
    assert_eq!((&answer, json_items(&answer["memories"]).len()), (&over_http, 1));

    let question = json!({"workflow": WORKFLOW, "step": "deploy", "run_id": "next"});
    let answer = parse(&nats.request("retro.agents.context.default", &question.to_string()).await);
    assert_eq!((&answer["memories"][0]["id"], &answer["recorded"]), (&json!(memory), &json!("queued")));
    world
        .wait_for("the presentation is stored", async || {
            was_presented(&world, "default", "next", &memory).await.then_some(())
        })
        .await;
    assert!(
        !was_presented(&world, "acme", "next", &memory).await
            && !was_presented(&world, "default", "x", &memory).await
    );

    let read = json!({"memory": &memory[..8], "run": "next"}).to_string();
    let answer = parse(&nats.request("retro.agents.memory.read.default", &read).await);
    assert_eq!((&answer["memory"]["id"], &answer["recorded"]), (&json!(memory), &json!("recorded")));
    let search = json!({"query": "deploy_service", "workflow": WORKFLOW, "step": "deploy", "run": "next"});
    let answer = parse(&nats.request("retro.agents.memory.search.default", &search.to_string()).await);
    assert_eq!(answer["memories"][0]["id"], json!(memory), "{answer}");
    let feedback = json!({"memory": memory, "verdict": "helped", "run": "next", "workflow": WORKFLOW});
    let answer = parse(&nats.request("retro.agents.feedback.default", &feedback.to_string()).await);
    assert_eq!(answer["recorded"], "recorded", "{answer}");
    let shown = world.run_retro(&["memories", "show", &memory]).await.out;
    assert!(shown.contains("helped"), "{shown}");

    // The user is told where the broker is, and the log does not have the login.
    let (login, address) = world.nats_url().rsplit_once('@').expect("a login");
    let (log, password) = (world.read_log(), login.rsplit(':').next().expect("a password"));
    assert!(
        log.contains(&format!("; NATS at {address}, with its login in ")) && !log.contains(password),
        "{log}"
    );

    check_refusals(&world, &mut nats, &memory).await;
    check_kill_switch(&world, &mut nats, &question).await;
    check_service(&world, &mut nats).await;
    world.verify_store().await;
    world.stop().await;
}

/// The errors are those of HTTP, and another tenant's memory is as missing as one that does not exist.
async fn check_refusals(world: &World, nats: &mut NatsConnection, memory: &str) {
    let context = "retro.agents.context.default";
    for (request, status) in [
        ("{".to_owned(), 400),
        ("{}".to_owned(), 400),
        (json!({"workflow": "x".repeat(70_000)}).to_string(), 413),
    ] {
        let (code, problem) = ask_refused(nats, context, &request).await;
        assert_eq!((code, &problem["status"]), (status.to_string(), &json!(status)), "{problem}");
    }
    let invalid = json!({"workflow": 5});
    let (_, over_http) = world.post_json("default", "/v1/context", &invalid).await;
    assert_eq!(ask_refused(nats, context, &invalid.to_string()).await.1, over_http);
    let (code, problem) = ask_refused(nats, "retro.agents.context.=61cme", "{}").await;
    assert_eq!(
        (code.as_str(), &problem["path"]),
        ("400", &json!("subject.tenant")),
        "a second spelling of acme"
    );

    let unknown = "00000000-0000-8000-8000-000000000000";
    let read = |id: &str| json!({"memory": id, "run": "next"}).to_string();
    let own = nats.request("retro.agents.memory.read.default", &read(memory)).await;
    assert_eq!(parse(&own)["memory"]["id"], json!(memory), "positive control");
    let (code, foreign) = ask_refused(nats, "retro.agents.memory.read.acme", &read(memory)).await;
    let (_, missing) = ask_refused(nats, "retro.agents.memory.read.acme", &read(unknown)).await;
    assert_eq!((code.as_str(), foreign.to_string().replace(memory, unknown)), ("404", missing.to_string()));
    let person = json!({"memory": memory, "verdict": "wrong", "by": "ada"});
    assert_eq!(ask_refused(nats, "retro.agents.feedback.default", &person.to_string()).await.0, "403");
}

async fn check_kill_switch(world: &World, nats: &mut NatsConnection, question: &Value) {
    let engage = ["kill-switches", "engage", "--whole-tenant", "--reason", "an incident", "--by", "ada"];
    assert_eq!(world.run_json(&engage).await["status"], "done");
    let stopped = parse(&nats.request("retro.agents.context.default", &question.to_string()).await);
    assert_eq!(stopped["reason"], "no memories: a person has switched them off for tenant default");
    let other = parse(&nats.request("retro.agents.context.acme", &question.to_string()).await);
    assert_eq!(json_items(&other["memories"]).len(), 1, "another tenant: {other}");
    let disengage = ["kill-switches", "disengage", "--whole-tenant", "--reason", "it is over", "--by", "ada"];
    assert_eq!(world.run_json(&disengage).await["status"], "done");
    let again = parse(&nats.request("retro.agents.context.default", &question.to_string()).await);
    assert_eq!(json_items(&again["memories"]).len(), 1);
}

/// Tools and operators see the service and its numbers.
async fn check_service(world: &World, nats: &mut NatsConnection) {
    let info = parse(&nats.request("$SRV.INFO.retro-agents", "").await);
    let subjects: Vec<_> =
        json_items(&info["endpoints"]).iter().map(|one| json_text(one, "subject")).collect();
    assert_eq!(
        subjects,
        [
            "retro.agents.context.*",
            "retro.agents.memory.read.*",
            "retro.agents.memory.search.*",
            "retro.agents.feedback.*"
        ]
    );
    let stats = parse(&nats.request("$SRV.STATS.retro-agents", "").await);
    let context = &stats["endpoints"][0];
    assert_eq!((&context["num_requests"], &context["num_errors"]), (&json!(10), &json!(5)), "{stats}");
    let (_, metrics) = world.get("default", "/metrics").await;
    let line = "retro_agents_requests_total{retro_operation=\"context\",retro_outcome=\"answered\"} 5";
    assert!(metrics.contains(line), "{metrics}");
    let doctor = world.run_retro(&["doctor"]).await.out;
    assert!(doctor.contains("agents are answered on retro.agents.context.<tenant>"), "{doctor}");
}

/// Each process is a user of the broker with the permissions that we ship, and so is the engine.
#[tokio::test]
async fn the_gateways_of_a_fleet_share_the_requests_of_a_tenants_agents() {
    let [acme, other] = ["acme", "other"].map(|name| Tenant::new(name).expect("a name"));
    let nats = SecuredNats::start(&[acme.clone(), other]).await;
    let mut fleet = Fleet::unstarted(DatabaseKind::Sqlite).await;
    fleet.set_broker_url(nats.url(&BrokerUser::Setup));
    fleet.migrate().await;
    let url = nats.url(&BrokerUser::Role(Role::Gateway));
    let [first, second] = [
        fleet.serve_with_env("gateway", &[("NATS_URL", &url)]),
        fleet.serve_with_env("gateway", &[("NATS_URL", &url)]),
    ];
    let connect = async |user: BrokerUser| {
        NatsConnection::connect_with_inbox(&nats.url(&user), &inbox_prefix(Some(&user.to_string()))).await
    };
    let mut engine = connect(BrokerUser::Engine(acme)).await;
    let mut operator = connect(BrokerUser::Setup).await;
    let question = json!({"workflow": WORKFLOW, "run_id": "next"}).to_string();
    let mut ask = async || engine.request("retro.agents.context.acme", &question).await;
    for nth in [first, second] {
        fleet.wait_until_ready(nth).await;
    }
    let mut both = BTreeSet::new();
    while both.len() < 2 {
        // A gateway subscribes a moment after it is ready; until then nobody answers.
        let answer = operator.request("$SRV.PING.retro-agents", "").await;
        if !answer.payload.is_empty() {
            both.insert(json_text(&parse(&answer), "id").to_owned());
        }
    }
    for _ in 0..REQUESTS {
        let answer = parse(&ask().await);
        assert!(json_text(&answer, "reason").contains("no memory of this step is active"), "{answer}");
    }
    let mut shares = Vec::new();
    for id in &both {
        let stats = parse(&operator.request(&format!("$SRV.STATS.retro-agents.{id}"), "").await);
        shares.push(stats["endpoints"][0]["num_requests"].as_u64().expect("a count"));
    }
    assert!(
        shares.iter().all(|share| *share > 0) && shares.iter().sum::<u64>() == REQUESTS as u64,
        "{shares:?}"
    );

    // No request is lost while one of them leaves, and an agent that nobody answers is told so at once.
    fleet.terminate(first);
    for _ in 0..REQUESTS {
        assert!(!ask().await.payload.is_empty(), "a request was lost");
    }
    assert_eq!(fleet.wait_for_exit(first).await, Some(0));
    fleet.stop(second).await;
    assert!(ask().await.payload.is_empty(), "nobody answers");

    // Nor does one answer that was told not to.
    let silent = fleet.serve_with_env("gateway", &[("NATS_URL", &url), ("RETRO_NATS_AGENTS", "false")]);
    fleet.wait_until_ready(silent).await;
    for _ in 0..REQUESTS {
        assert!(ask().await.payload.is_empty(), "nats_agents = false");
    }

    let refusal = engine.request_refused("retro.agents.context.other", &question).await;
    assert!(
        refusal.contains("Permissions Violation for Publish to \"retro.agents.context.other\""),
        "{refusal}"
    );
    let log = fleet.log_tail();
    assert!(!log.contains("Permissions Violation"), "{log}");
    fleet.stop_all().await;
}

#[tokio::test]
async fn a_frozen_database_costs_an_agent_its_memories_and_no_more_than_the_timeout() {
    let mut fleet =
        Fleet::start(DatabaseKind::Postgres, &[("counter,sampler,investigator,writer,relay", 1)]).await;
    let line = FreezableProxy::start(fleet.database_url()).await;
    let database = line.url().to_owned();
    let environment = [("DATABASE_URL", database.as_str()), ("RETRO_CONTEXT_TIMEOUT_MS", "500")];
    let gateway = fleet.serve_with_env("gateway", &environment);
    fleet.wait_until_ready(gateway).await;
    let mut nats = NatsConnection::connect(fleet.nats_url()).await;
    let question = json!({"workflow": WORKFLOW, "step": "unknown"});
    let subject = "retro.agents.context.default";
    let answer = ask_until_answered(&fleet, &mut nats, subject, &question).await;
    assert!(json_text(&answer, "reason").contains("no memory of this step"), "positive control: {answer}");
    line.freeze();
    let answer = fleet
        .wait_for("a lease of the cache has run out", async || {
            let mut nats = NatsConnection::connect(fleet.nats_url()).await;
            let answer = parse(&nats.request(subject, &question.to_string()).await);
            json_text(&answer, "reason").contains("did not answer").then_some(answer)
        })
        .await;
    assert_eq!(
        (json_text(&answer, "reason"), &answer["memories"]),
        ("no memories: the database did not answer within 500 ms", &json!([]))
    );
    line.thaw();
    fleet
        .wait_for("the gateway answers from the database again", async || {
            let mut nats = NatsConnection::connect(fleet.nats_url()).await;
            let answer = parse(&nats.request(subject, &question.to_string()).await);
            json_text(&answer, "reason").contains("no memory of this step").then_some(())
        })
        .await;
    fleet.stop_all().await;
}
