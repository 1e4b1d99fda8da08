//! Settling a review: what is asked of memory for each remark, and why nothing is asked for the others.
//!
//! A review is decided when its wait is over, and again whenever something was learnt about it: a thread was resolved, the
//! author said "done", a 👍 came, the same was asked on another pull request, a remark was edited or deleted. Nothing of
//! an earlier decision is needed: what it asked for has effect keys of remark and text, so that it happens once.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    PullRequestRef, Reading, ReadingKind, Remark, RemarkKey, ReviewKey, Screening, Standing, Support,
};
use crate::finding::{
    CONTENT_CHARS_MAX, Cue, QUOTE_CHARS_MAX, Quote, SUBJECT_CHARS_MAX, TITLE_CHARS_MAX, Verdict,
};
use crate::id::{MemoryId, MutationId, ReviewBatchId, RunId, Tenant, Workflow};
use crate::learn::Alike;
use crate::memory::{Evidence, Lesson, RemarkSource};
use crate::policy::Policy;
use crate::similar::{Embedder, Vectors};
use crate::trajectory::Place;

/// Most remarks that are decided together: what the largest honest pull requests hold, several times over. The shell hands
/// in no more, the oldest first.
pub const REMARKS_MAX: usize = 500;

/// What a resolved thread counts for, thousandths: many are resolved by whoever merges, whatever was said in them.
pub const RESOLVED_COUNTS: u16 = 50;
/// What the author's "done" counts for: somebody acted on it.
pub const ACKNOWLEDGED_COUNTS: u16 = 100;
/// What a 👍 counts for, however many there are: anybody can give one.
pub const THUMBS_COUNT: u16 = 50;
/// What each other pull request counts for on which a person asked for the same: what is asked again is no one-off.
pub const ASKED_AGAIN_COUNTS: u16 = 250;

/// A remark with everything that is known when it is decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadRemark {
    /// The remark.
    pub remark: Remark,
    /// What the reader made of it.
    pub reading: Reading,
    /// What speaks for it besides its words.
    pub support: Support,
    /// What screening said.
    pub screening: Screening,
}

/// A request that was made elsewhere in the repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherRequest {
    /// The remark.
    pub remark: RemarkKey,
    /// What the word of whoever made it counts for; a bot's counts for nothing here.
    pub standing: Standing,
    /// The title that its reader made of it.
    pub title: String,
}

/// A review whose wait is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewBatch {
    /// The decision's id.
    pub id: ReviewBatchId,
    /// Whose review.
    pub tenant: Tenant,
    /// The review.
    pub review: ReviewKey,
    /// Its remarks, in any order, at most [`REMARKS_MAX`].
    pub remarks: Vec<ReadRemark>,
    /// Requests on other pull requests of the repository whose reading had a rule text; any order. Similarity is judged here.
    pub others: Vec<OtherRequest>,
}

/// What a review asks of memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    /// Every remark with what was decided, by key.
    pub decided: Vec<Decided>,
    /// What is asked, the greatest standing first, then the oldest remark.
    pub mutations: Vec<RuleMutation>,
}

/// What was decided about one remark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    /// The remark.
    pub remark: RemarkKey,
    /// How sure it is a rule, support included, thousandths.
    pub certainty: u16,
    /// Other pull requests on which a person asked for the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked_on: Vec<PullRequestRef>,
    /// What is asked of memory for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutation: Option<MutationId>,
    /// Why, in one sentence.
    pub why: String,
}

/// One request of a review, of a run or of the clock to the writer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleMutation {
    /// Derived from the decision and its place in it.
    pub id: MutationId,
    /// What is asked.
    #[serde(flatten)]
    pub ask: RuleAsk,
}

/// What is asked of a repository's rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "a review asks for a handful of things; a box would only hide them"
)]
pub enum RuleAsk {
    /// A remark states a rule.
    Observe {
        /// The id that a new memory would get.
        memory: MemoryId,
        /// Which of the remark's texts states it.
        edition: String,
        /// The folder or file that it is confined to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// What it says.
        lesson: Lesson,
        /// The remark and its words; `evidence.remark` is there.
        evidence: Evidence,
        /// Why it may not be believed before a person has looked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        quarantine: Option<String>,
    },
    /// A remark was deleted, or says something else now: rules that nothing else speaks for go.
    Withdraw {
        /// The remark.
        remark: RemarkKey,
        /// Which of its texts it was when it was decided.
        edition: String,
        /// Why, in one sentence.
        reason: String,
    },
    /// A rule was used in a run.
    Credit {
        /// The rule.
        memory: MemoryId,
        /// The run's workflow.
        workflow: Workflow,
        /// The run.
        run: RunId,
        /// What it did there: harmed, helped or applied.
        verdict: Verdict,
        /// The investigator's reason.
        reason: String,
    },
    /// Look for rules that nobody uses.
    Expire,
}

impl RuleAsk {
    /// The word as stored and shown.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Observe { .. } => "observe",
            Self::Withdraw { .. } => "withdraw",
            Self::Credit { .. } => "credit",
            Self::Expire => "expire",
        }
    }
}

/// Decides what a review asks of memory. Pure: the same remarks, in whichever order, ask for the same.
pub fn settle(batch: &ReviewBatch, policy: &Policy, embedder: &dyn Embedder) -> Settled {
    let mut remarks: Vec<_> = batch.remarks.iter().collect();
    remarks.sort_by_key(|read| (Reverse(read.remark.standing()), read.remark.at, read.remark.key.clone()));
    remarks.dedup_by(|again, first| again.remark.key == first.remark.key);
    let vectors = Vectors::new(embedder);
    let settling = Settling { batch, policy, alike: Alike { vectors: &vectors, policy } };
    let mut settled = Settled { decided: Vec::new(), mutations: Vec::new() };
    for read in remarks {
        let (mut decided, ask) = settling.decide(read);
        if let Some(ask) = ask {
            let id = MutationId::of_review(batch.id, settled.mutations.len());
            decided.mutation = Some(id);
            settled.mutations.push(RuleMutation { id, ask });
        }
        settled.decided.push(decided);
    }
    settled.decided.sort_by(|a, b| a.remark.cmp(&b.remark));
    settled
}

struct Settling<'a> {
    batch: &'a ReviewBatch,
    policy: &'a Policy,
    alike: Alike<'a, 'a>,
}

impl Settling<'_> {
    fn decide(&self, read: &ReadRemark) -> (Decided, Option<RuleAsk>) {
        let asked_on = self.asked_on(read);
        let certainty = certainty(read, asked_on.len());
        let decided = |why: String| Decided {
            remark: read.remark.key.clone(),
            certainty,
            asked_on: asked_on.clone(),
            mutation: None,
            why,
        };
        match self.no_rule(read, certainty) {
            Some(why) => {
                let gone = read.remark.deleted || read.remark.edited;
                let withdraw = gone.then(|| RuleAsk::Withdraw {
                    remark: read.remark.key.clone(),
                    edition: read.remark.edition(),
                    reason: why.clone(),
                });
                (decided(why), withdraw)
            }
            None => {
                let why = match asked_on.len() {
                    0 => read.reading.why.clone(),
                    n => format!(
                        "{}; a person asked for the same on {n} other pull requests",
                        read.reading.why
                    ),
                };
                (decided(why), self.observe(read))
            }
        }
    }

    /// Why a remark asks for no rule; `None`: it does.
    fn no_rule(&self, read: &ReadRemark, certainty: u16) -> Option<String> {
        let ReadRemark { remark, reading, screening, .. } = read;
        let least = self.policy.rule_certainty_min;
        if remark.deleted {
            return Some("it was deleted".to_owned());
        }
        if remark.by_author {
            return Some(
                "the author of the pull request wrote it: it answers, and asks nothing of others".to_owned(),
            );
        }
        if !matches!(reading.kind, ReadingKind::Rule | ReadingKind::OneOff) {
            return Some(format!("{}: {}", reading.kind.as_str(), reading.why));
        }
        let Some(rule) = &reading.rule else {
            return Some(format!("{}: {}", reading.kind.as_str(), reading.why));
        };
        if let Some(problem) = &screening.not_a_rule {
            return Some(format!("its sentence is no instruction about code: {problem}"));
        }
        let fits = |text: &str, max: usize| (1..=max).contains(&text.trim().chars().count());
        if !(fits(&rule.title, TITLE_CHARS_MAX)
            && fits(&rule.content, CONTENT_CHARS_MAX)
            && fits(&rule.subject, SUBJECT_CHARS_MAX))
        {
            return Some(
                "its sentence, its subject or its content is empty or too long to be kept".to_owned(),
            );
        }
        (certainty < least).then(|| {
            format!(
                "{}: {} ({certainty} of the {least} thousandths that a rule needs)",
                reading.kind.as_str(),
                reading.why
            )
        })
    }

    fn observe(&self, read: &ReadRemark) -> Option<RuleAsk> {
        let ReadRemark { remark, reading, screening, .. } = read;
        let rule = reading.rule.as_ref()?;
        let edition = remark.edition();
        let standing = remark.standing();
        let run = RunId::new(remark.key.pull_request.to_string()).ok()?;
        let source =
            RemarkSource { remark: remark.key.clone(), by: remark.by.clone(), standing, at: remark.at };
        let text = remark.body.trim().chars().take(QUOTE_CHARS_MAX).collect();
        Some(RuleAsk::Observe {
            memory: MemoryId::of_remark(&self.batch.tenant, &remark.key, &edition),
            edition,
            path: rule.path.clone(),
            lesson: lesson(&rule.subject, &rule.title, &rule.content),
            evidence: Evidence {
                run,
                epoch: None,
                quote: Quote { place: Place::Review, text },
                remark: Some(source),
            },
            quarantine: quarantine(screening, standing),
        })
    }

    /// The other pull requests on which a person asked for the same.
    fn asked_on(&self, read: &ReadRemark) -> Vec<PullRequestRef> {
        let Some(rule) = &read.reading.rule else { return Vec::new() };
        let here = &read.remark.key.pull_request;
        let wanted = lesson(&rule.subject, &rule.title, "");
        let same = |other: &&OtherRequest| {
            other.remark.pull_request != *here
                && other.standing > Standing::Bot
                && self.alike.same_lesson(&lesson("", &other.title, ""), &wanted).is_some()
        };
        let found: BTreeSet<_> =
            self.batch.others.iter().filter(same).map(|other| other.remark.pull_request.clone()).collect();
        found.into_iter().collect()
    }
}

/// Why a rule begins in quarantine; `None`: it does not.
fn quarantine(screening: &Screening, standing: Standing) -> Option<String> {
    if !screening.hostile.is_empty() {
        return Some(format!("its text is taken for hostile: {}", screening.hostile.join("; ")));
    }
    let unknown = standing == Standing::Outsider;
    unknown.then(|| "whoever asked for it has no standing in the repository".to_owned())
}

/// What the reader said, and what speaks for it besides, clamped to 1000.
fn certainty(read: &ReadRemark, asked_on: usize) -> u16 {
    let ReadRemark { reading, support, .. } = read;
    let again = ASKED_AGAIN_COUNTS.saturating_mul(u16::try_from(asked_on).unwrap_or(u16::MAX));
    let all = [
        Some(reading.certainty),
        support.resolved.then_some(RESOLVED_COUNTS),
        support.acknowledged.then_some(ACKNOWLEDGED_COUNTS),
        (support.thumbs_up > 0).then_some(THUMBS_COUNT),
        Some(again),
    ];
    all.into_iter().flatten().fold(0u16, u16::saturating_add).min(1000)
}

fn lesson(subject: &str, title: &str, content: &str) -> Lesson {
    Lesson {
        subject: subject.to_owned(),
        title: title.to_owned(),
        content: content.to_owned(),
        cue: Cue::default(),
    }
}
