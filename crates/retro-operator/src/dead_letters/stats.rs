//! Dead letters by mistake: a thousand letters of one broken emitter are one line.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use jiff::Timestamp;
use retro_core::dead_letter::shape;
use retro_core::id::{DeadLetterId, Tenant, Workflow};
use retro_store::{DeadLetter, DeadLetterFilter, LetterCount, LetterStatus, OperatorStore, StoreError};
use serde::Serialize;

use super::{LetterSearch, Redact};
use crate::grid::grid;
use crate::words;

/// Letters of one mistake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LetterGroup {
    /// Why they were given up: the code.
    pub code: &'static str,
    /// The path of the field that is to blame, without the numbers in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The sentence they share, redacted: what is quoted is `…`, and a word with a digit `#`.
    pub sentence: String,
    /// The consumer that gave up, named like its role.
    pub consumer: String,
    /// The workflow of the subject; `None` when it could not be read.
    pub workflow: Option<Workflow>,
    /// How many there are.
    pub letters: u64,
    /// How many of them nobody has acted on.
    pub open: u64,
    /// When the first was given up.
    pub first_seen: Timestamp,
    /// When the last was given up.
    pub last_seen: Timestamp,
    /// The last one, as an example.
    pub example: DeadLetterId,
}

/// Groups of letters, the largest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LetterStats {
    /// The groups.
    pub groups: Vec<LetterGroup>,
    /// Letters in them.
    pub letters: u64,
    /// Whether there are more than were counted; the oldest are missing.
    pub cut: bool,
}

impl LetterSearch {
    /// Groups what is searched; the filter's limit does not matter. With a text each letter is read and redacted, so that
    /// only the newest 20,000 are looked at; the answer says when there are older ones.
    pub async fn stats(
        &self,
        store: &dyn OperatorStore,
        tenant: &Tenant,
        redact: Redact<'_>,
    ) -> Result<LetterStats, StoreError> {
        if let Some(text) = self.text.as_ref().map(|text| text.to_lowercase()) {
            let mut counts = Vec::new();
            let take = |letter| {
                counts.push(counted(&letter));
                ControlFlow::Continue(())
            };
            let cut = self.each(&text, store, tenant, redact, take).await?;
            return Ok(LetterStats::of(counts, cut, redact));
        }
        let filter = DeadLetterFilter { limit: SENTENCES_MAX, ..self.filter.clone() };
        let counts = store.counts(tenant, &filter).await?;
        let cut = counts.len() == SENTENCES_MAX as usize;
        Ok(LetterStats::of(counts, cut, redact))
    }
}

/// Sentences that differ in a word, read at once: far more than mistakes there are.
const SENTENCES_MAX: u32 = 10_000;

impl LetterStats {
    /// Groups what was counted. A sentence is redacted before what varies is taken out of it.
    pub fn of(counts: impl IntoIterator<Item = LetterCount>, cut: bool, redact: Redact<'_>) -> Self {
        let mut groups: BTreeMap<_, LetterGroup> = BTreeMap::new();
        for count in counts {
            let group = LetterGroup::of(count, redact);
            let key = (
                group.code,
                group.path.clone(),
                group.sentence.clone(),
                group.consumer.clone(),
                group.workflow.clone(),
            );
            match groups.remove(&key) {
                Some(same) => groups.insert(key, same.join(&group)),
                None => groups.insert(key, group),
            };
        }
        let mut groups: Vec<_> = groups.into_values().collect();
        groups.sort_by_key(|group| std::cmp::Reverse((group.letters, group.last_seen)));
        let letters = groups.iter().map(|group| group.letters).sum();
        Self { groups, letters, cut }
    }

    /// The groups for a terminal of `columns`.
    pub fn text(&self, columns: u16) -> String {
        if self.groups.is_empty() {
            return "no dead letters\n".to_owned();
        }
        let rows =
            grid(columns, ["letters", "open", "what"], self.groups.iter().map(LetterGroup::row).collect());
        let (letters, groups) =
            (words::count(self.letters, "letter"), words::count(self.groups.len() as u64, "group"));
        let cut = if self.cut { "; older ones were not counted, filter to see them" } else { "" };
        format!("{rows}\n{letters} in {groups}, each with its last one's id{cut}\n")
    }
}

impl LetterGroup {
    fn of(count: LetterCount, redact: Redact<'_>) -> Self {
        let LetterCount { rejection, consumer, workflow, letters, open, first_seen, last_seen, example } =
            count;
        Self {
            code: rejection.code.as_str(),
            path: rejection.path.map(|path| shape(&redact(&path))),
            sentence: words::short(&shape(&redact(&rejection.detail)), SENTENCE_CHARS_MAX),
            consumer,
            workflow,
            letters,
            open,
            first_seen,
            last_seen,
            example,
        }
    }

    /// Both as one; the example is the newer's.
    fn join(self, other: &Self) -> Self {
        let newer = if other.last_seen > self.last_seen { other.example } else { self.example };
        Self {
            letters: self.letters + other.letters,
            open: self.open + other.open,
            first_seen: self.first_seen.min(other.first_seen),
            last_seen: self.last_seen.max(other.last_seen),
            example: newer,
            ..self
        }
    }

    /// Few columns, since the sentence needs the width of a terminal; what belongs to it stands below.
    fn row(&self) -> [String; 3] {
        let workflow =
            self.workflow.as_ref().map_or_else(|| "unreadable".to_owned(), |name| words::line(name.as_str()));
        let at = self.path.as_deref().map(|path| format!(" at {}", words::line(path))).unwrap_or_default();
        let (first, last) = (words::moment(self.first_seen), words::moment(self.last_seen));
        let what = format!(
            "{}{at}: {}\n{} · workflow {workflow}\nfirst seen {first}, last seen {last}\n{}",
            self.code,
            words::line(&self.sentence),
            self.consumer,
            self.example,
        );
        [self.letters.to_string(), self.open.to_string(), what]
    }
}

/// Longest sentence of a group, characters: what tells mistakes apart stands at its beginning.
const SENTENCE_CHARS_MAX: usize = 200;

/// One letter as counted: for those that were found by a text, which no database can search.
pub(crate) fn counted(letter: &DeadLetter) -> LetterCount {
    LetterCount {
        rejection: letter.letter.rejection.clone(),
        consumer: letter.letter.position.consumer.clone(),
        workflow: letter.letter.workflow.clone(),
        letters: 1,
        open: u64::from(letter.status == LetterStatus::Open),
        first_seen: letter.created_at,
        last_seen: letter.created_at,
        example: letter.id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dead_letters::tests::letter;
    use crate::world::hour;

    fn redact(text: &str) -> String {
        text.replace("hunter2", "[redacted]")
    }

    #[test]
    fn letters_of_one_mistake_are_one_group_with_its_first_and_last() {
        let of = |sentence: &str, at, workflow: &str| {
            let mut one = letter(Some("default"), sentence.as_bytes());
            one.letter.rejection.detail = sentence.to_owned();
            one.letter.rejection.path = Some(format!("data.steps[{at}].text"));
            one.letter.workflow = Some(workflow.parse().unwrap());
            one.created_at = hour(at);
            if at == 2 {
                one.status = LetterStatus::Replayed;
            }
            (one.id, counted(&one))
        };
        let letters = [
            of("byte 17 of `hunter2` is wrong", 1, "shop"),
            of("byte 4 of `other` is wrong", 3, "shop"),
            of("byte 9 of `x` is wrong", 2, "shop"),
            of("byte 9 of `x` is wrong", 5, "release"),
            of("the hunter2 is missing", 4, "shop"),
        ];
        let newest = letters[1].0;
        let stats = LetterStats::of(letters.map(|(_, count)| count), false, &redact);
        assert_eq!((stats.groups.len(), stats.letters), (3, 5));
        let first = &stats.groups[0];
        assert_eq!((first.letters, first.open, first.example), (3, 2, newest));
        assert_eq!((first.first_seen, first.last_seen), (hour(1), hour(3)));
        assert_eq!(first.sentence, "byte # of `…` is wrong");
        let shown = format!("{}{}", stats.text(200), serde_json::to_string(&stats).unwrap());
        assert!(!shown.contains("hunter2") && shown.contains("[redacted]"), "{shown}");
        insta::assert_snapshot!(stats.text(200));
        assert_eq!(LetterStats::of([], false, &redact).text(80), "no dead letters\n");
    }
}
