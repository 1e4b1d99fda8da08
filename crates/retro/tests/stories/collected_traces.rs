//! Tests traces of OpenTelemetry whose spans come in several requests, as SDKs export them.

use std::fs;

use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};

use crate::world::{DatabaseKind, Fleet, World, json_items, json_text, project_path, run_command};

const TRACE: &str = "5b8aa5a2d2c872e8321cf37308d69df2";
/// Number of calls of tools in the trace of the tests.
const CALLS: u64 = 7;

/// Returns a span of the trace: the root, which is the agent, or a call of a tool in it.
fn span(trace: &str, id: u64) -> Value {
    let parent = match id {
        1 => String::new(),
        _ => format!("{:016x}", 1),
    };
    let attributes = match id {
        1 => {
            json!({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "fixer", "retro.outcome": "failure"})
        }
        _ => json!({
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "bash",
            "gen_ai.tool.call.arguments": json!({"command": format!("npm test {id}")}).to_string(),
            "gen_ai.tool.call.result": format!("result {id}"),
        }),
    };
    let attributes: Vec<Value> = attributes
        .as_object()
        .expect("an object")
        .iter()
        .map(|(key, value)| json!({"key": key, "value": {"stringValue": value}}))
        .collect();
    let start = 1_764_374_400_000_000_000 + id * 1_000_000_000;
    json!({
        "traceId": trace, "spanId": format!("{id:016x}"), "parentSpanId": parent, "name": "call",
        "startTimeUnixNano": if id == 1 { 1_764_374_400_000_000_000_u64.to_string() } else { start.to_string() },
        "endTimeUnixNano": (start + if id == 1 { 60_000_000_000 } else { 500_000_000 }).to_string(),
        "attributes": attributes,
    })
}

/// Returns a request with these spans of a trace.
fn request(trace: &str, ids: impl IntoIterator<Item = u64>) -> Value {
    let spans: Vec<Value> = ids.into_iter().map(|id| span(trace, id)).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]},
        "scopeSpans": [{"spans": spans}],
    }]})
}

/// Posts spans until they are accepted, as an exporter does.
async fn export(url: &str, tenant: &str, spans: &Value) -> Value {
    let client = retro_eval::http_client::configure_client().build().expect("a client for plain HTTP");
    let post = client.post(format!("{url}/v1/traces")).header("Retro-Tenant", tenant);
    let response = post.header(CONTENT_TYPE, "application/json").body(spans.to_string()).send().await;
    let response = response.expect("the program answers");
    assert_eq!(response.status().as_u16(), 200, "{:?}", response.text().await);
    response.json().await.expect("JSON")
}

/// Waits until the only run of a tenant has all calls, and returns its facts.
async fn wait_for_whole_run(world: &World, tenant: &str) -> Value {
    world
        .wait_for("the run with all of its calls", async || {
            let shown = world.run_retro(&["--tenant", tenant, "-o", "json", "runs", "show", TRACE]).await;
            let shown: Value = (shown.code == Some(0)).then(|| shown.parse_json())?;
            let text = shown.to_string();
            (2..2 + CALLS).all(|id| text.contains(&format!("npm test {id}\""))).then_some(shown)
        })
        .await
}

async fn assert_one_run(world: &World, tenant: &str) {
    world.wait_until_idle().await;
    let runs = world.run_json(&["--tenant", tenant, "runs"]).await;
    let [run] = json_items(&runs) else { panic!("{runs}") };
    let facts = (json_text(&run["key"], "workflow"), json_text(&run["facts"], "outcome"));
    assert_eq!(facts, ("fixer", "failure"), "{run}");
    let dead_letters = world.run_json(&["--tenant", tenant, "dead-letters", "list"]).await;
    assert_eq!(dead_letters, json!([]));
}

#[tokio::test]
async fn a_trace_in_parts_is_one_run_though_the_program_is_killed_between_them() {
    let mut world = World::empty();
    let quick = [("RETRO_TRACE_QUIET_S", "2"), ("RETRO_SWEEP_INTERVAL_MS", "200")];
    world.up_with_env(&quick).await;
    assert_eq!(export(world.http_url(), "acme", &request(TRACE, [5, 3, 4])).await, json!({}));
    assert_eq!(export(world.http_url(), "other", &request(TRACE, [6])).await, json!({}));
    world.kill().await;
    world.up_with_env(&quick).await;
    assert_eq!(export(world.http_url(), "acme", &request(TRACE, [4, 2, 6, 7, 8])).await, json!({}));
    assert_eq!(export(world.http_url(), "acme", &request(TRACE, [1])).await, json!({}));
    world.wait_until_counted("acme", 1).await;
    wait_for_whole_run(&world, "acme").await;
    assert_one_run(&world, "acme").await;
    assert_eq!(world.run_json(&["--tenant", "other", "runs"]).await, json!([]));
    world.verify_store().await;
    world.stop().await;
}

#[tokio::test]
async fn two_gateways_make_one_run_of_a_shuffled_trace_though_one_is_killed() {
    let mut fleet = Fleet::unstarted(DatabaseKind::Postgres).await;
    fleet.start_broker().await;
    fleet.start_database().await;
    fleet.migrate().await;
    let quick = [("RETRO_TRACE_QUIET_S", "2"), ("RETRO_SWEEP_INTERVAL_MS", "200"), ("RETRO_LEASE_S", "1")];
    let worker = fleet.serve_with_env("counter,sampler,investigator,writer,relay", &quick);
    let first = fleet.serve_with_env("gateway", &quick);
    let first_url = fleet.http_url().to_owned();
    let second = fleet.serve_with_env("gateway", &quick);
    let second_url = fleet.http_url().to_owned();
    for nth in [worker, first, second] {
        fleet.wait_until_ready(nth).await;
    }
    // The part with the root looks whole, and comes first.
    let parts =
        [request(TRACE, [1, 8]), request(TRACE, [3, 2]), request(TRACE, [3, 4, 5]), request(TRACE, [7, 6])];
    for (part, url) in parts.iter().zip([&first_url, &second_url, &first_url]) {
        assert_eq!(export(url, "default", part).await, json!({}));
    }
    fleet.kill(first).await;
    assert_eq!(export(&second_url, "default", &parts[3]).await, json!({}));
    assert_eq!(export(&second_url, "default", &parts[1]).await, json!({}), "an exporter may repeat it");
    wait_for_whole_run(&fleet, "default").await;
    assert_one_run(&fleet, "default").await;
    // Its spans are deleted once nothing more has come.
    let late = async || {
        let answer = export(&second_url, "default", &request(TRACE, [90])).await;
        answer["partialSuccess"]["errorMessage"].as_str().map(str::to_owned)
    };
    let late =
        fleet.wait_for_with_interval(std::time::Duration::from_secs(4), "the trace is closed", late).await;
    assert!(late.contains("trace_quiet_s"), "{late}");
    fleet.verify_store().await;
    fleet.stop_all().await;
}

#[tokio::test]
async fn a_trace_whose_root_never_comes_is_a_dead_letter_that_can_be_emitted() {
    let mut world = World::empty();
    let quick = [("RETRO_TRACE_ROOT_S", "1"), ("RETRO_SWEEP_INTERVAL_MS", "200")];
    world.up_with_env(&quick).await;
    assert_eq!(export(world.http_url(), "default", &request(TRACE, 2..2 + CALLS)).await, json!({}));
    let listed = world
        .wait_for("the dead letter", async || {
            let listed = world.run_json(&["dead-letters", "list"]).await;
            (json_items(&listed).len() == 1).then_some(listed)
        })
        .await;
    assert_eq!(json_text(&listed[0], "code"), "trace_incomplete", "{listed}");
    assert_eq!(world.run_json(&["--tenant", "other", "dead-letters", "list"]).await, json!([]));
    let id = json_text(&listed[0], "id");
    let refused = world.run_retro(&["dead-letters", "replay", id, "--reason", "r"]).await;
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(format!("{refused:?}").contains("no message"), "{refused:?}");

    let page = fs::read_to_string(project_path("deploy/runbooks/trace_incomplete.md")).expect("the page");
    assert!(page.contains("dead-letters export --raw"), "{page}");
    let export = [
        "dead-letters",
        "export",
        "--raw",
        "--code",
        "trace_incomplete",
        "--text",
        TRACE,
        "--reason",
        "its root is lost",
    ];
    let exported = world.run_retro(&export).await;
    assert_eq!(exported.code, Some(0), "{exported:?}");
    let line: Value = serde_json::from_str(exported.out.trim()).expect("one line");
    let file = world.write_file("line.json", line.to_string());
    let decode = "python3 -c 'import base64,json,sys; sys.stdout.buffer.write(base64.b64decode(json.load(open(sys.argv[1]))[\"payload_base64\"]))'";
    let mut shell = tokio::process::Command::new("sh");
    let spans = world.path("spans.json");
    shell.arg("-c").arg(format!("{decode} {file} > {}.zst", spans.display()));
    assert_eq!(run_command(&mut shell).await.code, Some(0));
    let packed = fs::read(format!("{}.zst", spans.display())).expect("the payload");
    fs::write(&spans, retro_store::decompress_document(&packed).expect("zstd")).expect("the spans");
    let emitted = world.run_retro(&["emit", &spans.display().to_string()]).await;
    assert_eq!(emitted.code, Some(0), "{emitted:?}");
    world.wait_until_counted("default", 1).await;
    world.stop().await;
}
