//! Checks of the broker's streams. The stream's row is locked, so that checks are evaluated one after the other.

use std::collections::BTreeSet;

use retro_core::stream::{KnownStream, StreamObservation, StreamVerdict, judge_observation};
use retro_fault::Label;
use retro_store::Result;
use retro_store::broker::{Loss, RepublishScope, StreamCheck, StreamReplacement, WaitingMessage};
use retro_store_sql::broker::{StreamRecord, StreamRow, compute_losses, waiting_from_row};
use retro_store_sql::{at, to_i64};

use crate::broker::{handled_events, republish_messages, store_losses, store_pending};
use crate::dialect::{Connection, OnTable, Store, for_update, now_ms};
use crate::open::commit;

macro_rules! last_stream {
    () => {
        "SELECT stream, number, made, first, seen_to, anchor, handled_to, suspected_ms, found_ms, seen_ms FROM streams
         WHERE stream = $1 AND ended_ms IS NULL ORDER BY number DESC LIMIT 1"
    };
}

/// Returns the stored state of the latest stream of this name.
pub(crate) async fn load_known(connection: &mut Connection, stream: &str) -> Result<Option<KnownStream>> {
    let row: Option<StreamRecord> =
        sqlx::query_as(last_stream!()).bind(stream).fetch_optional(connection).await.on_table("streams")?;
    Ok(row.map(StreamRecord::into_stream_row).transpose()?.map(|row| row.known))
}

/// Evaluates an observation of a stream and stores the result, in one transaction.
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
            // Two processes may see the stream for the first time concurrently. The insert lets one of them
            // win; the other's observation is stale.
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
    commit(transaction, Label::LookCommit).await?;
    Ok(check)
}

/// Inserts a stream. Returns false when another process has just inserted it.
async fn insert_stream(connection: &mut Connection, known: &KnownStream, stream: &str) -> Result<bool> {
    const BEGIN: &str = concat!(
        "INSERT INTO streams (stream, number, made, first, seen_to, anchor, handled_to, checked_to, compared_ms,
             fed_again, found_ms, seen_ms)
         VALUES ($1, $2, $3, $4, $5, $6, $7, 0, 0, 0, ",
        now_ms!(),
        ", ",
        now_ms!(),
        ") ON CONFLICT (stream, number) DO NOTHING"
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

/// Updates a stream that was recognized, and records messages that have disappeared from it.
async fn recognize_stream(
    connection: &mut Connection,
    row: &StreamRow,
    observation: &StreamObservation,
) -> Result<StreamCheck> {
    const SEE: &str = concat!(
        "UPDATE streams SET first = $3, seen_to = $4, anchor = $5, handled_to = $6, suspected_ms = NULL, seen_ms = ",
        now_ms!(),
        " WHERE stream = $1 AND number = $2"
    );
    // A message below the first position stays pending until a second check finds it missing, regardless of
    // what the consumers report: purging a stream moves their acknowledgements too.
    const FORGET: &str = "
        DELETE FROM waiting WHERE stream = $1 AND number = $2
            AND (sequence < $3 OR (sequence <= $4 AND sequence >= $5))";
    const NAMED: &str = "SELECT coalesce(max(sequence), 0) FROM waiting WHERE stream = $1 AND number = $2";
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
        .on_table("waiting")?;
    let named: i64 = sqlx::query_scalar(NAMED)
        .bind(stream)
        .bind(number)
        .fetch_one(connection)
        .await
        .on_table("waiting")?;
    let named_to = at("waiting.sequence", named).parse_unsigned(named)?;
    Ok(StreamCheck::Recognized { number: row.known.number, named_up_to: named_to, lost: gone })
}

/// Marks a stream as suspected of having been replaced.
async fn suspect_stream(connection: &mut Connection, row: &StreamRow, stream: &str) -> Result<()> {
    const SUSPECT: &str =
        concat!("UPDATE streams SET suspected_ms = ", now_ms!(), " WHERE stream = $1 AND number = $2");
    let done = sqlx::query(SUSPECT).bind(stream).bind(to_i64(row.known.number)).execute(connection);
    done.await.on_table("streams")?;
    Ok(())
}

/// Ends the known stream, inserts its successor, and records the losses.
async fn replace_stream(
    connection: &mut Connection,
    row: &StreamRow,
    (observation, held): (&StreamObservation, &[(u64, WaitingMessage)]),
    scope: RepublishScope,
) -> Result<StreamCheck> {
    const END: &str =
        concat!("UPDATE streams SET ended_ms = ", now_ms!(), " WHERE stream = $1 AND number = $2");
    const FED: &str = "UPDATE streams SET fed_again = $3 WHERE stream = $1 AND number = $2";
    const FORGET: [&str; 3] = [
        "DELETE FROM waiting WHERE stream = $1",
        "DELETE FROM attempts WHERE stream = $1",
        "DELETE FROM attempt_history WHERE stream = $1 AND letter IS NULL",
    ];
    let (stream, next) = (&observation.stream, observation.to_known_stream(row.known.number + 1));
    if !insert_stream(connection, &next, stream).await? {
        return Ok(StreamCheck::Stale);
    }
    let lost = load_lost(connection, row, stream, held).await?;
    let ended = sqlx::query(END).bind(stream).bind(to_i64(row.known.number)).execute(&mut *connection);
    ended.await.on_table("streams")?;
    // Positions start over in the new stream: old attempts would count against other messages.
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

/// Loads the pending messages below the first position of this check and of the one before that were not handled.
async fn load_gone(
    connection: &mut Connection,
    row: &StreamRow,
    observation: &StreamObservation,
) -> Result<Vec<Loss>> {
    const GONE: &str = "
        SELECT sequence, message FROM waiting WHERE stream = $1 AND number = $2 AND sequence < $3 ORDER BY sequence";
    let rows: Vec<(i64, String)> = sqlx::query_as(GONE)
        .bind(&observation.stream)
        .bind(to_i64(row.known.number))
        .bind(to_i64(observation.gone_below()))
        .fetch_all(&mut *connection)
        .await
        .on_table("waiting")?;
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let named = rows.iter().map(waiting_from_row).collect::<Result<Vec<_>>>()?;
    let handled = find_handled(connection, row, &observation.stream, &named).await?;
    let gone = named.into_iter().filter(|(position, _)| !handled.contains(position));
    let stream = &observation.stream;
    Ok(gone.map(|(position, message)| row.build_loss(stream, position..=position, Some(message))).collect())
}

/// Loads the losses of a replaced stream. Messages in the new stream, which may be an older copy, are not
/// lost.
async fn load_lost(
    connection: &mut Connection,
    row: &StreamRow,
    stream: &str,
    held: &[(u64, WaitingMessage)],
) -> Result<Vec<Loss>> {
    const WAITING: &str =
        "SELECT sequence, message FROM waiting WHERE stream = $1 AND number = $2 ORDER BY sequence";
    let rows: Vec<(i64, String)> = sqlx::query_as(WAITING)
        .bind(stream)
        .bind(to_i64(row.known.number))
        .fetch_all(&mut *connection)
        .await
        .on_table("waiting")?;
    let named = rows.iter().map(waiting_from_row).collect::<Result<Vec<_>>>()?;
    let mut accounted = find_handled(connection, row, stream, &named).await?;
    let held: BTreeSet<_> = held.iter().filter_map(|(_, message)| message.event.as_ref()).collect();
    let is_held = |message: &WaitingMessage| message.event.as_ref().is_some_and(|event| held.contains(event));
    accounted.extend(named.iter().filter(|(_, message)| is_held(message)).map(|(position, _)| *position));
    Ok(compute_losses(stream, row, named, &accounted))
}

/// Returns the positions of a stream that are accounted for: pending messages whose event was handled, and messages
/// that any consumer dead-lettered. A dead letter holds the complete message, and a replay reaches every consumer of
/// the stream.
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
