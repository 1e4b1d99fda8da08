//! Converts the rows of pull requests and of the runs that are linked to them.

use std::collections::BTreeMap;

use retro_core::id::{Tenant, WorkflowKey};
use retro_core::message::{Message, Notice};
use retro_core::outcome::{
    PULL_REQUESTS_NOTED_MAX, PullRequestFacts, PullRequestOutcome, PullRequestRef, RunReferences,
    normalize_commit, normalize_repo, parse_trailer,
};
use retro_core::report::WindowRun;
use retro_store::Result;
use retro_store::track::{RunLink, Trailer};
use serde::Deserialize;

use crate::count::RunWrite;
use crate::{at, parse_workflow_key};

/// Facts of a run that link it to a pull request.
#[derive(Deserialize)]
struct ReferenceFacts {
    #[serde(default)]
    repo: Option<String>,
    #[serde(default)]
    pull_request: Option<u64>,
    #[serde(default)]
    commit: Option<String>,
}

/// Parses the references of the run with this arrival number from `run_facts.facts`. Leaves out names that no
/// repository or commit can have.
pub fn parse_references(key: &WorkflowKey, number: i64, facts: &str) -> Result<RunReferences> {
    let ReferenceFacts { repo, pull_request, commit } =
        at("run_facts.facts", format!("{key}, number {number}")).parse_json(facts)?;
    let sane = |text: &String| text.len() <= NAME_BYTES_MAX && !text.chars().any(char::is_control);
    Ok(RunReferences {
        repo: repo.filter(sane).map(|repo| normalize_repo(&repo)),
        // A number that a database integer cannot hold is not the number of a pull request.
        number: pull_request.filter(|number| i64::try_from(*number).is_ok()),
        commit: commit.filter(sane).map(|commit| normalize_commit(&commit)),
    })
}

/// Maximum length of an accepted name in bytes. GitHub's names have at most 140, and a hash has at most 64 digits.
const NAME_BYTES_MAX: usize = 512;

/// Returns the rows for a commit trailer, one for each way to read it. A row has the workflow, which is empty when
/// any workflow is possible, and the run id.
pub fn trailer_rows(trailer: &Trailer) -> Vec<(String, String)> {
    let read = parse_trailer(&trailer.text).into_iter();
    read.map(|(workflow, run)| (workflow.map(String::from).unwrap_or_default(), run.into())).collect()
}

/// Parses the facts of a pull request.
pub fn parse_pull_request_facts(pull_request: &PullRequestRef, facts: &str) -> Result<PullRequestFacts> {
    at("pull_requests.facts", pull_request).parse_json(facts)
}

/// Parses the key of a pull request.
pub fn pull_request_from_row(repo: String, number: i64) -> Result<PullRequestRef> {
    let number = at("pull_requests.number", &repo).parse_unsigned(number)?;
    Ok(PullRequestRef { repo, number })
}

/// Row of a link: workflow, run id, repository, pull request number, and pull request facts, which are `None` when no
/// event of the pull request has arrived.
pub type LinkRow = (String, String, String, i64, Option<String>);

/// Parses a link between a run and a pull request. The facts are empty when no event of the pull request has arrived
/// yet.
pub fn link_from_row(tenant: &Tenant, row: LinkRow) -> Result<RunLink> {
    let (workflow, run, repo, number, known) = row;
    let key = parse_workflow_key(tenant.as_str(), &workflow)?;
    let pull_request = pull_request_from_row(repo, number)?;
    let known =
        known.map(|known| parse_pull_request_facts(&pull_request, &known)).transpose()?.unwrap_or_default();
    Ok((key.workflow, at("followed_runs.run_id", &workflow).parse(&run)?, pull_request, known))
}

/// Row of the outcome of a known run: repository, pull request number and pull request facts.
pub type OutcomeRow = (String, i64, String);

/// Parses the outcome of a run at one of its pull requests.
pub fn outcome_from_row((repo, number, known): OutcomeRow) -> Result<PullRequestOutcome> {
    let pull_request = pull_request_from_row(repo, number)?;
    let known = parse_pull_request_facts(&pull_request, &known)?;
    Ok(PullRequestOutcome::from_facts(pull_request, &known))
}

/// Row of an outcome: run id, repository, pull request number and pull request facts.
pub type RunOutcomeRow = (String, String, i64, String);

/// Attaches outcomes to the runs of a window, at most [`PULL_REQUESTS_NOTED_MAX`] to each run. The rows must be
/// sorted by run and pull request.
pub fn attach_outcomes(window: &mut [WindowRun], rows: Vec<RunOutcomeRow>) -> Result<()> {
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

/// Returns for each tenant and workflow the arrival number after which tracking restarts, which is the one before the
/// first rewritten run. New runs do not count, because tracking has not reached them yet.
pub fn tracking_restart_points<'a>(writes: &[RunWrite<'a>]) -> BTreeMap<(&'a str, &'a str), u64> {
    let mut places = BTreeMap::new();
    for write in writes.iter().filter(|write| write.known) {
        let key = &write.incoming.arrival.key;
        let before = write.number.saturating_sub(1);
        let place = places.entry((key.tenant.as_str(), key.workflow.as_str())).or_insert(before);
        *place = before.min(*place);
    }
    places
}

/// Builds the message that wakes the writer when credit for a pull request is due in one workflow.
pub fn outcomes_due_message(
    tenant: &Tenant,
    workflow: &str,
    pull_request: PullRequestRef,
    because: &str,
) -> Result<Message> {
    let key = parse_workflow_key(tenant.as_str(), workflow)?;
    Ok(Notice::OutcomesDue { pull_request, because: because.to_owned() }.into_message(&key))
}
