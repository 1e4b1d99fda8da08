//! Measures whether tool output is parsed correctly: the locations reported by linters and compilers, and the
//! results of tests. Set 03b comes from the tests of output parsers.
//!
//! A linter case is right if exactly the expected files and lines are found, in order. A test-runner case is
//! right if every labelled count matches. Only the tools listed below are supported; other tools write
//! documents or spread a message over several lines.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use retro_investigator::heuristics::{find_diagnostics, parse_test_counts};
use serde::Deserialize;

use super::measure::{Figure, Measure};
use super::score::share_of_true;
use crate::decisions::eval_data::{EvalData, read_rows};

/// Measures the share of cases of the supported tools that are parsed correctly.
pub(super) struct ToolOutput;

/// Linters that begin each message with its location, named as their files in the data set.
const LINTERS: &[&str] = &[
    "ansible-lint",
    "cargo-check",
    "dotenv-linter",
    "erb-lint",
    "flake8",
    "go-consistent",
    "golangci-lint",
    "golint",
    "gosec",
    "govet",
    "luacheck",
    "misspell",
    "mypy",
    "pep8",
    "phpstan",
    "psalm",
    "pydocstyle",
    "reek",
    "rubocop",
    "slim-lint",
    "standardjs",
    "standardrb",
    "staticcheck",
    "tsc",
    "tslint",
];
/// Test runners that print a summary in their last line: unittest (Django), pytest, SymPy and Maven.
const RUNNERS: &[&str] = &["django", "matplotlib", "maven", "pytest", "seaborn", "sympy"];

/// An output of one tool with the correctness of its parse.
pub(super) struct Case {
    tool: String,
    runner: bool,
    ours: bool,
    baseline: bool,
    description: String,
}

/// An output of a test runner with its labels.
#[derive(Deserialize)]
struct RunnerOutput {
    file: String,
    framework: String,
    labels: Option<Counts>,
    log: String,
}

/// Expected counts of test results; `None` if the data set gives no count.
#[derive(Debug, Deserialize)]
struct Counts {
    n_results: Option<u32>,
    n_failed: Option<u32>,
    n_error: Option<u32>,
    n_skipped: Option<u32>,
}

impl Measure for ToolOutput {
    const NAME: &'static str = "tool output (supported tools)";
    const SET: &'static str = "03b_tool_output_parse";
    type Case = Case;

    fn load_cases(data: &EvalData) -> Result<Vec<Case>> {
        let folder = data.set_folder(Self::SET)?;
        let mut cases = Vec::new();
        for tool in LINTERS {
            let file = |ending: &str| folder.join("errorformat").join(format!("{tool}.{ending}"));
            if file("in").is_file() {
                cases.push(score_linter(tool, &read_text(&file("in"))?, &read_text(&file("ok"))?));
            }
        }
        let tested: Vec<RunnerOutput> = read_rows(&folder.join("test_output.jsonl"))?;
        let supported = tested.into_iter().filter(|case| RUNNERS.contains(&case.framework.as_str()));
        cases.extend(supported.filter_map(score_runner));
        Ok(cases)
    }

    fn group_key(case: &Case) -> &str {
        &case.tool
    }

    fn compute_figures(cases: &[&Case]) -> Vec<Figure> {
        let figure = |name: &str, of: &[&Case]| {
            let right = |said: fn(&Case) -> bool| share_of_true(of.iter().map(|case| said(case)));
            Figure::new(name, of.len(), right(|case| case.ours), right(|case| case.baseline))
        };
        let (runners, linters): (Vec<&Case>, Vec<&Case>) = cases.iter().partition(|case| case.runner);
        vec![figure("linters", &linters), figure("runners", &runners), figure("both", cases).with_goal(0.90)]
    }

    fn describe_mistake(case: &Case) -> Option<String> {
        (!case.ours).then(|| format!("{}: {}", case.tool, case.description))
    }
}

fn read_text(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

fn score_linter(tool: &str, output: &str, expected: &str) -> Case {
    let expected: Vec<(&str, u32)> = expected.lines().filter_map(parse_place).collect();
    let found = find_diagnostics(output);
    let ours: Vec<(&str, u32)> = found.iter().map(|one| (one.file, one.line)).collect();
    let first = ours.iter().zip(&expected).position(|(one, other)| one != other);
    let shown =
        format!("{} locations, {} expected, first difference at {first:?}", ours.len(), expected.len());
    // The usual first attempt, used as a baseline: every non-blank line is a complaint.
    let baseline = output.lines().filter(|line| !line.trim().is_empty()).count() == expected.len();
    Case { tool: tool.to_owned(), runner: false, ours: ours == expected, baseline, description: shown }
}

/// Parses a line of the expected locations, `file|line col column kind| message`, into file and line number.
/// Returns `None` for a line that continues a message.
fn parse_place(line: &str) -> Option<(&str, u32)> {
    let (file, rest) = line.split_once('|')?;
    let number = rest.split_once('|')?.0.split(' ').next()?;
    Some((file, number.parse().ok()?))
}

fn score_runner(tested: RunnerOutput) -> Option<Case> {
    let labels = tested.labels?;
    let counts = parse_test_counts(&tested.log).unwrap_or_default();
    // The labels count finished tests. A log without such a summary is parsed test by test upstream.
    let ran = counts.passed + counts.failed + counts.errors;
    let said = |label: Option<u32>, count: u32| label.is_none_or(|label| label == count);
    let ours = said(labels.n_results, ran)
        && said(labels.n_failed, counts.failed)
        && said(labels.n_error, counts.errors)
        && said(labels.n_skipped, counts.skipped);
    // The usual first attempt, used as a baseline: every line with "FAIL" is a failed test.
    let failed = tested.log.lines().filter(|line| line.contains("FAIL")).count();
    let baseline = labels.n_failed.is_some_and(|label| label as usize == failed);
    let labelled =
        [labels.n_results, labels.n_failed, labels.n_error, labels.n_skipped].iter().any(Option::is_some);
    // Without any label, every result would count as right.
    labelled.then(|| Case {
        tool: tested.framework,
        runner: true,
        ours,
        baseline,
        description: format!("{}: {counts:?} for {labels:?}", tested.file),
    })
}
