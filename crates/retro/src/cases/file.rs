//! Reads the file of a case.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use retro_config::Problems;
use retro_config::document::read_regular_document;
use retro_core::id::{Repository, Step, Workflow};
use retro_core::remark::AuthorAssociation;
use retro_core::run::RunOutcome;
use serde::Deserialize;
use toml::Spanned;

use super::expectation::{Expectation, Outcome};

/// Maximum number of days between two retrospectives of a case: ten years.
const DAYS_LATER_MAX: u32 = 3650;
/// Maximum number of uses of runs in a case. Playing them takes seconds.
const USES_MAX: usize = 1000;

/// A case, with its place.
#[derive(Debug)]
pub(crate) struct CaseFile {
    pub(super) path: PathBuf,
    text: String,
    pub(super) case: Case,
}

/// Content of the file of a case.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    /// What the case tells, in one sentence.
    story: String,
    /// Workflow of the runs, for a pipeline with values of single workflows.
    #[serde(default)]
    pub(super) workflow: Option<Workflow>,
    /// Values of the policy for this case alone, over those of the pipeline.
    #[serde(default)]
    pub(super) policy: Option<Spanned<toml::Table>>,
    /// Runs by name. Each use of a name is a run of its own.
    #[serde(default)]
    pub(super) run: BTreeMap<String, CaseRun>,
    /// Retrospectives, one after the other.
    #[serde(default)]
    pub(super) retrospective: Vec<CaseRetrospective>,
    /// Repository of the reviews; `acme/shop` if it is left out.
    #[serde(default)]
    pub(super) repo: Option<String>,
    /// Decisions about the reviews of pull requests, one after the other.
    #[serde(default)]
    pub(super) review: Vec<CaseReview>,
}

/// A decision about the reviews of a pull request, and what it is expected to do.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CaseReview {
    /// Days since the last one.
    #[serde(default)]
    pub(super) days_later: Option<Spanned<u32>>,
    /// Number of the pull request.
    pub(super) pull_request: u64,
    /// Who opened it.
    #[serde(default)]
    pub(super) author: Option<String>,
    /// All remarks that are known by then.
    pub(super) remarks: Vec<CaseRemark>,
    /// Answers of a language model, one after the other: the arguments of `submit_readings`, or `{ unavailable = "…" }` for a
    /// call that fails. Without any, only the heuristics read.
    #[serde(default)]
    pub(super) model: Vec<toml::Table>,
    #[serde(default)]
    pub(super) expect: Vec<Spanned<Expectation>>,
}

/// A remark, as a case tells it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CaseRemark {
    pub(super) by: String,
    /// `owner`, `member`, `collaborator`, `contributor` or `none`; `member` if it is left out.
    pub(super) association: Option<AuthorAssociation>,
    pub(super) bot: bool,
    pub(super) body: String,
    pub(super) path: Option<String>,
    /// Number of the remark that it answers.
    pub(super) reply_to: Option<u64>,
    pub(super) resolved: bool,
    pub(super) thumbs_up: u64,
    pub(super) edited: bool,
}

/// A run, as a case tells it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CaseRun {
    pub(super) outcome: Option<RunOutcome>,
    pub(super) step: Option<Step>,
    pub(super) task: Option<String>,
    pub(super) user: Option<String>,
    pub(super) repo: Option<String>,
    /// What the user said first.
    pub(super) message: Option<String>,
    pub(super) calls: Vec<CaseCall>,
    /// Answers of a language model, one after the other: the arguments of `submit_findings`. Without any, only the heuristics
    /// investigate.
    pub(super) model: Vec<toml::Table>,
}

/// A call of a tool.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CaseCall {
    pub(super) tool: String,
    #[serde(default)]
    pub(super) arguments: toml::Table,
    #[serde(default)]
    pub(super) answer: Option<String>,
    #[serde(default)]
    pub(super) failed: Option<bool>,
    /// What the agent said with the call.
    #[serde(default)]
    pub(super) message: String,
}

/// A retrospective, and what it is expected to do.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CaseRetrospective {
    /// Days since the last one.
    #[serde(default)]
    pub(super) days_later: Option<Spanned<u32>>,
    /// Memories that a person deletes before, by a part of their titles.
    #[serde(default)]
    pub(super) delete: Vec<Spanned<String>>,
    /// Question of a person: the retrospective is a manual one.
    #[serde(default)]
    pub(super) question: Option<String>,
    /// Runs in the order in which they are investigated.
    pub(super) runs: Vec<Spanned<RunUse>>,
    #[serde(default)]
    pub(super) expect: Vec<Spanned<Expectation>>,
}

/// A use of a named run.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RunUse {
    pub(super) run: String,
    pub(super) task: Option<String>,
    pub(super) user: Option<String>,
    /// Memories that the agent was given, by a part of their titles.
    pub(super) presented: Vec<String>,
}

impl CaseFile {
    /// Reads a case. Fails with the problems, each with file and line.
    pub(crate) fn read(path: &Path) -> Result<Self, Problems> {
        let text = read_regular_document(path)?;
        let case: Case = toml::from_str(&text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_of(&text, span.start));
            let message = error.message().replace('\n', ", ");
            Problems::from_sentence(format!("{}:{line}: {message}", path.display()))
        })?;
        let file = Self { path: path.to_owned(), text, case };
        Problems::fail_if_any(file.find_problems())?;
        Ok(file)
    }

    /// Returns what the case tells.
    pub(crate) fn story(&self) -> &str {
        &self.case.story
    }

    /// Returns `true` if the case tells of reviews, and `false` if it tells of runs.
    pub(crate) const fn is_about_reviews(&self) -> bool {
        !self.case.review.is_empty()
    }

    /// Names a place of the file.
    pub(super) fn place(&self, span: Range<usize>) -> String {
        format!("{}:{}", self.path.display(), line_of(&self.text, span.start))
    }

    /// Returns each expectation that is not met, with its place.
    pub(super) fn check_all(&self, expected: &[Spanned<Expectation>], outcome: &Outcome<'_>) -> Vec<String> {
        let check = |expectation: &Spanned<Expectation>| {
            let problem = expectation.get_ref().check(outcome)?;
            Some(format!("{}: {problem}", self.place(expectation.span())))
        };
        expected.iter().filter_map(check).collect()
    }

    fn find_problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        match (self.case.retrospective.is_empty(), self.case.review.is_empty()) {
            (true, true) => {
                problems
                    .push(format!("{}:1: has no [[retrospective]] and no [[review]]", self.path.display()));
            }
            (false, false) => {
                let path = self.path.display();
                problems
                    .push(format!("{path}:1: has [[retrospective]] and [[review]]; make two cases of it"));
            }
            _ => {}
        }
        problems.extend(self.find_review_problems());
        if self.case.retrospective.iter().map(|one| one.runs.len()).sum::<usize>() > USES_MAX {
            problems.push(format!("{}:1: plays more than {USES_MAX} runs", self.path.display()));
        }
        for retrospective in &self.case.retrospective {
            problems.extend(self.find_days_problem(retrospective.days_later.as_ref()));
            for used in &retrospective.runs {
                let name = &used.get_ref().run;
                if !self.case.run.contains_key(name) {
                    problems.push(format!("{}: no run is named `{name}`", self.place(used.span())));
                }
            }
            let wrong = retrospective.expect.iter().filter_map(|expectation| {
                let problem = expectation.get_ref().find_problem()?;
                Some(format!("{}: {problem}", self.place(expectation.span())))
            });
            problems.extend(wrong);
        }
        let mut expected = self.case.retrospective.iter().map(|one| &one.expect);
        if problems.is_empty()
            && expected.all(Vec::is_empty)
            && self.case.review.iter().all(|one| one.expect.is_empty())
        {
            let path = self.path.display();
            problems.push(format!("{path}:1: expects nothing, so it cannot fail; add `expect`"));
        }
        problems
    }
}

impl CaseFile {
    fn find_days_problem(&self, days: Option<&Spanned<u32>>) -> Option<String> {
        let days = days.filter(|days| *days.get_ref() > DAYS_LATER_MAX)?;
        let place = self.place(days.span());
        Some(format!("{place}: `days_later` is {}; at most {DAYS_LATER_MAX}", days.get_ref()))
    }

    fn find_review_problems(&self) -> Vec<String> {
        let path = self.path.display();
        let mut problems = Vec::new();
        if let Some(Err(problem)) = self.case.repo.as_ref().map(|repo| Repository::new(repo)) {
            problems.push(format!("{path}:1: `repo`: {problem}"));
        }
        if self.case.review.iter().map(|one| one.remarks.len()).sum::<usize>() > USES_MAX {
            problems.push(format!("{path}:1: has more than {USES_MAX} remarks"));
        }
        for review in &self.case.review {
            problems.extend(self.find_days_problem(review.days_later.as_ref()));
            problems.extend(review.expect.iter().filter_map(|expectation| {
                let problem = expectation.get_ref().find_problem()?;
                Some(format!("{}: {problem}", self.place(expectation.span())))
            }));
        }
        problems
    }
}

fn line_of(text: &str, byte: usize) -> usize {
    text.as_bytes()[..byte.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}
