//! Implements `cargo xtask load`, which sends signed webhooks at a constant rate to a `retro up` and kills
//! its broker half-way.
//!
//! Prints the responses that GitHub would have received and their latencies, redelivers the refused webhooks
//! (as an operator does in GitHub's list), and compares the stored and counted webhooks with those sent.

mod webhook;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use retro_eval::broker;
use retro_eval::instance::{Instance, find_release_binary};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use webhook::{Webhook, deliver_webhook};

/// Options of `cargo xtask load`.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct LoadOptions {
    /// Number of deliveries per second.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=5000))]
    rate: u32,
    /// Duration of the load in seconds.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(2..=3600))]
    seconds: u32,
    /// Leaves the broker running instead of killing it half-way.
    #[arg(long)]
    calm: bool,
}

/// Maximum number of concurrent deliveries. At the maximum, the sender waits, as GitHub does.
const CONCURRENT_MAX: usize = 1000;
/// One in this many accepted deliveries is repeated, as an operator may do by mistake.
const REPEAT_EVERY: usize = 100;
/// Maximum number of rounds in which refused webhooks are redelivered.
const RETRY_ROUNDS_MAX: u32 = 10;
/// Timeout for all runs to be counted after the last delivery.
const COUNT_TIMEOUT: Duration = Duration::from_secs(120);
/// Interval at which the number of counted runs is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A delivery with its status and latency. The status is `None` if there was no response within GitHub's
/// timeout.
type DeliveryResult = (Webhook, Option<u16>, Duration);

/// Runs the load against `binary`, or against the release build if `binary` is `None`.
pub(crate) fn run(root: &Path, binary: Option<&Path>, load: LoadOptions) -> Result<()> {
    let binary = binary.map_or_else(find_release_binary, |path| Ok(path.to_owned()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(run_load(root, &binary, load))
}

async fn run_load(root: &Path, binary: &Path, load: LoadOptions) -> Result<()> {
    let folder = root.join(".demo").join("load");
    // The threshold is never reached, because retrospectives would disturb the measurement of intake and
    // counting.
    let pipelines = folder.with_file_name("load-pipelines");
    std::fs::create_dir_all(pipelines.join("retrospective"))?;
    std::fs::write(pipelines.join("retrospective/pipeline.toml"), "[trigger]\nthreshold_runs = 100000\n")?;
    let retro = Instance::start(binary, &folder, &pipelines, &webhook::BRIDGE_VARIABLES).await?;
    let url = retro.recorded_value("bridge_url")?;
    let all = load.rate * load.seconds;
    println!(
        "{all} signed deliveries to {url}, {} per second; half of them are finished workflow runs",
        load.rate
    );
    let began = Instant::now();
    let sending = tokio::spawn(send_at_rate(url.clone(), load));
    if !load.calm {
        tokio::time::sleep(Duration::from_secs(u64::from(load.seconds / 2))).await;
        let killed = kill_broker(&retro)?;
        println!("after {:.1} s the broker (pid {killed}) was killed", began.elapsed().as_secs_f64());
    }
    let answered = sending.await??;
    println!("the last one was answered after {:.1} s", began.elapsed().as_secs_f64());
    print_statuses(&answered);
    let nats = retro.recorded_value("nats_url")?;
    check_stored(&answered, &count_stored_events(&nats).await?)?;
    redeliver_webhooks(&url, answered).await?;
    // Even numbers are workflow runs, and the numbers begin at 0.
    let runs = u64::from(all.div_ceil(2));
    let counted = wait_until_counted(&retro, runs).await?;
    let held = count_stored_events(&nats).await?;
    let (events, times) = (held.len(), held.values().sum::<usize>());
    println!(
        "at the end the broker stores {events} of {all} deliveries, {} of them more than once, in {times} messages",
        held.values().filter(|times| **times > 1).count()
    );
    println!("finished workflow runs: {runs} sent, {counted} counted");
    retro.stop().await?;
    ensure!(counted == runs, "{runs} runs were sent, but {counted} are counted");
    ensure!(events == all as usize, "the broker lost what it acknowledged");
    println!("every run was counted once");
    Ok(())
}

/// Returns the number of messages that the broker stores per delivery ID.
async fn count_stored_events(nats: &str) -> Result<BTreeMap<String, usize>> {
    let mut held = BTreeMap::new();
    for stream in ["RETRO_INTAKE", "RETRO_GITHUB"] {
        held.append(&mut broker::count_events_by_id(nats, stream).await?);
    }
    Ok(held)
}

/// Prints how often the broker stored the deliveries, by response status. Fails if a delivery with status 202
/// is missing.
fn check_stored(answered: &[DeliveryResult], held: &BTreeMap<String, usize>) -> Result<()> {
    let mut places: BTreeMap<Option<u16>, [usize; 3]> = BTreeMap::new();
    for (webhook, status, _) in answered {
        let times = held.get(&webhook.delivery).copied().unwrap_or_default();
        places.entry(*status).or_default()[times.min(2)] += 1;
    }
    println!("  stored by the broker before the redelivery:");
    for (status, [never, once, more]) in &places {
        println!(
            "  {:<22} {once:>7} once, {never} not at all, {more} more than once",
            describe_status(*status)
        );
    }
    let lost = places.get(&Some(202)).map_or(0, |[never, ..]| *never);
    ensure!(lost == 0, "{lost} deliveries were answered 202, but the broker does not have them");
    Ok(())
}

fn describe_status(status: Option<u16>) -> String {
    status.map_or_else(|| "no answer within 10 s".to_owned(), |status| format!("answered {status}"))
}

/// Sends deliveries at the configured rate without waiting for responses.
async fn send_at_rate(url: String, load: LoadOptions) -> Result<Vec<DeliveryResult>> {
    let http = webhook::build_client()?;
    let room = Arc::new(Semaphore::new(CONCURRENT_MAX));
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / load.rate);
    let mut under_way = JoinSet::new();
    for number in 0..load.rate * load.seconds {
        ticks.tick().await;
        // Acquired before spawning, so the sender itself waits, as GitHub does.
        let place = room.clone().acquire_owned().await.expect("the semaphore is never closed");
        let (http, url) = (http.clone(), url.clone());
        under_way.spawn(async move {
            let answered = deliver_timed(&http, &url, Webhook::from_number(number)).await;
            drop(place);
            answered
        });
    }
    Ok(under_way.join_all().await)
}

async fn deliver_timed(http: &reqwest::Client, url: &str, webhook: Webhook) -> DeliveryResult {
    let began = Instant::now();
    let status = deliver_webhook(http, url, &webhook).await;
    (webhook, status, began.elapsed())
}

/// Prints the number of responses per status, and the latency of accepted deliveries.
fn print_statuses(answered: &[DeliveryResult]) {
    let mut statuses: BTreeMap<Option<u16>, usize> = BTreeMap::new();
    for (_, status, _) in answered {
        *statuses.entry(*status).or_default() += 1;
    }
    for (status, times) in &statuses {
        println!("  {:<22} {times:>7}", describe_status(*status));
    }
    let mut took: Vec<Duration> =
        answered.iter().filter(|(_, status, _)| *status == Some(202)).map(|(_, _, took)| *took).collect();
    took.sort_unstable();
    let at = |permille: usize| {
        took.get(took.len().saturating_sub(1) * permille / 1000).copied().unwrap_or_default()
    };
    let ms = |permille| at(permille).as_secs_f64() * 1e3;
    println!("  202 latency: p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms", ms(500), ms(990), ms(1000));
}

/// Redelivers refused webhooks until they are accepted, and repeats some of the accepted ones. Fails if a
/// webhook is still refused after the last round.
async fn redeliver_webhooks(url: &str, answered: Vec<DeliveryResult>) -> Result<()> {
    let http = webhook::build_client()?;
    let (taken, mut refused): (Vec<_>, Vec<_>) =
        answered.into_iter().partition(|(_, status, _)| *status == Some(202));
    let mistakes: Vec<_> = taken.into_iter().step_by(REPEAT_EVERY).map(|(webhook, ..)| webhook).collect();
    println!("redelivered: {} refused, {} repeated by mistake", refused.len(), mistakes.len());
    for webhook in mistakes {
        let status = deliver_webhook(&http, url, &webhook).await;
        ensure!(status == Some(202), "a repeated delivery was answered {status:?}");
    }
    for _ in 0..RETRY_ROUNDS_MAX {
        let mut still = Vec::new();
        for (webhook, ..) in refused {
            let answer = deliver_timed(&http, url, webhook).await;
            if answer.1 != Some(202) {
                still.push(answer);
            }
        }
        refused = still;
        if refused.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    anyhow::bail!("{} deliveries were refused {RETRY_ROUNDS_MAX} times", refused.len())
}

/// Waits until this many runs are counted or [`COUNT_TIMEOUT`] has passed. Returns the number of counted
/// runs.
async fn wait_until_counted(retro: &Instance, runs: u64) -> Result<u64> {
    let began = Instant::now();
    loop {
        let verified = retro.run_json(&["verify"]).await?;
        let counted =
            verified["checked"]["runs"].as_u64().context("`retro verify` printed no count of runs")?;
        if counted >= runs || began.elapsed() > COUNT_TIMEOUT {
            return Ok(counted);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Kills the nats-server that this `retro up` supervises. Returns the ID of the killed process.
fn kill_broker(retro: &Instance) -> Result<i32> {
    let parent = retro.pid().context("`retro up` has ended")?;
    for process in std::fs::read_dir("/proc")?.flatten() {
        let Some(id) = process.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // Format: `pid (name) state ppid …`. Split at the last `)`, because the name may contain parentheses.
        let Ok(stat) = std::fs::read_to_string(process.path().join("stat")) else { continue };
        let Some((name, rest)) = stat.rsplit_once(") ") else { continue };
        let of_ours = rest.split(' ').nth(1).and_then(|parent| parent.parse().ok()) == Some(parent);
        if of_ours && name.ends_with("(nats-server") {
            kill(Pid::from_raw(id), Signal::SIGKILL)?;
            return Ok(id);
        }
    }
    anyhow::bail!("`retro up` (pid {parent}) has no nats-server")
}
