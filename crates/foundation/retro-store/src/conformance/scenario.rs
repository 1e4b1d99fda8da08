//! Performs the steps of a running program for one workflow, as a helper for the cases.

use std::collections::BTreeSet;

use jiff::Timestamp;
use retro_core::calls::count_calls;
use retro_core::count::{Arrival, ArrivalDecision, Disposition, IntakeProgress};
use retro_core::finding::{CheckedAnswer, EvidenceOrigin, Finding, FindingKind, LessonCue, Quote};
use retro_core::id::{EventKey, MemoryId, RetrospectiveId, RunId, Step, Tenant, Workflow, WorkflowKey};
use retro_core::investigate::{NextStage, decide_next_stage};
use retro_core::learn::{ClosedRetrospective, ClosingFacts, build_batch, close_retrospective};
use retro_core::memory::{Memory, MemoryStatus};
use retro_core::message::{Message, Notice};
use retro_core::pipeline::{PipelineContents, PipelineVersion};
use retro_core::policy::Policy;
use retro_core::report::InvestigationTiming;
use retro_core::retrospective::{
    Investigation, InvestigationResult, PresentedMemory, Retrospective, RetrospectiveState,
};
use retro_core::run::{RunFacts, RunKind, RunMemories, RunOutcome};
use retro_core::sample::draw_sample;
use retro_core::similarity::NgramEmbedder;
use retro_core::trajectory::QuotePlace;

use crate::investigate::{FollowUp, InvestigationSequence};
use crate::operator::MemoryFilter;
use crate::sample::DrawnSample;
use crate::{
    Claim, CommitResult as Done, CompressedDocument, IncomingBody, IncomingRun, Store, WindowsToCheck,
};

/// Duration in seconds that is too long to pass during a test.
pub(super) const LONG_S: u64 = 3600;
/// Name of the step used by all scenarios.
pub(super) const STEP: &str = "plan";

pub(super) fn test_tenant(name: &str) -> Tenant {
    Tenant::new(name).expect("a valid name")
}

pub(super) fn workflow_key(tenant_name: &str, workflow: &str) -> WorkflowKey {
    WorkflowKey { tenant: test_tenant(tenant_name), workflow: Workflow::new(workflow).expect("a valid name") }
}

pub(super) fn run_id(name: &str) -> RunId {
    RunId::new(name).expect("a valid name")
}

pub(super) fn test_step() -> Step {
    Step::new(STEP).expect("a valid name")
}

/// Returns the time `seconds` after the start of a scenario. Not a whole number of milliseconds, so the cases
/// prove that stored times are read back exactly.
pub(super) fn time_at(seconds: i64) -> Timestamp {
    Timestamp::new(1_790_000_000 + seconds, 123_456_789).expect("within range")
}

/// Creates a successful run whose id and event id are `name`. Its body is JSON that contains the name.
/// Builds the body of a run whose trajectory has this JSON.
pub(super) fn inline_body(json: &[u8]) -> IncomingBody {
    IncomingBody::Inline(CompressedDocument::from_document(json).expect("memory for a compressor"))
}

pub(super) fn new_run(key: &WorkflowKey, name: &str) -> IncomingRun {
    let run = RunFacts {
        run_id: run_id(name),
        attempt: 1,
        kind: RunKind::Normal,
        outcome: RunOutcome::Success,
        outcome_only: false,
        started_at: Some(time_at(-60)),
        finished_at: Some(time_at(-1)),
        repo: Some("owner/größe".to_owned()),
        repo_visibility: None,
        pull_request: None,
        commit: None,
        user: None,
        agent: None,
        prompt_version: None,
        task: None,
        usage: None,
        memories: RunMemories::default(),
        self_feedback: Vec::new(),
    };
    let source = format!("tests of {}", key.workflow);
    let event = EventKey { tenant: key.tenant.clone(), source, id: name.to_owned() };
    let arrival =
        Arrival { event, key: key.clone(), content_hash: format!("hash of {name}"), position: 1, run };
    IncomingRun {
        arrival,
        body: inline_body(format!(r#"{{"turns":[],"of":"{key}/{name}"}}"#).as_bytes()),
        trace: None,
    }
}

/// Returns a run whose event has this position in the intake stream.
pub(super) fn run_at(mut run: IncomingRun, position: u64) -> IncomingRun {
    run.arrival.position = position;
    run
}

/// A workflow under test. Its policy opens a retrospective after two runs and samples both.
pub(super) struct Scenario<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) key: WorkflowKey,
    pub(super) policy: Policy,
}

impl<'a> Scenario<'a> {
    pub(super) fn new(store: &'a dyn Store, tenant: &str, workflow: &str) -> Self {
        let policy = Policy { threshold_runs: 2, sample_permille: 1000, ..Policy::default() };
        Self { store, key: workflow_key(tenant, workflow), policy }
    }

    /// Returns a scenario of the same workflow that uses another database handle.
    pub(super) fn with_store<'b>(&self, store: &'b dyn Store) -> Scenario<'b> {
        Scenario { store, key: self.key.clone(), policy: self.policy.clone() }
    }

    pub(super) fn new_run(&self, name: &str) -> IncomingRun {
        new_run(&self.key, name)
    }

    pub(super) async fn count_batch(&self, batch: &[IncomingRun], as_of: Timestamp) -> Vec<ArrivalDecision> {
        let decide = |facts, arrivals: &[Arrival]| {
            retro_core::count::count_arrivals(
                facts,
                arrivals,
                IntakeProgress::NotAwaited,
                &self.policy,
                as_of,
            )
        };
        let windows = WindowsToCheck { keys: std::slice::from_ref(&self.key), handled_up_to: 0 };
        self.store.count_runs(batch, windows, &decide).await.expect("counting")
    }

    /// Counts runs with the given names and returns their dispositions.
    pub(super) async fn count_runs(&self, names: &[&str]) -> Vec<Disposition> {
        let batch: Vec<_> = names.iter().map(|name| self.new_run(name)).collect();
        self.count_batch(&batch, time_at(0)).await.into_iter().map(|counted| counted.disposition).collect()
    }

    /// Returns the newest retrospective of the workflow.
    pub(super) async fn latest_retrospective(&self) -> Retrospective {
        let all = self.store.list_retrospectives(&self.key.tenant, Some(&self.key.workflow), 1).await;
        all.expect("listing").into_iter().next().expect("one was opened").retrospective
    }

    pub(super) async fn workflow_state(&self) -> retro_core::retrospective::WorkflowState {
        let all = self.store.list_workflows(&self.key.tenant).await.expect("listing");
        all.into_iter().find(|row| row.key == self.key).expect("the workflow is known").state
    }

    pub(super) async fn draw_sample(&self) -> Done {
        let id = self.latest_retrospective().await.id;
        self.store.draw_sample(&self.key.tenant, id, &decide_sample).await.expect("sampling")
    }

    pub(super) async fn claim_next(&self, lease_s: u64) -> Claim {
        self.store
            .claim_investigation("tests", lease_s)
            .await
            .expect("claiming")
            .expect("an investigation is due")
    }

    pub(super) async fn finish_claim(
        &self,
        claim: &Claim,
        result: &InvestigationResult,
    ) -> crate::Result<()> {
        let timing = InvestigationTiming {
            attempts: 99,
            duration_ms: u64::MAX,
            cost_usd: 0.25,
            ..InvestigationTiming::default()
        };
        self.store.finish_investigation(claim, result, timing, &decide_finish).await
    }

    /// Claims and finishes investigations until the retrospective settles.
    pub(super) async fn investigate_all(&self, result: &(dyn Fn(&Claim) -> InvestigationResult + Sync)) {
        for _ in 0..20 {
            if self.latest_retrospective().await.state != RetrospectiveState::Investigating {
                return;
            }
            let claim = self.claim_next(LONG_S).await;
            let result = result(&claim);
            self.finish_claim(&claim, &result).await.expect("finishing");
        }
        panic!("not settled after twenty investigations");
    }

    /// Opens a retrospective over two new runs and advances it to settling.
    pub(super) async fn settle_window(
        &self,
        names: [&str; 2],
        result: &(dyn Fn(&Claim) -> InvestigationResult + Sync),
    ) -> RetrospectiveId {
        self.count_runs(&names).await;
        assert_eq!(self.draw_sample().await, Done::Done);
        self.investigate_all(result).await;
        self.latest_retrospective().await.id
    }

    pub(super) fn decide_closing(&self, facts: ClosingFacts, now: Timestamp) -> ClosedRetrospective {
        close_retrospective(facts, &NgramEmbedder, &self.policy, now)
    }

    pub(super) async fn close_at(&self, id: RetrospectiveId, now: Timestamp) -> Done {
        let decide = |facts| Ok(self.decide_closing(facts, now));
        let closed = self.store.close_retrospective(&self.key.tenant, id, now, &decide).await;
        closed.expect("closing").expect("every text can be compared")
    }

    pub(super) async fn close_retrospective(&self, id: RetrospectiveId) -> Done {
        self.close_at(id, time_at(10)).await
    }

    /// Learns a lesson from two runs whose names derive from its title. Returns the active memory.
    pub(super) async fn learn_lesson(&self, title: &str) -> Memory {
        let (one, two) = (format!("{title} 1"), format!("{title} 2"));
        let id = self.settle_window([&one, &two], &|_| result_with_finding(title)).await;
        assert_eq!(self.close_retrospective(id).await, Done::Done);
        let memories = self.list_memories().await;
        let memory = memories.into_iter().find(|memory| memory.lesson.title == title).expect("it was learnt");
        assert_eq!(memory.status, MemoryStatus::Active);
        memory
    }

    pub(super) async fn list_memories(&self) -> Vec<Memory> {
        let filter =
            MemoryFilter { workflow: Some(self.key.workflow.clone()), limit: 100, ..Default::default() };
        self.store.list_memories(&self.key.tenant, &filter).await.expect("listing")
    }

    /// Returns this workflow's unsent notices, in order.
    pub(super) async fn list_notices(&self) -> Vec<Notice> {
        let mine =
            |message: &Message| message.tenant == self.key.tenant && message.workflow == self.key.workflow;
        let unsent = self.store.list_unsent_messages(1000).await.expect("reading the outbox");
        unsent.into_iter().filter(mine).map(|message| message.notice).collect()
    }

    pub(super) async fn mark_all_sent(&self) {
        let ids: Vec<_> = self
            .store
            .list_unsent_messages(1000)
            .await
            .expect("reading the outbox")
            .iter()
            .map(|message| message.id)
            .collect();
        self.store.mark_sent(&ids).await.expect("marking");
    }
}

/// Decides a sample as the sampler does.
pub(super) fn decide_sample(retrospective: &Retrospective, window: Vec<u64>) -> DrawnSample {
    let sample = draw_sample(retrospective.id, window, &retrospective.policy);
    let first = decide_next_stage(&sample, &[]);
    DrawnSample { sample, first }
}

/// Decides the follow-up of an investigation as the investigator does.
pub(super) fn decide_finish(sequence: &InvestigationSequence) -> FollowUp {
    let Retrospective { id, key, .. } = &sequence.retrospective;
    let results: Vec<_> = sequence.ended.iter().filter_map(|one| one.result.clone()).collect();
    let next = decide_next_stage(&sequence.sample, &results);
    let automatic = sequence.retrospective.manual_request.is_none();
    let (batch, calls, notice) = match next {
        NextStage::Settle => (
            build_batch(&sequence.retrospective, &sequence.ended, &sequence.window),
            automatic.then(|| count_calls(&sequence.window, &answered_runs(&sequence.ended))),
            Notice::MutationsDue { retrospective: *id },
        ),
        NextStage::Investigate { number, .. } => {
            (Vec::new(), None, Notice::InvestigationDue { retrospective: *id, investigation: number })
        }
    };
    FollowUp { next, batch, calls, message: notice.into_message(key) }
}

/// Returns the runs whose investigation gave an answer.
fn answered_runs(ended: &[Investigation]) -> BTreeSet<RunId> {
    let answered =
        ended.iter().filter(|one| one.result.as_ref().is_some_and(InvestigationResult::is_success));
    answered.map(|one| one.run.clone()).collect()
}

/// Creates a result with one finding with a title.
pub(super) fn result_with_finding(title: &str) -> InvestigationResult {
    result_about(title, None, Vec::new())
}

/// Creates a result with presented memories and one finding with a title, which may contradict a memory.
pub(super) fn result_about(
    title: &str,
    contradicts: Option<MemoryId>,
    presented: Vec<PresentedMemory>,
) -> InvestigationResult {
    let finding = Finding {
        kind: FindingKind::Failure,
        step: test_step(),
        subject: "a tool".to_owned(),
        title: title.to_owned(),
        content: format!("More about \"{title}\", with a NUL: \0."),
        cue: LessonCue::default(),
        quote: Quote { place: QuotePlace::Message { turn: 0 }, text: "words".to_owned() },
        contradicts,
        origin: EvidenceOrigin::default(),
    };
    InvestigationResult::Found {
        checked: CheckedAnswer { findings: vec![finding], ..CheckedAnswer::default() },
        presented,
    }
}

/// Creates a result without findings.
pub(super) fn empty_result() -> InvestigationResult {
    let checked = CheckedAnswer::default();
    InvestigationResult::Nothing { checked, presented: Vec::new() }
}

/// Creates the result of a failed investigation.
pub(super) fn failed_result() -> InvestigationResult {
    InvestigationResult::Failed { reason: "the tests want it so".to_owned() }
}

/// Returns the version of the review pipeline under which the cases decide.
pub(super) fn review_pipeline() -> PipelineVersion {
    let prompts = [("remarks.md".to_owned(), "{{ remarks }} ä".to_owned())].into();
    let contents = PipelineContents { prompts, ..PipelineContents::default() };
    PipelineVersion::new(contents, "/etc/retro/pipelines")
}

/// Marks every message of the outbox as sent.
pub(super) async fn mark_all_sent(store: &dyn Store) {
    let unsent = store.list_unsent_messages(100).await.expect("the outbox");
    let ids: Vec<_> = unsent.iter().map(|message| message.id).collect();
    store.mark_sent(&ids).await.expect("marking");
}
