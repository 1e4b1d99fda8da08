//! Counts what agents get while the broker, the database and the gateway are killed, one after the other.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use reqwest::Client;
use retro_eval::http_client::configure_client;
use retro_testkit::free_port;
use serde::Deserialize;
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::child::MeasuredProcess;
use crate::context::{Scopes, wait_until_ready};
use crate::servers::{Broker, Database, DatabaseKind};

/// Number of steps with memories that are asked for in turn.
const STEPS: u64 = 20;
/// What an agent waits for an answer before it goes on without one, as the clients in `clients/` do.
const AGENT_TIMEOUT: Duration = Duration::from_secs(1);
/// Time within which the database takes over what was accepted when everything runs again.
const SETTLE_TIME: Duration = Duration::from_secs(5);

/// Options of `retro-bench outages`.
#[derive(Debug, clap::Args)]
pub(crate) struct OutagesOptions {
    /// Number of requests, each for another run.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    requests: u64,
    /// Requests per second.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    rate: u64,
}

/// A sixth of the requests, and what is done to the servers when it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Undisturbed,
    /// The broker is killed. Whoever supervises it starts it again.
    BrokerKilled,
    /// Postgres ends at once, as in a crash, and stays away during the whole phase.
    DatabaseAway,
    /// Postgres is started again.
    DatabaseBack,
    /// The gateway is killed and started again.
    GatewayKilled,
    Recovered,
}

const PHASES: [(Phase, &str); 6] = [
    (Phase::Undisturbed, "nothing is wrong"),
    (Phase::BrokerKilled, "the broker is killed"),
    (Phase::DatabaseAway, "the database is away"),
    (Phase::DatabaseBack, "the database is back"),
    (Phase::GatewayKilled, "the gateway is killed and started again"),
    (Phase::Recovered, "everything runs again"),
];

/// Part of an answer to a request for context.
#[derive(Deserialize)]
struct Answer {
    memories: Vec<serde_json::Value>,
    recorded: String,
    reason: Option<String>,
}

/// What one request got.
struct Outcome {
    /// `Err` with the client's problem if there was no answer.
    answer: Result<Answer, &'static str>,
    elapsed: Duration,
}

/// Runs the requests and prints what they got.
pub(crate) async fn run_outages(retro: &Path, folder: &Path, options: &OutagesOptions) -> Result<()> {
    let folder = tempfile::tempdir_in(folder)?;
    let broker = Broker::start().await?;
    let mut database = Database::create(DatabaseKind::Postgres, &folder.path().join("data"), retro).await?;
    let scopes = Scopes::of_steps(STEPS);
    scopes.store(&database).await?;
    let address = format!("127.0.0.1:{}", free_port());
    let log = folder.path().join("gateway.log");
    let start = |database: &Database| {
        let arguments = ["--http-listen", address.as_str()];
        MeasuredProcess::start_roles(retro, (&broker, database), &["gateway"], &arguments, &[], &log)
    };
    let mut gateway = start(&database)?;
    wait_until_ready(&address).await.with_context(|| std::fs::read_to_string(&log).unwrap_or_default())?;

    let http = configure_client().timeout(AGENT_TIMEOUT).build()?;
    let mut ticks = interval(Duration::from_secs(1) / u32::try_from(options.rate)?);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut asked = Vec::new();
    let mut promised = 0;
    for (nth, (phase, name)) in (0..).zip(PHASES) {
        match phase {
            Phase::Undisturbed | Phase::Recovered => {}
            Phase::BrokerKilled => broker.kill(),
            Phase::DatabaseAway => database.stop(),
            Phase::DatabaseBack => database.start_again().await,
            Phase::GatewayKilled => {
                gateway.kill().await?;
                gateway = start(&database)?;
            }
        }
        let begin = |nth: u64| nth * options.requests / PHASES.len() as u64;
        let mut open = FuturesUnordered::new();
        for request in begin(nth)..begin(nth + 1) {
            ticks.tick().await;
            open.push(tokio::spawn(ask(http.clone(), address.clone(), scopes.name(request), request)));
        }
        let mut outcomes = Vec::new();
        while let Some(done) = open.next().await {
            outcomes.push(done?);
        }
        promised += outcomes.iter().filter(|outcome| outcome.is_promised()).count() as u64;
        asked.push((name, outcomes));
    }
    println!(
        "{} requests, {} per second, Postgres; an agent waits for {AGENT_TIMEOUT:?}",
        options.requests, options.rate
    );
    for (name, outcomes) in &asked {
        print_phase(name, outcomes);
    }
    sleep(SETTLE_TIME).await;
    let stored = "SELECT count(DISTINCT run_id) FROM (SELECT run_id FROM presentations UNION ALL SELECT run_id FROM pending_presentations) AS runs";
    let stored = database.query_number(stored).await?;
    println!(
        "  {promised} answers promised that their presentation will be stored, and {stored} runs have one"
    );
    gateway.stop().await
}

/// Asks for the context of a run.
async fn ask(http: Client, address: String, scope: (String, String, String), nth: u64) -> Outcome {
    let (tenant, workflow, step) = scope;
    let began = Instant::now();
    let request = http
        .post(format!("http://{address}/v1/context"))
        .header("retro-tenant", tenant)
        .json(&json!({ "workflow": workflow, "step": step, "run_id": format!("run-{nth}") }));
    let answer = async {
        let response = request.send().await.map_err(|problem| describe_problem(&problem))?;
        if !response.status().is_success() {
            return Err("another status than 200");
        }
        response.json().await.map_err(|problem| describe_problem(&problem))
    };
    let answer = answer.await;
    Outcome { answer, elapsed: began.elapsed() }
}

fn describe_problem(problem: &reqwest::Error) -> &'static str {
    if problem.is_timeout() {
        "no answer in time"
    } else if problem.is_connect() {
        "no connection"
    } else {
        "the connection broke"
    }
}

impl Outcome {
    /// Returns `true` if the answer said that its presentation is stored, or will be within moments.
    fn is_promised(&self) -> bool {
        self.answer.as_ref().is_ok_and(|answer| matches!(answer.recorded.as_str(), "recorded" | "queued"))
    }

    /// Describes what the agent got.
    fn describe(&self) -> String {
        match &self.answer {
            Ok(answer) if !answer.memories.is_empty() => format!("memories ({})", answer.recorded),
            Ok(answer) => format!("none: {}", answer.reason.as_deref().unwrap_or("without a reason")),
            Err(problem) => (*problem).to_owned(),
        }
    }
}

fn print_phase(name: &str, outcomes: &[Outcome]) {
    let mut elapsed: Vec<f64> = outcomes.iter().map(|one| one.elapsed.as_secs_f64() * 1e3).collect();
    elapsed.sort_by(f64::total_cmp);
    let at = |permille: usize| elapsed[(elapsed.len() - 1) * permille / 1000];
    println!("  {name}: p50 {:.1} ms, p99 {:.1} ms, max {:.0} ms", at(500), at(990), at(1000));
    let mut kinds = BTreeMap::<String, u64>::new();
    for outcome in outcomes {
        *kinds.entry(outcome.describe()).or_default() += 1;
    }
    for (kind, number) in kinds {
        println!("    {number:>5}  {kind}");
    }
}
