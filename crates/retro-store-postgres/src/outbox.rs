//! Messages that wait to be sent.

use async_trait::async_trait;
use retro_core::id::MessageId;
use retro_core::message::Message;
use retro_fault::Label;
use retro_store::{OutboxStore, Result};
use retro_store_sql::{at, json, trace};
use sqlx::PgConnection;

use crate::answer::OnTable;
use crate::count::column;
use crate::open::commit;
use crate::{PostgresStore, now_ms};

#[async_trait]
impl OutboxStore for PostgresStore {
    async fn unsent(&self, limit: u32) -> Result<Vec<Message>> {
        const UNSENT: &str = "
            SELECT id, tenant, workflow, notice, trace FROM outbox WHERE sent_ms IS NULL ORDER BY sequence LIMIT $1";
        let rows: Vec<Row> =
            sqlx::query_as(UNSENT).bind(i64::from(limit)).fetch_all(self.reader()).await.on("outbox")?;
        rows.iter().map(read).collect()
    }

    async fn mark_sent(&self, ids: &[MessageId]) -> Result<()> {
        // Fewer rows than ids are no error: a relay beside this one may have marked them. One that is marking a row at
        // this moment is not waited for: were it to fail, the message would be sent again under the same id.
        const MARK: &str = concat!(
            "UPDATE outbox SET sent_ms = ",
            now_ms!(),
            " WHERE sequence = ANY (ARRAY(SELECT sequence FROM outbox
                  WHERE sent_ms IS NULL AND id = ANY ($1::text[]) FOR UPDATE SKIP LOCKED))"
        );
        if ids.is_empty() {
            return Ok(());
        }
        let mut transaction = self.write().await?;
        let marked = sqlx::query(MARK).bind(column(ids, MessageId::to_string));
        marked.execute(&mut *transaction).await.on("outbox")?;
        commit(transaction, Label::RelayMarkCommit).await
    }
}

/// Id, tenant, workflow, notice and trace.
type Row = (String, String, String, String, Option<String>);

fn read((id, tenant, workflow, notice, trace): &Row) -> Result<Message> {
    let place = at("outbox.notice", id);
    Ok(Message {
        id: place.parse(id)?,
        tenant: place.parse(tenant)?,
        workflow: place.parse(workflow)?,
        notice: place.json(notice)?,
        trace: trace::read(trace.as_deref()),
    })
}

/// Puts messages behind those that wait. One with the id of an earlier one is that message, and is left alone.
pub(crate) async fn put<'a>(
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
        .bind(column(&messages, |message| message.id.to_string()))
        .bind(column(&messages, |message| message.tenant.as_str()))
        .bind(column(&messages, |message| message.workflow.as_str()))
        .bind(column(&messages, |message| message.notice.kind()))
        .bind(column(&messages, |message| json(&message.notice)))
        .bind(trace::current())
        .execute(connection)
        .await
        .on("outbox")?;
    Ok(())
}
