//! Plays the reviews of a case, one after the other: the reader, the decision on the remarks and the writer's decision, in memory.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use retro_config::Pipeline;
use retro_core::id::{MemoryId, RemarkKey, RemarkKind, Repository, ReviewedPullRequest, Tenant};
use retro_core::learn::{ReviewClosingFacts, RuleFacts, close_review};
use retro_core::memory::{Change, ChangeCause, Memory, Tombstone};
use retro_core::model_use::SpendingLimit;
use retro_core::pipeline::PipelineVersion;
use retro_core::policy::{Policies as _, Policy};
use retro_core::remark::{AuthorAssociation, Remark};
use retro_core::review::{OtherRequest, ReadRemark, ReviewReport};
use retro_core::similarity::NgramEmbedder;
use retro_model::{FailureKind, ModelError, ModelResponse, ScriptedModel, ToolUse};
use retro_reviewer::{
    HeuristicReader, ModelReader, ModelReaderSettings, PlayedReview, RemarkReader, play_review,
};
use retro_store::{PullRequestKey, PullRequestReviews};
use serde_json::json;

use super::expectation::Outcome;
use super::file::{CaseFile, CaseRemark, CaseReview};
use super::journal::ReviewCaseJournal;
use super::play::{OUTPUT_TOKENS_MAX, SCRIPT_PRICE, START};

/// The state of the repository of a case.
pub(super) struct ReviewPlayer<'a> {
    file: &'a CaseFile,
    repo: Repository,
    policy: Policy,
    pipeline: PipelineVersion,
    now: Timestamp,
    rounds: BTreeMap<u64, u64>,
    /// Calls of a model by pull request, as the program stores them.
    journals: BTreeMap<u64, Arc<ReviewCaseJournal>>,
    requests: BTreeMap<RemarkKey, OtherRequest>,
    memories: BTreeMap<MemoryId, Memory>,
    tombstones: BTreeMap<MemoryId, Tombstone>,
    changes: Vec<Change>,
}

impl<'a> ReviewPlayer<'a> {
    /// Prepares the repository of a case, without rules.
    pub(super) fn new(file: &'a CaseFile, pipelines: &Pipeline) -> Self {
        let repo = file.case.repo.as_deref().unwrap_or("acme/shop");
        let repo = Repository::new(repo).expect("it was checked when the case was read");
        Self {
            policy: pipelines.policy_for(&repo.rule_scope(&Tenant::default_tenant())),
            repo,
            file,
            pipeline: pipelines.review().version().clone(),
            now: START.parse().expect("a valid time"),
            rounds: BTreeMap::new(),
            journals: BTreeMap::new(),
            requests: BTreeMap::new(),
            memories: BTreeMap::new(),
            tombstones: BTreeMap::new(),
            changes: Vec::new(),
        }
    }

    /// Plays the case and returns what was not as expected, each with file and line.
    pub(super) async fn play(&mut self) -> Vec<String> {
        let (mut problems, file) = (Vec::new(), self.file);
        for told in &file.case.review {
            let days = told.days_later.as_ref().map_or(0, |days| *days.get_ref());
            self.now += SignedDuration::from_hours(24 * i64::from(days) + 1);
            match self.play_review(told).await {
                Ok(report) => {
                    let outcome = Outcome::of_review(&report, self.memories.values().collect());
                    problems.extend(file.check_all(&told.expect, &outcome));
                }
                // What comes after it would build on something that did not happen.
                Err(problem) => {
                    problems.push(format!("{}: {problem}", file.path.display()));
                    break;
                }
            }
        }
        problems
    }

    async fn play_review(&mut self, told: &CaseReview) -> Result<ReviewReport, String> {
        let pull_request = ReviewedPullRequest { repo: self.repo.clone(), number: told.pull_request };
        let key = PullRequestKey { tenant: Tenant::default_tenant(), pull_request: pull_request.clone() };
        let rounds = self.rounds.entry(told.pull_request).or_default();
        let collected = PullRequestReviews {
            revision: 1,
            rounds: *rounds,
            author: told.author.clone(),
            remarks: (1..)
                .zip(&told.remarks)
                .map(|(id, one)| (to_remark(&pull_request, id, one, self.now), one.thumbs_up))
                .collect(),
            resolved_threads: (1..)
                .zip(&told.remarks)
                .filter(|(_, one)| one.resolved)
                .map(|(id, _)| id)
                .collect(),
            other_requests: self.requests.values().cloned().collect(),
        };
        *rounds += 1;
        let journal = self.journals.entry(told.pull_request).or_default();
        journal.begin_round(*rounds);
        let reader = build_reader(told);
        let played =
            play_review(&key, collected, &*reader, self.pipeline.clone(), &self.policy, journal.clone());
        let played = played.await.map_err(|error| error.to_string())?;
        self.requests.retain(|remark, _| remark.pull_request != pull_request);
        self.requests.extend(played.batch.remarks.iter().filter_map(to_request));
        Ok(self.close(&key, played))
    }

    fn close(&mut self, key: &PullRequestKey, played: PlayedReview) -> ReviewReport {
        let PlayedReview { batch, settled, reading } = played;
        let remarks: HashSet<RemarkKey> = batch.remarks.iter().map(|read| read.remark.key.clone()).collect();
        let of_these = |change: &&Change| matches!(&change.cause, ChangeCause::Review { remark, .. } if remarks.contains(remark));
        let applied: Vec<&Change> = self.changes.iter().filter(of_these).collect();
        let named: HashSet<MemoryId> = applied.iter().map(|change| change.memory).collect();
        let is_needed = |memory: &&Memory| memory.status.is_living() || named.contains(&memory.id);
        let hashes = self.pipeline.hashes();
        let rules = RuleFacts {
            repo: self.repo.clone(),
            rule_scope: self.repo.rule_scope(&key.tenant),
            as_of: self.now,
            policy: self.policy.clone(),
            memories: self.memories.values().filter(is_needed).cloned().collect(),
            tombstones: self.tombstones.values().cloned().collect(),
            applied: applied.iter().map(|change| change.id).collect(),
            uses: BTreeMap::new(),
            feedback: Vec::new(),
            pipeline: Some(hashes.pipeline.clone()),
        };
        let (pipeline, reading) = (Some(hashes.clone()), Some(reading));
        let facts = ReviewClosingFacts { batch, settled, pipeline, reading, rules };
        let closed = close_review(facts, &NgramEmbedder, self.now);
        self.changes.extend(closed.applied.changes);
        self.memories.extend(closed.applied.memories.into_iter().map(|memory| (memory.id, memory)));
        closed.applied.expired.iter().for_each(|id| _ = self.tombstones.remove(id));
        self.tombstones.extend(closed.applied.tombstones.into_iter().map(|one| (one.memory, one)));
        closed.report
    }
}

fn to_remark(pull_request: &ReviewedPullRequest, id: u64, told: &CaseRemark, now: Timestamp) -> Remark {
    Remark {
        key: RemarkKey { pull_request: pull_request.clone(), kind: RemarkKind::LineComment, id },
        review: None,
        review_state: None,
        reply_to: told.reply_to,
        by: told.by.clone(),
        bot: told.bot,
        association: told.association.unwrap_or(AuthorAssociation::Member),
        by_author: false,
        body: told.body.clone(),
        path: told.path.clone(),
        line: None,
        at: now,
        url: None,
        edited: told.edited,
        deleted: false,
        truncated: false,
    }
}

fn to_request(read: &ReadRemark) -> Option<(RemarkKey, OtherRequest)> {
    let (remark, title) = (read.remark.key.clone(), read.reading.rule.as_ref()?.title.clone());
    let request = OtherRequest { remark, standing: read.remark.standing(), title, added_rule: None };
    Some((request.remark.clone(), request))
}

/// Builds the reader of a review: the heuristics, and the scripted model beside them if the review has one.
fn build_reader(told: &CaseReview) -> Box<dyn RemarkReader> {
    if told.model.is_empty() {
        return Box::new(HeuristicReader);
    }
    let script = told.model.clone();
    let model = ScriptedModel::new(move |number, _| {
        let over = || ModelError::new(FailureKind::Unavailable, "the script is over");
        let answer = script.get(number).ok_or_else(over)?;
        if let Some(problem) = answer.get("unavailable") {
            let problem = problem.as_str().unwrap_or("it is away").to_owned();
            return Err(ModelError::new(FailureKind::Unavailable, problem));
        }
        let call = ToolUse {
            id: format!("call-{number}"),
            name: "submit_readings".to_owned(),
            arguments: json!(answer).to_string(),
        };
        Ok(ModelResponse { calls: vec![call], ..ModelResponse::default() })
    });
    let settings = ModelReaderSettings {
        output_tokens_max: OUTPUT_TOKENS_MAX,
        price: Some(SCRIPT_PRICE),
        day: SpendingLimit::default(),
        time_max: Duration::from_secs(3600),
    };
    Box::new(ModelReader::new(Arc::new(model), settings))
}
