//! What is known of the broker's streams.

use async_trait::async_trait;
use retro_core::id::ReplayId;
use retro_core::message::Notice;
use retro_core::steer::Act;
use retro_fault::Label;
use retro_store::Result;
use retro_store::broker::{
    BrokerStore, ClosedLoss, Feed, KnownStream, Look, Loss, LossKey, StreamSight, WaitingMessage,
};
use retro_store_sql::broker::Account;
use retro_store_sql::{at, integer, json};
use sqlx::PgConnection;

use crate::answer::OnTable;
use crate::count::{column, seen_events};
use crate::open::commit;
use crate::{PostgresStore, losses, now_ms, stream};

#[async_trait]
impl BrokerStore for PostgresStore {
    async fn load_stream(&self, stream: &str) -> Result<Option<KnownStream>> {
        let mut reader = self.reader().acquire().await.on("streams")?;
        stream::load_known(&mut reader, stream).await
    }

    async fn record_sight(
        &self,
        sight: &StreamSight,
        held: &[(u64, WaitingMessage)],
        feed: Feed,
    ) -> Result<Look> {
        stream::record_sight(self, sight, held, feed).await
    }

    async fn name_waiting(&self, stream: &str, number: u64, waiting: &[(u64, WaitingMessage)]) -> Result<()> {
        let mut transaction = self.write().await?;
        store_names(&mut transaction, stream, number, waiting).await?;
        commit(transaction, Label::NameWaitingCommit).await
    }

    async fn begin_comparing(&self, stream: &str, number: u64, pause_ms: u64) -> Result<Option<u64>> {
        const BEGIN: &str = concat!(
            "UPDATE streams SET compared_ms = ",
            now_ms!(),
            " WHERE stream = $1 AND number = $2 AND compared_ms <= ",
            now_ms!(),
            " - $3 RETURNING checked_to"
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
            UPDATE streams SET checked_to = greatest(checked_to, $3) WHERE stream = $1 AND number = $2";
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
            SELECT DISTINCT letters.sequence FROM unnest($3::bigint[], $4::text[]) AS asked (sequence, sha256)
            JOIN dead_letters AS letters ON letters.stream = $2 AND letters.sequence = asked.sequence
                AND letters.consumer = $1 AND letters.payload_sha256 = asked.sha256";
        let rows: Vec<i64> = sqlx::query_scalar(FIND)
            .bind(consumer)
            .bind(stream)
            .bind(column(asked, |(position, _)| integer(*position)))
            .bind(column(asked, |(_, sha256)| sha256.as_str()))
            .fetch_all(self.reader())
            .await
            .on("dead_letters")?;
        rows.into_iter().map(|sequence| at("dead_letters.sequence", sequence).unsigned(sequence)).collect()
    }

    async fn ended_replays(&self, asked: &[ReplayId]) -> Result<Vec<ReplayId>> {
        const ENDED: &str = "SELECT id FROM replays WHERE outcome IS NOT NULL AND id = ANY($1::text[])";
        let asked = column(asked, ToString::to_string);
        let ids: Vec<String> =
            sqlx::query_scalar(ENDED).bind(asked).fetch_all(self.reader()).await.on("replays")?;
        ids.iter().map(|id| at("replays.id", id).parse(id)).collect()
    }

    async fn losses(&self) -> Result<Vec<Loss>> {
        let mut reader = self.reader().acquire().await.on("losses")?;
        losses::load_open_losses(&mut reader).await
    }

    async fn closed_losses(&self) -> Result<Vec<ClosedLoss>> {
        let mut reader = self.reader().acquire().await.on("losses")?;
        losses::load_closed_losses(&mut reader).await
    }

    async fn close_losses(&self, losses: &[LossKey], act: &Act) -> Result<Vec<LossKey>> {
        losses::close_losses(self, losses, act).await
    }
}

/// Remembers names, unless the stream has ended or is suspected to have.
pub(crate) async fn store_names(
    connection: &mut PgConnection,
    stream: &str,
    number: u64,
    waiting: &[(u64, WaitingMessage)],
) -> Result<()> {
    const NAME: &str = "
        INSERT INTO waiting (stream, number, sequence, message)
        SELECT $1, $2, sequence, message FROM unnest($3::bigint[], $4::text[]) AS new (sequence, message)
        WHERE EXISTS (
            SELECT 1 FROM streams WHERE stream = $1 AND number = $2 AND ended_ms IS NULL AND suspected_ms IS NULL)
        ON CONFLICT (stream, number, sequence) DO NOTHING";
    sqlx::query(NAME)
        .bind(stream)
        .bind(integer(number))
        .bind(column(waiting, |(position, _)| integer(*position)))
        .bind(column(waiting, |(_, message)| json(message)))
        .execute(connection)
        .await
        .on("waiting")?;
    Ok(())
}

/// For each of some messages, whether everybody who reads it has handled its event.
pub(crate) async fn handled_events<'a>(
    connection: &mut PgConnection,
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
pub(crate) async fn store(connection: &mut PgConnection, lost: &[Loss]) -> Result<()> {
    const STORE: &str = "
        INSERT INTO losses (stream, number, first_sequence, last_sequence, message)
        SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[])
        ON CONFLICT (stream, number, first_sequence) DO NOTHING";
    if lost.is_empty() {
        return Ok(());
    }
    sqlx::query(STORE)
        .bind(column(lost, |loss| loss.stream.as_str()))
        .bind(column(lost, |loss| integer(loss.number)))
        .bind(column(lost, |loss| integer(*loss.positions.start())))
        .bind(column(lost, |loss| integer(*loss.positions.end())))
        .bind(column(lost, |loss| loss.message.as_ref().map(json)))
        .execute(connection)
        .await
        .on("losses")?;
    Ok(())
}

pub(crate) async fn feed_again(connection: &mut PgConnection, feed: Feed) -> Result<u64> {
    const WAKE_UPS: &str = "
        UPDATE outbox SET sent_ms = NULL
        WHERE sent_ms IS NOT NULL AND kind = ANY ($1::text[]) AND EXISTS (
            SELECT 1 FROM retrospectives AS one WHERE one.tenant = outbox.tenant
                AND one.id = outbox.notice::json ->> 'retrospective'
                AND one.state IN ('due', 'investigating', 'settling'))";
    const ANNOUNCEMENTS: &str = "
        UPDATE outbox SET sent_ms = NULL WHERE sent_ms IS NOT NULL AND kind = ANY ($1::text[])";
    let (sql, kinds) = match feed {
        Feed::Nothing => return Ok(0),
        Feed::WakeUps => (WAKE_UPS, Notice::WAKE_UPS),
        Feed::Announcements => (ANNOUNCEMENTS, Notice::ANNOUNCEMENTS),
    };
    let done = sqlx::query(sql).bind(column(&kinds, |kind| *kind)).execute(connection).await.on("outbox")?;
    Ok(done.rows_affected())
}
