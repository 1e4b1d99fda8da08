//! Stores what runs were handed: a row for each memory, the number of runs of each memory, and decisions by chance.

use std::collections::BTreeMap;

use retro_store::{Presentation, Result};

use super::dialect::{Connection, OnTable, bind_rows, lookup_join, now_ms, rows_table};
use crate::at;

/// Presentation with the time at which it was recorded, in Unix milliseconds; `None`: now.
pub(crate) type RecordedPresentation<'a> = (&'a Presentation, Option<i64>);

/// Tenant, workflow, run and memory.
type RunMemoryKey<'a> = (&'a str, &'a str, &'a str, String);

/// Stores presentations, each once for a run and memory. Skips ids that are neither memories of the workflow nor
/// repository rules, and decisions about memories that are not the workflow's.
pub(crate) async fn store_presentations(
    connection: &mut Connection,
    presentations: &[RecordedPresentation<'_>],
) -> Result<()> {
    // Presenting a memory to the same run again must not count twice.
    let first_time = insert_presentations(connection, presentations).await?;
    count_presentations(connection, &first_time).await?;
    store_assignments(connection, presentations).await
}

/// Stores presentations and returns how many runs each memory was presented to for the first time, sorted by tenant and
/// memory. Skips ids that are neither memories of the workflow nor repository rules.
///
/// Each statement writes its rows in the order of their key, so concurrent calls cannot deadlock.
async fn insert_presentations(
    connection: &mut Connection,
    presentations: &[RecordedPresentation<'_>],
) -> Result<Vec<((String, String), i64)>> {
    const PRESENT: &str = concat!(
        "INSERT INTO presentations (tenant, workflow, run_id, memory, presented_ms)
         SELECT handed.tenant, handed.workflow, handed.run_id, handed.memory, coalesce(handed.recorded_ms, ",
        now_ms!(),
        ") FROM ",
        rows_table!(
            "handed", "$1" "tenant", "$2" "workflow", "$3" "run_id", "$4" "memory", "$5" "recorded_ms"
        ),
        lookup_join!(
            "memories",
            "id",
            "memories.tenant = handed.tenant AND memories.id = handed.memory
                AND (memories.workflow = handed.workflow OR memories.scope_kind = 'repository')"
        ),
        " ORDER BY handed.place
         ON CONFLICT (tenant, workflow, run_id, memory) DO UPDATE SET presented_ms = excluded.presented_ms
         WHERE presentations.presented_ms IS NULL
         RETURNING tenant, memory"
    );
    // A map, because a statement may touch a row once only, and because it is sorted.
    let handed: BTreeMap<RunMemoryKey<'_>, Option<i64>> = presentations
        .iter()
        .flat_map(|(one, recorded_ms)| {
            let (tenant, workflow, run) =
                (one.key.tenant.as_str(), one.key.workflow.as_str(), one.run.as_str());
            let keys = one.memories.iter().map(move |memory| (tenant, workflow, run, memory.to_string()));
            keys.map(move |key| (key, *recorded_ms))
        })
        // The first time that a run was handed a memory.
        .rev()
        .collect();
    if handed.is_empty() {
        return Ok(Vec::new());
    }
    let query =
        bind_rows!(sqlx::query_as(PRESENT), handed, |((tenant, workflow, run, memory), recorded_ms)| [
            *tenant,
            *workflow,
            *run,
            memory.as_str(),
            *recorded_ms,
        ]);
    let rows: Vec<(String, String)> = query.fetch_all(connection).await.on_table("presentations")?;
    let mut counts: BTreeMap<(String, String), i64> = BTreeMap::new();
    rows.into_iter().for_each(|row| *counts.entry(row).or_default() += 1);
    Ok(counts.into_iter().collect())
}

async fn count_presentations(connection: &mut Connection, counts: &[((String, String), i64)]) -> Result<()> {
    const COUNT: &str = concat!(
        "INSERT INTO memory_presentation_counts (tenant, memory, presentations)
         SELECT tenant, memory, presentations FROM ",
        rows_table!("new", "$1" "tenant", "$2" "memory", "$3" "presentations"),
        " WHERE true ORDER BY place
         ON CONFLICT (tenant, memory)
         DO UPDATE SET presentations = memory_presentation_counts.presentations + excluded.presentations"
    );
    if counts.is_empty() {
        return Ok(());
    }
    let query = bind_rows!(sqlx::query(COUNT), counts, |((tenant, memory), count)| [
        tenant.as_str(),
        memory.as_str(),
        *count,
    ]);
    let done = query.execute(connection).await.on_table("memory_presentation_counts")?;
    at("memory_presentation_counts", "all").check_rows_affected(done.rows_affected(), counts.len())
}

/// Stores decisions by chance, in the order of their key like the presentations. A decision that the run already has
/// stays, even if the policy has changed since.
async fn store_assignments(
    connection: &mut Connection,
    presentations: &[RecordedPresentation<'_>],
) -> Result<()> {
    const ASSIGN: &str = concat!(
        "INSERT INTO memory_assignments (tenant, workflow, run_id, memory, withheld, permille, assigned_ms)
         SELECT decided.tenant, decided.workflow, decided.run_id, decided.memory, decided.withheld,
            decided.permille, coalesce(decided.recorded_ms, ",
        now_ms!(),
        ") FROM ",
        rows_table!(
            "decided", "$1" "tenant", "$2" "workflow", "$3" "run_id", "$4" "memory", "$5" "withheld",
            "$6" "permille", "$7" "recorded_ms"
        ),
        lookup_join!(
            "memories",
            "id",
            "memories.tenant = decided.tenant AND memories.id = decided.memory
                AND memories.workflow = decided.workflow"
        ),
        " ORDER BY decided.place
         ON CONFLICT (tenant, workflow, run_id, memory) DO NOTHING"
    );
    let decided: BTreeMap<RunMemoryKey<'_>, (bool, i64, Option<i64>)> = presentations
        .iter()
        .flat_map(|(one, recorded_ms)| {
            let (tenant, workflow, run) =
                (one.key.tenant.as_str(), one.key.workflow.as_str(), one.run.as_str());
            one.assignments.iter().map(move |assigned| {
                let decision = (assigned.withheld, i64::from(assigned.permille), *recorded_ms);
                ((tenant, workflow, run, assigned.memory.to_string()), decision)
            })
        })
        // The first decision of a run stays.
        .rev()
        .collect();
    if decided.is_empty() {
        return Ok(());
    }
    let query = bind_rows!(sqlx::query(ASSIGN), decided, |(
        (tenant, workflow, run, memory),
        (withheld, permille, recorded_ms),
    )| [
        *tenant,
        *workflow,
        *run,
        memory.as_str(),
        *withheld,
        *permille,
        *recorded_ms,
    ]);
    query.execute(connection).await.on_table("memory_assignments")?;
    Ok(())
}
