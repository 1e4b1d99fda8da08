//! Checks the broker's streams for replacement and losses. Each check locks the stream's row, so concurrent
//! checks are evaluated one after the other.

use std::collections::BTreeSet;

use retro_core::stream::{KnownStream, StreamObservation, StreamVerdict, judge_observation};
use retro_fault::Label;
use retro_store::Result;
use retro_store::broker::{Loss, RepublishScope, StreamCheck, StreamReplacement, WaitingMessage};

use super::dialect::{Connection, OnTable, Store, for_update, now_ms};
use super::losses::store_losses;
use super::open::commit;
use super::outbox::republish_messages;
use super::stream_pending::{handled_events, store_pending};
use crate::rows::broker::{StreamRecord, StreamRow, compute_losses, waiting_from_row};
use crate::{at, to_i64};

macro_rules! last_stream {
    () => {
        "SELECT stream, incarnation, created_at, first_sequence, last_sequence, last_stored_at, ack_floor,
             suspected_ms, first_seen_ms, last_seen_ms
         FROM streams WHERE stream = $1 AND ended_ms IS NULL ORDER BY incarnation DESC LIMIT 1"
    };
}

/// Returns the stored state of the current stream of this name.
pub(crate) async fn load_known(connection: &mut Connection, stream: &str) -> Result<Option<KnownStream>> {
    let row: Option<StreamRecord> =
        sqlx::query_as(last_stream!()).bind(stream).fetch_optional(connection).await.on_table("streams")?;
    Ok(row.map(StreamRecord::into_stream_row).transpose()?.map(|row| row.known))
}

/// Evaluates an observation of a stream and stores the result in one transaction.
pub(crate) async fn record_observation(
    store: &Store,
    observation: &StreamObservation,
    held: &[(u64, WaitingMessage)],
    scope: RepublishScope,
) -> Result<StreamCheck> {
    const LAST_LOCKED: &str = concat!(last_stream!(), for_update!());
    let mut transaction = store.begin_write().await?;
    let row: Option<StreamRecord> = sqlx::query_as(LAST_LOCKED)
        .bind(&observation.stream)
        .fetch_optional(&mut *transaction)
        .await
        .on_table("streams")?;
    let row = row.map(StreamRecord::into_stream_row).transpose()?;
    let verdict = judge_observation(row.as_ref().map(|row| &row.known), observation);
    let check = match (verdict, row) {
        (StreamVerdict::FirstSeen, _) => {
            // There is no row to lock yet, so two processes may see the stream for the first time
            // concurrently. Only one insert succeeds; the other observation is stale.
            if insert_stream(&mut transaction, &observation.to_known_stream(1), &observation.stream).await? {
                StreamCheck::Recognized { number: 1, named_up_to: 0, lost: Vec::new() }
            } else {
                StreamCheck::Stale
            }
        }
        (StreamVerdict::Recognized, Some(row)) => {
            recognize_stream(&mut transaction, &row, observation).await?
        }
        (StreamVerdict::Suspected, Some(row)) => {
            suspect_stream(&mut transaction, &row, &observation.stream).await?;
            StreamCheck::Suspected
        }
        (StreamVerdict::Replaced, Some(row)) => {
            replace_stream(&mut transaction, &row, (observation, held), scope).await?
        }
        (StreamVerdict::Stale, _) | (_, None) => StreamCheck::Stale,
    };
    commit(transaction, Label::StreamCheckCommit).await?;
    Ok(check)
}

/// Inserts a stream. Returns `false` if another process has just inserted it.
async fn insert_stream(connection: &mut Connection, known: &KnownStream, stream: &str) -> Result<bool> {
    const BEGIN: &str = concat!(
        "INSERT INTO streams (stream, incarnation, created_at, first_sequence, last_sequence, last_stored_at,
             ack_floor, reconciled_to, reconciled_ms, republished_messages, first_seen_ms, last_seen_ms)
         VALUES ($1, $2, $3, $4, $5, $6, $7, 0, 0, 0, ",
        now_ms!(),
        ", ",
        now_ms!(),
        ") ON CONFLICT (stream, incarnation) DO NOTHING"
    );
    let done = sqlx::query(BEGIN)
        .bind(stream)
        .bind(to_i64(known.number))
        .bind(&known.created)
        .bind(to_i64(known.first))
        .bind(to_i64(known.seen_to))
        .bind(&known.anchor)
        .bind(to_i64(known.handled_to))
        .execute(connection)
        .await
        .on_table("streams")?;
    Ok(done.rows_affected() == 1)
}

/// Updates a recognized stream, and records the messages that have disappeared from it as lost.
async fn recognize_stream(
    connection: &mut Connection,
    row: &StreamRow,
    observation: &StreamObservation,
) -> Result<StreamCheck> {
    const SEE: &str = concat!(
        "UPDATE streams SET first_sequence = $3, last_sequence = $4, last_stored_at = $5, ack_floor = $6,
             suspected_ms = NULL, last_seen_ms = ",
        now_ms!(),
        " WHERE stream = $1 AND incarnation = $2"
    );
    // A message below the first position stays pending until a second check finds it missing, regardless of
    // the consumers' acknowledgements: purging a stream advances these too.
    const FORGET: &str = "
        DELETE FROM stream_pending WHERE stream = $1 AND incarnation = $2
            AND (sequence < $3 OR (sequence <= $4 AND sequence >= $5))";
    const NAMED: &str =
        "SELECT coalesce(max(sequence), 0) FROM stream_pending WHERE stream = $1 AND incarnation = $2";
    let (stream, number) = (&observation.stream, to_i64(row.known.number));
    let gone = load_gone(connection, row, observation).await?;
    store_losses(connection, &gone).await?;
    let known = row.known.advance(observation);
    sqlx::query(SEE)
        .bind(stream)
        .bind(number)
        .bind(to_i64(known.first))
        .bind(to_i64(known.seen_to))
        .bind(&known.anchor)
        .bind(to_i64(known.handled_to))
        .execute(&mut *connection)
        .await
        .on_table("streams")?;
    sqlx::query(FORGET)
        .bind(stream)
        .bind(number)
        .bind(to_i64(observation.gone_below()))
        .bind(to_i64(observation.handled))
        .bind(to_i64(observation.first))
        .execute(&mut *connection)
        .await
        .on_table("stream_pending")?;
    let named: i64 = sqlx::query_scalar(NAMED)
        .bind(stream)
        .bind(number)
        .fetch_one(connection)
        .await
        .on_table("stream_pending")?;
    let named_to = at("stream_pending.sequence", named).parse_unsigned(named)?;
    Ok(StreamCheck::Recognized { number: row.known.number, named_up_to: named_to, lost: gone })
}

/// Marks a stream as possibly replaced; the next check confirms or refutes this.
async fn suspect_stream(connection: &mut Connection, row: &StreamRow, stream: &str) -> Result<()> {
    const SUSPECT: &str =
        concat!("UPDATE streams SET suspected_ms = ", now_ms!(), " WHERE stream = $1 AND incarnation = $2");
    let done = sqlx::query(SUSPECT).bind(stream).bind(to_i64(row.known.number)).execute(connection);
    done.await.on_table("streams")?;
    Ok(())
}

/// Ends the known stream, inserts its successor and records the losses.
async fn replace_stream(
    connection: &mut Connection,
    row: &StreamRow,
    (observation, held): (&StreamObservation, &[(u64, WaitingMessage)]),
    scope: RepublishScope,
) -> Result<StreamCheck> {
    const END: &str =
        concat!("UPDATE streams SET ended_ms = ", now_ms!(), " WHERE stream = $1 AND incarnation = $2");
    const FED: &str = "UPDATE streams SET republished_messages = $3 WHERE stream = $1 AND incarnation = $2";
    const FORGET: [&str; 3] = [
        "DELETE FROM stream_pending WHERE stream = $1",
        "DELETE /* reads all: redelivered messages only */ FROM attempts WHERE stream = $1",
        "DELETE FROM attempt_history WHERE stream = $1 AND dead_letter IS NULL",
    ];
    let (stream, next) = (&observation.stream, observation.to_known_stream(row.known.number + 1));
    // Stale unless this process inserted the successor, so losses are stored and messages republished only
    // once.
    if !insert_stream(connection, &next, stream).await? {
        return Ok(StreamCheck::Stale);
    }
    let lost = load_lost(connection, row, stream, held).await?;
    let ended = sqlx::query(END).bind(stream).bind(to_i64(row.known.number)).execute(&mut *connection);
    ended.await.on_table("streams")?;
    // Positions restart in the new stream, where the old attempts would count against other messages.
    for forget in FORGET {
        sqlx::query(forget).bind(stream).execute(&mut *connection).await.on_table("attempts")?;
    }
    store_losses(connection, &lost).await?;
    store_pending(connection, stream, next.number, held).await?;
    let fed_again = republish_messages(connection, scope).await?;
    let fed = sqlx::query(FED).bind(stream).bind(to_i64(next.number)).bind(to_i64(fed_again));
    fed.execute(connection).await.on_table("streams")?;
    let (before, last_seen) = (row.known.created.clone(), row.last_seen);
    Ok(StreamCheck::Replaced {
        number: next.number,
        replacement: StreamReplacement {
            previous_created_at: before,
            last_seen,
            republished: fed_again,
            lost,
        },
    })
}

/// Loads the unhandled pending messages below the first position of both this check and the previous one.
async fn load_gone(
    connection: &mut Connection,
    row: &StreamRow,
    observation: &StreamObservation,
) -> Result<Vec<Loss>> {
    const GONE: &str = "
        SELECT sequence, message FROM stream_pending
        WHERE stream = $1 AND incarnation = $2 AND sequence < $3 ORDER BY sequence";
    let rows: Vec<(i64, String)> = sqlx::query_as(GONE)
        .bind(&observation.stream)
        .bind(to_i64(row.known.number))
        .bind(to_i64(observation.gone_below()))
        .fetch_all(&mut *connection)
        .await
        .on_table("stream_pending")?;
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let named = rows.iter().map(waiting_from_row).collect::<Result<Vec<_>>>()?;
    let handled = find_handled(connection, row, &observation.stream, &named).await?;
    let gone = named.into_iter().filter(|(position, _)| !handled.contains(position));
    let stream = &observation.stream;
    Ok(gone.map(|(position, message)| row.build_loss(stream, position..=position, Some(message))).collect())
}

/// Loads the losses of a replaced stream. A message that the new stream contains, for example because it was
/// restored from a backup, is not lost.
async fn load_lost(
    connection: &mut Connection,
    row: &StreamRow,
    stream: &str,
    held: &[(u64, WaitingMessage)],
) -> Result<Vec<Loss>> {
    const WAITING: &str = "SELECT sequence, message FROM stream_pending WHERE stream = $1 AND incarnation = $2 ORDER BY sequence";
    let rows: Vec<(i64, String)> = sqlx::query_as(WAITING)
        .bind(stream)
        .bind(to_i64(row.known.number))
        .fetch_all(&mut *connection)
        .await
        .on_table("stream_pending")?;
    let named = rows.iter().map(waiting_from_row).collect::<Result<Vec<_>>>()?;
    let mut accounted = find_handled(connection, row, stream, &named).await?;
    // Compare events rather than positions, because the new stream numbers its messages from 1 again.
    let held: BTreeSet<_> = held.iter().filter_map(|(_, message)| message.event.as_ref()).collect();
    let is_held = |message: &WaitingMessage| message.event.as_ref().is_some_and(|event| held.contains(event));
    accounted.extend(named.iter().filter(|(_, message)| is_held(message)).map(|(position, _)| *position));
    Ok(compute_losses(stream, row, named, &accounted))
}

/// Returns the positions of a stream that are accounted for: pending messages whose event was handled, and
/// messages that any consumer dead-lettered. A dead letter contains the complete message, and its replay
/// reaches every consumer of the stream.
async fn find_handled(
    connection: &mut Connection,
    row: &StreamRow,
    stream: &str,
    named: &[(u64, WaitingMessage)],
) -> Result<Vec<u64>> {
    const GIVEN_UP: &str = "
        SELECT DISTINCT sequence FROM dead_letters WHERE stream = $1 AND created_ms >= $2 AND sequence > $3";
    let first = named.first().map_or(row.known.handled_to, |(first, _)| first - 1);
    let given_up: Vec<i64> = sqlx::query_scalar(GIVEN_UP)
        .bind(stream)
        // Dead letters from before the first check belong to earlier streams, which had other messages at
        // these positions.
        .bind(row.found_ms)
        .bind(to_i64(first.min(row.known.handled_to)))
        .fetch_all(&mut *connection)
        .await
        .on_table("dead_letters")?;
    let known = handled_events(connection, named.iter().map(|(_, message)| message)).await?;
    let mut handled: Vec<u64> =
        named.iter().zip(known).filter_map(|((position, _), known)| known.then_some(*position)).collect();
    for position in given_up {
        handled.push(at("dead_letters.sequence", position).parse_unsigned(position)?);
    }
    Ok(handled)
}
