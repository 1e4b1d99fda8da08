//! A workflow of GitHub Actions that is over, as a run of ours: a source for a team without any engine.
//!
//! **Its workflow** is `host/owner/name/file`, such as `github.com/acme/shop/ci.yml`: a file is renamed less often than the name in
//! it, and two files may bear one name. An engine that names its workflows otherwise cannot meet it. **Its run** is GitHub's id, and
//! GitHub's attempt its attempt: one that is run again updates the facts and is counted once. It brings no trajectory.

use retro_core::id::{RunId, Workflow};
use retro_core::run::{MemoryUse, Outcome, RunFacts, RunKind};
use retro_events::github::tenants::HOST;
use retro_events::run_completed::RunEvent;

use crate::payload::Payload;
use crate::read::Left;
use crate::text;

/// Where workflows lie; the rest is the file's name.
const FOLDER: &str = ".github/workflows/";

/// The event of a run, whose identity is that of the delivery.
pub(crate) fn of(host: &str, repo: &str, delivery: &str, payload: Payload) -> Result<RunEvent, Left> {
    let found = payload.workflow_run.ok_or(Left::Incomplete("`workflow_run`"))?;
    let id = found.id.ok_or(Left::Incomplete("`workflow_run.id`"))?;
    let outcome = outcome(found.conclusion.as_deref())?;
    let workflow = payload.workflow.unwrap_or_default();
    let named = |text: Option<String>| text.filter(|text| !text.is_empty());
    let path = named(found.path).or(named(workflow.path));
    let name = path.or(named(found.name)).or(named(workflow.name));
    let workflow = workflow_of(host, repo, &name.ok_or(Left::Incomplete("`workflow_run.path`"))?)?;
    let finished_at = found.updated_at;
    let started_at = found.run_started_at.or(found.created_at);
    let facts = RunFacts {
        run_id: RunId::new(id.to_string()).expect("a number is a name"),
        attempt: found.run_attempt.unwrap_or(1).max(1),
        kind: RunKind::Normal,
        outcome,
        // A clock that went backwards says nothing about the beginning.
        started_at: started_at.filter(|started| finished_at.is_none_or(|finished| *started <= finished)),
        finished_at,
        repo: Some(if host == HOST { repo.to_owned() } else { format!("{host}/{repo}") }),
        pull_request: found.pull_requests.unwrap_or_default().first().and_then(|one| one.number),
        commit: text::hash(found.head_sha),
        user: None,
        agent: None,
        prompt_version: None,
        task: None,
        usage: None,
        memories: MemoryUse::default(),
        self_feedback: Vec::new(),
    };
    let mut event = RunEvent::new(&format!("https://{host}/{repo}"), workflow, facts, None);
    delivery.clone_into(&mut event.envelope.id);
    Ok(event)
}

/// A path may end in the branch that it was taken from.
fn workflow_of(host: &str, repo: &str, path: &str) -> Result<Workflow, Left> {
    let path = path.split_once('@').map_or(path, |(path, _)| path);
    let file = path.strip_prefix(FOLDER).unwrap_or(path);
    let name = format!("{host}/{repo}/{file}");
    Workflow::new(name).map_err(|_| Left::Incomplete("a name of the workflow that is short enough"))
}

/// What became of it. One that waits for somebody, or that is not known, has not ended in any way that is.
fn outcome(conclusion: Option<&str>) -> Result<Outcome, Left> {
    Ok(match conclusion {
        // Nothing failed, and nothing was to succeed.
        Some("success" | "neutral") => Outcome::Success,
        Some("failure") => Outcome::Failure,
        Some("startup_failure") => Outcome::Error,
        // GitHub gives up on what has not ended within two weeks.
        Some("timed_out" | "stale") => Outcome::Timeout,
        Some("cancelled") => Outcome::Cancellation,
        Some("skipped") => Outcome::Skip,
        Some("action_required") => return Err(Left::Beside("the workflow waits for an approval")),
        Some(_) => return Err(Left::Beside("the conclusion is not known")),
        None => return Err(Left::Incomplete("`workflow_run.conclusion`")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workflow_is_named_after_its_file_and_repository() {
        let named = |host, path| workflow_of(host, "acme/shop", path).map(String::from);
        for (host, path, name) in [
            (HOST, ".github/workflows/ci.yml", "github.com/acme/shop/ci.yml"),
            (HOST, ".github/workflows/ci.yml@main", "github.com/acme/shop/ci.yml"),
            (HOST, "dynamic/pages/build", "github.com/acme/shop/dynamic/pages/build"),
            (HOST, "CI", "github.com/acme/shop/CI"),
            ("ghe.example.com", ".github/workflows/ci.yml", "ghe.example.com/acme/shop/ci.yml"),
        ] {
            assert_eq!(named(host, path).as_deref(), Ok(name));
        }
        assert!(named(HOST, &"x".repeat(300)).is_err());
    }

    #[test]
    fn every_conclusion_has_its_outcome_or_is_left() {
        for (conclusion, wanted) in [
            ("success", Some(Outcome::Success)),
            ("neutral", Some(Outcome::Success)),
            ("failure", Some(Outcome::Failure)),
            ("startup_failure", Some(Outcome::Error)),
            ("timed_out", Some(Outcome::Timeout)),
            ("stale", Some(Outcome::Timeout)),
            ("cancelled", Some(Outcome::Cancellation)),
            ("skipped", Some(Outcome::Skip)),
            ("action_required", None),
            ("brand_new", None),
        ] {
            assert_eq!(outcome(Some(conclusion)).ok(), wanted, "{conclusion}");
        }
        assert!(outcome(None).is_err());
    }
}
