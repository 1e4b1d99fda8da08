//! What is known of the broker's streams.

use async_trait::async_trait;
use retro_core::id::ReplayId;
use retro_core::message::Notice;
use retro_core::stream::is_same;
use retro_fault::Label;
use retro_store::Result;
use retro_store::broker::{Anew, BrokerStore, Feed, Look, Loss, StreamSight, WaitingMessage};
use retro_store_sql::broker::{Account, LossRecord, StreamRecord, StreamRow, losses, waiting};
use serde_json::{Value, json};
use sqlx::SqliteConnection;

use crate::count::seen_events;
use crate::damage::{self, OnTable, at, integer};
use crate::open::commit;
use crate::{SqliteStore, now_ms};

#[async_trait]
impl BrokerStore for SqliteStore {
    async fn look(&self, sight: &StreamSight, feed: Feed) -> Result<Option<Look>> {
        let mut transaction = self.write().await?;
        let before = last(&mut transaction, &sight.stream).await?;
        let look = match before {
            None => {
                begin(&mut transaction, 1, sight, 0).await?;
                Look { number: 1, named_to: 0, gone: Vec::new(), anew: None }
            }
            Some(before) if !is_same(&before.known, &sight.made, sight.last) => {
                replace(&mut transaction, &before, sight, feed).await?
            }
            Some(before) => see(&mut transaction, &before, sight).await?,
        };
        commit(transaction, Label::LookCommit).await?;
        Ok(Some(look))
    }

    async fn name_waiting(&self, stream: &str, number: u64, waiting: &[(u64, WaitingMessage)]) -> Result<()> {
        const NAME: &str = "
            INSERT INTO waiting (stream, number, sequence, message)
            SELECT ?1, ?2, value ->> 0, value ->> 1 FROM json_each(?3) WHERE true
            ON CONFLICT (stream, number, sequence) DO NOTHING";
        let rows: Value =
            waiting.iter().map(|(position, message)| json!([position, damage::json(message)])).collect();
        let mut transaction = self.write().await?;
        sqlx::query(NAME)
            .bind(stream)
            .bind(integer(number))
            .bind(rows.to_string())
            .execute(&mut *transaction)
            .await
            .on("waiting")?;
        commit(transaction, Label::NameWaitingCommit).await
    }

    async fn begin_comparing(&self, stream: &str, number: u64, pause_ms: u64) -> Result<Option<u64>> {
        const BEGIN: &str = concat!(
            "UPDATE streams SET compared_ms = ",
            now_ms!(),
            " WHERE stream = ?1 AND number = ?2 AND compared_ms <= ",
            now_ms!(),
            " - ?3 RETURNING checked_to"
        );
        let mut transaction = self.write().await?;
        let checked: Option<i64> = sqlx::query_scalar(BEGIN)
            .bind(stream)
            .bind(integer(number))
            .bind(integer(pause_ms))
            .fetch_optional(&mut *transaction)
            .await
            .on("streams")?;
        commit(transaction, Label::CompareCommit).await?;
        checked.map(|checked| at("streams", stream).unsigned(checked)).transpose()
    }

    async fn checked(&self, stream: &str, number: u64, to: u64) -> Result<()> {
        const CHECKED: &str = "
            UPDATE streams SET checked_to = max(checked_to, ?3) WHERE stream = ?1 AND number = ?2";
        let mut transaction = self.write().await?;
        sqlx::query(CHECKED)
            .bind(stream)
            .bind(integer(number))
            .bind(integer(to))
            .execute(&mut *transaction)
            .await
            .on("streams")?;
        commit(transaction, Label::CheckedCommit).await
    }

    async fn given_up(&self, consumer: &str, stream: &str, asked: &[(u64, String)]) -> Result<Vec<u64>> {
        const FIND: &str = "
            SELECT DISTINCT letters.sequence FROM json_each(?3) AS asked
            CROSS JOIN dead_letters AS letters ON letters.stream = ?2 AND letters.sequence = asked.value ->> 0
                AND letters.consumer = ?1 AND letters.payload_sha256 = asked.value ->> 1";
        let asked: Value = asked.iter().map(|(position, sha256)| json!([position, sha256])).collect();
        let rows: Vec<i64> = sqlx::query_scalar(FIND)
            .bind(consumer)
            .bind(stream)
            .bind(asked.to_string())
            .fetch_all(self.reader())
            .await
            .on("dead_letters")?;
        rows.into_iter().map(|sequence| at("dead_letters.sequence", sequence).unsigned(sequence)).collect()
    }

    async fn ended_replays(&self, asked: &[ReplayId]) -> Result<Vec<ReplayId>> {
        const ENDED: &str = "
            SELECT id FROM replays WHERE outcome IS NOT NULL AND id IN (SELECT value FROM json_each(?1))";
        let ids: Vec<String> = sqlx::query_scalar(ENDED)
            .bind(damage::json(&asked))
            .fetch_all(self.reader())
            .await
            .on("replays")?;
        ids.iter().map(|id| at("replays.id", id).parse(id)).collect()
    }

    async fn losses(&self) -> Result<Vec<Loss>> {
        const LOAD: &str = "
            SELECT stream, number, first_sequence, last_sequence, message FROM losses
            ORDER BY stream, number, first_sequence";
        let mut reader = self.reader().acquire().await.on("losses")?;
        let rows: Vec<LossRecord> = sqlx::query_as(LOAD).fetch_all(&mut *reader).await.on("losses")?;
        let all = rows.into_iter().map(LossRecord::read).collect::<Result<Vec<Loss>>>()?;
        let (unnamed, named): (Vec<Loss>, Vec<Loss>) =
            all.into_iter().partition(|loss| loss.message.is_none());
        let since =
            handled_events(&mut reader, named.iter().filter_map(|loss| loss.message.as_ref())).await?;
        let mut left: Vec<Loss> =
            named.into_iter().zip(since).filter_map(|(loss, handled)| (!handled).then_some(loss)).collect();
        left.extend(unnamed);
        left.sort_by_key(|loss| (loss.stream.clone(), loss.number, *loss.positions.start()));
        Ok(left)
    }
}

/// The last stream of a name that was seen.
async fn last(connection: &mut SqliteConnection, stream: &str) -> Result<Option<StreamRow>> {
    const LAST: &str = "
        SELECT stream, number, made, seen_to, handled_to, found_ms, seen_ms FROM streams
        WHERE stream = ?1 ORDER BY number DESC LIMIT 1";
    let row: Option<StreamRecord> =
        sqlx::query_as(LAST).bind(stream).fetch_optional(connection).await.on("streams")?;
    row.map(StreamRecord::read).transpose()
}

async fn begin(
    connection: &mut SqliteConnection,
    number: u64,
    sight: &StreamSight,
    fed_again: u64,
) -> Result<()> {
    const BEGIN: &str = concat!(
        "INSERT INTO streams
             (stream, number, made, seen_to, handled_to, checked_to, compared_ms, fed_again, found_ms, seen_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, 0, 0, ?6, ",
        now_ms!(),
        ", ",
        now_ms!(),
        ")"
    );
    sqlx::query(BEGIN)
        .bind(&sight.stream)
        .bind(integer(number))
        .bind(&sight.made)
        .bind(integer(sight.last))
        .bind(integer(sight.handled))
        .bind(integer(fed_again))
        .execute(connection)
        .await
        .on("streams")?;
    Ok(())
}

/// The stream that is known, seen again.
async fn see(connection: &mut SqliteConnection, before: &StreamRow, sight: &StreamSight) -> Result<Look> {
    const SEE: &str = concat!(
        "UPDATE streams SET seen_to = ?3, handled_to = max(handled_to, ?4), seen_ms = ",
        now_ms!(),
        " WHERE stream = ?1 AND number = ?2"
    );
    const FORGET: &str = "DELETE FROM waiting WHERE stream = ?1 AND number = ?2 AND sequence <= ?3";
    const NAMED: &str = "SELECT coalesce(max(sequence), 0) FROM waiting WHERE stream = ?1 AND number = ?2";
    let (stream, number) = (&sight.stream, integer(before.number));
    let gone = gone(connection, before, sight).await?;
    store(connection, &gone).await?;
    sqlx::query(SEE)
        .bind(stream)
        .bind(number)
        .bind(integer(sight.last))
        .bind(integer(sight.handled))
        .execute(&mut *connection)
        .await
        .on("streams")?;
    sqlx::query(FORGET)
        .bind(stream)
        .bind(number)
        .bind(integer(sight.handled))
        .execute(&mut *connection)
        .await
        .on("waiting")?;
    let named: i64 =
        sqlx::query_scalar(NAMED).bind(stream).bind(number).fetch_one(connection).await.on("waiting")?;
    Ok(Look {
        number: before.number,
        named_to: at("waiting.sequence", named).unsigned(named)?,
        gone,
        anew: None,
    })
}

/// The stream that is known has ended, and another one stands in its place.
async fn replace(
    connection: &mut SqliteConnection,
    before: &StreamRow,
    sight: &StreamSight,
    feed: Feed,
) -> Result<Look> {
    const END: &str =
        concat!("UPDATE streams SET ended_ms = ", now_ms!(), " WHERE stream = ?1 AND number = ?2");
    const FORGET: [&str; 3] = [
        "DELETE FROM waiting WHERE stream = ?1",
        "DELETE FROM attempts WHERE stream = ?1",
        "DELETE FROM attempt_history WHERE stream = ?1 AND letter IS NULL",
    ];
    let lost = lost(connection, before, &sight.stream).await?;
    sqlx::query(END)
        .bind(&sight.stream)
        .bind(integer(before.number))
        .execute(&mut *connection)
        .await
        .on("streams")?;
    for forget in FORGET {
        sqlx::query(forget).bind(&sight.stream).execute(&mut *connection).await.on("attempts")?;
    }
    store(connection, &lost).await?;
    let fed_again = feed_again(connection, feed).await?;
    let number = before.number + 1;
    begin(connection, number, sight, fed_again).await?;
    let (before, last_seen) = (before.known.made.clone(), before.last_seen);
    Ok(Look {
        number,
        named_to: 0,
        gone: Vec::new(),
        anew: Some(Anew { before, last_seen, fed_again, lost }),
    })
}

/// What had waited before the first position that still holds something, and was not handled.
async fn gone(
    connection: &mut SqliteConnection,
    before: &StreamRow,
    sight: &StreamSight,
) -> Result<Vec<Loss>> {
    const GONE: &str = "
        SELECT sequence, message FROM waiting WHERE stream = ?1 AND number = ?2 AND sequence < ?3 ORDER BY sequence";
    let rows: Vec<(i64, String)> = sqlx::query_as(GONE)
        .bind(&sight.stream)
        .bind(integer(before.number))
        .bind(integer(sight.first))
        .fetch_all(&mut *connection)
        .await
        .on("waiting")?;
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let named = rows.iter().map(waiting).collect::<Result<Vec<_>>>()?;
    let handled = handled(connection, before, &sight.stream, &named).await?;
    let gone = named.into_iter().filter(|(position, _)| !handled.contains(position));
    let stream = &sight.stream;
    Ok(gone.map(|(position, message)| before.loss(stream, position..=position, Some(message))).collect())
}

async fn lost(connection: &mut SqliteConnection, before: &StreamRow, stream: &str) -> Result<Vec<Loss>> {
    const WAITING: &str = "
        SELECT sequence, message FROM waiting WHERE stream = ?1 AND number = ?2 AND sequence > ?3 ORDER BY sequence";
    let rows: Vec<(i64, String)> = sqlx::query_as(WAITING)
        .bind(stream)
        .bind(integer(before.number))
        .bind(integer(before.known.handled_to))
        .fetch_all(&mut *connection)
        .await
        .on("waiting")?;
    let named = rows.iter().map(waiting).collect::<Result<Vec<_>>>()?;
    let handled = handled(connection, before, stream, &named).await?;
    Ok(losses(stream, before, named, &handled))
}

/// The positions of a stream that need no name: of the named ones those whose event was handled, and those given up by anybody:
/// a letter is the whole message, and sent again it reaches everybody who reads the stream.
async fn handled(
    connection: &mut SqliteConnection,
    before: &StreamRow,
    stream: &str,
    named: &[(u64, WaitingMessage)],
) -> Result<Vec<u64>> {
    const GIVEN_UP: &str = "
        SELECT DISTINCT sequence FROM dead_letters WHERE stream = ?1 AND created_ms >= ?2 AND sequence > ?3";
    let first = named.first().map_or(before.known.handled_to, |(first, _)| first - 1);
    let given_up: Vec<i64> = sqlx::query_scalar(GIVEN_UP)
        .bind(stream)
        .bind(before.found_ms)
        .bind(integer(first.min(before.known.handled_to)))
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

/// For each of some messages, whether everybody who reads it has handled its event.
async fn handled_events<'a>(
    connection: &mut SqliteConnection,
    messages: impl Iterator<Item = &'a WaitingMessage>,
) -> Result<Vec<bool>> {
    let mut account = Account::of(messages);
    for reader in account.readers() {
        let seen = seen_events(connection, reader, &account.asked(reader)).await?;
        account.seen(reader, seen.into_iter().map(|(place, _)| place))?;
    }
    Ok(account.handled())
}

/// Stores losses; what was lost before is left as it is.
async fn store(connection: &mut SqliteConnection, lost: &[Loss]) -> Result<()> {
    const STORE: &str = "
        INSERT INTO losses (stream, number, first_sequence, last_sequence, message)
        SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM json_each(?1) WHERE true
        ON CONFLICT (stream, number, first_sequence) DO NOTHING";
    if lost.is_empty() {
        return Ok(());
    }
    let row = |loss: &Loss| {
        let message = loss.message.as_ref().map(damage::json);
        json!([loss.stream, loss.number, loss.positions.start(), loss.positions.end(), message])
    };
    let rows: Value = lost.iter().map(row).collect();
    sqlx::query(STORE).bind(rows.to_string()).execute(connection).await.on("losses")?;
    Ok(())
}

async fn feed_again(connection: &mut SqliteConnection, feed: Feed) -> Result<u64> {
    const WAKE_UPS: &str = "
        UPDATE outbox SET sent_ms = NULL
        WHERE sent_ms IS NOT NULL AND kind IN (SELECT value FROM json_each(?1)) AND EXISTS (
            SELECT 1 FROM retrospectives AS one WHERE one.tenant = outbox.tenant
                AND one.id = outbox.notice ->> 'retrospective' AND one.state IN ('due', 'investigating', 'settling'))";
    const ANNOUNCEMENTS: &str = "
        UPDATE outbox SET sent_ms = NULL
        WHERE sent_ms IS NOT NULL AND kind IN (SELECT value FROM json_each(?1))";
    let (sql, kinds) = match feed {
        Feed::Nothing => return Ok(0),
        Feed::WakeUps => (WAKE_UPS, Notice::WAKE_UPS),
        Feed::Announcements => (ANNOUNCEMENTS, Notice::ANNOUNCEMENTS),
    };
    let done = sqlx::query(sql).bind(damage::json(&kinds)).execute(connection).await.on("outbox")?;
    Ok(done.rows_affected())
}
