//! Engine that asks a language model beside the heuristics.
//!
//! The heuristics run first. Their findings go into the prompt, the model looks into the run with tools
//! (`conversation`, `tools`), and states what it found in fields (`answer`). A finding is built from the fields only if the
//! trace confirms them (`heuristics/stated.rs`), and both are merged by what they say. The model's own words reach
//! the report and no agent.
//!
//! A model that is away, or a budget that is used up, leaves the run to the heuristics, and the answer says so. An answer
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
use retro_core::finding::{Compaction, InvestigatorAnswer, RawAnswer};
use retro_core::pipeline::PipelineName;
use retro_core::report::HEURISTICS;
use retro_model::LanguageModel;
use retro_pipeline::{PromptProblem, Prompts};
use retro_store::StoreError;
use retro_telemetry::metrics::MODEL_INVESTIGATIONS;
use tracing::{info, warn};

pub use self::answer::answer_schema;
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

    async fn ask_model(
        &self,
        task: &InvestigationTask,
        heuristics: &RawAnswer,
    ) -> Result<(ConversationEnd, Option<Compaction>), StoreError> {
        let broken = |note| (ConversationEnd::NotAsked { outcome: "prompt_broken", note }, None);
        let stored = task.journal.load_prompts().await?;
        let prompts = Prompts::from_texts(PipelineName::Retrospective, &stored.unwrap_or_default());
        let prompts = match prompts {
            Ok(prompts) => prompts,
            // The prompts were checked when they were read, with sample facts and by that version of the program.
            Err(problems) => return Ok(broken(describe_problems(&problems))),
        };
        let workflow = task.journal.open_workflow_brief().await?;
        let mut asker = Asker::open(&*self.model, &self.settings, &*task.journal).await?;
        let (earlier, compaction) = compact_earlier(&mut asker, &prompts, &task.brief.earlier).await?;
        let last_problem = task.last_error.as_deref().and_then(|error| error.strip_prefix(UNUSABLE));
        let (brief, found) = (task.brief.clone(), heuristics.findings.clone());
        let last_problem = last_problem.map(str::to_owned);
        // Judging the calls of a long run takes a while.
        let rendered = prompts.clone();
        let (tools, prompt) = run_blocking(move || {
            let judged = judge_run_calls(&brief.trajectory);
            let tools = RunTools::new(brief.clone(), &judged, workflow, found);
            let prompt = build_prompt(&rendered, &brief, &tools, &earlier, last_problem.as_deref());
            (tools, prompt)
        })
        .await;
        let prompt = match prompt {
            Ok(prompt) => prompt,
            Err(problem) => return Ok(broken(describe_problems(&[problem]))),
        };
        let share = Some(StepShare(task.step_share_permille)).filter(|share| share.0 > 0);
        let mut conversation = Conversation::new(asker, prompts, tools, share);
        Ok((conversation.run(prompt).await?, compaction))
    }

    async fn merge(
        &self,
        tools: Arc<RunTools>,
        heuristics: RawAnswer,
        submitted: SubmittedAnswer,
        compaction: Option<Compaction>,
    ) -> RawAnswer {
        let engine = format!("{HEURISTICS} and {}", self.model.name());
        let merged = run_blocking(move || merge_answer(&tools, heuristics, submitted)).await;
        RawAnswer { engine, compaction, ..merged }
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
        let InvestigatorAnswer::Answered(heuristics) = found else { return Ok(found) };
        let run = &task.brief.run.run_id;
        let (end, compaction) = self.ask_model(&task, &heuristics).await?;
        Ok(match end {
            ConversationEnd::Submitted(submitted, tools) => {
                MODEL_INVESTIGATIONS.add(1, ["model"]);
                let merged = self.merge(tools, heuristics, submitted, compaction).await;
                InvestigatorAnswer::Answered(merged)
            }
            ConversationEnd::Unusable(problem) => {
                info!(run.id = %run, "the language model gave no usable answer about run {run}: {problem}");
                InvestigatorAnswer::Invalid { reason: format!("{UNUSABLE}{problem}") }
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
