//! Runs a fleet over a NATS cluster of three servers with TLS by a private authority, an nkey for each user, and three
//! replicas of every stream.

use std::ops::Range;
use std::path::Path;
use std::process::Output;

use retro_bus::Role;
use retro_core::id::Tenant;
use retro_events::permissions::BrokerUser;
use retro_testkit::NatsCluster;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::world::{DatabaseKind, Fleet, WEBHOOK_SECRET, build_correcting_runs, json_items, run_command};

/// Ten runs of each, which is one window.
const WORKFLOWS: u64 = 30;
const RUNS: u64 = 10 * WORKFLOWS;

#[tokio::test]
async fn a_cluster_whose_leader_is_killed_loses_no_run_and_counts_none_twice() {
    let tenant = Tenant::default_tenant();
    let mut cluster = NatsCluster::start(std::slice::from_ref(&tenant)).await;
    let mut fleet = Fleet::unstarted(DatabaseKind::Sqlite).await;
    fleet.set_broker_url(cluster.url());
    migrate_when_formed(&fleet, &cluster).await;
    check_wrong_settings(&mut fleet, &cluster).await;
    let begun = fleet.read_log().len();
    let mut processes = Vec::new();
    for &role in Role::ALL {
        let user = user_environment(&cluster, &BrokerUser::Role(role));
        let mut environment: Vec<_> = user.iter().map(|(name, value)| (*name, value.as_str())).collect();
        environment.push(("RETRO_GITHUB_SECRET", WEBHOOK_SECRET));
        processes.push(fleet.serve_with_env(role.as_str(), &environment));
    }
    for nth in &processes {
        fleet.wait_until_ready(*nth).await;
    }

    let engine = user_environment(&cluster, &BrokerUser::Engine(tenant));
    let before = start_emitting(&fleet, &engine, "before", 0..WORKFLOWS / 2);
    fleet.wait_for("some runs are counted", async || (count_runs(&fleet).await > 0).then_some(())).await;
    let leader = find_leader(&fleet, &cluster).await;
    cluster.kill_server(leader).await;
    // These are sent while the others elect a leader.
    let after = start_emitting(&fleet, &engine, "after", WORKFLOWS / 2..WORKFLOWS);
    for emit in [before, after] {
        let sent = emit.await.expect("the task does not panic");
        assert!(sent.status.success(), "{}\n{}", String::from_utf8_lossy(&sent.stderr), cluster.log_tails());
    }
    fleet.wait_until_counted("default", RUNS).await;
    fleet.wait_until_idle().await;
    cluster.start_server(leader).await;
    for nth in &processes {
        fleet.wait_until_ready(*nth).await;
    }
    let checked = fleet.verify_store().await;
    assert_eq!((checked["runs"].as_u64(), checked["reports"].as_u64()), (Some(RUNS), Some(WORKFLOWS)));
    assert_eq!(fleet.run_json(&["dead-letters", "list"]).await, json!([]));
    let context = fleet
        .fetch_context("default", &json!({"workflow": "release-0", "step": "deploy", "run_id": "next"}))
        .await;
    assert!(!json_items(&context["memories"]).is_empty(), "{context}");
    let log = fleet.read_log().split_off(begun);
    for alarm in ["lost with the broker", "was replaced", "Permissions Violation", "never handled"] {
        assert!(!log.contains(alarm), "{alarm}: {}", fleet.log_tail());
    }
    fleet.stop_all().await;
}

/// Starts to emit the runs of some workflows as this user.
fn start_emitting(
    fleet: &Fleet,
    engine: &[(&'static str, String)],
    name: &str,
    workflows: Range<u64>,
) -> JoinHandle<Output> {
    let of_each = |nth| build_correcting_runs(&format!("release-{nth}"), "deploy_service", 0..10);
    let events: Vec<Value> = workflows.flat_map(of_each).collect();
    let file = fleet.write_events(&format!("{name}.jsonl"), &events);
    let mut emit = fleet.command(&["emit", &file, "-o", "json"]);
    emit.envs(engine.to_vec());
    tokio::spawn(async move { emit.output().await.expect("a command starts") })
}

/// A wrong authority and a wrong inbox are named on `/readyz`, in the log and by `retro doctor`, which show no secret.
async fn check_wrong_settings(fleet: &mut Fleet, cluster: &NatsCluster) {
    let user = user_environment(cluster, &BrokerUser::Role(Role::Counter));
    let without = |left_out: &str| -> Vec<(&str, &str)> {
        let all = user.iter().map(|(name, value)| (*name, value.as_str()));
        all.filter(|(name, _)| *name != left_out).collect()
    };
    let untrusted = fleet.serve_with_env("counter", &without("RETRO_NATS_CA_FILE"));
    fleet.wait_until_not_ready(untrusted, "set nats_ca_file to the file of its authority").await;
    let inbox = fleet.serve_with_env("counter", &without("RETRO_NATS_INBOX_PREFIX"));
    fleet.wait_until_not_ready(inbox, "set nats_inbox_prefix to the prefix that its permissions allow").await;
    assert!(
        fleet
            .read_log()
            .contains("cannot connect to the broker: the certificate of the broker at localhost:")
    );
    for nth in [untrusted, inbox] {
        fleet.stop(nth).await;
    }

    // The default port of the HTTP API may be taken by another program on this machine.
    let doctor = |environment: Vec<(&str, &str)>| {
        let mut command = fleet.command(&["doctor"]);
        command.env("RETRO_HTTP_LISTEN", "127.0.0.1:0").envs(environment);
        command
    };
    let found = run_command(&mut doctor(without("RETRO_NATS_CA_FILE"))).await;
    assert_eq!(found.code, Some(4), "{found:?}");
    assert!(found.out.contains("not signed by an authority that this machine trusts"), "{found:?}");
    let found = run_command(&mut doctor(without(""))).await;
    assert_eq!(found.code, Some(0), "{found:?}");
    let printed = run_command(fleet.command(&["config", "print"]).envs(without(""))).await;
    let seed = read_seed(&cluster.seed_file(&BrokerUser::Role(Role::Counter)));
    for text in [&found.out, &printed.out, &fleet.read_log()] {
        assert!(!text.contains(&seed), "a seed is shown");
    }
}

fn read_seed(path: &Path) -> String {
    std::fs::read_to_string(path).expect("the seed was generated").trim().to_owned()
}

/// Returns the variables with which a process connects as this user.
fn user_environment(cluster: &NatsCluster, user: &BrokerUser) -> Vec<(&'static str, String)> {
    vec![
        ("RETRO_NATS_NKEY_FILE", cluster.seed_file(user).display().to_string()),
        ("RETRO_NATS_CA_FILE", cluster.ca_file().display().to_string()),
        ("RETRO_NATS_INBOX_PREFIX", format!("_INBOX_{user}")),
        ("RETRO_NATS_REPLICAS", "3".to_owned()),
    ]
}

/// Runs `retro migrate` until the servers have formed their cluster.
async fn migrate_when_formed(fleet: &Fleet, cluster: &NatsCluster) {
    let environment = user_environment(cluster, &BrokerUser::Setup);
    fleet
        .wait_for("the streams are created", async || {
            let migrated = run_command(fleet.command(&["migrate"]).envs(environment.clone())).await;
            (migrated.code == Some(0)).then_some(())
        })
        .await;
}

async fn count_runs(fleet: &Fleet) -> u64 {
    let store = fleet.open_store().await;
    let rows = store.list_workflows(&Tenant::default_tenant()).await.expect("the store can be read");
    rows.iter().map(|row| row.state.counted).sum()
}

/// Returns the index of the server that leads the intake stream.
async fn find_leader(fleet: &Fleet, cluster: &NatsCluster) -> usize {
    let url = format!("{}/jsz?accounts=1&streams=1", cluster.monitor_url(0));
    fleet
        .wait_for("the intake stream has a leader", async || {
            let answer = fleet.fetch_json(&url).await?;
            let accounts = answer["account_details"].as_array()?;
            let mut streams =
                accounts.iter().filter_map(|account| account["stream_detail"].as_array()).flatten();
            let intake = streams.find(|stream| stream["name"] == retro_bus::topology::INTAKE)?;
            intake["cluster"]["leader"].as_str()?.strip_prefix('n')?.parse().ok()
        })
        .await
}
