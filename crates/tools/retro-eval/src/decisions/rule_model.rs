//! Lets a language model read a sample of labelled remarks, and scores the heuristics alone, the model alone and both.
//!
//! The model sees what it would see in the program: the words of the remarks, several in one call, and neither labels nor
//! what the heuristics read. Its answers go through the same checks. So whoever answers through `file:` is blind to the labels.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use clap::Args;
use retro_config::Config;
use retro_core::id::{RemarkKey, RemarkKind, Repository, ReviewedPullRequest};
use retro_core::model_use::SpendingLimit;
use retro_core::pipeline::ReviewPipelines as _;
use retro_core::remark::{AuthorAssociation, Remark};
use retro_core::review::{ModelReadingKind, ReadingKind, RemarkReading};
use retro_outgoing_http::OutgoingHttp;
use retro_reviewer::{
    HeuristicReader, ModelReader, ModelReaderSettings, NoJournal, ReadingTask, RemarkReader as _,
};
use sha2::{Digest as _, Sha256};

/// Repository of the remarks, as the model is told.
const REPOSITORY: &str = "eval/set";

/// Options of the sample that a model reads.
#[derive(Args)]
pub(crate) struct ModelOptions {
    /// Who reads a sample as the language model: `file:/FOLDER` to answer the requests by hand, or `cassettes:/FOLDER` to play
    /// recorded answers [default: nobody].
    #[arg(long, value_name = "URL")]
    model_url: Option<String>,
    /// Name of the model.
    #[arg(long, default_value = "blind", requires = "model_url")]
    model: String,
    /// Time that an answer may take, in seconds.
    #[arg(long, default_value_t = 3600, requires = "model_url")]
    model_timeout_s: u64,
    /// Folder in which the answers are recorded as cassettes.
    #[arg(long, requires = "model_url")]
    model_record_dir: Option<PathBuf>,
    /// Number of remarks of each labelled set that the model reads.
    #[arg(long, default_value_t = 30)]
    sample: usize,
    /// Seed of the sample.
    #[arg(long, default_value_t = 1)]
    sample_seed: u64,
    /// Pipelines folder with the prompts to measure [default: the built-in pipeline].
    #[arg(long, requires = "model_url")]
    pipelines: Option<PathBuf>,
}

/// A labelled remark.
pub(crate) struct LabelledRemark {
    pub(crate) set: &'static str,
    pub(crate) id: String,
    pub(crate) text: String,
    pub(crate) is_rule: bool,
}

/// Draws the sample from each set, has it read, and prints the scores. Prints nothing if there is no model.
pub(crate) fn run_model(options: &ModelOptions, all: Vec<LabelledRemark>) -> Result<()> {
    let Some(url) = &options.model_url else { return Ok(()) };
    ensure!(!url.starts_with("http"), "--model-url is {url}; it must begin with file: or cassettes:");
    let config = Config {
        model_url: Some(url.clone()),
        model: Some(options.model.clone()),
        model_timeout_s: options.model_timeout_s,
        model_record_dir: options.model_record_dir.clone(),
        ..Config::default()
    };
    let configured = config.language_model().map_err(|(key, why)| anyhow!("{key} {why}"))?;
    let configured = configured.expect("a URL is given");
    let settings = ModelReaderSettings {
        output_tokens_max: configured.output_tokens_max,
        price: None,
        day: SpendingLimit::default(),
        time_max: Duration::from_secs(options.model_timeout_s.saturating_mul(10)),
    };
    let reader = ModelReader::new(retro_llm::build_model(&configured, &OutgoingHttp::default())?, settings);
    let pipelines = retro_config::Pipeline::read_folder(options.pipelines.as_deref())?;
    let sample = draw_sample(all, options);
    let remarks: Vec<Remark> = (1..).zip(&sample).map(|(id, one)| build_remark(id, &one.text)).collect();
    let alone: Vec<RemarkReading> = remarks.iter().map(|remark| HeuristicReader.read_now(remark)).collect();
    let task = ReadingTask {
        repository: REPOSITORY.to_owned(),
        remarks,
        pipeline: pipelines.current_review_pipeline(),
        journal: Arc::new(NoJournal),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let found = runtime.block_on(reader.read_remarks(&task))?;
    println!(
        "model {} read {} of {} remarks, review pipeline {}; {} answers dropped, {} wordings refused{}",
        options.model,
        found.reading.read_by_model,
        sample.len(),
        task.pipeline.hashes(),
        found.reading.dropped,
        found.reading.refused_wordings,
        found.reading.model_note.as_ref().map_or_else(String::new, |note| format!("; {note}"))
    );
    let is_rule = |reading: &RemarkReading| reading.kind == ReadingKind::Rule;
    let says_rule = |reading: &RemarkReading| {
        reading.model.as_ref().is_some_and(|model| model.kind == ModelReadingKind::Rule)
    };
    let mut sets: Vec<_> = sample.iter().map(|one| one.set).collect();
    sets.dedup();
    for set in sets {
        let of_set = |called: &dyn Fn(usize) -> bool| {
            let of = sample.iter().enumerate().filter(|(_, one)| one.set == set);
            format_score(of.map(|(nth, one)| (one.is_rule, called(nth))))
        };
        println!("  {set} heuristics alone        {}", of_set(&|nth| is_rule(&alone[nth])));
        println!("  {set} model alone, quoted     {}", of_set(&|nth| says_rule(&found.readings[nth])));
        println!("  {set} both, as in the program {}", of_set(&|nth| is_rule(&found.readings[nth])));
    }
    Ok(())
}

/// Draws the same number of remarks from each set, in an order that tells nothing about their labels.
fn draw_sample(all: Vec<LabelledRemark>, options: &ModelOptions) -> Vec<LabelledRemark> {
    let mut all = all;
    let seed = options.sample_seed;
    all.sort_by_cached_key(|one| (one.set, Sha256::digest(format!("{seed}/{}/{}", one.set, one.id))));
    let mut taken = 0;
    let mut last = "";
    all.retain(|one| {
        taken = if one.set == last { taken + 1 } else { 1 };
        last = one.set;
        taken <= options.sample
    });
    all
}

/// Returns a remark of an insider with this text.
pub(crate) fn build_remark(id: u64, text: &str) -> Remark {
    let pull_request = ReviewedPullRequest { repo: Repository::new(REPOSITORY).expect("a name"), number: 1 };
    Remark {
        key: RemarkKey { pull_request, kind: RemarkKind::LineComment, id },
        review: None,
        review_state: None,
        reply_to: None,
        by: "reviewer".to_owned(),
        bot: false,
        association: AuthorAssociation::Member,
        by_author: false,
        body: text.to_owned(),
        path: None,
        line: None,
        at: jiff::Timestamp::UNIX_EPOCH,
        url: None,
        edited: false,
        deleted: false,
        truncated: false,
    }
}

/// Formats precision and recall. A pair is whether it is a rule, and whether it was called one.
pub(crate) fn format_score(pairs: impl Iterator<Item = (bool, bool)>) -> String {
    let (mut hits, mut alarms, mut missed) = (0u32, 0u32, 0u32);
    for (is, called) in pairs {
        match (is, called) {
            (true, true) => hits += 1,
            (false, true) => alarms += 1,
            (true, false) => missed += 1,
            (false, false) => {}
        }
    }
    let ratio = |part: u32, of: u32| {
        if of == 0 { "   –".to_owned() } else { format!("{:.2}", f64::from(part) / f64::from(of)) }
    };
    format!(
        "precision {} ({hits} of {})  recall {} ({hits} of {})",
        ratio(hits, hits + alarms),
        hits + alarms,
        ratio(hits, hits + missed),
        hits + missed
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_as_many_of_each_set_and_the_same_again_with_the_same_seed() {
        let remark = |set, nth: u32| LabelledRemark {
            set,
            id: nth.to_string(),
            text: String::new(),
            is_rule: nth.is_multiple_of(2),
        };
        let all = || (0..40).flat_map(|nth| [remark("04a", nth), remark("04f", nth)]).collect::<Vec<_>>();
        let options = |sample_seed| ModelOptions {
            model_url: None,
            model: String::new(),
            model_timeout_s: 1,
            model_record_dir: None,
            sample: 10,
            sample_seed,
            pipelines: None,
        };
        let ids =
            |seed| draw_sample(all(), &options(seed)).iter().map(|one| one.id.clone()).collect::<Vec<_>>();
        assert_eq!((ids(1).len(), ids(1)), (20, ids(1)));
        assert_ne!(ids(1), ids(2));
        assert!(run_model(&options(1), all()).is_ok(), "nobody reads without a model");
    }
}
