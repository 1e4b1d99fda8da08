//! Collects the spans of traces that come in several requests.
//!
//! Adding spans, marking traces as read and ending claims lock the tenant's row of `trace_usage` first, so that of two
//! requests with the same traces each sees what the other has stored, and none waits for the other in a circle. Claims lock
//! only rows that nobody else has locked. An attempt is the fencing token: what a process decides under an older one has no
//! effect.

use std::collections::BTreeMap;

use async_trait::async_trait;
use retro_core::id::Tenant;
use retro_core::trace_collection::{SpanOutline, TraceStep, decide_trace_step};
use retro_fault::Label;
use retro_store::{
    AddSpansResult, AddedTrace, ArrivingSpan, ArrivingTrace, ClaimedTrace, CollectedTraceStore,
    CollectionRules, ReadTrace, Result, StoredSpan, TraceClaim, TraceEnd,
};

use super::delivery::store_dead_letter;
use super::dialect::{
    Connection, OnTable, Store, any_of, bind_rows, from_hex, greatest, list_parameter, now_ms, rows_table,
    skip_locked,
};
use super::open::commit;
use super::trace_claims::{close, delete, find_claimed, release, retry_later, wait_for_quiet};
use super::trace_usage::{change_usage, lock_usage};
use crate::rows::collected_traces::{
    ClaimedTraceRecord, KnownTrace, KnownTraceRecord, OutlineRecord, StoredSpanRecord, hex, to_flag,
};
use crate::{at, to_i64};

/// A trace of which spans are stored.
struct TraceWrite<'a> {
    trace: &'a ArrivingTrace,
    new_spans: Vec<&'a ArrivingSpan>,
    /// Number of its spans, with the new ones.
    spans: usize,
    /// Size of its spans, with the new ones.
    bytes: u64,
    /// `true` if the caller publishes its run.
    is_claimed: bool,
    /// Milliseconds after which it is decided about.
    wait_ms: u64,
}

#[async_trait]
impl CollectedTraceStore for Store {
    async fn list_collected_traces(&self, tenant: &Tenant, trace_ids: &[String]) -> Result<Vec<String>> {
        const LIST: &str =
            concat!("SELECT trace_id FROM collected_traces WHERE tenant = $1 AND trace_id", any_of!("$2"));
        sqlx::query_scalar(LIST)
            .bind(tenant.as_str())
            .bind(list_parameter(trace_ids))
            .fetch_all(self.reader())
            .await
            .on_table("collected_traces")
    }

    async fn add_spans(
        &self,
        tenant: &Tenant,
        traces: &[ArrivingTrace],
        rules: &CollectionRules,
    ) -> Result<AddSpansResult> {
        let mut transaction = self.begin_write().await?;
        let (used_traces, used_bytes) = lock_usage(&mut transaction, tenant).await?;
        let known = load_known_traces(&mut transaction, tenant, traces).await?;
        let mut outlines = load_outlines(&mut transaction, tenant, traces).await?;
        let (mut added, mut writes) = (Vec::new(), Vec::new());
        for trace in traces {
            let stored = outlines.remove(&trace.trace_id).unwrap_or_default();
            let (answer, write) = plan_trace(tenant, trace, known.get(&trace.trace_id), stored, rules);
            added.push(answer);
            writes.extend(write);
        }
        let new_traces =
            writes.iter().filter(|write| !known.contains_key(&write.trace.trace_id)).count() as u64;
        let new_bytes: u64 = writes.iter().map(new_bytes).sum();
        if used_traces + new_traces > rules.bounds.tenant_traces_max
            || (new_bytes > 0 && used_bytes + new_bytes > rules.bounds.tenant_bytes_max)
        {
            // Whole traces need no space: the caller has their runs.
            return Ok(match writes.iter().all(|write| write.is_claimed) {
                true => AddSpansResult::Added(added.into_iter().map(without_claim).collect()),
                false => AddSpansResult::TenantFull,
            });
        }
        if writes.is_empty() {
            return Ok(AddSpansResult::Added(added));
        }
        store_traces(&mut transaction, tenant, &writes, rules.lease_s).await?;
        store_spans(&mut transaction, tenant, &writes).await?;
        change_usage(&mut transaction, tenant, to_i64(new_traces), to_i64(new_bytes)).await?;
        commit(transaction, Label::SpansAddCommit).await?;
        Ok(AddSpansResult::Added(added))
    }

    async fn claim_traces(&self, limit: u32, lease_s: u64) -> Result<Vec<ClaimedTrace>> {
        const CLAIM: &str = concat!(
            "UPDATE collected_traces SET attempt = attempt + 1, lease_ms = ",
            now_ms!(),
            " + $2 * 1000 WHERE (tenant, trace_id) IN (
                 SELECT tenant, trace_id FROM collected_traces /* reads all: those that are due, up to the limit */
                 WHERE due_ms <= ",
            now_ms!(),
            " AND (lease_ms IS NULL OR lease_ms <= ",
            now_ms!(),
            ") ORDER BY due_ms LIMIT $1",
            skip_locked!(),
            ") RETURNING tenant, trace_id, attempt, spans, read_spans, ",
            now_ms!(),
            " - last_ms AS quiet_ms, workflow"
        );
        let mut transaction = self.begin_write().await?;
        let rows: Vec<ClaimedTraceRecord> = sqlx::query_as(CLAIM)
            .bind(i64::from(limit))
            .bind(to_i64(lease_s))
            .fetch_all(&mut *transaction)
            .await
            .on_table("collected_traces")?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        commit(transaction, Label::TracesClaimCommit).await?;
        rows.into_iter().map(ClaimedTraceRecord::into_claimed).collect()
    }

    async fn load_trace_spans(&self, claim: &TraceClaim) -> Result<Vec<StoredSpan>> {
        const LOAD: &str = "SELECT span_id, parent_id, ended, remote, is_call, document FROM trace_spans
             WHERE tenant = $1 AND trace_id = $2 ORDER BY span_id";
        let rows: Vec<StoredSpanRecord> = sqlx::query_as(LOAD)
            .bind(claim.tenant.as_str())
            .bind(&claim.trace_id)
            .fetch_all(self.reader())
            .await
            .on_table("trace_spans")?;
        rows.into_iter().map(|row| row.into_stored(&claim.trace_id)).collect()
    }

    async fn mark_traces_read(&self, tenant: &Tenant, traces: &[ReadTrace], quiet_ms: u64) -> Result<()> {
        const MARK: &str = concat!(
            "UPDATE collected_traces SET workflow = coalesce(collected_traces.workflow, new.workflow), lease_ms = NULL,
                 read_spans = ",
            greatest!(),
            "(collected_traces.read_spans, new.spans),
                 due_ms = CASE WHEN collected_traces.spans = new.spans THEN last_ms + $2 ELSE due_ms END
             FROM ",
            rows_table!("new", "$3" "trace_id", "$4" "attempt", "$5" "spans", "$6" "workflow"),
            " WHERE collected_traces.tenant = $1 AND collected_traces.trace_id = new.trace_id
                 AND collected_traces.attempt = new.attempt AND closed_ms IS NULL"
        );
        if traces.is_empty() {
            return Ok(());
        }
        let mut transaction = self.begin_write().await?;
        lock_usage(&mut transaction, tenant).await?;
        let query = sqlx::query(MARK).bind(tenant.as_str()).bind(to_i64(quiet_ms));
        let query = bind_rows!(query, traces, |read| [
            read.claim.trace_id.as_str(),
            i64::from(read.claim.attempt),
            to_i64(read.claim.spans),
            read.workflow.as_ref().map(|workflow| workflow.as_str()),
        ]);
        query.execute(&mut *transaction).await.on_table("collected_traces")?;
        commit(transaction, Label::TracesReadCommit).await
    }

    async fn end_trace_claim(&self, claim: &TraceClaim, end: TraceEnd<'_>) -> Result<bool> {
        let mut transaction = self.begin_write().await?;
        lock_usage(&mut transaction, &claim.tenant).await?;
        let Some((spans, bytes)) = find_claimed(&mut transaction, claim).await? else { return Ok(false) };
        let is_same = spans == to_i64(claim.spans);
        match end {
            TraceEnd::Retry(after_ms) => retry_later(&mut transaction, claim, after_ms).await?,
            _ if !is_same => release(&mut transaction, claim).await?,
            TraceEnd::Wait(quiet_ms) => wait_for_quiet(&mut transaction, claim, quiet_ms).await?,
            TraceEnd::Forget => close(&mut transaction, claim, bytes).await?,
            TraceEnd::Delete => delete(&mut transaction, claim, bytes).await?,
            TraceEnd::DeadLetter(dead_letter) => {
                store_dead_letter(&mut transaction, dead_letter).await?;
                close(&mut transaction, claim, bytes).await?;
            }
        }
        commit(transaction, Label::TraceEndCommit).await?;
        Ok(is_same)
    }

    async fn purge_closed_traces(&self, older_than_s: u64, limit: u32) -> Result<u64> {
        const PURGE: &str = concat!(
            "DELETE FROM collected_traces WHERE (tenant, trace_id) IN (
                 SELECT tenant, trace_id FROM collected_traces WHERE closed_ms <= ",
            now_ms!(),
            " - CAST($1 AS BIGINT) * 1000 ORDER BY closed_ms LIMIT $2",
            skip_locked!(),
            ")"
        );
        let mut transaction = self.begin_write().await?;
        let purged = sqlx::query(PURGE)
            .bind(to_i64(older_than_s))
            .bind(i64::from(limit))
            .execute(&mut *transaction)
            .await
            .on_table("collected_traces")?;
        if purged.rows_affected() > 0 {
            commit(transaction, Label::TracesPurgeCommit).await?;
        }
        Ok(purged.rows_affected())
    }
}

/// Decides what becomes of the spans of a trace, of which these are stored. Returns also what is written.
fn plan_trace<'a>(
    tenant: &Tenant,
    trace: &'a ArrivingTrace,
    known: Option<&KnownTrace>,
    stored: Vec<SpanOutline>,
    rules: &CollectionRules,
) -> (AddedTrace, Option<TraceWrite<'a>>) {
    if known.is_some_and(|known| known.is_closed) {
        return match trace.has_run {
            // An exporter that did not get the answer sends the whole trace again.
            true if known.is_some_and(|known| known.read_spans >= trace.spans.len() as u64) => {
                (AddedTrace::Stored { is_due: false }, None)
            }
            _ => (AddedTrace::TooLate, None),
        };
    }
    if trace.has_run && trace.spans.is_empty() {
        return (AddedTrace::HasRun(None), None);
    }
    let mut outlines: BTreeMap<String, SpanOutline> =
        stored.into_iter().map(|outline| (outline.span_id.clone(), outline)).collect();
    let mut new_spans = Vec::new();
    for span in &trace.spans {
        let is_better = |stored: &SpanOutline| span.outline.has_ended && !stored.has_ended;
        if outlines.get(&span.outline.span_id).is_none_or(is_better) {
            outlines.insert(span.outline.span_id.clone(), span.outline.clone());
            new_spans.push(span);
        }
    }
    if new_spans.is_empty() {
        return (AddedTrace::Stored { is_due: false }, None);
    }
    let spans = outlines.len();
    let bytes = known.map_or(0, |known| known.bytes) + new_spans.iter().map(|span| span.bytes).sum::<u64>();
    let is_claimed = trace.has_run && known.is_none();
    let too_many = match (spans as u64, bytes) {
        (spans, _) if spans > rules.bounds.trace_spans_max => Some(AddedTrace::TooManySpans(spans)),
        (_, bytes) if bytes > rules.bounds.trace_bytes_max => Some(AddedTrace::TooManyBytes(bytes)),
        _ => None,
    };
    if let Some(too_many) = too_many {
        // A whole trace needs no space.
        return (if is_claimed { AddedTrace::HasRun(None) } else { too_many }, None);
    }
    let outlines: Vec<SpanOutline> = outlines.into_values().collect();
    let read_spans = known.map_or(0, |known| known.read_spans);
    let step =
        decide_trace_step(&outlines, usize::try_from(read_spans).unwrap_or(usize::MAX), 0, &rules.waits);
    let wait_ms = match step {
        TraceStep::Wait { quiet_ms } => quiet_ms,
        TraceStep::Read | TraceStep::GiveUp | TraceStep::Ignore | TraceStep::Forget => 0,
    };
    let answer = match is_claimed {
        true => AddedTrace::HasRun(Some(TraceClaim {
            tenant: tenant.clone(),
            trace_id: trace.trace_id.clone(),
            attempt: 1,
            spans: spans as u64,
        })),
        false => AddedTrace::Stored { is_due: wait_ms == 0 },
    };
    (answer, Some(TraceWrite { trace, new_spans, spans, bytes, is_claimed, wait_ms }))
}

fn new_bytes(write: &TraceWrite<'_>) -> u64 {
    write.new_spans.iter().map(|span| span.bytes).sum()
}

/// Returns the answer for a trace of which nothing is kept.
fn without_claim(answer: AddedTrace) -> AddedTrace {
    match answer {
        AddedTrace::HasRun(_) => AddedTrace::HasRun(None),
        other => other,
    }
}

fn trace_ids(traces: &[ArrivingTrace]) -> Vec<&str> {
    traces.iter().map(|trace| trace.trace_id.as_str()).collect()
}

async fn load_known_traces(
    connection: &mut Connection,
    tenant: &Tenant,
    traces: &[ArrivingTrace],
) -> Result<BTreeMap<String, KnownTrace>> {
    const LOAD: &str = concat!(
        "SELECT trace_id, bytes, read_spans, closed_ms FROM collected_traces WHERE tenant = $1 AND trace_id",
        any_of!("$2")
    );
    let rows: Vec<KnownTraceRecord> = sqlx::query_as(LOAD)
        .bind(tenant.as_str())
        .bind(list_parameter(&trace_ids(traces)))
        .fetch_all(connection)
        .await
        .on_table("collected_traces")?;
    rows.into_iter().map(KnownTraceRecord::into_known).collect()
}

async fn load_outlines(
    connection: &mut Connection,
    tenant: &Tenant,
    traces: &[ArrivingTrace],
) -> Result<BTreeMap<String, Vec<SpanOutline>>> {
    const LOAD: &str = concat!(
        "SELECT trace_id, span_id, parent_id, ended, remote, is_call FROM trace_spans WHERE tenant = $1 AND trace_id",
        any_of!("$2")
    );
    let rows: Vec<OutlineRecord> = sqlx::query_as(LOAD)
        .bind(tenant.as_str())
        .bind(list_parameter(&trace_ids(traces)))
        .fetch_all(connection)
        .await
        .on_table("trace_spans")?;
    let mut outlines: BTreeMap<String, Vec<SpanOutline>> = BTreeMap::new();
    for row in rows {
        let (trace_id, outline) = row.into_outline();
        outlines.entry(trace_id).or_default().push(outline);
    }
    Ok(outlines)
}

async fn store_traces(
    connection: &mut Connection,
    tenant: &Tenant,
    writes: &[TraceWrite<'_>],
    lease_s: u64,
) -> Result<()> {
    // A known trace may be claimed meanwhile, so its claim stays as it is.
    const STORE: &str = concat!(
        "INSERT INTO collected_traces (tenant, trace_id, last_ms, spans, bytes, attempt, lease_ms, due_ms)
         SELECT $1, trace_id, ",
        now_ms!(),
        ", spans, bytes, claimed, CASE WHEN claimed = 1 THEN ",
        now_ms!(),
        " + $2 * 1000 END, ",
        now_ms!(),
        " + wait_ms FROM ",
        rows_table!("new", "$3" "trace_id", "$4" "spans", "$5" "bytes", "$6" "claimed", "$7" "wait_ms"),
        " WHERE true ON CONFLICT (tenant, trace_id) DO UPDATE SET
             last_ms = excluded.last_ms, spans = excluded.spans, bytes = excluded.bytes, due_ms = excluded.due_ms"
    );
    let query = sqlx::query(STORE).bind(tenant.as_str()).bind(to_i64(lease_s));
    let query = bind_rows!(query, writes, |write| [
        write.trace.trace_id.as_str(),
        to_i64(write.spans as u64),
        to_i64(write.bytes),
        to_flag(write.is_claimed),
        to_i64(write.wait_ms),
    ]);
    let stored = query.execute(connection).await.on_table("collected_traces")?;
    at("collected_traces", tenant).check_rows_affected(stored.rows_affected(), writes.len())
}

async fn store_spans(connection: &mut Connection, tenant: &Tenant, writes: &[TraceWrite<'_>]) -> Result<()> {
    const STORE: &str = concat!(
        "INSERT INTO trace_spans (tenant, trace_id, span_id, parent_id, ended, remote, is_call, bytes, document)
         SELECT $1, trace_id, span_id, parent_id, ended, remote, is_call, bytes, ",
        from_hex!("document"),
        " FROM ",
        rows_table!(
            "new", "$2" "trace_id", "$3" "span_id", "$4" "parent_id", "$5" "ended", "$6" "remote",
            "$7" "is_call", "$8" "bytes", "$9" "document"
        ),
        " WHERE true ON CONFLICT (tenant, trace_id, span_id) DO UPDATE SET
             parent_id = excluded.parent_id, ended = excluded.ended, remote = excluded.remote,
             is_call = excluded.is_call, bytes = excluded.bytes, document = excluded.document"
    );
    let spans: Vec<(&str, &ArrivingSpan)> = writes
        .iter()
        .flat_map(|write| write.new_spans.iter().map(|span| (write.trace.trace_id.as_str(), *span)))
        .collect();
    let query = sqlx::query(STORE).bind(tenant.as_str());
    let query = bind_rows!(query, spans, |span| [
        span.0,
        span.1.outline.span_id.as_str(),
        span.1.outline.parent_id.as_str(),
        to_flag(span.1.outline.has_ended),
        to_flag(span.1.outline.has_remote_parent),
        to_flag(span.1.outline.is_call),
        to_i64(span.1.bytes),
        hex(span.1.document.as_bytes()),
    ]);
    let stored = query.execute(connection).await.on_table("trace_spans")?;
    at("trace_spans", tenant).check_rows_affected(stored.rows_affected(), spans.len())
}
