//! Runs the integration of STATE-Bench against the program, without the benchmark.

use serde_json::{Value, json};
use tokio::process::Command;

use crate::world::{World, project_path, run_command};

/// Builds a trajectory as the benchmark writes them: the calls of a turn stand beside the answer after them.
fn build_trajectory(order: u32) -> Value {
    let call = |arguments: Value, result: Value| json!({"name": "process_exchange", "arguments": arguments, "result": result});
    let refused = json!({"error": "missing required argument 'new_variant'"});
    json!({"conversation": [
        {"role": "system", "content": "You help customers of a shop."},
        {"role": "user", "content": format!("Exchange the shoes of order {order} for size 43.")},
        {"role": "assistant", "content": "Your exchange is on its way.", "tool_calls": [
            call(json!({"order_id": order}), refused),
            call(json!({"order_id": order, "new_variant": "43"}), json!({"status": "exchanged", "order_id": order})),
        ]},
        {"role": "user", "content": "Thank you.", "tool_calls": null},
        {"role": "assistant", "content": "You are welcome.", "tool_calls": null},
        {"role": "user", "content": "[TASK_DONE]"},
    ]})
}

#[tokio::test]
async fn trajectories_of_state_bench_become_learnings_that_its_agent_looks_up() {
    let mut world = World::start().await;
    let folder = world.path("travel");
    std::fs::create_dir(&folder).expect("a folder");
    for order in 0..10 {
        let file = folder.join(format!("{order}-exchange.json"));
        std::fs::write(file, build_trajectory(order).to_string()).expect("written");
    }
    let send = async |world: &World, options: &[&str]| {
        let mut command = Command::new("python3");
        command.arg(project_path("integrations/state-bench/send_trajectories.py")).arg(&folder);
        // The spool is in the home.
        command.args(["--url", world.http_url()]).args(options).env("HOME", world.path("home"));
        run_command(&mut command).await
    };
    let printed = send(&world, &["--print", "--limit", "1"]).await;
    let event: Value = serde_json::from_str(&printed.out).expect("one event");
    let sources: Vec<&str> = event["data"]["trajectory"]["steps"]
        .as_array()
        .expect("turns")
        .iter()
        .map(|turn| turn["source"].as_str().expect("a source"))
        .collect();
    assert_eq!(sources, ["system", "user", "agent", "agent", "agent", "user", "agent"], "{event}");
    assert_eq!(event["data"]["task"], "Exchange the shoes of order 0 for size 43.");

    let sent = send(&world, &[]).await;
    assert_eq!(sent.code, Some(0), "{sent:?}");
    world.wait_until_counted("default", 10).await;
    world.wait_until_idle().await;
    let again = send(&world, &[]).await;
    assert_eq!(again.code, Some(0), "{again:?}");

    // The benchmark itself needs Python 3.12 and keys; of it, only the class that the agent extends stands in.
    let script = r#"
import sys, types, json
base = types.ModuleType("state_bench.agents.state_bench")
base.StateBenchAgent = object
sys.modules.update({"state_bench": types.ModuleType("state_bench"), "state_bench.agents": types.ModuleType("agents")})
sys.modules["state_bench.agents.state_bench"] = base
sys.path[:0] = sys.argv[1:3]
from retrospect_agent import RetrospectAgent
agent = RetrospectAgent()
print(json.dumps([agent.retrieve_learnings("exchange an item", top_k=3), agent.retrieve_learnings("paint a landscape")]))
"#;
    let mut python = Command::new("python3");
    python.args(["-c", script]);
    python.args(["integrations/state-bench/agents", "clients/python"].map(project_path));
    python.env("RETRO_URL", world.http_url()).env("RETRO_STATE_BENCH_DOMAIN", "travel");
    let looked_up = run_command(&mut python).await;
    let learnings: Vec<Vec<String>> = serde_json::from_str(&looked_up.out).expect("two lists of texts");
    assert_eq!(learnings[0].len(), 1, "{learnings:?}");
    assert!(learnings[0][0].contains("`new_variant`"), "{learnings:?}");
    assert!(learnings[1].is_empty(), "{learnings:?}");
    world.stop().await;
}
