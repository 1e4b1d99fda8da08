//! Many letters at once.

use retro_core::id::{BatchId, DeadLetterId, Tenant};
use retro_core::replay::{BATCH_LETTERS_MAX, Pace};
use retro_store::{
    BatchCancelled, BatchLetter, BatchRow, DeadLetter, DeadLetterFilter, Discarded, LetterStatus, NewBatch,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Chosen, LetterTold, ReplayError, Replays, letters};
use crate::dead_letters::LetterSearch;
use crate::grid::grid;
use crate::steer::{Did, whose};
use crate::words;

/// Letters put aside in one transaction: a tenth of a second, so that a counter that waits for it hardly notices.
const DISCARDED_AT_ONCE: usize = 200;

/// A batch that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Started {
    /// Its id.
    #[schema(value_type = String)]
    pub batch: BatchId,
    /// Letters in it.
    pub letters: u64,
}

impl Replays {
    /// The letters that are meant, the oldest first; without a status those that nobody has acted on, unless they are
    /// named.
    pub(super) async fn choose(
        &self,
        tenant: &Tenant,
        chosen: &Chosen,
    ) -> Result<Vec<DeadLetter>, ReplayError> {
        if chosen.search.is_empty() && !chosen.all {
            return Err(ReplayError::NothingChosen);
        }
        let mut search: LetterSearch = chosen.search.clone();
        search.filter.behind = None;
        search.filter.limit = BATCH_LETTERS_MAX + 1;
        if search.filter.ids.is_empty() {
            search.filter.status.get_or_insert(LetterStatus::Open);
        }
        let found = search.find(&*self.store, tenant, &*self.redact).await?;
        let mut letters = found.letters;
        if found.cut || letters.len() > BATCH_LETTERS_MAX as usize {
            return Err(ReplayError::TooMany);
        }
        letters.reverse();
        Ok(letters)
    }

    /// The ids of the letters that are meant now, the oldest first.
    pub async fn chosen(&self, tenant: &Tenant, chosen: &Chosen) -> Result<Vec<DeadLetterId>, ReplayError> {
        Ok(self.choose(tenant, chosen).await?.into_iter().map(|letter| letter.id).collect())
    }

    /// Starts a batch over the letters that are meant now: the relay's process goes on with it.
    pub async fn many(
        &self,
        tenant: &Tenant,
        chosen: &Chosen,
        pace: Pace,
        by: &str,
        reason: &str,
    ) -> Result<Started, ReplayError> {
        pace.check()?;
        let act = self.act(by, reason)?;
        let letters = self.choose(tenant, chosen).await?;
        if letters.is_empty() {
            return Err(ReplayError::NoneFits);
        }
        let asked = (self.redact)(&in_words(&chosen.search));
        let letters: Vec<_> = letters.iter().map(|letter| (letter.id, letter.status)).collect();
        let count = letters.len() as u64;
        let batch = self.store.start_batch(tenant, &NewBatch { asked, letters, pace, act }).await?;
        Ok(Started { batch, letters: count })
    }

    /// Puts the letters aside that are meant now.
    pub async fn discard(
        &self,
        tenant: &Tenant,
        chosen: &Chosen,
        by: &str,
        reason: &str,
    ) -> Result<LetterTold, ReplayError> {
        let act = self.act(by, reason)?;
        let chosen = self.choose(tenant, chosen).await?;
        let ids: Vec<DeadLetterId> = chosen.iter().map(|letter| letter.id).collect();
        let mut answers = Vec::with_capacity(ids.len());
        for some in ids.chunks(DISCARDED_AT_ONCE) {
            answers.extend(self.store.discard(tenant, some, &act).await?);
        }
        let now = answers.iter().filter(|answer| **answer == Discarded::Now).count();
        let (did, left) = (if now > 0 { Did::Done } else { Did::DoneBefore }, answers.len() - now);
        let detail = match left {
            0 => format!("{} put aside", letters(now)),
            left => format!(
                "{} put aside; {} left as they were, since somebody had acted on them",
                letters(now),
                left
            ),
        };
        Ok(LetterTold { did, replay: None, retrospective: None, epoch: None, detail })
    }

    /// Calls a batch off: it takes up no more letters. `None` when the tenant has no such batch.
    pub async fn cancel_batch(
        &self,
        tenant: &Tenant,
        id: BatchId,
        by: &str,
        reason: &str,
    ) -> Result<Option<(Did, BatchRow)>, ReplayError> {
        let act = self.act(by, reason)?;
        Ok(match self.store.cancel_batch(tenant, id, &act).await? {
            BatchCancelled::Unknown => None,
            BatchCancelled::Now(row) => Some((Did::Done, row)),
            BatchCancelled::Ended(row) => Some((Did::DoneBefore, row)),
        })
    }
}

impl Replays {
    /// What came of letters may quote them.
    pub fn redacted(&self, mut letters: Vec<BatchLetter>) -> Vec<BatchLetter> {
        letters
            .iter_mut()
            .for_each(|letter| letter.told = letter.told.as_deref().map(|told| (self.redact)(told)));
        letters
    }
}

/// A search in words, for whoever looks at the batch later.
fn in_words(search: &LetterSearch) -> String {
    let DeadLetterFilter { ids, code, consumer, workflow, since, until, status, behind: _, limit: _ } =
        &search.filter;
    let say = |what: &str, value: Option<String>| value.map(|value| format!("{what} {value}"));
    let said: Vec<String> = [
        (!ids.is_empty()).then(|| format!("{} by id", letters(ids.len()))),
        say("code", code.map(|code| code.to_string())),
        say("role", consumer.clone()),
        say("workflow", workflow.as_ref().map(|name| words::line(name.as_str()))),
        say("since", since.map(words::moment)),
        say("until", until.map(words::moment)),
        say("text", search.text.clone()),
        say("status", status.map(|status| status.as_str().to_owned())),
    ]
    .into_iter()
    .flatten()
    .collect();
    if said.is_empty() { "all".to_owned() } else { said.join(", ") }
}

/// How far a batch is, in one line.
pub fn progress(row: &BatchRow) -> String {
    let retro_core::replay::Progress { waiting, under_way, handled, failed, skipped } = row.progress;
    format!(
        "{}: {handled} handled, {failed} failed again, {skipped} left alone, {under_way} under way, {waiting} waiting",
        row.state.as_str()
    )
}

/// Batches for a terminal of `columns`.
pub fn batches(rows: &[BatchRow], columns: u16) -> String {
    if rows.is_empty() {
        return "no batches\n".to_owned();
    }
    let row = |row: &BatchRow| {
        let asked = format!("{} — {}", words::line(&row.asked), words::line(&row.act.reason));
        [words::moment(row.created_at), words::line(&row.act.by), progress(row), asked, row.id.to_string()]
    };
    grid(columns, ["asked for", "by", "how far", "for", "id"], rows.iter().map(row).collect())
}

/// One batch with its letters, for a terminal of `columns`.
pub fn batch(row: &BatchRow, of: &[BatchLetter], columns: u16) -> String {
    let ended =
        row.ended.as_deref().map(|why| format!("ended      {}\n", words::line(why))).unwrap_or_default();
    let pace = &row.pace;
    let head = format!(
        "batch {}\n\nstate      {}\nasked      {}\nwhy        {}\npace       {} letters a second at the most, {} first; stops when more than {} % fail\n{ended}\n",
        row.id,
        progress(row),
        words::line(&row.asked),
        whose(&row.act),
        f64::from(pace.rate_milli) / 1000.0,
        pace.canary,
        f64::from(pace.failed_permille_max) / 10.0,
    );
    let line = |one: &BatchLetter| {
        let told = words::line(one.told.as_deref().unwrap_or_default());
        [one.place.to_string(), one.state.clone(), told, one.letter.to_string()]
    };
    format!(
        "{head}{}",
        grid(columns, ["place", "state", "what came of it", "letter"], of.iter().map(line).collect())
    )
}
