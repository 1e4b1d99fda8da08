//! Dead letters that are sent again. The letter is locked, which keeps two people apart.

use crate::dialect::{Connection, OnTable, Store, greatest, least, now_ms, shown};
use crate::open::commit;
use crate::{audit, batch, delivery, replayed};
use async_trait::async_trait;
use retro_core::id::{BatchId, DeadLetterId, ReplayId, Tenant};
use retro_core::replay::{Next, Outcome, Pace};
use retro_core::steer::Act;
use retro_fault::Label;
use retro_store::replay::{
    BatchCancelled, BatchLetter, BatchRow, DecideNext, Discarded, NewBatch, Replayed, is_followed,
};
use retro_store::steer::DecideReopen;
use retro_store::{Content, DeadLetter, Deed, LetterStatus, ReplayRow, ReplayStore, Result, Sending};
use retro_store_sql::replay::ReplayRecord;
use retro_store_sql::{at, integer, policy_time};

#[async_trait]
impl ReplayStore for Store {
    async fn replay(
        &self,
        tenant: &Tenant,
        letter: DeadLetterId,
        version: Option<u32>,
        act: &Act,
    ) -> Result<Replayed> {
        let mut transaction = self.write().await?;
        let Some(letter) = delivery::load_locked(&mut transaction, tenant, letter).await? else {
            return Ok(Replayed::Unknown);
        };
        let how = How { tenant, version, act, batch: None, pace: &Pace::default() };
        let replayed = send_again(&mut transaction, &letter, &how).await?;
        commit(transaction, Label::ReplayCommit).await?;
        Ok(replayed)
    }

    async fn content(
        &self,
        tenant: &Tenant,
        letter: DeadLetterId,
        version: Option<u32>,
    ) -> Result<Option<(u32, Content)>> {
        let mut snapshot = self.snapshot().await?;
        let Some(letter) = delivery::load(&mut snapshot, tenant, letter).await? else { return Ok(None) };
        content(&mut snapshot, &letter, version).await
    }

    async fn discard(&self, tenant: &Tenant, letters: &[DeadLetterId], act: &Act) -> Result<Vec<Discarded>> {
        let mut transaction = self.write().await?;
        let mut answers = Vec::with_capacity(letters.len());
        for letter in letters {
            answers.push(put_aside(&mut transaction, tenant, *letter, act).await?);
        }
        commit(transaction, Label::DiscardCommit).await?;
        Ok(answers)
    }

    async fn due_replays(&self, limit: u32, lost_after_s: u64) -> Result<Vec<Sending>> {
        const DUE: &str = concat!(
            "SELECT id, tenant, letter, version FROM (
                 SELECT id, tenant, letter, version, due_ms FROM replays WHERE state = 'waiting' AND due_ms <= ",
            now_ms!(),
            " UNION ALL
                 SELECT id, tenant, letter, version, due_ms FROM replays
                 WHERE state = 'sent' AND sent_ms + $2 * 1000 * (1 << CAST(",
            least!(),
            "(sendings - 1, 10) AS INTEGER)) <= ",
            now_ms!(),
            ") AS due ORDER BY due_ms, id LIMIT $1"
        );
        let mut snapshot = self.snapshot().await?;
        let rows: Vec<(String, String, String, i64)> = sqlx::query_as(DUE)
            .bind(i64::from(limit))
            .bind(integer(lost_after_s))
            .fetch_all(&mut *snapshot)
            .await
            .on("replays")?;
        let mut sendings = Vec::with_capacity(rows.len());
        for (id, tenant, letter, version) in rows {
            let place = at("replays", &id);
            let letter = delivery::load(&mut snapshot, &place.parse(&tenant)?, place.parse(&letter)?).await?;
            let letter = letter.ok_or_else(|| place.damaged("its letter is not there"))?;
            let content = content(&mut snapshot, &letter, Some(place.unsigned(version)?)).await?;
            let (_, content) = content.ok_or_else(|| place.damaged("its version is not there"))?;
            sendings.push(Sending::of(place.parse(&id)?, &letter.letter, content));
        }
        Ok(sendings)
    }

    async fn mark_replay_sent(&self, id: ReplayId) -> Result<()> {
        // It may have been handled already: then only the sending is counted.
        const MARK: &str = concat!(
            "UPDATE replays SET state = CASE state WHEN 'waiting' THEN 'sent' ELSE state END, sendings = sendings + 1,
                 sent_ms = ",
            now_ms!(),
            " WHERE id = $1"
        );
        let mut transaction = self.write().await?;
        let done = sqlx::query(MARK).bind(id.to_string()).execute(&mut *transaction).await.on("replays")?;
        at("replays", id).touched(done.rows_affected(), 1)?;
        commit(transaction, Label::ReplayMarkCommit).await
    }

    async fn refuse_replay(&self, id: ReplayId, problem: &str) -> Result<()> {
        let mut transaction = self.write().await?;
        replayed::end(&mut transaction, id, &Outcome::Refused { problem: problem.to_owned() }).await?;
        commit(transaction, Label::ReplayRefuseCommit).await
    }

    async fn start_batch(&self, tenant: &Tenant, new: &NewBatch) -> Result<BatchId> {
        let mut transaction = self.write().await?;
        let id = batch::start(&mut transaction, tenant, new).await?;
        commit(transaction, Label::BatchStartCommit).await?;
        Ok(id)
    }

    async fn open_batches(&self) -> Result<Vec<BatchId>> {
        batch::open(&mut *self.snapshot().await?).await
    }

    async fn step_batch(
        &self,
        id: BatchId,
        next: DecideNext<'_>,
        reopen: DecideReopen<'_>,
    ) -> Result<Option<Next>> {
        let mut transaction = self.write().await?;
        let decided = batch::step(&mut transaction, id, next, reopen).await?;
        commit(transaction, Label::BatchStepCommit).await?;
        Ok(decided)
    }

    async fn cancel_batch(&self, tenant: &Tenant, id: BatchId, act: &Act) -> Result<BatchCancelled> {
        let mut transaction = self.write().await?;
        let cancelled = batch::cancel(&mut transaction, tenant, id, act).await?;
        commit(transaction, Label::BatchCancelCommit).await?;
        Ok(cancelled)
    }

    async fn batches(&self, tenant: &Tenant, limit: u32) -> Result<Vec<BatchRow>> {
        batch::list(&mut *self.snapshot().await?, tenant, limit).await
    }

    async fn batch(
        &self,
        tenant: &Tenant,
        id: BatchId,
        limit: u32,
    ) -> Result<Option<(BatchRow, Vec<BatchLetter>)>> {
        batch::whole(&mut *self.snapshot().await?, tenant, id, limit).await
    }
}

/// The replays of a letter, the first one first.
pub(crate) async fn of_letter(
    store: &Store,
    tenant: &Tenant,
    letter: DeadLetterId,
) -> Result<Vec<ReplayRow>> {
    const LOAD: &str = "
        SELECT id, letter, number, version, batch, asked_by, reason, at, state, due_ms, sendings, ended_ms, outcome
        FROM replays WHERE tenant = $1 AND letter = $2 ORDER BY number";
    let mut snapshot = store.snapshot().await?;
    let rows: Vec<ReplayRecord> = sqlx::query_as(LOAD)
        .bind(tenant.as_str())
        .bind(letter.to_string())
        .fetch_all(&mut *snapshot)
        .await
        .on("replays")?;
    rows.iter().map(ReplayRecord::read).collect()
}

/// How a letter is sent again.
pub(crate) struct How<'a> {
    pub(crate) tenant: &'a Tenant,
    /// Which bytes; `None`: the newest.
    pub(crate) version: Option<u32>,
    pub(crate) act: &'a Act,
    pub(crate) batch: Option<BatchId>,
    pub(crate) pace: &'a Pace,
}

/// Stores what the relay is to send of a letter that nobody else is sending.
pub(crate) async fn send_again(
    connection: &mut Connection,
    letter: &DeadLetter,
    how: &How<'_>,
) -> Result<Replayed> {
    if is_followed(letter.letter.rejection.code) {
        return Ok(Replayed::OtherWay);
    }
    if !matches!(letter.status, LetterStatus::Open | LetterStatus::Discarded) {
        return Ok(Replayed::Before(last(connection, letter.id).await?));
    }
    let Some((version, _)) = content(connection, letter, how.version).await? else {
        return Ok(Replayed::NoVersion);
    };
    let number = letter.replays + 1;
    store(connection, letter.id, number, version, how).await?;
    take(connection, letter, number).await?;
    let detail = match version {
        0 => format!("replay {number}, with its bytes as they came"),
        edited => format!("replay {number}, with version {edited} of its bytes"),
    };
    audit::note(connection, how.tenant, &[letter.id.0], Deed::Replayed, how.act, Some(&detail)).await?;
    Ok(Replayed::Now(last(connection, letter.id).await?))
}

/// Due behind everything that waits, so that the pace holds whoever asks. A batch that goes slower than others keeps to its
/// own pace by when it takes a letter up: here it is as short as theirs, or everybody behind it would wait as long as it does.
async fn store(
    connection: &mut Connection,
    letter: DeadLetterId,
    number: u32,
    version: u32,
    how: &How<'_>,
) -> Result<()> {
    const STORE: &str = concat!(
        "INSERT INTO replays (id, tenant, letter, number, version, batch, asked_by, reason, at, state, due_ms)
         SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, 'waiting',
             ",
        greatest!(),
        "(",
        now_ms!(),
        ", coalesce((SELECT max(due_ms) FROM replays) + $10, 0))"
    );
    let id = ReplayId::of(letter, number);
    let done = sqlx::query(STORE)
        .bind(id.to_string())
        .bind(how.tenant.as_str())
        .bind(letter.to_string())
        .bind(i64::from(number))
        .bind(i64::from(version))
        .bind(how.batch.map(|batch| batch.to_string()))
        .bind(shown(&how.act.by))
        .bind(shown(&how.act.reason))
        .bind(policy_time(how.act.at))
        .bind(batch::gap_ms(how.pace).min(batch::gap_ms(&Pace::default())))
        .execute(connection)
        .await
        .on("replays")?;
    at("replays", id).touched(done.rows_affected(), 1)
}

async fn take(connection: &mut Connection, letter: &DeadLetter, number: u32) -> Result<()> {
    const TAKE: &str = "UPDATE dead_letters SET status = $3, replays = $4 WHERE id = $1 AND status = $2";
    let done = sqlx::query(TAKE)
        .bind(letter.id.to_string())
        .bind(letter.status.as_str())
        .bind(LetterStatus::Replaying.as_str())
        .bind(i64::from(number))
        .execute(connection)
        .await
        .on("dead_letters")?;
    at("dead_letters.status", letter.id).touched(done.rows_affected(), 1)
}

/// The last replay of a letter that has one.
pub(crate) async fn last(connection: &mut Connection, letter: DeadLetterId) -> Result<ReplayRow> {
    const LOAD: &str = "
        SELECT id, letter, number, version, batch, asked_by, reason, at, state, due_ms, sendings, ended_ms, outcome
        FROM replays WHERE letter = $1 ORDER BY number DESC LIMIT 1";
    let row: Option<ReplayRecord> =
        sqlx::query_as(LOAD).bind(letter.to_string()).fetch_optional(connection).await.on("replays")?;
    row.ok_or_else(|| at("replays", letter).damaged("the letter was replayed and no row says when"))?.read()
}

/// What is sent of a letter: of the version that is asked for, if it has it, or of the newest.
pub(crate) async fn content(
    connection: &mut Connection,
    letter: &DeadLetter,
    version: Option<u32>,
) -> Result<Option<(u32, Content)>> {
    const NEWEST: &str = "SELECT max(version) FROM letter_versions WHERE letter = $1";
    const LOAD: &str = "SELECT headers, payload FROM letter_versions WHERE letter = $1 AND version = $2";
    let place = at("letter_versions", letter.id);
    let version = match version {
        Some(asked) => asked,
        None => {
            let newest: Option<i64> = sqlx::query_scalar(NEWEST)
                .bind(letter.id.to_string())
                .fetch_one(&mut *connection)
                .await
                .on("letter_versions")?;
            newest.map_or(Ok(0), |newest| place.unsigned(newest))?
        }
    };
    if version == 0 {
        return Ok(Some((0, Content::from(&letter.letter))));
    }
    let row: Option<(String, Vec<u8>)> = sqlx::query_as(LOAD)
        .bind(letter.id.to_string())
        .bind(i64::from(version))
        .fetch_optional(connection)
        .await
        .on("letter_versions")?;
    let read = |(headers, payload): (String, Vec<u8>)| {
        Ok((version, Content { headers: place.json(&headers)?, payload }))
    };
    row.map(read).transpose()
}

async fn put_aside(
    connection: &mut Connection,
    tenant: &Tenant,
    letter: DeadLetterId,
    act: &Act,
) -> Result<Discarded> {
    const ASIDE: &str = "UPDATE dead_letters SET status = $2 WHERE id = $1 AND status = $3";
    let Some(letter) = delivery::load_locked(connection, tenant, letter).await? else {
        return Ok(Discarded::Unknown);
    };
    match letter.status {
        LetterStatus::Open => {}
        LetterStatus::Discarded => return before(connection, tenant, letter.id).await,
        LetterStatus::Replaying | LetterStatus::Handled => {
            return Ok(Discarded::Replayed(last(connection, letter.id).await?));
        }
        LetterStatus::Replayed => return Ok(Discarded::Reopened),
    }
    let done = sqlx::query(ASIDE)
        .bind(letter.id.to_string())
        .bind(LetterStatus::Discarded.as_str())
        .bind(LetterStatus::Open.as_str())
        .execute(&mut *connection)
        .await
        .on("dead_letters")?;
    at("dead_letters.status", letter.id).touched(done.rows_affected(), 1)?;
    audit::note(connection, tenant, &[letter.id.0], Deed::Discarded, act, None).await?;
    Ok(Discarded::Now)
}

/// Who put a letter aside.
async fn before(connection: &mut Connection, tenant: &Tenant, letter: DeadLetterId) -> Result<Discarded> {
    let acts = audit::acts(connection, tenant, letter.0).await?;
    let act = acts.into_iter().rev().find(|row| row.deed == Deed::Discarded);
    let act =
        act.ok_or_else(|| at("letter_acts", letter).damaged("the letter is put aside and no act says so"))?;
    Ok(Discarded::Before(act.act))
}
