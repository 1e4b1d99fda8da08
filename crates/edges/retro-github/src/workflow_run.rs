//! Converts finished GitHub Actions workflows into runs, for teams without a workflow engine of their own.
//!
//! **The workflow** is `host/owner/name/file`, such as `github.com/acme/shop/ci.yml`: a file is renamed less
//! often than the workflow name in it, and two files may contain the same name. This naming cannot collide
//! with that of a workflow engine. **The run** has GitHub's run id and attempt number; a rerun updates the
//! facts and is counted once. A webhook has no trajectory, so the run is recorded and not counted: its outcome
//! alone shows nothing that could be investigated.

use retro_core::audience::RepoVisibility;
use retro_core::id::{RunId, Workflow};
use retro_core::run::{RunFacts, RunKind, RunMemories, RunOutcome};
use retro_events::github::tenants::DEFAULT_HOST;
use retro_events::run_completed::RunEvent;

use crate::ignored::Ignored;
use crate::payload::Payload;
use crate::text;

/// Directory of workflow files. It is removed from the workflow's name.
const WORKFLOWS_FOLDER: &str = ".github/workflows/";

/// Builds the event of a finished run. Its id is derived from its content, so a redelivery is recognized, and
/// an event with other content never has the id of an earlier one.
pub(crate) fn parse_workflow_run(host: &str, repo: &str, payload: Payload) -> Result<RunEvent, Ignored> {
    let found = payload.workflow_run.ok_or(Ignored::Incomplete("`workflow_run`"))?;
    let id = found.id.ok_or(Ignored::Incomplete("`workflow_run.id`"))?;
    let outcome = parse_outcome(found.conclusion.as_deref())?;
    let workflow = payload.workflow.unwrap_or_default();
    let named = |text: Option<String>| text.filter(|text| !text.is_empty());
    let path = named(found.path).or(named(workflow.path));
    let name = path.or(named(found.name)).or(named(workflow.name));
    let workflow = workflow_name(host, repo, &name.ok_or(Ignored::Incomplete("`workflow_run.path`"))?)?;
    let finished_at = found.updated_at;
    let started_at = found.run_started_at.or(found.created_at);
    let facts = RunFacts {
        run_id: RunId::new(id.to_string()).expect("digits are a valid run id"),
        attempt: found.run_attempt.unwrap_or(1).max(1),
        kind: RunKind::Normal,
        outcome,
        outcome_only: true,
        // A start after the end means that a clock was set back, so the start is dropped.
        started_at: started_at.filter(|started| finished_at.is_none_or(|finished| *started <= finished)),
        finished_at,
        repo: Some(if host == DEFAULT_HOST { repo.to_owned() } else { format!("{host}/{repo}") }),
        repo_visibility: payload.repository.and_then(|repository| repository.private).map(to_visibility),
        pull_request: found.pull_requests.unwrap_or_default().first().and_then(|one| one.number),
        commit: text::commit_hash(found.head_sha),
        user: None,
        agent: None,
        prompt_version: None,
        task: None,
        usage: None,
        memories: RunMemories::default(),
        self_feedback: Vec::new(),
    };
    Ok(RunEvent::new(&format!("https://{host}/{repo}"), workflow, facts, None))
}

const fn to_visibility(private: bool) -> RepoVisibility {
    if private { RepoVisibility::Private } else { RepoVisibility::Public }
}

/// Builds the workflow's name from the path of its file, which may end in `@` and a Git ref.
fn workflow_name(host: &str, repo: &str, path: &str) -> Result<Workflow, Ignored> {
    let path = path.split_once('@').map_or(path, |(path, _)| path);
    let file = path.strip_prefix(WORKFLOWS_FOLDER).unwrap_or(path);
    let name = format!("{host}/{repo}/{file}");
    Workflow::new(name).map_err(|_| Ignored::Incomplete("a name of the workflow that is short enough"))
}

/// Maps GitHub's conclusion to an outcome. Ignores a workflow that waits for approval or has an unknown
/// conclusion.
fn parse_outcome(conclusion: Option<&str>) -> Result<RunOutcome, Ignored> {
    Ok(match conclusion {
        // `neutral`: nothing failed, and nothing was required to succeed.
        Some("success" | "neutral") => RunOutcome::Success,
        Some("failure") => RunOutcome::Failure,
        Some("startup_failure") => RunOutcome::Error,
        // `stale`: GitHub gives up on a workflow that has not ended within two weeks.
        Some("timed_out" | "stale") => RunOutcome::Timeout,
        Some("cancelled") => RunOutcome::Cancellation,
        Some("skipped") => RunOutcome::Skip,
        Some("action_required") => return Err(Ignored::NotRelevant("the workflow waits for an approval")),
        Some(_) => return Err(Ignored::NotRelevant("the conclusion is not known")),
        None => return Err(Ignored::Incomplete("`workflow_run.conclusion`")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workflow_is_named_after_its_file_and_repository() {
        let named = |host, path| workflow_name(host, "acme/shop", path).map(String::from);
        for (host, path, name) in [
            (DEFAULT_HOST, ".github/workflows/ci.yml", "github.com/acme/shop/ci.yml"),
            (DEFAULT_HOST, ".github/workflows/ci.yml@main", "github.com/acme/shop/ci.yml"),
            (DEFAULT_HOST, "dynamic/pages/build", "github.com/acme/shop/dynamic/pages/build"),
            (DEFAULT_HOST, "CI", "github.com/acme/shop/CI"),
            ("ghe.example.com", ".github/workflows/ci.yml", "ghe.example.com/acme/shop/ci.yml"),
        ] {
            assert_eq!(named(host, path).as_deref(), Ok(name));
        }
        assert!(named(DEFAULT_HOST, &"x".repeat(300)).is_err());
    }

    #[test]
    fn every_conclusion_has_an_outcome_or_is_ignored() {
        for (conclusion, wanted) in [
            ("success", Some(RunOutcome::Success)),
            ("neutral", Some(RunOutcome::Success)),
            ("failure", Some(RunOutcome::Failure)),
            ("startup_failure", Some(RunOutcome::Error)),
            ("timed_out", Some(RunOutcome::Timeout)),
            ("stale", Some(RunOutcome::Timeout)),
            ("cancelled", Some(RunOutcome::Cancellation)),
            ("skipped", Some(RunOutcome::Skip)),
            ("action_required", None),
            ("brand_new", None),
        ] {
            assert_eq!(parse_outcome(Some(conclusion)).ok(), wanted, "{conclusion}");
        }
        assert!(parse_outcome(None).is_err());
    }
}
