//! Converts rows of pull requests and of links between runs and pull requests.

use std::collections::{BTreeMap, BTreeSet};

use retro_core::id::{Tenant, WorkflowKey};
use retro_core::message::{Message, Notice};
use retro_core::outcome::{PULL_REQUESTS_NOTED_MAX, PromptRun, RunReferences, parse_trailer};
use retro_core::pull_request::{
    PullRequestFacts, PullRequestOutcome, PullRequestRef, normalize_commit, normalize_repo,
};
use retro_core::report::WindowRun;
use retro_core::run::RunFacts;
use retro_store::Result;
use retro_store::track::{RunLink, Trailer};
use serde::Deserialize;

use super::count::RunWrite;
use crate::{at, parse_workflow_key};

/// Subset of a run's facts that links it to a pull request.
#[derive(Deserialize)]
struct ReferenceFacts {
    #[serde(default)]
    repo: Option<String>,
    #[serde(default)]
    pull_request: Option<u64>,
    #[serde(default)]
    commit: Option<String>,
}

/// Parses a run's references to a pull request from `run_facts.facts`. `number` is the arrival number of the
/// run. Drops values that cannot be valid repository names, pull request numbers or commits.
pub(crate) fn parse_references(key: &WorkflowKey, number: i64, facts: &str) -> Result<RunReferences> {
    let ReferenceFacts { repo, pull_request, commit } =
        at("run_facts.facts", format!("{key}, number {number}")).parse_json(facts)?;
    // The emitter chose these values: an overlong one would exceed the index row size of Postgres, and a NUL
    // cannot be stored in its text columns.
    let sane = |text: &String| text.len() <= NAME_BYTES_MAX && !text.chars().any(char::is_control);
    Ok(RunReferences {
        repo: repo.filter(sane).map(|repo| normalize_repo(&repo)),
        // A number that does not fit a database integer is no pull request number.
        number: pull_request.filter(|number| i64::try_from(*number).is_ok()),
        commit: commit.filter(sane).map(|commit| normalize_commit(&commit)),
    })
}

/// Maximum length of an accepted repository name or commit, in bytes. GitHub repository names have at most
/// 140 bytes, and commit hashes at most 64.
const NAME_BYTES_MAX: usize = 512;

/// Row of a commit trailer, read as one run.
pub(crate) struct TrailerRow<'a> {
    pub(crate) commit: &'a str,
    pub(crate) text: &'a str,
    /// Workflow of the run; empty if the trailer names none.
    pub(crate) workflow: String,
    pub(crate) run: String,
    /// Prompt version in the commit; empty if it names none.
    pub(crate) prompt_version: &'a str,
}

/// Returns a row for each interpretation of a commit trailer.
pub(crate) fn trailer_rows(trailer: &Trailer) -> Vec<TrailerRow<'_>> {
    let read = parse_trailer(&trailer.text).into_iter();
    read.map(|(workflow, run)| TrailerRow {
        commit: &trailer.commit,
        text: &trailer.text,
        workflow: workflow.map(String::from).unwrap_or_default(),
        run: run.into(),
        prompt_version: trailer.prompt_version.as_deref().unwrap_or_default(),
    })
    .collect()
}

/// Parses the column `pull_requests.facts`.
pub(crate) fn parse_pull_request_facts(
    pull_request: &PullRequestRef,
    facts: &str,
) -> Result<PullRequestFacts> {
    at("pull_requests.facts", pull_request).parse_json(facts)
}

/// Converts the columns `repo` and `number` to a pull request.
pub(crate) fn pull_request_from_row(repo: String, number: i64) -> Result<PullRequestRef> {
    let number = at("pull_requests.number", &repo).parse_unsigned(number)?;
    Ok(PullRequestRef { repo, number })
}

/// Row of a link: workflow, run id, repository, pull request number and pull request facts; the facts are
/// `None` if no event about the pull request has arrived.
pub(crate) type LinkRow = (String, String, String, i64, Option<String>);

/// Converts a row to a link between a run and a pull request. Missing facts become empty facts.
pub(crate) fn link_from_row(tenant: &Tenant, row: LinkRow) -> Result<RunLink> {
    let (workflow, run, repo, number, known) = row;
    let key = parse_workflow_key(tenant.as_str(), &workflow)?;
    let pull_request = pull_request_from_row(repo, number)?;
    let known =
        known.map(|known| parse_pull_request_facts(&pull_request, &known)).transpose()?.unwrap_or_default();
    Ok((key.workflow, at("tracked_runs.run_id", &workflow).parse(&run)?, pull_request, known))
}

/// Row of a pull request outcome of a given run: repository, pull request number and pull request facts.
pub(crate) type OutcomeRow = (String, i64, String);

/// Converts a row to the outcome of a pull request.
pub(crate) fn outcome_from_row((repo, number, known): OutcomeRow) -> Result<PullRequestOutcome> {
    let pull_request = pull_request_from_row(repo, number)?;
    let known = parse_pull_request_facts(&pull_request, &known)?;
    Ok(PullRequestOutcome::from_facts(pull_request, &known))
}

/// Row of a pull request outcome of any run: run id, repository, pull request number and pull request facts.
pub(crate) type RunOutcomeRow = (String, String, i64, String);

/// Attaches pull request outcomes to the runs of a window, at most [`PULL_REQUESTS_NOTED_MAX`] per run.
/// Expects `rows` sorted by run and pull request.
pub(crate) fn attach_outcomes(window: &mut [WindowRun], rows: Vec<RunOutcomeRow>) -> Result<()> {
    let mut by_run: BTreeMap<String, Vec<PullRequestOutcome>> = BTreeMap::new();
    for (run, repo, number, known) in rows {
        let of = by_run.entry(run).or_default();
        if of.len() < PULL_REQUESTS_NOTED_MAX {
            of.push(outcome_from_row((repo, number, known))?);
        }
    }
    for one in window {
        one.pull_requests = by_run.remove(one.run.as_str()).unwrap_or_default();
    }
    Ok(())
}

/// Row of a counted run: run id, time at which it was first stored, and facts.
pub(crate) type CountedRunRow = (String, i64, String);

/// Converts counted runs, with the prompt versions in their commits (rows of run id and version) and their pull
/// requests. Keeps the order of `runs`.
pub(crate) fn prompt_runs(
    key: &WorkflowKey,
    runs: Vec<CountedRunRow>,
    versions: Vec<(String, String)>,
    links: Vec<RunOutcomeRow>,
) -> Result<Vec<PromptRun>> {
    let mut versions_of: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (run, version) in versions {
        versions_of.entry(run).or_default().insert(version);
    }
    let mut links_of: BTreeMap<String, Vec<PullRequestFacts>> = BTreeMap::new();
    for (run, repo, number, known) in links {
        let known = parse_pull_request_facts(&pull_request_from_row(repo, number)?, &known)?;
        links_of.entry(run).or_default().push(known);
    }
    let convert = |(run, received_ms, facts): CountedRunRow| {
        let name = format!("{key}/{run}");
        let facts: RunFacts = at("run_facts.facts", &name).parse_json(&facts)?;
        let received_at = at("runs.received_ms", &name).parse_millis(received_ms)?;
        Ok(PromptRun {
            commit_versions: versions_of.remove(&run).unwrap_or_default(),
            pull_requests: links_of.remove(&run).unwrap_or_default(),
            ..PromptRun::from_run_facts(facts, received_at)
        })
    };
    runs.into_iter().map(convert).collect()
}

/// Returns the tracking position to restart from for each (tenant, workflow): the arrival number before the
/// first rewritten run. Ignores new runs, because tracking has not reached them yet.
pub(crate) fn tracking_restart_points<'a>(writes: &[RunWrite<'a>]) -> BTreeMap<(&'a str, &'a str), u64> {
    let mut places = BTreeMap::new();
    for write in writes.iter().filter(|write| write.known) {
        let key = &write.incoming.arrival.key;
        let before = write.number.saturating_sub(1);
        let place = places.entry((key.tenant.as_str(), key.workflow.as_str())).or_insert(before);
        *place = before.min(*place);
    }
    places
}

/// Builds the message that requests credit for a pull request in one workflow from the writer.
pub(crate) fn outcomes_due_message(
    tenant: &Tenant,
    workflow: &str,
    pull_request: PullRequestRef,
    because: &str,
) -> Result<Message> {
    let key = parse_workflow_key(tenant.as_str(), workflow)?;
    Ok(Notice::OutcomesDue { pull_request, because: because.to_owned() }.into_message(&key))
}
