//! Implements the port of the stream checks.

use async_trait::async_trait;
use retro_core::cancel::Attribution;
use retro_core::id::ReplayId;
use retro_core::message::Notice;
use retro_fault::Label;
use retro_store::Result;
use retro_store::broker::{
    BrokerStore, ClosedLoss, KnownStream, Loss, LossKey, RepublishScope, StreamCheck, StreamObservation,
    WaitingMessage,
};
use retro_store_sql::broker::InboxCheck;
use retro_store_sql::{at, to_i64, to_json};
use sqlx::PgConnection;

use crate::convert::OnTable;
use crate::count::{map_column, seen_events};
use crate::open::commit;
use crate::{PostgresStore, losses, now_ms, stream};

#[async_trait]
impl BrokerStore for PostgresStore {
    async fn load_stream(&self, stream: &str) -> Result<Option<KnownStream>> {
        let mut reader = self.reader().acquire().await.on_table("streams")?;
        stream::load_known(&mut reader, stream).await
    }

    async fn record_observation(
        &self,
        observation: &StreamObservation,
        held: &[(u64, WaitingMessage)],
        scope: RepublishScope,
    ) -> Result<StreamCheck> {
        stream::record_observation(self, observation, held, scope).await
    }

    async fn record_waiting_messages(
        &self,
        stream: &str,
        number: u64,
        waiting: &[(u64, WaitingMessage)],
    ) -> Result<()> {
        let mut transaction = self.begin_write().await?;
        store_pending(&mut transaction, stream, number, waiting).await?;
        commit(transaction, Label::StreamPendingCommit).await
    }

    async fn begin_reconciliation(&self, stream: &str, number: u64, pause_ms: u64) -> Result<Option<u64>> {
        const BEGIN: &str = concat!(
            "UPDATE streams SET reconciled_ms = ",
            now_ms!(),
            " WHERE stream = $1 AND incarnation = $2 AND reconciled_ms <= ",
            now_ms!(),
            " - $3 RETURNING reconciled_to"
        );
        let mut transaction = self.begin_write().await?;
        let checked: Option<i64> = sqlx::query_scalar(BEGIN)
            .bind(stream)
            .bind(to_i64(number))
            .bind(to_i64(pause_ms))
            .fetch_optional(&mut *transaction)
            .await
            .on_table("streams")?;
        commit(transaction, Label::ReconcileBeginCommit).await?;
        checked.map(|checked| at("streams", stream).parse_unsigned(checked)).transpose()
    }

    async fn record_reconciled(&self, stream: &str, number: u64, to: u64) -> Result<()> {
        const CHECKED: &str = "
            UPDATE streams SET reconciled_to = greatest(reconciled_to, $3) WHERE stream = $1 AND incarnation = $2";
        let mut transaction = self.begin_write().await?;
        sqlx::query(CHECKED)
            .bind(stream)
            .bind(to_i64(number))
            .bind(to_i64(to))
            .execute(&mut *transaction)
            .await
            .on_table("streams")?;
        commit(transaction, Label::ReconcileCommit).await
    }

    async fn find_dead_lettered(
        &self,
        consumer: &str,
        stream: &str,
        requested: &[(u64, String)],
    ) -> Result<Vec<u64>> {
        const FIND: &str = "
            SELECT DISTINCT stored.sequence FROM unnest($3::bigint[], $4::text[]) AS requested (sequence, sha256)
            JOIN dead_letters AS stored ON stored.stream = $2 AND stored.sequence = requested.sequence
                AND stored.consumer = $1 AND stored.payload_sha256 = requested.sha256";
        let rows: Vec<i64> = sqlx::query_scalar(FIND)
            .bind(consumer)
            .bind(stream)
            .bind(map_column(requested, |(position, _)| to_i64(*position)))
            .bind(map_column(requested, |(_, sha256)| sha256.as_str()))
            .fetch_all(self.reader())
            .await
            .on_table("dead_letters")?;
        rows.into_iter()
            .map(|sequence| at("dead_letters.sequence", sequence).parse_unsigned(sequence))
            .collect()
    }

    async fn find_ended_replays(&self, requested: &[ReplayId]) -> Result<Vec<ReplayId>> {
        const ENDED: &str = "SELECT id FROM replays WHERE outcome IS NOT NULL AND id = ANY($1::text[])";
        let requested = map_column(requested, ToString::to_string);
        let ids: Vec<String> =
            sqlx::query_scalar(ENDED).bind(requested).fetch_all(self.reader()).await.on_table("replays")?;
        ids.iter().map(|id| at("replays.id", id).parse(id)).collect()
    }

    async fn list_losses(&self) -> Result<Vec<Loss>> {
        let mut reader = self.reader().acquire().await.on_table("stream_losses")?;
        losses::load_open_losses(&mut reader).await
    }

    async fn list_closed_losses(&self) -> Result<Vec<ClosedLoss>> {
        let mut reader = self.reader().acquire().await.on_table("stream_losses")?;
        losses::load_closed_losses(&mut reader).await
    }

    async fn close_losses(&self, losses: &[LossKey], act: &Attribution) -> Result<Vec<LossKey>> {
        losses::close_losses(self, losses, act).await
    }
}

/// Stores pending messages of a stream unless the stream has ended or is suspected to have been replaced.
pub(crate) async fn store_pending(
    connection: &mut PgConnection,
    stream: &str,
    number: u64,
    waiting: &[(u64, WaitingMessage)],
) -> Result<()> {
    const NAME: &str = "
        INSERT INTO stream_pending (stream, incarnation, sequence, message)
        SELECT $1, $2, sequence, message FROM unnest($3::bigint[], $4::text[]) AS new (sequence, message)
        WHERE EXISTS (
            SELECT 1 FROM streams WHERE stream = $1 AND incarnation = $2 AND ended_ms IS NULL AND suspected_ms IS NULL)
        ON CONFLICT (stream, incarnation, sequence) DO NOTHING";
    sqlx::query(NAME)
        .bind(stream)
        .bind(to_i64(number))
        .bind(map_column(waiting, |(position, _)| to_i64(*position)))
        .bind(map_column(waiting, |(_, message)| to_json(message)))
        .execute(connection)
        .await
        .on_table("stream_pending")?;
    Ok(())
}

/// Returns `true` for each message whose event was handled by all of its consumers, in input order.
pub(crate) async fn handled_events<'a>(
    connection: &mut PgConnection,
    messages: impl Iterator<Item = &'a WaitingMessage>,
) -> Result<Vec<bool>> {
    let mut inbox_check = InboxCheck::new(messages);
    for reader in inbox_check.distinct_readers() {
        let seen = seen_events(connection, reader, &inbox_check.events_read_by(reader)).await?;
        inbox_check.record_found(reader, seen.into_iter().map(|(place, _)| place))?;
    }
    Ok(inbox_check.into_handled())
}

/// Stores losses. Does not change losses that are already stored.
pub(crate) async fn store_losses(connection: &mut PgConnection, lost: &[Loss]) -> Result<()> {
    const STORE: &str = "
        INSERT INTO stream_losses (stream, incarnation, first_sequence, last_sequence, message)
        SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[])
        ON CONFLICT (stream, incarnation, first_sequence) DO NOTHING";
    if lost.is_empty() {
        return Ok(());
    }
    sqlx::query(STORE)
        .bind(map_column(lost, |loss| loss.stream.as_str()))
        .bind(map_column(lost, |loss| to_i64(loss.incarnation)))
        .bind(map_column(lost, |loss| to_i64(*loss.positions.start())))
        .bind(map_column(lost, |loss| to_i64(*loss.positions.end())))
        .bind(map_column(lost, |loss| loss.message.as_ref().map(to_json)))
        .execute(connection)
        .await
        .on_table("stream_losses")?;
    Ok(())
}

pub(crate) async fn republish_messages(connection: &mut PgConnection, scope: RepublishScope) -> Result<u64> {
    const WAKE_UPS: &str = "
        UPDATE outbox SET sent_ms = NULL
        WHERE sent_ms IS NOT NULL AND kind = ANY ($1::text[]) AND EXISTS (
            SELECT 1 FROM retrospectives AS one WHERE one.tenant = outbox.tenant
                AND one.id = outbox.notice::json ->> 'retrospective'
                AND one.state IN ('due', 'investigating', 'settling'))";
    const ANNOUNCEMENTS: &str = "
        UPDATE outbox SET sent_ms = NULL WHERE sent_ms IS NOT NULL AND kind = ANY ($1::text[])";
    let (sql, kinds) = match scope {
        RepublishScope::Nothing => return Ok(0),
        RepublishScope::WakeUps => (WAKE_UPS, Notice::WAKE_UPS),
        RepublishScope::Announcements => (ANNOUNCEMENTS, Notice::ANNOUNCEMENTS),
    };
    let done = sqlx::query(sql)
        .bind(map_column(&kinds, |kind| *kind))
        .execute(connection)
        .await
        .on_table("outbox")?;
    Ok(done.rows_affected())
}
