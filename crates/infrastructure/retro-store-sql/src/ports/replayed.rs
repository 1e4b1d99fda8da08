//! Ends replays when their messages are handled or rejected.

use retro_core::id::{DeadLetterId, ReplayId};
use retro_core::replay::ReplayOutcome;
use retro_store::replay::IncomingReplay;
use retro_store::{DeadLetterStatus, NewDeadLetter, ReplayRow, Result};

use super::dialect::{Connection, OnTable, now_ms};
use super::{attempt_history, batch_items, stored_dead_letters};
use crate::rows::replay::ReplayRecord;
use crate::{at, to_json};

/// Finds the replay of which a message is the publication. Returns `None` unless the message is identical to
/// the one sent.
async fn find_matching_replay(
    connection: &mut Connection,
    resent: &IncomingReplay,
) -> Result<Option<ReplayRow>> {
    const LOAD: &str = "
        SELECT id, dead_letter, number, version, batch, requested_by, with_token, reason, requested_at, state, due_ms,
            publications, ended_ms, outcome
        FROM replays WHERE id = $1";
    const TENANT: &str = "SELECT tenant FROM replays WHERE id = $1";
    let id = resent.id.to_string();
    let row: Option<ReplayRecord> =
        sqlx::query_as(LOAD).bind(&id).fetch_optional(&mut *connection).await.on_table("replays")?;
    let Some(replay) = row.map(|row| row.to_replay_row()).transpose()? else { return Ok(None) };
    let tenant: String =
        sqlx::query_scalar(TENANT).bind(&id).fetch_one(&mut *connection).await.on_table("replays")?;
    let tenant = at("replays.tenant", &id).parse(&tenant)?;
    let Some(dead_letter) =
        stored_dead_letters::find_dead_letter(connection, &tenant, replay.dead_letter).await?
    else {
        return Ok(None);
    };
    // The header alone proves nothing: any publisher can copy a replay id into it.
    let sent = stored_dead_letters::load_content(connection, &dead_letter, Some(replay.version)).await?;
    Ok(sent.is_some_and(|(_, sent)| resent.matches_sent(&dead_letter.message, &sent)).then_some(replay))
}

/// Ends the replay of a handled message. Returns `true` if it was in progress.
pub(crate) async fn end_matching_replay(
    connection: &mut Connection,
    resent: &IncomingReplay,
    outcome: &ReplayOutcome,
) -> Result<bool> {
    match find_matching_replay(connection, resent).await? {
        Some(replay) => end_replay(connection, replay.id, outcome).await,
        None => Ok(false),
    }
}

/// Reopens the original dead letter of a replay that failed again. Returns its id, even if the replay had
/// already ended and the message was only redelivered; `None` if the message is not a replay.
pub(crate) async fn reopen_if_replay(
    connection: &mut Connection,
    letter: &NewDeadLetter,
) -> Result<Option<DeadLetterId>> {
    let Some(resent) = IncomingReplay::from_dead_letter(letter) else { return Ok(None) };
    let Some(replay) = find_matching_replay(connection, &resent).await? else { return Ok(None) };
    let (rejection, attempts) = (letter.rejection.clone(), letter.attempts);
    if end_replay(connection, replay.id, &ReplayOutcome::Failed { rejection, attempts }).await? {
        attempt_history::attach_attempts(
            connection,
            replay.dead_letter,
            &letter.position,
            attempts,
            &letter.rejection,
        )
        .await?;
    } else {
        attempt_history::clear_attempts(connection, &letter.position).await?;
    }
    Ok(Some(replay.dead_letter))
}

/// Ends a replay and updates its dead letter and batch. Returns `false` if the replay had already ended.
pub(crate) async fn end_replay(
    connection: &mut Connection,
    id: ReplayId,
    outcome: &ReplayOutcome,
) -> Result<bool> {
    // A replay may end while it is still `waiting`: the relay can crash between publishing it and marking it.
    const END: &str = concat!(
        "UPDATE replays SET state = $2, outcome = $3, ended_ms = ",
        now_ms!(),
        " WHERE id = $1 AND state IN ('waiting', 'sent') RETURNING dead_letter, batch"
    );
    const DEAD_LETTER: &str = "UPDATE dead_letters SET status = $2 WHERE id = $1 AND status = $3";
    let (state, status) = match outcome.is_success() {
        true => ("handled", DeadLetterStatus::Handled),
        false => ("failed", DeadLetterStatus::Open),
    };
    let row: Option<(String, Option<String>)> = sqlx::query_as(END)
        .bind(id.to_string())
        .bind(state)
        .bind(to_json(outcome))
        .fetch_optional(&mut *connection)
        .await
        .on_table("replays")?;
    let Some((dead_letter, batch)) = row else { return Ok(false) };
    let done = sqlx::query(DEAD_LETTER)
        .bind(&dead_letter)
        .bind(status.as_str())
        .bind(DeadLetterStatus::Replaying.as_str())
        .execute(&mut *connection)
        .await
        .on_table("dead_letters")?;
    at("dead_letters.status", &dead_letter).check_rows_affected(done.rows_affected(), 1)?;
    if let Some(batch) = batch {
        batch_items::set_dead_letter_state(connection, &batch, &dead_letter, state, &outcome.to_string())
            .await?;
    }
    Ok(true)
}
