//! Implements `make demo-model`: real runs are investigated by the heuristics and a language model that is played from
//! recorded answers, and what the model changed is shown beside the heuristics alone. Needs no key and no network.

mod answers;
mod learnt;
mod recording;
mod summary;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use retro_eval::instance::{Instance, find_release_binary};

use learnt::Learnt;
use recording::Recorder;

/// Number of runs: two windows of the default policy.
const RUNS: usize = 20;
/// Maximum time that a person may take for the answers, in minutes.
const WAIT_MINUTES_MAX: u32 = 8 * 60;
/// Name under which the answers are recorded. No product has it, so that nobody takes them for its answers.
const MODEL: &str = "answered-by-hand";
/// Prices of a small model, in US dollars for a million tokens.
const PRICES: &str = "answered-by-hand = 0.25 / 0.025 / 2.00";

/// Files of the demo.
struct Files {
    runs: PathBuf,
    answers: PathBuf,
    cassettes: PathBuf,
    pipelines: PathBuf,
    folder: PathBuf,
}

/// Runs the demo, or records its cassettes anew from `answers.toml`.
pub(crate) fn run(root: &Path, binary: Option<&Path>, record: bool) -> Result<()> {
    let binary = binary.map_or_else(find_release_binary, |path| Ok(path.to_owned()))?;
    let fixtures = root.join("crates/tools/xtask/fixtures");
    let files = Files {
        runs: fixtures.join("demo/intercode-sql.jsonl.zst"),
        answers: fixtures.join("demo-model/answers.toml"),
        cassettes: fixtures.join("demo-model/cassettes"),
        pipelines: root.join("pipelines"),
        folder: root.join(".demo-model"),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        if record { record_cassettes(&files, &binary).await } else { show_demo(&files, &binary).await }
    })
}

async fn show_demo(files: &Files, binary: &Path) -> Result<()> {
    println!(
        "{RUNS} real runs of an agent that queries MySQL databases ({}), twice: by the heuristics alone, and with a \
         language model beside them that is played from {}.\n",
        files.runs.display(),
        files.cassettes.display()
    );
    let alone = start(files, binary, "heuristics", &[]).await?;
    let by_heuristics = learn(&alone, files).await?;
    alone.stop().await?;
    let address = format!("cassettes:{}", files.cassettes.display());
    let with_model = start(files, binary, "model", &model_variables(&address)).await?;
    let by_both = learn(&with_model, files).await?;
    summary::show_results(&with_model, &by_heuristics, &by_both).await?;
    with_model.stop().await?;
    println!(
        "\nEverything is still in {}: `retro --data-dir {0} reports list`, `… memories list`.",
        files.folder.join("model").display()
    );
    ensure!(
        !by_both.reports.iter().any(summary::has_missed_cassette),
        "a prompt has no cassette: it was changed. The README beside the cassettes says how they are recorded again"
    );
    Ok(())
}

/// Records the cassettes with the answers of `answers.toml`, through the same `file:` adapter by which anybody can be the model.
async fn record_cassettes(files: &Files, binary: &Path) -> Result<()> {
    let (requests, recorded) = (files.folder.join("requests"), files.folder.join("recorded"));
    for folder in [&requests, &recorded] {
        if folder.exists() {
            std::fs::remove_dir_all(folder)?;
        }
        std::fs::create_dir_all(folder)?;
    }
    let recorder = Recorder::new(&requests, answers::read_answers(&files.answers)?);
    let (address, recorded_in) = (format!("file:{}", requests.display()), recorded.display().to_string());
    let mut variables = model_variables(&address);
    variables.extend([
        ("RETRO_MODEL_RECORD_DIR", recorded_in.as_str()),
        ("RETRO_MODEL_TIMEOUT_S", "3600"),
        ("RETRO_INVESTIGATION_TIMEOUT_S", "86400"),
    ]);
    let retro = start(files, binary, "recording", &variables).await?;
    // Sending waits for the window before, and that waits for the answers.
    recorder.answer_during(wait_for_answers(&retro, files)).await?;
    retro.stop().await?;
    let unused = recorder.unused_answers();
    ensure!(unused.is_empty(), "answers.toml has answers to nothing that was asked: {}", unused.join(", "));
    if files.cassettes.exists() {
        std::fs::remove_dir_all(&files.cassettes)?;
    }
    std::fs::rename(&recorded, &files.cassettes)?;
    println!("Recorded {} answers in {}.", recorder.answered(), files.cassettes.display());
    Ok(())
}

async fn wait_for_answers(retro: &Instance, files: &Files) -> Result<()> {
    emit_runs(retro, files).await?;
    // It gives up after a minute, and a person takes longer to answer.
    for _ in 0..WAIT_MINUTES_MAX {
        if retro.wait_until_idle().await.is_ok() {
            return Ok(());
        }
    }
    bail!("not everything was answered within {WAIT_MINUTES_MAX} minutes")
}

fn model_variables(address: &str) -> Vec<(&'static str, &str)> {
    vec![("RETRO_MODEL_URL", address), ("RETRO_MODEL", MODEL), ("RETRO_MODEL_PRICES", PRICES)]
}

async fn start(files: &Files, binary: &Path, name: &str, variables: &[(&str, &str)]) -> Result<Instance> {
    Instance::start(binary, &files.folder.join(name), &files.pipelines, variables).await
}

/// Sends the runs, and waits until nothing is open.
async fn learn(retro: &Instance, files: &Files) -> Result<Learnt> {
    emit_runs(retro, files).await?;
    retro.wait_until_idle().await?;
    let listed = retro.run_json(&["retrospectives", "list", "--limit", "1000"]).await?;
    let mut reports = Vec::new();
    for row in listed.as_array().context("no list of retrospectives")?.iter().rev() {
        let id = row["retrospective"]["id"].as_str().context("a retrospective without an id")?;
        reports.push(retro.run_json(&["reports", "show", id]).await?);
    }
    let memories = retro.run_json(&["memories", "list", "--limit", "1000"]).await?;
    Ok(Learnt { reports, memories: memories.as_array().cloned().unwrap_or_default() })
}

async fn emit_runs(retro: &Instance, files: &Files) -> Result<()> {
    let packed =
        std::fs::read(&files.runs).with_context(|| format!("cannot read {}", files.runs.display()))?;
    let text = String::from_utf8(zstd::decode_all(packed.as_slice())?)?;
    let path = files.folder.join("runs.jsonl");
    let mut file = std::fs::File::create(&path)?;
    for line in text.lines().take(RUNS) {
        writeln!(file, "{line}")?;
    }
    file.flush()?;
    let sent = retro.run_json(&["emit", "--pause-every", "10", &path.display().to_string()]).await?;
    ensure!(sent["sent"] == RUNS, "not all runs were sent: {sent}");
    Ok(())
}
