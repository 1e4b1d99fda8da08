//! Converts rows of `call_summaries`, and decides which summaries of a window are begun next.

use retro_core::calls::{CallSummary, SUMMARY_VERSION, StoredSummary, SummaryContent};
use retro_core::canonical::encode_hex;
use retro_core::id::WorkflowKey;
use retro_core::run::RunFacts;
use retro_store::{CompressedDocument, Result, SUMMARY_ATTEMPTS_MAX, SummaryWrite, decompress_document};

use crate::{at, to_json};

/// Row to store in `call_summaries`, without the key of its workflow.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SummaryRow {
    pub(crate) run_id: String,
    pub(crate) attempt: i64,
    pub(crate) version: i64,
    pub(crate) attempts_begun: i64,
    pub(crate) problem: Option<String>,
    /// Compressed summary in hexadecimal digits.
    pub(crate) summary_hex: Option<String>,
}

/// Compresses summaries to store. Fails if the compressor runs out of memory.
pub(crate) fn compress_summaries(summaries: &[SummaryWrite]) -> Result<Vec<SummaryRow>> {
    summaries.iter().map(compress_summary).collect()
}

fn compress_summary(write: &SummaryWrite) -> Result<SummaryRow> {
    let (version, problem, summary_hex) = match &write.content {
        // Neither database keeps a NUL here: Postgres refuses it, and SQLite ends the text at it.
        SummaryContent::Unreadable(problem) => {
            (SUMMARY_VERSION, Some(problem.replace('\0', "\u{fffd}")), None)
        }
        SummaryContent::Summary(summary) => {
            let compressed = CompressedDocument::from_document(to_json(summary).as_bytes())?.into_bytes();
            (summary.version, None, Some(encode_hex(&compressed)))
        }
    };
    Ok(SummaryRow {
        run_id: write.run.as_str().to_owned(),
        attempt: i64::from(write.attempt),
        version: i64::from(version),
        attempts_begun: 1,
        problem,
        summary_hex,
    })
}

/// Columns of a stored summary: ordinal, run id, problem and compressed summary.
pub(crate) type StoredColumns = (i64, String, Option<String>, Option<Vec<u8>>);

/// Converts a stored summary. One that is damaged is unreadable, as a body is, so it does not keep its
/// retrospective from settling.
pub(crate) fn stored_summary_from_row(
    key: &WorkflowKey,
    (ordinal, run, problem, summary): StoredColumns,
) -> Result<StoredSummary> {
    let place = at("call_summaries", format!("{key}/{run}"));
    let content = match problem {
        Some(problem) => SummaryContent::Unreadable(problem),
        None => match parse_summary(&summary.unwrap_or_default()) {
            Ok(summary) => SummaryContent::Summary(summary),
            Err(problem) => SummaryContent::Unreadable(format!("its summary cannot be read: {problem}")),
        },
    };
    Ok(StoredSummary { run: place.parse(&run)?, ordinal: place.parse_unsigned(ordinal)?, content })
}

fn parse_summary(compressed: &[u8]) -> std::result::Result<CallSummary, String> {
    serde_json::from_slice(&decompress_document(compressed)?).map_err(|error| error.to_string())
}

/// Run of a window without a current summary.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct PendingRun {
    /// Id of the run.
    pub(crate) run_id: String,
    /// Arrival number of the run.
    pub(crate) number: i64,
    /// Attempt that the run's facts come from.
    pub(crate) attempt: i64,
    /// Number of times that its summary was begun without being stored.
    pub(crate) begun: i64,
    /// Facts of the run; `None` if they were purged.
    facts: Option<String>,
    /// Body reference of the run; empty if its facts were purged.
    pub(crate) body: String,
}

/// Which summaries of a window are begun next, and which are given up.
#[derive(Debug, Default)]
pub(crate) struct NextSummaries {
    /// Runs to summarise now, with their facts.
    pub(crate) begun: Vec<(PendingRun, RunFacts)>,
    /// Rows of the runs that are never summarised, each with the reason.
    pub(crate) given_up: Vec<SummaryRow>,
}

/// Chooses from pending runs, which are sorted by ordinal. A run whose summary was begun before and not stored
/// is chosen alone, so that a body that ends the process takes no other run with it.
pub(crate) fn choose_next(pending: Vec<PendingRun>) -> NextSummaries {
    let mut next = NextSummaries::default();
    for run in pending {
        let facts = match run.parse_facts() {
            Ok(facts) => facts,
            Err(problem) => {
                next.given_up.push(run.give_up(problem));
                continue;
            }
        };
        if run.begun > 0 && !next.begun.is_empty() {
            break;
        }
        let alone = run.begun > 0;
        next.begun.push((run, facts));
        if alone {
            break;
        }
    }
    next
}

impl PendingRun {
    /// Parses the facts of the run. The error is the reason why the run cannot be summarised.
    fn parse_facts(&self) -> std::result::Result<RunFacts, String> {
        if self.begun >= i64::from(SUMMARY_ATTEMPTS_MAX) {
            return Err(format!(
                "its summary was begun {} times and never stored: reading the body ended the process, or the body was not available",
                self.begun
            ));
        }
        let facts = self.facts.as_deref().ok_or("its facts were purged")?;
        serde_json::from_str(facts).map_err(|error| format!("its facts cannot be read: {error}"))
    }

    fn give_up(self, problem: String) -> SummaryRow {
        SummaryRow { attempts_begun: self.begun, problem: Some(problem), ..self.begin() }
    }

    /// Returns the row that says that the summary of the run is begun once more.
    pub(crate) fn begin(&self) -> SummaryRow {
        SummaryRow {
            run_id: self.run_id.clone(),
            attempt: self.attempt,
            version: i64::from(SUMMARY_VERSION),
            attempts_begun: self.begun + 1,
            problem: None,
            summary_hex: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(run_id: &str, begun: i64) -> PendingRun {
        let facts = Some(format!(r#"{{"run_id":"{run_id}","outcome":"success"}}"#));
        PendingRun { run_id: run_id.to_owned(), number: 1, attempt: 1, begun, facts, body: String::new() }
    }

    fn chosen(pending: Vec<PendingRun>) -> (Vec<String>, Vec<String>) {
        let next = choose_next(pending);
        let begun = next.begun.into_iter().map(|(run, _)| run.run_id).collect();
        (begun, next.given_up.into_iter().map(|row| row.run_id).collect())
    }

    #[test]
    fn a_run_that_was_begun_before_is_chosen_alone() {
        let runs = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let (fresh, again) = (|name| pending(name, 0), |name| pending(name, 1));
        assert_eq!(chosen(vec![fresh("a"), fresh("b")]), (runs(&["a", "b"]), runs(&[])));
        assert_eq!(chosen(vec![again("a"), fresh("b")]), (runs(&["a"]), runs(&[])));
        assert_eq!(chosen(vec![fresh("a"), again("b"), fresh("c")]), (runs(&["a"]), runs(&[])));
        let last = i64::from(SUMMARY_ATTEMPTS_MAX);
        assert_eq!(chosen(vec![pending("a", last - 1), fresh("b")]), (runs(&["a"]), runs(&[])));
        assert_eq!(chosen(vec![pending("a", last), fresh("b")]), (runs(&["b"]), runs(&["a"])));
        let purged = PendingRun { facts: None, ..fresh("a") };
        let damaged = PendingRun { facts: Some("{".to_owned()), ..fresh("b") };
        assert_eq!(chosen(vec![purged, damaged]), (runs(&[]), runs(&["a", "b"])));
    }
}
