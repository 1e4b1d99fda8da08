//! Batches of replays: which letters go next, and what came of each.

use crate::dialect::{Connection, OnTable, for_update, now_ms, shown};
use crate::{audit, delivery, letter, replay, steer};
use retro_core::id::{BatchId, DeadLetterId, Tenant};
use retro_core::replay::{Next, Pace, Progress};
use retro_core::steer::{Act, NotReopened};
use retro_store::replay::{
    BatchCancelled, BatchLetter, BatchRow, BatchState, DecideNext, NewBatch, Replayed, is_followed,
};
use retro_store::steer::DecideReopen;
use retro_store::{DeadLetter, Deed, LetterStatus, Reopened, Result};
use retro_store_sql::replay::{BatchLetterRecord, BatchRecord};
use retro_store_sql::{at, policy_time};

/// Stores a batch with the letters of the tenant, unless it is there.
pub(crate) async fn start(connection: &mut Connection, tenant: &Tenant, new: &NewBatch) -> Result<BatchId> {
    const START: &str = concat!(
        "INSERT INTO replay_batches (id, tenant, asked, asked_by, reason, at, canary, rate_milli, failed_permille_max,
             state, next_ms, created_ms)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, ",
        now_ms!(),
        ", ",
        now_ms!(),
        ") ON CONFLICT (id) DO NOTHING"
    );
    let id = new.id(tenant);
    let state = if new.pace.canary > 0 { BatchState::Canary } else { BatchState::Running };
    let done = sqlx::query(START)
        .bind(id.to_string())
        .bind(tenant.as_str())
        .bind(shown(&new.asked))
        .bind(shown(&new.act.by))
        .bind(shown(&new.act.reason))
        .bind(policy_time(new.act.at))
        .bind(i64::from(new.pace.canary))
        .bind(i64::from(new.pace.rate_milli))
        .bind(i64::from(new.pace.failed_permille_max))
        .bind(state.as_str())
        .execute(&mut *connection)
        .await
        .on("replay_batches")?;
    if done.rows_affected() == 1 {
        letter::choose(connection, tenant, id, &new.letters).await?;
    }
    Ok(id)
}

/// The batches that take up letters, the oldest first.
pub(crate) async fn open(connection: &mut Connection) -> Result<Vec<BatchId>> {
    const OPEN: &str =
        "SELECT id FROM replay_batches WHERE state IN ('canary', 'running') ORDER BY created_ms, id";
    let rows: Vec<String> = sqlx::query_scalar(OPEN).fetch_all(connection).await.on("replay_batches")?;
    rows.iter().map(|id| at("replay_batches", id).parse(id)).collect()
}

/// Does what `next` says about a batch.
pub(crate) async fn step(
    connection: &mut Connection,
    id: BatchId,
    next: DecideNext<'_>,
    reopen: DecideReopen<'_>,
) -> Result<Option<Next>> {
    const CLOCK: &str =
        concat!("SELECT tenant, next_ms, ", now_ms!(), " FROM replay_batches WHERE id = $1", for_update!());
    let row: Option<(String, i64, i64)> = sqlx::query_as(CLOCK)
        .bind(id.to_string())
        .fetch_optional(&mut *connection)
        .await
        .on("replay_batches")?;
    let Some((tenant, due, now)) = row else { return Ok(None) };
    let place = at("replay_batches", id);
    let tenant: Tenant = place.parse(&tenant)?;
    let batch = load(connection, &tenant, id).await?.filter(|batch| batch.state.is_open());
    let Some(batch) = batch else { return Ok(None) };
    let decided = next(&batch.pace, &batch.progress, place.millis(due)?, place.millis(now)?);
    match decided {
        Next::Wait => {}
        Next::Release(letters) => {
            let mut sent = 0;
            for letter in waiting(connection, id, letters).await? {
                sent += i64::from(take_up(connection, &tenant, &batch, letter, reopen).await?);
            }
            move_on(connection, &batch, due.max(now) + sent * gap_ms(&batch.pace)).await?;
        }
        Next::Stop(why) => end(connection, id, BatchState::Stopped, &why.to_string()).await?,
        Next::Done => end(connection, id, BatchState::Done, &summed(&batch.progress)).await?,
    }
    Ok(Some(decided))
}

/// Takes up one letter; returns whether it counts against the pace.
async fn take_up(
    connection: &mut Connection,
    tenant: &Tenant,
    batch: &BatchRow,
    (letter, chosen): (DeadLetterId, LetterStatus),
    reopen: DecideReopen<'_>,
) -> Result<bool> {
    let stored = delivery::load_locked(connection, tenant, letter).await?;
    let stored =
        stored.ok_or_else(|| at("replay_batch_letters", letter).damaged("the letter is not there"))?;
    let (state, told) = if stored.status != chosen {
        ("skipped", format!("it was left alone: it is {} since it was chosen", stored.status.as_str()))
    } else if is_followed(stored.letter.rejection.code) {
        follow(connection, tenant, &stored, &batch.act, reopen).await?
    } else {
        let how =
            replay::How { tenant, version: None, act: &batch.act, batch: Some(batch.id), pace: &batch.pace };
        match replay::send_again(connection, &stored, &how).await? {
            Replayed::Now(_) => ("under_way", "it is being sent".to_owned()),
            Replayed::Before(row) => {
                ("skipped", format!("it was left alone: {} replayed it before", row.act.by))
            }
            Replayed::OtherWay | Replayed::NoVersion | Replayed::Unknown => {
                ("skipped", "it was left alone: it cannot be sent".to_owned())
            }
        }
    };
    tell(connection, &batch.id.to_string(), &letter.to_string(), state, &told).await?;
    Ok(state != "skipped")
}

/// Opens what follows a failed retrospective.
async fn follow(
    connection: &mut Connection,
    tenant: &Tenant,
    letter: &DeadLetter,
    act: &Act,
    reopen: DecideReopen<'_>,
) -> Result<(&'static str, String)> {
    Ok(match steer::reopen(connection, tenant, letter.id, act, reopen).await? {
        Reopened::Now(opened) => {
            ("handled", format!("retrospective {} of its workflow is open", opened.epoch))
        }
        Reopened::Before { opened, .. } => {
            ("skipped", format!("it was left alone: it opened retrospective {} before", opened.epoch))
        }
        Reopened::Not(NotReopened::OneIsOpen { epoch }) => {
            ("skipped", format!("it was left alone: retrospective {epoch} of its workflow is open already"))
        }
        Reopened::Not(NotReopened::ClaimedSince { .. }) => {
            ("skipped", "it was left alone: a later retrospective has looked back at its runs".to_owned())
        }
        Reopened::OtherCode(_) | Reopened::Unknown => {
            ("skipped", "it was left alone: it is not there".to_owned())
        }
    })
}

async fn waiting(
    connection: &mut Connection,
    id: BatchId,
    letters: u32,
) -> Result<Vec<(DeadLetterId, LetterStatus)>> {
    const WAITING: &str = "
        SELECT letter, chosen FROM replay_batch_letters
        WHERE batch = $1 AND state = 'waiting' ORDER BY place LIMIT $2";
    let rows: Vec<(String, String)> = sqlx::query_as(WAITING)
        .bind(id.to_string())
        .bind(i64::from(letters))
        .fetch_all(connection)
        .await
        .on("replay_batch_letters")?;
    let place = at("replay_batch_letters", id);
    rows.iter().map(|(letter, chosen)| Ok((place.parse(letter)?, place.word(chosen)?))).collect()
}

/// Says where a letter of a batch stands.
pub(crate) async fn tell(
    connection: &mut Connection,
    batch: &str,
    letter: &str,
    state: &str,
    told: &str,
) -> Result<()> {
    const TELL: &str =
        "UPDATE replay_batch_letters SET state = $3, told = $4 WHERE batch = $1 AND letter = $2";
    let done = sqlx::query(TELL)
        .bind(batch)
        .bind(letter)
        .bind(state)
        .bind(shown(told))
        .execute(connection)
        .await
        .on("replay_batch_letters")?;
    at("replay_batch_letters", letter).touched(done.rows_affected(), 1)
}

async fn move_on(connection: &mut Connection, batch: &BatchRow, next_ms: i64) -> Result<()> {
    const MOVE: &str = "UPDATE replay_batches SET state = $2, next_ms = $3 WHERE id = $1";
    let canary = batch.progress.handled < batch.pace.canary;
    let state = if canary { BatchState::Canary } else { BatchState::Running };
    let done = sqlx::query(MOVE)
        .bind(batch.id.to_string())
        .bind(state.as_str())
        .bind(next_ms)
        .execute(connection)
        .await
        .on("replay_batches")?;
    at("replay_batches", batch.id).touched(done.rows_affected(), 1)
}

async fn end(connection: &mut Connection, id: BatchId, state: BatchState, why: &str) -> Result<()> {
    const END: &str =
        concat!("UPDATE replay_batches SET state = $2, ended = $3, ended_ms = ", now_ms!(), " WHERE id = $1");
    let done = sqlx::query(END)
        .bind(id.to_string())
        .bind(state.as_str())
        .bind(shown(why))
        .execute(connection)
        .await
        .on("replay_batches")?;
    at("replay_batches", id).touched(done.rows_affected(), 1)
}

/// Calls a batch off, unless it has ended.
pub(crate) async fn cancel(
    connection: &mut Connection,
    tenant: &Tenant,
    id: BatchId,
    act: &Act,
) -> Result<BatchCancelled> {
    const LOCK: &str = concat!("SELECT id FROM replay_batches WHERE id = $1", for_update!());
    sqlx::query(LOCK).bind(id.to_string()).execute(&mut *connection).await.on("replay_batches")?;
    let Some(batch) = load(connection, tenant, id).await? else { return Ok(BatchCancelled::Unknown) };
    if !batch.state.is_open() {
        return Ok(BatchCancelled::Ended(batch));
    }
    let why = format!("{} called it off: {}", act.by, act.reason);
    end(connection, id, BatchState::Stopped, &why).await?;
    audit::note(connection, tenant, &[id.0], Deed::Cancelled, act, None).await?;
    let batch = load(connection, tenant, id).await?;
    Ok(BatchCancelled::Now(batch.ok_or_else(|| at("replay_batches", id).damaged("it is gone"))?))
}

/// The columns of a batch; its letters are counted by where they stand.
macro_rules! batch_columns {
    () => {
        "SELECT id, asked, asked_by, reason, at, canary, rate_milli, failed_permille_max, replay_batches.state,
            created_ms, ended_ms, ended,
            count(*) FILTER (WHERE one.state = 'waiting') AS waiting,
            count(*) FILTER (WHERE one.state = 'under_way') AS under_way,
            count(*) FILTER (WHERE one.state = 'handled') AS handled,
            count(*) FILTER (WHERE one.state = 'failed') AS failed,
            count(*) FILTER (WHERE one.state = 'skipped') AS skipped
         FROM replay_batches LEFT JOIN replay_batch_letters AS one ON one.batch = replay_batches.id "
    };
}

async fn load(connection: &mut Connection, tenant: &Tenant, id: BatchId) -> Result<Option<BatchRow>> {
    const LOAD: &str = concat!(
        batch_columns!(),
        "WHERE replay_batches.tenant = $1 AND replay_batches.id = $2 GROUP BY replay_batches.id"
    );
    let row: Option<BatchRecord> = sqlx::query_as(LOAD)
        .bind(tenant.as_str())
        .bind(id.to_string())
        .fetch_optional(connection)
        .await
        .on("replay_batches")?;
    row.map(|row| row.read()).transpose()
}

/// The tenant's batches, the newest first.
pub(crate) async fn list(connection: &mut Connection, tenant: &Tenant, limit: u32) -> Result<Vec<BatchRow>> {
    const LIST: &str = concat!(
        batch_columns!(),
        "WHERE replay_batches.tenant = $1 GROUP BY replay_batches.id
         ORDER BY replay_batches.created_ms DESC, replay_batches.id LIMIT $2"
    );
    let rows: Vec<BatchRecord> = sqlx::query_as(LIST)
        .bind(tenant.as_str())
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await
        .on("replay_batches")?;
    rows.iter().map(BatchRecord::read).collect()
}

/// A batch with its letters.
pub(crate) async fn whole(
    connection: &mut Connection,
    tenant: &Tenant,
    id: BatchId,
    limit: u32,
) -> Result<Option<(BatchRow, Vec<BatchLetter>)>> {
    const LETTERS: &str = "
        SELECT place, letter, state, told FROM replay_batch_letters WHERE batch = $1
        ORDER BY state = 'waiting', place LIMIT $2";
    let Some(batch) = load(connection, tenant, id).await? else { return Ok(None) };
    let rows: Vec<BatchLetterRecord> = sqlx::query_as(LETTERS)
        .bind(id.to_string())
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await
        .on("replay_batch_letters")?;
    let letters: Result<Vec<BatchLetter>> = rows.into_iter().map(BatchLetterRecord::read).collect();
    Ok(Some((batch, letters?)))
}

/// The time between two letters, at least a millisecond.
pub(crate) fn gap_ms(pace: &Pace) -> i64 {
    i64::try_from(pace.gap().as_millis()).unwrap_or(i64::MAX).max(1)
}

fn summed(progress: &Progress) -> String {
    let Progress { handled, failed, skipped, .. } = progress;
    format!("{handled} handled, {failed} failed again, {skipped} left alone")
}
