//! Stores the pending messages of the broker's streams, and finds those that were handled.

use retro_store::Result;
use retro_store::broker::WaitingMessage;

use super::count::seen_events;
use super::dialect::{Connection, OnTable, bind_rows, rows_table};
use crate::rows::broker::InboxCheck;
use crate::{to_i64, to_json};

/// Stores pending messages of a stream unless the stream has ended or is suspected to have been replaced.
pub(crate) async fn store_pending(
    connection: &mut Connection,
    stream: &str,
    number: u64,
    waiting: &[(u64, WaitingMessage)],
) -> Result<()> {
    const NAME: &str = concat!(
        "INSERT INTO stream_pending (stream, incarnation, sequence, message)
         SELECT $1, $2, sequence, message FROM ",
        rows_table!("new", "$3" "sequence", "$4" "message"),
        " WHERE EXISTS (
             SELECT 1 FROM streams WHERE stream = $1 AND incarnation = $2 AND ended_ms IS NULL AND suspected_ms IS NULL)
         ON CONFLICT (stream, incarnation, sequence) DO NOTHING"
    );
    let query = sqlx::query(NAME).bind(stream).bind(to_i64(number));
    let query = bind_rows!(query, waiting, |pending| [to_i64(pending.0), to_json(&pending.1)]);
    query.execute(connection).await.on_table("stream_pending")?;
    Ok(())
}

/// Returns `true` for each message whose event was handled by all of its consumers, in input order.
pub(crate) async fn handled_events<'a>(
    connection: &mut Connection,
    messages: impl Iterator<Item = &'a WaitingMessage>,
) -> Result<Vec<bool>> {
    let mut inbox_check = InboxCheck::new(messages);
    for reader in inbox_check.distinct_readers() {
        let seen = seen_events(connection, reader, &inbox_check.events_read_by(reader)).await?;
        inbox_check.record_found(reader, seen.into_iter().map(|(place, _)| place))?;
    }
    Ok(inbox_check.into_handled())
}
