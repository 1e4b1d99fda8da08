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
use serde_json::{Value, json};
use sqlx::SqliteConnection;

use crate::convert::{self, OnTable, at, to_i64};
use crate::count::seen_events;
use crate::open::commit;
use crate::{SqliteStore, losses, now_ms, stream};

#[async_trait]
impl BrokerStore for SqliteStore {
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
            " WHERE stream = ?1 AND incarnation = ?2 AND reconciled_ms <= ",
            now_ms!(),
            " - ?3 RETURNING reconciled_to"
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
            UPDATE streams SET reconciled_to = max(reconciled_to, ?3) WHERE stream = ?1 AND incarnation = ?2";
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
            SELECT DISTINCT stored.sequence FROM json_each(?3) AS requested
            CROSS JOIN dead_letters AS stored ON stored.stream = ?2 AND stored.sequence = requested.value ->> 0
                AND stored.consumer = ?1 AND stored.payload_sha256 = requested.value ->> 1";
        let requested: Value = requested.iter().map(|(position, sha256)| json!([position, sha256])).collect();
        let rows: Vec<i64> = sqlx::query_scalar(FIND)
            .bind(consumer)
            .bind(stream)
            .bind(requested.to_string())
            .fetch_all(self.reader())
            .await
            .on_table("dead_letters")?;
        rows.into_iter()
            .map(|sequence| at("dead_letters.sequence", sequence).parse_unsigned(sequence))
            .collect()
    }

    async fn find_ended_replays(&self, requested: &[ReplayId]) -> Result<Vec<ReplayId>> {
        const ENDED: &str = "
            SELECT id FROM replays WHERE outcome IS NOT NULL AND id IN (SELECT value FROM json_each(?1))";
        let ids: Vec<String> = sqlx::query_scalar(ENDED)
            .bind(convert::to_json(&requested))
            .fetch_all(self.reader())
            .await
            .on_table("replays")?;
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
    connection: &mut SqliteConnection,
    stream: &str,
    number: u64,
    waiting: &[(u64, WaitingMessage)],
) -> Result<()> {
    const NAME: &str = "
        INSERT INTO stream_pending (stream, incarnation, sequence, message)
        SELECT ?1, ?2, value ->> 0, value ->> 1 FROM json_each(?3) WHERE EXISTS (
            SELECT 1 FROM streams WHERE stream = ?1 AND incarnation = ?2 AND ended_ms IS NULL AND suspected_ms IS NULL)
        ON CONFLICT (stream, incarnation, sequence) DO NOTHING";
    let rows: Value =
        waiting.iter().map(|(position, message)| json!([position, convert::to_json(message)])).collect();
    sqlx::query(NAME)
        .bind(stream)
        .bind(to_i64(number))
        .bind(rows.to_string())
        .execute(connection)
        .await
        .on_table("stream_pending")?;
    Ok(())
}

/// Returns `true` for each message whose event was handled by all of its consumers, in input order.
pub(crate) async fn handled_events<'a>(
    connection: &mut SqliteConnection,
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
pub(crate) async fn store_losses(connection: &mut SqliteConnection, lost: &[Loss]) -> Result<()> {
    const STORE: &str = "
        INSERT INTO stream_losses (stream, incarnation, first_sequence, last_sequence, message)
        SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM json_each(?1) WHERE true
        ON CONFLICT (stream, incarnation, first_sequence) DO NOTHING";
    if lost.is_empty() {
        return Ok(());
    }
    let row = |loss: &Loss| {
        let message = loss.message.as_ref().map(convert::to_json);
        json!([loss.stream, loss.incarnation, loss.positions.start(), loss.positions.end(), message])
    };
    let rows: Value = lost.iter().map(row).collect();
    sqlx::query(STORE).bind(rows.to_string()).execute(connection).await.on_table("stream_losses")?;
    Ok(())
}

pub(crate) async fn republish_messages(
    connection: &mut SqliteConnection,
    scope: RepublishScope,
) -> Result<u64> {
    const WAKE_UPS: &str = "
        UPDATE outbox SET sent_ms = NULL
        WHERE sent_ms IS NOT NULL AND kind IN (SELECT value FROM json_each(?1)) AND EXISTS (
            SELECT 1 FROM retrospectives AS one WHERE one.tenant = outbox.tenant
                AND one.id = outbox.notice ->> 'retrospective' AND one.state IN ('due', 'investigating', 'settling'))";
    const ANNOUNCEMENTS: &str = "
        UPDATE outbox SET sent_ms = NULL
        WHERE sent_ms IS NOT NULL AND kind IN (SELECT value FROM json_each(?1))";
    let (sql, kinds) = match scope {
        RepublishScope::Nothing => return Ok(0),
        RepublishScope::WakeUps => (WAKE_UPS, Notice::WAKE_UPS),
        RepublishScope::Announcements => (ANNOUNCEMENTS, Notice::ANNOUNCEMENTS),
    };
    let done =
        sqlx::query(sql).bind(convert::to_json(&kinds)).execute(connection).await.on_table("outbox")?;
    Ok(done.rows_affected())
}
