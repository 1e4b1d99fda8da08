//! Tests a fleet's metrics, scraped in the Prometheus format and received by an OTLP collector. Values that
//! are known in advance are asserted exactly.

mod scraped;

use retro_core::id::DeadLetterId;
use retro_store::DeadLetter;
use retro_testkit::Collector;
use serde_json::{Value, json};

use crate::replay::{
    ALLOWED_HOSTS, ROLES, publish_refused_run, wait_for_dead_letters, wait_for_replay_outcome,
};
use crate::world::{DatabaseKind, Fleet, build_correcting_runs, json_items};
use scraped::ScrapedMetrics;

/// A word that occurs in no name of the program.
const WORKFLOW: &str = "zebra";

/// Gauges that the process measures every second, with their values after all work is done.
const EXPECTED_GAUGES: [(&str, &[&str], f64); 8] = [
    ("retro_dead_letters_open", &["not_cloud_event"], 1.0),
    ("retro_retrospectives_open", &[], 0.0),
    ("retro_outbox_unsent_messages", &[], 0.0),
    ("retro_outbox_unsent_age_seconds", &[], 0.0),
    ("retro_memories_held", &["active"], 0.0),
    ("retro_kill_switches_engaged", &["workflow"], 1.0),
    ("retro_consumer_lag_messages", &["counter"], 0.0),
    ("retro_consumer_lag_age_seconds", &["writer"], 0.0),
];

#[tokio::test]
async fn metrics_report_runs_deaths_a_takeover_and_a_dead_letter_without_names() {
    let collector = Collector::start().await;
    let variables = [
        ("RETRO_METRICS_INTERVAL_S", "1"),
        ("RETRO_OTLP_ENDPOINT", collector.url()),
        ("OTEL_METRIC_EXPORT_INTERVAL", "300"),
    ];
    let with = |fault: &'static str| [&variables[..], &[("FAULT_CRASH", fault)]].concat();
    let mut fleet = Fleet::start_with_short_timeouts(DatabaseKind::Sqlite).await;
    let dies = fleet.serve_with_short_timeouts("counter", &with("count.commit:after"));
    fleet.wait_until_ready(dies).await;
    let file = fleet.write_events("runs.jsonl", &build_correcting_runs(WORKFLOW, "deploy_service", 0..10));
    fleet.run_json(&["emit", &file]).await;
    fleet.wait_for_exit(dies).await;
    let rest = fleet.serve_with_short_timeouts("counter,sampler,writer,relay", &variables);
    let dies = fleet.serve_with_short_timeouts("investigator", &with("finish.commit:before"));
    fleet.wait_for_exit(dies).await;
    // The lease is longer than a busy machine delays its renewal, so one crash causes exactly one takeover.
    let investigator = fleet
        .serve_with_short_timeouts("investigator", &[&variables[..], &[("RETRO_LEASE_S", "60")]].concat());
    fleet.publish_event("default", WORKFLOW, &json!("no event at all")).await;
    let stop = ["kill-switches", "engage", "--workflow", WORKFLOW, "--reason", "an incident"];
    fleet.run_json(&stop).await;
    fleet.wait_until_counted("default", 10).await;
    fleet.wait_until_idle().await;

    let rest = fleet
        .wait_for("the metrics show that all work is done", async || {
            let scraped = scrape_metrics(&fleet, rest).await?;
            // Gauges may still be from before the end.
            let gauges_match = EXPECTED_GAUGES
                .iter()
                .all(|(name, labels, last)| scraped.find_value(name, labels) == Some(*last));
            // The dead process's messages were redelivered and acknowledged.
            let again = scraped.find_value("retro_messages_redelivered_total", &["counter"]).is_some();
            (gauges_match && again && find_counter_mismatches(&scraped).is_empty()).then_some(scraped)
        })
        .await;
    let memories = fleet.run_json(&["memories", "list"]).await;
    let active = json_items(&memories).iter().filter(|memory| memory["status"] == "active").count();
    assert!(active > 0, "{memories}");
    assert_eq!(rest.find_value("retro_memory_event_to_injectable_seconds_count", &[]), Some(active as f64));
    let ended = async || {
        scrape_metrics(&fleet, investigator)
            .await
            .filter(|scraped| find_takeover_mismatches(scraped).is_empty())
    };
    fleet.wait_for("the metrics show the takeover", ended).await;
    check_received_metrics(&collector).await;
    fleet.stop_all().await;
}

async fn scrape_metrics(fleet: &Fleet, nth: usize) -> Option<ScrapedMetrics> {
    let (status, text) = fleet.fetch_health(nth, "/metrics").await?;
    assert_eq!(status, 200, "{text}");
    assert!(!text.contains(WORKFLOW), "a workflow or a run appears in the metrics: {text}");
    Some(ScrapedMetrics::parse(&text))
}

/// Returns the names of the values that have not reached their final state yet. A metric changes a moment
/// after its effect is stored.
fn find_counter_mismatches(rest: &ScrapedMetrics) -> Vec<&'static str> {
    let redelivered = rest.find_value("retro_messages_redelivered_total", &["counter"]);
    let processed = ["counted", "duplicate"].map(|one| rest.find_value("retro_runs_processed_total", &[one]));
    let processed: f64 = processed.into_iter().flatten().sum();
    let conditions = [
        (
            "the first counter left some messages unacknowledged",
            redelivered.is_some_and(|messages| messages >= 1.0),
        ),
        (
            "each redelivery is an attempt",
            redelivered == rest.find_value("retro_attempts_started_total", &["counter"]),
        ),
        ("every run reached the second counter", processed >= 10.0),
    ];
    let mismatches = conditions.into_iter().filter(|(_, holds)| !holds).map(|(what, _)| what);
    mismatches.chain(find_mismatches(rest, &EXPECTED_COUNTERS)).collect()
}

const EXPECTED_COUNTERS: [(&str, &[&str], f64); 5] = [
    ("retro_dead_letters_created_total", &["counter", "not_cloud_event"], 1.0),
    ("retro_messages_handled_total", &["counter", "dead_letter"], 1.0),
    ("retro_dead_letters_open", &["not_json"], 0.0),
    ("retro_retrospectives_closed_total", &["closed"], 1.0),
    ("retro_outbox_failures_total", &[], 0.0),
];

/// Returns the names of the values that differ.
fn find_mismatches(scraped: &ScrapedMetrics, values: &[(&'static str, &[&str], f64)]) -> Vec<&'static str> {
    let other =
        values.iter().filter(|(name, labels, value)| scraped.find_value(name, labels) != Some(*value));
    other.map(|(name, ..)| *name).collect()
}

/// Returns the names of the takeover's values, at the new investigator, that are not as expected yet.
fn find_takeover_mismatches(investigator: &ScrapedMetrics) -> Vec<&'static str> {
    let mut mismatches = find_mismatches(
        investigator,
        &[
            ("retro_lease_takeovers_total", &[], 1.0),
            ("retro_lease_fenced_total", &[], 0.0),
            ("retro_investigation_duration_seconds_count", &[], 4.0),
        ],
    );
    if investigator.sum_values("retro_investigations_ended_total") != 4.0 {
        mismatches.push("four of ten runs are investigated");
    }
    mismatches
}

/// Asserts that the metrics arrive over OTLP with the catalogue's names and units.
async fn check_received_metrics(collector: &Collector) {
    let expected_names =
        ["retro.lease.takeovers", "retro.memory.event_to_injectable", "retro.dead_letters.open"];
    let seen = collector
        .wait_for_metrics(|seen| {
            expected_names.iter().all(|name| seen.iter().any(|one| one.metric.name == *name))
        })
        .await;
    for one in &seen {
        let known = retro_telemetry::metrics::ALL.iter().find(|known| known.name == one.metric.name);
        let known = known.unwrap_or_else(|| panic!("{} is not in the catalogue", one.metric.name));
        assert_eq!(
            (one.metric.unit.as_str(), one.metric.description.as_str()),
            (known.unit, known.description)
        );
    }
}

#[tokio::test]
async fn metrics_report_the_outcomes_of_replays() {
    let mut fleet = Fleet::start(DatabaseKind::Sqlite, &[]).await;
    let refuses = fleet.serve(ROLES);
    fleet.wait_until_ready(refuses).await;
    for run in ["one", "two"] {
        publish_refused_run(&fleet, run).await;
    }
    let all = wait_for_dead_letters(&fleet, 2).await;
    let ids = ["one", "two"].map(|run| find_dead_letter(&all, run));
    replay_and_wait(&fleet, ids[0], 1).await;
    let answered = [(HANDLED_TOTAL, &["counter", "dead_letter"][..], 3.0)];
    wait_for_replay_metrics(&fleet, refuses, [0.0, 0.0, 1.0], &answered).await;
    fleet.stop(refuses).await;

    let takes = fleet.serve_with_env(ROLES, &[ALLOWED_HOSTS]);
    fleet.wait_until_ready(takes).await;
    // The second event is published again before its dead letter is replayed.
    publish_refused_run(&fleet, "two").await;
    fleet.wait_until_counted("default", 1).await;
    replay_and_wait(&fleet, ids[0], 2).await;
    replay_and_wait(&fleet, ids[1], 1).await;
    // Known events are counted separately.
    let answered = [("done", 2.0), ("known", 1.0)].map(|(verdict, times)| (["counter", verdict], times));
    let answered = answered.each_ref().map(|(labels, times)| (HANDLED_TOTAL, &labels[..], *times));
    wait_for_replay_metrics(&fleet, takes, [1.0, 1.0, 0.0], &answered).await;
    fleet.stop_all().await;
}

const HANDLED_TOTAL: &str = "retro_messages_handled_total";

/// Returns the dead letter of a run's event. Dead letters with the same time are in no particular order.
fn find_dead_letter(dead_letters: &[DeadLetter], run: &str) -> DeadLetterId {
    let event = format!("event of {run}");
    let about =
        |dead_letter: &&DeadLetter| String::from_utf8_lossy(&dead_letter.message.payload).contains(&event);
    dead_letters.iter().find(about).expect("the run has a dead letter").id
}

/// Replays a dead letter and waits for the outcome of this 1-based replay.
async fn replay_and_wait(fleet: &Fleet, dead_letter: DeadLetterId, number: u32) {
    let answer =
        fleet.run_json(&["dead-letters", "replay", &dead_letter.to_string(), "--reason", "a try"]).await;
    assert_eq!(answer["status"], "done", "{answer}");
    wait_for_replay_outcome(fleet, dead_letter, number).await;
}

/// Waits until the metrics show these numbers of handled, known and failed replays, and these values. A
/// metric changes a moment after its effect is stored.
async fn wait_for_replay_metrics(
    fleet: &Fleet,
    nth: usize,
    replays: [f64; 3],
    values: &[(&'static str, &[&str], f64)],
) {
    let shown = async || {
        let shown = scrape_metrics(fleet, nth).await?;
        let came =
            |outcome| shown.find_value("retro_replays_completed_total", &[outcome]).unwrap_or_default();
        let came = ["handled", "known", "failed"].map(came);
        (came == replays && find_mismatches(&shown, values).is_empty()).then_some(())
    };
    fleet.wait_for(&format!("{replays:?} replays were handled, known and failed"), shown).await;
}

/// Every alert uses existing metrics and has a runbook page.
#[test]
fn alerts_use_existing_metrics_and_each_has_a_runbook() {
    let folder = std::path::PathBuf::from(crate::world::project_path("deploy"));
    let read =
        |path: &str| std::fs::read_to_string(folder.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    let rules: Value = serde_saphyr::from_str(&read("telemetry/alerts.yaml")).expect("YAML");
    let rules: Vec<&Value> =
        json_items(&rules["groups"]).iter().flat_map(|group| json_items(&group["rules"])).collect();
    let mut pages: Vec<String> = Vec::new();
    for rule in rules {
        let name = rule["alert"].as_str().expect("a name");
        let expression = rule["expr"].as_str().expect("an expression");
        assert!(
            scraped::metric_names_in(expression).count() > 0,
            "{name} uses none of the program's metrics: {expression}"
        );
        for metric in scraped::metric_names_in(expression) {
            assert!(scraped::find_instrument(metric).is_some(), "{name} uses {metric}, which does not exist");
        }
        let page = format!("runbooks/alerts/{name}.md");
        assert_eq!(rule["annotations"]["runbook"], json!(format!("deploy/{page}")), "{name}");
        let text = read(&page);
        assert!(text.starts_with(&format!("# {name}\n")), "{page}");
        for question in ["\n## What it means\n", "\n## What to look at\n", "\n## What to do\n"] {
            assert!(text.contains(question), "{page} does not answer {}", question.trim());
        }
        pages.push(format!("{name}.md"));
    }
    let found = std::fs::read_dir(folder.join("runbooks/alerts")).expect("a folder");
    let mut found: Vec<_> =
        found.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    pages.sort();
    found.sort();
    assert_eq!(pages, found, "one page per alert, one alert per page");
}
