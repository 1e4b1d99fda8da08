//! Provides an in-memory store for the tests of this crate. Its content comes from the decisions of `retro-core`:
//! runs are counted, sampled, investigated in sequence, settled and closed. Only the results of investigations are
//! made up.

mod inspect_store;
mod operator_store;
pub(crate) mod summaries;
mod verify_store;

use jiff::{SignedDuration, Timestamp};
use retro_core::calls::{Contrast, StoredSummary};
use retro_core::canonical::content_hash;
use retro_core::count::{self, Arrival, CountingFacts};
use retro_core::effect::AssignedRun;
use retro_core::finding::{
    CheckedAnswer, EvidenceOrigin, Finding, FindingKind, LessonCue, MemoryVerdict, Quote, VerdictRecord,
};
use retro_core::id::{EventKey, MemoryId, RunId, Step, Tenant, Workflow, WorkflowKey};
use retro_core::investigate::{NextStage, decide_next_stage};
use retro_core::learn::{
    ClosingFacts, WriterFacts, close_retrospective, delete_by_operator, settle_investigations,
};
use retro_core::memory::{Change, Memory, Tombstone};
use retro_core::policy::Policy;
use retro_core::report::{InvestigationTiming, Report, WindowRun};
use retro_core::retrospective::{
    Investigation, InvestigationResult, OpenedRetrospective, PresentedMemory, Retrospective,
    RetrospectiveState,
};
use retro_core::run::{BodyRef, RunFacts, RunOutcome};
use retro_core::sample::{Sample, draw_sample};
use retro_core::similarity::NgramEmbedder;
use retro_core::trajectory::{QuotePlace, Trajectory};
use retro_store::track::RunLink;
use retro_store::{Attempt, DeadLetter, ProposalRow, RunRow, WorkflowRow};

/// An in-memory store whose data the tests damage directly.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) workflows: Vec<WorkflowRow>,
    pub(crate) runs: Vec<RunRow>,
    /// Call summaries, sorted by ordinal.
    pub(crate) summaries: Vec<(WorkflowKey, StoredSummary)>,
    /// Runs about which chance decided whether they were handed a memory, sorted by ordinal.
    pub(crate) assigned: Vec<(WorkflowKey, MemoryId, AssignedRun)>,
    pub(crate) memories: Vec<(Tenant, Memory)>,
    pub(crate) changes: Vec<(WorkflowKey, Change)>,
    pub(crate) tombstones: Vec<(WorkflowKey, Tombstone)>,
    pub(crate) retrospectives: Vec<Retrospective>,
    pub(crate) details: Vec<(Sample, Vec<Investigation>)>,
    pub(crate) reports: Vec<Report>,
    pub(crate) dead_letters: Vec<DeadLetter>,
    /// Attempts returned for every dead letter.
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) proposals: Vec<(Tenant, ProposalRow)>,
    /// Trajectories of runs; the others have none.
    pub(crate) trajectories: Vec<(WorkflowKey, RunId, Trajectory)>,
    /// Links between runs and pull requests, sorted by run, workflow and pull request.
    pub(crate) links: Vec<RunLink>,
    pub(crate) feedback: Vec<(Tenant, retro_store::FeedbackRow)>,
    pub(crate) prompt_runs: Vec<retro_core::outcome::PromptRun>,
    /// Half-written memory that the next read returns instead of the stored one; `None` unless set by a test.
    pub(crate) partial_read: std::sync::Mutex<Option<Memory>>,
    /// Number of pages that were read.
    pub(crate) pages: std::sync::atomic::AtomicU64,
}

pub(crate) fn workflow_key(tenant: &str, workflow: &str) -> WorkflowKey {
    WorkflowKey { tenant: Tenant::new(tenant).unwrap(), workflow: Workflow::new(workflow).unwrap() }
}

/// Returns the time `n` hours after midnight of 2026-11-20. Each epoch takes one hour.
pub(crate) fn at_hour(n: i64) -> Timestamp {
    Timestamp::from_second(1_795_132_800).unwrap() + SignedDuration::from_hours(n)
}

impl World {
    /// Returns the feedback on a memory, newest first.
    pub(crate) fn feedback_on(&self, tenant: &Tenant, memory: MemoryId) -> Vec<retro_store::FeedbackRow> {
        let on = self
            .feedback
            .iter()
            .rev()
            .filter(|(owner, row)| owner == tenant && row.feedback.memory == memory);
        on.map(|(_, row)| row.clone()).collect()
    }

    /// Counts ten more runs, which opens the next retrospective, and completes this retrospective. `answer` returns
    /// the result of the investigation with the given number.
    pub(crate) fn run_retrospective(
        &mut self,
        key: &WorkflowKey,
        answer: &dyn Fn(&Self, u32) -> InvestigationResult,
    ) -> Report {
        let opening = self.count_ten_runs(key);
        let retrospective = opening.retrospective;
        let window: Vec<_> = (retrospective.first..=retrospective.last).collect();
        let sample = draw_sample(retrospective.id, window, &retrospective.policy);
        let investigations = self.run_investigations(&retrospective, &sample, answer);
        self.retrospectives.push(Retrospective { state: RetrospectiveState::Settling, ..retrospective });
        self.details.push((sample, investigations));
        self.close_retrospective()
    }

    fn count_ten_runs(&mut self, key: &WorkflowKey) -> OpenedRetrospective {
        let at = self.workflows.iter().position(|row| row.key == *key).unwrap_or_else(|| {
            let state = Default::default();
            self.workflows.push(WorkflowRow { key: key.clone(), state, recorded: 0 });
            self.workflows.len() - 1
        });
        let state = self.workflows[at].state.clone();
        let counted = state.counted;
        let arrivals: Vec<_> = (counted + 1..=counted + 10).map(|n| build_arrival(key, n)).collect();
        let facts = CountingFacts { workflows: [(key.clone(), state)].into(), ..CountingFacts::default() };
        let now = at_hour(i64::try_from(counted / 10).unwrap());
        let mut effects = count::count_arrivals(
            facts,
            &arrivals,
            count::IntakeProgress::NotAwaited,
            &Policy::default(),
            now,
        );
        self.workflows[at].state = effects.workflows.remove(key).unwrap();
        self.workflows[at].recorded += 10;
        for (arrival, counted) in arrivals.into_iter().zip(effects.decisions) {
            let (facts, body) = (arrival.run, BodyRef::Stored);
            let key = key.clone();
            let ordinal = counted.ordinal;
            let not_counted = facts.not_counted_reason().filter(|_| ordinal.is_none());
            self.runs.push(RunRow { key, ordinal, not_counted, facts, body, received_at: now });
        }
        effects.opened.remove(0)
    }

    fn run_investigations(
        &self,
        retrospective: &Retrospective,
        sample: &Sample,
        answer: &dyn Fn(&Self, u32) -> InvestigationResult,
    ) -> Vec<Investigation> {
        let mut ended: Vec<Investigation> = Vec::new();
        loop {
            let results: Vec<_> = ended.iter().filter_map(|one| one.result.clone()).collect();
            let NextStage::Investigate { number, at, replacement } = decide_next_stage(sample, &results)
            else {
                return ended;
            };
            let ordinal = sample.order[at as usize];
            let of = |row: &&RunRow| row.key == retrospective.key && row.ordinal == Some(ordinal);
            let run = self.runs.iter().find(of).unwrap().facts.run_id.clone();
            let result = Some(answer(self, number));
            ended.push(Investigation { number, ordinal, run, replacement, result });
        }
    }

    fn close_retrospective(&mut self) -> Report {
        let retrospective = self.retrospectives.last().unwrap().clone();
        let (sample, investigations) = self.details.last().unwrap().clone();
        let key = retrospective.key.clone();
        let at = self.workflows.iter().position(|row| row.key == key).unwrap();
        let batch = settle_investigations(retrospective.id, &investigations, &Contrast::default());
        let timing = |one: &Investigation| InvestigationTiming {
            attempts: if one.result.as_ref().unwrap().is_success() { 1 } else { 3 },
            duration_ms: 40 + u64::from(one.number),
            ..InvestigationTiming::default()
        };
        let facts = ClosingFacts {
            history: Default::default(),
            window: self.window_runs(&retrospective),
            timings: investigations.iter().map(timing).collect(),
            calls: self.count_window_calls(&retrospective, &investigations),
            writer: self.writer_facts(&retrospective),
            state: self.workflows[at].state.clone(),
            waiting_in_order: 0,
            retrospective: retrospective.clone(),
            sample,
            investigations,
            batch,
        };
        let now = retrospective.as_of + SignedDuration::from_mins(5);
        let closing = close_retrospective(facts, &NgramEmbedder, &Policy::default(), now);
        self.workflows[at].state = closing.workflow_state;
        self.retrospectives.last_mut().unwrap().state = closing.retrospective_state;
        self.changes.extend(closing.applied.changes.into_iter().map(|change| (key.clone(), change)));
        self.tombstones
            .extend(closing.applied.tombstones.into_iter().map(|tombstone| (key.clone(), tombstone)));
        for memory in closing.applied.memories {
            self.put_memory(&key, memory);
        }
        self.reports.push(closing.report.clone());
        closing.report
    }

    fn window_runs(&self, retrospective: &Retrospective) -> Vec<WindowRun> {
        let within = retrospective.first..=retrospective.last;
        let ours = self.runs.iter().filter(|row| row.key == retrospective.key);
        ours.filter_map(|row| {
            let ordinal = row.ordinal.filter(|ordinal| within.contains(ordinal))?;
            Some(WindowRun {
                ordinal,
                run: row.facts.run_id.clone(),
                outcome: row.facts.outcome,
                pull_requests: Vec::new(),
                checks: Vec::new(),
            })
        })
        .collect()
    }

    fn writer_facts(&self, retrospective: &Retrospective) -> WriterFacts {
        let key = &retrospective.key;
        let ours = |owner: &WorkflowKey| owner == key;
        let changes = self.changes.iter().filter(|(owner, _)| ours(owner));
        WriterFacts {
            key: key.clone(),
            retrospective: retrospective.id,
            epoch: retrospective.epoch,
            previous_epoch: retrospective.epoch.checked_sub(1).filter(|epoch| *epoch > 0),
            as_of: retrospective.as_of,
            policy: retrospective.policy.clone(),
            pipeline: retrospective.pipeline.as_ref().map(|version| version.pipeline.clone()),
            memories: self
                .memories
                .iter()
                .filter(|(tenant, memory)| {
                    *tenant == key.tenant && memory.scope.workflow() == Some(&key.workflow)
                })
                .map(|(_, memory)| memory.clone())
                .collect(),
            tombstones: self
                .tombstones
                .iter()
                .filter(|(owner, _)| ours(owner))
                .map(|(_, tombstone)| tombstone.clone())
                .collect(),
            applied: changes
                .filter(|(_, change)| change.retrospective == Some(retrospective.id))
                .map(|(_, change)| change.id)
                .collect(),
            feedback: Vec::new(),
        }
    }

    /// Deletes a memory as an operator.
    pub(crate) fn delete_memory(&mut self, key: &WorkflowKey, id: MemoryId, reason: &str) {
        let memory = self.memory(id).clone();
        let (change, memory, tombstone) =
            delete_by_operator(key, &memory, "request-1", reason, at_hour(1), &Policy::default()).unwrap();
        self.changes.push((key.clone(), change));
        self.tombstones.push((key.clone(), tombstone));
        self.put_memory(key, memory);
    }

    fn put_memory(&mut self, key: &WorkflowKey, memory: Memory) {
        match self.memories.iter_mut().find(|(_, old)| old.id == memory.id) {
            Some((_, old)) => *old = memory,
            None => self.memories.push((key.tenant.clone(), memory)),
        }
    }

    pub(crate) fn memory(&self, id: MemoryId) -> &Memory {
        &self.memories.iter().find(|(_, memory)| memory.id == id).unwrap().1
    }

    /// Returns the id of the memory whose cue is this error. Panics if there is none.
    pub(crate) fn memory_about(&self, error: &str) -> MemoryId {
        let found =
            self.memories.iter().find(|(_, memory)| memory.lesson.cue.error.as_deref() == Some(error));
        found.unwrap_or_else(|| panic!("no memory about {error}")).1.id
    }
}

fn build_arrival(key: &WorkflowKey, n: u64) -> Arrival {
    let run_id = RunId::new(format!("run-{n:02}")).unwrap();
    let outcome = if n.is_multiple_of(3) { RunOutcome::Failure } else { RunOutcome::Success };
    let run: RunFacts =
        serde_json::from_value(serde_json::json!({"run_id": run_id, "outcome": outcome})).unwrap();
    let event = EventKey { tenant: key.tenant.clone(), source: "test".to_owned(), id: run_id.to_string() };
    let content_hash = content_hash(&serde_json::to_value(&run).unwrap());
    Arrival { event, key: key.clone(), content_hash, position: n, run }
}

/// Returns a finding that repairs failing `mysql` calls. `error` is their error.
pub(crate) fn repair_finding(error: &str) -> Finding {
    Finding {
        kind: FindingKind::Repair,
        step: Step::main(),
        subject: "mysql".to_owned(),
        title: format!("When `mysql` answers “{error}”, list the columns before selecting"),
        content: format!("A call failed with “{error}”; the same call after DESCRIBE succeeded."),
        cue: LessonCue {
            tool: Some("mysql".to_owned()),
            error: Some(error.to_owned()),
            avoid: None,
            prefer: Some("DESCRIBE".to_owned()),
            worked: None,
        },
        quote: build_quote(&format!("ERROR 1054 (42S22): {error}")),
        contradicts: None,
        origin: EvidenceOrigin::default(),
    }
}

pub(crate) fn build_quote(text: &str) -> Quote {
    Quote { place: QuotePlace::Answer { turn: 3, call: 0 }, text: text.to_owned() }
}

pub(crate) fn contradicting_finding(error: &str, memory: MemoryId) -> Finding {
    Finding { contradicts: Some(memory), ..repair_finding(error) }
}

/// Returns a verdict on a memory, with a quote unless the verdict is that the cue was not met.
pub(crate) fn memory_verdict(memory: MemoryId, verdict: MemoryVerdict, reason: &str) -> VerdictRecord {
    let quote = (verdict != MemoryVerdict::CueNotMet).then(|| build_quote("DESCRIBE orders"));
    VerdictRecord { memory, verdict, reason: reason.to_owned(), quote }
}

/// Returns the result of an investigation with these findings and verdicts. All memories with a verdict count as
/// presented.
pub(crate) fn investigation_result(
    findings: Vec<Finding>,
    verdicts: Vec<VerdictRecord>,
) -> InvestigationResult {
    let presented =
        verdicts.iter().map(|judged| PresentedMemory::from_own_workflow(judged.memory, false)).collect();
    let nothing = findings.is_empty();
    let checked = CheckedAnswer {
        engine: "heuristics".to_owned(),
        findings,
        verdicts,
        dropped: u32::from(nothing),
        ..CheckedAnswer::default()
    };
    if nothing {
        InvestigationResult::Nothing { checked, presented }
    } else {
        InvestigationResult::Found { checked, presented }
    }
}

/// Returns a store whose third retrospective contains everything that a report can show.
pub(crate) fn rich_world() -> World {
    let mut world = World::default();
    let shop = workflow_key("default", "shop");
    let errors = ["unknown column", "no table", "syntax", "lock", "timeout"];
    world.run_retrospective(&shop, &|_, number| match number {
        1 | 2 => investigation_result(errors.map(repair_finding).into(), vec![]),
        3 => investigation_result(vec![repair_finding("once only")], vec![]),
        _ => investigation_result(vec![], vec![]),
    });
    world.delete_memory(&shop, world.memory_about("timeout"), "it is about a server that is gone");
    world.run_retrospective(&shop, &|world, number| match number {
        1 => investigation_result(
            vec![],
            vec![memory_verdict(
                world.memory_about("syntax"),
                MemoryVerdict::Harmed,
                "followed, and the run failed",
            )],
        ),
        _ => investigation_result(vec![], vec![]),
    });
    world.summarize_third_window(&shop);
    world.run_retrospective(&shop, &third_investigation);
    world
}

fn third_investigation(world: &World, number: u32) -> InvestigationResult {
    let [column, table, syntax, lock] =
        ["unknown column", "no table", "syntax", "lock"].map(|error| world.memory_about(error));
    match number {
        1 => investigation_result(
            vec![
                repair_finding("once only"),
                repair_finding("timeout"),
                repair_finding("a|b <img src=x> [l](http://x) \u{1b}[2J"),
            ],
            vec![
                memory_verdict(
                    column,
                    MemoryVerdict::Helped,
                    "the columns were listed and the failure did not come",
                ),
                memory_verdict(syntax, MemoryVerdict::Harmed, "followed again, and the run failed"),
            ],
        ),
        2 => InvestigationResult::Failed { reason: "the trace could not be read".to_owned() },
        3 => investigation_result(
            vec![contradicting_finding("the tables | are there", table), repair_finding("unknown column")],
            vec![memory_verdict(lock, MemoryVerdict::CueNotMet, "nothing was locked")],
        ),
        4 => investigation_result(
            vec![contradicting_finding("the tables | are there", table)],
            vec![memory_verdict(column, MemoryVerdict::Helped, "the columns were listed first")],
        ),
        _ => investigation_result(
            vec![],
            vec![memory_verdict(
                world.memory_about("timeout"),
                MemoryVerdict::Ignored,
                "it was not followed",
            )],
        ),
    }
}
