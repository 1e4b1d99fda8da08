//! Claims investigations under fenced leases, and loads the data of a claim.

use std::collections::BTreeMap;

use retro_core::id::{MemoryId, WorkflowKey};
use retro_core::run::RunFacts;
use retro_store::{Claim, JournalEntry, Result};

use super::dialect::{Connection, OnTable, arrival, now_ms, skip_locked, storable_text};
use super::{investigations, memory, pending_presentations, retrospective, run};
use crate::at;
use crate::rows::claim::{
    ClaimParts, ClaimRecord, ClaimedInvestigation, build_claim, collect_met_memories, journal_entry_from_row,
    token_step,
};

/// SQL clause that selects claimable investigations: due, and neither paused, leased nor cancelled.
macro_rules! free {
    () => {
        concat!(
            "FROM investigations AS one JOIN retrospectives AS whole
             ON whole.tenant = one.tenant AND whole.id = one.retrospective AND whole.state = 'investigating'
             WHERE one.result IS NULL AND one.not_before_ms <= ",
            now_ms!(),
            " AND (one.lease_ms IS NULL OR one.lease_ms <= ",
            now_ms!(),
            ")"
        )
    };
}

pub(crate) use free;

/// SQL query for the number of claimable investigations.
pub(crate) const CLAIMABLE: &str = concat!("SELECT count(*) ", free!());

/// Claims the oldest claimable investigation for `lease_s` seconds. Returns `None` if there is none. Skips an
/// investigation that another worker is claiming; if that worker disconnects without a commit, the
/// investigation is claimable again.
pub(crate) async fn claim_next(
    connection: &mut Connection,
    worker: &str,
    lease_s: i64,
) -> Result<Option<ClaimRecord>> {
    // Reads the old lease first, because RETURNING sees only the new row. No other worker can interfere: this
    // query locks the row or, in SQLite, the transaction excludes other writers.
    const FIND: &str = concat!(
        "SELECT one.tenant, one.retrospective, one.number, one.lease_ms IS NOT NULL ",
        free!(),
        " ORDER BY one.due_ms, one.tenant, one.retrospective, one.number LIMIT 1",
        skip_locked!("one")
    );
    const TAKE: &str = concat!(
        "UPDATE investigations SET token = token + $3, attempts = attempts + 1, worker = $1, claimed_ms = ",
        now_ms!(),
        ", lease_ms = ",
        now_ms!(),
        " + $2 * 1000
         WHERE tenant = $4 AND retrospective = $5 AND number = $6
         RETURNING tenant, retrospective, number, ordinal, run_id, token, attempts, last_error, $7 AS taken_over"
    );
    let found: Option<(String, String, i64, bool)> =
        sqlx::query_as(FIND).fetch_optional(&mut *connection).await.on_table("investigations")?;
    let Some((tenant, retrospective, number, taken_over)) = found else { return Ok(None) };
    let take = sqlx::query_as(TAKE)
        .bind(storable_text(worker))
        .bind(lease_s)
        .bind(token_step())
        .bind(tenant)
        .bind(retrospective)
        .bind(number)
        .bind(taken_over);
    take.fetch_optional(connection).await.on_table("investigations")
}

/// Loads the data of a claimed investigation.
pub(crate) async fn load_claim(connection: &mut Connection, record: &ClaimRecord) -> Result<Claim> {
    let claimed = record.to_claimed_investigation()?;
    let stored =
        retrospective::find_retrospective(connection, &claimed.tenant, claimed.retrospective).await?;
    let gone = || at("investigations", claimed.retrospective).damaged_error("its retrospective is missing");
    let (retrospective, _) = stored.ok_or_else(gone)?;
    let run = run::load_run_at(connection, &retrospective, claimed.ordinal).await?;
    let met = load_met_memories(connection, &retrospective.key, &claimed, &run.0).await?;
    let named: Vec<MemoryId> = met.keys().copied().collect();
    let memories = memory::list_living_and_named(connection, &retrospective.key, &named).await?;
    let rules = memory::list_named_rules(connection, &retrospective.key.tenant, &named).await?;
    let earlier = investigations::list_ended(connection, &claimed.tenant, claimed.retrospective).await?;
    let earlier = earlier.into_iter().map(|(one, _)| one).collect();
    let journal = load_journal(connection, &claimed).await?;
    Ok(build_claim(&claimed, ClaimParts { retrospective, run, met, memories, rules, earlier, journal }))
}

async fn load_met_memories(
    connection: &mut Connection,
    key: &WorkflowKey,
    claimed: &ClaimedInvestigation,
    facts: &RunFacts,
) -> Result<BTreeMap<MemoryId, bool>> {
    const LOAD: &str = "
        SELECT memory, read_ms IS NOT NULL FROM presentations
        WHERE tenant = $1 AND workflow = $2 AND run_id = $3";
    // First, or what is applied between the two readings would be in neither.
    let pending = pending_presentations::list_of_run(&mut *connection, key, &claimed.run).await?;
    let recorded: Vec<(String, bool)> = sqlx::query_as(LOAD)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(claimed.run.as_str())
        .fetch_all(connection)
        .await
        .on_table("presentations")?;
    collect_met_memories(key, &claimed.run, &recorded, &pending, &facts.memories)
}

async fn load_journal(
    connection: &mut Connection,
    claimed: &ClaimedInvestigation,
) -> Result<Vec<JournalEntry>> {
    const LOAD: &str = concat!(
        "SELECT stage, body FROM journal WHERE tenant = $1 AND retrospective = $2 AND number = $3 ORDER BY ",
        arrival!()
    );
    let rows: Vec<(String, String)> = sqlx::query_as(LOAD)
        .bind(claimed.tenant.as_str())
        .bind(claimed.retrospective.to_string())
        .bind(i64::from(claimed.number))
        .fetch_all(connection)
        .await
        .on_table("journal")?;
    let read = |(stage, body): &(String, String)| journal_entry_from_row(claimed, stage, body).transpose();
    rows.iter().filter_map(read).collect()
}
