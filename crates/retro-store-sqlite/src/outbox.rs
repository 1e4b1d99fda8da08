//! Stores the outbox of messages to publish.

use async_trait::async_trait;
use retro_core::id::MessageId;
use retro_core::message::Message;
use retro_fault::Label;
use retro_store::{OutboxStore, Result};
use retro_store_sql::trace;
use serde_json::{Value, json};
use sqlx::SqliteConnection;

use crate::convert::{self, OnTable, at};
use crate::open::commit;
use crate::{SqliteStore, now_ms};

#[async_trait]
impl OutboxStore for SqliteStore {
    async fn list_unsent_messages(&self, limit: u32) -> Result<Vec<Message>> {
        const UNSENT: &str = "
            SELECT id, tenant, workflow, notice, trace FROM outbox WHERE sent_ms IS NULL ORDER BY sequence LIMIT ?1";
        let rows: Vec<Row> =
            sqlx::query_as(UNSENT).bind(limit).fetch_all(self.reader()).await.on_table("outbox")?;
        rows.iter().map(message_from_row).collect()
    }

    async fn mark_sent(&self, ids: &[MessageId]) -> Result<()> {
        // Do not check the number of rows: another relay may have marked some of the messages.
        const MARK: &str = concat!(
            "UPDATE outbox SET sent_ms = ",
            now_ms!(),
            " WHERE sent_ms IS NULL AND id IN (SELECT value FROM json_each(?1))"
        );
        if ids.is_empty() {
            return Ok(());
        }
        let mut transaction = self.begin_write().await?;
        sqlx::query(MARK).bind(convert::to_json(&ids)).execute(&mut *transaction).await.on_table("outbox")?;
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
    connection: &mut SqliteConnection,
    messages: impl Iterator<Item = &'a Message>,
) -> Result<()> {
    // WHERE true, because SQLite would otherwise parse ON CONFLICT as the condition of a join.
    const PUT: &str = concat!(
        "INSERT INTO outbox (id, tenant, workflow, kind, notice, trace, created_ms)
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4,
             -- A batch opens retrospectives of many runs: each message continues its own.
             CASE WHEN value ->> 3 = 'retrospective.due' THEN (SELECT trace FROM retrospectives
                 WHERE tenant = value ->> 1 AND id = value ->> 4 ->> 'retrospective') ELSE ?2 END, ",
        now_ms!(),
        " FROM json_each(?1) WHERE true ORDER BY key ON CONFLICT (id) DO NOTHING"
    );
    let row = |message: &Message| {
        let notice = convert::to_json(&message.notice);
        json!([message.id, message.tenant, message.workflow, message.notice.kind(), notice])
    };
    let rows: Vec<Value> = messages.map(row).collect();
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(PUT)
        .bind(Value::from(rows).to_string())
        .bind(trace::current_trace())
        .execute(connection)
        .await
        .on_table("outbox")?;
    Ok(())
}
