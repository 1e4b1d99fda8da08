//! Stores, lists and closes losses of the broker's streams.

use retro_core::attribution::Attribution;
use retro_fault::Label;
use retro_store::Result;
use retro_store::broker::{ClosedLoss, Loss, LossKey};

use super::dialect::{Connection, OnTable, Store, bind_rows, rows_table, storable_text};
use super::open::commit;
use super::stream_pending::handled_events;
use crate::rows::broker::{ClosedLossRecord, LossRecord};
use crate::{format_policy_time, to_i64, to_json};

/// Stores losses. Does not change losses that are already stored.
pub(crate) async fn store_losses(connection: &mut Connection, lost: &[Loss]) -> Result<()> {
    const STORE: &str = concat!(
        "INSERT INTO stream_losses (stream, incarnation, first_sequence, last_sequence, message)
         SELECT stream, incarnation, first_sequence, last_sequence, message FROM ",
        rows_table!(
            "new", "$1" "stream", "$2" "incarnation", "$3" "first_sequence", "$4" "last_sequence", "$5" "message"
        ),
        " WHERE true ON CONFLICT (stream, incarnation, first_sequence) DO NOTHING"
    );
    if lost.is_empty() {
        return Ok(());
    }
    let query = bind_rows!(sqlx::query(STORE), lost, |loss| [
        loss.stream.as_str(),
        to_i64(loss.incarnation),
        to_i64(*loss.positions.start()),
        to_i64(*loss.positions.end()),
        loss.message.as_ref().map(to_json),
    ]);
    query.execute(connection).await.on_table("stream_losses")?;
    Ok(())
}

/// Returns the losses that are neither closed nor handled since.
pub(crate) async fn load_open_losses(connection: &mut Connection) -> Result<Vec<Loss>> {
    const LOAD: &str = "
        SELECT stream, incarnation, first_sequence, last_sequence, message FROM stream_losses
        WHERE closed_by IS NULL ORDER BY stream, incarnation, first_sequence";
    let rows: Vec<LossRecord> =
        sqlx::query_as(LOAD).fetch_all(&mut *connection).await.on_table("stream_losses")?;
    let all = rows.into_iter().map(LossRecord::into_loss).collect::<Result<Vec<Loss>>>()?;
    let (unnamed, named): (Vec<Loss>, Vec<Loss>) = all.into_iter().partition(|loss| loss.message.is_none());
    // A lost event may be handled after all, for example because its emitter sent it again.
    let since = handled_events(connection, named.iter().filter_map(|loss| loss.message.as_ref())).await?;
    let mut left: Vec<Loss> =
        named.into_iter().zip(since).filter_map(|(loss, handled)| (!handled).then_some(loss)).collect();
    left.extend(unnamed);
    left.sort_by_key(Loss::key);
    Ok(left)
}

/// Returns the losses closed by an operator.
pub(crate) async fn load_closed_losses(connection: &mut Connection) -> Result<Vec<ClosedLoss>> {
    const LOAD: &str = "
        SELECT stream, incarnation, first_sequence, last_sequence, message, closed_by, closed_reason, closed_at
        FROM stream_losses WHERE closed_by IS NOT NULL ORDER BY stream, incarnation, first_sequence";
    let rows: Vec<ClosedLossRecord> =
        sqlx::query_as(LOAD).fetch_all(connection).await.on_table("stream_losses")?;
    rows.into_iter().map(ClosedLossRecord::into_closed_loss).collect()
}

/// Closes those of the given losses that are open. Returns the keys of the losses that this call closed.
pub(crate) async fn close_losses(
    store: &Store,
    losses: &[LossKey],
    act: &Attribution,
) -> Result<Vec<LossKey>> {
    const CLOSE: &str = "
        UPDATE stream_losses SET closed_by = $4, closed_reason = $5, closed_at = $6
        WHERE stream = $1 AND incarnation = $2 AND first_sequence = $3 AND closed_by IS NULL";
    let mut transaction = store.begin_write().await?;
    let mut closed = Vec::new();
    for loss in losses {
        let done = sqlx::query(CLOSE)
            .bind(&loss.stream)
            .bind(to_i64(loss.incarnation))
            .bind(to_i64(loss.first))
            .bind(storable_text(&act.by))
            .bind(storable_text(&act.reason))
            .bind(format_policy_time(act.at))
            .execute(&mut *transaction)
            .await
            .on_table("stream_losses")?;
        // A loss that was already closed keeps its first attribution and is not reported.
        if done.rows_affected() == 1 {
            closed.push(loss.clone());
        }
    }
    commit(transaction, Label::CloseLossesCommit).await?;
    Ok(closed)
}
