//! What a look at a stream of the broker leaves. The stream's row is locked, so that looks are judged one after the other.

use std::collections::BTreeSet;

use retro_core::stream::{KnownStream, SightVerdict, StreamSight, judge_sight};
use retro_fault::Label;
use retro_store::Result;
use retro_store::broker::{Anew, Feed, Look, Loss, WaitingMessage};
use retro_store_sql::broker::{StreamRecord, StreamRow, losses, waiting};
use retro_store_sql::{at, integer};

use crate::broker::{feed_again, handled_events, store, store_names};
use crate::dialect::{Connection, OnTable, Store, for_update, now_ms};
use crate::open::commit;

macro_rules! last_stream {
    () => {
        "SELECT stream, number, made, first, seen_to, anchor, handled_to, suspected_ms, found_ms, seen_ms FROM streams
         WHERE stream = $1 AND ended_ms IS NULL ORDER BY number DESC LIMIT 1"
    };
}

/// Returns what is remembered of the last stream of a name.
pub(crate) async fn load_known(connection: &mut Connection, stream: &str) -> Result<Option<KnownStream>> {
    let row: Option<StreamRecord> =
        sqlx::query_as(last_stream!()).bind(stream).fetch_optional(connection).await.on("streams")?;
    Ok(row.map(StreamRecord::read).transpose()?.map(|row| row.known))
}

/// Judges a sight and stores what follows from it, in one transaction.
pub(crate) async fn record_sight(
    store: &Store,
    sight: &StreamSight,
    held: &[(u64, WaitingMessage)],
    feed: Feed,
) -> Result<Look> {
    const LAST_LOCKED: &str = concat!(last_stream!(), for_update!());
    let mut transaction = store.write().await?;
    let row: Option<StreamRecord> = sqlx::query_as(LAST_LOCKED)
        .bind(&sight.stream)
        .fetch_optional(&mut *transaction)
        .await
        .on("streams")?;
    let row = row.map(StreamRecord::read).transpose()?;
    let verdict = judge_sight(row.as_ref().map(|row| &row.known), sight);
    let look = match (verdict, row) {
        (SightVerdict::Begin, _) => {
            // Two processes that see it for the first time do not lock each other out: the second one's sight is stale.
            if insert_stream(&mut transaction, &sight.begin(1), &sight.stream).await? {
                Look::Recognized { number: 1, named_to: 0, gone: Vec::new() }
            } else {
                Look::Stale
            }
        }
        (SightVerdict::Recognized, Some(row)) => recognize_stream(&mut transaction, &row, sight).await?,
        (SightVerdict::Suspected, Some(row)) => {
            suspect_stream(&mut transaction, &row, &sight.stream).await?;
            Look::Suspected
        }
        (SightVerdict::Replaced, Some(row)) => {
            replace_stream(&mut transaction, &row, (sight, held), feed).await?
        }
        (SightVerdict::Stale, _) | (_, None) => Look::Stale,
    };
    commit(transaction, Label::LookCommit).await?;
    Ok(look)
}

/// Returns false when another process has just done so.
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
        .bind(integer(known.number))
        .bind(&known.made)
        .bind(integer(known.first))
        .bind(integer(known.seen_to))
        .bind(&known.anchor)
        .bind(integer(known.handled_to))
        .execute(connection)
        .await
        .on("streams")?;
    Ok(done.rows_affected() == 1)
}

/// The known stream was seen again.
async fn recognize_stream(connection: &mut Connection, row: &StreamRow, sight: &StreamSight) -> Result<Look> {
    const SEE: &str = concat!(
        "UPDATE streams SET first = $3, seen_to = $4, anchor = $5, handled_to = $6, suspected_ms = NULL, seen_ms = ",
        now_ms!(),
        " WHERE stream = $1 AND number = $2"
    );
    // A name below the first position stays until a second look finds it missing, whatever the consumers say: purging moves
    // their acknowledgements, too.
    const FORGET: &str = "
        DELETE FROM waiting WHERE stream = $1 AND number = $2
            AND (sequence < $3 OR (sequence <= $4 AND sequence >= $5))";
    const NAMED: &str = "SELECT coalesce(max(sequence), 0) FROM waiting WHERE stream = $1 AND number = $2";
    let (stream, number) = (&sight.stream, integer(row.known.number));
    let gone = load_gone(connection, row, sight).await?;
    store(connection, &gone).await?;
    let known = row.known.advance(sight);
    sqlx::query(SEE)
        .bind(stream)
        .bind(number)
        .bind(integer(known.first))
        .bind(integer(known.seen_to))
        .bind(&known.anchor)
        .bind(integer(known.handled_to))
        .execute(&mut *connection)
        .await
        .on("streams")?;
    sqlx::query(FORGET)
        .bind(stream)
        .bind(number)
        .bind(integer(sight.gone_below()))
        .bind(integer(sight.handled))
        .bind(integer(sight.first))
        .execute(&mut *connection)
        .await
        .on("waiting")?;
    let named: i64 =
        sqlx::query_scalar(NAMED).bind(stream).bind(number).fetch_one(connection).await.on("waiting")?;
    let named_to = at("waiting.sequence", named).unsigned(named)?;
    Ok(Look::Recognized { number: row.known.number, named_to, gone })
}

/// Another stream seems to stand in its place.
async fn suspect_stream(connection: &mut Connection, row: &StreamRow, stream: &str) -> Result<()> {
    const SUSPECT: &str =
        concat!("UPDATE streams SET suspected_ms = ", now_ms!(), " WHERE stream = $1 AND number = $2");
    let done = sqlx::query(SUSPECT).bind(stream).bind(integer(row.known.number)).execute(connection);
    done.await.on("streams")?;
    Ok(())
}

/// The known stream has ended, and another one stands in its place.
async fn replace_stream(
    connection: &mut Connection,
    row: &StreamRow,
    (sight, held): (&StreamSight, &[(u64, WaitingMessage)]),
    feed: Feed,
) -> Result<Look> {
    const END: &str =
        concat!("UPDATE streams SET ended_ms = ", now_ms!(), " WHERE stream = $1 AND number = $2");
    const FED: &str = "UPDATE streams SET fed_again = $3 WHERE stream = $1 AND number = $2";
    const FORGET: [&str; 3] = [
        "DELETE FROM waiting WHERE stream = $1",
        "DELETE FROM attempts WHERE stream = $1",
        "DELETE FROM attempt_history WHERE stream = $1 AND letter IS NULL",
    ];
    let (stream, next) = (&sight.stream, sight.begin(row.known.number + 1));
    if !insert_stream(connection, &next, stream).await? {
        return Ok(Look::Stale);
    }
    let lost = load_lost(connection, row, stream, held).await?;
    let ended = sqlx::query(END).bind(stream).bind(integer(row.known.number)).execute(&mut *connection);
    ended.await.on("streams")?;
    for forget in FORGET {
        sqlx::query(forget).bind(stream).execute(&mut *connection).await.on("attempts")?;
    }
    store(connection, &lost).await?;
    store_names(connection, stream, next.number, held).await?;
    let fed_again = feed_again(connection, feed).await?;
    let fed = sqlx::query(FED).bind(stream).bind(integer(next.number)).bind(integer(fed_again));
    fed.execute(connection).await.on("streams")?;
    let (before, last_seen) = (row.known.made.clone(), row.last_seen);
    Ok(Look::Replaced { number: next.number, anew: Anew { before, last_seen, fed_again, lost } })
}

/// What had waited below the first position of this look and the one before, and was not handled.
async fn load_gone(connection: &mut Connection, row: &StreamRow, sight: &StreamSight) -> Result<Vec<Loss>> {
    const GONE: &str = "
        SELECT sequence, message FROM waiting WHERE stream = $1 AND number = $2 AND sequence < $3 ORDER BY sequence";
    let rows: Vec<(i64, String)> = sqlx::query_as(GONE)
        .bind(&sight.stream)
        .bind(integer(row.known.number))
        .bind(integer(sight.gone_below()))
        .fetch_all(&mut *connection)
        .await
        .on("waiting")?;
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let named = rows.iter().map(waiting).collect::<Result<Vec<_>>>()?;
    let handled = find_handled(connection, row, &sight.stream, &named).await?;
    let gone = named.into_iter().filter(|(position, _)| !handled.contains(position));
    let stream = &sight.stream;
    Ok(gone.map(|(position, message)| row.loss(stream, position..=position, Some(message))).collect())
}

/// What went with a stream: what the one in its place holds, such as an older copy of it, is there.
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
        .bind(integer(row.known.number))
        .fetch_all(&mut *connection)
        .await
        .on("waiting")?;
    let named = rows.iter().map(waiting).collect::<Result<Vec<_>>>()?;
    let mut accounted = find_handled(connection, row, stream, &named).await?;
    let held: BTreeSet<_> = held.iter().filter_map(|(_, message)| message.event.as_ref()).collect();
    let is_held = |message: &WaitingMessage| message.event.as_ref().is_some_and(|event| held.contains(event));
    accounted.extend(named.iter().filter(|(_, message)| is_held(message)).map(|(position, _)| *position));
    Ok(losses(stream, row, named, &accounted))
}

/// The positions of a stream that need no name: of the named ones those whose event was handled, and those given up by anybody:
/// a letter is the whole message, and sent again it reaches everybody who reads the stream.
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
        .bind(integer(first.min(row.known.handled_to)))
        .fetch_all(&mut *connection)
        .await
        .on("dead_letters")?;
    let known = handled_events(connection, named.iter().map(|(_, message)| message)).await?;
    let mut handled: Vec<u64> =
        named.iter().zip(known).filter_map(|((position, _), known)| known.then_some(*position)).collect();
    for position in given_up {
        handled.push(at("dead_letters.sequence", position).unsigned(position)?);
    }
    Ok(handled)
}
