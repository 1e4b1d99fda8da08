//! Compares `POST /v1/events` in batches with the broker's own rate for the same batches.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::StreamExt as _;
use futures::stream;
use retro_eval::http_client::configure_client;
use retro_testkit::free_port;

use crate::child::MeasuredProcess;
use crate::events::{Event, compose_events};
use crate::figures::MedianRange;
use crate::servers::{Broker, Database, DatabaseKind, PUBLISH_BATCH, PUBLISH_CONCURRENT};

/// Number of workflows over which the events are spread.
const WORKFLOWS: u64 = 1_000;
/// Timeout for the process to answer its first request, and for each batch.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Interval at which the process is asked whether it is ready.
const READY_INTERVAL: Duration = Duration::from_millis(50);

/// Options of `retro-bench http`.
#[derive(Debug, clap::Args)]
pub(crate) struct HttpOptions {
    /// Number of events.
    #[arg(long, default_value_t = 60_000, value_parser = clap::value_parser!(u64).range(1_000..=2_000_000))]
    events: u64,
    /// Number of pairs of measurements.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=50))]
    pairs: u32,
}

/// Runs the comparison and prints it.
pub(crate) async fn run_http(retro: &Path, folder: &Path, options: &HttpOptions) -> Result<()> {
    let broker = Broker::start().await?;
    let folder = tempfile::tempdir_in(folder)?;
    let database = Database::create(DatabaseKind::Sqlite, folder.path(), retro).await?;
    let address = format!("127.0.0.1:{}", free_port());
    let log = folder.path().join("gateway.log");
    let (servers, arguments) = ((&broker, &database), ["--http-listen", address.as_str()]);
    let process = MeasuredProcess::start_roles(retro, servers, &["gateway"], &arguments, &[], &log)?;
    let http = configure_client().timeout(TIMEOUT).build()?;
    wait_until_ready(&http, &address)
        .await
        .with_context(|| std::fs::read_to_string(&log).unwrap_or_default())?;

    let events: Vec<Event> = compose_events(options.events, WORKFLOWS).collect();
    let batches: Vec<bytes::Bytes> = events.chunks(PUBLISH_BATCH).map(compose_batch).collect();
    let number = events.len() as f64;
    let (mut broker_rates, mut http_rates, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.pairs {
        broker.purge().await?;
        let began = Instant::now();
        broker.publish_events(events.iter().cloned()).await?;
        broker_rates.push(number / began.elapsed().as_secs_f64());

        broker.purge().await?;
        let (cpu_before, began) = (process.cpu_time()?, Instant::now());
        post_batches(&http, &format!("http://{address}/v1/events"), &batches).await?;
        http_rates.push(number / began.elapsed().as_secs_f64());
        cpu.push((process.cpu_time()?.saturating_sub(cpu_before)).as_secs_f64() * 1e6 / number);
        ensure!(broker.count_messages().await? == options.events, "the broker does not have every event");
    }
    let ratios = broker_rates.iter().zip(&http_rates).map(|(broker, http)| http / broker);
    let spread = |values: &[f64]| MedianRange::from_values(values.iter().copied()).context("no pairs");
    println!(
        "{} events in batches of {PUBLISH_BATCH}, {PUBLISH_CONCURRENT} at once; minimum / median / maximum of {} pairs",
        options.events, options.pairs
    );
    println!("  broker alone     {} events/s", spread(&broker_rates)?);
    println!("  POST /v1/events  {} events/s; CPU {:.1} µs an event", spread(&http_rates)?, spread(&cpu)?);
    println!("  ratio            {:.2}", MedianRange::from_values(ratios).context("no pairs")?);
    process.stop().await
}

fn compose_batch(events: &[Event]) -> bytes::Bytes {
    let mut batch = vec![b'['];
    for (nth, event) in events.iter().enumerate() {
        if nth > 0 {
            batch.push(b',');
        }
        batch.extend_from_slice(&event.payload);
    }
    batch.push(b']');
    batch.into()
}

async fn wait_until_ready(http: &reqwest::Client, address: &str) -> Result<()> {
    let began = Instant::now();
    while began.elapsed() < TIMEOUT {
        if http
            .get(format!("http://{address}/readyz"))
            .send()
            .await
            .is_ok_and(|answer| answer.status().is_success())
        {
            return Ok(());
        }
        tokio::time::sleep(READY_INTERVAL).await;
    }
    anyhow::bail!("the gateway did not become ready")
}

async fn post_batches(http: &reqwest::Client, url: &str, batches: &[bytes::Bytes]) -> Result<()> {
    let post = |batch: bytes::Bytes| async move {
        let request = http.post(url).header("content-type", "application/cloudevents-batch+json").body(batch);
        let answer = request.send().await?;
        let status = answer.status();
        ensure!(status.is_success(), "a batch was answered {status}: {}", answer.text().await?);
        Ok(())
    };
    let mut answers = stream::iter(batches.iter().cloned()).map(post).buffer_unordered(PUBLISH_CONCURRENT);
    while let Some(answer) = answers.next().await {
        answer?;
    }
    Ok(())
}
