//! What a fleet measures of itself, scraped as Prometheus does and received by a collector. What can be told beforehand is
//! told exactly.

mod scraped;

use retro_core::id::DeadLetterId;
use retro_store::DeadLetter;
use retro_testkit::Collector;
use serde_json::{Value, json};

use crate::replay::{HOSTS, ROLES, came_of, letters, refused};
use crate::world::{Fleet, Kind, items, mending};
use scraped::Scraped;

/// In no name of the program's own.
const WORKFLOW: &str = "zebra";

/// What the process looks at every second, and what the look after the end finds.
const LOOKED_AT: [(&str, &[&str], f64); 6] = [
    ("retro_dead_letters_open", &["not_cloud_event"], 1.0),
    ("retro_retrospectives_open", &[], 0.0),
    ("retro_outbox_unsent_messages", &[], 0.0),
    ("retro_outbox_unsent_age_seconds", &[], 0.0),
    ("retro_consumer_lag_messages", &["counter"], 0.0),
    ("retro_consumer_lag_age_seconds", &["writer"], 0.0),
];

#[tokio::test]
async fn ten_runs_two_deaths_a_takeover_and_a_dead_letter_are_told_in_numbers_and_nobody_is_named() {
    let collector = Collector::start().await;
    let told = [
        ("RETRO_METRICS_INTERVAL_S", "1"),
        ("RETRO_OTLP_ENDPOINT", collector.url()),
        ("OTEL_METRIC_EXPORT_INTERVAL", "300"),
    ];
    let with = |fault: &'static str| [&told[..], &[("FAULT_CRASH", fault)]].concat();
    let mut fleet = Fleet::impatient(Kind::Sqlite).await;
    let dies = fleet.serve_impatient("counter", &with("count.commit:after"));
    fleet.ready(dies).await;
    let file = fleet.write_events("runs.jsonl", &mending(WORKFLOW, "deploy_service", 0..10));
    fleet.ask(&["emit", &file]).await;
    fleet.ended(dies).await;
    let rest = fleet.serve_impatient("counter,sampler,writer,relay", &told);
    let dies = fleet.serve_impatient("investigator", &with("finish.commit:before"));
    fleet.ended(dies).await;
    // Longer than a busy machine keeps a worker from saying that it is alive: one death is one takeover.
    let investigator =
        fleet.serve_impatient("investigator", &[&told[..], &[("RETRO_LEASE_S", "60")]].concat());
    fleet.publish("default", WORKFLOW, &json!("no event at all")).await;
    fleet.counted("default", 10).await;
    fleet.still().await;

    let rest = fleet
        .until("a look at everything that is over stands in the metrics", async || {
            let scraped = scrape(&fleet, rest).await?;
            // What is looked at now and then may be from before the end.
            let looked =
                LOOKED_AT.iter().all(|(name, labels, last)| scraped.value(name, labels) == Some(*last));
            // What the dead had in hand has come again, and was answered for.
            let again = scraped.value("retro_messages_redelivered_total", &["counter"]).is_some();
            (looked && again && counted_and_buried(&scraped).is_empty()).then_some(scraped)
        })
        .await;
    let memories = fleet.ask(&["memories", "list"]).await;
    let active = items(&memories).iter().filter(|memory| memory["status"] == "active").count();
    assert!(active > 0, "{memories}");
    assert_eq!(rest.value("retro_memory_event_to_injectable_seconds_count", &[]), Some(active as f64));
    let ended = async || scrape(&fleet, investigator).await.filter(|scraped| taken_over(scraped).is_empty());
    fleet.until("the takeover stands in the metrics", ended).await;
    received(&collector).await;
    fleet.stop_all().await;
}

async fn scrape(fleet: &Fleet, nth: usize) -> Option<Scraped> {
    let (status, text) = fleet.health(nth, "/metrics").await?;
    assert_eq!(status, 200, "{text}");
    assert!(!text.contains(WORKFLOW), "a workflow or a run is named: {text}");
    Some(Scraped::read(&text))
}

/// What is not yet told as it has to be told in the end. What was done is measured a moment after it was stored.
fn counted_and_buried(rest: &Scraped) -> Vec<&'static str> {
    let redelivered = rest.value("retro_messages_redelivered_total", &["counter"]);
    let taken = ["counted", "duplicate"].map(|one| rest.value("retro_runs_processed_total", &[one]));
    let taken: f64 = taken.into_iter().flatten().sum();
    let told = [
        ("the first counter left some unanswered", redelivered.is_some_and(|messages| messages >= 1.0)),
        ("each is an attempt", redelivered == rest.value("retro_attempts_started_total", &["counter"])),
        ("every run came to the second counter", taken >= 10.0),
    ];
    let untold = told.into_iter().filter(|(_, holds)| !holds).map(|(what, _)| what);
    untold.chain(unlike(rest, &COUNTED_AND_BURIED)).collect()
}

const COUNTED_AND_BURIED: [(&str, &[&str], f64); 5] = [
    ("retro_dead_letters_created_total", &["counter", "not_cloud_event"], 1.0),
    ("retro_messages_handled_total", &["counter", "dead_letter"], 1.0),
    ("retro_dead_letters_open", &["not_json"], 0.0),
    ("retro_retrospectives_closed_total", &["closed"], 1.0),
    ("retro_outbox_failures_total", &[], 0.0),
];

/// Those of some values that are told otherwise.
fn unlike(told: &Scraped, values: &[(&'static str, &[&str], f64)]) -> Vec<&'static str> {
    let other = values.iter().filter(|(name, labels, value)| told.value(name, labels) != Some(*value));
    other.map(|(name, ..)| *name).collect()
}

/// The same of the one that took over.
fn taken_over(investigator: &Scraped) -> Vec<&'static str> {
    let mut untold = unlike(
        investigator,
        &[
            ("retro_lease_takeovers_total", &[], 1.0),
            ("retro_lease_fenced_total", &[], 0.0),
            ("retro_investigation_duration_seconds_count", &[], 4.0),
        ],
    );
    if investigator.sum("retro_investigations_ended_total") != 4.0 {
        untold.push("four of ten are looked into");
    }
    untold
}

/// Over OTLP under the names of the catalogue, with their units.
async fn received(collector: &Collector) {
    let wanted = ["retro.lease.takeovers", "retro.memory.event_to_injectable", "retro.dead_letters.open"];
    let seen = collector
        .wait_for_metrics(|seen| wanted.iter().all(|name| seen.iter().any(|one| one.metric.name == *name)))
        .await;
    for one in &seen {
        let known = retro_meter::ALL.iter().find(|known| known.name == one.metric.name);
        let known = known.unwrap_or_else(|| panic!("{} stands in no list", one.metric.name));
        assert_eq!((one.metric.unit.as_str(), one.metric.description.as_str()), (known.unit, known.says));
    }
}

#[tokio::test]
async fn what_came_of_replays_is_told_in_numbers() {
    let mut fleet = Fleet::start(Kind::Sqlite, &[]).await;
    let refuses = fleet.serve(ROLES);
    fleet.ready(refuses).await;
    for run in ["one", "two"] {
        refused(&fleet, run).await;
    }
    let all = letters(&fleet, 2).await;
    let ids = ["one", "two"].map(|run| letter_about(&all, run));
    replayed(&fleet, ids[0], 1).await;
    let answered = [(ANSWERED, &["counter", "dead_letter"][..], 3.0)];
    ended(&fleet, refuses, [0.0, 0.0, 1.0], &answered).await;
    fleet.stop(refuses).await;

    let takes = fleet.serve_with(ROLES, &[HOSTS]);
    fleet.ready(takes).await;
    // The second event comes by the other road first.
    refused(&fleet, "two").await;
    fleet.counted("default", 1).await;
    replayed(&fleet, ids[0], 2).await;
    replayed(&fleet, ids[1], 1).await;
    // What was known is told apart.
    let answered = [("done", 2.0), ("known", 1.0)].map(|(verdict, times)| (["counter", verdict], times));
    let answered = answered.each_ref().map(|(labels, times)| (ANSWERED, &labels[..], *times));
    ended(&fleet, takes, [1.0, 1.0, 0.0], &answered).await;
    fleet.stop_all().await;
}

const ANSWERED: &str = "retro_messages_handled_total";

/// The letter of a run's event: letters of one moment stand in any order.
fn letter_about(letters: &[DeadLetter], run: &str) -> DeadLetterId {
    let event = format!("event of {run}");
    let about = |letter: &&DeadLetter| String::from_utf8_lossy(&letter.message.payload).contains(&event);
    letters.iter().find(about).expect("it has a letter").id
}

/// Replays a letter and waits until something came of it, for the how manieth time.
async fn replayed(fleet: &Fleet, letter: DeadLetterId, number: u32) {
    let told = fleet.ask(&["dead-letters", "replay", &letter.to_string(), "--reason", "a try"]).await;
    assert_eq!(told["did"], "done", "{told}");
    came_of(fleet, letter, number).await;
}

/// Waits until so many replays are told that were handled, known and failed, and these values with them. What was done is
/// measured a moment after it was stored.
async fn ended(fleet: &Fleet, nth: usize, replays: [f64; 3], values: &[(&'static str, &[&str], f64)]) {
    let told = async || {
        let told = scrape(fleet, nth).await?;
        let came = |outcome| told.value("retro_replays_completed_total", &[outcome]).unwrap_or_default();
        let came = ["handled", "known", "failed"].map(came);
        (came == replays && unlike(&told, values).is_empty()).then_some(())
    };
    fleet.until(&format!("{replays:?} replays were handled, known and failed"), told).await;
}

/// Every alert asks for metrics that there are, and has its page.
#[test]
fn alerts_ask_for_what_is_measured_and_each_has_a_page() {
    let folder = std::path::PathBuf::from(crate::world::project("deploy"));
    let read =
        |path: &str| std::fs::read_to_string(folder.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    let rules: Value = serde_saphyr::from_str(&read("telemetry/alerts.yaml")).expect("YAML");
    let rules: Vec<&Value> =
        items(&rules["groups"]).iter().flat_map(|group| items(&group["rules"])).collect();
    let mut pages: Vec<String> = Vec::new();
    for rule in rules {
        let name = rule["alert"].as_str().expect("a name");
        let asked = rule["expr"].as_str().expect("an expression");
        assert!(scraped::names_in(asked).count() > 0, "{name} asks for nothing of ours: {asked}");
        for metric in scraped::names_in(asked) {
            assert!(scraped::described(metric).is_some(), "{name} asks for {metric}, which is not measured");
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
    assert_eq!(pages, found, "one page an alert, one alert a page");
}
