//! Stores the outbox of messages to publish.

use async_trait::async_trait;
use retro_core::id::MessageId;
use retro_core::message::Message;
use retro_fault::Label;
use retro_store::{OutboxStore, Result};
use retro_store_sql::{at, to_json, trace};
use sqlx::PgConnection;

use crate::convert::OnTable;
use crate::count::map_column;
use crate::open::commit;
use crate::{PostgresStore, now_ms};

#[async_trait]
impl OutboxStore for PostgresStore {
    async fn list_unsent_messages(&self, limit: u32) -> Result<Vec<Message>> {
        const UNSENT: &str = "
            SELECT id, tenant, workflow, notice, trace FROM outbox WHERE sent_ms IS NULL ORDER BY sequence LIMIT $1";
        let rows: Vec<Row> = sqlx::query_as(UNSENT)
            .bind(i64::from(limit))
            .fetch_all(self.reader())
            .await
            .on_table("outbox")?;
        rows.iter().map(message_from_row).collect()
    }

    async fn mark_sent(&self, ids: &[MessageId]) -> Result<()> {
        // Do not check the number of rows: another relay may have marked some of the messages. A row that
        // another relay is marking is skipped; if that relay fails, the message is sent again with the same
        // id.
        const MARK: &str = concat!(
            "UPDATE outbox SET sent_ms = ",
            now_ms!(),
            " WHERE sequence = ANY (ARRAY(SELECT sequence FROM outbox
                  WHERE sent_ms IS NULL AND id = ANY ($1::text[]) FOR UPDATE SKIP LOCKED))"
        );
        if ids.is_empty() {
            return Ok(());
        }
        let mut transaction = self.begin_write().await?;
        let marked = sqlx::query(MARK).bind(map_column(ids, MessageId::to_string));
        marked.execute(&mut *transaction).await.on_table("outbox")?;
        commit(transaction, Label::RelayMarkCommit).await
    }
}

/// Row of `outbox`: id, tenant, workflow, notice and trace context.
type Row = (String, String, String, String, Option<String>);

fn message_from_row((id, tenant, workflow, notice, trace): &Row) -> Result<Message> {
    let place = at("outbox.notice", id);
    Ok(Message {
        id: place.parse(id)?,
        tenant: place.parse(tenant)?,
        workflow: place.parse(workflow)?,
        notice: place.parse_json(notice)?,
        trace: trace::parse_trace(trace.as_deref()),
    })
}

/// Appends messages to the outbox. Skips messages whose ids are already stored, because equal ids mean equal
/// messages.
pub(crate) async fn enqueue_messages<'a>(
    connection: &mut PgConnection,
    messages: impl Iterator<Item = &'a Message>,
) -> Result<()> {
    const PUT: &str = concat!(
        "INSERT INTO outbox (id, tenant, workflow, kind, notice, trace, created_ms)
         SELECT id, tenant, workflow, kind, notice,
             -- A batch opens retrospectives of many runs: each message continues its own.
             CASE WHEN kind = 'retrospective.due' THEN (SELECT opened.trace FROM retrospectives AS opened
                 WHERE opened.tenant = new.tenant AND opened.id = new.notice::json ->> 'retrospective') ELSE $6 END, ",
        now_ms!(),
        " FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]) WITH ORDINALITY
             AS new (id, tenant, workflow, kind, notice, place)
         ORDER BY place ON CONFLICT (id) DO NOTHING"
    );
    let messages: Vec<&Message> = messages.collect();
    if messages.is_empty() {
        return Ok(());
    }
    sqlx::query(PUT)
        .bind(map_column(&messages, |message| message.id.to_string()))
        .bind(map_column(&messages, |message| message.tenant.as_str()))
        .bind(map_column(&messages, |message| message.workflow.as_str()))
        .bind(map_column(&messages, |message| message.notice.kind()))
        .bind(map_column(&messages, |message| to_json(&message.notice)))
        .bind(trace::current_trace())
        .execute(connection)
        .await
        .on_table("outbox")?;
    Ok(())
}
