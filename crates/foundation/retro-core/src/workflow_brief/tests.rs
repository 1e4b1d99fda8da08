use serde_json::json;

use super::*;
use crate::audience::RepoVisibility;
use crate::calls::SummaryContent;
use crate::id::{Tenant, WorkflowKey};
use crate::policy::Policy;
use crate::retrospective::{Retrospective, WorkflowState};

/// Returns the summary of a run that got past an error by passing `region`.
fn summary(ordinal: u64, repo: Option<&str>, error: &str) -> StoredSummary {
    let value = json!({
        "version": crate::calls::SUMMARY_VERSION, "outcome": if ordinal.is_multiple_of(3) { "failure" } else { "success" },
        "repository": repo.map(|repo| json!({"repo": repo})),
        "operations": [{"step": "main", "tool": "deploy", "calls": 2, "failed": 1}],
        "errors": [{"operation": 0, "error": error, "calls": 1, "recovered": true}],
        "reactions": [{"step": "main", "tool": "deploy", "error": error, "then": "changed",
            "parts": [{"slot": "region", "forms": ["with `region`"]}]}],
    });
    let content = SummaryContent::Summary(serde_json::from_value(value).unwrap());
    StoredSummary { run: RunId::new(format!("r{ordinal}")).unwrap(), ordinal, content }
}

fn build(window_runs: u64, summaries: &[StoredSummary]) -> WorkflowBrief {
    WorkflowBrief::build(&Workflow::new("w").unwrap(), window_runs, summaries, &[])
}

fn repository(name: &str) -> RunRepository {
    RunRepository::of_run(Some(name), Some(RepoVisibility::Private)).unwrap()
}

#[test]
fn it_says_what_is_called_how_runs_end_and_what_they_changed() {
    let summaries: Vec<_> = (1..=6).map(|ordinal| summary(ordinal, None, "no region")).collect();
    let brief = build(4, &summaries);
    let part = brief.part_of(None).unwrap();
    assert_eq!((brief.window_runs, part.runs), (4, 6));
    let outcomes: Vec<_> = part.outcomes.iter().map(|one| (one.outcome.as_str(), one.runs)).collect();
    assert_eq!(outcomes, [("success", 4), ("failure", 2)]);
    assert_eq!((part.operations[0].calls, part.operations[0].failed, part.operations[0].runs), (12, 6, 6));
    let [failure] = &part.failures[..] else { panic!("{part:?}") };
    assert_eq!((failure.calls, failure.runs, failure.counts.changed), (6, 6, 6));
    assert_eq!(failure.changes, [("with `region`".to_owned(), 6)]);
    let shared = ContrastOpinion::Shared { advice: "pass `region` as well".to_owned(), runs: 6 };
    assert_eq!(failure.contrast, shared);
    let order: Vec<_> = summaries.iter().rev().cloned().collect();
    assert_eq!(build(4, &order), brief, "the order of the rows does not matter");
}

#[test]
fn what_one_repository_shows_is_told_to_no_other() {
    let mut summaries: Vec<_> = (1..=3).map(|one| summary(one, Some("a/one"), "secret of one")).collect();
    summaries.extend((4..=6).map(|one| summary(one, Some("b/two"), "secret of two")));
    summaries.push(summary(7, None, "open to all"));
    let brief = build(7, &summaries);
    let told = |repository: Option<&RunRepository>| {
        let part = brief.part_of(repository).unwrap();
        let errors: Vec<_> = part.failures.iter().map(|failure| failure.error.as_str()).collect();
        (part.runs, errors)
    };
    assert_eq!(told(Some(&repository("a/one"))), (4, vec!["secret of one", "open to all"]));
    assert_eq!(told(Some(&repository("b/two"))), (4, vec!["secret of two", "open to all"]));
    assert_eq!(told(Some(&repository("c/three"))), (1, vec!["open to all"]));
    assert_eq!(told(None), (1, vec!["open to all"]));
}

#[test]
fn its_size_is_bounded_however_many_runs_there_are() {
    let mut summaries = Vec::new();
    for ordinal in 1..=200 {
        let mut one =
            summary(ordinal, Some(&format!("a/r{ordinal}")), &format!("error {ordinal} {}", "x".repeat(100)));
        let SummaryContent::Summary(content) = &mut one.content else { panic!() };
        content.operations[0].tool = format!("tool{ordinal}");
        if ordinal > 100 {
            content.repository = None;
        }
        summaries.push(one);
    }
    let brief = build(200, &summaries);
    assert_eq!(brief.parts.len(), 1 + PARTS_MAX);
    let part = brief.part_of(None).unwrap();
    assert_eq!((part.operations.len(), part.failures.len()), (OPERATIONS_MAX, FAILURES_MAX));
    let bytes = serde_json::to_vec(&brief).unwrap().len();
    assert!(bytes < 1024 * 1024, "{bytes}");
}

/// Returns the retrospective over a window of 10 runs.
fn retrospective() -> Retrospective {
    let mut state = WorkflowState { counted: 10, ..WorkflowState::default() };
    let key = WorkflowKey { tenant: Tenant::default_tenant(), workflow: Workflow::new("w").unwrap() };
    let opened = state.open_if_due(&key, &Policy::default(), "2026-01-01T00:00:00Z".parse().unwrap(), 0);
    opened.unwrap().retrospective
}

fn carrying(ordinal: u64, repo: Option<&str>) -> StoredSummary {
    let mut stored = summary(ordinal, repo, "no region");
    let SummaryContent::Summary(content) = &mut stored.content else { panic!() };
    content.has_agents_md = true;
    stored
}

#[test]
fn the_agents_md_of_a_repository_comes_from_its_newest_runs_of_the_window() {
    let mut summaries: Vec<_> = (1..=5).map(|ordinal| carrying(ordinal, Some("a/one"))).collect();
    summaries.push(summary(6, Some("a/one"), "it carries none"));
    summaries.push(carrying(7, Some("b/two")));
    summaries.push(carrying(8, None));
    summaries.push(carrying(11, Some("a/one")));
    let retrospective = retrospective();
    assert_eq!((retrospective.first, retrospective.last), (1, 10));
    let chosen = choose_agents_md_runs(&summaries, &retrospective);
    let chosen: Vec<(Option<&str>, Vec<u64>)> = chosen
        .iter()
        .map(|(repo, runs)| (repo.as_ref().map(|repo| repo.as_str()), runs.iter().map(|one| one.1).collect()))
        .collect();
    assert_eq!(
        chosen,
        [(None, vec![8]), (Some("a/one"), vec![5, 4, 3]), (Some("b/two"), vec![7])],
        "run 11 is of the next window"
    );
    let many: Vec<_> = (1..=10).map(|one| carrying(one, Some(&format!("a/r{one}")))).collect();
    assert_eq!(choose_agents_md_runs(&many, &retrospective).len(), 10);
}

#[test]
fn a_repository_without_an_agents_md_is_told_no_other_one() {
    let run = RunId::new("r1").unwrap();
    let of = |repo: Option<&str>| {
        BriefedAgentsMd::new(repo.map(|repo| Repository::new(repo).unwrap()), run.clone(), "words")
    };
    let brief = WorkflowBrief { agents_md: vec![of(None), of(Some("a/one"))], ..build(1, &[]) };
    let told = |repo: Option<&RunRepository>| brief.agents_md_of(repo).map(|one| one.repository.clone());
    assert_eq!(told(None), Some(None));
    assert_eq!(told(Some(&repository("a/one"))), Some(Some(Repository::new("a/one").unwrap())));
    assert_eq!(told(Some(&repository("b/two"))), None, "not that of runs whose repository is not known");
}

#[test]
fn a_long_agents_md_is_cut_at_the_end_of_a_line_and_never_within_a_character() {
    let run = RunId::new("r1").unwrap();
    let of = |text: &str| BriefedAgentsMd::new(None, run.clone(), text);
    let short = of("Use make.");
    assert!(!short.is_cut() && short.text == "Use make.");
    let lines = of(&"Use make.\n".repeat(2000));
    assert_eq!((lines.is_cut(), lines.text.len(), lines.bytes), (true, 8190, 20_000));
    let one_line = of(&"é".repeat(20_000));
    assert_eq!((one_line.is_cut(), one_line.text.len(), one_line.bytes), (true, 8192, 40_000));
}
