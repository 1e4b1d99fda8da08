//! Plays the cases of a pipeline: short stories of runs or reviews, with what is expected to be learnt from them.
//!
//! A case goes through the stages of the running program, one after the other, in memory: the investigator's brief, engine and
//! checks, the settling of findings, and the writer's decision. There is no broker, no database and no network; a case may
//! script the answers of a language model. All runs of a retrospective are investigated, in the order of the file.

mod expectation;
mod file;
mod journal;
mod play;
mod play_review;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use retro_config::Pipeline;
use retro_core::pipeline::PipelineName;
use serde::Serialize;

pub(crate) use file::CaseFile;
use play::CasePlayer;
use play_review::ReviewPlayer;

/// Returns the folder of the cases of a pipeline, relative to the pipelines folder.
pub(crate) fn cases_folder(pipeline: PipelineName) -> String {
    format!("{pipeline}/cases")
}

/// Maximum number of cases in a folder.
const CASES_MAX: usize = 1000;

/// What came of a case.
#[derive(Debug, Serialize)]
pub(crate) struct CaseResult {
    /// The file.
    pub(crate) file: PathBuf,
    /// What the case tells.
    pub(crate) story: String,
    /// Each expectation that was not met, with file and line, and what happened instead; empty if all were met.
    pub(crate) problems: Vec<String>,
}

/// Lists the cases of a folder: its TOML files, sorted; none if there is no such folder. Folders in it are left alone.
pub(crate) fn list_cases(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let paths = entries.take(CASES_MAX).filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<_> =
        paths.filter(|path| path.is_file() && path.extension().is_some_and(|end| end == "toml")).collect();
    paths.sort_unstable();
    Ok(paths)
}

/// Plays a case under a pipeline. A file that cannot be read is a problem of the case.
pub(crate) async fn play_case(path: &Path, pipeline: &Pipeline) -> CaseResult {
    let problem = |story: String, problems| CaseResult { file: path.to_owned(), story, problems };
    let case = match CaseFile::read(path) {
        Ok(case) => case,
        Err(problems) => return problem(String::new(), problems.into_sentences()),
    };
    let problems = match case.is_about_reviews() {
        true => ReviewPlayer::new(&case, pipeline).play().await,
        false => match CasePlayer::new(&case, pipeline) {
            Ok(mut player) => player.play().await,
            Err(wrong) => vec![wrong],
        },
    };
    problem(case.story().to_owned(), problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_case(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("case.toml");
        std::fs::write(&path, text).unwrap();
        (folder, path)
    }

    /// The shipped cases tell the shipped policy; adding a file there adds a test.
    #[tokio::test]
    async fn the_shipped_cases_hold() {
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pipelines");
        let mut cases = Vec::new();
        for (pipeline, least) in [(PipelineName::Retrospective, 12), (PipelineName::Review, 8)] {
            let found = list_cases(&shipped.join(cases_folder(pipeline))).unwrap();
            assert!(found.len() >= least, "{pipeline}: {}", found.len());
            cases.extend(found);
        }
        let mut problems = Vec::new();
        for case in cases {
            problems.extend(play_case(&case, &Pipeline::default()).await.problems);
        }
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[tokio::test]
    async fn an_expectation_that_is_not_met_is_named_with_its_line_and_what_happened() {
        let text = r#"
            story = "One run makes no active memory"
            [run.corrected]
            calls = [
              { tool = "deploy", arguments = { region = "eu" }, answer = "Error: unknown region eu", failed = true },
              { tool = "deploy", arguments = { region = "eu-west-1" }, answer = "deployed" },
            ]
            [[retrospective]]
            runs = [{ run = "corrected" }]
            expect = [
              { memory = "unknown region eu", status = "active" },
              { change = "created", title = "unknown region eu" },
            ]
        "#;
        let (_folder, path) = write_case(text);
        let result = play_case(&path, &Pipeline::default()).await;
        let [problem] = &result.problems[..] else { panic!("{:?}", result.problems) };
        assert!(problem.contains("case.toml:11: "), "{problem}");
        assert!(problem.contains("is tentative"), "{problem}");
    }

    #[tokio::test]
    async fn the_case_of_the_manual_holds() {
        let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pipelines/README.md");
        let manual = std::fs::read_to_string(manual).unwrap();
        let text = manual.split_once("```text\nstory = ").expect("the manual has a case").1;
        let (_folder, path) = write_case(&format!("story = {}", text.split_once("```").unwrap().0));
        let result = play_case(&path, &Pipeline::default()).await;
        assert!(result.problems.is_empty(), "{:?}", result.problems);
    }

    #[tokio::test]
    async fn a_mistake_in_a_case_has_its_line() {
        for (text, expected) in [
            (
                "story = \"x\"\n[[retrospective]]\nruns = [{ run = \"a\" }]\nexpect = []\n",
                "case.toml:3: no run is named `a`",
            ),
            ("story = \"x\"\nretrospectiv = 1\n", "case.toml:2: unknown field `retrospectiv`"),
            (
                "story = \"x\"\n[run.a]\n[[retrospective]]\nruns = [{ run = \"a\" }]\nexpect = [{ change = \"made\" }]\n",
                "case.toml:5: `change` is \"made\"",
            ),
            (
                "story = \"x\"\n[run.a]\n[[retrospective]]\nruns = [{ run = \"a\" }]\nexpect = [{}]\n",
                "case.toml:5: expects nothing",
            ),
            (
                "story = \"x\"\n[run.a]\n[[retrospective]]\nruns = [{ run = \"a\" }]\nexpect = [{ memory = \"\" }]\n",
                "case.toml:5: expects an empty text",
            ),
            (
                "story = \"x\"\n[run.a]\n[[retrospective]]\nruns = [{ run = \"a\" }]\n",
                "case.toml:1: expects nothing, so it cannot fail",
            ),
            (
                "story = \"x\"\n[run.a]\n[[retrospective]]\nruns = [{ run = \"a\" }]\ndays_later = 9999999\n",
                "case.toml:5: `days_later` is 9999999; at most 3650",
            ),
        ] {
            let (_folder, path) = write_case(text);
            let result = play_case(&path, &Pipeline::default()).await;
            assert!(result.problems[0].contains(expected), "{:?}", result.problems);
        }
    }
}
