//! Implements the port of the stream checks.

use async_trait::async_trait;
use retro_core::attribution::Attribution;
use retro_core::id::ReplayId;
use retro_fault::Label;
use retro_store::Result;
use retro_store::broker::{
    BrokerStore, ClosedLoss, KnownStream, Loss, LossKey, RepublishScope, StreamCheck, StreamObservation,
    WaitingMessage,
};

use super::dialect::{
    OnTable, Store, any_of, bind_rows, greatest, list_parameter, lookup_join, now_ms, rows_table,
};
use super::open::commit;
use super::{losses, stream, stream_pending};
use crate::{at, to_i64};

#[async_trait]
impl BrokerStore for Store {
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
        stream_pending::store_pending(&mut transaction, stream, number, waiting).await?;
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
        const CHECKED: &str = concat!(
            "UPDATE streams SET reconciled_to = ",
            greatest!(),
            "(reconciled_to, $3) WHERE stream = $1 AND incarnation = $2"
        );
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
        const FIND: &str = concat!(
            "SELECT DISTINCT dead_letters.sequence FROM ",
            rows_table!("requested", "$3" "sequence", "$4" "sha256"),
            lookup_join!(
                "dead_letters",
                "sequence",
                "dead_letters.stream = $2 AND dead_letters.sequence = requested.sequence
                    AND dead_letters.consumer = $1 AND dead_letters.payload_sha256 = requested.sha256"
            )
        );
        let query = sqlx::query_scalar(FIND).bind(consumer).bind(stream);
        let query = bind_rows!(query, requested, |message| [to_i64(message.0), message.1.as_str()]);
        let rows: Vec<i64> = query.fetch_all(self.reader()).await.on_table("dead_letters")?;
        rows.into_iter()
            .map(|sequence| at("dead_letters.sequence", sequence).parse_unsigned(sequence))
            .collect()
    }

    async fn find_ended_replays(&self, requested: &[ReplayId]) -> Result<Vec<ReplayId>> {
        const ENDED: &str = concat!("SELECT id FROM replays WHERE outcome IS NOT NULL AND id", any_of!("$1"));
        let ids: Vec<String> = sqlx::query_scalar(ENDED)
            .bind(list_parameter(requested))
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
