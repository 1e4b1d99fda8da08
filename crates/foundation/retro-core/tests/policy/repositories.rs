//! What was learnt in one repository stays there until another has shown it, and what a private one has shown never
//! reaches a public one.

use retro_core::audience::{Audience, RepoVisibility, RunRepository};
use retro_core::calls::ReactionCounts;
use retro_core::finding::{Finding, MemoryVerdict};
use retro_core::id::MemoryId;
use retro_core::learn::{ContrastSupport, MutationKind, SupportElsewhere};
use retro_core::memory::{Memory, MemoryStatus};
use retro_core::policy::Policy;

use crate::world::{InvestigatedRun, World, decide, finding, in_repo, investigate, run};

const PUBLIC: Option<RepoVisibility> = Some(RepoVisibility::Public);
const PRIVATE: Option<RepoVisibility> = Some(RepoVisibility::Private);

fn repository(repo: &str, visibility: Option<RepoVisibility>) -> RunRepository {
    RunRepository::of_run(Some(repo), visibility).unwrap()
}

/// Returns a run of a repository that shows the lesson A.
fn shows(name: &str, repo: &str, visibility: Option<RepoVisibility>) -> InvestigatedRun {
    investigate(name).with_finding(in_repo(repo, visibility, finding("A")))
}

/// Runs a retrospective whose batch is applied twice, and returns the changes of the first time.
fn retro(world: &mut World, runs: &[InvestigatedRun]) -> Vec<String> {
    let input = world.prepare_batch(runs);
    let lines = world.commit(&decide(&input));
    assert_eq!(world.fold_log(), world.memories, "the log folds to the memories");
    assert_eq!(world.commit(&decide(&input)), [""; 0], "the batch applied again changes nothing");
    lines
}

/// Returns the active memories that a run of the repository is handed.
fn handed<'w>(world: &'w World, repository: Option<&RunRepository>) -> Vec<&'w Memory> {
    let active = world.memories.values().filter(|memory| memory.status == MemoryStatus::Active);
    active.filter(|memory| memory.scope.includes_run(repository)).collect()
}

fn audience(world: &World, repository: &RunRepository) -> Audience {
    let [memory] = handed(world, Some(repository))[..] else { panic!("one memory is handed") };
    memory.scope.audience().unwrap().clone()
}

#[test]
fn two_runs_of_one_repository_confirm_a_lesson_for_it_alone() {
    let mut world = World::new();
    let lines = retro(&mut world, &[shows("r1", "acme/shop", PUBLIC), shows("r2", "Acme/Shop", PUBLIC)]);
    assert_eq!(lines, ["r1 created A: tentative 0.000", "r2 promoted A: active 0.300"]);
    assert_eq!(handed(&world, Some(&repository("acme/shop", None))).len(), 1);
    assert!(handed(&world, Some(&repository("acme/blog", PUBLIC))).is_empty());
    assert!(handed(&world, None).is_empty());
}

#[test]
fn a_lesson_that_two_public_repositories_have_shown_is_handed_to_everyone() {
    let mut world = World::new();
    retro(&mut world, &[shows("r1", "acme/shop", PUBLIC)]);
    let lines = retro(&mut world, &[shows("r2", "acme/blog", PUBLIC)]);
    assert_eq!(
        lines,
        ["r2 created A: active 0.300", "r1 observed A: active 0.300", "retro superseded A: superseded 0.000"]
    );
    let everyone = handed(&world, None);
    assert_eq!((everyone.len(), everyone[0].observed_runs), (1, 2));
    let why = &world.log[1].reason;
    assert_eq!(why, "seen in several repositories (acme/blog, acme/shop); it is handed to every repository");
    // From now on every repository adds evidence to it.
    let lines = retro(&mut world, &[shows("r3", "acme/docs", PUBLIC)]);
    assert_eq!(lines, ["r3 observed A: active 0.300"]);
    let lines = retro(&mut world, &[investigate("r4").with_finding(finding("A"))]);
    assert_eq!(lines, ["r4 observed A: active 0.300"]);
}

#[test]
fn what_a_private_repository_has_shown_is_handed_to_private_ones_only() {
    let mut world = World::new();
    retro(&mut world, &[shows("r1", "acme/vault", PRIVATE), shows("r2", "acme/vault", PRIVATE)]);
    let lines = retro(&mut world, &[shows("r3", "acme/open", PUBLIC)]);
    // The public repository keeps a memory of its own: it is not handed the other.
    assert_eq!(
        lines,
        [
            "r3 created A: active 0.300",
            "r2 observed A: active 0.300",
            "retro superseded A: superseded 0.300",
            "r3 created A: tentative 0.000"
        ]
    );
    assert_eq!(audience(&world, &repository("acme/vault", PRIVATE)), Audience::PrivateRepositories);
    assert_eq!(audience(&world, &repository("acme/other", PRIVATE)), Audience::PrivateRepositories);
    for outsider in [Some(repository("acme/open", PUBLIC)), Some(repository("acme/other", None)), None] {
        assert!(handed(&world, outsider.as_ref()).is_empty(), "{outsider:?}");
    }
    // A second public repository shows it: now it is everyone's, by public evidence alone.
    retro(&mut world, &[shows("r4", "acme/docs", PUBLIC)]);
    let [memory] = handed(&world, None)[..] else { panic!("one memory is handed to everyone") };
    let seen: Vec<_> = memory.evidence.iter().map(|one| one.run.as_str()).collect();
    assert_eq!(seen, ["r4", "r3"]);
    assert_eq!(audience(&world, &repository("acme/vault", PRIVATE)), Audience::Everyone);
}

#[test]
fn silence_about_a_repository_shares_nothing() {
    let mut world = World::new();
    retro(&mut world, &[shows("r1", "acme/shop", None), shows("r2", "acme/blog", None)]);
    let lines = retro(&mut world, &[shows("r3", "acme/shop", None), shows("r4", "acme/blog", None)]);
    assert_eq!(lines, ["r3 promoted A: active 0.300", "r4 promoted A: active 0.300"]);
    let [shop, blog] = ["acme/shop", "acme/blog"].map(|name| repository(name, None));
    assert_eq!(audience(&world, &shop), Audience::Repository(shop.repo));
    assert_eq!(audience(&world, &blog), Audience::Repository(blog.repo));
}

#[test]
fn evidence_of_a_private_repository_is_not_added_to_a_memory_of_everyone() {
    let mut world = World::new();
    world.add_active("A", 300);
    let (lines, applied) = world.retrospective(&[shows("r1", "acme/vault", PRIVATE)]);
    assert_eq!(lines, ["r1 refused (observe) nothing"]);
    assert!(applied.outcomes[0].reason.ends_with("is not added to it"), "{}", applied.outcomes[0].reason);
    assert_eq!(retro(&mut world, &[shows("r2", "acme/open", PUBLIC)]), ["r2 observed A: active 0.300"]);
    // The same run is not decided anew once the memory has ended.
    let mut world = World::new();
    let id = world.add_active("A", 300);
    let input = world.prepare_batch(&[shows("r1", "acme/vault", PRIVATE)]);
    world.commit(&decide(&input));
    world.delete(id);
    let input =
        crate::world::WriterInput { facts: world.facts(input.facts.retrospective, &input.batch), ..input };
    assert!(world.commit(&decide(&input)).is_empty());
    // A tentative memory is handed to nobody, so the private repository learns for itself.
    let mut world = World::new();
    retro(&mut world, &[investigate("r1").with_finding(finding("A"))]);
    let lines = retro(&mut world, &[shows("r2", "acme/vault", PRIVATE)]);
    assert_eq!(lines, ["r2 created A: tentative 0.000"]);
}

#[test]
fn a_tenant_may_forbid_that_lessons_are_widened() {
    let mut world = World::with(Policy { widen_repositories: false, ..Policy::default() });
    retro(&mut world, &[shows("r1", "acme/shop", PUBLIC)]);
    let lines = retro(&mut world, &[shows("r2", "acme/blog", PUBLIC)]);
    assert_eq!(lines, ["r2 created A: tentative 0.000"]);
}

#[test]
fn a_lesson_deleted_in_one_repository_returns_neither_there_nor_for_everyone() {
    let mut world = World::new();
    retro(&mut world, &[shows("r1", "acme/shop", PUBLIC)]);
    let id = world.id("A");
    world.delete(id);
    let (lines, applied) = world.retrospective(&[shows("r2", "acme/shop", PUBLIC)]);
    assert_eq!(lines, ["r2 suppressed (A, 1000) nothing"], "{:?}", applied.outcomes[0]);
    // Another repository may still learn it, but not for the one that has deleted it.
    retro(&mut world, &[shows("r3", "acme/blog", PUBLIC), shows("r4", "acme/docs", PUBLIC)]);
    assert!(handed(&world, Some(&repository("acme/shop", PUBLIC))).is_empty());
    let lines = retro(&mut world, &[shows("r5", "acme/blog", PUBLIC)]);
    assert_eq!(lines, ["r5 promoted A: active 0.300"]);
    assert_eq!(handed(&world, Some(&repository("acme/blog", PUBLIC))).len(), 1);
}

#[test]
fn a_lesson_deleted_for_everyone_returns_in_no_repository() {
    let mut world = World::new();
    let id = world.add_active("A", 300);
    world.delete(id);
    let lines = retro(&mut world, &[shows("r1", "acme/shop", PUBLIC)]);
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with("r1 suppressed"), "{lines:?}");
}

#[test]
fn what_a_person_has_decided_about_stays_in_its_repository() {
    let mut world = World::new();
    retro(&mut world, &[shows("r1", "acme/shop", PUBLIC), shows("r2", "acme/shop", PUBLIC)]);
    let id = world.id("A");
    let memory = world.memories.get_mut(&id).unwrap();
    memory.pinned_by = Some("anna".to_owned());
    let input = world.prepare_batch(&[shows("r3", "acme/blog", PUBLIC)]);
    assert_eq!(world.commit(&decide(&input)), ["r3 created A: tentative 0.000"]);
}

#[test]
fn one_task_of_one_user_in_two_repositories_is_one_witness() {
    let mut world = World::new();
    let of_task = |name: &str, repo: &str| {
        let mut found = in_repo(repo, PUBLIC, finding("A"));
        (found.origin.user, found.origin.task) = (Some("anna".to_owned()), Some("17".to_owned()));
        investigate(name).with_finding(found)
    };
    let lines = retro(&mut world, &[of_task("r1", "acme/shop"), of_task("r2", "acme/blog")]);
    assert_eq!(lines, ["r1 created A: tentative 0.000", "r2 created A: tentative 0.000"]);
}

#[test]
fn verdicts_on_a_superseded_memory_go_to_the_one_in_its_place() {
    let mut world = World::new();
    retro(&mut world, &[shows("r1", "acme/shop", PUBLIC), shows("r2", "acme/shop", PUBLIC)]);
    let id = world.id("A");
    let lines = retro(
        &mut world,
        &[shows("r3", "acme/blog", PUBLIC), investigate("r4").with_verdict(id, MemoryVerdict::Helped)],
    );
    assert_eq!(
        lines,
        [
            "r3 created A: active 0.300",
            "r2 observed A: active 0.300",
            "retro superseded A: superseded 0.300",
            "retro reweighted (helped +0.100) A: active 0.400"
        ]
    );
}

#[test]
fn a_widened_memory_keeps_the_weight_that_a_repository_has_given_it() {
    let mut world = World::new();
    retro(&mut world, &[shows("r1", "acme/shop", PUBLIC), shows("r2", "acme/shop", PUBLIC)]);
    let id = world.id("A");
    retro(&mut world, &[investigate("r3").with_verdict(id, MemoryVerdict::Helped)]);
    let lines = retro(&mut world, &[shows("r4", "acme/blog", PUBLIC)]);
    assert_eq!(lines[0], "r4 created A: active 0.400");
    let mut world = World::new();
    retro(&mut world, &[shows("r1", "acme/shop", PUBLIC), shows("r2", "acme/shop", PUBLIC)]);
    let id = world.id("A");
    retro(&mut world, &[investigate("r3").with_verdict(id, MemoryVerdict::Harmed)]);
    let lines = retro(&mut world, &[shows("r4", "acme/blog", PUBLIC)]);
    assert_eq!(lines[0], "r4 created A: active 0.150", "distrust does not begin anew");
}

fn support_of(runs: &[&str], elsewhere: &[(&str, RunRepository)]) -> ContrastSupport {
    let elsewhere = elsewhere
        .iter()
        .map(|(name, repository)| SupportElsewhere { run: run(name), repository: repository.clone() });
    ContrastSupport {
        runs: runs.iter().map(|name| run(name)).collect(),
        counts: ReactionCounts { with_remedy: 2, changed: 2, ..ReactionCounts::default() },
        elsewhere: elsewhere.collect(),
    }
}

/// Applies one finding with runs of other repositories that show the same remedy.
fn observe_with_support(
    world: &mut World,
    found: &Finding,
    runs: &[&str],
    elsewhere: &[(&str, RunRepository)],
) -> Vec<String> {
    let mut input = world.prepare_batch(&[investigate("r1").with_finding(found.clone())]);
    for mutation in &mut input.batch {
        if let MutationKind::Observe { support, .. } = &mut mutation.request {
            *support = Some(support_of(runs, elsewhere));
        }
    }
    let lines = world.commit(&decide(&input));
    assert_eq!(world.commit(&decide(&input)), [""; 0], "the batch applied again changes nothing");
    lines
}

#[test]
fn runs_of_two_repositories_that_were_not_investigated_widen_a_lesson_at_once() {
    let mut world = World::new();
    let found = in_repo("acme/shop", PUBLIC, finding("A"));
    let blog = repository("acme/blog", PUBLIC);
    assert_eq!(
        observe_with_support(&mut world, &found, &["r1"], &[("r2", blog)]),
        ["r1 created A: active 0.300"]
    );
    assert_eq!(handed(&world, None).len(), 1);
    let mut world = World::new();
    let vault = repository("acme/vault", PRIVATE);
    observe_with_support(&mut world, &found, &["r1"], &[("r2", vault.clone())]);
    assert!(handed(&world, None).is_empty());
    assert_eq!(audience(&world, &vault), Audience::PrivateRepositories);
}

#[test]
fn a_lesson_is_widened_to_private_repositories_once() {
    let mut world = World::new();
    let found = in_repo("acme/open", PUBLIC, finding("A"));
    let vault = repository("acme/vault", PRIVATE);
    let elsewhere = [("r9", vault)];
    let lines = observe_with_support(&mut world, &found, &["r1"], &elsewhere);
    assert_eq!(lines, ["r1 created A: active 0.300", "r1 created A: tentative 0.000"]);
    // The public repository is not handed it, and the runs of the private one still stand behind the remedy.
    let mut input = world.prepare_batch(&[investigate("r2").with_finding(found)]);
    for mutation in &mut input.batch {
        if let MutationKind::Observe { support, .. } = &mut mutation.request {
            *support = Some(support_of(&["r2"], &elsewhere));
        }
    }
    let lines = world.commit(&decide(&input));
    assert_eq!(lines, ["r2 observed A: active 0.300", "r2 promoted A: active 0.300"]);
}

#[test]
fn runs_of_other_repositories_do_not_confirm_a_lesson_of_one() {
    let mut world = World::with(Policy { widen_repositories: false, ..Policy::default() });
    let found = in_repo("acme/shop", PUBLIC, finding("A"));
    let blog = repository("acme/blog", PUBLIC);
    assert_eq!(
        observe_with_support(&mut world, &found, &["r1"], &[("r2", blog)]),
        ["r1 created A: tentative 0.000"]
    );
}

#[test]
fn every_memory_is_handed_to_those_alone_who_may_read_its_evidence() {
    // All orders of four sightings in repositories of every kind, three at a time.
    let all = [("acme/shop", PUBLIC), ("acme/blog", PUBLIC), ("acme/vault", PRIVATE), ("acme/new", None)];
    for first in all {
        for second in all {
            for third in all {
                for last in all {
                    let mut world = World::new();
                    for (name, (repo, visibility)) in
                        [("r1", first), ("r2", second), ("r3", third), ("r4", last)]
                    {
                        retro(&mut world, &[shows(name, repo, visibility)]);
                    }
                    check_evidence(&world);
                }
            }
        }
    }
}

fn check_evidence(world: &World) {
    for memory in world.memories.values() {
        let audience = memory.scope.audience().unwrap();
        let seen: Vec<&RunRepository> =
            memory.evidence.iter().filter_map(|one| one.origin.repository.as_ref()).collect();
        assert!(seen.iter().all(|source| audience.may_read(Some(source))), "{memory:?}");
        if memory.status == MemoryStatus::Active && !matches!(audience, Audience::Repository(_)) {
            let repos: std::collections::BTreeSet<_> = seen.iter().map(|one| &one.repo).collect();
            assert!(repos.len() > 1, "two repositories have shown it: {memory:?}");
        }
    }
    let living = |memory: &&Memory| memory.status == MemoryStatus::Active;
    let mut scopes: Vec<_> = world.memories.values().filter(living).map(|memory| &memory.scope).collect();
    let ids: Vec<MemoryId> = world.memories.values().filter(living).map(|memory| memory.id).collect();
    scopes.sort();
    scopes.dedup();
    assert_eq!(scopes.len(), ids.len(), "one memory of the lesson in each scope");
}
