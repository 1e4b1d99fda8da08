//! Crashes while traces are collected whose spans come in several requests. An exporter without an answer sends a part again.

use retro_eval::http_client::configure_client;
use retro_fault::Label;
use serde_json::{Value, json};

use super::harness::{CrashHarness, CrashPoint, RUNS, compare_with_undisturbed};
use crate::world::json_items;

pub(super) const LABELS: [Label; 4] =
    [Label::SpansAddCommit, Label::TracesClaimCommit, Label::TracesReadCommit, Label::TraceEndCommit];

#[test]
fn killed_at_every_step_of_collecting_a_trace_its_run_is_counted_once() {
    println!("{}", compare_with_undisturbed(|_| &LABELS, run_script));
}

async fn run_script(ground: &mut CrashHarness) {
    ground.up_with_variables(&[("RETRO_TRACE_QUIET_S", "1"), ("RETRO_SWEEP_INTERVAL_MS", "200")]).await;
    for (number, point) in (1..).zip(CrashPoint::for_labels(&LABELS)) {
        let workflow = point.workflow_name();
        ground.arm_crash(point);
        for run in 0..RUNS {
            let trace = format!("{:032x}", number * 100 + run + 1);
            // The program may die in any request of the first trace, or after the last.
            for ids in [[2, 3], [3, 4], [5, 1]] {
                let part = build_part(&workflow, &trace, &ids);
                if post_part(ground, &part).await.is_none() {
                    ground.wait_for_crash_and_restart(point).await;
                    post_part(ground, &part).await.expect("the program answers");
                }
            }
            if run == 0 && ground.is_killed() && !ground.has_died() {
                ground.wait_for_crash_and_restart(point).await;
            }
            let counted = async |ground: &CrashHarness| {
                let runs = ground.run_json(&["runs", "--workflow", &workflow]).await;
                (json_items(&runs).len() as u64 == run + 1).then_some(())
            };
            ground.wait_for("the run is counted", async || counted(ground).await).await;
        }
        ground.wait_until_finished(&workflow, RUNS).await;
    }
}

/// Posts a part of a trace. Returns `None` if the program dies.
async fn post_part(ground: &CrashHarness, part: &Value) -> Option<()> {
    let client = configure_client().build().expect("a client for plain HTTP");
    let post = client.post(format!("{}/v1/traces", ground.http_url())).header("Retro-Tenant", "default");
    let response = post.json(part).send().await.ok()?;
    assert_eq!(response.status().as_u16(), 200);
    let answer: Value = response.json().await.ok()?;
    assert_eq!(answer, json!({}));
    Some(())
}

/// Returns a request with these spans of a trace. The first one is the root; the others are calls in it, of which every
/// second one fails.
fn build_part(workflow: &str, trace: &str, ids: &[u64]) -> Value {
    let spans: Vec<Value> = ids.iter().map(|id| build_span(workflow, trace, *id)).collect();
    json!({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
}

fn build_span(workflow: &str, trace: &str, id: u64) -> Value {
    let text = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    let attributes = match id {
        1 => vec![
            text("gen_ai.operation.name", "invoke_agent"),
            text("retro.workflow", workflow),
            text("retro.outcome", "success"),
        ],
        _ => vec![
            text("gen_ai.tool.name", "deploy_service"),
            text(
                "gen_ai.tool.call.arguments",
                if id.is_multiple_of(2) { "{}" } else { r#"{"region": "eu"}"# },
            ),
            text(
                "gen_ai.tool.call.result",
                if id.is_multiple_of(2) { "Error: missing required argument 'region'" } else { "deployed" },
            ),
        ],
    };
    let start = 1_764_374_400_000_000_000 + id * 1_000_000_000;
    let end = if id == 1 { start + 60_000_000_000 } else { start + 500_000_000 };
    json!({
        "traceId": trace, "spanId": format!("{id:016x}"), "name": "call",
        "parentSpanId": if id == 1 { String::new() } else { format!("{:016x}", 1) },
        "startTimeUnixNano": start.to_string(), "endTimeUnixNano": end.to_string(),
        "attributes": attributes,
    })
}
