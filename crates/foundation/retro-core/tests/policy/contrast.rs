//! What the call summaries of many runs show confirms, revises and harms memories.

use retro_core::calls::{
    CallSummary, ChangedPart, Contrast, MemoryTrial, ObservedBehaviour, Reaction, ReactionCounts,
    ReactionEnding, StoredSummary, SummaryContent, UnneededMemory, WindowSummaries,
};
use retro_core::finding::{CheckedAnswer, Finding, FindingKind, LessonCue, MemoryVerdict, ObservedFailure};
use retro_core::id::{MemoryId, Ordinal, RetrospectiveId, Step, derive_uuid};
use retro_core::learn::{ContrastSupport, Mutation, MutationKind, NoLessonReason, settle_investigations};
use retro_core::policy::Policy;
use retro_core::retrospective::{Investigation, InvestigationResult};

use crate::world::{InvestigatedRun, World, WriterInput, decide, finding, investigate, quote, run};

const ERROR: &str = "missing required argument region";

fn repair(title: &str, prefer: &str) -> Finding {
    let cue = LessonCue { error: Some(ERROR.into()), prefer: Some(prefer.into()), ..finding(title).cue };
    Finding { cue, ..finding(title) }
}

/// Applies a batch twice and returns the changes of the first time. The second time changes nothing.
fn commit_twice(world: &mut World, input: &WriterInput) -> Vec<String> {
    let applied = decide(input);
    let lines = world.commit(&applied);
    assert_eq!(world.fold_log(), world.memories, "the log folds to the memories");
    assert_eq!(world.commit(&decide(input)), [""; 0], "the batch applied again changes nothing");
    lines
}

/// Closes a retrospective whose call summaries show these numbers of calls without the memory `id`, and of those that
/// failed.
fn close_without(
    world: &mut World,
    investigated: &[InvestigatedRun],
    id: MemoryId,
    [calls, failed]: [u32; 2],
) -> Vec<String> {
    let mut input = world.prepare_batch(investigated);
    for mutation in &mut input.batch {
        if let MutationKind::Sweep { unneeded } = &mut mutation.request {
            unneeded.push(UnneededMemory { memory: id, calls, failed });
        }
    }
    commit_twice(world, &input)
}

#[test]
fn a_memory_without_which_calls_work_as_well_fades_until_its_error_is_seen_again() {
    let mut world = World::new();
    let id = world.add_active("pass region", 300);
    assert_eq!(close_without(&mut world, &[], id, [39, 0]), [""; 0], "too few calls");
    assert_eq!(
        close_without(&mut world, &[], id, [40, 0]),
        ["retro reweighted (unneeded -0.100) pass region: active 0.200"]
    );
    let helped = investigate("a").with_verdict(id, MemoryVerdict::Helped);
    let lines = close_without(&mut world, std::slice::from_ref(&helped), id, [46, 1]);
    assert_eq!(
        lines,
        ["retro reweighted (applied +0.000, unneeded -0.100) pass region: active 0.100"],
        "what works without it was not its help"
    );
    assert_eq!(world.retro(&[helped]), ["retro reweighted (helped +0.100) pass region: active 0.200"]);
    let seen = investigate("b").with_finding(finding("pass region"));
    let lines = close_without(&mut world, &[seen], id, [46, 0]);
    assert_eq!(lines, ["b observed pass region: active 0.200"], "its error came up");
    close_without(&mut world, &[], id, [46, 0]);
    let lines = close_without(&mut world, &[], id, [46, 0]);
    assert_eq!(
        lines,
        [
            "retro reweighted (unneeded -0.100) pass region: active 0.000",
            "retro archived pass region: archived 0.000"
        ]
    );
}

#[test]
fn a_policy_may_keep_memories_that_are_not_needed() {
    let mut world = World::with(Policy { unneeded_delta: 0, ..Policy::default() });
    let id = world.add_active("pass region", 300);
    close_without(&mut world, &[], id, [46, 0]);
    assert_eq!(world.status_and_weight("pass region"), "active 0.300");
}

/// Observes a repair in a run, with the support of these runs.
fn observe(world: &mut World, by: &str, finding: Finding, supporting: &[&str]) -> Vec<String> {
    let mut input = world.prepare_batch(&[]);
    let counts = ReactionCounts { with_remedy: 2, changed: 2, ..ReactionCounts::default() };
    let support = ContrastSupport {
        runs: supporting.iter().map(|name| run(name)).collect(),
        counts,
        elsewhere: Vec::new(),
    };
    let memory = MemoryId(derive_uuid("observe", &[by, &finding.title]));
    let request =
        MutationKind::Observe { memory, run: run(by), finding, no_lesson: None, support: Some(support) };
    let first = Mutation { id: input.batch[0].id, request };
    input.batch.insert(0, first);
    commit_twice(world, &input)
}

#[test]
fn one_investigated_run_is_enough_if_summaries_show_the_others() {
    let mut world = World::new();
    let lesson = repair("Pass region", "with `region`");
    assert_eq!(observe(&mut world, "a", lesson.clone(), &["a"]), ["a created Pass region: tentative 0.000"]);
    assert_eq!(observe(&mut world, "b", lesson, &["a", "b"]), ["b promoted Pass region: active 0.300"]);
    let mut world = World::new();
    let lines = observe(&mut world, "a", repair("Pass region", "with `region`"), &["a", "b"]);
    assert_eq!(lines, ["a created Pass region: active 0.300"]);
}

#[test]
fn a_remedy_that_runs_state_more_exactly_revises_its_memory() {
    let mut world = World::new();
    world.retro(&[investigate("a").with_finding(repair("Pass region", "with `region`"))]);
    let lines = observe(&mut world, "b", repair("Set region", "`region` = `eu`"), &["a", "b"]);
    assert_eq!(lines, ["b revised Set region: tentative 0.000", "b promoted Set region: active 0.300"]);
    assert_eq!(world.memories.len(), 1, "it is the same memory");
    let lines = observe(&mut world, "c", repair("Pass zone", "with `zone`"), &["b", "c"]);
    assert_eq!(lines, ["c created Pass zone: active 0.300"], "another place is another remedy");
}

#[test]
fn names_in_an_error_do_not_split_a_memory() {
    let mut world = World::new();
    let about = |stack: &str, title: &str| {
        let mut lesson = repair(title, "first `select_stack`");
        lesson.cue.error = Some(format!("no stack named {stack} found in organization acme"));
        lesson
    };
    world.retro(&[investigate("a").with_finding(about("network", "A"))]);
    let lines = world.retro(&[investigate("b").with_finding(about("warehouse", "B"))]);
    assert_eq!(lines, ["b promoted A: active 0.300"]);
}

#[test]
fn a_tombstone_forbids_the_remedy_and_not_the_error() {
    let mut world = World::new();
    observe(&mut world, "a", repair("Pass region", "with `region`"), &["a", "b"]);
    let id = world.id("Pass region");
    world.delete(id);
    let lines = observe(&mut world, "c", repair("Pass region again", "with `region`"), &["c", "d"]);
    assert_eq!(lines, ["c suppressed (Pass region again, 1000) nothing"]);
    let lines = observe(&mut world, "d", repair("Pass zone", "with `zone`"), &["c", "d"]);
    assert_eq!(lines, ["d created Pass zone: active 0.300"]);
}

fn summary(name: &str, ordinal: Ordinal, behaviour: ObservedBehaviour) -> StoredSummary {
    // A name such as `acme/shop run-1` has a repository.
    let (repo, name) = name.split_once(' ').map_or((None, name), |(repo, name)| (Some(repo), name));
    let facts = serde_json::json!({ "run_id": name, "outcome": "success", "repo": repo });
    let facts = serde_json::from_value(facts).unwrap();
    let content = SummaryContent::Summary(CallSummary::from_calls(&facts, [], behaviour));
    StoredSummary { run: run(name), ordinal, content }
}

fn settle(window: &WindowSummaries, investigations: &[Investigation]) -> Vec<MutationKind> {
    let id = RetrospectiveId(derive_uuid("contrast", &["retrospective"]));
    let batch = settle_investigations(id, investigations, &Contrast::of_window(window));
    batch.into_iter().map(|mutation| mutation.request).collect()
}

#[test]
fn runs_of_the_window_that_followed_a_harmful_memory_credit_it_with_harm() {
    let memory = MemoryId(derive_uuid("contrast", &["memory"]));
    let tried = |name: &str, ordinal, followed| {
        let trials = vec![MemoryTrial { memory, followed, failed: followed }];
        summary(name, ordinal, ObservedBehaviour { trials, ..ObservedBehaviour::default() })
    };
    let window = WindowSummaries {
        runs: 3,
        earlier: vec![tried("a", 1, true), tried("b", 2, false), tried("c", 3, false)],
        summaries: vec![tried("d", 4, true), tried("e", 5, true), tried("f", 6, false)],
    };
    let harmed: Vec<_> = settle(&window, &[])
        .into_iter()
        .filter_map(|request| match request {
            MutationKind::Credit { run, verdict: MemoryVerdict::Harmed, .. } => Some(run.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(harmed, ["e", "d"], "the run of an earlier window was counted in its own");
}

/// Investigated run that met the error, with what its summary says it did then.
fn met_error(name: &str, number: u32, ending: ReactionEnding) -> (StoredSummary, Investigation) {
    let reaction = Reaction {
        step: Step::main(),
        tool: "sh".into(),
        call: "sh".into(),
        error: ERROR.into(),
        temporary: false,
        suspected: false,
        complains: false,
        sources: Vec::new(),
        repeats_failed: 0,
        shape: 0,
        ending,
    };
    let failure = ObservedFailure {
        step: Step::main(),
        tool: "sh".into(),
        error: ERROR.into(),
        content: "Seen.".into(),
        worked: None,
        quote: quote(),
        origin: Default::default(),
    };
    let checked = CheckedAnswer {
        findings: vec![repair("Guessed", "with `fields`")],
        failures: vec![failure],
        ..CheckedAnswer::default()
    };
    let behaviour = ObservedBehaviour { reactions: vec![reaction], ..ObservedBehaviour::default() };
    let summary = summary(name, number.into(), behaviour);
    let investigation = Investigation {
        number,
        ordinal: number.into(),
        run: summary.run.clone(),
        replacement: false,
        result: Some(InvestigationResult::Found { checked, presented: Vec::new() }),
    };
    (summary, investigation)
}

fn observed(endings: Vec<ReactionEnding>) -> Vec<(String, Option<NoLessonReason>)> {
    let runs = (1u32..).zip(endings).map(|(at, ending)| met_error(&format!("run-{at}"), at, ending));
    let (summaries, investigations): (Vec<_>, Vec<_>) = runs.unzip();
    let window = WindowSummaries { summaries, ..WindowSummaries::default() };
    let observed = settle(&window, &investigations).into_iter().filter_map(|request| match request {
        MutationKind::Observe { finding, no_lesson, .. } => Some((finding.title, no_lesson)),
        _ => None,
    });
    observed.collect()
}

fn region_set_to(value: &str) -> ReactionEnding {
    ReactionEnding::Changed {
        parts: vec![ChangedPart {
            slot: "region".into(),
            forms: vec![format!("`region` = `{value}`"), "with `region`".into()],
            words: Vec::new(),
            avoid: None,
            dropped: false,
        }],
    }
}

/// Returns the remedy that each run of a window observes, the number of runs of its repository that support it, and the
/// repositories elsewhere that do.
fn remedies_of(widens: bool, runs: &[(&str, &str)]) -> Vec<String> {
    let runs = (1u32..).zip(runs).map(|(at, (repo, value))| {
        let ending = region_set_to(value);
        met_error(&format!("{repo} run-{at}"), at, ending)
    });
    let (summaries, investigations): (Vec<_>, Vec<_>) = runs.unzip();
    let window = WindowSummaries { summaries, ..WindowSummaries::default() };
    let id = RetrospectiveId(derive_uuid("contrast", &["repositories"]));
    let contrast = Contrast::of_window(&window);
    let contrast = if widens { contrast } else { contrast.confine_to_repositories() };
    let batch = settle_investigations(id, &investigations, &contrast);
    let observed = batch.into_iter().filter_map(|mutation| match mutation.request {
        MutationKind::Observe { finding, support: Some(support), .. } => {
            let prefer = finding.cue.prefer.unwrap_or_default();
            let elsewhere: Vec<_> =
                support.elsewhere.iter().map(|one| one.repository.repo.as_str()).collect();
            Some(format!("{prefer}, {} here, elsewhere {}", support.runs.len(), elsewhere.join(" ")))
        }
        MutationKind::Observe { .. } => Some("one run suggests it".to_owned()),
        _ => None,
    });
    observed.collect()
}

#[test]
fn a_value_that_runs_of_one_repository_share_is_stated_for_it() {
    let runs = [("a/shop", "eu"), ("a/blog", "us"), ("a/shop", "eu"), ("a/blog", "us")];
    let [eu, us] = ["`region` = `eu`, 2 here, elsewhere ", "`region` = `us`, 2 here, elsewhere "];
    assert_eq!(remedies_of(true, &runs), [eu, us, eu, us]);
}

#[test]
fn runs_of_other_repositories_support_what_they_share() {
    let shared = [("a/shop", "eu"), ("a/blog", "us"), ("a/docs", "ap")];
    assert_eq!(
        remedies_of(true, &shared),
        [
            "with `region`, 1 here, elsewhere a/docs a/blog",
            "with `region`, 1 here, elsewhere a/docs a/shop",
            "with `region`, 1 here, elsewhere a/blog a/shop"
        ],
        "no value of one repository alone"
    );
    let alone = "one run suggests it";
    assert_eq!(remedies_of(false, &shared), [alone, alone, alone]);
    let same = [("a/shop", "eu"), ("a/shop", "eu"), ("a/blog", "eu")];
    assert_eq!(
        remedies_of(true, &same),
        [
            "`region` = `eu`, 2 here, elsewhere a/blog",
            "`region` = `eu`, 2 here, elsewhere a/blog",
            "`region` = `eu`, 1 here, elsewhere a/shop"
        ]
    );
}

#[test]
fn what_runs_share_takes_the_place_of_what_one_run_suggests() {
    let region = || region_set_to("eu");
    let line = "When `sh` answers “missing required argument region”, set `region` to `eu`.";
    assert_eq!(observed(vec![region(), region()]), [(line.to_owned(), None), (line.to_owned(), None)]);
    assert_eq!(observed(vec![region()]), [("Guessed".to_owned(), None)], "one run has no contrast");
    let repeated = observed(vec![ReactionEnding::Repeated, ReactionEnding::Repeated, region()]);
    assert_eq!(repeated.len(), 3);
    assert!(repeated.iter().all(|(title, why)| {
        title == "Guessed" && matches!(why, Some(NoLessonReason::PassesByItself { .. }))
    }));
}

#[test]
fn a_warning_is_no_lesson_as_soon_as_one_run_got_past_the_error_with_the_identical_call() {
    let gave_up = || {
        let (summary, mut investigation) = met_error("run-1", 1, ReactionEnding::GaveUp);
        if let Some(InvestigationResult::Found { checked, .. }) = &mut investigation.result {
            checked.findings[0].kind = FindingKind::RetryLoop;
            checked.findings[0].cue.error = Some(ERROR.into());
            checked.failures.clear();
        }
        (summary, investigation)
    };
    let passes = |other: ReactionEnding| {
        let ((first, investigation), (second, _)) = (gave_up(), met_error("run-2", 2, other));
        let window = WindowSummaries { summaries: vec![first, second], ..WindowSummaries::default() };
        settle(&window, &[investigation]).into_iter().any(|request| {
            matches!(
                request,
                MutationKind::Observe { no_lesson: Some(NoLessonReason::PassesByItself { .. }), .. }
            )
        })
    };
    assert!(passes(ReactionEnding::Repeated));
    assert!(!passes(ReactionEnding::GaveUp), "the warning stands");
}
