//! Stores the bodies of runs in SQLite, passed as one concatenated parameter from which each row takes its
//! slice.

use retro_store::Result;

use super::dialect::{Connection, OnTable, bind_rows, rows_table};
use crate::rows::count::RunWrite;
use crate::{at, to_i64};

/// Inserts the bodies of runs.
pub(crate) async fn store_bodies(connection: &mut Connection, writes: &[RunWrite<'_>]) -> Result<()> {
    const STORE: &str = concat!(
        "INSERT INTO run_bodies (tenant, workflow, number, trajectory)
         SELECT tenant, workflow, number, substr($1, body_offset + 1, body_length) FROM ",
        rows_table!(
            "new", "$2" "tenant", "$3" "workflow", "$4" "number", "$5" "body_offset", "$6" "body_length"
        )
    );
    let mut bodies = Vec::new();
    let with_body = writes.iter().filter_map(|write| {
        let body = write.inline_body()?;
        let offset = bodies.len();
        bodies.extend_from_slice(body);
        Some((write, (offset, body.len())))
    });
    let with_body: Vec<(&RunWrite<'_>, (usize, usize))> = with_body.collect();
    if with_body.is_empty() {
        return Ok(());
    }
    let query = sqlx::query(STORE).bind(bodies);
    let query = bind_rows!(query, with_body, |(write, (offset, length))| [
        write.tenant(),
        write.workflow(),
        to_i64(write.number),
        offset,
        length,
    ]);
    let done = query.execute(connection).await.on_table("run_bodies")?;
    at("run_bodies", "a batch").check_rows_affected(done.rows_affected(), with_body.len())
}
