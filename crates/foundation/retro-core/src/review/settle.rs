//! Settles a review: decides which mutation each remark requests, or why it requests none.
//!
//! A review is decided after a waiting period, and again whenever something new becomes known about it: a
//! thread was resolved, the author replied "done", a 👍 was added, the same request was made on another pull
//! request, or a remark was edited or deleted. The results of earlier decisions are not needed: the effect
//! keys of the requested changes are derived from the remark and its text, so each change is made only once.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::{ReadingKind, RemarkReading, RemarkSupport, RuleText, Screening};
use crate::feedback::Feedback;
use crate::finding::{
    CONTENT_CHARS_MAX, EvidenceOrigin, LessonCue, MemoryVerdict, QUOTE_CHARS_MAX, Quote, SUBJECT_CHARS_MAX,
    TITLE_CHARS_MAX,
};
use crate::id::{
    MemoryId, MutationId, RemarkKey, ReviewBatchId, ReviewKey, ReviewedPullRequest, RunId, Tenant, Workflow,
};
use crate::matching::LessonMatcher;
use crate::memory::{Evidence, Lesson, Memory, MemoryScope, MutationSummary, RemarkSource};
use crate::policy::Policy;
use crate::remark::{AuthorStanding, Remark};
use crate::similarity::{ComparesTexts, Embedder, NgramEmbedder, VectorCache};
use crate::trajectory::QuotePlace;

/// Maximum number of remarks that are decided together, several times as many as the largest real pull
/// requests have. Callers pass at most this many, oldest first.
pub const REMARKS_MAX: usize = 500;

/// Certainty added by a resolved thread, in thousandths. Small, because the person who merges resolves many
/// threads regardless of their content.
pub const RESOLVED_COUNTS: u16 = 50;
/// Certainty added if the author replies "done", in thousandths. Such an author acted on the remark.
pub const ACKNOWLEDGED_COUNTS: u16 = 100;
/// Certainty added by 👍 reactions, whatever their number, in thousandths. Small, because anybody can react.
pub const THUMBS_COUNT: u16 = 50;
/// Certainty added by each other pull request on which a person made the same request, in thousandths. A
/// repeated request is not a one-off.
pub const ASKED_AGAIN_COUNTS: u16 = 250;

/// A remark with everything known about it at the time of the decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadRemark {
    /// Remark as collected.
    pub remark: Remark,
    /// Result of reading the remark.
    pub reading: RemarkReading,
    /// Evidence for a rule, apart from the words of the remark.
    pub support: RemarkSupport,
    /// Result of screening the text.
    pub screening: Screening,
}

/// A request for a rule on another pull request of the repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherRequest {
    /// Key of the remark.
    pub remark: RemarkKey,
    /// Standing of the author. Requests of bots are ignored.
    pub standing: AuthorStanding,
    /// Title that the reader gave the rule.
    pub title: String,
    /// Scope of the rule that a person made of the request; `None` if nobody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_rule: Option<MemoryScope>,
}

impl OtherRequest {
    /// Returns the requests for a rule that a person made of remarks: in the words of the rule, and in those of the
    /// remarks. A promotion counts like a request of an insider.
    pub fn of_added_rule(rule: &Memory) -> Vec<Self> {
        if rule.added_by.is_none() || !rule.status.is_living() {
            return Vec::new();
        }
        let remarks = rule.evidence.iter().filter_map(|evidence| evidence.remark.as_ref());
        let worded = worded_requests(rule).map(|(source, lesson)| (source.clone(), lesson.title));
        let titled = remarks.map(|source| (source.clone(), rule.lesson.title.clone()));
        let request = |(source, title): (RemarkSource, String)| Self {
            remark: source.remark,
            standing: AuthorStanding::Insider,
            title,
            added_rule: Some(rule.scope.clone()),
        };
        titled.chain(worded).map(request).collect()
    }
}

/// Returns the remarks behind a rule that a person made of them in other words, each as the lesson with which a request
/// is compared. Only short ones: a long remark is about more than one thing.
pub(crate) fn worded_requests(rule: &Memory) -> impl Iterator<Item = (&RemarkSource, Lesson)> {
    let is_worded = rule.added_by.is_some() && rule.lesson.worded_by.is_some();
    let remarks = rule.evidence.iter().filter(move |_| is_worded).filter_map(|evidence| {
        let line = evidence.quote.text.split_whitespace().collect::<Vec<_>>().join(" ");
        Some((evidence.remark.as_ref()?, line))
    });
    remarks
        .filter(|(_, line)| line.chars().count() <= TITLE_CHARS_MAX)
        .map(|(source, line)| (source, build_lesson("", &line, "")))
}

/// A review to be decided, with everything that the decision depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewBatch {
    /// Id of the decision.
    pub id: ReviewBatchId,
    /// Tenant of the repository.
    pub tenant: Tenant,
    /// Key of the review.
    pub review: ReviewKey,
    /// Remarks of the review in any order, at most [`REMARKS_MAX`].
    pub remarks: Vec<ReadRemark>,
    /// Remarks on other pull requests of the repository for which the reader phrased a rule, in any order.
    /// [`settle_review`] compares them with the remarks of this review.
    pub others: Vec<OtherRequest>,
}

impl ReviewBatch {
    /// Returns the requests on other pull requests that a rule of this review is compared with.
    fn requests_elsewhere(&self, remark: &Remark) -> impl Iterator<Item = &OtherRequest> {
        let here = remark.key.pull_request.clone();
        self.others
            .iter()
            .filter(move |other| other.remark.pull_request != here && other.standing > AuthorStanding::Bot)
    }
}

impl ComparesTexts for ReviewBatch {
    fn texts_to_compare(&self) -> Vec<String> {
        // Only for its cache: no text is embedded here.
        let features = VectorCache::new(&NgramEmbedder);
        let (mut wanted, mut elsewhere) = (Vec::new(), BTreeSet::new());
        for read in &self.remarks {
            let Some(lesson) = read.reading.rule.as_ref().map(wanted_lesson) else { continue };
            let may_be_same = |other: &&OtherRequest| features.may_merge(&other_lesson(other), &lesson);
            let others = self.requests_elsewhere(&read.remark).filter(may_be_same);
            let titles: Vec<&String> = others.map(|other| &other.title).collect();
            if !titles.is_empty() {
                elsewhere.extend(titles);
                wanted.push(lesson.title);
            }
        }
        let mut seen = BTreeSet::new();
        let all = wanted.iter().chain(elsewhere);
        all.filter(|text| seen.insert(*text)).cloned().collect()
    }
}

/// Decisions on the remarks of a review, with the requested mutations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettledRemarks {
    /// Decisions on all remarks, sorted by key.
    pub decided: Vec<DecidedRemark>,
    /// Requested mutations, sorted by standing of the author (highest first) and then by age of the remark
    /// (oldest first).
    pub mutations: Vec<RuleMutation>,
}

/// Decision on one remark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecidedRemark {
    /// Key of the remark.
    pub remark: RemarkKey,
    /// Certainty that the remark states a rule, including the support, in thousandths.
    pub certainty: u16,
    /// Other pull requests on which a person made the same request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requested_on: Vec<ReviewedPullRequest>,
    /// Id of the mutation that the remark requests; `None` if it requests none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutation: Option<MutationId>,
    /// Reason for the decision, in one sentence.
    pub reason: String,
}

/// A request to the writer to change a repository's rules, made by a review, a run or a timer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleMutation {
    /// Id derived from the decision and the index of the mutation in it.
    pub id: MutationId,
    /// Requested change with its arguments.
    #[serde(flatten)]
    pub request: RuleMutationKind,
}

/// Kind of a request to change a repository's rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "a review asks for a handful of things; a box would only hide them"
)]
#[derive(IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum RuleMutationKind {
    /// A remark states a rule. Creates or confirms the rule, or adds evidence to it.
    Observe {
        /// Id that the memory gets if the rule is new.
        memory: MemoryId,
        /// Edition of the remark's text that states the rule.
        edition: String,
        /// Folder or file to which the rule is limited; `None` for the whole repository.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// Lesson of the rule.
        lesson: Lesson,
        /// Evidence for the rule: the remark and its text. `evidence.remark` is always set.
        evidence: Evidence,
        /// Reason why an operator has to approve the rule first; `None` if the rule is not quarantined.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        quarantine: Option<String>,
    },
    /// A remark was deleted or no longer states a rule. Deletes the rules without other evidence.
    Withdraw {
        /// Key of the remark.
        remark: RemarkKey,
        /// Edition of the remark's text at the time of the decision.
        edition: String,
        /// Reason for the withdrawal, in one sentence.
        reason: String,
    },
    /// A run got a verdict on a rule that was presented to it.
    Credit {
        /// Id of the rule.
        memory: MemoryId,
        /// Workflow of the run.
        workflow: Workflow,
        /// Id of the run.
        run: RunId,
        /// Verdict on the rule in that run.
        verdict: MemoryVerdict,
        /// Reason for the verdict, as given by the investigator.
        reason: String,
    },
    /// Somebody says what a rule did. Only the closing of a batch requests it; no stored batch contains it.
    Feedback {
        /// What was said.
        feedback: Feedback,
    },
    /// Archives rules that were presented many times and not used.
    Expire,
}

impl RuleMutationKind {
    /// Returns the kind of the mutation as it is stored and shown.
    pub fn as_str(&self) -> &'static str {
        self.into()
    }

    /// Summarizes the mutation for reports.
    pub(crate) fn summarize(&self) -> MutationSummary {
        let (run, about) = match self {
            Self::Observe { lesson, evidence, .. } => (Some(evidence.run.clone()), lesson.title.clone()),
            Self::Withdraw { remark, .. } => (None, remark.to_string()),
            Self::Credit { memory, run, verdict, .. } => {
                (Some(run.clone()), format!("{memory}: {}", verdict.as_str()))
            }
            Self::Feedback { feedback } => feedback.summarize(),
            Self::Expire => (None, "the rules that these runs were presented with".to_owned()),
        };
        MutationSummary { kind: self.as_str().to_owned(), run, about }
    }
}

/// Decides which mutations a review requests. Pure: the same remarks in any order give the same mutations.
pub fn settle_review(batch: &ReviewBatch, policy: &Policy, embedder: &dyn Embedder) -> SettledRemarks {
    let mut remarks: Vec<_> = batch.remarks.iter().collect();
    // The highest standing comes first, so an insider's remark creates the rule and other remarks add
    // evidence to it. The key breaks ties, or the result would depend on the order of the rows.
    remarks.sort_by_key(|read| (Reverse(read.remark.standing()), read.remark.at, read.remark.key.clone()));
    remarks.dedup_by(|again, first| again.remark.key == first.remark.key);
    let vectors = VectorCache::new(embedder);
    let settling = ReviewSettler { batch, policy, alike: LessonMatcher { vectors: &vectors, policy } };
    let mut settled = SettledRemarks { decided: Vec::new(), mutations: Vec::new() };
    for read in remarks {
        let (mut decided, request) = settling.decide_remark(read);
        if let Some(request) = request {
            let id = MutationId::of_review(batch.id, settled.mutations.len());
            decided.mutation = Some(id);
            settled.mutations.push(RuleMutation { id, request });
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
        let requested_on = self.find_other_requests(read);
        let certainty = total_certainty(read, requested_on.len());
        let decided = |reason: String| DecidedRemark {
            remark: read.remark.key.clone(),
            certainty,
            requested_on: requested_on.clone(),
            mutation: None,
            reason,
        };
        // A person has said that this is a rule, so nobody who asks for it again has to be certain.
        let is_known = self.asks_for_added_rule(read);
        match self.no_rule_reason(read, if is_known { 1000 } else { certainty }) {
            Some(reason) => {
                // Only a deletion or an edit withdraws a rule; lost support, such as a reopened thread, does
                // not.
                let gone = read.remark.deleted || read.remark.edited;
                let withdraw = gone.then(|| RuleMutationKind::Withdraw {
                    remark: read.remark.key.clone(),
                    edition: read.remark.edition(),
                    reason: reason.clone(),
                });
                (decided(reason), withdraw)
            }
            None => {
                let reason = match requested_on.len() {
                    _ if is_known => format!("{}; a person has made it a rule", read.reading.reason),
                    0 => read.reading.reason.clone(),
                    n => format!(
                        "{}; a person asked for the same on {n} other pull requests",
                        read.reading.reason
                    ),
                };
                (decided(reason), self.build_observation(read))
            }
        }
    }

    /// Returns the reason why a remark does not request a rule, or `None` if it requests one.
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
            return Some(format!("{}: {}", reading.kind.as_str(), reading.reason));
        }
        let Some(rule) = &reading.rule else {
            return Some(format!("{}: {}", reading.kind.as_str(), reading.reason));
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
                reading.reason
            )
        })
    }

    fn build_observation(&self, read: &ReadRemark) -> Option<RuleMutationKind> {
        let ReadRemark { remark, reading, screening, .. } = read;
        let rule = reading.rule.as_ref()?;
        let edition = remark.edition();
        let standing = remark.standing();
        Some(RuleMutationKind::Observe {
            memory: MemoryId::of_remark(&self.batch.tenant, &remark.key, &edition),
            edition,
            path: rule.path.clone(),
            lesson: build_lesson(&rule.subject, &rule.title, &rule.content),
            evidence: remark_evidence(remark)?,
            quarantine: quarantine_reason(screening, standing),
        })
    }

    /// Returns `true` if the remark asks for a rule that a person made of a request on another pull request.
    fn asks_for_added_rule(&self, read: &ReadRemark) -> bool {
        let Some(rule) = &read.reading.rule else { return false };
        let repo = read.remark.key.pull_request.repo.to_string();
        let (wanted, scope) =
            (wanted_lesson(rule), MemoryScope::Repository { repo, path: rule.path.clone() });
        self.batch.requests_elsewhere(&read.remark).any(|other| {
            other.added_rule.as_ref() == Some(&scope)
                && self.alike.same_lesson(&other_lesson(other), &wanted).is_some()
        })
    }

    /// Returns the other pull requests on which a person made the same request.
    fn find_other_requests(&self, read: &ReadRemark) -> Vec<ReviewedPullRequest> {
        let Some(wanted) = read.reading.rule.as_ref().map(wanted_lesson) else { return Vec::new() };
        let same = |other: &&OtherRequest| self.alike.same_lesson(&other_lesson(other), &wanted).is_some();
        let others = self.batch.requests_elsewhere(&read.remark).filter(same);
        let found: BTreeSet<_> = others.map(|other| other.remark.pull_request.clone()).collect();
        found.into_iter().collect()
    }
}

/// Returns the reason why a new rule starts in quarantine, or `None` if it does not.
fn quarantine_reason(screening: &Screening, standing: AuthorStanding) -> Option<String> {
    if !screening.hostile.is_empty() {
        return Some(format!("its text is taken for hostile: {}", screening.hostile.join("; ")));
    }
    let unknown = standing == AuthorStanding::Outsider;
    unknown.then(|| "whoever asked for it has no standing in the repository".to_owned())
}

/// Sums the certainty of the reading and the support, capped at 1000 thousandths.
fn total_certainty(read: &ReadRemark, requested_on: usize) -> u16 {
    let ReadRemark { reading, support, .. } = read;
    let again = ASKED_AGAIN_COUNTS.saturating_mul(u16::try_from(requested_on).unwrap_or(u16::MAX));
    let all = [
        Some(reading.certainty),
        support.resolved.then_some(RESOLVED_COUNTS),
        support.acknowledged.then_some(ACKNOWLEDGED_COUNTS),
        (support.thumbs_up > 0).then_some(THUMBS_COUNT),
        Some(again),
    ];
    all.into_iter().flatten().fold(0u16, u16::saturating_add).min(1000)
}

/// Returns the lesson of a remark's rule, as it is compared with other requests.
fn wanted_lesson(rule: &RuleText) -> Lesson {
    build_lesson(&rule.subject, &rule.title, "")
}

/// Returns the lesson of a request on another pull request, as it is compared with a remark's rule.
fn other_lesson(other: &OtherRequest) -> Lesson {
    build_lesson("", &other.title, "")
}

/// Returns the evidence that a remark is for a rule, or `None` if the name of its pull request is too long.
pub(crate) fn remark_evidence(remark: &Remark) -> Option<Evidence> {
    let text = remark.body.trim().chars().take(QUOTE_CHARS_MAX).collect();
    Some(Evidence {
        run: RunId::new(remark.key.pull_request.to_string()).ok()?,
        epoch: None,
        quote: Quote { place: QuotePlace::Review, text },
        remark: Some(RemarkSource {
            remark: remark.key.clone(),
            by: remark.by.clone(),
            standing: remark.standing(),
            at: remark.at,
        }),
        origin: EvidenceOrigin::default(),
    })
}

/// Creates the lesson of a rule.
pub(crate) fn build_lesson(subject: &str, title: &str, content: &str) -> Lesson {
    Lesson {
        subject: subject.to_owned(),
        title: title.to_owned(),
        content: content.to_owned(),
        cue: LessonCue::default(),
        worded_by: None,
    }
}
