//! Stores the dead letters of replay batches, each with its state within its batch.

use retro_core::id::{DeadLetterId, ReplayBatchId, Tenant};
use retro_store::{DeadLetterStatus, Result};

use super::dialect::{Connection, OnTable, bind_rows, rows_table, storable_text};
use crate::at;

/// Stores the tenant's dead letters of a replay batch in replay order. Skips dead letters of other tenants.
pub(crate) async fn store_batch_dead_letters(
    connection: &mut Connection,
    tenant: &Tenant,
    id: ReplayBatchId,
    dead_letters: &[(DeadLetterId, DeadLetterStatus)],
) -> Result<()> {
    const CHOOSE: &str = concat!(
        "INSERT INTO replay_batch_items (batch, position, dead_letter, selected_status, state)
         SELECT $1, row_number() OVER (ORDER BY requested.place), requested.dead_letter,
             requested.selected_status, 'waiting'
         FROM ",
        rows_table!("requested", "$4" "dead_letter", "$5" "selected_status"),
        " JOIN dead_letters ON dead_letters.id = requested.dead_letter
         WHERE dead_letters.tenant = $2 OR (dead_letters.tenant IS NULL AND $2 = $3)"
    );
    let query = sqlx::query(CHOOSE)
        .bind(id.to_string())
        .bind(tenant.as_str())
        .bind(Tenant::default_tenant().as_str());
    let query = bind_rows!(query, dead_letters, |selected| [selected.0.to_string(), selected.1.as_str()]);
    query.execute(connection).await.on_table("replay_batch_items")?;
    Ok(())
}

/// Lists the first waiting dead letters of a batch, at most `dead_letters`, each with the status in which it
/// was selected.
pub(crate) async fn list_waiting(
    connection: &mut Connection,
    id: ReplayBatchId,
    dead_letters: u32,
) -> Result<Vec<(DeadLetterId, DeadLetterStatus)>> {
    const WAITING: &str = "
        SELECT dead_letter, selected_status FROM replay_batch_items
        WHERE batch = $1 AND state = 'waiting' ORDER BY position LIMIT $2";
    let rows: Vec<(String, String)> = sqlx::query_as(WAITING)
        .bind(id.to_string())
        .bind(i64::from(dead_letters))
        .fetch_all(connection)
        .await
        .on_table("replay_batch_items")?;
    let place = at("replay_batch_items", id);
    rows.iter()
        .map(|(dead_letter, chosen)| Ok((place.parse(dead_letter)?, place.parse_enum(chosen)?)))
        .collect()
}

/// Sets the state and description of a dead letter within its batch.
pub(crate) async fn set_dead_letter_state(
    connection: &mut Connection,
    batch: &str,
    dead_letter: &str,
    state: &str,
    description: &str,
) -> Result<()> {
    const TELL: &str =
        "UPDATE replay_batch_items SET state = $3, result = $4 WHERE batch = $1 AND dead_letter = $2";
    let done = sqlx::query(TELL)
        .bind(batch)
        .bind(dead_letter)
        .bind(state)
        .bind(storable_text(description))
        .execute(connection)
        .await
        .on_table("replay_batch_items")?;
    at("replay_batch_items", dead_letter).check_rows_affected(done.rows_affected(), 1)
}
