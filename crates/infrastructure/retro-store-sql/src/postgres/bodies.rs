//! Stores the bodies of runs in Postgres, passed as an array.

use retro_store::Result;

use super::dialect::{Connection, OnTable, bind_rows, rows_table};
use crate::rows::count::RunWrite;
use crate::{at, to_i64};

/// Inserts the bodies of runs.
pub(crate) async fn store_bodies(connection: &mut Connection, writes: &[RunWrite<'_>]) -> Result<()> {
    const STORE: &str = concat!(
        "INSERT INTO run_bodies (tenant, workflow, number, trajectory)
         SELECT tenant, workflow, number, trajectory FROM ",
        rows_table!("new", "$1" "tenant", "$2" "workflow", "$3" "number", "$4" "trajectory")
    );
    let with_body = writes.iter().filter_map(|write| Some((write, write.inline_body()?)));
    let with_body: Vec<(&RunWrite<'_>, &[u8])> = with_body.collect();
    if with_body.is_empty() {
        return Ok(());
    }
    let query = bind_rows!(sqlx::query(STORE), with_body, |one| [
        one.0.tenant(),
        one.0.workflow(),
        to_i64(one.0.number),
        one.1,
    ]);
    let done = query.execute(connection).await.on_table("run_bodies")?;
    at("run_bodies", "a batch").check_rows_affected(done.rows_affected(), with_body.len())
}
