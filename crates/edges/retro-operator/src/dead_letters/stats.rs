//! Groups dead letters by cause, so a thousand dead letters from one broken emitter take one line.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use retro_core::dead_letter::grouping_key;
use retro_core::id::{DeadLetterId, Tenant, Workflow};
use retro_http::{Caller, QueryParams};
use retro_store::{
    DeadLetter, DeadLetterCount, DeadLetterFilter, DeadLetterStatus, OperatorStore, StoreError,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::DeadLetterSearch;
use super::search::DeadLettersQuery;
use crate::http::{ApiState, JsonResult, LIST_MAX};
use crate::redact::RedactFn;
use crate::text;
use crate::text_table::render_table;

/// A group of dead letters with the same cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct DeadLetterGroup {
    /// Dead-letter code shared by the group.
    pub code: &'static str,
    /// Path of the field that caused the rejection, without array indices; absent if no single field caused
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Redacted reason shared by the group, in one sentence. Quoted text is replaced by `…`, and words with
    /// digits by `#`.
    pub detail: String,
    /// Consumer that gave up on the messages, named after its role.
    pub consumer: String,
    /// Workflow from the subject; null if the subject could not be parsed.
    #[schema(value_type = Option<String>)]
    pub workflow: Option<Workflow>,
    /// Number of dead letters in the group.
    pub dead_letters: u64,
    /// Number of dead letters in the group that are still open.
    pub open: u64,
    /// Time at which the first message of the group was dead-lettered, RFC 3339.
    #[schema(value_type = String)]
    pub first_seen: Timestamp,
    /// Time at which the last message of the group was dead-lettered, RFC 3339.
    #[schema(value_type = String)]
    pub last_seen: Timestamp,
    /// Id of the newest dead letter in the group, as an example.
    #[schema(value_type = String)]
    pub example: DeadLetterId,
}

/// Dead letters grouped by cause, role and workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct DeadLetterStats {
    /// The groups, largest first.
    pub groups: Vec<DeadLetterGroup>,
    /// Number of dead letters in all groups.
    pub dead_letters: u64,
    /// `true` if not all dead letters were counted; the oldest are missing.
    pub truncated: bool,
}

impl DeadLetterSearch {
    /// Groups the matching dead letters, ignoring the filter's limit. A text search has to load and redact
    /// each dead letter, so it covers only the newest 20,000; `truncated` is `true` if there are older ones.
    pub async fn compute_stats(
        &self,
        store: &dyn OperatorStore,
        tenant: &Tenant,
        redact: RedactFn<'_>,
    ) -> Result<DeadLetterStats, StoreError> {
        if let Some(text) = self.text.as_ref().map(|text| text.to_lowercase()) {
            let mut counts = Vec::new();
            let take = |dead_letter| {
                counts.push(single_count(&dead_letter));
                ControlFlow::Continue(())
            };
            let stopped_after = self.for_each_match(&text, store, tenant, redact, take).await?;
            return Ok(DeadLetterStats::from_counts(counts, stopped_after.is_some(), redact));
        }
        let filter = DeadLetterFilter { limit: SENTENCES_MAX, ..self.filter.clone() };
        let counts = store.count_dead_letters(tenant, &filter).await?;
        // A full page may not be all of them, so the result must not claim to be complete.
        let truncated = counts.len() == SENTENCES_MAX as usize;
        Ok(DeadLetterStats::from_counts(counts, truncated, redact))
    }
}

/// Maximum number of distinct sentences loaded from the database, far more than there are causes.
const SENTENCES_MAX: u32 = 10_000;

impl DeadLetterStats {
    /// Groups counts by code, path, sentence, consumer and workflow. Each sentence is redacted before it is
    /// normalized, because normalizing could cut a secret so that the redactor would no longer recognise it.
    pub fn from_counts(
        counts: impl IntoIterator<Item = DeadLetterCount>,
        truncated: bool,
        redact: RedactFn<'_>,
    ) -> Self {
        let mut groups: BTreeMap<_, DeadLetterGroup> = BTreeMap::new();
        for count in counts {
            let group = DeadLetterGroup::from_count(count, redact);
            let key = (
                group.code,
                group.path.clone(),
                group.detail.clone(),
                group.consumer.clone(),
                group.workflow.clone(),
            );
            match groups.remove(&key) {
                Some(same) => groups.insert(key, same.merge(&group)),
                None => groups.insert(key, group),
            };
        }
        let mut groups: Vec<_> = groups.into_values().collect();
        groups.sort_by_key(|group| std::cmp::Reverse((group.dead_letters, group.last_seen)));
        let dead_letters = groups.iter().map(|group| group.dead_letters).sum();
        Self { groups, dead_letters, truncated }
    }

    /// Renders the groups as a table for a terminal that is `columns` wide.
    pub fn render_text(&self, columns: u16) -> String {
        if self.groups.is_empty() {
            return "no dead letters\n".to_owned();
        }
        let rows = render_table(
            columns,
            ["total", "open", "cause"],
            self.groups.iter().map(DeadLetterGroup::table_row).collect(),
        );
        let (dead_letters, groups) = (
            text::format_count(self.dead_letters, "dead letter"),
            text::format_count(self.groups.len() as u64, "group"),
        );
        let truncated = if self.truncated { "; older ones were not counted, filter to see them" } else { "" };
        format!("{rows}\n{dead_letters} in {groups}, each with its last one's id{truncated}\n")
    }
}

impl DeadLetterGroup {
    fn from_count(count: DeadLetterCount, redact: RedactFn<'_>) -> Self {
        let DeadLetterCount {
            rejection,
            consumer,
            workflow,
            total: dead_letters,
            open,
            first_seen,
            last_seen,
            example,
        } = count;
        Self {
            code: rejection.code.as_str(),
            path: rejection.path.map(|path| grouping_key(&redact(&path))),
            // Redact first: `grouping_key` replaces digits and quotes, which could hide a secret from the
            // redactor.
            detail: text::truncate(&grouping_key(&redact(&rejection.detail)), SENTENCE_CHARS_MAX),
            consumer,
            workflow,
            dead_letters,
            open,
            first_seen,
            last_seen,
            example,
        }
    }

    /// Merges two groups and keeps the newer example.
    fn merge(self, other: &Self) -> Self {
        let newer = if other.last_seen > self.last_seen { other.example } else { self.example };
        Self {
            dead_letters: self.dead_letters + other.dead_letters,
            open: self.open + other.open,
            first_seen: self.first_seen.min(other.first_seen),
            last_seen: self.last_seen.max(other.last_seen),
            example: newer,
            ..self
        }
    }

    /// Builds a row of only three columns, because the sentence needs most of the terminal's width. The
    /// details follow below the sentence.
    fn table_row(&self) -> [String; 3] {
        let workflow = self
            .workflow
            .as_ref()
            .map_or_else(|| "unreadable".to_owned(), |name| text::single_line(name.as_str()));
        let at =
            self.path.as_deref().map(|path| format!(" at {}", text::single_line(path))).unwrap_or_default();
        let (first, last) = (text::format_timestamp(self.first_seen), text::format_timestamp(self.last_seen));
        let what = format!(
            "{}{at}: {}\n{} · workflow {workflow}\nfirst seen {first}, last seen {last}\n{}",
            self.code,
            text::single_line(&self.detail),
            self.consumer,
            self.example,
        );
        [self.dead_letters.to_string(), self.open.to_string(), what]
    }
}

/// Maximum length of a group's sentence, in characters. Sentences of different causes differ at the
/// beginning.
const SENTENCE_CHARS_MAX: usize = 200;

/// Groups dead letters by cause, role and workflow, largest group first. Each group has the number of dead
/// letters, the number still open, the times of the first and the last one, and the id of an example.
#[utoipa::path(get, path = "/v1/dead-letters/stats", tag = "people", params(DeadLettersQuery), responses((status = 200, body = DeadLetterStats)))]
pub(super) async fn get_dead_letter_stats(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    QueryParams(query): QueryParams<DeadLettersQuery>,
) -> JsonResult<DeadLetterStats> {
    let search = query.into_search(LIST_MAX, LIST_MAX)?;
    Ok(Json(search.compute_stats(&*operator.store, &tenant, &*operator.redact).await?))
}

/// Returns a count of one for this dead letter. Text matches are counted in memory, because the database
/// cannot search redacted text.
pub(crate) fn single_count(dead_letter: &DeadLetter) -> DeadLetterCount {
    DeadLetterCount {
        rejection: dead_letter.message.rejection.clone(),
        consumer: dead_letter.message.position.consumer.clone(),
        workflow: dead_letter.message.workflow.clone(),
        total: 1,
        open: u64::from(dead_letter.status == DeadLetterStatus::Open),
        first_seen: dead_letter.created_at,
        last_seen: dead_letter.created_at,
        example: dead_letter.id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dead_letters::tests::dead_letter;
    use crate::world::at_hour;

    fn redact(text: &str) -> String {
        text.replace("hunter2", "[redacted]")
    }

    #[test]
    fn dead_letters_with_one_cause_form_one_group() {
        let of = |sentence: &str, at, workflow: &str| {
            let mut one = dead_letter(Some("default"), sentence.as_bytes());
            one.message.rejection.detail = sentence.to_owned();
            one.message.rejection.path = Some(format!("data.steps[{at}].text"));
            one.message.workflow = Some(workflow.parse().unwrap());
            one.created_at = at_hour(at);
            if at == 2 {
                one.status = DeadLetterStatus::Replayed;
            }
            (one.id, single_count(&one))
        };
        let dead_letters = [
            of("byte 17 of `hunter2` is wrong", 1, "shop"),
            of("byte 4 of `other` is wrong", 3, "shop"),
            of("byte 9 of `x` is wrong", 2, "shop"),
            of("byte 9 of `x` is wrong", 5, "release"),
            of("the hunter2 is missing", 4, "shop"),
        ];
        let newest = dead_letters[1].0;
        let stats = DeadLetterStats::from_counts(dead_letters.map(|(_, count)| count), false, &redact);
        assert_eq!((stats.groups.len(), stats.dead_letters), (3, 5));
        let first = &stats.groups[0];
        assert_eq!((first.dead_letters, first.open, first.example), (3, 2, newest));
        assert_eq!((first.first_seen, first.last_seen), (at_hour(1), at_hour(3)));
        assert_eq!(first.detail, "byte # of `…` is wrong");
        let shown = format!("{}{}", stats.render_text(200), serde_json::to_string(&stats).unwrap());
        assert!(!shown.contains("hunter2") && shown.contains("[redacted]"), "{shown}");
        insta::assert_snapshot!(stats.render_text(200));
        assert_eq!(DeadLetterStats::from_counts([], false, &redact).render_text(80), "no dead letters\n");
    }
}
