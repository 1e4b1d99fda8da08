//! Measures what a retrospective over long runs costs with a language model, beside pasting the runs whole into a prompt.
//!
//! Everything is the product's own but the model: the investigation with its heuristics, its tools and checks, the prompts of
//! the shipped pipeline, and the budget. The model is a script that reads as a careful one would ([`reader`]), so calls and
//! tokens show what the program asks for and sends, not how good a model is. Nothing leaves the process.
//!
//! Tokens are counted in bytes, with the same number of bytes a token on both sides. A provider is taken to cache the longest
//! beginning that an earlier prompt had, in whole blocks ([`tokens`]).

mod reader;
mod runs;
mod table;
mod tokens;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use async_trait::async_trait;
use clap::Args;
use retro_config::{Config, Pipeline};
use retro_core::calls::StoredSummary;
use retro_core::id::{Ordinal, Tenant, Workflow, WorkflowKey};
use retro_core::model_use::{BudgetBound, ModelPrice, ModelSpending, Spending, TokenUsage};
use retro_core::policy::Policy;
use retro_core::retrospective::{Investigation, Retrospective, WorkflowState};
use retro_core::run::RunFacts;
use retro_core::workflow_brief::WorkflowBrief;
use retro_investigator::{
    HeuristicEngine, InvestigationJournal, ModelEngine, ModelSettings, play_investigation,
};
use retro_model::CallJournal;
use retro_store::{Claim, ModelCall, StoreError, StoredBody};
use serde_json::json;

use crate::decisions::eval_data::EvalData;
use reader::{CarefulReader, MODEL};
use runs::{LongRun, build_long_run, build_window};
use table::{MeasuredRun, Measurement, print_measurement};

/// Size of each run of the window, in bytes of the text of its turns.
const RUN_BYTES: usize = 1_000_000;
/// Size of the single long run.
const LONG_RUN_BYTES: usize = 20_000_000;
/// Time at which the retrospective opens.
const NOW: &str = "2026-01-01T00:00:00Z";

/// Options of `cargo xtask eval model-cost`.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    data: EvalData,
    /// Price of the model in US dollars for a million tokens: input / cached / output.
    #[arg(long, default_value = "0.25 / 0.025 / 2.00")]
    price: String,
    /// Bytes of text for one token, on both sides: about 4 of English prose, fewer of code and of other scripts.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=16))]
    bytes_per_token: u64,
    /// Number of bytes of each of the five runs.
    #[arg(long, default_value_t = RUN_BYTES)]
    run_bytes: usize,
    /// Number of bytes of the single long run.
    #[arg(long, default_value_t = LONG_RUN_BYTES)]
    long_run_bytes: usize,
}

/// Runs both measurements and prints their tables.
pub(crate) fn run(options: &Options) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let configured = configure(options)?;
    let policy = Policy::default();
    println!(
        "A SCRIPT reads: no language model took part. It lists, searches, reads slices and submits as a careful model would, \
         so this is what the program asks for and sends; a model of yours may ask for more or less."
    );
    println!(
        "Tokens are bytes / {}; the price is {} US dollars for a million (input / cached / output); budgets and bounds are \
         the defaults: {} tokens an investigation, {} a retrospective, {} calls.",
        options.bytes_per_token,
        options.price,
        policy.investigation_tokens_max,
        policy.retrospective_tokens_max,
        policy.model_turns_max
    );
    for (title, window) in [
        ("five runs", build_window(&options.data, options.run_bytes)?),
        ("one long run", vec![build_long_run(&options.data, options.long_run_bytes)?]),
    ] {
        let measured = runtime.block_on(measure(window, &configured, &policy, options.bytes_per_token))?;
        print_measurement(title, &measured);
    }
    Ok(())
}

/// Returns the settings that a program has by default, with the price.
fn configure(options: &Options) -> Result<ModelSettings> {
    let config = Config {
        // Never asked: the script answers. A URL makes the configuration one with a model.
        model_url: Some("cassettes:/nowhere".to_owned()),
        model: Some(MODEL.to_owned()),
        model_prices: format!("{MODEL} = {}", options.price),
        ..Config::default()
    };
    let configured = config.language_model().map_err(|(key, why)| anyhow!("--price: {key} {why}"))?;
    let configured = configured.expect("a URL is given");
    ensure!(configured.price.is_some(), "--price {:?} names no price", options.price);
    Ok(ModelSettings {
        output_tokens_max: configured.output_tokens_max,
        price: configured.price,
        day: configured.day,
    })
}

/// Investigates the runs one after the other, as one retrospective does that has the budgets of `policy`.
async fn measure(
    window: Vec<LongRun>,
    settings: &ModelSettings,
    policy: &Policy,
    bytes_per_token: u64,
) -> Result<Measurement> {
    let pipeline = Pipeline::read_folder(None)?;
    let key = WorkflowKey { tenant: Tenant::default_tenant(), workflow: Workflow::new("long-runs")? };
    let retrospective = open_retrospective(&key, policy, window.len())?;
    let summaries = summarize_window(&retrospective, &window, &pipeline).await?;
    let brief = WorkflowBrief::build(&key.workflow, window.len() as u64, &summaries, &[]);
    let reader = Arc::new(CarefulReader::new(bytes_per_token));
    let engine = ModelEngine::new(reader.clone(), settings.clone());
    let prompts = pipeline.version().contents().prompts.clone();
    let (mut ended, mut measured): (Vec<Investigation>, Vec<MeasuredRun>) = (Vec::new(), Vec::new());
    let mut spent_before = Spending::default();
    for (number, run) in (1u32..).zip(&window) {
        let journal =
            Arc::new(CostJournal::new(prompts.clone(), brief.clone(), settings.price, spent_before));
        let claim = build_claim(&retrospective, number, run, ended.clone())?;
        let began = Instant::now();
        let played = play_investigation(&claim, &engine, journal.clone()).await?;
        let took = began.elapsed();
        let calls = journal.lock_calls().clone();
        spent_before = add(spent_before, sum_spending(&calls, settings.price));
        let checked = played.result.checked_answer().map(|(checked, _)| checked);
        let checked = checked.with_context(|| format!("{}: {:?}", run.name, played.result.problem()))?;
        measured.push(MeasuredRun {
            name: run.name.clone(),
            source: run.source.clone(),
            bytes: run.text_bytes,
            turns: run.turns,
            calls: calls.len(),
            usage: sum_usage(&calls),
            took,
            causes: checked.causes.len(),
            findings: checked.findings.len(),
            note: checked.model_note.clone(),
        });
        let (run, ordinal) = (claim.run.run_id.clone(), Ordinal::from(number));
        ended.push(Investigation { number, ordinal, run, replacement: false, result: Some(played.result) });
    }
    Ok(Measurement {
        runs: measured,
        price: settings.price,
        budget: retrospective.policy.model_budget(settings.day),
        bytes_per_token,
        instructions_bytes: reader.instructions_bytes(),
    })
}

fn open_retrospective(key: &WorkflowKey, policy: &Policy, runs: usize) -> Result<Retrospective> {
    let size = u32::try_from(runs)?;
    let policy = Policy {
        threshold_runs: size,
        window_runs_max: size,
        sample_permille: 1000,
        sample_runs_max: size,
        ..policy.clone()
    };
    let mut state = WorkflowState { counted: runs as u64, ..WorkflowState::default() };
    let opened = state.open_if_due(key, &policy, NOW.parse()?, 0).context("the window is not full")?;
    Ok(opened.retrospective)
}

/// Summarises every run, as a program does before the first investigation.
async fn summarize_window(
    retrospective: &Retrospective,
    window: &[LongRun],
    pipeline: &Pipeline,
) -> Result<Vec<StoredSummary>> {
    let prompts = pipeline.version().contents().prompts.clone();
    let empty = WorkflowBrief::build(&retrospective.key.workflow, 0, &[], &[]);
    let mut summaries = Vec::new();
    for (number, run) in (1u32..).zip(window) {
        let journal = Arc::new(CostJournal::new(prompts.clone(), empty.clone(), None, Spending::default()));
        let claim = build_claim(retrospective, number, run, Vec::new())?;
        let played = play_investigation(&claim, &HeuristicEngine, journal).await?;
        let run = claim.run.run_id.clone();
        summaries.push(StoredSummary { run, ordinal: number.into(), content: played.summary });
    }
    Ok(summaries)
}

fn build_claim(
    retrospective: &Retrospective,
    number: u32,
    run: &LongRun,
    earlier: Vec<Investigation>,
) -> Result<Claim> {
    let facts: RunFacts = serde_json::from_value(json!({"run_id": run.name, "outcome": "failure"}))?;
    Ok(Claim {
        retrospective: retrospective.clone(),
        number,
        token: 1,
        attempt: 1,
        taken_over: false,
        run: facts,
        body: StoredBody::Inline(run.body.clone()),
        presented: Vec::new(),
        memories: Vec::new(),
        earlier,
        journal: Vec::new(),
        last_error: None,
    })
}

/// Journal of one investigation, which also knows what those before it spent.
struct CostJournal {
    calls: Mutex<Vec<ModelCall>>,
    prompts: BTreeMap<String, String>,
    workflow: WorkflowBrief,
    price: Option<ModelPrice>,
    before: Spending,
}

impl CostJournal {
    const fn new(
        prompts: BTreeMap<String, String>,
        workflow: WorkflowBrief,
        price: Option<ModelPrice>,
        before: Spending,
    ) -> Self {
        Self { calls: Mutex::new(Vec::new()), prompts, workflow, price, before }
    }

    fn lock_calls(&self) -> MutexGuard<'_, Vec<ModelCall>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn sum_usage(calls: &[ModelCall]) -> TokenUsage {
    calls.iter().fold(TokenUsage::default(), |sum, call| sum.add(call.usage))
}

fn sum_spending(calls: &[ModelCall], price: Option<ModelPrice>) -> Spending {
    let cost = |call: &ModelCall| price.map_or(0, |price| price.cost_micro_usd(call.usage));
    Spending { tokens: sum_usage(calls).total(), micro_usd: calls.iter().map(cost).sum() }
}

const fn add(one: Spending, other: Spending) -> Spending {
    Spending { tokens: one.tokens + other.tokens, micro_usd: one.micro_usd + other.micro_usd }
}

#[async_trait]
impl CallJournal for CostJournal {
    async fn list_calls(&self) -> Result<Vec<ModelCall>, StoreError> {
        Ok(self.lock_calls().clone())
    }

    async fn append_call(&self, call: &ModelCall) -> Result<(), StoreError> {
        self.lock_calls().push(call.clone());
        Ok(())
    }

    async fn load_spending(&self) -> Result<Vec<(BudgetBound, Spending)>, StoreError> {
        let investigation = sum_spending(&self.lock_calls(), self.price);
        let all = add(self.before, investigation);
        Ok(ModelSpending { investigation, retrospective: all, day: all }.by_bound().to_vec())
    }
}

#[async_trait]
impl InvestigationJournal for CostJournal {
    async fn load_prompts(&self) -> Result<Option<BTreeMap<String, String>>, StoreError> {
        Ok(Some(self.prompts.clone()))
    }

    async fn open_workflow_brief(&self) -> Result<WorkflowBrief, StoreError> {
        Ok(self.workflow.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run whose failures differ, of about this size.
    fn noisy_run(name: &str, bytes: usize) -> LongRun {
        let turn = |nth: usize| {
            let error = format!("Error: cannot open file_{} because {}", nth, "the disk is gone ".repeat(20));
            json!({"step": format!("part-{}", nth / 50), "agentic": true, "source": "agent", "message": "I try.",
                "calls": [{"tool": "bash", "arguments": format!("cat {nth}"), "answer": error, "failed": true}]})
        };
        let turns: Vec<_> = (0..bytes / 400).map(turn).collect();
        let body = json!({"turns": turns}).to_string().into_bytes();
        LongRun {
            name: name.to_owned(),
            source: "made".to_owned(),
            text_bytes: bytes,
            turns: turns.len(),
            body,
        }
    }

    fn options() -> Options {
        Options {
            data: EvalData { data: None },
            price: "0.25 / 0.025 / 2.00".to_owned(),
            bytes_per_token: 4,
            run_bytes: 1,
            long_run_bytes: 1,
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_long_run_is_read_within_the_budget_and_for_a_fraction_of_its_tokens() {
        let settings = configure(&options()).unwrap();
        let window = || vec![noisy_run("a", 500_000), noisy_run("b", 500_000)];
        let measured = measure(window(), &settings, &Policy::default(), 4).await.unwrap();
        for run in &measured.runs {
            assert_eq!(run.note, None, "the model was asked to the end");
            assert!((4..=20).contains(&run.calls), "{} calls", run.calls);
            assert!(run.usage.total() < Policy::default().investigation_tokens_max);
            assert!(run.usage.cached_tokens > 0 && run.usage.cached_tokens < run.usage.input_tokens);
            assert!(run.findings + run.causes > 0, "what it read it submitted with quotes that the run has");
        }
        let again = measure(window(), &settings, &Policy::default(), 4).await.unwrap();
        let usages = |measured: &Measurement| measured.runs.iter().map(|run| run.usage).collect::<Vec<_>>();
        assert_eq!(usages(&again), usages(&measured), "the reader is deterministic");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_budget_that_is_too_small_ends_the_reading_with_a_note() {
        let settings = configure(&options()).unwrap();
        let policy = Policy { investigation_tokens_max: 9_000, ..Policy::default() };
        let measured = measure(vec![noisy_run("a", 100_000)], &settings, &policy, 4).await.unwrap();
        assert!(measured.runs[0].note.as_ref().unwrap().contains("token budget of the investigation"));
    }

    #[test]
    fn a_price_that_is_none_is_refused() {
        assert!(configure(&Options { price: "cheap".to_owned(), ..options() }).is_err());
    }
}
