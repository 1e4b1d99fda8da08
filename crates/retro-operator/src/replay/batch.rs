//! Replays or discards many dead letters at once.

use retro_core::id::{DeadLetterId, ReplayBatchId, Tenant};
use retro_core::replay::{BATCH_DEAD_LETTERS_MAX, ReplayPace};
use retro_store::{
    CancelBatchResult, DeadLetter, DeadLetterFilter, DeadLetterStatus, DiscardResult, NewReplayBatch,
    ReplayBatchItem, ReplayBatchRow,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{ActionResult, DeadLetterSelection, ReplayError, ReplayService, format_dead_letter_count};
use crate::cancel::{ActionStatus, describe_attribution};
use crate::dead_letters::DeadLetterSearch;
use crate::text;
use crate::text_table::render_table;

/// Number of dead letters discarded per transaction. Such a transaction takes about a tenth of a second, so
/// it hardly delays a counter that waits for its locks.
const DISCARD_CHUNK: usize = 200;

/// Response to a request that started a replay batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct BatchStarted {
    /// Id of the new batch.
    #[schema(value_type = String)]
    pub batch: ReplayBatchId,
    /// Number of dead letters in the batch.
    pub dead_letters: u64,
}

impl ReplayService {
    /// Loads the selected dead letters, oldest first. If the search names neither ids nor a status, only open
    /// dead letters are selected. Fails if the search is empty and `all` is not set, or if more than
    /// [`BATCH_DEAD_LETTERS_MAX`] dead letters match.
    pub(super) async fn select_dead_letters(
        &self,
        tenant: &Tenant,
        chosen: &DeadLetterSelection,
    ) -> Result<Vec<DeadLetter>, ReplayError> {
        if chosen.search.is_empty() && !chosen.all {
            return Err(ReplayError::NothingSelected);
        }
        let mut search: DeadLetterSearch = chosen.search.clone();
        // A cursor would silently leave out dead letters that the operator means.
        search.filter.after = None;
        // One more than allowed, to detect a selection that is too large.
        search.filter.limit = BATCH_DEAD_LETTERS_MAX + 1;
        if search.filter.ids.is_empty() {
            search.filter.status.get_or_insert(DeadLetterStatus::Open);
        }
        let found = search.find_matches(&*self.store, tenant, &*self.redact).await?;
        let mut dead_letters = found.dead_letters;
        if found.truncated || dead_letters.len() > BATCH_DEAD_LETTERS_MAX as usize {
            return Err(ReplayError::TooMany);
        }
        // The store lists newest first; replays go oldest first, as the messages originally did.
        dead_letters.reverse();
        Ok(dead_letters)
    }

    /// Returns the ids of the selected dead letters, oldest first.
    pub async fn list_selected_ids(
        &self,
        tenant: &Tenant,
        chosen: &DeadLetterSelection,
    ) -> Result<Vec<DeadLetterId>, ReplayError> {
        Ok(self
            .select_dead_letters(tenant, chosen)
            .await?
            .into_iter()
            .map(|dead_letter| dead_letter.id)
            .collect())
    }

    /// Starts a batch that replays the selected dead letters. The relay sends them at the given pace.
    pub async fn start_batch(
        &self,
        tenant: &Tenant,
        chosen: &DeadLetterSelection,
        pace: ReplayPace,
        by: &str,
        reason: &str,
    ) -> Result<BatchStarted, ReplayError> {
        pace.validate()?;
        let act = self.build_attribution(by, reason)?;
        let selected = self.select_dead_letters(tenant, chosen).await?;
        if selected.is_empty() {
            return Err(ReplayError::NoMatch);
        }
        // The operator may have searched for a secret.
        let filter_text = (self.redact)(&describe_search(&chosen.search));
        let dead_letters: Vec<_> =
            selected.iter().map(|dead_letter| (dead_letter.id, dead_letter.status)).collect();
        let count = dead_letters.len() as u64;
        let batch = self
            .store
            .start_replay_batch(tenant, &NewReplayBatch { filter_text, dead_letters, pace, act })
            .await?;
        Ok(BatchStarted { batch, dead_letters: count })
    }

    /// Discards the selected dead letters, `DISCARD_CHUNK` per transaction. If it fails, some of them may
    /// already be discarded.
    pub async fn discard_many(
        &self,
        tenant: &Tenant,
        chosen: &DeadLetterSelection,
        by: &str,
        reason: &str,
    ) -> Result<ActionResult, ReplayError> {
        let act = self.build_attribution(by, reason)?;
        let chosen = self.select_dead_letters(tenant, chosen).await?;
        let ids: Vec<DeadLetterId> = chosen.iter().map(|dead_letter| dead_letter.id).collect();
        let mut answers = Vec::with_capacity(ids.len());
        for some in ids.chunks(DISCARD_CHUNK) {
            answers.extend(self.store.discard_dead_letters(tenant, some, &act).await?);
        }
        let now = answers.iter().filter(|answer| **answer == DiscardResult::Discarded).count();
        let (status, unchanged) =
            (if now > 0 { ActionStatus::Done } else { ActionStatus::AlreadyDone }, answers.len() - now);
        let detail = match unchanged {
            0 => format!("{} discarded", format_dead_letter_count(now)),
            unchanged => format!(
                "{} discarded; {} unchanged, because somebody had acted on them",
                format_dead_letter_count(now),
                unchanged
            ),
        };
        Ok(ActionResult { status, replay: None, retrospective: None, epoch: None, detail })
    }

    /// Cancels a batch, which then sends no further dead letters. Returns `None` if the tenant has no such batch.
    pub async fn cancel_batch(
        &self,
        tenant: &Tenant,
        id: ReplayBatchId,
        by: &str,
        reason: &str,
    ) -> Result<Option<(ActionStatus, ReplayBatchRow)>, ReplayError> {
        let act = self.build_attribution(by, reason)?;
        Ok(match self.store.cancel_replay_batch(tenant, id, &act).await? {
            CancelBatchResult::NotFound => None,
            CancelBatchResult::Cancelled(row) => Some((ActionStatus::Done, row)),
            CancelBatchResult::AlreadyEnded(row) => Some((ActionStatus::AlreadyDone, row)),
        })
    }
}

impl ReplayService {
    /// Redacts the results of the dead letters in a batch, because results may quote messages.
    pub fn redact_items(&self, mut items: Vec<ReplayBatchItem>) -> Vec<ReplayBatchItem> {
        items
            .iter_mut()
            .for_each(|item| item.result = item.result.as_deref().map(|result| (self.redact)(result)));
        items
    }
}

/// Describes a search in words, for the record of a batch.
fn describe_search(search: &DeadLetterSearch) -> String {
    // Destructured completely, so that a new filter cannot be forgotten here.
    let DeadLetterFilter { ids, code, consumer, workflow, since, until, status, after: _, limit: _ } =
        &search.filter;
    let label = |what: &str, value: Option<String>| value.map(|value| format!("{what} {value}"));
    let labels: Vec<String> = [
        (!ids.is_empty()).then(|| format!("{} by id", format_dead_letter_count(ids.len()))),
        label("code", code.map(|code| code.to_string())),
        label("role", consumer.clone()),
        label("workflow", workflow.as_ref().map(|name| text::single_line(name.as_str()))),
        label("since", since.map(text::format_timestamp)),
        label("until", until.map(text::format_timestamp)),
        label("text", search.text.clone()),
        label("status", status.map(|status| status.as_str().to_owned())),
    ]
    .into_iter()
    .flatten()
    .collect();
    if labels.is_empty() { "all".to_owned() } else { labels.join(", ") }
}

/// Renders the progress of a batch in one line.
pub fn render_progress(row: &ReplayBatchRow) -> String {
    let retro_core::replay::BatchProgress { waiting, under_way, handled, failed, skipped } = row.progress;
    format!(
        "{}: {handled} handled, {failed} failed again, {skipped} skipped, {under_way} under way, {waiting} waiting",
        row.state.as_str()
    )
}

/// Renders batches as a table for a terminal that is `columns` characters wide.
pub fn render_batches(rows: &[ReplayBatchRow], columns: u16) -> String {
    if rows.is_empty() {
        return "no batches\n".to_owned();
    }
    let row = |row: &ReplayBatchRow| {
        let purpose =
            format!("{} — {}", text::single_line(&row.filter_text), text::single_line(&row.act.reason));
        [
            text::format_timestamp(row.created_at),
            text::single_line(&row.act.by),
            render_progress(row),
            purpose,
            row.id.to_string(),
        ]
    };
    render_table(
        columns,
        ["requested", "by", "progress", "filter and reason", "id"],
        rows.iter().map(row).collect(),
    )
}

/// Renders one batch with its dead letters for a terminal that is `columns` characters wide.
pub fn render_batch(row: &ReplayBatchRow, of: &[ReplayBatchItem], columns: u16) -> String {
    let ended = row
        .end_reason
        .as_deref()
        .map(|reason| format!("ended      {}\n", text::single_line(reason)))
        .unwrap_or_default();
    let pace = &row.pace;
    let head = format!(
        "batch {}\n\nstate      {}\nfilter     {}\nrequested  {}\npace       at most {} dead letters a second, {} first; stops if more than {} % fail\n{ended}\n",
        row.id,
        render_progress(row),
        text::single_line(&row.filter_text),
        describe_attribution(&row.act),
        f64::from(pace.rate_milli) / 1000.0,
        pace.canary,
        f64::from(pace.failed_permille_max) / 10.0,
    );
    let line = |one: &ReplayBatchItem| {
        let result = text::single_line(one.result.as_deref().unwrap_or_default());
        [one.position.to_string(), one.state.clone(), result, one.dead_letter.to_string()]
    };
    format!(
        "{head}{}",
        render_table(columns, ["no.", "state", "result", "dead letter"], of.iter().map(line).collect())
    )
}
