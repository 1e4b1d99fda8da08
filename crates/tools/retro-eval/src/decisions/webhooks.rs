//! Parses GitHub payloads collected by other projects as the bridge does, and can post them to a running
//! bridge, either each of them once or at a constant rate.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use retro_github::{Ignored, ParsedWebhook, WebhookContent, WebhookSecrets, parse_webhook};
use serde::Deserialize;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::broker;
use crate::decisions::eval_data::{EvalData, read_rows};
use crate::http_client::configure_client;
use crate::instance::{Instance, find_release_binary};

/// Name of the data set of payloads and signatures.
const SET: &str = "01_github_webhooks";
/// GitHub's timeout for the response to a webhook.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Options of `cargo xtask eval webhooks`.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    data: EvalData,
    /// URL of a running bridge to which every payload is posted, such as
    /// `http://127.0.0.1:7719/github/webhook`.
    #[arg(long, requires = "secret_file", conflicts_with = "running")]
    url: Option<String>,
    /// File with the webhook secret.
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Posts this many payloads per second, in a cycle, instead of each payload once.
    #[arg(long, requires = "url", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    per_second: Option<u32>,
    /// Duration of posting with `--per-second`, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Starts a fresh instance and posts every payload to its bridge; prints the responses, the messages that
    /// the broker stored, and the dead letters.
    #[arg(long)]
    running: bool,
    /// Path of the `retro` binary [default: the release build].
    #[arg(long, requires = "running")]
    retro: Option<PathBuf>,
}

/// Webhook secret of the instance that `--running` starts.
const SECRET: &str = "a secret of an evaluation and of nothing else";
/// Environment variables of the instance: every repository belongs to one tenant.
const BRIDGE_VARIABLES: [(&str, &str); 3] = [
    ("RETRO_BRIDGE_LISTEN", "127.0.0.1:0"),
    ("RETRO_GITHUB_SECRET", SECRET),
    ("RETRO_GITHUB_TENANTS", "* = default"),
];
/// Stream and durable name of each consumer that processes the payloads.
const CONSUMERS: [(&str, &str); 3] =
    [("RETRO_INTAKE", "counter"), ("RETRO_GITHUB", "reviewer"), ("RETRO_GITHUB", "tracker")];
/// Timeout for all consumers to process the payloads.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(120);
/// Interval at which the consumers are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Event name and body of a collected webhook.
struct Payload {
    event: String,
    body: Vec<u8>,
}

/// Counts of the payloads of one event, by parse result.
#[derive(Default)]
struct PayloadCounts {
    files: usize,
    accepted: usize,
    runs: usize,
    pings: usize,
    not_used: usize,
    incomplete: usize,
    refused: Vec<String>,
}

/// Parses every payload and prints one line per event. Then posts the payloads if a bridge is given.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let folder = options.data.set_folder(SET)?;
    let payloads = read_payloads(&folder)?;
    ensure!(
        !payloads.is_empty(),
        "{} has no payloads: it must contain folders named after events",
        folder.display()
    );
    print_readings(&payloads);
    check_signatures(&folder)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if options.running {
        return runtime.block_on(post_to_own_bridge(root, options, payloads));
    }
    let (Some(url), Some(file)) = (&options.url, &options.secret_file) else { return Ok(()) };
    let secret = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let secret = secret.lines().next().map(str::trim).unwrap_or_default().to_owned();
    runtime.block_on(post_payloads(options, url, &secret, payloads))
}

/// Starts a fresh instance, posts every payload to its bridge, and prints what was stored.
async fn post_to_own_bridge(root: &Path, options: &Options, payloads: Vec<Payload>) -> Result<()> {
    let binary = options.retro.clone().map_or_else(find_release_binary, Ok)?;
    let (folder, pipelines) = (root.join(".demo").join("webhooks"), root.join("pipelines"));
    let retro = Instance::start(&binary, &folder, &pipelines, &BRIDGE_VARIABLES).await?;
    let (url, nats) = (retro.recorded_value("bridge_url")?, retro.recorded_value("nats_url")?);
    post_payloads(options, &url, SECRET, payloads).await?;
    let began = Instant::now();
    for (stream, taker) in CONSUMERS {
        while broker::count_pending(&nats, stream, taker).await? > 0 {
            ensure!(
                began.elapsed() < DRAIN_TIMEOUT,
                "the {taker} still has pending messages after {DRAIN_TIMEOUT:?}"
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
    for stream in ["RETRO_GITHUB", "RETRO_INTAKE"] {
        let events = broker::count_events_by_id(&nats, stream).await?;
        println!("{stream}: {} events in {} messages", events.len(), events.values().sum::<usize>());
    }
    let letters = retro.run_json(&["dead-letters", "list", "--limit", "1000"]).await?;
    let letters = letters.as_array().context("`retro dead-letters list` printed no list")?;
    println!("dead letters: {}", letters.len());
    for letter in letters {
        println!("  {} of {}: {}", letter["code"], letter["consumer"], letter["detail"]);
    }
    let checked = retro.run_json(&["verify"]).await?;
    println!("`retro verify`: {}", checked["checked"]);
    retro.stop().await
}

/// Reads every `….json` file in a folder and its subfolders, sorted by path. The event is the name of the
/// file's folder.
fn read_payloads(folder: &Path) -> Result<Vec<Payload>> {
    let mut found = Vec::new();
    let mut entries = std::fs::read_dir(folder)
        .and_then(Iterator::collect::<std::io::Result<Vec<_>>>)
        .with_context(|| format!("cannot read {}", folder.display()))?;
    entries.sort_by_key(std::fs::DirEntry::path);
    for path in entries.iter().map(std::fs::DirEntry::path) {
        if path.is_dir() {
            found.extend(read_payloads(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "json") {
            let event = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let body = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            found.push(Payload { event, body });
        }
    }
    Ok(found)
}

fn print_readings(payloads: &[Payload]) {
    let mut events = BTreeMap::<&str, PayloadCounts>::new();
    for Payload { event, body } in payloads {
        let counts = events.entry(event).or_default();
        counts.files += 1;
        match parse_webhook(event, &body.clone().into()) {
            Ok(ParsedWebhook::Accepted(taken)) => match taken.content {
                WebhookContent::Repository(_) => counts.accepted += 1,
                WebhookContent::Run(_) => counts.runs += 1,
            },
            Ok(ParsedWebhook::Ping) => counts.pings += 1,
            Ok(ParsedWebhook::Ignored(Ignored::Incomplete(_) | Ignored::UnexpectedShape(_))) => {
                counts.incomplete += 1
            }
            Ok(ParsedWebhook::Ignored(_)) => counts.not_used += 1,
            Err(problem) => counts.refused.push(problem),
        }
    }
    println!(
        "{:<30} {:>6} {:>6} {:>6} {:>6} {:>9} {:>11} {:>8}",
        "event", "files", "used", "runs", "pings", "not used", "incomplete", "refused"
    );
    let mut all = PayloadCounts::default();
    for (event, counts) in events {
        print_line(event, &counts);
        counts.refused.iter().for_each(|problem| println!("  refused: {problem}"));
        all.files += counts.files;
        all.accepted += counts.accepted;
        all.runs += counts.runs;
        all.pings += counts.pings;
        all.not_used += counts.not_used;
        all.incomplete += counts.incomplete;
        all.refused.extend(counts.refused);
    }
    print_line("all", &all);
}

fn print_line(event: &str, counts: &PayloadCounts) {
    let PayloadCounts { files, accepted: taken, runs, pings, not_used, incomplete, refused } = counts;
    let refused = refused.len();
    println!(
        "{event:<30} {files:>6} {taken:>6} {runs:>6} {pings:>6} {not_used:>9} {incomplete:>11} {refused:>8}"
    );
}

/// A published webhook signature. `expect_valid` is `None` if the source does not say whether the signature
/// is valid.
#[derive(Deserialize)]
struct SignatureVector {
    secret: String,
    body: String,
    signature: String,
    expect_valid: Option<bool>,
}

fn check_signatures(folder: &Path) -> Result<()> {
    let vectors: Vec<SignatureVector> = read_rows(&folder.join("hmac_vectors.jsonl"))?;
    let believed = |vector: &SignatureVector| {
        let secrets = WebhookSecrets::new(&[&vector.secret]);
        secrets.verify_signature(Some(vector.signature.as_bytes()), vector.body.as_bytes()).is_ok()
    };
    let right = vectors.iter().filter(|vector| vector.expect_valid == Some(believed(vector))).count();
    let open = vectors.iter().filter(|vector| vector.expect_valid.is_none()).count();
    println!("signatures: {} of {} as expected, {open} without an expectation", right, vectors.len() - open);
    Ok(())
}

async fn post_payloads(options: &Options, url: &str, secret: &str, payloads: Vec<Payload>) -> Result<()> {
    let client = configure_client().timeout(RESPONSE_TIMEOUT).build()?;
    let secrets = WebhookSecrets::new(&[secret]);
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
                // Each delivery needs its own ID, because a repeated one counts as a redelivery.
                .header("X-GitHub-Delivery", format!("evaluation-{nth}"))
                .header("X-Hub-Signature-256", secrets.sign(body))
                .body(body.clone())
                .send();
            let answer = match sent.await {
                Ok(response) => describe_response(response).await,
                Err(_) => "no answer".to_owned(),
            };
            (answer, began.elapsed())
        });
    }
    print_posted(&posted.join_all().await);
    Ok(())
}

/// Describes a response by its status and the outcome that the bridge reports.
async fn describe_response(response: reqwest::Response) -> String {
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
