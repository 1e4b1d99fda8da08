//! Stores the outbox of messages to publish.

use async_trait::async_trait;
use retro_core::id::MessageId;
use retro_core::message::{Message, Notice};
use retro_fault::Label;
use retro_store::broker::RepublishScope;
use retro_store::{OutboxStore, Result};

use super::dialect::{
    Connection, OnTable, Store, any_of, any_selected, bind_rows, json_field, list_parameter, now_ms,
    rows_table, skip_locked,
};
use super::open::commit;
use crate::rows::trace;
use crate::{at, to_json};

#[async_trait]
impl OutboxStore for Store {
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
            " WHERE sequence",
            any_selected!(
                "SELECT sequence FROM outbox WHERE sent_ms IS NULL AND id",
                any_of!("$1"),
                skip_locked!()
            )
        );
        if ids.is_empty() {
            return Ok(());
        }
        let mut transaction = self.begin_write().await?;
        let marked = sqlx::query(MARK).bind(list_parameter(ids));
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
    connection: &mut Connection,
    messages: impl Iterator<Item = &'a Message>,
) -> Result<()> {
    const PUT: &str = concat!(
        "INSERT INTO outbox (id, tenant, workflow, kind, notice, trace, created_ms)
         SELECT id, tenant, workflow, kind, notice,
             -- A batch opens retrospectives of many runs: each message continues its own.
             CASE WHEN kind = 'retrospective.due' THEN (SELECT opened.trace FROM retrospectives AS opened
                 WHERE opened.tenant = new.tenant AND opened.id = ",
        json_field!("new.notice", "retrospective"),
        ") ELSE $1 END, ",
        now_ms!(),
        " FROM ",
        rows_table!("new", "$2" "id", "$3" "tenant", "$4" "workflow", "$5" "kind", "$6" "notice"),
        " ORDER BY place ON CONFLICT (id) DO NOTHING"
    );
    let messages: Vec<&Message> = messages.collect();
    if messages.is_empty() {
        return Ok(());
    }
    let query = sqlx::query(PUT).bind(trace::current_trace());
    let query = bind_rows!(query, messages, |message| [
        message.id.to_string(),
        message.tenant.as_str(),
        message.workflow.as_str(),
        message.notice.kind(),
        to_json(&message.notice),
    ]);
    query.execute(connection).await.on_table("outbox").map(|_| ())
}

/// Marks the sent messages in `scope` as unsent, so the relay publishes them again. Returns their number.
pub(crate) async fn republish_messages(connection: &mut Connection, scope: RepublishScope) -> Result<u64> {
    const WAKE_UPS: &str = concat!(
        "UPDATE /* reads all: after a loss at the broker only */ outbox SET sent_ms = NULL WHERE sent_ms IS NOT NULL AND kind",
        any_of!("$1"),
        " AND EXISTS (
             SELECT 1 FROM retrospectives AS one WHERE one.tenant = outbox.tenant AND one.id = ",
        json_field!("outbox.notice", "retrospective"),
        " AND one.state IN ('due', 'investigating', 'settling'))"
    );
    const ANNOUNCEMENTS: &str = concat!(
        "UPDATE /* reads all: after a loss at the broker only */ outbox SET sent_ms = NULL WHERE sent_ms IS NOT NULL AND kind",
        any_of!("$1")
    );
    let (sql, kinds) = match scope {
        RepublishScope::Nothing => return Ok(0),
        RepublishScope::WakeUps => (WAKE_UPS, Notice::WAKE_UPS),
        RepublishScope::Announcements => (ANNOUNCEMENTS, Notice::ANNOUNCEMENTS),
    };
    let done = sqlx::query(sql).bind(list_parameter(&kinds)).execute(connection).await.on_table("outbox")?;
    Ok(done.rows_affected())
}
