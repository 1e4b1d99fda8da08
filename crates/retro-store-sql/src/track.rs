//! Rows of pull requests and of the runs behind them.

use std::collections::BTreeMap;

use retro_core::id::{Tenant, WorkflowKey};
use retro_core::message::{Message, Notice};
use retro_core::outcome::{
    PULL_REQUESTS_NOTED_MAX, PullRequestFacts, PullRequestRef, RunOutcome, RunReferences, commit_name,
    repo_name, trailer_names,
};
use retro_core::report::WindowRun;
use retro_store::Result;
use retro_store::track::{RunLink, Trailer};
use serde::Deserialize;

use crate::count::RunWrite;
use crate::{at, workflow_key};

/// Of a run's facts, what says where it belongs.
#[derive(Deserialize)]
struct Told {
    #[serde(default)]
    repo: Option<String>,
    #[serde(default)]
    pull_request: Option<u64>,
    #[serde(default)]
    commit: Option<String>,
}

/// Reads `run_facts.facts` of the run with this place of arrival. A name that no repository and no commit can have is none.
pub fn references(key: &WorkflowKey, number: i64, facts: &str) -> Result<RunReferences> {
    let Told { repo, pull_request, commit } =
        at("run_facts.facts", format!("{key}, number {number}")).json(facts)?;
    let sane = |text: &String| text.len() <= NAME_BYTES_MAX && !text.chars().any(char::is_control);
    Ok(RunReferences {
        repo: repo.filter(sane).map(|repo| repo_name(&repo)),
        // Beyond what a database's integer holds is no number of a pull request.
        number: pull_request.filter(|number| i64::try_from(*number).is_ok()),
        commit: commit.filter(sane).map(|commit| commit_name(&commit)),
    })
}

/// Longer names are nobody's, in bytes: GitHub's are at most 140, a hash has 64 digits.
const NAME_BYTES_MAX: usize = 512;

/// The rows of a trailer: workflow (empty: any) and run, one for each way to read it.
pub fn readings(trailer: &Trailer) -> Vec<(String, String)> {
    let read = trailer_names(&trailer.named).into_iter();
    read.map(|(workflow, run)| (workflow.map(String::from).unwrap_or_default(), run.into())).collect()
}

/// Reads what is known of a pull request.
pub fn facts(pull_request: &PullRequestRef, facts: &str) -> Result<PullRequestFacts> {
    at("pull_requests.facts", pull_request).json(facts)
}

/// Reads a pull request's key.
pub fn pull_request(repo: String, number: i64) -> Result<PullRequestRef> {
    let number = at("pull_requests.number", &repo).unsigned(number)?;
    Ok(PullRequestRef { repo, number })
}

/// Workflow, run, repository, number, facts.
pub type LinkRow = (String, String, String, i64, Option<String>);

/// Reads a link of a run; of a pull request that nothing was heard of yet, nothing is known.
pub fn link(tenant: &Tenant, row: LinkRow) -> Result<RunLink> {
    let (workflow, run, repo, number, known) = row;
    let key = workflow_key(tenant.as_str(), &workflow)?;
    let pull_request = pull_request(repo, number)?;
    let known = known.map(|known| facts(&pull_request, &known)).transpose()?.unwrap_or_default();
    Ok((key.workflow, at("followed_runs.run_id", &workflow).parse(&run)?, pull_request, known))
}

/// Repository, number, facts.
pub type OutcomeRow = (String, i64, String);

/// Reads what became of a run at one of its pull requests.
pub fn outcome((repo, number, known): OutcomeRow) -> Result<RunOutcome> {
    let pull_request = pull_request(repo, number)?;
    let known = facts(&pull_request, &known)?;
    Ok(RunOutcome::of(pull_request, &known))
}

/// Run, repository, number, facts.
pub type RunOutcomeRow = (String, String, i64, String);

/// Notes the rows, sorted by run and pull request, with the runs of a window; of each run at most
/// [`PULL_REQUESTS_NOTED_MAX`].
pub fn noted(window: &mut [WindowRun], rows: Vec<RunOutcomeRow>) -> Result<()> {
    let mut by_run: BTreeMap<String, Vec<RunOutcome>> = BTreeMap::new();
    for (run, repo, number, known) in rows {
        let of = by_run.entry(run).or_default();
        if of.len() < PULL_REQUESTS_NOTED_MAX {
            of.push(outcome((repo, number, known))?);
        }
    }
    for one in window {
        one.pull_requests = by_run.remove(one.run.as_str()).unwrap_or_default();
    }
    Ok(())
}

/// From where the runs of these writes that were known before are to be followed, by tenant and workflow: the place before
/// the first of them. A run that is new is not among them.
pub fn again<'a>(writes: &[RunWrite<'a>]) -> BTreeMap<(&'a str, &'a str), u64> {
    let mut places = BTreeMap::new();
    for write in writes.iter().filter(|write| write.known) {
        let key = &write.incoming.arrival.key;
        let before = write.number.saturating_sub(1);
        let place = places.entry((key.tenant.as_str(), key.workflow.as_str())).or_insert(before);
        *place = before.min(*place);
    }
    places
}

/// The message that wakes the writer for a workflow behind a pull request.
pub fn due(tenant: &Tenant, workflow: &str, pull_request: PullRequestRef, because: &str) -> Result<Message> {
    let key = workflow_key(tenant.as_str(), workflow)?;
    Ok(Notice::OutcomesDue { pull_request, because: because.to_owned() }.about(&key))
}
