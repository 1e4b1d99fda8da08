//! Checks that SQLite finds rows of large tables by an index.

use std::collections::BTreeSet;
use std::path::Path;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Row as _, SqliteConnection};

use crate::statements::{executed_statements, reason_to_read_all, table_behind};

/// Panics if a statement that the stores of this process have executed reads a whole table without a reason.
pub(super) async fn assert_indexes_used(file: &Path) {
    let options = SqliteConnectOptions::new().filename(file).read_only(true).disable_statement_logging();
    let mut connection = options.connect().await.expect("the file of the case");
    let tables = list_tables(&mut connection).await;
    // An index over part of a table is a queue of the rows that wait: it stays short while the table grows.
    let queues = list_partial_indexes(&mut connection).await;
    let mut problems = Vec::new();
    for sql in executed_statements() {
        let plan = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}")));
        let steps = plan.fetch_all(&mut connection).await.unwrap_or_else(|error| panic!("{error}: {sql}"));
        for step in steps {
            let detail: String = step.get("detail");
            // `SCAN` reads all rows, in the order of an index or not. `SEARCH` finds rows by an index, but a tenant may
            // have nearly all of them.
            let reads_all = detail
                .strip_prefix("SCAN ")
                .or_else(|| detail.strip_prefix("SEARCH ").filter(|found| found.ends_with(" (tenant=?)")));
            let name = reads_all.and_then(|rest| rest.split(' ').next());
            let table = name.and_then(|name| table_behind(&sql, name, &tables));
            let index = detail.split_once("INDEX ").and_then(|(_, index)| index.split(' ').next());
            let is_queue = index.is_some_and(|index| queues.contains(index));
            if table.is_some() && !is_queue && reason_to_read_all(&sql).is_none() {
                problems.push(format!("{detail}, in\n{sql}"));
            }
        }
    }
    assert!(problems.is_empty(), "statements read whole tables:\n\n{}", problems.join("\n\n"));
}

async fn list_partial_indexes(connection: &mut SqliteConnection) -> BTreeSet<String> {
    const PARTIAL: &str = "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql LIKE '% WHERE %'";
    let names: Vec<String> = sqlx::query_scalar(PARTIAL).fetch_all(connection).await.expect("the schema");
    names.into_iter().collect()
}

async fn list_tables(connection: &mut SqliteConnection) -> BTreeSet<String> {
    const TABLES: &str = "SELECT name FROM sqlite_schema WHERE type = 'table'";
    let names: Vec<String> = sqlx::query_scalar(TABLES).fetch_all(connection).await.expect("the schema");
    names.into_iter().filter(|name| !super::super::SMALL_TABLES.contains(&name.as_str())).collect()
}
