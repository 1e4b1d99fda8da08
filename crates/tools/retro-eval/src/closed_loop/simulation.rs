//! Simulates one workflow with one seed, window by window. After each window, waits for the retrospective, so
//! the next runs get the memories that it learned.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

use crate::closed_loop::agent::{RunResult, SimulatedRun, StepContext};
use crate::closed_loop::instance::{Instance, RetrospectiveKey, string_or_empty};
use crate::closed_loop::lesson::Lesson;
use crate::closed_loop::repositories::{SimulatedRepository, may_be_handed};
use crate::closed_loop::trajectory::{self, EventFacts};
use crate::closed_loop::truth::{MemoryClaim, MemoryTruth, WorldItem, evaluate_truth, match_claim};
use crate::closed_loop::world::{Workflow, World};

/// Number of runs per window: the policy's default threshold.
pub(crate) const WINDOW: u32 = 10;
/// Maximum number of runs of a manual retrospective; the API accepts up to 20.
const MANUAL_RUNS_MAX: usize = 10;

/// Status of a memory that waits for a person, whatever else it is.
pub(crate) const HELD: &str = "held";

/// State of a memory after a retrospective.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MemorySnapshot {
    pub(crate) id: String,
    pub(crate) lesson: Lesson,
    pub(crate) claim: MemoryClaim,
    pub(crate) truth: MemoryTruth,
    /// Status as the program names it, or [`HELD`].
    pub(crate) status: String,
    pub(crate) active: bool,
    pub(crate) tentative: bool,
    /// Repositories whose runs are handed the memory, as the program writes them; empty for every run.
    pub(crate) audience: String,
    /// Weight of the memory, in thousandths.
    pub(crate) weight: u32,
}

/// Result of a window and its retrospective.
#[derive(Debug, Clone)]
pub(crate) struct WindowResult {
    /// Number of runs completed so far, including those of this window.
    pub(crate) runs_completed: u32,
    /// Number of runs of this window that failed.
    pub(crate) failed: u32,
    /// Number of runs of this window that would have failed without memory.
    pub(crate) failed_without: u32,
    /// Number of runs of this window that a memory harmed.
    pub(crate) harmed: u32,
    /// By index of the cause: the number of this window's runs that encountered the cause, and of those that
    /// failed because of it.
    pub(crate) causes_met: BTreeMap<usize, (u32, u32)>,
    /// Same as `causes_met`, for the same runs without memory.
    pub(crate) causes_met_without: BTreeMap<usize, (u32, u32)>,
    /// Number of context tokens that the runs of this window were handed.
    pub(crate) tokens: u64,
    /// Number of times that a run of this window was handed a memory.
    pub(crate) handed: u32,
    /// Number of those times that the memory was of another repository.
    pub(crate) handed_elsewhere: u32,
    /// Number of this window's runs that encounter a cause without memory, once a cause, and of those that were handed
    /// a true memory of it.
    pub(crate) causes_handed: (u32, u32),
    /// IDs of the memories that at least one run of this window was handed.
    pub(crate) handed_memories: Vec<String>,
    /// Number of lessons that tombstones suppressed in the retrospective.
    pub(crate) suppressed: u32,
    /// Every memory of the workflow after the retrospective.
    pub(crate) memories: Vec<MemorySnapshot>,
}

/// Result of one workflow with one seed.
#[derive(Debug, Clone)]
pub(crate) struct WorkflowResult {
    pub(crate) seed: u64,
    /// Index of the workflow in its world.
    pub(crate) workflow: usize,
    pub(crate) windows: Vec<WindowResult>,
}

/// A workflow to simulate, with its settings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkflowSimulation<'a> {
    pub(crate) world: &'a World,
    pub(crate) workflow: usize,
    pub(crate) seed: u64,
    pub(crate) runs: u32,
    /// Number of repositories over which the runs are spread; 0 if they name none.
    pub(crate) repositories: u32,
    /// Interval at which an open retrospective is polled.
    pub(crate) poll_interval: Duration,
}

impl WorkflowSimulation<'_> {
    fn workflow(&self) -> &Workflow {
        &self.world.workflows[self.workflow]
    }

    fn tenant(&self) -> String {
        format!("{}-{}", self.world.name, self.seed)
    }

    fn simulated_run(&self, number: u32) -> SimulatedRun<'_> {
        let (world, agents) = (self.world.name.as_str(), &self.world.agents);
        SimulatedRun { world, agents, workflow: self.workflow(), seed: self.seed, number }
    }

    /// Simulates all windows of the workflow, in order.
    pub(crate) async fn simulate(self, retro: &Instance) -> Result<WorkflowResult> {
        let mut looks: Vec<WindowResult> = Vec::new();
        let mut shown: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for epoch in 1..=self.runs / WINDOW {
            let known = looks.last().map(|look| look.memories.as_slice()).unwrap_or_default();
            let mut look = self.simulate_window(retro, epoch, known, &mut shown).await?;
            self.accept_due_proposals(retro, epoch, &mut look, &mut shown).await?;
            looks.push(look);
        }
        Ok(WorkflowResult { seed: self.seed, workflow: self.workflow, windows: looks })
    }

    async fn simulate_window(
        &self,
        retro: &Instance,
        epoch: u32,
        known: &[MemorySnapshot],
        shown: &mut BTreeMap<usize, Vec<String>>,
    ) -> Result<WindowResult> {
        let (tenant, name) = (self.tenant(), &self.workflow().name);
        let last = epoch * WINDOW;
        let mut look = WindowResult::empty(last);
        let mut events = Vec::new();
        for number in last - WINDOW + 1..=last {
            let id = format!("{name}-{number:04}");
            let repository = SimulatedRepository::draw(self.repositories, &[&tenant, &id]);
            let handed = self.request_contexts(retro, &tenant, &id, known, repository.as_ref()).await?;
            let played = self.simulated_run(number).simulate(&handed);
            for trap in &played.traps_seen {
                shown.entry(*trap).or_default().push(id.clone());
            }
            // The same run without memory has the same draws, so any difference is the effect of the
            // memories.
            let without = self.simulated_run(number).simulate(&BTreeMap::new());
            look.count_run(&handed, &played, &without);
            look.count_handed(&handed, known, &without, repository.as_ref());
            let mut event = build_event(name, &id, &handed, &played);
            if let Some(repository) = &repository {
                repository.add_to(&mut event["data"]);
            }
            events.push(event);
        }
        retro.send_events(&tenant, &events).await?;
        let ended = retro
            .wait_until_closed(&tenant, name, &RetrospectiveKey::Epoch(epoch), self.poll_interval)
            .await?;
        let report = retro.fetch_report(&tenant, &ended.id).await?;
        let changes = report["changes"].as_array().map_or(&[][..], Vec::as_slice);
        let suppressed = changes.iter().filter(|change| change["effect"]["change"] == "suppressed").count();
        look.suppressed = u32::try_from(suppressed)?;
        look.memories = self.list_memories(retro, last).await?;
        Ok(look)
    }

    async fn request_contexts(
        &self,
        retro: &Instance,
        tenant: &str,
        run: &str,
        known: &[MemorySnapshot],
        repository: Option<&SimulatedRepository>,
    ) -> Result<BTreeMap<String, StepContext>> {
        let mut handed = BTreeMap::new();
        for step in &self.workflow().steps {
            let step = &step.get_ref().name;
            let answer = retro.request_context(tenant, &self.workflow().name, step, run, repository).await?;
            let rows = answer["memories"].as_array().into_iter().flatten();
            let memories = rows.map(|row| handed_memory(row, known)).collect();
            let tokens = if answer["text"] == "" { 0 } else { answer["tokens"].as_u64().unwrap_or_default() };
            handed.insert(
                step.clone(),
                StepContext { text: string_or_empty(&answer["text"]), tokens, memories },
            );
        }
        Ok(handed)
    }

    async fn list_memories(&self, retro: &Instance, runs_over: u32) -> Result<Vec<MemorySnapshot>> {
        let rows = retro.list_memories(&self.tenant(), &self.workflow().name).await?;
        let kept = |row: &Value| {
            let (step, lesson) = (string_or_empty(&row["scope"]["step"]), Lesson::from_json(&row["lesson"]));
            let claim = match_claim(self.workflow(), &step, &lesson);
            MemorySnapshot {
                id: string_or_empty(&row["id"]),
                truth: evaluate_truth(self.workflow(), &claim, runs_over),
                claim,
                // A held memory is shown to nobody.
                active: row["status"] == "active" && row["quarantine"].is_null(),
                status: if row["quarantine"].is_null() {
                    string_or_empty(&row["status"])
                } else {
                    HELD.to_owned()
                },
                tentative: row["status"] == "tentative",
                audience: string_or_empty(&row["scope"]["audience"]),
                weight: row["weight"]
                    .as_u64()
                    .and_then(|weight| u32::try_from(weight).ok())
                    .unwrap_or_default(),
                lesson,
            }
        };
        Ok(rows.iter().map(kept).collect())
    }

    /// Acts as an operator after a window: for each trap that is due, opens a manual retrospective over the
    /// runs that showed the trap, and accepts the proposals about the trap.
    async fn accept_due_proposals(
        &self,
        retro: &Instance,
        epoch: u32,
        look: &mut WindowResult,
        shown: &mut BTreeMap<usize, Vec<String>>,
    ) -> Result<()> {
        let (tenant, name) = (self.tenant(), &self.workflow().name);
        let mut accepted = false;
        for (at, trap) in self.workflow().traps.iter().enumerate() {
            let trap = trap.get_ref();
            let due = trap.accepted_at.is_some_and(|run| run.div_ceil(WINDOW) == epoch);
            let runs = shown.get(&at).map_or(&[][..], Vec::as_slice);
            if !due || runs.is_empty() {
                continue;
            }
            let runs = &runs[runs.len().saturating_sub(MANUAL_RUNS_MAX)..];
            let id = retro.open_manual_retrospective(&tenant, name, runs).await?;
            retro
                .wait_until_closed(&tenant, name, &RetrospectiveKey::Id(id.clone()), self.poll_interval)
                .await?;
            for row in retro.list_proposals(&tenant, &id).await? {
                let proposal = &row["proposal"];
                let lesson = Lesson::from_json(&proposal["lesson"]);
                if match_claim(self.workflow(), &trap.step, &lesson).is_about(WorldItem::Trap(at)) {
                    retro.accept_proposal(&tenant, &string_or_empty(&proposal["id"])).await?;
                    accepted = true;
                }
            }
        }
        // Accepting a proposal changes the memories, so the window lists them again.
        if accepted {
            look.memories = self.list_memories(retro, look.runs_completed).await?;
        }
        Ok(())
    }
}

impl WindowResult {
    fn empty(runs_over: u32) -> Self {
        Self {
            runs_completed: runs_over,
            failed: 0,
            failed_without: 0,
            harmed: 0,
            causes_met: BTreeMap::new(),
            causes_met_without: BTreeMap::new(),
            tokens: 0,
            handed: 0,
            handed_elsewhere: 0,
            causes_handed: (0, 0),
            handed_memories: Vec::new(),
            suppressed: 0,
            memories: Vec::new(),
        }
    }

    fn count_run(&mut self, handed: &BTreeMap<String, StepContext>, with: &RunResult, without: &RunResult) {
        self.failed += u32::from(with.failed);
        self.failed_without += u32::from(without.failed);
        self.harmed += u32::from(!with.harmed_by.is_empty() || !with.misled_by.is_empty());
        for (tally, played) in [(&mut self.causes_met, with), (&mut self.causes_met_without, without)] {
            for cause in &played.causes_met {
                let counts = tally.entry(*cause).or_default();
                counts.0 += 1;
                counts.1 += u32::from(played.failed_by.contains(cause));
            }
        }
        for handed in handed.values() {
            self.tokens += handed.tokens;
            for (id, _) in &handed.memories {
                if !self.handed_memories.contains(id) {
                    self.handed_memories.push(id.clone());
                }
            }
        }
    }
}

impl WindowResult {
    /// Counts the memories that a run was handed: those of another repository, and the causes of the run that a true
    /// one is about.
    fn count_handed(
        &mut self,
        handed: &BTreeMap<String, StepContext>,
        known: &[MemorySnapshot],
        without: &RunResult,
        repository: Option<&SimulatedRepository>,
    ) {
        let ids = handed.values().flat_map(|context| &context.memories).map(|(id, _)| id);
        let found: Vec<_> = ids.filter_map(|id| known.iter().find(|memory| memory.id == *id)).collect();
        let elsewhere = found.iter().filter(|memory| !may_be_handed(&memory.audience, repository));
        self.handed += u32::try_from(found.len()).unwrap_or(u32::MAX);
        self.handed_elsewhere += u32::try_from(elsewhere.count()).unwrap_or(u32::MAX);
        for cause in &without.causes_met {
            let is_about = |memory: &&MemorySnapshot| {
                memory.truth == MemoryTruth::True && memory.claim.is_about_cause(*cause)
            };
            self.causes_handed.0 += 1;
            self.causes_handed.1 += u32::from(found.iter().any(is_about));
        }
    }
}

/// Returns the ID and the lesson of a handed memory. The context holds its line only; what an agent that opens
/// it reads is in the list of the `known` memories.
fn handed_memory(row: &Value, known: &[MemorySnapshot]) -> (String, Lesson) {
    let (id, line) = (string_or_empty(&row["id"]), string_or_empty(&row["title"]));
    let listed = known.iter().find(|memory| memory.id == id).map(|memory| memory.lesson.clone());
    let lesson = Lesson { line: line.clone(), ..listed.unwrap_or_else(|| Lesson::from_line(&line)) };
    (id, lesson)
}

fn build_event(
    workflow: &str,
    run: &str,
    handed: &BTreeMap<String, StepContext>,
    played: &RunResult,
) -> Value {
    let presented = handed.values().flat_map(|handed| &handed.memories).map(|(id, _)| id.as_str()).collect();
    let read = played.memories_read.iter().map(String::as_str).collect();
    let facts =
        EventFacts { workflow, run, failed: played.failed, presented, read, remarks: &played.remarks };
    trajectory::build_event(&facts, &played.trace)
}
