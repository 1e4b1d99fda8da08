//! State of the writer while it applies a batch of mutations to the rules of a repository.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;

use crate::id::{ChangeId, MemoryId, Repository, WorkflowKey};
use crate::learn::WaitingFeedback;
use crate::matching::LessonMatcher;
use crate::memory::{LedgerFacts, Lesson, Memory, MemoryLedger, MemoryScope, OutcomeReason, Tombstone};
use crate::pipeline::PipelineHash;
use crate::policy::Policy;
use crate::review::{RuleMutation, RuleMutationKind, worded_requests};
use crate::similarity::{ComparedLessons, Embedder, VectorCache};

/// Stored facts that the writer needs to decide about a repository's rules, read under the lock of the rule
/// scope.
#[derive(Debug, Clone)]
pub struct RuleFacts {
    /// Repository that the rules belong to.
    pub repo: Repository,
    /// Rule scope of the repository, as returned by [`Repository::rule_scope`].
    pub rule_scope: WorkflowKey,
    /// Policy time of the decision.
    pub as_of: Timestamp,
    /// Policy of the rule scope.
    pub policy: Policy,
    /// All living memories of the repository, and all others that the batch names or that a change in
    /// `applied` refers to.
    pub memories: Vec<Memory>,
    /// Tombstones of the rule scope, including expired ones.
    pub tombstones: Vec<Tombstone>,
    /// Ids of the rule scope's stored changes that were caused by a remark (in any edition) or a run of the
    /// batch. These changes are not made again.
    pub applied: HashSet<ChangeId>,
    /// Use counts of the rules that the batch credits, including the runs of the batch. Needed only for
    /// [`RuleMutationKind::Expire`](crate::review::RuleMutationKind::Expire).
    pub uses: BTreeMap<MemoryId, RuleUse>,
    /// Waiting feedback on rules of the repository.
    pub feedback: Vec<WaitingFeedback>,
    /// Version of the pipeline under which the batch was decided; `None` if it was decided under none.
    pub pipeline: Option<PipelineHash>,
}

impl RuleFacts {
    /// Returns every text that applying the batch may compare, each once and those of the remarks first.
    pub fn texts_to_compare(&self, batch: &[RuleMutation]) -> Vec<String> {
        let observed: Vec<(MemoryScope, &Lesson)> = batch
            .iter()
            .filter_map(|mutation| match &mutation.request {
                RuleMutationKind::Observe { path, lesson, .. } => {
                    Some((repository_scope(&self.repo, path.clone()), lesson))
                }
                _ => None,
            })
            .collect();
        let mut compared = ComparedLessons::default();
        for (scope, lesson) in &observed {
            compared.add_new(scope, lesson);
        }
        // An existing rule that is asked for again is compared with the other rules, too: it may contradict them.
        for memory in &self.memories {
            compared.add_peer(&memory.scope, &memory.lesson);
        }
        let mut worded: Vec<(&MemoryScope, Lesson)> = Vec::new();
        for memory in &self.memories {
            worded.extend(worded_requests(memory).map(|(_, asked)| (&memory.scope, asked)));
        }
        for (scope, asked) in &worded {
            compared.add_known(scope, asked);
        }
        for tombstone in &self.tombstones {
            compared.add_known(&tombstone.scope, &tombstone.lesson);
        }
        compared.into_texts()
    }
}

/// Counts of the investigated runs to which a rule was presented.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuleUse {
    /// Number of investigated runs to which the rule was presented.
    pub presented: u64,
    /// Number of investigated runs that ignored the rule since it last changed (`Memory::changed_at`), that
    /// is, since it was last asked for, promoted or used in a run.
    pub unused: u64,
}

/// State of one `apply_rules` call. The methods for observations are in `observe.rs`, those for weights and
/// disuse in `weigh.rs`.
pub(super) struct RuleWriter<'e> {
    pub(super) ledger: MemoryLedger,
    pub(super) policy: Policy,
    /// Use counts of the rules that the batch credits.
    pub(super) uses: BTreeMap<MemoryId, RuleUse>,
    repo: Repository,
    vectors: VectorCache<'e>,
}

impl<'e> RuleWriter<'e> {
    pub(super) fn new(facts: RuleFacts, batch: &[RuleMutation], embedder: &'e dyn Embedder) -> Self {
        let RuleFacts {
            repo,
            rule_scope,
            as_of,
            policy,
            memories,
            tombstones,
            applied,
            uses,
            feedback: _,
            pipeline,
        } = facts;
        // A memory outside the repository must not change here: the lock of its scope is not held.
        let of_repository = |memory: &Memory| is_in_repository(&memory.scope, &repo);
        let memories = memories.into_iter().filter(of_repository).map(|memory| (memory.id, memory)).collect();
        let ledger = MemoryLedger::open(
            LedgerFacts {
                key: rule_scope,
                retrospective: None,
                pipeline,
                as_of,
                memories,
                tombstones,
                applied,
            },
            batch.iter().map(|mutation| (mutation.id, mutation.request.summarize())),
            OutcomeReason::Joined,
        );
        Self { ledger, policy, uses, repo, vectors: VectorCache::new(embedder) }
    }

    pub(super) fn repository_scope(&self, path: Option<String>) -> MemoryScope {
        repository_scope(&self.repo, path)
    }

    pub(super) const fn lesson_matcher(&self) -> LessonMatcher<'_, '_> {
        LessonMatcher { vectors: &self.vectors, policy: &self.policy }
    }
}

fn repository_scope(repo: &Repository, path: Option<String>) -> MemoryScope {
    MemoryScope::Repository { repo: repo.to_string(), path }
}

fn is_in_repository(scope: &MemoryScope, repo: &Repository) -> bool {
    matches!(scope, MemoryScope::Repository { repo: of, .. } if of == repo.as_str())
}
