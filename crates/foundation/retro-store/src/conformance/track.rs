//! Conformance cases for pull requests, their runs and credit.

use futures::future::join;
use retro_core::finding::{CheckedAnswer, MemoryVerdict, Quote, VerdictRecord};
use retro_core::id::{EventKey, MemoryId, Tenant};
use retro_core::memory::{ChangeCause, ChangeEffect, FoldError, Memory};
use retro_core::message::Notice;
use retro_core::outcome::{CreditFacts, credit_outcome};
use retro_core::pull_request::{
    CreditedOutcome, PullRequestFacts, PullRequestRef, PullRequestState, ReviewFacts, ReviewVerdict,
};
use retro_core::retrospective::{InvestigationResult, PresentedMemory};
use retro_core::trajectory::QuotePlace;

use super::Database;
use super::scenario::{Scenario, empty_result, test_tenant, time_at};
use crate::track::{PullRequestEvent, RunLink, RunLinkKey, TrackResult, Trailer};
use crate::{CommitResult, IncomingRun, Store};

pub(super) const HEAD: &str = "6dcb09b5b57875f334f61aebed695e2e4193db5e";

pub(super) fn pull_request() -> PullRequestRef {
    PullRequestRef::new("Owner/Größe", 7)
}

/// Creates a pull request event that adds the given facts.
pub(super) fn pull_request_event(of: &Tenant, id: &str, facts: PullRequestFacts) -> PullRequestEvent {
    let event = EventKey { tenant: of.clone(), source: "https://github.com".to_owned(), id: id.to_owned() };
    PullRequestEvent {
        event,
        content_hash: format!("hash of {id}"),
        pull_request: Some((pull_request(), facts)),
        commits: vec![HEAD.to_owned()],
        trailers: Vec::new(),
        reverts: Vec::new(),
    }
}

fn push_event(of: &Tenant, id: &str, named: &str) -> PullRequestEvent {
    let trailers = vec![Trailer { commit: HEAD.to_owned(), text: named.to_owned(), prompt_version: None }];
    let event = pull_request_event(of, id, PullRequestFacts::default());
    PullRequestEvent { pull_request: None, commits: Vec::new(), trailers, ..event }
}

fn opened_facts() -> PullRequestFacts {
    PullRequestFacts {
        opened_at: Some(time_at(0)),
        latest_state: Some((time_at(0), true)),
        ..Default::default()
    }
}

pub(super) fn merged_facts() -> PullRequestFacts {
    PullRequestFacts {
        merged_at: Some(time_at(600)),
        latest_state: Some((time_at(600), false)),
        ..Default::default()
    }
}

fn closed_facts() -> PullRequestFacts {
    PullRequestFacts {
        closed_at: [time_at(300)].into(),
        latest_state: Some((time_at(300), false)),
        ..Default::default()
    }
}

pub(super) async fn record_event(store: &dyn Store, event: &PullRequestEvent) -> TrackResult {
    store.record_pull_request_event(event).await.expect("tracking")
}

pub(super) async fn track_all(scenario: &Scenario<'_>) -> usize {
    scenario.store.track_runs(&scenario.key, 100).await.expect("tracking")
}

/// Lists the tenant's links as strings of workflow, run and pull request.
async fn list_links(store: &dyn Store, of: &Tenant) -> Vec<String> {
    let links = store.list_run_links(of, None, None, 100).await.expect("links");
    links.iter().map(|(workflow, run, one, _)| format!("{workflow}/{run} {one}")).collect()
}

/// Returns the run with another event id.
fn with_event(mut run: IncomingRun, id: &str) -> IncomingRun {
    (run.arrival.event.id, run.arrival.content_hash) = (id.to_owned(), format!("hash of {id}"));
    run
}

pub(super) fn with_facts(
    mut run: IncomingRun,
    change: impl FnOnce(&mut retro_core::run::RunFacts),
) -> IncomingRun {
    change(&mut run.arrival.run);
    run
}

/// Counts two runs and closes their retrospective with the result that the memory was applied in the first
/// run, whose event alone names the pull request.
pub(super) async fn apply_memory(scenario: &Scenario<'_>, memory: &Memory, names: [&str; 2]) {
    let belongs = with_facts(scenario.new_run(names[0]), |facts| facts.pull_request = Some(7));
    scenario.count_batch(&[belongs, scenario.new_run(names[1])], time_at(0)).await;
    assert_eq!(scenario.draw_sample().await, CommitResult::Done);
    scenario
        .investigate_all(&|claim| {
            if claim.run.run_id.as_str() == names[0] { applied_result(memory.id) } else { empty_result() }
        })
        .await;
    assert_eq!(
        scenario.close_retrospective(scenario.latest_retrospective().await.id).await,
        CommitResult::Done
    );
}

/// Creates a result in which the run applied the memory.
pub(super) fn applied_result(memory: MemoryId) -> InvestigationResult {
    let quote = Quote { place: QuotePlace::Message { turn: 0 }, text: "words".to_owned() };
    let verdict = VerdictRecord {
        memory,
        verdict: MemoryVerdict::Applied,
        reason: "it acted on it".to_owned(),
        quote: Some(quote),
    };
    let checked = CheckedAnswer { verdicts: vec![verdict], ..CheckedAnswer::default() };
    InvestigationResult::Nothing {
        checked,
        presented: vec![PresentedMemory::from_own_workflow(memory, false)],
    }
}

pub(super) async fn give_credit(scenario: &Scenario<'_>) -> Result<CommitResult, FoldError> {
    let decide = |facts: &CreditFacts| credit_outcome(facts, &scenario.policy, time_at(900));
    scenario.store.credit_memories(&scenario.key, &pull_request(), 100, &decide).await.expect("crediting")
}

/// Credits at most one memory application.
async fn give_one(scenario: &Scenario<'_>) -> Result<CommitResult, FoldError> {
    let decide = |facts: &CreditFacts| {
        assert!(facts.applications.len() <= 1, "{:?}", facts.applications);
        credit_outcome(facts, &scenario.policy, time_at(900))
    };
    scenario.store.credit_memories(&scenario.key, &pull_request(), 1, &decide).await.expect("crediting")
}

async fn count_due_credits(scenario: &Scenario<'_>) -> usize {
    let notices = scenario.list_notices().await;
    notices.iter().filter(|notice| matches!(notice, Notice::OutcomesDue { .. })).count()
}

/// Returns the pull request ends credited to a memory, and its weight.
pub(super) async fn load_credit(scenario: &Scenario<'_>, memory: &Memory) -> (Vec<CreditedOutcome>, u16) {
    let history = scenario.store.list_memory_changes(&scenario.key.tenant, memory.id).await.expect("history");
    let end = |change: &retro_core::memory::Change| match (&change.cause, &change.effect) {
        (ChangeCause::Outcome { outcome, .. }, ChangeEffect::Reweighted { .. }) => Some(*outcome),
        _ => None,
    };
    let stored = scenario
        .store
        .find_memory(&scenario.key.tenant, memory.id)
        .await
        .expect("reading")
        .expect("the row exists");
    (history.iter().filter_map(end).collect(), stored.weight.get())
}

/// Checks that pull request facts grow, that an event applies once, and that the same id with different
/// content is a conflict.
pub async fn facts_of_a_pull_request_grow_and_an_event_applies_once(database: &Database) {
    let of = test_tenant("t");
    let scenario = Scenario::new(&*database.one, "t", "w");
    scenario
        .count_batch(&[with_facts(scenario.new_run("a"), |facts| facts.pull_request = Some(7))], time_at(0))
        .await;
    let review = ReviewFacts { verdict: Some(ReviewVerdict::ChangesRequested), ..Default::default() };
    let reviewed = PullRequestFacts { reviews: [(1, review)].into(), ..Default::default() };
    assert_eq!(
        record_event(&*database.one, &pull_request_event(&of, "2", merged_facts())).await,
        TrackResult::Recorded
    );
    assert_eq!(
        record_event(&*database.two, &pull_request_event(&of, "1", opened_facts())).await,
        TrackResult::Recorded
    );
    assert_eq!(
        record_event(&*database.one, &pull_request_event(&of, "3", reviewed)).await,
        TrackResult::Recorded
    );
    assert_eq!(
        record_event(&*database.two, &pull_request_event(&of, "2", merged_facts())).await,
        TrackResult::Duplicate
    );
    let other = PullRequestEvent {
        content_hash: "another".to_owned(),
        ..pull_request_event(&of, "2", closed_facts())
    };
    assert!(matches!(record_event(&*database.one, &other).await, TrackResult::Conflict(_)));
    assert_eq!(track_all(&scenario).await, 1);
    let (_, _, _, facts) = database.two.list_run_links(&of, None, None, 1).await.expect("links").remove(0);
    assert_eq!((facts.state(), facts.review_rounds()), (PullRequestState::Merged, 1));
    assert_eq!(facts.time_to_merge_s(), Some(600));
}

/// Checks that runs are linked by event, commit or trailer, once each, in either order of arrival.
pub async fn a_run_belongs_by_its_event_by_its_commit_or_by_a_trailer(database: &Database) {
    let of = test_tenant("t");
    let scenario = Scenario::new(&*database.one, "t", "w");
    assert_eq!(
        database.one.list_untracked_workflows(9).await.expect("reading"),
        [],
        "no event from GitHub was recorded"
    );
    let runs = [
        with_facts(scenario.new_run("by event"), |facts| facts.pull_request = Some(7)),
        with_facts(scenario.new_run("by commit"), |facts| facts.commit = Some(HEAD.to_uppercase())),
        scenario.new_run("by trailer"),
        with_facts(scenario.new_run("elsewhere"), |facts| {
            (facts.repo, facts.commit) = (Some("owner/other".to_owned()), Some(HEAD.to_owned()));
        }),
        with_facts(scenario.new_run("of another"), |facts| {
            (facts.pull_request, facts.commit) = (Some(8), Some(HEAD.to_owned()));
        }),
    ];
    scenario.count_batch(&runs, time_at(0)).await;
    let expected = [
        "w/by commit owner/größe#7",
        "w/by event owner/größe#7",
        "w/by trailer owner/größe#7",
        "w/of another owner/größe#8",
    ];
    record_event(&*database.one, &push_event(&of, "push", "by trailer")).await;
    record_event(&*database.one, &push_event(&of, "elsewhere", "w/elsewhere")).await;
    assert_eq!(
        database.two.list_untracked_workflows(9).await.expect("reading"),
        std::slice::from_ref(&scenario.key)
    );
    assert_eq!(database.one.track_runs(&scenario.key, 2).await.expect("tracking"), 2);
    assert_eq!(track_all(&scenario.with_store(&*database.two)).await, 3);
    assert_eq!(database.two.list_untracked_workflows(9).await.expect("reading"), []);
    record_event(&*database.one, &pull_request_event(&of, "opened", opened_facts())).await;
    assert_eq!(list_links(&*database.two, &of).await, expected);
    // Reverse order: the pull request arrives before the runs.
    let late = Scenario::new(&*database.one, "u", "w");
    record_event(&*database.one, &pull_request_event(&test_tenant("u"), "opened", opened_facts())).await;
    record_event(&*database.one, &push_event(&test_tenant("u"), "push", "w/by trailer")).await;
    let runs = runs.map(|mut run| {
        run.arrival.key.tenant = test_tenant("u");
        run.arrival.event.tenant = test_tenant("u");
        run
    });
    late.count_batch(&runs, time_at(0)).await;
    track_all(&late).await;
    assert_eq!(list_links(&*database.two, &test_tenant("u")).await, expected);
}

/// Checks that an ambiguous trailer is ignored, because crediting the wrong run is worse than crediting none.
pub async fn a_trailer_that_fits_several_runs_names_none_until_it_names_the_workflow(database: &Database) {
    let of = test_tenant("t");
    let (one, two) = (Scenario::new(&*database.one, "t", "w"), Scenario::new(&*database.one, "t", "v"));
    record_event(&*database.one, &pull_request_event(&of, "opened", opened_facts())).await;
    record_event(&*database.one, &push_event(&of, "push", "42")).await;
    one.count_runs(&["42"]).await;
    track_all(&one).await;
    assert_eq!(list_links(&*database.two, &of).await, ["w/42 owner/größe#7"]);
    two.count_runs(&["42"]).await;
    track_all(&two).await;
    assert_eq!(list_links(&*database.two, &of).await, Vec::<String>::new());
    record_event(&*database.one, &push_event(&of, "push again", "v/42")).await;
    assert_eq!(list_links(&*database.two, &of).await, ["v/42 owner/größe#7"]);
}

/// Checks that credit is requested once, by whichever of run, application and pull request end is stored
/// last.
pub async fn credit_comes_once_whatever_is_known_last(database: &Database) {
    for (nth, order) in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [2, 0, 1], [2, 1, 0]].into_iter().enumerate() {
        let name = format!("t{nth}");
        let scenario = Scenario::new(&*database.one, &name, "w");
        let other = scenario.with_store(&*database.two);
        let memory = scenario.learn_lesson("a lesson").await;
        scenario.mark_all_sent().await;
        for part in order {
            match part {
                0 => drop(
                    record_event(
                        &*database.two,
                        &pull_request_event(&test_tenant(&name), "merged", merged_facts()),
                    )
                    .await,
                ),
                1 => apply_memory(&scenario, &memory, ["a", "b"]).await,
                // No run is tracked before the first event from GitHub.
                _ => drop(track_all(&other).await),
            }
        }
        track_all(&other).await;
        assert_eq!(count_due_credits(&scenario).await, 1, "{order:?}");
        let (one, two) = join(give_credit(&scenario), give_credit(&other)).await;
        assert!(
            [
                (Ok(CommitResult::Done), Ok(CommitResult::AlreadyDone)),
                (Ok(CommitResult::AlreadyDone), Ok(CommitResult::Done))
            ]
            .contains(&(one, two))
        );
        assert_eq!(load_credit(&other, &memory).await, (vec![CreditedOutcome::Merged], 350), "{order:?}");
        // A repeated event changes nothing.
        let repeated = PullRequestEvent {
            commits: vec!["another head".to_owned()],
            ..pull_request_event(&test_tenant(&name), "later", merged_facts())
        };
        record_event(&*database.two, &repeated).await;
        assert_eq!(give_credit(&scenario).await, Ok(CommitResult::Done));
        assert_eq!(load_credit(&other, &memory).await, (vec![CreditedOutcome::Merged], 350), "{order:?}");
        assert_eq!(give_credit(&scenario).await, Ok(CommitResult::AlreadyDone));
    }
}

/// Checks that both ends of a pull request that was closed, reopened and merged count once each.
pub async fn a_close_without_a_merge_costs_and_a_merge_after_it_credits(database: &Database) {
    let of = test_tenant("t");
    let scenario = Scenario::new(&*database.one, "t", "w");
    let memory = scenario.learn_lesson("a lesson").await;
    apply_memory(&scenario, &memory, ["a", "b"]).await;
    record_event(&*database.one, &pull_request_event(&of, "closed", closed_facts())).await;
    assert_eq!(count_due_credits(&scenario).await, 0, "no run is tracked yet");
    track_all(&scenario).await;
    let overdue = database.two.list_overdue_credits(0, 9).await.expect("reading");
    assert_eq!(overdue, [(scenario.key.clone(), pull_request())]);
    assert_eq!(database.two.list_overdue_credits(3600, 9).await.expect("reading"), []);
    assert_eq!(give_credit(&scenario).await, Ok(CommitResult::Done));
    assert_eq!(load_credit(&scenario, &memory).await, (vec![CreditedOutcome::ClosedUnmerged], 225));
    record_event(&*database.one, &pull_request_event(&of, "merged", merged_facts())).await;
    assert_eq!(give_credit(&scenario).await, Ok(CommitResult::Done));
    let both = vec![CreditedOutcome::ClosedUnmerged, CreditedOutcome::Merged];
    assert_eq!(load_credit(&scenario, &memory).await, (both, 275));
}

/// Checks that a pull request with many runs is credited in parts, each of which requests the next.
pub async fn credit_comes_in_parts_and_none_is_lost(database: &Database) {
    let of = test_tenant("t");
    let mut scenario = Scenario::new(&*database.one, "t", "w");
    let memory = scenario.learn_lesson("a lesson").await;
    scenario.policy.threshold_runs = 3;
    let other = scenario.with_store(&*database.two);
    let belongs = |name: &str| with_facts(scenario.new_run(name), |facts| facts.pull_request = Some(7));
    scenario.count_batch(&["a", "b", "c"].map(belongs), time_at(0)).await;
    assert_eq!(scenario.draw_sample().await, CommitResult::Done);
    scenario.investigate_all(&|_| applied_result(memory.id)).await;
    assert_eq!(
        scenario.close_retrospective(scenario.latest_retrospective().await.id).await,
        CommitResult::Done
    );
    track_all(&scenario).await;
    record_event(&*database.one, &pull_request_event(&of, "merged", merged_facts())).await;
    let request = count_due_credits(&scenario).await;
    assert_eq!(
        (give_one(&scenario).await, count_due_credits(&scenario).await),
        (Ok(CommitResult::Done), request + 1)
    );
    assert_eq!(load_credit(&other, &memory).await.1, 350);
    let waits = database.two.list_overdue_credits(0, 9).await.expect("reading");
    assert_eq!(waits, [(scenario.key.clone(), pull_request())], "a lost message is no lost credit");
    assert_eq!(give_one(&other).await, Ok(CommitResult::Done));
    assert_eq!(load_credit(&other, &memory).await.1, 400);
    // Another end that arrives while credit is pending also applies to the memories already credited.
    record_event(&*database.two, &pull_request_event(&of, "closed", closed_facts())).await;
    for left in [325, 250, 225] {
        assert_eq!(give_one(&scenario).await, Ok(CommitResult::Done));
        assert_eq!(load_credit(&other, &memory).await.1, left);
    }
    assert_eq!(give_one(&other).await, Ok(CommitResult::AlreadyDone));
    assert_eq!(load_credit(&other, &memory).await.0.len(), 6, "each run and end once");
}

/// Checks that a run is tracked again for a higher attempt, which may name a pull request that the first did
/// not.
pub async fn a_higher_attempt_that_names_a_pull_request_is_tracked_again(database: &Database) {
    let of = test_tenant("t");
    let scenario = Scenario::new(&*database.one, "t", "w");
    record_event(&*database.one, &pull_request_event(&of, "merged", merged_facts())).await;
    // No retrospective has claimed the run yet.
    scenario.count_runs(&["a"]).await;
    assert_eq!(track_all(&scenario).await, 1);
    assert_eq!(database.two.list_untracked_workflows(9).await.expect("reading"), []);
    assert_eq!(list_links(&*database.two, &of).await, Vec::<String>::new());
    let repeated =
        with_facts(scenario.new_run("a"), |facts| (facts.attempt, facts.pull_request) = (2, Some(7)));
    scenario
        .with_store(&*database.two)
        .count_batch(&[with_event(repeated, "a, attempt 2")], time_at(1))
        .await;
    assert_eq!(
        database.two.list_untracked_workflows(9).await.expect("reading"),
        std::slice::from_ref(&scenario.key)
    );
    assert_eq!(track_all(&scenario).await, 1);
    assert_eq!(database.two.list_untracked_workflows(9).await.expect("reading"), []);
    assert_eq!(list_links(&*database.two, &of).await, ["w/a owner/größe#7"]);
}

/// Checks that pagination returns each link once, in order.
pub async fn links_are_read_page_by_page(database: &Database) {
    let of = test_tenant("t");
    let (one, two) = (Scenario::new(&*database.one, "t", "w"), Scenario::new(&*database.one, "t", "v"));
    record_event(&*database.one, &pull_request_event(&of, "opened", opened_facts())).await;
    for scenario in [&one, &two] {
        let runs = ["a", "b", "c"]
            .map(|name| with_facts(scenario.new_run(name), |facts| facts.pull_request = Some(7)));
        scenario.count_batch(&runs, time_at(0)).await;
        track_all(scenario).await;
    }
    for request in [None, Some(&one.key.workflow)] {
        let whole = database.two.list_run_links(&of, request, None, 100).await.expect("links");
        let (mut parts, mut after): (Vec<RunLink>, Option<RunLinkKey>) = (Vec::new(), None);
        loop {
            let part = database.two.list_run_links(&of, request, after.as_ref(), 2).await.expect("links");
            let Some((workflow, run, one, _)) = part.last().cloned() else { break };
            assert!(part.len() <= 2);
            (after, parts) = (Some((run, workflow, one)), [parts, part].concat());
        }
        assert_eq!((&parts, parts.len()), (&whole, if request.is_some() { 3 } else { 6 }));
        assert!(whole.is_sorted_by_key(|(workflow, run, one, _)| (
            run.clone(),
            workflow.clone(),
            one.clone()
        )));
    }
}

/// Checks that a report contains the pull request facts known at closing, and does not change later.
pub async fn a_report_has_the_known_pull_requests_of_its_runs(database: &Database) {
    let of = test_tenant("t");
    let scenario = Scenario::new(&*database.one, "t", "w");
    record_event(&*database.one, &pull_request_event(&of, "closed", closed_facts())).await;
    let belongs = with_facts(scenario.new_run("a"), |facts| facts.pull_request = Some(7));
    scenario.count_batch(&[belongs, scenario.new_run("b")], time_at(0)).await;
    track_all(&scenario).await;
    assert_eq!(scenario.draw_sample().await, CommitResult::Done);
    scenario.investigate_all(&|_| empty_result()).await;
    let id = scenario.latest_retrospective().await.id;
    assert_eq!(scenario.close_retrospective(id).await, CommitResult::Done);
    record_event(&*database.one, &pull_request_event(&of, "merged", merged_facts())).await;
    let report = database.two.find_report(&of, id).await.expect("reading").expect("the report is stored");
    let all = report.sampled.iter().chain(&report.unsampled);
    let result: Vec<_> =
        all.flat_map(|run| run.pull_requests.iter().map(|one| (run.run.as_str(), one))).collect();
    assert_eq!(result.len(), 1, "{result:?}");
    assert_eq!(
        (result[0].0, &result[0].1.pull_request, result[0].1.state),
        ("a", &pull_request(), PullRequestState::Closed)
    );
}

/// Checks that pull requests of two tenants are distinct, even with equal repository, number and commit (law
/// 11).
pub async fn pull_requests_keep_tenants_apart(database: &Database) {
    let (ours, theirs) = (Scenario::new(&*database.one, "t", "w"), Scenario::new(&*database.one, "u", "w"));
    let memory = ours.learn_lesson("a lesson").await;
    apply_memory(&ours, &memory, ["a", "b"]).await;
    record_event(&*database.one, &pull_request_event(&test_tenant("u"), "merged", merged_facts())).await;
    record_event(&*database.one, &push_event(&test_tenant("u"), "push", "w/b")).await;
    assert_eq!(
        database.two.list_untracked_workflows(9).await.expect("reading"),
        [],
        "no event of this tenant was recorded"
    );
    track_all(&ours).await;
    assert_eq!((count_due_credits(&ours).await, count_due_credits(&theirs).await), (0, 0));
    assert_eq!(give_credit(&ours).await, Ok(CommitResult::AlreadyDone));
    assert_eq!(list_links(&*database.two, &test_tenant("u")).await, Vec::<String>::new());
    assert_eq!(load_credit(&ours, &memory).await, (vec![], 300));
    // Positive control: the tenant's own pull request matches.
    record_event(&*database.one, &pull_request_event(&test_tenant("t"), "merged", merged_facts())).await;
    assert_eq!(give_credit(&ours).await, Ok(CommitResult::Done));
    assert_eq!(load_credit(&ours, &memory).await, (vec![CreditedOutcome::Merged], 350));
}
