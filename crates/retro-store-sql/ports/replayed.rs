//! What came of what was sent again.

use retro_core::id::{DeadLetterId, ReplayId};
use retro_core::replay::Outcome;
use retro_store::replay::Resent;
use retro_store::{LetterStatus, NewDeadLetter, ReplayRow, Result};
use retro_store_sql::replay::ReplayRecord;
use retro_store_sql::{at, json};

use crate::dialect::{Connection, OnTable, now_ms};
use crate::replay::content;
use crate::{batch, delivery, letter};

/// The replay that a message is, if it is one: what was sent of a letter, byte for byte.
async fn believed(connection: &mut Connection, resent: &Resent) -> Result<Option<ReplayRow>> {
    const LOAD: &str = "
        SELECT id, letter, number, version, batch, asked_by, reason, at, state, due_ms, sendings, ended_ms, outcome
        FROM replays WHERE id = $1";
    const TENANT: &str = "SELECT tenant FROM replays WHERE id = $1";
    let id = resent.id.to_string();
    let row: Option<ReplayRecord> =
        sqlx::query_as(LOAD).bind(&id).fetch_optional(&mut *connection).await.on("replays")?;
    let Some(replay) = row.map(|row| row.read()).transpose()? else { return Ok(None) };
    let tenant: String =
        sqlx::query_scalar(TENANT).bind(&id).fetch_one(&mut *connection).await.on("replays")?;
    let tenant = at("replays.tenant", &id).parse(&tenant)?;
    let Some(letter) = delivery::load(connection, &tenant, replay.letter).await? else { return Ok(None) };
    let sent = content(connection, &letter, Some(replay.version)).await?;
    Ok(sent.is_some_and(|(_, sent)| resent.is(&letter.letter, &sent)).then_some(replay))
}

/// Ends the replay that a handled message is; returns whether it is one that was under way.
pub(crate) async fn settle(connection: &mut Connection, resent: &Resent, outcome: &Outcome) -> Result<bool> {
    match believed(connection, resent).await? {
        Some(replay) => end(connection, replay.id, outcome).await,
        None => Ok(false),
    }
}

/// A message that is given up, if it is a replay: its letter is open again, and there is no second one. Returns the
/// letter, also when the replay had ended and the message only comes again.
pub(crate) async fn failed_again(
    connection: &mut Connection,
    letter: &NewDeadLetter,
) -> Result<Option<DeadLetterId>> {
    let Some(resent) = Resent::of_letter(letter) else { return Ok(None) };
    let Some(replay) = believed(connection, &resent).await? else { return Ok(None) };
    let (rejection, attempts) = (letter.rejection.clone(), letter.attempts);
    if end(connection, replay.id, &Outcome::Failed { rejection, attempts }).await? {
        letter::settle(connection, replay.letter, &letter.position, attempts, &letter.rejection).await?;
    } else {
        letter::forget(connection, &letter.position).await?;
    }
    Ok(Some(replay.letter))
}

/// Ends a replay that is under way, with its letter and its place in a batch; returns whether it was.
pub(crate) async fn end(connection: &mut Connection, id: ReplayId, outcome: &Outcome) -> Result<bool> {
    const END: &str = concat!(
        "UPDATE replays SET state = $2, outcome = $3, ended_ms = ",
        now_ms!(),
        " WHERE id = $1 AND state IN ('waiting', 'sent') RETURNING letter, batch"
    );
    const LETTER: &str = "UPDATE dead_letters SET status = $2 WHERE id = $1 AND status = $3";
    let (state, status) = match outcome.succeeded() {
        true => ("handled", LetterStatus::Handled),
        false => ("failed", LetterStatus::Open),
    };
    let row: Option<(String, Option<String>)> = sqlx::query_as(END)
        .bind(id.to_string())
        .bind(state)
        .bind(json(outcome))
        .fetch_optional(&mut *connection)
        .await
        .on("replays")?;
    let Some((letter, batch)) = row else { return Ok(false) };
    let done = sqlx::query(LETTER)
        .bind(&letter)
        .bind(status.as_str())
        .bind(LetterStatus::Replaying.as_str())
        .execute(&mut *connection)
        .await
        .on("dead_letters")?;
    at("dead_letters.status", &letter).touched(done.rows_affected(), 1)?;
    if let Some(batch) = batch {
        batch::tell(connection, &batch, &letter, state, &outcome.to_string()).await?;
    }
    Ok(true)
}
