//! Measures whether purging keeps up: a counter takes events while details of earlier runs are purged.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::child::MeasuredProcess;
use crate::events::{compose_events, compose_later_events};
use crate::intake::{COUNTER_CONSUMER, measure, print_measured};
use crate::servers::{Broker, Database, DatabaseKind};

/// Interval at which the purged rows are counted.
const COUNT_INTERVAL: Duration = Duration::from_millis(100);
/// Time without a purged row after which the measurement fails.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Options of `retro-bench retention`.
#[derive(Debug, clap::Args)]
pub(crate) struct RetentionOptions {
    /// Number of runs whose details are purged, and number of events that arrive meanwhile.
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(1_000..=2_000_000))]
    runs: u64,
    /// Number of workflows.
    #[arg(long, default_value_t = 1_000)]
    workflows: u64,
    /// Databases to measure; may be repeated.
    #[arg(long, default_values = ["sqlite", "postgres"])]
    database: Vec<DatabaseKind>,
}

/// Runs the measurement and prints it.
pub(crate) async fn run_retention(retro: &Path, folder: &Path, options: &RetentionOptions) -> Result<()> {
    let RetentionOptions { runs, workflows, .. } = *options;
    for kind in &options.database {
        let broker = Broker::start().await?;
        broker.publish_events(compose_events(runs, workflows)).await?;
        let folder = tempfile::tempdir_in(folder)?;
        let database = Database::create(*kind, folder.path(), retro).await?;
        let log = folder.path().join("roles.log");
        println!(
            "{kind:?}, {runs} runs of {workflows} workflows, then as many events while their details are purged"
        );
        let start =
            |roles: &[&str]| MeasuredProcess::start_roles(retro, (&broker, &database), roles, &[], &[], &log);
        broker.reset_consumer(COUNTER_CONSUMER).await?;
        let alone = start(&["counter"])?;
        let alone = measure(&broker, &database, COUNTER_CONSUMER, vec![alone], runs, &log).await?;
        print_measured("before", &[alone]);
        age_details(&database).await?;

        broker.purge().await?;
        broker.publish_events(compose_later_events(runs, runs, workflows)).await?;
        let relay = start(&["relay"])?;
        let counter = start(&["counter"])?;
        let measured = measure(&broker, &database, COUNTER_CONSUMER, vec![counter], runs, &log);
        let (measured, purging) = tokio::join!(measured, wait_until_purged(&database, runs));
        print_measured("during", &[measured?]);
        let (rows, took) = purging?;
        println!(
            "    {rows} rows of {runs} runs purged in {:.1} s: {:.0} runs/s",
            took.as_secs_f64(),
            runs as f64 / took.as_secs_f64()
        );
        relay.stop().await?;
    }
    Ok(())
}

/// Makes everything that is stored old, and every run claimed by a closed retrospective, so that all details are due.
async fn age_details(database: &Database) -> Result<()> {
    for statement in [
        "UPDATE retrospectives SET state = 'closed', state_ms = 0, last_ordinal =
             (SELECT counted FROM workflows AS one WHERE one.tenant = retrospectives.tenant AND one.workflow = retrospectives.workflow)",
        "UPDATE workflows SET open = FALSE, claimed = counted",
        "UPDATE inbox SET received_ms = 0",
        "UPDATE outbox SET sent_ms = 0",
    ] {
        database.execute(statement.to_owned()).await?;
    }
    Ok(())
}

/// Waits until bodies, facts and events of that many runs are purged. Returns the number of purged rows, and the time
/// from the first to the last.
async fn wait_until_purged(database: &Database, runs: u64) -> Result<(u64, Duration)> {
    const PURGED: &str = "SELECT CAST(coalesce(sum(deleted_rows), 0) AS BIGINT) FROM retention_totals";
    const DONE: &str = "
        SELECT CAST(coalesce(min(deleted_rows), 0) AS BIGINT) FROM (
            SELECT stage, deleted_rows FROM retention_totals WHERE stage IN ('bodies', 'runs', 'events')
            UNION ALL SELECT 'all', 0 WHERE (SELECT count(*) FROM retention_totals WHERE stage IN ('bodies', 'runs', 'events')) < 3
        ) AS stages";
    let (mut first, mut rows, mut progressed) = (None, 0, Instant::now());
    while database.query_number(DONE).await? < runs {
        tokio::time::sleep(COUNT_INTERVAL).await;
        let now = database.query_number(PURGED).await?;
        if now > rows {
            (rows, progressed) = (now, Instant::now());
            first.get_or_insert(progressed);
        }
        ensure!(progressed.elapsed() < STALL_TIMEOUT, "stalled at {rows} purged rows");
    }
    Ok((database.query_number(PURGED).await?, first.unwrap_or(progressed).elapsed()))
}
