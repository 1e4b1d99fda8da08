//! What the cases are told with: one workflow and the steps that a running program takes with it.

use jiff::Timestamp;
use retro_core::count::{Arrival, Counted, Disposition};
use retro_core::finding::{Checked, Cue, Finding, FindingKind, Quote};
use retro_core::id::{EventKey, MemoryId, RetrospectiveId, RunId, Step, Tenant, Workflow, WorkflowKey};
use retro_core::investigate::{Next, next};
use retro_core::learn::{Closing, ClosingFacts, Timing, batch_of, close};
use retro_core::memory::{Memory, Status};
use retro_core::message::{Message, Notice};
use retro_core::policy::Policy;
use retro_core::retrospective::{InvestigationResult, Presented, Retrospective, State};
use retro_core::run::{MemoryUse, Outcome, RunFacts, RunKind};
use retro_core::sample::draw;
use retro_core::similar::NgramEmbedder;
use retro_core::trajectory::Place;

use crate::investigate::{Finish, Sequence};
use crate::operate::MemoryFilter;
use crate::sample::Sampling;
use crate::{Claim, IncomingBody, IncomingRun, Step as Done, Store};

/// Long enough that no lease ends during a test.
pub(super) const LONG_S: u64 = 3600;
/// The one step of every story.
pub(super) const STEP: &str = "plan";

pub(super) fn tenant(name: &str) -> Tenant {
    Tenant::new(name).expect("a good name")
}

pub(super) fn key(tenant_name: &str, workflow: &str) -> WorkflowKey {
    WorkflowKey { tenant: tenant(tenant_name), workflow: Workflow::new(workflow).expect("a good name") }
}

pub(super) fn run_id(name: &str) -> RunId {
    RunId::new(name).expect("a good name")
}

pub(super) fn step() -> Step {
    Step::new(STEP).expect("a good name")
}

/// So many seconds after the moment at which every story begins; not a whole number of milliseconds, since what is
/// stored must come back exactly.
pub(super) fn moment(seconds: i64) -> Timestamp {
    Timestamp::new(1_790_000_000 + seconds, 123_456_789).expect("within range")
}

/// A successful run whose event has the same id; its body is JSON that names it.
pub(super) fn run(key: &WorkflowKey, name: &str) -> IncomingRun {
    let run = RunFacts {
        run_id: run_id(name),
        attempt: 1,
        kind: RunKind::Normal,
        outcome: Outcome::Success,
        started_at: Some(moment(-60)),
        finished_at: Some(moment(-1)),
        repo: Some("owner/größe".to_owned()),
        pull_request: None,
        commit: None,
        user: None,
        agent: None,
        prompt_version: None,
        task: None,
        usage: None,
        memories: MemoryUse::default(),
        self_feedback: Vec::new(),
    };
    let source = format!("tests of {}", key.workflow);
    let event = EventKey { tenant: key.tenant.clone(), source, id: name.to_owned() };
    let arrival = Arrival { event, key: key.clone(), content_hash: format!("hash of {name}"), run };
    IncomingRun {
        arrival,
        position: 1,
        body: IncomingBody::Inline(format!(r#"{{"turns":[],"of":"{key}/{name}"}}"#).into_bytes()),
        trace: None,
    }
}

/// A workflow under test. Its policy opens a retrospective at two runs and samples both.
pub(super) struct Story<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) key: WorkflowKey,
    pub(super) policy: Policy,
}

impl<'a> Story<'a> {
    pub(super) fn new(store: &'a dyn Store, tenant: &str, workflow: &str) -> Self {
        let policy = Policy { threshold_runs: 2, sample_permille: 1000, ..Policy::default() };
        Self { store, key: key(tenant, workflow), policy }
    }

    /// The same workflow by another handle.
    pub(super) fn by<'b>(&self, store: &'b dyn Store) -> Story<'b> {
        Story { store, key: self.key.clone(), policy: self.policy.clone() }
    }

    pub(super) fn run(&self, name: &str) -> IncomingRun {
        run(&self.key, name)
    }

    pub(super) async fn count_batch(&self, batch: &[IncomingRun], as_of: Timestamp) -> Vec<Counted> {
        let decide =
            |facts, arrivals: &[Arrival]| retro_core::count::decide(facts, arrivals, &self.policy, as_of);
        self.store.count(batch, std::slice::from_ref(&self.key), &decide).await.expect("counting")
    }

    /// Counts runs of these names and says what became of each.
    pub(super) async fn count(&self, names: &[&str]) -> Vec<Disposition> {
        let batch: Vec<_> = names.iter().map(|name| self.run(name)).collect();
        self.count_batch(&batch, moment(0)).await.into_iter().map(|counted| counted.disposition).collect()
    }

    /// The newest retrospective.
    pub(super) async fn retrospective(&self) -> Retrospective {
        let all = self.store.retrospectives(&self.key.tenant, Some(&self.key.workflow), 1).await;
        all.expect("listing").into_iter().next().expect("one was opened").retrospective
    }

    pub(super) async fn state(&self) -> retro_core::retrospective::WorkflowState {
        let all = self.store.workflows(&self.key.tenant).await.expect("listing");
        all.into_iter().find(|row| row.key == self.key).expect("the workflow is known").state
    }

    pub(super) async fn sample(&self) -> Done {
        let id = self.retrospective().await.id;
        self.store.sample(&self.key.tenant, id, &drawn).await.expect("sampling")
    }

    pub(super) async fn claim(&self, lease_s: u64) -> Claim {
        self.store.claim("tests", lease_s).await.expect("claiming").expect("an investigation is due")
    }

    pub(super) async fn finish(&self, claim: &Claim, result: &InvestigationResult) -> crate::Result<()> {
        let timing = Timing { attempts: 99, duration_ms: u64::MAX, cost_usd: 0.25 };
        self.store.finish(claim, result, timing, &finish).await
    }

    /// Claims and finishes until the retrospective settles.
    pub(super) async fn investigate(&self, result: &(dyn Fn(&Claim) -> InvestigationResult + Sync)) {
        for _ in 0..20 {
            if self.retrospective().await.state != State::Investigating {
                return;
            }
            let claim = self.claim(LONG_S).await;
            let result = result(&claim);
            self.finish(&claim, &result).await.expect("finishing");
        }
        panic!("twenty investigations and no end");
    }

    /// Opens a retrospective over two fresh runs and brings it to where the writer takes over.
    pub(super) async fn settle(
        &self,
        names: [&str; 2],
        result: &(dyn Fn(&Claim) -> InvestigationResult + Sync),
    ) -> RetrospectiveId {
        self.count(&names).await;
        assert_eq!(self.sample().await, Done::Done);
        self.investigate(result).await;
        self.retrospective().await.id
    }

    pub(super) fn closing(&self, facts: ClosingFacts, now: Timestamp) -> Closing {
        close(facts, &NgramEmbedder, &self.policy, now)
    }

    pub(super) async fn close_at(&self, id: RetrospectiveId, now: Timestamp) -> Done {
        let decide = |facts| Ok(self.closing(facts, now));
        self.store.close(&self.key.tenant, id, now, &decide).await.expect("closing")
    }

    pub(super) async fn close(&self, id: RetrospectiveId) -> Done {
        self.close_at(id, moment(10)).await
    }

    /// Learns a lesson from two runs named after it: an active memory of 0.300.
    pub(super) async fn learn(&self, title: &str) -> Memory {
        let (one, two) = (format!("{title} 1"), format!("{title} 2"));
        let id = self.settle([&one, &two], &|_| found(title)).await;
        assert_eq!(self.close(id).await, Done::Done);
        let memories = self.memories().await;
        let memory = memories.into_iter().find(|memory| memory.lesson.title == title).expect("it was learnt");
        assert_eq!(memory.status, Status::Active);
        memory
    }

    pub(super) async fn memories(&self) -> Vec<Memory> {
        let filter =
            MemoryFilter { workflow: Some(self.key.workflow.clone()), limit: 100, ..Default::default() };
        self.store.memories(&self.key.tenant, &filter).await.expect("listing")
    }

    /// The notices of this workflow that wait to be sent, in order.
    pub(super) async fn notices(&self) -> Vec<Notice> {
        let mine =
            |message: &Message| message.tenant == self.key.tenant && message.workflow == self.key.workflow;
        let unsent = self.store.unsent(1000).await.expect("reading the outbox");
        unsent.into_iter().filter(mine).map(|message| message.notice).collect()
    }

    pub(super) async fn everything_sent(&self) {
        let ids: Vec<_> = self
            .store
            .unsent(1000)
            .await
            .expect("reading the outbox")
            .iter()
            .map(|message| message.id)
            .collect();
        self.store.mark_sent(&ids).await.expect("marking");
    }
}

/// The sampler's decision.
pub(super) fn drawn(retrospective: &Retrospective, window: Vec<u64>) -> Sampling {
    let sample = draw(retrospective.id, window, &retrospective.policy);
    let first = next(&sample, &[]);
    Sampling { sample, first }
}

/// The investigator's decision.
pub(super) fn finish(sequence: &Sequence) -> Finish {
    let Retrospective { id, key, .. } = &sequence.retrospective;
    let results: Vec<_> = sequence.ended.iter().filter_map(|one| one.result.clone()).collect();
    let next = next(&sequence.sample, &results);
    let (batch, notice) = match next {
        Next::Settle => {
            (batch_of(&sequence.retrospective, &sequence.ended), Notice::MutationsDue { retrospective: *id })
        }
        Next::Investigate { number, .. } => {
            (Vec::new(), Notice::InvestigationDue { retrospective: *id, investigation: number })
        }
    };
    Finish { next, batch, message: notice.about(key) }
}

/// A result with one finding.
pub(super) fn found(title: &str) -> InvestigationResult {
    found_about(title, None, Vec::new())
}

/// A result with one finding that contradicts a memory, and presented memories.
pub(super) fn found_about(
    title: &str,
    contradicts: Option<MemoryId>,
    presented: Vec<Presented>,
) -> InvestigationResult {
    let finding = Finding {
        kind: FindingKind::Failure,
        step: step(),
        subject: "a tool".to_owned(),
        title: title.to_owned(),
        content: format!("More about \"{title}\", with a NUL: \0."),
        cue: Cue::default(),
        quote: Quote { place: Place::Message { turn: 0 }, text: "words".to_owned() },
        contradicts,
    };
    InvestigationResult::Found {
        checked: Checked { findings: vec![finding], ..Checked::default() },
        presented,
    }
}

/// A result without findings.
pub(super) fn nothing() -> InvestigationResult {
    let checked = Checked::default();
    InvestigationResult::Nothing { checked, presented: Vec::new() }
}

/// A result that is none.
pub(super) fn failed() -> InvestigationResult {
    InvestigationResult::Failed { reason: "the tests want it so".to_owned() }
}
