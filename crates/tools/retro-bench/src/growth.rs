//! Measures what an event costs while the database grows: the counter on databases with more and more workflows and
//! a million identities of earlier runs.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;

use crate::events::compose_events;
use crate::intake::{Measured, measure_role_on, print_measured};
use crate::servers::{Broker, Database, DatabaseKind};

/// Options of `retro-bench growth`.
#[derive(Debug, clap::Args)]
pub(crate) struct GrowthOptions {
    /// Number of events.
    #[arg(long, default_value_t = 30_000, value_parser = clap::value_parser!(u64).range(1_000..=2_000_000))]
    events: u64,
    /// Number of workflows; may be repeated.
    #[arg(long, default_values_t = [10, 1_000, 100_000])]
    workflows: Vec<u64>,
    /// Number of earlier runs, whose identities are stored; may be repeated.
    #[arg(long, default_values_t = [0, 1_000_000])]
    identities: Vec<u64>,
    /// Number of measurements of each.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=50))]
    repetitions: u32,
    /// Databases to measure; may be repeated.
    #[arg(long, default_values = ["sqlite", "postgres"])]
    database: Vec<DatabaseKind>,
}

/// Runs the measurements and prints them.
pub(crate) async fn run_growth(retro: &Path, folder: &Path, options: &GrowthOptions) -> Result<()> {
    for workflows in &options.workflows {
        let broker = Broker::start().await?;
        broker.publish_events(compose_events(options.events, *workflows)).await?;
        for kind in &options.database {
            for identities in &options.identities {
                let mut measured: Vec<Measured> = Vec::new();
                let mut bytes = 0;
                for _ in 0..options.repetitions {
                    let folder = tempfile::tempdir_in(folder)?;
                    let database = Database::create(*kind, folder.path(), retro).await?;
                    let empty = database.size().await?;
                    let began = Instant::now();
                    store_identities(&database, *workflows, *identities).await?;
                    eprintln!(
                        "{kind:?}: stored {identities} identities in {:.0} s",
                        began.elapsed().as_secs_f64()
                    );
                    bytes = database.size().await?.saturating_sub(empty);
                    measured.push(
                        measure_role_on(&broker, &database, retro, folder.path(), 1, options.events).await?,
                    );
                }
                println!(
                    "{kind:?}, {workflows} workflows, {identities} identities ({} MiB on disk)",
                    bytes / (1024 * 1024)
                );
                print_measured("counter", &measured);
            }
        }
    }
    Ok(())
}

/// Stores workflows, and earlier runs with their events, as they are left when details were purged: every run was
/// claimed.
async fn store_identities(database: &Database, workflows: u64, identities: u64) -> Result<()> {
    if identities == 0 {
        return Ok(());
    }
    let is_postgres = database.is_postgres();
    let (numbers, hash) = if is_postgres {
        (format!("generate_series(0, {identities} - 1) AS numbers (n)"), "md5(n::text)")
    } else {
        (
            format!(
                "(WITH RECURSIVE counted (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM counted WHERE n + 1 < {identities})
                  SELECT n FROM counted) AS numbers"
            ),
            "lower(hex(randomblob(16)))",
        )
    };
    let id = |text: String| if is_postgres { format!("convert_to({text}, 'UTF8')") } else { text };
    let event = id(format!("'old-' || {hash} || '-' || n"));
    let source = id("'/engines/bench'".to_owned());
    let statements = [
        format!(
            "INSERT INTO workflows (tenant, workflow, recorded, counted, claimed, epoch, open, failures, events)
             SELECT 'default', 'workflow-' || (n % {workflows}), count(*), count(*), count(*), 0, FALSE, 0, count(*)
             FROM {numbers} GROUP BY n % {workflows}"
        ),
        format!(
            "INSERT INTO inbox (consumer, tenant, source, event_id, content_hash, received_ms)
             SELECT 'counter', 'default', {source}, {event}, {hash} || {hash}, n FROM {numbers}"
        ),
        format!(
            "INSERT INTO runs (tenant, workflow, run_id, number, ordinal, attempt, intake_sequence, received_ms)
             SELECT 'default', 'workflow-' || (n % {workflows}), 'old-' || {hash} || '-' || n, n / {workflows} + 1,
                 n / {workflows} + 1, 1, n, n FROM {numbers}"
        ),
    ];
    for statement in statements {
        database.execute(statement).await?;
    }
    if !is_postgres {
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)".to_owned()).await?;
    }
    Ok(())
}
