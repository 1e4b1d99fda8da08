use super::*;
use crate::calls::{FIRST_SLOT, ObservedBehaviour, hash_label};
use crate::id::{MemoryId, Step, derive_uuid};
use crate::run::RunFacts;

/// Part with forms, such as `region: `region` = `eu` | with `region``.
fn part(slot: &str, forms: &[&str]) -> ChangedPart {
    ChangedPart {
        slot: slot.to_owned(),
        forms: forms.iter().map(|form| (*form).to_owned()).collect(),
        words: Vec::new(),
        avoid: None,
        dropped: false,
    }
}

fn first(slot: &str, command: &str) -> ChangedPart {
    let words = command.split(' ').map(str::to_owned).collect();
    ChangedPart { words, ..part(&format!("{FIRST_SLOT}{slot}"), &[]) }
}

fn reaction(error: &str, ending: ReactionEnding) -> Reaction {
    Reaction {
        step: Step::main(),
        tool: "deploy".to_owned(),
        call: "deploy".to_owned(),
        error: error.to_owned(),
        temporary: false,
        suspected: false,
        complains: false,
        sources: Vec::new(),
        repeats_failed: 0,
        shape: SHAPE,
        ending,
    }
}

fn changed(parts: &[ChangedPart]) -> Reaction {
    reaction("region is missing", ReactionEnding::Changed { parts: parts.to_vec() })
}

fn repeated() -> Reaction {
    reaction("region is missing", ReactionEnding::Repeated)
}

/// Run with what it did: its outcome, the labels of its ordinary calls, and its kept answers.
struct TestRun<'a>(&'a str, Vec<Reaction>, &'a [&'a str], &'a [&'a str]);

/// Hash of the call that all reactions are about.
const SHAPE: u32 = 7;

fn did(reactions: &[Reaction]) -> TestRun<'static> {
    TestRun("success", reactions.to_vec(), &[], &[])
}

fn window(runs: Vec<TestRun<'_>>) -> WindowSummaries {
    let step = Step::main();
    let summaries = (1u32..).zip(runs).map(|(at, TestRun(outcome, reactions, routine, kept))| {
        let facts = serde_json::json!({ "run_id": format!("run-{at}"), "outcome": outcome });
        let facts: RunFacts = serde_json::from_value(facts).unwrap();
        let behaviour = ObservedBehaviour {
            reactions,
            routine: routine.iter().map(|label| hash_label(&step, label)).collect(),
            kept: kept.iter().map(|line| hash_answer(&step, "deploy", line)).collect(),
            kept_calls: if kept.contains(&"done") { vec![SHAPE] } else { Vec::new() },
            trials: Vec::new(),
        };
        let call = crate::calls::ObservedCall {
            step: &step,
            tool: "deploy",
            program: Vec::new(),
            goal: String::new(),
            error: None,
            took_ms: None,
        };
        let summary = CallSummary::from_calls(&facts, [call], behaviour);
        StoredSummary { run: facts.run_id, ordinal: at.into(), content: SummaryContent::Summary(summary) }
    });
    WindowSummaries { summaries: summaries.collect(), ..WindowSummaries::default() }
}

/// Returns the forms that the contrast states for the newest reaction, or the reason why there are none.
fn stated(runs: Vec<TestRun<'_>>) -> String {
    let newest = runs.last().and_then(|run| run.1.first()).cloned().expect("the last run reacted");
    match Contrast::of_window(&window(runs)).judge_reaction(&newest) {
        ContrastAnswer::Supported(remedy) => {
            remedy.parts.into_iter().map(|part| part.form).collect::<Vec<_>>().join("; ")
        }
        ContrastAnswer::PassesByItself(_) => "passes".to_owned(),
        ContrastAnswer::Routine(_) => "routine".to_owned(),
        ContrastAnswer::Undecided(_) => "undecided".to_owned(),
    }
}

fn region(value: &str) -> ChangedPart {
    part("region", &[&format!("`region` = `{value}`"), "with `region`"])
}

#[test]
fn a_value_is_stated_if_runs_agree_on_it_and_otherwise_its_parameter() {
    assert_eq!(stated(vec![did(&[changed(&[region("eu")])])]), "undecided", "one run shows nothing");
    let two = |a, b| stated(vec![did(&[changed(&[region(a)])]), did(&[changed(&[region(b)])])]);
    assert_eq!(two("eu", "eu"), "`region` = `eu`");
    assert_eq!(two("eu", "us"), "with `region`");
}

#[test]
fn a_value_that_the_task_names_needs_more_runs_than_an_accident() {
    let named = |value: &str| part("region", &[&format!("…`region` = `{value}`"), "with `region`"]);
    let runs = |count: usize| stated((0..count).map(|_| did(&[changed(&[named("eu")])])).collect());
    assert_eq!(runs(4), "with `region`");
    assert_eq!(runs(5), "`region` = `eu`");
}

#[test]
fn what_only_some_runs_change_besides_is_no_part_of_the_remedy() {
    let (eu, fast) = (region("eu"), part("fast", &["with `fast`"]));
    let runs = vec![
        did(&[changed(&[eu.clone(), fast.clone()])]),
        did(&[changed(std::slice::from_ref(&eu))]),
        did(&[changed(std::slice::from_ref(&eu))]),
        did(&[changed(&[eu, fast])]),
    ];
    assert_eq!(stated(runs), "`region` = `eu`");
}

#[test]
fn an_error_that_the_identical_call_gets_past_needs_no_remedy() {
    let superstition = || did(&[changed(&[region("eu")])]);
    assert_eq!(stated(vec![did(&[repeated()]), superstition(), superstition()]), "passes");
    let often = (0..5).map(|_| superstition());
    assert_eq!(stated(std::iter::once(did(&[repeated()])).chain(often).collect()), "`region` = `eu`");
    let runs = vec![did(&[repeated()]), did(&[repeated()]), superstition(), superstition()];
    assert_eq!(stated(runs), "passes");
}

#[test]
fn one_error_may_have_two_causes() {
    let mode = || part("mode", &["`mode` = `write`"]);
    let runs = vec![
        did(&[changed(&[region("eu")])]),
        did(&[changed(&[mode()])]),
        did(&[changed(&[region("eu")])]),
        did(&[changed(&[mode()])]),
    ];
    assert_eq!(stated(runs), "`mode` = `write`");
}

#[test]
fn a_command_before_is_stated_by_the_words_that_runs_share() {
    let runs = vec![
        did(&[changed(&[first("terraform init", "terraform -chdir=a init -input=false")])]),
        did(&[changed(&[first("terraform init", "terraform -chdir=b init -input=false")])]),
    ];
    assert_eq!(stated(runs), "first `terraform init -input=false`");
    let varying = |n: &str| did(&[changed(&[first("kill", &format!("kill {n}"))])]);
    assert_eq!(stated(vec![varying("1"), varying("2")]), "first `kill`");
    let same_tool = |n: &str| did(&[changed(&[first("deploy", &format!("deploy {n}"))])]);
    assert_eq!(stated(vec![same_tool("a"), same_tool("b")]), "undecided", "it does not tell the calls apart");
    assert_eq!(stated(vec![same_tool("a"), same_tool("a")]), "first `deploy a`");
}

#[test]
fn a_call_that_runs_make_anyway_is_no_remedy() {
    let looks = || did(&[changed(&[first("status", "status")])]);
    let plain = || TestRun("success", Vec::new(), &["status", "deploy"], &[]);
    let afterwards = || TestRun("success", Vec::new(), &["deploy", "status"], &[]);
    assert_eq!(stated(vec![looks(), looks()]), "first `status`");
    assert_eq!(stated(vec![plain(), plain(), looks(), looks()]), "undecided");
    assert_eq!(stated(vec![afterwards(), afterwards(), looks(), looks()]), "first `status`");
}

#[test]
fn asking_for_less_is_a_remedy_only_of_runs_that_ended_well() {
    let less = || ChangedPart { dropped: true, ..part("rows", &["without `rows`"]) };
    let run = |outcome| TestRun(outcome, vec![changed(&[less()])], &[], &[]);
    assert_eq!(stated(vec![run("success"), run("success")]), "without `rows`");
    assert_eq!(stated(vec![run("failure"), run("success"), run("failure")]), "undecided");
    let with_others = |outcome: &'static str| {
        let others = (0..6).map(|_| TestRun(outcome, Vec::new(), &[], &[]));
        stated(others.chain([run("failure"), run("success"), run("failure")]).collect())
    };
    assert_eq!(with_others("failure"), "without `rows`", "others do no better");
    assert_eq!(with_others("success"), "undecided");
}

#[test]
fn a_suspected_answer_is_a_failure_if_runs_do_the_same_about_it_and_about_no_other_answer() {
    let suspect = |parts: &[ChangedPart]| Reaction { suspected: true, ..changed(parts) };
    let stated_after = |count: usize, others: Vec<TestRun<'static>>| {
        stated(others.into_iter().chain((0..count).map(|_| did(&[suspect(&[region("eu")])]))).collect())
    };
    let content = || (0..6).map(|_| TestRun("success", Vec::new(), &[], &["done"]));
    assert_eq!(stated_after(6, content().collect()), "`region` = `eu`");
    assert_eq!(stated_after(4, content().collect()), "undecided", "too few runs");
    assert_eq!(stated_after(6, Vec::new()), "undecided", "nobody was answered in another way");
    let other = || Reaction { error: "3 rows of 7".to_owned(), ..suspect(&[region("us")]) };
    let walks = || content().chain((0..2).map(|_| did(&[other()]))).collect();
    assert_eq!(stated_after(6, walks()), "undecided", "runs change it after other answers, too");
    let kept = |outcome| TestRun(outcome, Vec::new(), &[], &["region is missing"]);
    let pleased = content().chain((0..2).map(|_| kept("success"))).collect();
    assert_eq!(stated_after(6, pleased), "undecided", "runs do well with this answer");
}

#[test]
fn a_run_that_goes_on_with_its_work_gave_up() {
    let next = || ChangedPart {
        avoid: Some("program `svc add`".to_owned()),
        ..part("svc subcommand", &["program `svc start`"])
    };
    let dropped = || ChangedPart { dropped: true, ..part("svc --id", &["`svc` without `--id`"]) };
    let anyway = || TestRun("success", Vec::new(), &["deploy", "svc start"], &[]);
    let goes_on = || did(&[changed(&[next(), dropped()])]);
    let mends = || did(&[changed(&[dropped()])]);
    let stated_by = |one: &dyn Fn() -> TestRun<'static>| {
        let runs = (0..6).map(|_| anyway()).chain((0..6).map(|_| goes_on())).chain((0..4).map(|_| mends()));
        stated(runs.chain([one()]).collect())
    };
    assert_eq!(stated_by(&mends), "`svc` without `--id`");
    assert_eq!(stated_by(&goes_on), "routine");
    let unknown = (0..6).map(|_| goes_on()).collect();
    assert_eq!(stated(unknown), "program `svc start`; `svc` without `--id`", "positive control");
}

#[test]
fn a_suspected_answer_is_a_failure_if_runs_that_kept_it_ended_badly() {
    let suspect = || Reaction { suspected: true, ..changed(&[region("eu")]) };
    let kept = |outcome| TestRun(outcome, Vec::new(), &[], &["region is missing"]);
    let others = || (0..6).map(|_| TestRun("success", Vec::new(), &[], &[]));
    let reacting = || (0..3).map(|_| did(&[suspect()]));
    let with = |outcomes: &[&'static str]| {
        stated(outcomes.iter().map(|one| kept(one)).chain(others()).chain(reacting()).collect())
    };
    assert_eq!(with(&["failure", "failure"]), "`region` = `eu`");
    assert_eq!(with(&["failure", "success"]), "undecided", "runs do well with this answer");
    assert_eq!(with(&[]), "undecided", "nobody kept it");
}

#[test]
fn an_error_that_says_to_try_again_needs_more_runs() {
    let temporary = |repeats_failed| Reaction { temporary: true, repeats_failed, ..changed(&[region("eu")]) };
    let runs = |count: usize, repeats| stated((0..count).map(|_| did(&[temporary(repeats)])).collect());
    assert_eq!(runs(3, 0), "undecided");
    assert_eq!(runs(3, 1), "`region` = `eu`");
    assert_eq!(runs(4, 0), "`region` = `eu`");
}

#[test]
fn a_remedy_that_replaced_another_in_the_same_place_is_stated_after_some_runs() {
    let mut runs: Vec<_> = (0..9).map(|_| did(&[changed(&[region("eu")])])).collect();
    runs.extend((0..5).map(|_| did(&[changed(&[region("us")])])));
    assert_eq!(stated(runs), "`region` = `us`");
}

#[test]
fn a_call_that_runs_make_half_as_often_without_the_error_is_no_remedy() {
    let stated_if = |made_without: usize| {
        let plain = |nth: usize| {
            let routine: &[&str] = if nth < made_without { &["status", "deploy"] } else { &["deploy"] };
            TestRun("success", Vec::new(), routine, &[])
        };
        let mut runs: Vec<_> = (0..10).map(plain).collect();
        runs.extend((0..3).map(|_| did(&[changed(&[part("zone", &["with `zone`"])])])));
        // Half of the runs with the error look first.
        runs.extend((0..3).map(|_| did(&[changed(&[first("status", "status")])])));
        stated(runs)
    };
    assert_eq!(stated_if(0), "first `status`");
    assert_eq!(stated_if(2), "first `status`", "a fifth without the error, half with it");
    assert_eq!(stated_if(3), "routine", "three in ten without it");
}

#[test]
fn another_tool_that_runs_call_anyway_is_no_remedy() {
    let instead = |called_anyway: bool| {
        let plain = || {
            let routine: &[&str] = if called_anyway { &["deploy", "validate"] } else { &["deploy"] };
            TestRun("success", Vec::new(), routine, &[])
        };
        let mut runs: Vec<_> = (0..6).map(|_| plain()).collect();
        let switched = part(&format!("{TOOL_SLOT}validate"), &["tool `validate`"]);
        runs.extend((0..4).map(|_| did(&[changed(std::slice::from_ref(&switched))])));
        stated(runs)
    };
    assert_eq!(instead(true), "routine");
    assert_eq!(instead(false), "tool `validate`", "positive control");
}

#[test]
fn a_memory_is_harmful_if_calls_that_follow_it_fail_more_often() {
    let memory = MemoryId(derive_uuid("contrast", &["memory"]));
    let trial = |followed, failed| crate::calls::MemoryTrial { memory, followed, failed };
    let harmed = |trials: &[(bool, bool)]| {
        let mut window = window(trials.iter().map(|_| did(&[])).collect());
        for (stored, (followed, failed)) in window.summaries.iter_mut().zip(trials) {
            let SummaryContent::Summary(summary) = &mut stored.content else { unreachable!() };
            summary.trials = vec![trial(*followed, *failed)];
        }
        Contrast::of_window(&window).find_harmed_runs(memory).map(|(_, runs)| runs.len())
    };
    let mixed = [(true, true), (true, true), (true, true), (false, false), (false, false), (false, false)];
    assert_eq!(harmed(&mixed), Some(3));
    assert_eq!(harmed(&mixed.map(|(followed, _)| (followed, false))), None, "nothing failed");
    assert_eq!(harmed(&mixed.map(|(followed, _)| (followed, true))), None, "others fail as well");
}

#[test]
fn a_memory_is_not_needed_if_the_newest_calls_without_it_hardly_fail() {
    let memory = MemoryId(derive_uuid("contrast", &["memory"]));
    let unneeded = |trials: &[(bool, bool)]| {
        let mut window = window(trials.iter().map(|_| did(&[])).collect());
        for (stored, (followed, failed)) in window.summaries.iter_mut().zip(trials) {
            let SummaryContent::Summary(summary) = &mut stored.content else { unreachable!() };
            summary.trials = vec![crate::calls::MemoryTrial { memory, followed: *followed, failed: *failed }];
        }
        let found = Contrast::of_window(&window).find_unneeded(memory);
        found.map(|numbers| (numbers.calls, numbers.failed))
    };
    let works = vec![(false, false); 46];
    assert_eq!(unneeded(&works), None, "no such call is known to have failed");
    let once: Vec<_> = std::iter::once((false, true)).chain(works.iter().copied()).collect();
    assert_eq!(unneeded(&once), Some((46, 0)));
    assert_eq!(unneeded(&once[..21]), None, "too few calls");
    let with_followers: Vec<_> = once.iter().flat_map(|one| [*one, (true, false)]).collect();
    assert_eq!(unneeded(&with_followers), Some((46, 0)), "calls that follow it say nothing");
    let fixed: Vec<_> = vec![(false, true); 30].into_iter().chain(vec![(false, false); 46]).collect();
    assert_eq!(unneeded(&fixed), Some((46, 0)), "what failed before the newest calls is over");
    let failing: Vec<_> = works.iter().copied().chain([(false, true); 2]).collect();
    assert_eq!(unneeded(&failing), None);
}

#[test]
fn one_page_is_one_witness_however_many_runs_read_it() {
    let read_from = |page: &str| {
        let reaction =
            Reaction { sources: vec![page.to_owned()], ..changed(&[part("region", &["with `region`"])]) };
        did(&[reaction])
    };
    let supported = |pages: [&str; 3]| {
        let window = window(pages.iter().map(|page| read_from(page)).collect());
        let contrast = Contrast::of_window(&window);
        let run = RunId::new("run-1").unwrap();
        matches!(contrast.judge_reaction(&contrast.reactions_of(&run)[0]), ContrastAnswer::Supported(_))
    };
    assert!(!supported(["a", "a", "a"]));
    assert!(supported(["a", "b", "b"]));
}
