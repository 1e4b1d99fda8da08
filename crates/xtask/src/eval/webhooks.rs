//! GitHub's payloads as other projects collected them, read as the bridge reads them; and posted to a running bridge, signed, once
//! each or so many a second.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use retro_github::{Fact, Left, Reading, Secrets, read};
use serde::Deserialize;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Data, rows};
use crate::broker;
use crate::demo::built;
use crate::instance;

/// The set of payloads and signatures.
const SET: &str = "01_github_webhooks";
/// How long GitHub waits for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// How the measurement is asked for.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    data: Data,
    /// A running bridge that every payload is posted to, such as `http://127.0.0.1:7719/github/webhook`.
    #[arg(long, requires = "secret_file", conflicts_with = "running")]
    url: Option<String>,
    /// The file that holds its secret.
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Posts so many a second, the payloads in turn, instead of each once.
    #[arg(long, requires = "url", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    per_second: Option<u32>,
    /// For so many seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Starts a program of its own and posts every payload to its bridge; says what was answered, what the broker holds and what
    /// became dead letters.
    #[arg(long)]
    running: bool,
    /// The built program [default: `retro` of the release profile].
    #[arg(long, requires = "running")]
    retro: Option<PathBuf>,
}

/// The secret of a program that is started for a measurement and for nothing else.
const SECRET: &str = "a secret of an evaluation and of nothing else";
/// What it is started with: whatever a payload names belongs to one tenant.
const CONFIGURED: [(&str, &str); 3] = [
    ("RETRO_BRIDGE_LISTEN", "127.0.0.1:0"),
    ("RETRO_GITHUB_SECRET", SECRET),
    ("RETRO_GITHUB_TENANTS", "* = default"),
];
/// Who has to take what the bridge says.
const TAKERS: [(&str, &str); 3] =
    [("RETRO_INTAKE", "counter"), ("RETRO_GITHUB", "reviewer"), ("RETRO_GITHUB", "tracker")];
/// How long they may take in all.
const TAKEN_WITHIN: Duration = Duration::from_secs(120);
/// How often is looked.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A webhook's event and body.
struct Payload {
    event: String,
    body: Vec<u8>,
}

/// What became of the payloads of an event.
#[derive(Default)]
struct Counts {
    files: usize,
    taken: usize,
    runs: usize,
    pings: usize,
    not_used: usize,
    incomplete: usize,
    refused: Vec<String>,
}

/// Reads everything and prints a line an event; then posts it, where a bridge is named.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let folder = options.data.set(SET)?;
    let payloads = payloads(&folder)?;
    ensure!(!payloads.is_empty(), "{} holds no payload: folders of events are wanted", folder.display());
    print_read(&payloads);
    signatures(&folder)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if options.running {
        return runtime.block_on(through(root, options, payloads));
    }
    let (Some(url), Some(file)) = (&options.url, &options.secret_file) else { return Ok(()) };
    let secret = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let secret = secret.lines().next().map(str::trim).unwrap_or_default().to_owned();
    runtime.block_on(post(options, url, &secret, payloads))
}

/// Posts every payload to a bridge that is started for it, and tells what came of them behind it.
async fn through(root: &Path, options: &Options, payloads: Vec<Payload>) -> Result<()> {
    let binary = options.retro.clone().map_or_else(built, Ok)?;
    let (folder, pipelines) = (root.join(".demo").join("webhooks"), root.join("pipelines"));
    let retro = instance::Instance::start(&binary, &folder, &pipelines, &CONFIGURED).await?;
    let (url, nats) = (retro.recorded("bridge_url")?, retro.recorded("nats_url")?);
    post(options, &url, SECRET, payloads).await?;
    let began = Instant::now();
    for (stream, taker) in TAKERS {
        while broker::waiting(&nats, stream, taker).await? > 0 {
            ensure!(began.elapsed() < TAKEN_WITHIN, "the {taker} still has work after {TAKEN_WITHIN:?}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
    for stream in ["RETRO_GITHUB", "RETRO_INTAKE"] {
        let events = broker::events(&nats, stream).await?;
        println!("{stream}: {} events in {} messages", events.len(), events.values().sum::<usize>());
    }
    let letters = retro.ask(&["dead-letters", "list", "--limit", "1000"]).await?;
    let letters = letters.as_array().context("`retro dead-letters list` prints a list")?;
    println!("dead letters: {}", letters.len());
    for letter in letters {
        println!("  {} of {}: {}", letter["code"], letter["consumer"], letter["detail"]);
    }
    let checked = retro.ask(&["verify"]).await?;
    println!("`retro verify`: {}", checked["checked"]);
    retro.stop().await
}

/// Every `….json` in a folder that is named after its event, in the order of their paths.
fn payloads(folder: &Path) -> Result<Vec<Payload>> {
    let mut found = Vec::new();
    let mut entries = std::fs::read_dir(folder)
        .and_then(Iterator::collect::<std::io::Result<Vec<_>>>)
        .with_context(|| format!("cannot read {}", folder.display()))?;
    entries.sort_by_key(std::fs::DirEntry::path);
    for path in entries.iter().map(std::fs::DirEntry::path) {
        if path.is_dir() {
            found.extend(payloads(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "json") {
            let event = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let body = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            found.push(Payload { event, body });
        }
    }
    Ok(found)
}

fn print_read(payloads: &[Payload]) {
    let mut events = BTreeMap::<&str, Counts>::new();
    for Payload { event, body } in payloads {
        let counts = events.entry(event).or_default();
        counts.files += 1;
        match read(event, "evaluation", &body.clone().into()) {
            Ok(Reading::Taken(taken)) => match taken.fact {
                Fact::Happened(_) => counts.taken += 1,
                Fact::Run(_) => counts.runs += 1,
            },
            Ok(Reading::Ping) => counts.pings += 1,
            Ok(Reading::Left(Left::Incomplete(_) | Left::Shape(_))) => counts.incomplete += 1,
            Ok(Reading::Left(_)) => counts.not_used += 1,
            Err(problem) => counts.refused.push(problem),
        }
    }
    println!(
        "{:<30} {:>6} {:>6} {:>6} {:>6} {:>9} {:>11} {:>8}",
        "event", "files", "taken", "runs", "pings", "not used", "incomplete", "refused"
    );
    let mut all = Counts::default();
    for (event, counts) in events {
        print_line(event, &counts);
        counts.refused.iter().for_each(|problem| println!("  refused: {problem}"));
        all.files += counts.files;
        all.taken += counts.taken;
        all.runs += counts.runs;
        all.pings += counts.pings;
        all.not_used += counts.not_used;
        all.incomplete += counts.incomplete;
        all.refused.extend(counts.refused);
    }
    print_line("all", &all);
}

fn print_line(event: &str, counts: &Counts) {
    let Counts { files, taken, runs, pings, not_used, incomplete, refused } = counts;
    let refused = refused.len();
    println!(
        "{event:<30} {files:>6} {taken:>6} {runs:>6} {pings:>6} {not_used:>9} {incomplete:>11} {refused:>8}"
    );
}

/// A published signature. What nobody decided has no expectation.
#[derive(Deserialize)]
struct Vector {
    secret: String,
    body: String,
    signature: String,
    expect_valid: Option<bool>,
}

fn signatures(folder: &Path) -> Result<()> {
    let vectors: Vec<Vector> = rows(&folder.join("hmac_vectors.jsonl"))?;
    let believed = |vector: &Vector| {
        let secrets = Secrets::new(&[&vector.secret]);
        secrets.check(Some(vector.signature.as_bytes()), vector.body.as_bytes()).is_ok()
    };
    let right = vectors.iter().filter(|vector| vector.expect_valid == Some(believed(vector))).count();
    let open = vectors.iter().filter(|vector| vector.expect_valid.is_none()).count();
    println!("signatures: {} of {} as expected, {open} without an expectation", right, vectors.len() - open);
    Ok(())
}

async fn post(options: &Options, url: &str, secret: &str, payloads: Vec<Payload>) -> Result<()> {
    let client = reqwest::Client::builder().timeout(ANSWER_MAX).build()?;
    let secrets = Secrets::new(&[secret]);
    let (posts, pause) = match options.per_second {
        Some(rate) => ((rate * options.seconds) as usize, Duration::from_secs(1) / rate),
        None => (payloads.len(), Duration::from_millis(1)),
    };
    let payloads = Arc::new(payloads);
    let (mut ticks, mut posted) = (tokio::time::interval(pause), JoinSet::new());
    for nth in 0..posts {
        ticks.tick().await;
        let (client, secrets, payloads, url) =
            (client.clone(), secrets.clone(), payloads.clone(), url.to_owned());
        posted.spawn(async move {
            let Payload { event, body } = &payloads[nth % payloads.len()];
            let began = Instant::now();
            let sent = client
                .post(url)
                .header("Content-Type", "application/json")
                .header("X-GitHub-Event", event)
                .header("X-GitHub-Delivery", format!("evaluation-{nth}"))
                .header("X-Hub-Signature-256", secrets.sign(body))
                .body(body.clone())
                .send();
            let answer = match sent.await {
                Ok(response) => told(response).await,
                Err(_) => "no answer".to_owned(),
            };
            (answer, began.elapsed())
        });
    }
    print_posted(&posted.join_all().await);
    Ok(())
}

/// The status, and what became of it in the bridge's own word.
async fn told(response: reqwest::Response) -> String {
    let status = response.status().as_u16();
    let answer: serde_json::Value = response.json().await.unwrap_or_default();
    let word = answer["outcome"].as_str().or_else(|| answer["title"].as_str()).unwrap_or_default();
    format!("{status} {word}")
}

fn print_posted(answers: &[(String, Duration)]) {
    let mut counts = BTreeMap::<&str, usize>::new();
    for (answer, _) in answers {
        *counts.entry(answer).or_default() += 1;
    }
    let counts: Vec<_> = counts.iter().map(|(answer, count)| format!("{answer}: {count}")).collect();
    let mut took: Vec<Duration> = answers.iter().map(|(_, took)| *took).collect();
    took.sort_unstable();
    let at = |permille: usize| took.get(took.len() * permille / 1000).copied().unwrap_or_default();
    println!(
        "posted {}; {}; p50 {:.1} ms, p99 {:.1} ms",
        answers.len(),
        counts.join(", "),
        at(500).as_secs_f64() * 1000.0,
        at(990).as_secs_f64() * 1000.0
    );
}
