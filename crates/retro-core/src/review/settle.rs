//! Settling a review: decides which mutation each remark requests, or why it requests no mutation.
//!
//! A review is decided when its wait is over, and again whenever something about it becomes known: a thread
//! was resolved, the author answered "done", a 👍 was given, the same thing was requested on another pull
//! request, or a remark was edited or deleted. An earlier decision is not needed: its requests have effect
//! keys from remark and text, so each happens once.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    AuthorStanding, ReadingKind, Remark, RemarkKey, RemarkReading, RemarkSupport, ReviewKey,
    ReviewedPullRequest, Screening,
};
use crate::finding::{
    CONTENT_CHARS_MAX, LessonCue, MemoryVerdict, QUOTE_CHARS_MAX, Quote, SUBJECT_CHARS_MAX, TITLE_CHARS_MAX,
};
use crate::id::{MemoryId, MutationId, ReviewBatchId, RunId, Tenant, Workflow};
use crate::learn::LessonMatcher;
use crate::memory::{Evidence, Lesson, RemarkSource};
use crate::policy::Policy;
use crate::similarity::{Embedder, VectorCache};
use crate::trajectory::QuotePlace;

/// Maximum number of remarks that are decided together: several times as many as the largest real pull requests
/// have. Callers pass at most this many, oldest first.
pub const REMARKS_MAX: usize = 500;

/// Certainty added by a resolved thread, in thousandths. Small, because the person who merges resolves many
/// threads regardless of their content.
pub const RESOLVED_COUNTS: u16 = 50;
/// Certainty added by the author's "done", in thousandths: the author acted on the remark.
pub const ACKNOWLEDGED_COUNTS: u16 = 100;
/// Certainty added by any number of 👍 reactions, in thousandths. Small, because anybody can add a reaction.
pub const THUMBS_COUNT: u16 = 50;
/// Certainty added by each other pull request on which a person asked for the same thing, in thousandths: a
/// repeated request is not a one-off.
pub const ASKED_AGAIN_COUNTS: u16 = 250;

/// A remark with everything that is known when it is decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadRemark {
    /// The remark.
    pub remark: Remark,
    /// Result of reading it.
    pub reading: RemarkReading,
    /// Evidence besides its words.
    pub support: RemarkSupport,
    /// Result of screening it.
    pub screening: Screening,
}

/// A request on another pull request of the repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherRequest {
    /// Key of the remark.
    pub remark: RemarkKey,
    /// Standing of its author; requests of bots are ignored here.
    pub standing: AuthorStanding,
    /// Title that its reader made of it.
    pub title: String,
}

/// A review that is due for a decision, with everything that the decision needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewBatch {
    /// Id of the decision.
    pub id: ReviewBatchId,
    /// Tenant of the repository.
    pub tenant: Tenant,
    /// Key of the review.
    pub review: ReviewKey,
    /// Remarks of the review, in any order, at most [`REMARKS_MAX`].
    pub remarks: Vec<ReadRemark>,
    /// Requests on other pull requests of the repository whose reading had a rule text, in any order. Their
    /// similarity is checked here.
    pub others: Vec<OtherRequest>,
}

/// Decisions on a review, with the mutations that they request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettledRemarks {
    /// Decision on every remark, by key.
    pub decided: Vec<DecidedRemark>,
    /// Mutations, the highest standing first, then the oldest remark.
    pub mutations: Vec<RuleMutation>,
}

/// Decision on one remark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecidedRemark {
    /// Key of the remark.
    pub remark: RemarkKey,
    /// Certainty that it is a rule, including support, in thousandths.
    pub certainty: u16,
    /// Other pull requests on which a person asked for the same thing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked_on: Vec<ReviewedPullRequest>,
    /// Mutation that it requests, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutation: Option<MutationId>,
    /// Reason in one sentence.
    pub why: String,
}

/// One request of a review, a run or a timer to the writer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleMutation {
    /// Derived from the decision and the index in it.
    pub id: MutationId,
    /// Requested change.
    #[serde(flatten)]
    pub ask: RuleMutationKind,
}

/// Kinds of request to a repository's rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "a review asks for a handful of things; a box would only hide them"
)]
pub enum RuleMutationKind {
    /// A remark states a rule.
    Observe {
        /// Id that a new memory gets.
        memory: MemoryId,
        /// Edition of the remark's text that states it.
        edition: String,
        /// Folder or file that the rule is limited to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// Content of the rule.
        lesson: Lesson,
        /// The remark and its text; `evidence.remark` is always set.
        evidence: Evidence,
        /// Reason why a person has to approve the rule first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        quarantine: Option<String>,
    },
    /// A remark was deleted, or states something else now: rules with no other evidence are deleted.
    Withdraw {
        /// Key of the remark.
        remark: RemarkKey,
        /// Edition of its text when it was decided.
        edition: String,
        /// Reason in one sentence.
        reason: String,
    },
    /// A rule was used in a run.
    Credit {
        /// Id of the rule.
        memory: MemoryId,
        /// Workflow of the run.
        workflow: Workflow,
        /// Id of the run.
        run: RunId,
        /// Verdict on the rule in that run.
        verdict: MemoryVerdict,
        /// Reason given by the investigator.
        reason: String,
    },
    /// Archive rules that no run uses.
    Expire,
}

impl RuleMutationKind {
    /// Returns the kind as stored and shown.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Observe { .. } => "observe",
            Self::Withdraw { .. } => "withdraw",
            Self::Credit { .. } => "credit",
            Self::Expire => "expire",
        }
    }
}

/// Decides which mutations a review requests. Pure: the same remarks give the same mutations in any order.
pub fn settle_review(batch: &ReviewBatch, policy: &Policy, embedder: &dyn Embedder) -> SettledRemarks {
    let mut remarks: Vec<_> = batch.remarks.iter().collect();
    // The highest standing first, so that an insider's remark creates the rule and other remarks add evidence
    // to it. The key breaks ties. Otherwise the result would depend on the order of the rows.
    remarks.sort_by_key(|read| (Reverse(read.remark.standing()), read.remark.at, read.remark.key.clone()));
    remarks.dedup_by(|again, first| again.remark.key == first.remark.key);
    let vectors = VectorCache::new(embedder);
    let settling = ReviewSettler { batch, policy, alike: LessonMatcher { vectors: &vectors, policy } };
    let mut settled = SettledRemarks { decided: Vec::new(), mutations: Vec::new() };
    for read in remarks {
        let (mut decided, ask) = settling.decide_remark(read);
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

struct ReviewSettler<'a> {
    batch: &'a ReviewBatch,
    policy: &'a Policy,
    alike: LessonMatcher<'a, 'a>,
}

impl ReviewSettler<'_> {
    fn decide_remark(&self, read: &ReadRemark) -> (DecidedRemark, Option<RuleMutationKind>) {
        let asked_on = self.find_other_requests(read);
        let certainty = total_certainty(read, asked_on.len());
        let decided = |why: String| DecidedRemark {
            remark: read.remark.key.clone(),
            certainty,
            asked_on: asked_on.clone(),
            mutation: None,
            why,
        };
        match self.no_rule_reason(read, certainty) {
            Some(why) => {
                let gone = read.remark.deleted || read.remark.edited;
                let withdraw = gone.then(|| RuleMutationKind::Withdraw {
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
                (decided(why), self.build_observation(read))
            }
        }
    }

    /// Returns the reason why a remark does not request a rule; `None` when it does.
    fn no_rule_reason(&self, read: &ReadRemark, certainty: u16) -> Option<String> {
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

    fn build_observation(&self, read: &ReadRemark) -> Option<RuleMutationKind> {
        let ReadRemark { remark, reading, screening, .. } = read;
        let rule = reading.rule.as_ref()?;
        let edition = remark.edition();
        let standing = remark.standing();
        let run = RunId::new(remark.key.pull_request.to_string()).ok()?;
        let source =
            RemarkSource { remark: remark.key.clone(), by: remark.by.clone(), standing, at: remark.at };
        let text = remark.body.trim().chars().take(QUOTE_CHARS_MAX).collect();
        Some(RuleMutationKind::Observe {
            memory: MemoryId::of_remark(&self.batch.tenant, &remark.key, &edition),
            edition,
            path: rule.path.clone(),
            lesson: build_lesson(&rule.subject, &rule.title, &rule.content),
            evidence: Evidence {
                run,
                epoch: None,
                quote: Quote { place: QuotePlace::Review, text },
                remark: Some(source),
            },
            quarantine: quarantine_reason(screening, standing),
        })
    }

    /// Returns the other pull requests on which a person asked for the same thing.
    fn find_other_requests(&self, read: &ReadRemark) -> Vec<ReviewedPullRequest> {
        let Some(rule) = &read.reading.rule else { return Vec::new() };
        let here = &read.remark.key.pull_request;
        let wanted = build_lesson(&rule.subject, &rule.title, "");
        let same = |other: &&OtherRequest| {
            other.remark.pull_request != *here
                && other.standing > AuthorStanding::Bot
                && self.alike.same_lesson(&build_lesson("", &other.title, ""), &wanted).is_some()
        };
        let found: BTreeSet<_> =
            self.batch.others.iter().filter(same).map(|other| other.remark.pull_request.clone()).collect();
        found.into_iter().collect()
    }
}

/// Returns the reason why a rule begins in quarantine; `None` when it does not.
fn quarantine_reason(screening: &Screening, standing: AuthorStanding) -> Option<String> {
    if !screening.hostile.is_empty() {
        return Some(format!("its text is taken for hostile: {}", screening.hostile.join("; ")));
    }
    let unknown = standing == AuthorStanding::Outsider;
    unknown.then(|| "whoever asked for it has no standing in the repository".to_owned())
}

/// Returns the reader's certainty plus the support, clamped to 1000.
fn total_certainty(read: &ReadRemark, asked_on: usize) -> u16 {
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

fn build_lesson(subject: &str, title: &str, content: &str) -> Lesson {
    Lesson {
        subject: subject.to_owned(),
        title: title.to_owned(),
        content: content.to_owned(),
        cue: LessonCue::default(),
    }
}
