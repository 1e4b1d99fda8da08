//! Engine that asks a language model beside the heuristics.
//!
//! The heuristics run first, whatever the stages of the policy are, because they also judge the memories that the run was given.
//! Their findings go into the prompt if they are a stage before the model. The model looks into the run with tools
//! (`conversation`, `tools`), and states what it found in fields (`answer`). A finding is built from the fields only if the
//! trace confirms them (`heuristics/stated.rs`), and both are merged by what they say. The model's own words reach
//! the report and no agent.
//!
//! A model that is away, or a budget that is used up, leaves the run to the heuristics, and the answer says so; where they are no
//! stage, the attempt fails. An answer
//! that cannot be used is a failed attempt: it is recorded, and the next prompt says what was wrong with it.

mod answer;
mod asker;
mod compact;
mod conversation;
mod prompt;
mod settings;
mod step;
mod tools;
mod turns;
mod workflow;

use std::sync::Arc;

use async_trait::async_trait;
use retro_consumer::run_blocking;
use retro_core::finding::{Compaction, Finding, InvestigatorAnswer, RawAnswer};
use retro_core::pipeline::PipelineName;
use retro_core::policy::{InvestigationStage, Policy};
use retro_core::report::HEURISTICS;
use retro_model::LanguageModel;
use retro_pipeline::{PromptProblem, Prompts};
use retro_store::StoreError;
use retro_telemetry::metrics::MODEL_INVESTIGATIONS;
use tracing::{info, warn};

pub use self::answer::answer_schema;
use self::settings::InvestigationBounds;
pub use self::settings::ModelSettings;
use crate::engine::{Engine, InvestigationTask, run_heuristics};
use crate::heuristics::judge_run_calls;
use answer::{SubmittedAnswer, merge_answer};
use asker::Asker;
use compact::compact_earlier;
use conversation::{Conversation, ConversationEnd};
use prompt::build_prompt;
use step::StepShare;
use tools::RunTools;

/// Beginning of the reason of an attempt whose answer could not be used. The next prompt tells the model the rest.
pub(crate) const UNUSABLE: &str = "the language model's answer is unusable: ";

/// Engine that investigates with the heuristics and a language model.
pub struct ModelEngine {
    model: Arc<dyn LanguageModel>,
    settings: ModelSettings,
}

impl ModelEngine {
    /// Creates the engine.
    pub const fn new(model: Arc<dyn LanguageModel>, settings: ModelSettings) -> Self {
        Self { model, settings }
    }

    /// Asks the model about a run. `told` are the findings of the heuristics that it is told.
    async fn ask_model(
        &self,
        task: &InvestigationTask,
        told: Vec<Finding>,
    ) -> Result<(ConversationEnd, Option<Compaction>), StoreError> {
        let broken = |note| (ConversationEnd::NotAsked { outcome: "prompt_broken", note }, None);
        let bounds = match InvestigationBounds::new(&self.settings, &task.policy, self.model.name()) {
            Ok(bounds) => bounds,
            Err(note) => return Ok((ConversationEnd::NotAsked { outcome: "over_budget", note }, None)),
        };
        let stored = task.journal.load_prompts().await?;
        let prompts = Prompts::from_texts(PipelineName::Retrospective, &stored.unwrap_or_default());
        let prompts = match prompts {
            Ok(prompts) => prompts,
            // The prompts were checked when they were read, with sample facts and by that version of the program.
            Err(problems) => return Ok(broken(describe_problems(&problems))),
        };
        let workflow = task.journal.open_workflow_brief().await?;
        let mut asker = Asker::open(&*self.model, &bounds, &*task.journal).await?;
        let (earlier, compaction) = compact_earlier(&mut asker, &prompts, &task.brief.earlier).await?;
        let last_problem = task.last_error.as_deref().and_then(|error| error.strip_prefix(UNUSABLE));
        let brief = task.brief.clone();
        let last_problem = last_problem.map(str::to_owned);
        // Judging the calls of a long run takes a while.
        let rendered = prompts.clone();
        let (tools, prompt) = run_blocking(move || {
            let judged = judge_run_calls(&brief.trajectory);
            let tools = RunTools::new(brief.clone(), &judged, workflow, told);
            let prompt = build_prompt(&rendered, &brief, &tools, &earlier, last_problem.as_deref());
            (tools, prompt)
        })
        .await;
        let prompt = match prompt {
            Ok(prompt) => prompt,
            Err(problem) => return Ok(broken(describe_problems(&[problem]))),
        };
        let share = Some(StepShare(task.policy.step_share_permille)).filter(|share| share.0 > 0);
        let mut conversation = Conversation::new(asker, prompts, tools, share);
        Ok((conversation.run(prompt).await?, compaction))
    }

    /// Merges what the model submitted into the answer of the heuristics.
    async fn merge(
        &self,
        tools: Arc<RunTools>,
        policy: &Policy,
        heuristics: RawAnswer,
        submitted: SubmittedAnswer,
        compaction: Option<Compaction>,
    ) -> RawAnswer {
        let engine = self.name_stages(policy);
        let merged = run_blocking(move || merge_answer(&tools, heuristics, submitted)).await;
        RawAnswer { engine, compaction, ..merged }
    }

    /// Names who investigated, in the order of the stages.
    fn name_stages(&self, policy: &Policy) -> String {
        let name = |stage: &InvestigationStage| match stage {
            InvestigationStage::Heuristics => HEURISTICS,
            InvestigationStage::Model => self.model.name(),
        };
        policy.stages.iter().map(name).collect::<Vec<_>>().join(" and ")
    }
}

fn describe_problems(problems: &[PromptProblem]) -> String {
    let sentences: Vec<_> = problems.iter().map(ToString::to_string).collect();
    format!("a prompt of the pipeline cannot be used for this run: {}", sentences.join("; "))
}

#[async_trait]
impl Engine for ModelEngine {
    fn name(&self) -> &'static str {
        HEURISTICS
    }

    async fn investigate(&self, task: InvestigationTask) -> Result<InvestigatorAnswer, StoreError> {
        let found = run_heuristics(task.brief.clone(), task.watch.clone()).await;
        let InvestigatorAnswer::Answered(mut heuristics) = found else { return Ok(found) };
        let policy = &task.policy;
        if !policy.has_stage(InvestigationStage::Model) {
            MODEL_INVESTIGATIONS.add(1, ["no_stage"]);
            return Ok(InvestigatorAnswer::Answered(heuristics));
        }
        let model_alone = !policy.has_stage(InvestigationStage::Heuristics);
        if model_alone {
            heuristics = RawAnswer { findings: Vec::new(), focus: None, ..heuristics };
        }
        let told = if policy.tells_model_findings() { heuristics.findings.clone() } else { Vec::new() };
        let run = &task.brief.run.run_id;
        let (end, compaction) = self.ask_model(&task, told).await?;
        Ok(match end {
            ConversationEnd::Submitted(submitted, tools) => {
                MODEL_INVESTIGATIONS.add(1, ["model"]);
                let merged = self.merge(tools, policy, heuristics, submitted, compaction).await;
                InvestigatorAnswer::Answered(merged)
            }
            ConversationEnd::Unusable(problem) => {
                info!(run.id = %run, "the language model gave no usable answer about run {run}: {problem}");
                InvestigatorAnswer::Invalid { reason: format!("{UNUSABLE}{problem}") }
            }
            ConversationEnd::NotAsked { outcome, note } if model_alone => {
                MODEL_INVESTIGATIONS.add(1, [outcome]);
                warn!(run.id = %run, "run {run} is not investigated, because only the model may: {note}");
                InvestigatorAnswer::Failed { reason: format!("{note}, and `stages` lists nobody else") }
            }
            ConversationEnd::NotAsked { outcome, note } => {
                MODEL_INVESTIGATIONS.add(1, [outcome]);
                warn!(run.id = %run, "run {run} is investigated by the heuristics alone: {note}");
                InvestigatorAnswer::Answered(RawAnswer { model_note: Some(note), ..heuristics })
            }
        })
    }
}

#[cfg(test)]
mod tests;
