//! Prints what a retrospective cost, beside what pasting its runs would cost.

use std::time::Duration;

use retro_core::model_use::{ModelBudget, ModelPrice, TokenUsage};

/// Context windows into which pasted runs might fit, in tokens.
const CONTEXT_WINDOWS: [u64; 2] = [200_000, 1_000_000];

/// What reading one run took.
pub(super) struct MeasuredRun {
    pub(super) name: String,
    pub(super) source: String,
    pub(super) bytes: usize,
    pub(super) turns: usize,
    pub(super) calls: usize,
    pub(super) usage: TokenUsage,
    /// Time of the program: heuristics, tools and checks.
    pub(super) took: Duration,
    pub(super) findings: usize,
    pub(super) causes: usize,
    /// Why the model was not asked to the end; `None` if it was.
    pub(super) note: Option<String>,
}

/// What a retrospective took.
pub(super) struct Measurement {
    pub(super) runs: Vec<MeasuredRun>,
    pub(super) price: Option<ModelPrice>,
    pub(super) budget: ModelBudget,
    pub(super) bytes_per_token: u64,
    /// Size of tools and instructions, which a prompt with whole runs needs as well.
    pub(super) instructions_bytes: usize,
}

impl Measurement {
    fn cost(&self, usage: TokenUsage) -> f64 {
        self.price.map_or(0.0, |price| price.cost_micro_usd(usage) as f64 / 1e6)
    }

    fn total(&self) -> TokenUsage {
        self.runs.iter().fold(TokenUsage::default(), |sum, run| sum.add(run.usage))
    }

    /// Returns the usage of pasting every run whole: one prompt a run, with the same instructions and an answer as long as the
    /// findings that were submitted.
    fn pasted(&self) -> TokenUsage {
        let tokens = |bytes: usize| (bytes as u64).div_ceil(self.bytes_per_token);
        let own = |run: &MeasuredRun| TokenUsage {
            input_tokens: tokens(run.bytes) + tokens(self.instructions_bytes),
            cached_tokens: 0,
            output_tokens: run.usage.output_tokens,
        };
        let mut all = self.runs.iter().map(own).fold(TokenUsage::default(), TokenUsage::add);
        // The instructions are cached from the second prompt on.
        all.cached_tokens = tokens(self.instructions_bytes) * (self.runs.len() as u64).saturating_sub(1);
        all
    }
}

/// Prints a measurement.
pub(super) fn print_measurement(title: &str, measured: &Measurement) {
    println!(
        "\n{title:<34} {:>8} {:>7} {:>6} {:>10} {:>10} {:>8} {:>9} {:>8} {:>9}",
        "MB", "turns", "calls", "input", "cached", "output", "US $", "seconds", "submitted"
    );
    for run in &measured.runs {
        print_row(&run.name, run, measured.cost(run.usage));
    }
    let total = measured.total();
    let all = MeasuredRun {
        name: String::new(),
        source: String::new(),
        bytes: measured.runs.iter().map(|run| run.bytes).sum(),
        turns: measured.runs.iter().map(|run| run.turns).sum(),
        calls: measured.runs.iter().map(|run| run.calls).sum(),
        usage: total,
        took: measured.runs.iter().map(|run| run.took).sum(),
        findings: measured.runs.iter().map(|run| run.findings).sum(),
        causes: measured.runs.iter().map(|run| run.causes).sum(),
        note: None,
    };
    print_row("the retrospective", &all, measured.cost(total));
    let pasted = measured.pasted();
    println!(
        "{:<34} {:>8.2} {:>7} {:>6} {:>10} {:>10} {:>8} {:>9.4}",
        "pasted whole, a prompt a run",
        all.bytes as f64 / 1e6,
        all.turns,
        measured.runs.len(),
        pasted.input_tokens,
        pasted.cached_tokens,
        pasted.output_tokens,
        measured.cost(pasted)
    );
    print_comparison(measured, total, pasted);
}

fn print_row(name: &str, run: &MeasuredRun, cost: f64) {
    println!(
        "{name:<34} {:>8.2} {:>7} {:>6} {:>10} {:>10} {:>8} {cost:>9.4} {:>8.2} {:>9}",
        run.bytes as f64 / 1e6,
        run.turns,
        run.calls,
        run.usage.input_tokens,
        run.usage.cached_tokens,
        run.usage.output_tokens,
        run.took.as_secs_f64(),
        run.findings + run.causes
    );
}

fn print_comparison(measured: &Measurement, total: TokenUsage, pasted: TokenUsage) {
    let ratio = |whole: f64, part: f64| whole / part.max(f64::MIN_POSITIVE);
    println!(
        "{:.1} times fewer input tokens than pasted whole, and {:.1} times cheaper; seconds are the program's own, each call \
         takes the time of an endpoint on top.",
        ratio(pasted.input_tokens as f64, total.input_tokens as f64),
        ratio(measured.cost(pasted), measured.cost(total))
    );
    let uncached = |usage: TokenUsage| measured.cost(TokenUsage { cached_tokens: 0, ..usage });
    println!(
        "without any cache: {:.4} US $, pasted whole {:.4}, {:.1} times cheaper",
        uncached(total),
        uncached(pasted),
        ratio(uncached(pasted), uncached(total))
    );
    let largest = measured.runs.iter().map(|run| run.bytes as u64 / measured.bytes_per_token).max();
    let largest = largest.unwrap_or_default();
    for window in CONTEXT_WINDOWS {
        let fits = if largest <= window { "fits into" } else { "does not fit into" };
        println!("the longest run pasted whole ({largest} tokens) {fits} a context window of {window}");
    }
    let most = measured.runs.iter().map(|run| run.usage.total()).max().unwrap_or_default();
    println!(
        "budget: at most {most} of {} tokens in an investigation, {} of {} in the retrospective",
        measured.budget.investigation.tokens,
        total.total(),
        measured.budget.retrospective.tokens
    );
    for run in &measured.runs {
        println!("  {}: {}", run.name, run.source);
        if let Some(note) = &run.note {
            println!("  {}: NOT READ TO THE END: {note}", run.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pasting_pays_for_every_byte_and_caches_the_instructions_alone() {
        let run = |bytes| MeasuredRun {
            name: "a".to_owned(),
            source: "b".to_owned(),
            bytes,
            turns: 1,
            calls: 3,
            usage: TokenUsage { input_tokens: 500, cached_tokens: 100, output_tokens: 10 },
            took: Duration::ZERO,
            findings: 0,
            causes: 1,
            note: None,
        };
        let measured = Measurement {
            runs: vec![run(4000), run(8000)],
            price: Some(ModelPrice { input: 1_000_000, cached: 100_000, output: 2_000_000 }),
            budget: ModelBudget::default(),
            bytes_per_token: 4,
            instructions_bytes: 400,
        };
        let pasted = measured.pasted();
        assert_eq!((pasted.input_tokens, pasted.cached_tokens, pasted.output_tokens), (3200, 100, 20));
        assert!((measured.cost(pasted) - 0.00315).abs() < 1e-9, "{}", measured.cost(pasted));
        assert_eq!(measured.total().input_tokens, 1000);
    }
}
