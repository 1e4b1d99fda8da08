//! Conformance cases for recalling memories and recording presentations and reads.

use std::sync::Arc;

use futures::future::join;
use retro_core::audience::{Audience, RepoVisibility, RunRepository};
use retro_core::effect::AssignedRun;
use retro_core::id::{MemoryId, MemoryRef, Repository, Step, WorkflowKey};
use retro_core::memory::MemoryScope;
use retro_core::recall::Assignment;
use retro_core::retrospective::PresentedMemory;

use super::Database;
use super::decide::write_memory_of_scope;
use super::scenario::{LONG_S, Scenario, empty_result, run_id, test_step, test_tenant, time_at};
use crate::{AppliedPresentations, Presentation, Store, UnresolvedRef, resolve_memory_ref};

/// Checks that candidates are the active memories of the step with sufficient weight, and contain everything
/// that the selection needs.
pub async fn candidates_are_the_active_memories_of_the_step(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let one = scenario.learn_lesson("Retry at once").await;
    let two = scenario.learn_lesson("List the tables before anything else").await;
    let deleted = scenario.learn_lesson("Wait 5 seconds").await;
    super::write::delete_memory(&scenario, deleted.id, "gone").await.expect("the memory is living");
    let candidates = |weight| database.two.load_candidates(&scenario.key, &PLAN, None, weight);
    let mut found: Vec<_> =
        candidates(100).await.expect("recalling").into_iter().map(|one| one.memory).collect();
    found.sort_by_key(|memory| memory.created_at);
    found.sort_by_key(|memory| memory.lesson.title != one.lesson.title);
    assert_eq!(found, [one.clone(), two]);
    assert_eq!(candidates(300).await.expect("recalling").len(), 2, "the threshold itself is enough");
    assert_eq!(candidates(301).await.expect("recalling"), []);
    let elsewhere = Step::new("another step").expect("a valid name");
    assert_eq!(
        database.one.load_candidates(&scenario.key, &elsewhere, None, 0).await.expect("recalling"),
        []
    );
    let memory = database.two.find_memory(&scenario.key.tenant, one.id).await.expect("reading");
    assert_eq!(memory, Some(one));
}

static PLAN: std::sync::LazyLock<Step> = std::sync::LazyLock::new(test_step);

/// Checks that a presentation counts once per run, even if recorded repeatedly or concurrently.
pub async fn a_presentation_counts_once_a_run(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let (one, two) =
        (scenario.learn_lesson("Retry at once").await.id, scenario.learn_lesson("Wait 5 seconds").await.id);
    let record = |run: &'static str, memories: &'static [usize]| {
        let ids: Vec<_> = memories.iter().map(|index| [one, two][*index]).collect();
        let (database, key) = (database, &scenario.key);
        async move {
            let (left, right) = (&database.one, &database.two);
            let run = run_id(run);
            let both = join(
                left.record_presented(key, &run, &ids, &[]),
                right.record_presented(key, &run, &ids, &[]),
            )
            .await;
            both.0.and(both.1).expect("recording");
        }
    };
    record("r1", &[0, 1, 0]).await;
    record("r1", &[0]).await;
    record("r2", &[0]).await;
    record("r3", &[]).await;
    let found = database.one.load_candidates(&scenario.key, &PLAN, None, 0).await.expect("recalling");
    let presentations = |id| found.iter().find(|one| one.memory.id == id).expect("a candidate").presentations;
    assert_eq!((presentations(one), presentations(two)), (2, 1));
}

/// Checks that a memory may be read before, after or without a presentation, and that reading does not count
/// as a presentation.
pub async fn reading_is_remembered_with_and_without_a_presentation(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let ids =
        [scenario.learn_lesson("Retry at once").await.id, scenario.learn_lesson("Wait 5 seconds").await.id];
    let only_read = scenario.learn_lesson("List the tables before anything else").await.id;
    let run = run_id("met");
    let store = &database.one;
    store.record_read(&scenario.key, &run, ids[0]).await.expect("recording");
    store.record_presented(&scenario.key, &run, &ids, &[]).await.expect("recording");
    store.record_read(&scenario.key, &run, ids[1]).await.expect("recording");
    store.record_read(&scenario.key, &run, ids[1]).await.expect("recording");
    store.record_read(&scenario.key, &run, only_read).await.expect("recording");
    let found = store.load_candidates(&scenario.key, &PLAN, None, 0).await.expect("recalling");
    let mut result: Vec<_> = found.iter().map(|one| (one.memory.id, one.presentations)).collect();
    result.sort_unstable();
    let mut expected = vec![(ids[0], 1), (ids[1], 1), (only_read, 0)];
    expected.sort_unstable();
    assert_eq!(result, expected);
    scenario.count_runs(&["met", "another"]).await;
    scenario.draw_sample().await;
    for _ in 0..2 {
        let claim = scenario.claim_next(LONG_S).await;
        let met = claim.run.run_id == run;
        let all: Vec<_> =
            expected.iter().map(|(memory, _)| PresentedMemory::from_own_workflow(*memory, true)).collect();
        assert_eq!(claim.presented, if met { all } else { Vec::new() });
        scenario.finish_claim(&claim, &empty_result()).await.expect("finishing");
    }
}

/// Checks that memories of other workflows are not recorded, because an agent may name any memory.
pub async fn a_memory_of_another_workflow_is_not_recorded(database: &Database) {
    let (scenario, other) =
        (Scenario::new(&*database.one, "t", "w"), Scenario::new(&*database.one, "t", "v"));
    let memory = scenario.learn_lesson("Retry at once").await.id;
    let run = run_id("a");
    database.one.record_presented(&other.key, &run, &[memory], &[]).await.expect("the call does nothing");
    database.one.record_read(&other.key, &run, memory).await.expect("the call does nothing");
    let found = database.one.load_candidates(&scenario.key, &PLAN, None, 0).await.expect("recalling");
    assert_eq!(found[0].presentations, 0);
    other.count_runs(&["a", "b"]).await;
    other.draw_sample().await;
    for _ in 0..2 {
        let claim = other.claim_next(LONG_S).await;
        assert_eq!((claim.presented.len(), claim.memories.len()), (0, 0));
        other.finish_claim(&claim, &empty_result()).await.expect("finishing");
    }
}

/// Checks that a run is handed what its own repository, several repositories or none have shown, and nothing of
/// another repository; and that a presentation is found again.
pub async fn candidates_are_those_of_the_repository(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let [shop, blog] = ["acme/shop", "acme/blog"].map(|name| Repository::new(name).expect("a valid name"));
    let mut ids = Vec::new();
    for (audience, title) in [
        (Audience::Everyone, "Ask before a deployment."),
        (Audience::PrivateRepositories, "Never print the token."),
        (Audience::Repository(shop.clone()), "Run the migrations first."),
        (Audience::Repository(blog.clone()), "Build the theme before the pages."),
    ] {
        let (workflow, step) = (scenario.key.workflow.clone(), PLAN.clone());
        let scope = MemoryScope::Step { workflow, step, audience };
        let added = write_memory_of_scope(&*database.one, &scenario.key, scope, title, title).await;
        ids.push(added.expect("nothing forbids it").memory.id);
    }
    let run_of = |repo: &Repository, visibility| RunRepository { repo: repo.clone(), visibility };
    let (private, public) = (Some(RepoVisibility::Private), Some(RepoVisibility::Public));
    for (repository, expected) in [
        (None, vec![ids[0]]),
        (Some(run_of(&shop, None)), vec![ids[0], ids[2]]),
        (Some(run_of(&shop, public)), vec![ids[0], ids[2]]),
        (Some(run_of(&shop, private)), vec![ids[0], ids[1], ids[2]]),
        (Some(run_of(&blog, private)), vec![ids[0], ids[1], ids[3]]),
    ] {
        let found = database.two.load_candidates(&scenario.key, &PLAN, repository.as_ref(), 0).await;
        let mut found: Vec<_> = found.expect("recalling").iter().map(|one| one.memory.id).collect();
        let mut expected = expected;
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{repository:?}");
    }
    let run = run_id("r1");
    database.one.record_presented(&scenario.key, &run, &ids[..1], &[]).await.expect("recording");
    database.one.record_read(&scenario.key, &run, ids[1]).await.expect("recording");
    for (run, memory, expected) in
        [(&run, ids[0], true), (&run, ids[1], false), (&run, ids[2], false), (&run_id("r2"), ids[0], false)]
    {
        let found = database.two.was_presented(&scenario.key, run, memory).await.expect("reading");
        assert_eq!(found, expected, "{run} {memory}");
    }
    let other = Scenario::new(&*database.one, "another tenant", "w");
    let elsewhere = database.two.was_presented(&other.key, &run, ids[0]).await.expect("reading");
    assert!(!elsewhere, "the presentation is of another tenant");
}

/// Checks that a request that does not say who may read its repository is answered as the newest run has said, and as
/// the one that says public if two are equally new.
pub async fn a_repository_is_private_if_its_newest_run_says_so(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let scope = MemoryScope::Step {
        workflow: scenario.key.workflow.clone(),
        step: PLAN.clone(),
        audience: Audience::PrivateRepositories,
    };
    let added = write_memory_of_scope(&*database.one, &scenario.key, scope, "Never print it.", "add").await;
    let memory = added.expect("nothing forbids it").memory.id;
    let shop = Repository::new("acme/shop").expect("a valid name");
    let asking = RunRepository { repo: shop.clone(), visibility: None };
    let handed = async |scenario: &Scenario<'_>| {
        let found = database.two.load_candidates(&scenario.key, &PLAN, Some(&asking), 0).await;
        found.expect("recalling").iter().any(|one| one.memory.id == memory)
    };
    let (private, public) = (RepoVisibility::Private, RepoVisibility::Public);
    assert!(!handed(&scenario).await, "nothing is known");
    for (name, said_at, visibility, expected) in [
        ("a", 10, private, true),
        ("b", 5, public, true),
        ("c", 20, public, false),
        ("d", 15, private, false),
        ("e", 30, private, true),
        ("f", 30, public, false),
        ("g", 30, private, false),
    ] {
        let mut run = scenario.new_run(name);
        run.arrival.run.repo = Some("https://github.com/Acme/Shop.git".to_owned());
        run.arrival.run.repo_visibility = Some(visibility);
        run.arrival.run.finished_at = Some(time_at(said_at));
        scenario.count_batch(&[run], time_at(said_at)).await;
        assert_eq!(handed(&scenario).await, expected, "after {name}");
    }
    let other = Scenario::new(&*database.one, "another tenant", "w");
    let mut run = other.new_run("a");
    (run.arrival.run.repo, run.arrival.run.repo_visibility) = (Some("acme/shop".to_owned()), Some(private));
    run.arrival.run.finished_at = Some(time_at(40));
    other.count_batch(&[run], time_at(40)).await;
    assert!(!handed(&scenario).await, "another tenant has said it");
}

/// Checks that the first decision by chance about a run and a memory stays, that a withheld memory is not
/// presented to the run, and that decisions are listed with the outcomes of counted runs.
pub async fn the_first_decision_by_chance_stays_and_is_listed_with_its_run(database: &Database) {
    let (scenario, other) =
        (Scenario::new(&*database.one, "t", "w"), Scenario::new(&*database.one, "t", "v"));
    let (handed, withheld) =
        (scenario.learn_lesson("Retry at once").await.id, scenario.learn_lesson("Wait 5 seconds").await.id);
    let decide = |memory, withheld| Assignment { memory, withheld, permille: 100 };
    let first = [decide(handed, false), decide(withheld, true)];
    // Decided again under another policy.
    let later = first.map(|one| Assignment { withheld: !one.withheld, permille: 20, ..one });
    record_twice(database, &scenario.key, "a", &[handed], &first).await;
    record_twice(database, &scenario.key, "a", &[], &later).await;
    record_twice(database, &other.key, "a", &[], &first).await;
    record_twice(database, &scenario.key, "b", &[], &first[1..]).await;
    record_twice(database, &scenario.key, "never counted", &[], &first).await;
    let mut runs = ["a", "b"].map(|name| scenario.new_run(name));
    runs[1].arrival.run.outcome = retro_core::run::RunOutcome::Failure;
    scenario.count_batch(&runs, super::scenario::time_at(0)).await;
    other.count_runs(&["a", "c"]).await;
    let list = |key, memory, limit| database.two.list_assigned_runs(key, memory, limit);
    let run = |ordinal, withheld, succeeded| AssignedRun { ordinal, withheld, permille: 100, succeeded };
    let (a, b) = (run(5, true, Some(true)), run(6, true, Some(false)));
    assert_eq!(list(&scenario.key, withheld, 9).await.expect("listing"), [a, b]);
    assert_eq!(list(&scenario.key, withheld, 1).await.expect("listing"), [a]);
    assert_eq!(list(&scenario.key, handed, 9).await.expect("listing"), [run(5, false, Some(true))]);
    assert_eq!(list(&other.key, withheld, 9).await.expect("listing"), []);
    let found = database.one.load_candidates(&scenario.key, &PLAN, None, 0).await.expect("recalling");
    let presentations = |id| found.iter().find(|one| one.memory.id == id).expect("a candidate").presentations;
    assert_eq!((presentations(handed), presentations(withheld)), (1, 0));
    scenario.draw_sample().await;
    for _ in 0..2 {
        let claim = scenario.claim_next(LONG_S).await;
        let presented = PresentedMemory::from_own_workflow(handed, false);
        let expected = if claim.run.run_id == run_id("a") { vec![presented] } else { Vec::new() };
        assert_eq!(claim.presented, expected);
        scenario.finish_claim(&claim, &empty_result()).await.expect("finishing");
    }
}

/// Checks that a recorded answer is known to whoever asks about its run, to the page of the run and to its
/// investigation, and that it is counted for its memories once it is applied, with the time at which it was given.
pub async fn a_recorded_presentation_is_known_at_once_and_counted_when_applied(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let (handed, withheld) =
        (scenario.learn_lesson("Retry at once").await.id, scenario.learn_lesson("Wait 5 seconds").await.id);
    let decide = |memory, withheld| Assignment { memory, withheld, permille: 100 };
    let answer = |run: &str| Presentation {
        key: scenario.key.clone(),
        run: run_id(run),
        memories: vec![handed],
        assignments: vec![decide(handed, false), decide(withheld, true)],
    };
    // `a` asks for two of its steps.
    let answers = [answer("a"), answer("b"), answer("a"), answer("never counted")];
    database.one.record_presentations(&answers).await.expect("recording");
    scenario.count_runs(&["a", "b"]).await;
    let counted = async || {
        let found = database.two.load_candidates(&scenario.key, &PLAN, None, 0).await.expect("recalling");
        let of = |id| found.iter().find(|one| one.memory.id == id).expect("a candidate").presentations;
        (of(handed), of(withheld))
    };
    let known = async |run: &str| {
        let (run, mut known) = (run_id(run), Vec::new());
        for memory in [handed, withheld] {
            known.push((
                database.two.was_presented(&scenario.key, &run, memory).await.expect("reading"),
                database.two.was_handed(&scenario.key, &run, memory).await.expect("reading"),
            ));
        }
        let detail = database.two.load_run_detail(&scenario.key, &run).await.expect("reading");
        let memories = detail.expect("it is counted").memories;
        (known, memories.iter().map(|one| (one.id, one.presented_at, one.withheld)).collect::<Vec<_>>())
    };
    let before = known("a").await;
    assert_eq!(before.0, [(true, true), (false, false)]);
    let mut decisions: Vec<_> =
        before.1.iter().map(|(id, at, withheld)| (*id, at.is_some(), *withheld)).collect();
    decisions.sort_by_key(|one| one.2);
    assert_eq!(decisions, [(handed, true, Some(false)), (withheld, false, Some(true))]);
    assert_eq!(counted().await, (0, 0), "not applied yet");
    scenario.draw_sample().await;
    let claim = scenario.claim_next(LONG_S).await;
    assert_eq!(claim.presented, [PresentedMemory::from_own_workflow(handed, false)]);
    scenario.finish_claim(&claim, &empty_result()).await.expect("finishing");

    assert_eq!(super::context_lease::apply_all(database).await, answers.len() as u64, "each once");
    assert_eq!(counted().await, (3, 0), "one presentation a run");
    assert_eq!(known("a").await, before, "with the time of the answer");
    let assigned = database.two.list_assigned_runs(&scenario.key, withheld, 9).await.expect("listing");
    assert_eq!(assigned.len(), 2);
    let nothing = database.one.apply_presentations(9).await.expect("applying");
    assert_eq!(nothing, AppliedPresentations::default());
}

/// Records the same presentations and decisions twice at once.
async fn record_twice(
    database: &Database,
    key: &WorkflowKey,
    run: &str,
    memories: &[MemoryId],
    assignments: &[Assignment],
) {
    let run = run_id(run);
    let record = |store: &Arc<dyn Store>| {
        let (store, run) = (store.clone(), run.clone());
        async move { store.record_presented(key, &run, memories, assignments).await }
    };
    let (left, right) = join(record(&database.one), record(&database.two)).await;
    left.and(right).expect("recording");
}

/// Resolves an id or id prefix among the memories of tenant `t`.
async fn resolve_ref(store: &dyn Store, text: &str) -> Result<MemoryId, UnresolvedRef> {
    resolve_memory_ref(store, &test_tenant("t"), parse_ref(text)).await.expect("recording")
}

pub(super) fn parse_ref(text: &str) -> MemoryRef {
    text.parse().expect("enough digits")
}

/// Checks that an id prefix of any length resolves to the only matching memory, in any status.
pub async fn a_short_reference_resolves_to_the_only_match(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let (id, other) =
        (scenario.learn_lesson("Retry at once").await.id, scenario.learn_lesson("Wait 5 seconds").await.id);
    super::write::delete_memory(&scenario, other, "gone").await.expect("the memory is living");
    for id in [id, other] {
        let text = id.to_string();
        for digits in [id.short_id(), text[..12].to_owned(), text[..35].to_owned(), text.clone()] {
            assert_eq!(resolve_ref(&*database.two, &digits).await, Ok(id), "{digits}");
        }
        assert_eq!(
            database.two.find_memory_ids(&test_tenant("t"), id.into()).await.expect("recording"),
            [id]
        );
    }
    let nobodys = MemoryId(retro_core::id::derive_uuid("nobody's", &[]));
    let missing = Err(UnresolvedRef::Missing(parse_ref(&nobodys.short_id())));
    assert_eq!(resolve_ref(&*database.two, &nobodys.short_id()).await, missing);
    // The adjacent ids on both sides have different prefixes.
    let digits = id.0.as_u128() >> 96;
    for next in [digits - 1, digits + 1].map(|digits| format!("{digits:08x}")) {
        assert_eq!(resolve_ref(&*database.two, &next).await, Err(UnresolvedRef::Missing(parse_ref(&next))));
    }
}

/// Two workflows of tenant `t` whose first memories have a common id prefix.
const ALIKE: [&str; 2] = ["w23234", "w116783"];

/// Checks that a common prefix of two memories is ambiguous, and that one more digit identifies each.
pub async fn an_ambiguous_reference_asks_for_more_digits(database: &Database) {
    let mut ids = Vec::new();
    for workflow in ALIKE {
        ids.push(Scenario::new(&*database.one, "t", workflow).learn_lesson("Retry at once").await.id);
    }
    let short = ids[0].short_id();
    assert_eq!(short, ids[1].short_id(), "the case would test nothing");
    ids.sort_unstable();
    let ambiguous = UnresolvedRef::Ambiguous(parse_ref(&short), ids.clone());
    assert!(ids.iter().all(|id| ambiguous.to_string().contains(&id.to_string())), "{ambiguous}");
    assert_eq!(resolve_ref(&*database.two, &short).await, Err(ambiguous));
    for id in &ids {
        assert_eq!(resolve_ref(&*database.two, &id.to_string()[..10]).await, Ok(*id));
    }
    assert_eq!(
        database.two.find_memory_ids(&test_tenant("t"), parse_ref(&short)).await.expect("recording"),
        ids
    );
}
