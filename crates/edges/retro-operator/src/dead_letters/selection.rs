//! Selects the dead letters that a command on many of them applies to.

use jiff::Timestamp;
use retro_core::dead_letter::DeadLetterCode;
use retro_core::id::{DeadLetterId, Tenant, Workflow};
use retro_core::replay::{
    BATCH_DEAD_LETTERS_MAX, DEFAULT_FAILED_PERMILLE_MAX, DEFAULT_RATE_MILLI, ReplayPace,
};
use retro_http::Problem;
use retro_store::{DeadLetter, DeadLetterFilter, DeadLetterStatus};
use serde::Deserialize;
use utoipa::ToSchema;

use super::search::parse_role;
use super::{DeadLetterSearch, ReplayError, ReplayService};
use crate::command::actor_name;
use crate::text;

/// Dead letters that a bulk command applies to.
#[derive(Debug, Clone, Default)]
pub struct DeadLetterSelection {
    /// Search that selects the dead letters; its limit is ignored.
    pub search: DeadLetterSearch,
    /// `true` to confirm that an empty search selects every dead letter.
    pub all: bool,
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
        if found.is_truncated() || found.dead_letters.len() > BATCH_DEAD_LETTERS_MAX as usize {
            return Err(ReplayError::TooMany);
        }
        let mut dead_letters = found.dead_letters;
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
}

/// Describes a search in words, for the record of a batch.
pub(super) fn describe_search(search: &DeadLetterSearch) -> String {
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

/// Formats a number of dead letters with its noun: `1 dead letter`, `2 dead letters`.
pub(super) fn format_dead_letter_count(count: usize) -> String {
    text::format_count(count as u64, "dead letter")
}

/// Request to replay or discard many dead letters.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(super) struct BulkRequest {
    /// Reason for the command, recorded in the audit log. A dry run needs no reason.
    #[serde(default)]
    pub(super) reason: String,
    /// Name of the operator. The name is not verified; the access token of the request is stored beside it.
    by: Option<String>,
    /// `true` to return the predicted result and change nothing.
    #[serde(default)]
    pub(super) dry_run: bool,
    /// `true` to confirm that every dead letter is selected; required if there is no filter.
    #[serde(default)]
    all: bool,
    /// Only the dead letters with these ids.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    ids: Vec<DeadLetterId>,
    /// Only dead letters whose rejection has this code.
    #[schema(value_type = Option<String>)]
    code: Option<DeadLetterCode>,
    /// Only dead letters of the consumer with this role.
    role: Option<String>,
    /// Only dead letters of this workflow.
    #[schema(value_type = Option<String>)]
    workflow: Option<Workflow>,
    /// Only messages that were dead-lettered at or after this time, in RFC 3339.
    #[schema(value_type = Option<String>)]
    since: Option<Timestamp>,
    /// Only messages that were dead-lettered before this time, in RFC 3339.
    #[schema(value_type = Option<String>)]
    until: Option<Timestamp>,
    /// Only dead letters whose redacted message contains this text, ignoring case.
    text: Option<String>,
    /// Only dead letters with this status. Default: open, or any status if `ids` are given.
    #[schema(value_type = Option<String>)]
    status: Option<DeadLetterStatus>,
    /// For replays: number of dead letters to send first. The rest is sent only if all of these succeed. Default: 0.
    canary: Option<u32>,
    /// For replays: number of dead letters to send per 1000 seconds. Default: 5000, which is 5 per second.
    rate_milli: Option<u32>,
    /// For replays: share of failed dead letters, in thousandths, above which the batch stops. Default: 200.
    failed_permille_max: Option<u32>,
}

impl BulkRequest {
    pub(super) fn selection(&self) -> Result<DeadLetterSelection, Problem> {
        let filter = DeadLetterFilter {
            ids: self.ids.clone(),
            code: self.code,
            consumer: parse_role(self.role.as_deref())?,
            workflow: self.workflow.clone(),
            since: self.since,
            until: self.until,
            status: self.status,
            ..DeadLetterFilter::default()
        };
        Ok(DeadLetterSelection {
            search: DeadLetterSearch { filter, text: self.text.clone() },
            all: self.all,
        })
    }

    pub(super) fn build_pace(&self) -> ReplayPace {
        ReplayPace {
            canary: self.canary.unwrap_or(0),
            rate_milli: self.rate_milli.unwrap_or(DEFAULT_RATE_MILLI),
            failed_permille_max: self.failed_permille_max.unwrap_or(DEFAULT_FAILED_PERMILLE_MAX),
        }
    }

    pub(super) fn by(&self) -> &str {
        actor_name(self.by.as_deref())
    }
}
