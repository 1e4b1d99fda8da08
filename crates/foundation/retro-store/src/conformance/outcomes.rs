//! Conformance cases for the outcomes of pull requests that credit: rules, requests for changes and reverts.

use retro_core::finding::CheckedAnswer;
use retro_core::id::{MemoryId, RunId, Workflow, WorkflowKey};
use retro_core::memory::ChangeCause;
use retro_core::outcome::{CreditFacts, credit_outcome};
use retro_core::pull_request::{CreditedOutcome, PullRequestFacts, ReviewFacts, ReviewVerdict};
use retro_core::retrospective::{InvestigationResult, PresentedMemory};
use retro_core::run::RunOutcome;

use super::Database;
use super::review::test_repository;
use super::scenario::{Scenario, empty_result, test_tenant, time_at};
use super::track::{
    HEAD, applied_result, apply_memory, give_credit, load_credit, merged_facts, pull_request,
    pull_request_event, record_event, track_all, with_facts,
};
use crate::track::{PullRequestEvent, Revert, RevertedChange};
use crate::{CommitResult, Store};

/// Credits at most `limit` applications in the rule scope of the repository.
async fn credit_rules(store: &dyn Store, scope: &WorkflowKey, limit: u32) -> CommitResult {
    let decide = |facts: &CreditFacts| {
        assert!(facts.applications.len() <= limit as usize, "{:?}", facts.applications);
        credit_outcome(facts, &retro_core::policy::Policy::default(), time_at(900))
    };
    store.credit_memories(scope, &pull_request(), limit, &decide).await.expect("crediting").expect("sound")
}

/// Creates a result in which the run applied the rule and the memory.
fn applied_both(rule: MemoryId, memory: MemoryId) -> InvestigationResult {
    let (
        InvestigationResult::Nothing { checked: first, .. },
        InvestigationResult::Nothing { checked: second, .. },
    ) = (applied_result(rule), applied_result(memory))
    else {
        unreachable!("both found nothing")
    };
    let checked =
        CheckedAnswer { verdicts: [first.verdicts, second.verdicts].concat(), ..CheckedAnswer::default() };
    let rule = PresentedMemory { memory: rule, read: false, repo: Some(test_repository()) };
    InvestigationResult::Nothing {
        checked,
        presented: vec![rule, PresentedMemory::from_own_workflow(memory, false)],
    }
}

/// Lists the workflows and runs whose outcome credited the memory.
async fn list_credited_runs(store: &dyn Store, tenant: &str, memory: MemoryId) -> Vec<(Workflow, RunId)> {
    let history = store.list_memory_changes(&test_tenant(tenant), memory).await.expect("history");
    let of = |cause: &ChangeCause| match cause {
        ChangeCause::Outcome { workflow, run, .. } => Some((workflow.clone(), run.clone())),
        _ => None,
    };
    history.iter().filter_map(|change| of(&change.cause)).collect()
}

/// Checks that an outcome credits a rule that runs of two workflows applied, once for each run, under the lock of its
/// own scope and in parts, and that each workflow credits its own memory.
pub async fn an_outcome_credits_rules_in_their_own_scope(database: &Database) {
    let rule = super::review::a_rule(&*database.one, "t").await;
    let scope = test_repository().rule_scope(&test_tenant("t"));
    let before = rule.weight.get();
    let mut memories = Vec::new();
    for workflow in ["w", "v"] {
        let scenario = Scenario::new(&*database.one, "t", workflow);
        let memory = scenario.learn_lesson("a lesson").await;
        let belongs = with_facts(scenario.new_run("a"), |facts| facts.pull_request = Some(7));
        scenario.count_batch(&[belongs, scenario.new_run("b")], time_at(0)).await;
        assert_eq!(scenario.draw_sample().await, CommitResult::Done);
        scenario
            .investigate_all(&|claim| match claim.run.run_id.as_str() {
                "a" => applied_both(rule.id, memory.id),
                _ => empty_result(),
            })
            .await;
        let id = scenario.latest_retrospective().await.id;
        assert_eq!(scenario.close_retrospective(id).await, CommitResult::Done);
        memories.push((scenario, memory));
    }
    record_event(&*database.two, &pull_request_event(&test_tenant("t"), "merged", merged_facts())).await;
    for (scenario, _) in &memories {
        track_all(scenario).await;
    }
    let mut overdue = database.two.list_overdue_credits(0, 9).await.expect("reading");
    overdue.sort();
    let mut expected: Vec<_> = memories.iter().map(|(scenario, _)| scenario.key.clone()).collect();
    expected.push(scope.clone());
    expected.sort();
    assert_eq!(overdue, expected.into_iter().map(|key| (key, pull_request())).collect::<Vec<_>>());
    // Two parts, in two processes, and then nothing.
    assert_eq!(credit_rules(&*database.one, &scope, 1).await, CommitResult::Done);
    assert_eq!(credit_rules(&*database.two, &scope, 1).await, CommitResult::Done);
    assert_eq!(credit_rules(&*database.one, &scope, 1).await, CommitResult::AlreadyDone);
    let credited = list_credited_runs(&*database.two, "t", rule.id).await;
    let named: Vec<_> = credited.iter().map(|(workflow, run)| (workflow.as_str(), run.as_str())).collect();
    assert_eq!(named, [("v", "a"), ("w", "a")]);
    let now = database.two.find_memory(&test_tenant("t"), rule.id).await.expect("reading").expect("a rule");
    assert_eq!(now.weight.get(), (before + 100).min(1000));
    for (scenario, memory) in &memories {
        assert_eq!(load_credit(scenario, memory).await, (vec![], 300), "it waits for its own credit");
        assert_eq!(give_credit(scenario).await, Ok(CommitResult::Done));
        assert_eq!(load_credit(scenario, memory).await, (vec![CreditedOutcome::Merged], 350));
    }
    assert_eq!(database.one.list_overdue_credits(0, 9).await.expect("reading"), []);
}

/// Checks that a request for changes by somebody who may merge counts once, while the pull request is open, and that
/// one by anybody else does not count.
pub async fn a_request_for_changes_by_an_insider_counts_once(database: &Database) {
    let of = test_tenant("t");
    let scenario = Scenario::new(&*database.one, "t", "w");
    let memory = scenario.learn_lesson("a lesson").await;
    apply_memory(&scenario, &memory, ["a", "b"]).await;
    let review = |id, by_insider| PullRequestFacts {
        reviews: [(
            id,
            ReviewFacts { verdict: Some(ReviewVerdict::ChangesRequested), dismissed: false, by_insider },
        )]
        .into(),
        ..Default::default()
    };
    record_event(&*database.one, &pull_request_event(&of, "a stranger's", review(1, false))).await;
    track_all(&scenario).await;
    assert_eq!(give_credit(&scenario).await, Ok(CommitResult::AlreadyDone));
    record_event(&*database.two, &pull_request_event(&of, "a member's", review(2, true))).await;
    assert_eq!(give_credit(&scenario).await, Ok(CommitResult::Done));
    record_event(&*database.one, &pull_request_event(&of, "another", review(3, true))).await;
    assert_eq!(give_credit(&scenario).await, Ok(CommitResult::AlreadyDone));
    assert_eq!(load_credit(&scenario, &memory).await, (vec![CreditedOutcome::ChangesRequested], 280));
}

/// Checks that a merged pull request that is reverted, by its number or by one of its commits, costs once, whichever of
/// merge and revert becomes known first, and that the revert of a commit in another repository costs nothing.
pub async fn a_revert_counts_whichever_is_known_first(database: &Database) {
    let changes =
        [RevertedChange::PullRequest(pull_request().number), RevertedChange::Commit(HEAD.to_owned())];
    for (nth, change) in changes.into_iter().enumerate() {
        for revert_first in [false, true] {
            let name = format!("t{nth}{revert_first}");
            let of = test_tenant(&name);
            let scenario = Scenario::new(&*database.one, &name, "w");
            let memory = scenario.learn_lesson("a lesson").await;
            apply_memory(&scenario, &memory, ["a", "b"]).await;
            let merged = pull_request_event(&of, "merged", merged_facts());
            let revert = |id: &str, repo: &str| PullRequestEvent {
                pull_request: None,
                commits: Vec::new(),
                reverts: vec![Revert { repo: repo.to_owned(), change: change.clone(), at: time_at(700) }],
                ..pull_request_event(&of, id, PullRequestFacts::default())
            };
            let ours = revert("revert", &pull_request().repo);
            let events = if revert_first { [&ours, &merged] } else { [&merged, &ours] };
            record_event(&*database.two, &revert("elsewhere", "acme/other")).await;
            record_event(&*database.one, events[0]).await;
            track_all(&scenario).await;
            let at_once = if revert_first { CommitResult::AlreadyDone } else { CommitResult::Done };
            assert_eq!(give_credit(&scenario).await, Ok(at_once), "{name}");
            record_event(&*database.two, events[1]).await;
            assert_eq!(give_credit(&scenario).await, Ok(CommitResult::Done), "{name}");
            let expected = (vec![CreditedOutcome::Merged, CreditedOutcome::Reverted], 250);
            assert_eq!(load_credit(&scenario, &memory).await, expected, "{name}");
            assert_eq!(give_credit(&scenario).await, Ok(CommitResult::AlreadyDone), "{name}");
            let links = database.two.list_run_links(&of, None, None, 9).await.expect("links");
            let reverted = links.iter().map(|(_, _, one, facts)| (one.clone(), facts.reverted_at));
            let reverted: Vec<_> =
                reverted.map(|(one, at)| (one, at.map(|at| at.as_millisecond()))).collect();
            assert_eq!(reverted, [(pull_request(), Some(time_at(700).as_millisecond()))], "{name}");
        }
    }
}

/// Checks that the conclusion of a CI run reaches the runs that name its commit, and those of its pull request that name
/// none, in the report and where a person looks at the run; and that CI of another tenant reaches none.
pub async fn a_ci_run_reaches_the_runs_of_its_commit_and_pull_request(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    for tenant in ["t", "u"] {
        let opened = pull_request_event(&test_tenant(tenant), "opened", PullRequestFacts::default());
        record_event(&*database.one, &opened).await;
    }
    let named =
        [("by commit", Some(HEAD), None), ("by number", None, Some(7)), ("elsewhere", Some("abc"), None)];
    let runs = named.map(|(name, commit, number)| {
        with_facts(scenario.new_run(name), |facts| {
            (facts.repo, facts.commit) = (Some("Owner/Größe".to_owned()), commit.map(str::to_owned));
            facts.pull_request = number;
        })
    });
    scenario.count_batch(&runs, time_at(0)).await;
    track_all(&scenario).await;
    for (tenant, outcome) in [("t", RunOutcome::Failure), ("u", RunOutcome::Timeout)] {
        let ci = Scenario::new(&*database.one, tenant, "github.com/Owner/Größe/ci.yml");
        let run = with_facts(ci.new_run("77"), |facts| {
            (facts.repo, facts.commit) = (Some("Owner/Größe".to_owned()), Some(HEAD.to_owned()));
            (facts.outcome, facts.outcome_only) = (outcome, true);
        });
        ci.count_batch(&[run], time_at(1)).await;
        track_all(&ci).await;
    }
    for (name, expected) in [("by commit", 1), ("by number", 1), ("elsewhere", 0)] {
        let run = RunId::new(name).expect("a run id");
        let detail = database.two.load_run_detail(&scenario.key, &run).await.expect("reading");
        let checks = detail.expect("the run is stored").checks;
        let failed = checks.iter().filter(|one| one.outcome == RunOutcome::Failure).count();
        assert_eq!((checks.len(), failed), (expected, expected), "{name}: {checks:?}");
    }
    assert_eq!(scenario.draw_sample().await, CommitResult::Done);
    scenario.investigate_all(&|_| empty_result()).await;
    let id = scenario.latest_retrospective().await.id;
    assert_eq!(scenario.close_retrospective(id).await, CommitResult::Done);
    let report = database.two.find_report(&test_tenant("t"), id).await.expect("reading").expect("a report");
    let all = report.sampled.iter().chain(&report.unsampled);
    let mut known: Vec<_> = all.map(|run| (run.run.as_str().to_owned(), run.checks.len())).collect();
    known.sort();
    known.retain(|(_, checks)| *checks > 0);
    assert_eq!(known, [("by commit".to_owned(), 1), ("by number".to_owned(), 1)]);
}
