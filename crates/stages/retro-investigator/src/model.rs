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
mod conversation;
mod prompt;
mod settings;
mod tools;

use std::sync::Arc;

use async_trait::async_trait;
use retro_consumer::run_blocking;
use retro_core::finding::{InvestigationBrief, InvestigatorAnswer, RawAnswer};
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
use conversation::{Conversation, ConversationEnd};
use prompt::build_prompt;
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
    ) -> Result<ConversationEnd, StoreError> {
        let last_problem = task.last_error.as_deref().and_then(|error| error.strip_prefix(UNUSABLE));
        let (brief, found) = (task.brief.clone(), heuristics.findings.clone());
        let last_problem = last_problem.map(str::to_owned);
        let stored = task.journal.load_prompts().await?;
        // Judging the calls of a long run takes a while.
        let (tools, prompt) = run_blocking(move || {
            let tools = RunTools::new(brief.clone(), &judge_run_calls(&brief.trajectory));
            let prompts = Prompts::from_texts(PipelineName::Retrospective, &stored.unwrap_or_default());
            let prompt = prompts.map_err(|problems| describe_problems(&problems)).and_then(|prompts| {
                build_prompt(&prompts, &brief, &tools, &found, last_problem.as_deref())
                    .map_err(|problem| describe_problems(&[problem]))
            });
            (tools, prompt)
        })
        .await;
        let prompt = match prompt {
            Ok(prompt) => prompt,
            // The prompts were checked when they were read, with sample facts and by that version of the program.
            Err(note) => return Ok(ConversationEnd::NotAsked { outcome: "prompt_broken", note }),
        };
        let conversation = Conversation {
            model: &*self.model,
            settings: &self.settings,
            journal: &*task.journal,
            tools: Arc::new(tools),
        };
        conversation.run(prompt).await
    }

    async fn merge(
        &self,
        brief: Arc<InvestigationBrief>,
        heuristics: RawAnswer,
        submitted: SubmittedAnswer,
    ) -> RawAnswer {
        let engine = format!("{HEURISTICS} and {}", self.model.name());
        let merged = run_blocking(move || merge_answer(&brief, heuristics, submitted)).await;
        RawAnswer { engine, ..merged }
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
        Ok(match self.ask_model(&task, &heuristics).await? {
            ConversationEnd::Submitted(submitted) => {
                MODEL_INVESTIGATIONS.add(1, ["model"]);
                InvestigatorAnswer::Answered(self.merge(task.brief.clone(), heuristics, submitted).await)
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
