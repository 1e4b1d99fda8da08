//! `cargo xtask load`: signed webhooks at a steady rate against a `retro up` whose broker is killed half-way. Says what GitHub
//! would have been answered and how quickly; delivers what was refused again, as a person does in GitHub's list; and compares what
//! the broker holds and what was counted with what was sent.

mod webhook;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::broker;
use crate::demo::built;
use crate::instance::Instance;
use webhook::{Webhook, deliver};

/// What is sent.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Sending {
    /// Deliveries a second.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=5000))]
    rate: u32,
    /// For how long, seconds.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(2..=3600))]
    seconds: u32,
    /// Leaves the broker alone.
    #[arg(long)]
    calm: bool,
}

/// Deliveries under way at once; above it the sender waits, as GitHub's does.
const UNDER_WAY_MAX: usize = 1000;
/// Every so many deliveries that were taken, one is delivered again: by mistake, as people do.
const AGAIN_EVERY: usize = 100;
/// How often what was refused is delivered again before it is given up.
const ROUNDS_MAX: u32 = 10;
/// How long counting may take after the last delivery.
const COUNTED_WITHIN: Duration = Duration::from_secs(120);
/// How often is looked.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What became of one delivery: the status, or `None` when there was no answer in GitHub's time; and how long it took.
type Answered = (Webhook, Option<u16>, Duration);

/// Runs it against the release build, or another one.
pub(crate) fn run(root: &Path, binary: Option<&Path>, load: Sending) -> Result<()> {
    let binary = binary.map_or_else(built, |path| Ok(path.to_owned()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(tell(root, &binary, load))
}

async fn tell(root: &Path, binary: &Path, load: Sending) -> Result<()> {
    let folder = root.join(".demo").join("load");
    // No retrospectives: what is measured is the road to the broker and the count.
    let pipelines = folder.with_file_name("load-pipelines");
    std::fs::create_dir_all(pipelines.join("retrospective"))?;
    std::fs::write(pipelines.join("retrospective/pipeline.toml"), "[policy]\nthreshold_runs = 100000\n")?;
    let retro = Instance::start(binary, &folder, &pipelines, &webhook::CONFIGURED).await?;
    let url = retro.recorded("bridge_url")?;
    let all = load.rate * load.seconds;
    println!(
        "{all} signed deliveries to {url}, {} a second; half of them are finished workflow runs",
        load.rate
    );
    let began = Instant::now();
    let sending = tokio::spawn(send(url.clone(), load));
    if !load.calm {
        tokio::time::sleep(Duration::from_secs(u64::from(load.seconds / 2))).await;
        let killed = kill_broker(&retro)?;
        println!("after {:.1} s the broker (pid {killed}) was killed", began.elapsed().as_secs_f64());
    }
    let answered = sending.await??;
    println!("the last one was answered after {:.1} s", began.elapsed().as_secs_f64());
    say(&answered);
    let nats = retro.recorded("nats_url")?;
    say_stored(&answered, &stored(&nats).await?)?;
    deliver_again(&url, answered).await?;
    let runs = u64::from(all.div_ceil(2));
    let counted = wait_for(&retro, runs).await?;
    let held = stored(&nats).await?;
    let (events, times) = (held.len(), held.values().sum::<usize>());
    println!(
        "in the end the broker holds {events} of {all} deliveries, {} of them more than once, and {times} messages",
        held.values().filter(|times| **times > 1).count()
    );
    println!("finished workflow runs: {runs} sent, {counted} counted");
    retro.stop().await?;
    ensure!(counted == runs, "{runs} runs were sent and {counted} are counted");
    ensure!(events == all as usize, "the broker lost what it acknowledged");
    println!("each was counted once");
    Ok(())
}

/// Every event that the broker holds, by the id of its delivery, with how often it is there.
async fn stored(nats: &str) -> Result<BTreeMap<String, usize>> {
    let mut held = BTreeMap::new();
    for stream in ["RETRO_INTAKE", "RETRO_GITHUB"] {
        held.append(&mut broker::events(nats, stream).await?);
    }
    Ok(held)
}

/// What became of the deliveries by what was answered. Fails when one that was answered 202 is not there.
fn say_stored(answered: &[Answered], held: &BTreeMap<String, usize>) -> Result<()> {
    let mut places: BTreeMap<Option<u16>, [usize; 3]> = BTreeMap::new();
    for (webhook, status, _) in answered {
        let times = held.get(&webhook.delivery).copied().unwrap_or_default();
        places.entry(*status).or_default()[times.min(2)] += 1;
    }
    println!("  before anything is delivered again, the broker holds of those");
    for (status, [never, once, more]) in &places {
        println!("  {:<22} {once:>7} once, {never} not at all, {more} more than once", named(*status));
    }
    let lost = places.get(&Some(202)).map_or(0, |[never, ..]| *never);
    ensure!(lost == 0, "{lost} deliveries were answered 202, and the broker has not got them");
    Ok(())
}

fn named(status: Option<u16>) -> String {
    status.map_or_else(|| "no answer within 10 s".to_owned(), |status| format!("answered {status}"))
}

/// Sends at the rate, whatever the answers are.
async fn send(url: String, load: Sending) -> Result<Vec<Answered>> {
    let http = webhook::client()?;
    let room = Arc::new(Semaphore::new(UNDER_WAY_MAX));
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / load.rate);
    let mut under_way = JoinSet::new();
    for number in 0..load.rate * load.seconds {
        ticks.tick().await;
        let place = room.clone().acquire_owned().await.expect("it is never closed");
        let (http, url) = (http.clone(), url.clone());
        under_way.spawn(async move {
            let answered = timed(&http, &url, Webhook::of(number)).await;
            drop(place);
            answered
        });
    }
    Ok(under_way.join_all().await)
}

async fn timed(http: &reqwest::Client, url: &str, webhook: Webhook) -> Answered {
    let began = Instant::now();
    let status = deliver(http, url, &webhook).await;
    (webhook, status, began.elapsed())
}

/// Statuses, and how long the taken ones took.
fn say(answered: &[Answered]) {
    let mut statuses: BTreeMap<Option<u16>, usize> = BTreeMap::new();
    for (_, status, _) in answered {
        *statuses.entry(*status).or_default() += 1;
    }
    for (status, times) in &statuses {
        println!("  {:<22} {times:>7}", named(*status));
    }
    let mut took: Vec<Duration> =
        answered.iter().filter(|(_, status, _)| *status == Some(202)).map(|(_, _, took)| *took).collect();
    took.sort_unstable();
    let at = |permille: usize| {
        took.get(took.len().saturating_sub(1) * permille / 1000).copied().unwrap_or_default()
    };
    let ms = |permille| at(permille).as_secs_f64() * 1e3;
    println!("  202 within: p50 {:.1} ms, p99 {:.1} ms, the slowest {:.1} ms", ms(500), ms(990), ms(1000));
}

/// What was refused, until it is taken; and some of what was taken.
async fn deliver_again(url: &str, answered: Vec<Answered>) -> Result<()> {
    let http = webhook::client()?;
    let (taken, mut refused): (Vec<_>, Vec<_>) =
        answered.into_iter().partition(|(_, status, _)| *status == Some(202));
    let mistakes: Vec<_> = taken.into_iter().step_by(AGAIN_EVERY).map(|(webhook, ..)| webhook).collect();
    println!("delivered again: {} that were refused, {} by mistake", refused.len(), mistakes.len());
    for webhook in mistakes {
        let status = deliver(&http, url, &webhook).await;
        ensure!(status == Some(202), "a delivery that comes again was answered {status:?}");
    }
    for _ in 0..ROUNDS_MAX {
        let mut still = Vec::new();
        for (webhook, ..) in refused {
            let answer = timed(&http, url, webhook).await;
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
    anyhow::bail!("{} deliveries were refused {ROUNDS_MAX} times", refused.len())
}

/// Waits until so many runs are counted, for a bounded time; how many are.
async fn wait_for(retro: &Instance, runs: u64) -> Result<u64> {
    let began = Instant::now();
    loop {
        let verified = retro.ask(&["verify"]).await?;
        let counted = verified["checked"]["runs"].as_u64().context("`retro verify` counts runs")?;
        if counted >= runs || began.elapsed() > COUNTED_WITHIN {
            return Ok(counted);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Kills the nats-server that this `retro up` supervises. Returns its id.
fn kill_broker(retro: &Instance) -> Result<i32> {
    let parent = retro.pid().context("`retro up` has ended")?;
    for process in std::fs::read_dir("/proc")?.flatten() {
        let Some(id) = process.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // `pid (name) state ppid …`
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
