//! Conformance cases for the prompt versions of runs.

use std::collections::BTreeSet;

use retro_core::pull_request::PullRequestFacts;
use retro_core::run::Usage;

use super::Database;
use super::scenario::{Scenario, run_id, test_tenant, time_at};
use super::track::{HEAD, merged_facts, pull_request_event, record_event, track_all, with_facts};
use crate::track::{PullRequestEvent, TrackResult, Trailer};

/// Creates a push of commits, each with the run that it names and the version of its prompt.
fn push_event(of: &str, id: &str, commits: &[(&str, &str, Option<&str>)]) -> PullRequestEvent {
    let trailer = |(commit, run, version): &(&str, &str, Option<&str>)| Trailer {
        commit: (*commit).to_owned(),
        text: (*run).to_owned(),
        prompt_version: version.map(str::to_owned),
    };
    let event = pull_request_event(&test_tenant(of), id, PullRequestFacts::default());
    let trailers = commits.iter().map(trailer).collect();
    PullRequestEvent { pull_request: None, commits: Vec::new(), trailers, ..event }
}

/// Lists the newest counted runs as run, version in the event, versions in commits and number of pull requests.
async fn list(scenario: &Scenario<'_>, limit: u32) -> Vec<(String, Option<String>, Vec<String>, usize)> {
    let runs = scenario.store.list_prompt_runs(&scenario.key, limit).await.expect("reading");
    let told = |run: retro_core::outcome::PromptRun| {
        let commits = run.commit_versions.into_iter().collect();
        (run.run.to_string(), run.event_version, commits, run.pull_requests.len())
    };
    runs.into_iter().map(told).collect()
}

/// Checks that a run has the version of its event and those of the commits that name it, and no other.
pub async fn the_version_of_a_prompt_is_in_the_event_or_in_commits(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let namesake = Scenario::new(&*database.one, "t", "v");
    let runs = [
        with_facts(scenario.new_run("a"), |facts| {
            (facts.prompt_version, facts.pull_request) = (Some("3".to_owned()), Some(7));
            facts.usage = Some(Usage { input_tokens: Some(5), ..Usage::default() });
        }),
        scenario.new_run("b"),
        scenario.new_run("c"),
        scenario.new_run("shared"),
    ];
    scenario.count_batch(&runs, time_at(0)).await;
    namesake.count_runs(&["shared"]).await;
    record_event(&*database.one, &pull_request_event(&test_tenant("t"), "merged", merged_facts())).await;
    let commits = [
        (HEAD, "w/a", Some("4")),
        ("c1", "b", Some("4")),
        ("c2", "b", Some("5")),
        ("c3", "w/c", None),
        ("c4", "shared", Some("6")),
    ];
    record_event(&*database.one, &push_event("t", "push", &commits)).await;
    record_event(&*database.one, &push_event("other", "push", &[("c5", "w/c", Some("9"))])).await;
    for scenario in [&scenario, &namesake] {
        track_all(scenario).await;
    }
    let two = scenario.with_store(&*database.two);
    let (version, none) = (Some("3".to_owned()), Vec::<String>::new);
    let known = vec![
        ("shared".to_owned(), None, none(), 0),
        ("c".to_owned(), None, none(), 0),
        ("b".to_owned(), None, vec!["4".to_owned(), "5".to_owned()], 0),
        ("a".to_owned(), version, vec!["4".to_owned()], 1),
    ];
    assert_eq!(list(&two, 9).await, known);
    assert_eq!(list(&two, 2).await, known[..2], "the newest runs come first");
    assert_eq!(list(&Scenario::new(&*database.two, "other", "w"), 9).await, [], "tenants are apart");
    let tokens: Vec<_> = two.store.list_prompt_runs(&two.key, 9).await.expect("reading");
    assert_eq!(tokens.iter().map(|run| run.tokens).collect::<Vec<_>>(), [None, None, None, Some(5)]);
    // A commit that was recorded before its version was read gets it with the next push that has the commit.
    let again = push_event("t", "push again", &[("c3", "w/c", Some("7")), ("c1", "b", Some("4"))]);
    assert_eq!(record_event(&*database.one, &again).await, TrackResult::Recorded);
    assert_eq!(list(&two, 9).await[1].2, ["7"]);
    let detail = two.store.load_run_detail(&two.key, &run_id("c")).await.expect("reading").expect("known");
    assert_eq!(detail.commit_prompt_versions, BTreeSet::from(["7".to_owned()]));
}
