//! Records the statements that the stores execute, so that a test can ask the database how it would execute them on
//! large tables.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Mutex, Once, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

static EXECUTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Starts to record the statements of this process.
pub(crate) fn start_recording() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        // Fails if a test has a subscriber of its own, and then records nothing, which the check reports.
        let _ = tracing::subscriber::set_global_default(StatementRecorder);
    });
}

/// Returns the recorded statements of the stores, without those that control transactions or change the schema. Panics
/// if nothing at all was recorded, not even a migration.
pub(crate) fn executed_statements() -> BTreeSet<String> {
    const VERBS: [&str; 5] = ["SELECT", "INSERT", "UPDATE", "DELETE", "WITH"];
    let executed = EXECUTED.lock().unwrap_or_else(PoisonError::into_inner);
    let of_stores = |sql: &&String| VERBS.iter().any(|verb| sql.starts_with(verb));
    assert!(!executed.is_empty(), "no statement was recorded");
    executed.iter().filter(of_stores).cloned().collect()
}

/// Returns the reason why a statement may read a whole table: `/* reads all: reason */`.
pub(crate) fn reason_to_read_all(sql: &str) -> Option<&str> {
    sql.split_once("/* reads all: ")?.1.split_once(" */").map(|(reason, _)| reason)
}

/// Returns the table behind a name in a plan: the table itself, or the one that the statement calls so. `None` for the
/// results of a subquery.
pub(crate) fn table_behind<'a>(sql: &str, name: &str, tables: &'a BTreeSet<String>) -> Option<&'a str> {
    if let Some(table) = tables.get(name) {
        return Some(table);
    }
    let words: Vec<&str> =
        sql.split(|character: char| !character.is_ascii_alphanumeric() && character != '_').collect();
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    words.windows(3).find_map(|three| {
        let is_alias = three[1].eq_ignore_ascii_case("as") && three[2] == name;
        tables.get(three[0]).filter(|_| is_alias).map(String::as_str)
    })
}

struct StatementRecorder;

impl Subscriber for StatementRecorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "sqlx::query" && *metadata.level() <= Level::DEBUG
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut statement = StatementFields::default();
        event.record(&mut statement);
        let StatementFields { summary, whole } = statement;
        // A short statement is in the summary only.
        let sql = if whole.trim().is_empty() { summary } else { whole };
        EXECUTED.lock().unwrap_or_else(PoisonError::into_inner).insert(sql.trim().to_owned());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct StatementFields {
    summary: String,
    whole: String,
}

impl Visit for StatementFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "summary" => value.clone_into(&mut self.summary),
            "db.statement" => value.clone_into(&mut self.whole),
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}
