//! Reader that asks a language model beside the heuristics.
//!
//! The heuristics read every remark first. Then the model reads those of people whom a rule could come from, in bounded calls
//! (`prompt`), and answers in fields (`answer`). What it answers about a remark is taken as far as the remark confirms it
//! (`merge`), so it can neither invent a rule nor word one freely, and what a remark tells it to do ends here.
//!
//! A model that is away, an answer that cannot be used, or a budget or time that is used up, leaves the remarks to the
//! heuristics, and the report says so. Nothing is tried again later: a pull request is decided once its time has come, and again
//! only if something new is known about it.

mod answer;
mod merge;
mod prompt;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use retro_core::model_use::{ModelPrice, SpendingLimit};
use retro_core::pipeline::PipelineName;
use retro_core::remark::{AuthorStanding, Remark};
use retro_core::review::{RemarkReading, ReviewReading, ReviewSettings};
use retro_model::{
    ChatMessage, JournalledModel, LanguageModel, ModelRequest, ModelResponse, NotAnswered, StopReason,
    ToolResult, ToolSpec,
};
use retro_pipeline::Prompts;
use retro_store::StoreError;
use retro_telemetry::metrics::MODEL_REVIEWS;
use tokio::time::Instant;
use tracing::warn;

pub use self::answer::readings_schema;
use self::answer::{SUBMIT, SubmittedOutcome, SubmittedReadings};
use self::merge::merge_reading;
use self::prompt::{build_batches, build_prompt};
use crate::heuristics::{HEURISTICS, HeuristicReader};
use crate::reader::{ReadingTask, RemarkReader, ReviewReadings};

/// Maximum number of answers about one batch that are sent back because they are none.
const REPAIRS_MAX: u32 = 1;

/// Bounds of what a model may be asked about one review. The pipeline of the review has its budget.
#[derive(Debug, Clone)]
pub struct ModelReaderSettings {
    /// Maximum number of tokens of one answer.
    pub output_tokens_max: u32,
    /// Price of the model; `None` if it is not known.
    pub price: Option<ModelPrice>,
    /// Budget of one day, in UTC, over all tenants and workflows.
    pub day: SpendingLimit,
    /// Time after which no further call is begun for one review.
    pub time_max: Duration,
}

/// Reader that reads with the heuristics and a language model.
pub struct ModelReader {
    model: Arc<dyn LanguageModel>,
    settings: ModelReaderSettings,
}

/// Reason why the model read no more: how it is measured, and what the report says.
struct Stopped {
    outcome: &'static str,
    note: String,
}

impl Stopped {
    fn new(outcome: &'static str, note: impl Into<String>) -> Self {
        Self { outcome, note: note.into() }
    }
}

impl From<NotAnswered> for Stopped {
    fn from(reason: NotAnswered) -> Self {
        match reason {
            NotAnswered::Unreadable(problem) => Self::new("invalid", describe_unusable(&problem)),
            NotAnswered::Unavailable(note) => Self::new("unavailable", note),
            NotAnswered::OverBudget(note) => Self::new("over_budget", note),
        }
    }
}

fn describe_unusable(problem: &str) -> String {
    format!("the language model gave no answer that can be used: {problem}")
}

impl ModelReader {
    /// Creates the reader.
    pub const fn new(model: Arc<dyn LanguageModel>, settings: ModelReaderSettings) -> Self {
        Self { model, settings }
    }

    /// Reads the remarks with the model and joins its answers with the readings. Fails if a call could not be stored.
    async fn read_with_model(
        &self,
        task: &ReadingTask,
        found: &mut ReviewReadings,
    ) -> Result<Option<Stopped>, StoreError> {
        let settings = ReviewSettings::from_stored(&task.pipeline.contents().policy);
        let mut candidates: Vec<usize> =
            (0..task.remarks.len()).filter(|nth| is_candidate(&task.remarks[*nth])).collect();
        let left = candidates.len().saturating_sub(settings.model_remarks_max as usize);
        candidates.truncate(settings.model_remarks_max as usize);
        if candidates.is_empty() {
            return Ok(Some(Stopped::new(
                "nothing_to_read",
                "no remark of a person whom a rule could come from",
            )));
        }
        let prompts = match Prompts::from_texts(PipelineName::Review, &task.pipeline.contents().prompts) {
            Ok(prompts) => prompts,
            Err(problems) => return Ok(Some(broken_prompt(&problems))),
        };
        let ModelReaderSettings { price, day, time_max, .. } = &self.settings;
        if let (None, Some(key)) = (price, settings.money_bound()) {
            let name = self.model.name();
            let note = format!("`{key}` bounds the cost, and the price of {name} is not in `model_prices`");
            return Ok(Some(Stopped::new("over_budget", note)));
        }
        let budget = settings.model_budget(*day);
        let mut model = JournalledModel::open(&*self.model, &*task.journal, *price, &budget).await?;
        let (began, mut stopped) = (Instant::now(), None);
        for batch in build_batches(&task.remarks, &candidates, &settings) {
            if began.elapsed() >= *time_max {
                let note = format!("reading the review took longer than {} s", time_max.as_secs());
                stopped = Some(Stopped::new("too_slow", note));
                break;
            }
            let prompt = match build_prompt(&prompts, &task.repository, &task.remarks, &batch, &settings) {
                Ok(prompt) => prompt,
                Err(problem) => {
                    stopped = Some(broken_prompt(&[problem]));
                    break;
                }
            };
            match self.ask(&mut model, prompt).await? {
                Ok(submitted) => self.join_answer(task, &batch, submitted, &settings, found),
                Err(reason) => {
                    let ends = reason.outcome != "invalid";
                    stopped = Some(reason);
                    // Another batch may get an answer that can be used, but not from a model that is away.
                    if ends {
                        break;
                    }
                }
            }
        }
        found.reading.costs = task.journal.sum_costs(model.answered_prompts()).await?;
        let too_many = || Stopped::new("too_many", format!("{left} remarks are more than the model reads"));
        Ok(stopped.or_else(|| (left > 0).then(too_many)))
    }

    /// Asks about one batch. An answer that is none is sent back once.
    async fn ask(
        &self,
        model: &mut JournalledModel<'_>,
        prompt: prompt::Prompt,
    ) -> Result<Result<SubmittedReadings, Stopped>, StoreError> {
        let mut request = ModelRequest {
            tools: vec![submit_tool()],
            forced_tool: Some(SUBMIT.to_owned()),
            system: prompt.system,
            messages: vec![ChatMessage::User { text: prompt.remarks }],
            output_tokens_max: self.settings.output_tokens_max,
        };
        for repairs in 0..=REPAIRS_MAX {
            let response = match model.ask(&request).await? {
                Ok(response) => response,
                Err(reason) => return Ok(Err(reason.into())),
            };
            let problem = match parse_answer(&response) {
                Ok(submitted) => return Ok(Ok(submitted)),
                Err(Unusable::Refused) => {
                    return Ok(Err(Stopped::new("invalid", describe_unusable("it refused to answer"))));
                }
                Err(Unusable::Invalid(problem)) => problem,
            };
            if repairs == REPAIRS_MAX {
                return Ok(Err(Stopped::new("invalid", describe_unusable(&problem))));
            }
            let ModelResponse { text, calls, .. } = response;
            let refuse = |id: &String| ToolResult { id: id.clone(), text: problem.clone(), failed: true };
            let results: Vec<_> = calls.iter().map(|call| refuse(&call.id)).collect();
            request.messages.push(ChatMessage::Assistant { text, calls });
            request.messages.push(match results.is_empty() {
                true => ChatMessage::User { text: format!("Your answer cannot be used: {problem}.") },
                false => ChatMessage::Results { results },
            });
        }
        unreachable!("the last repair returns")
    }

    /// Joins the answers about a batch. `batch` are the indices of its remarks; the model counts them from 1.
    fn join_answer(
        &self,
        task: &ReadingTask,
        batch: &[usize],
        submitted: SubmittedReadings,
        settings: &ReviewSettings,
        found: &mut ReviewReadings,
    ) {
        let ReviewReadings { readings, reading } = found;
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        reading.read_by_model += count(batch.len());
        if submitted.outcome == SubmittedOutcome::NoRules {
            reading.without_rules += count(batch.len());
            reading.dropped += count(submitted.readings.len());
            return;
        }
        let mut answers = BTreeMap::new();
        for answer in submitted.readings {
            let place =
                usize::try_from(answer.remark).ok().and_then(|number| batch.get(number.checked_sub(1)?));
            match place {
                // The first answer about a remark counts.
                Some(place) if !answers.contains_key(place) => _ = answers.insert(*place, answer),
                _ => reading.dropped += 1,
            }
        }
        for (place, answer) in answers {
            let (remark, read) = (&task.remarks[place], &readings[place]);
            match merge_reading(remark, read, &answer, settings, self.model.name()) {
                Some(merged) => {
                    reading.refused_wordings += u32::from(has_refused_wording(&merged));
                    readings[place] = merged;
                }
                None => reading.dropped += 1,
            }
        }
    }
}

fn has_refused_wording(reading: &RemarkReading) -> bool {
    let refused = reading.model.as_ref().and_then(|model| model.refused.as_ref());
    refused.is_some_and(|reason| reason.starts_with(merge::REFUSED_WORDING))
}

/// Returns `true` if a rule could come from the remark. Programs, the author of the pull request and deleted remarks make none,
/// whatever they say, so no model is paid to read them.
fn is_candidate(remark: &Remark) -> bool {
    !remark.deleted
        && !remark.by_author
        && remark.standing() > AuthorStanding::Bot
        && !remark.body.trim().is_empty()
}

fn broken_prompt(problems: &[retro_pipeline::PromptProblem]) -> Stopped {
    let sentences: Vec<_> = problems.iter().map(ToString::to_string).collect();
    Stopped::new(
        "prompt_broken",
        format!("a prompt of the pipeline cannot be used: {}", sentences.join("; ")),
    )
}

fn submit_tool() -> ToolSpec {
    ToolSpec {
        name: SUBMIT.to_owned(),
        description: "Give the answer about the remarks. Call it once.".to_owned(),
        parameters: readings_schema(),
    }
}

/// Reason why an answer cannot be used.
enum Unusable {
    Refused,
    Invalid(String),
}

fn parse_answer(response: &ModelResponse) -> Result<SubmittedReadings, Unusable> {
    if response.stop == StopReason::Refused {
        return Err(Unusable::Refused);
    }
    let Some(call) = response.calls.iter().find(|call| call.name == SUBMIT) else {
        let cut_off = if response.stop == StopReason::CutOff { "it was cut off; " } else { "" };
        return Err(Unusable::Invalid(format!("{cut_off}it did not call {SUBMIT}")));
    };
    serde_json::from_str(&call.arguments).map_err(|error| {
        Unusable::Invalid(format!("the arguments of {SUBMIT} are not as the schema says: {error}"))
    })
}

#[async_trait]
impl RemarkReader for ModelReader {
    fn asks_model(&self) -> bool {
        true
    }

    async fn read_remarks(&self, task: &ReadingTask) -> Result<ReviewReadings, StoreError> {
        let mut found = HeuristicReader.read_remarks(task).await?;
        let stopped = self.read_with_model(task, &mut found).await?;
        let ReviewReading { reader, read_by_model, model_note, .. } = &mut found.reading;
        if *read_by_model > 0 {
            *reader = format!("{HEURISTICS} and {}", self.model.name());
        }
        let outcome = stopped.as_ref().map_or("model", |stopped| stopped.outcome);
        MODEL_REVIEWS.add(1, [outcome]);
        if let Some(Stopped { note, .. }) = stopped.filter(|stopped| stopped.outcome != "nothing_to_read") {
            let rest = if *read_by_model > 0 { "the other remarks" } else { "the remarks" };
            warn!("a review in {} is read by the heuristics at least in part: {note}", task.repository);
            *model_note = Some(format!("{note}; {rest} were read by the heuristics alone"));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests;
