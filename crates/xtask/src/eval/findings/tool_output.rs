//! What tools report, read: the places that linters and compilers complain about, and how tests ended. Set 03b comes from the
//! tests of tools that do nothing else.
//!
//! A case of a linter is right when every place, its file and line, is told in order and no other. A case of a runner is right
//! when every count that is labelled is told. Only the tools below are claimed; the others report in documents or over several
//! lines.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use retro_investigator::heuristics::{complaints, test_counts};
use serde::Deserialize;

use super::super::{Data, rows};
use super::score::share;
use super::{Figure, Measure};

/// How many cases of the supported tools are read rightly.
pub(super) struct ToolOutput;

/// Tools that put the place in front of each message, by the name of their files.
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
/// Runners whose last line counts: unittest as Django calls it, pytest as these projects call it, SymPy's own, Maven.
const RUNNERS: &[&str] = &["django", "matplotlib", "maven", "pytest", "seaborn", "sympy"];

/// One output.
pub(super) struct Case {
    tool: String,
    runner: bool,
    ours: bool,
    baseline: bool,
    shown: String,
}

/// The output of a runner.
#[derive(Deserialize)]
struct Tested {
    file: String,
    framework: String,
    labels: Option<Counts>,
    log: String,
}

/// What upstream's own tests expect; each is there or not.
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

    fn cases(data: &Data) -> Result<Vec<Case>> {
        let folder = data.set(Self::SET)?;
        let mut cases = Vec::new();
        for tool in LINTERS {
            let file = |ending: &str| folder.join("errorformat").join(format!("{tool}.{ending}"));
            if file("in").is_file() {
                cases.push(linted(tool, &read(&file("in"))?, &read(&file("ok"))?));
            }
        }
        let tested: Vec<Tested> = rows(&folder.join("test_output.jsonl"))?;
        let supported = tested.into_iter().filter(|case| RUNNERS.contains(&case.framework.as_str()));
        cases.extend(supported.filter_map(counted));
        Ok(cases)
    }

    fn group(case: &Case) -> &str {
        &case.tool
    }

    fn figures(cases: &[&Case]) -> Vec<Figure> {
        let figure = |name: &str, of: &[&Case]| {
            let right = |said: fn(&Case) -> bool| share(of.iter().map(|case| said(case)));
            Figure::new(name, of.len(), right(|case| case.ours), right(|case| case.baseline))
        };
        let (runners, linters): (Vec<&Case>, Vec<&Case>) = cases.iter().partition(|case| case.runner);
        vec![figure("linters", &linters), figure("runners", &runners), figure("both", cases).with_goal(0.90)]
    }

    fn mistake(case: &Case) -> Option<String> {
        (!case.ours).then(|| format!("{}: {}", case.tool, case.shown))
    }
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

fn linted(tool: &str, output: &str, expected: &str) -> Case {
    let expected: Vec<(&str, u32)> = expected.lines().filter_map(place).collect();
    let found = complaints(output);
    let ours: Vec<(&str, u32)> = found.iter().map(|one| (one.file, one.line)).collect();
    let first = ours.iter().zip(&expected).position(|(one, other)| one != other);
    let shown = format!("{} places of {}, the first other is {first:?}", ours.len(), expected.len());
    // What most people write first: every line that is not blank is a complaint.
    let baseline = output.lines().filter(|line| !line.trim().is_empty()).count() == expected.len();
    Case { tool: tool.to_owned(), runner: false, ours: ours == expected, baseline, shown }
}

/// A line of the expected places: `file|line col column kind| message`; a line that continues a message is none.
fn place(line: &str) -> Option<(&str, u32)> {
    let (file, rest) = line.split_once('|')?;
    let number = rest.split_once('|')?.0.split(' ').next()?;
    Some((file, number.parse().ok()?))
}

fn counted(tested: Tested) -> Option<Case> {
    let labels = tested.labels?;
    let told = test_counts(&tested.log).unwrap_or_default();
    // Upstream counts what ran to an end; a log without such a line is one that it reads test by test.
    let ran = told.passed + told.failed + told.errors;
    let said = |label: Option<u32>, count: u32| label.is_none_or(|label| label == count);
    let ours = said(labels.n_results, ran)
        && said(labels.n_failed, told.failed)
        && said(labels.n_error, told.errors)
        && said(labels.n_skipped, told.skipped);
    // What most people write first: every line with "FAIL" is a test that failed.
    let failed = tested.log.lines().filter(|line| line.contains("FAIL")).count();
    let baseline = labels.n_failed.is_some_and(|label| label as usize == failed);
    let labelled =
        [labels.n_results, labels.n_failed, labels.n_error, labels.n_skipped].iter().any(Option::is_some);
    labelled.then(|| Case {
        tool: tested.framework,
        runner: true,
        ours,
        baseline,
        shown: format!("{}: {told:?} for {labels:?}", tested.file),
    })
}
