//! Plays the retrospectives of a case, one after the other.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use retro_config::Pipeline;
use retro_core::calls::{StoredSummary, WindowSummaries, count_calls};
use retro_core::id::{Epoch, MemoryId, Ordinal, RunId, Step, Tenant, Workflow, WorkflowKey};
use retro_core::learn::{ClosingFacts, WriterFacts, build_batch, close_retrospective, delete_by_operator};
use retro_core::manual::{NamedRun, trigger_retrospective};
use retro_core::memory::{Change, ChangeCause, Memory, Tombstone};
use retro_core::model_use::{ModelPrice, SpendingLimit};
use retro_core::policy::{Policies as _, Policy};
use retro_core::report::{InvestigationTiming, Report, WindowRun, WorkflowHistory};
use retro_core::retrospective::{
    Investigation, ManualRequest, PresentedMemory, Retrospective, RetrospectiveState, WorkflowState,
};
use retro_core::run::{RunFacts, RunOutcome};
use retro_core::sample::Sample;
use retro_core::similarity::NgramEmbedder;
use retro_core::trajectory::{ToolCall, Trajectory, Turn, TurnSource};
use retro_core::workflow_brief::WorkflowBrief;
use retro_investigator::{Engine, HeuristicEngine, ModelEngine, ModelSettings, play_investigation};
use retro_model::{ModelResponse, ScriptedModel, ToolUse};
use retro_store::{Claim, StoredBody};
use serde_json::json;

use super::expectation::Outcome;
use super::file::{CaseCall, CaseFile, CaseRetrospective, CaseRun, RunUse};
use super::journal::CaseJournal;

/// Time of the first retrospective of a case.
pub(super) const START: &str = "2026-01-01T00:00:00Z";
/// Price of a script, so that a pipeline that bounds the cost can be played.
pub(super) const SCRIPT_PRICE: ModelPrice = ModelPrice { input: 0, cached: 0, output: 0 };
/// Maximum number of tokens of an answer; a script is never cut off.
pub(super) const OUTPUT_TOKENS_MAX: u32 = 4000;

/// The state of the workflow of a case.
pub(super) struct CasePlayer<'a> {
    file: &'a CaseFile,
    key: WorkflowKey,
    policy: Policy,
    prompts: BTreeMap<String, String>,
    now: Timestamp,
    state: WorkflowState,
    previous: Option<Epoch>,
    manual: u32,
    runs: BTreeMap<String, u32>,
    memories: BTreeMap<MemoryId, Memory>,
    tombstones: BTreeMap<MemoryId, Tombstone>,
    changes: Vec<Change>,
    summaries: Vec<StoredSummary>,
}

/// A run of the window.
struct PlayedRun<'a> {
    ordinal: Ordinal,
    facts: RunFacts,
    body: Vec<u8>,
    presented: Vec<PresentedMemory>,
    told: &'a CaseRun,
}

impl<'a> CasePlayer<'a> {
    /// Prepares the workflow of a case, without memories. Fails with a sentence if the values of its policy are wrong.
    pub(super) fn new(file: &'a CaseFile, pipeline: &Pipeline) -> Result<Self, String> {
        let named = || Workflow::new("case").expect("a valid name");
        let workflow = file.case.workflow.clone().unwrap_or_else(named);
        let key = WorkflowKey { tenant: Tenant::default_tenant(), workflow };
        let policy = pipeline.policy_for(&key);
        let policy = match &file.case.policy {
            Some(values) => override_policy(policy, values.get_ref())
                .map_err(|problem| format!("{}: {problem}", file.place(values.span())))?,
            None => policy,
        };
        let prompts = pipeline.version().contents().prompts_of(&key.workflow).clone();
        Ok(Self {
            file,
            policy,
            key,
            prompts,
            now: START.parse().expect("a valid time"),
            state: WorkflowState::default(),
            previous: None,
            manual: 0,
            runs: BTreeMap::new(),
            memories: BTreeMap::new(),
            tombstones: BTreeMap::new(),
            changes: Vec::new(),
            summaries: Vec::new(),
        })
    }

    /// Plays the case and returns what was not as expected, each with file and line.
    pub(super) async fn play(&mut self) -> Vec<String> {
        let mut problems = Vec::new();
        let file = self.file;
        for told in &file.case.retrospective {
            let days = told.days_later.as_ref().map_or(0, |days| *days.get_ref());
            self.now += SignedDuration::from_hours(24 * i64::from(days) + 1);
            if let Err(problem) = self.play_retrospective(told, &mut problems).await {
                // What comes after it would build on something that did not happen.
                problems.push(problem);
                break;
            }
        }
        problems
    }

    /// Plays a retrospective. Fails with a sentence if it cannot be played.
    async fn play_retrospective(
        &mut self,
        told: &'a CaseRetrospective,
        problems: &mut Vec<String>,
    ) -> Result<(), String> {
        let before = self.changes.len();
        for title in &told.delete {
            self.delete(title.get_ref())
                .map_err(|problem| format!("{}: {problem}", self.file.place(title.span())))?;
        }
        let window = self.count_runs(told)?;
        let retrospective = self.open(told, &window)?;
        let (ended, summaries) = self.investigate(&retrospective, &window).await?;
        let report = self.close(retrospective, &window, ended, summaries);
        let changes = self.changes[before..].to_vec();
        let memories = self.memories.values().collect();
        let outcome = Outcome::of_retrospective(&report, &changes, memories);
        problems.extend(self.file.check_all(&told.expect, &outcome));
        Ok(())
    }

    /// Deletes a memory as a person does.
    fn delete(&mut self, title: &str) -> Result<(), String> {
        let id = self.find_memory(title)?;
        let (change, after, tombstone) = delete_by_operator(
            &self.key,
            &self.memories[&id],
            &format!("case-{}", self.changes.len()),
            "the case deletes it",
            self.now,
            &self.policy,
        )
        .map_err(|error| error.to_string())?;
        self.changes.push(change);
        self.tombstones.insert(id, tombstone);
        self.memories.insert(id, after);
        Ok(())
    }

    /// Finds the only memory whose title contains a text.
    fn find_memory(&self, title: &str) -> Result<MemoryId, String> {
        let mut found = self.memories.values().filter(|memory| memory.lesson.title.contains(title));
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(one.id),
            (None, _) => {
                let titles: Vec<_> =
                    self.memories.values().map(|memory| memory.lesson.title.as_str()).collect();
                Err(format!("no memory has the title `{title}`; there are: {}", titles.join("; ")))
            }
            (Some(one), Some(other)) => {
                Err(format!("`{title}` is in two titles: {}; {}", one.lesson.title, other.lesson.title))
            }
        }
    }

    fn count_runs(&mut self, told: &'a CaseRetrospective) -> Result<Vec<PlayedRun<'a>>, String> {
        let file = self.file;
        let mut window = Vec::new();
        for used in &told.runs {
            let run = used.get_ref();
            let told = &file.case.run[&run.run];
            let of_title =
                |title: &String| Ok(PresentedMemory::from_own_workflow(self.find_memory(title)?, false));
            let presented: Result<Vec<_>, String> = run.presented.iter().map(of_title).collect();
            let presented = presented.map_err(|problem| format!("{}: {problem}", file.place(used.span())))?;
            let nth = self.runs.entry(run.run.clone()).or_default();
            *nth += 1;
            let id = format!("{}-{nth}", run.run);
            let facts = build_facts(&id, told, run)
                .map_err(|error| format!("{}: {error}", file.place(used.span())))?;
            let body = serde_json::to_vec(&build_trajectory(told)).expect("a trajectory is plain data");
            self.state.counted += 1;
            window.push(PlayedRun { ordinal: self.state.counted, facts, body, presented, told });
        }
        Ok(window)
    }

    /// Opens the retrospective over all runs: a case chooses its runs, so trigger and selection of the policy do not.
    fn open(&mut self, told: &CaseRetrospective, window: &[PlayedRun<'_>]) -> Result<Retrospective, String> {
        let runs = u32::try_from(window.len()).unwrap_or(u32::MAX);
        let policy = Policy {
            threshold_runs: runs,
            window_runs_max: runs,
            sample_permille: 1000,
            sample_runs_max: runs,
            ..self.policy.clone()
        };
        if let Some(question) = &told.question {
            self.manual += 1;
            let request = ManualRequest {
                request: format!("case-{}", self.manual),
                by: "case".to_owned(),
                with_token: None,
                runs: window.iter().map(|run| run.facts.run_id.clone()).collect(),
                focus: Some(question.clone()),
                reason: None,
            };
            let named = window.iter().map(|run| NamedRun {
                run: run.facts.run_id.clone(),
                ordinal: Some(run.ordinal),
                has_facts: true,
            });
            let named: Vec<_> = named.collect();
            let opened = trigger_retrospective(&self.key, &request, &named, &policy, self.now);
            return opened.map(|opened| opened.retrospective).map_err(|error| error.to_string());
        }
        let opened = self.state.open_if_due(&self.key, &policy, self.now, 0);
        opened.map(|opened| opened.retrospective).ok_or_else(|| {
            format!("{}: the workflow pauses after a failure; set `days_later`", self.file.path.display())
        })
    }

    async fn investigate(
        &self,
        retrospective: &Retrospective,
        window: &[PlayedRun<'_>],
    ) -> Result<(Vec<Investigation>, Vec<StoredSummary>), String> {
        let (mut ended, mut summaries): (Vec<Investigation>, _) = (Vec::new(), Vec::new());
        let memories: Vec<_> = self.memories.values().cloned().collect();
        // Of the runs before this window alone: its own are summarised while they are played.
        let workflow =
            WorkflowBrief::build(&self.key.workflow, window.len() as u64, &self.summaries, &memories);
        for (number, run) in (1u32..).zip(window) {
            let claim = Claim {
                retrospective: retrospective.clone(),
                number,
                token: 1,
                attempt: 1,
                taken_over: false,
                run: run.facts.clone(),
                body: StoredBody::Inline(run.body.clone()),
                presented: run.presented.clone(),
                memories: memories.clone(),
                earlier: ended.clone(),
                journal: Vec::new(),
                last_error: None,
            };
            let journal = Arc::new(CaseJournal::new(self.prompts.clone(), workflow.clone()));
            let played = play_investigation(&claim, &*build_engine(run.told), journal).await;
            let played = played.map_err(|error| error.to_string())?;
            let (run_id, ordinal) = (run.facts.run_id.clone(), run.ordinal);
            summaries.push(StoredSummary { run: run_id.clone(), ordinal, content: played.summary });
            let result = Some(played.result);
            ended.push(Investigation { number, ordinal, run: run_id, replacement: false, result });
        }
        Ok((ended, summaries))
    }

    fn close(
        &mut self,
        retrospective: Retrospective,
        window: &[PlayedRun<'_>],
        investigations: Vec<Investigation>,
        summaries: Vec<StoredSummary>,
    ) -> Report {
        let order: Vec<_> = window.iter().map(|run| run.ordinal).collect();
        let size = u32::try_from(order.len()).unwrap_or(u32::MAX);
        let summarized =
            WindowSummaries { runs: size, summaries: summaries.clone(), earlier: self.summaries.clone() };
        let investigated: BTreeSet<RunId> = investigations.iter().map(|one| one.run.clone()).collect();
        let retrospective = Retrospective { state: RetrospectiveState::Settling, ..retrospective };
        let facts = ClosingFacts {
            sample: Sample { seed: String::new(), order, size },
            window: window.iter().map(to_window_run).collect(),
            timings: vec![
                InvestigationTiming { attempts: 1, ..InvestigationTiming::default() };
                investigations.len()
            ],
            batch: build_batch(&retrospective, &investigations, &summarized),
            calls: retrospective.manual_request.is_none().then(|| count_calls(&summarized, &investigated)),
            writer: self.writer_facts(&retrospective, &investigated),
            state: self.state.clone(),
            waiting_in_order: 0,
            history: WorkflowHistory::default(),
            retrospective: retrospective.clone(),
            investigations,
        };
        let closed = close_retrospective(facts, &NgramEmbedder, &self.policy, self.now);
        if retrospective.manual_request.is_none() {
            self.state = closed.workflow_state;
            if closed.retrospective_state == RetrospectiveState::Closed {
                self.previous = Some(retrospective.epoch);
            }
        }
        self.summaries.extend(summaries);
        self.changes.extend(closed.applied.changes);
        self.memories.extend(closed.applied.memories.into_iter().map(|memory| (memory.id, memory)));
        closed.applied.expired.iter().for_each(|id| _ = self.tombstones.remove(id));
        self.tombstones.extend(closed.applied.tombstones.into_iter().map(|one| (one.memory, one)));
        closed.report
    }

    fn writer_facts(&self, retrospective: &Retrospective, runs: &BTreeSet<RunId>) -> WriterFacts {
        let is_repeated = |change: &&Change| {
            change.retrospective == Some(retrospective.id)
                || matches!(&change.cause, ChangeCause::Run { run, .. } if runs.contains(run))
        };
        let applied: HashSet<_> = self.changes.iter().filter(is_repeated).map(|change| change.id).collect();
        WriterFacts {
            key: self.key.clone(),
            retrospective: retrospective.id,
            epoch: retrospective.epoch,
            previous_epoch: self.previous,
            as_of: retrospective.as_of,
            policy: retrospective.policy.clone(),
            pipeline: retrospective.pipeline.as_ref().map(|version| version.pipeline.clone()),
            memories: self.memories.values().cloned().collect(),
            tombstones: self.tombstones.values().cloned().collect(),
            applied,
            feedback: Vec::new(),
        }
    }
}

/// Returns the policy with the values of a case. Fails with a sentence if a key is unknown or a value out of bounds.
fn override_policy(policy: Policy, values: &toml::Table) -> Result<Policy, String> {
    let mut all = serde_json::to_value(&policy).expect("a policy is plain data");
    for (key, value) in values {
        all[key] = json!(value);
    }
    let changed: Policy = serde_json::from_value(all).map_err(|error| error.to_string())?;
    changed
        .validate()
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    Ok(Policy { pipeline: policy.pipeline, ..changed })
}

fn to_window_run(run: &PlayedRun<'_>) -> WindowRun {
    WindowRun {
        ordinal: run.ordinal,
        run: run.facts.run_id.clone(),
        outcome: run.facts.outcome,
        pull_requests: Vec::new(),
        checks: Vec::new(),
    }
}

fn build_facts(id: &str, told: &CaseRun, used: &RunUse) -> Result<RunFacts, serde_json::Error> {
    serde_json::from_value(json!({
        "run_id": id,
        "outcome": told.outcome.unwrap_or(RunOutcome::Success),
        "task": used.task.as_ref().or(told.task.as_ref()),
        "user": used.user.as_ref().or(told.user.as_ref()),
        "repo": told.repo,
    }))
}

fn build_trajectory(told: &CaseRun) -> Trajectory {
    let step = told.step.clone().unwrap_or_else(Step::main);
    let turn = |source, message: String, calls| Turn {
        step: step.clone(),
        agentic: true,
        entry: None,
        at: None,
        source,
        message,
        reasoning: String::new(),
        calls,
    };
    let asked = told.message.iter().map(|message| turn(TurnSource::User, message.clone(), Vec::new()));
    let called =
        told.calls.iter().map(|call| turn(TurnSource::Agent, call.message.clone(), vec![to_call(call)]));
    asked.chain(called).collect::<Vec<_>>().into()
}

fn to_call(call: &CaseCall) -> ToolCall {
    ToolCall {
        tool: call.tool.clone(),
        arguments: json!(call.arguments).to_string(),
        answer: call.answer.clone(),
        failed: call.failed,
    }
}

/// Builds the engine of a run: the heuristics, and the scripted model beside them if the run has one.
fn build_engine(told: &CaseRun) -> Box<dyn Engine> {
    if told.model.is_empty() {
        return Box::new(HeuristicEngine);
    }
    let answer = |(number, arguments): (usize, &toml::Table)| ModelResponse {
        calls: vec![ToolUse {
            id: format!("call-{number}"),
            name: "submit_findings".to_owned(),
            arguments: json!(arguments).to_string(),
        }],
        ..ModelResponse::default()
    };
    let model = ScriptedModel::from_answers(told.model.iter().enumerate().map(answer).collect());
    let settings = ModelSettings {
        output_tokens_max: OUTPUT_TOKENS_MAX,
        price: Some(SCRIPT_PRICE),
        day: SpendingLimit::default(),
    };
    Box::new(ModelEngine::new(Arc::new(model), settings))
}
