use retro_core::id::Tenant;
use retro_core::memory::ChangeEffect;
use retro_core::pull_request::{
    PullRequestFacts, PullRequestOutcome, PullRequestRef, ReviewFacts, ReviewVerdict,
};
use retro_core::retrospective::{InvestigationResult, RetrospectiveState};

use super::*;
use crate::world::{World, investigation_result, repair_finding, rich_world, workflow_key};

fn rich_report() -> Report {
    rich_world().reports.pop().unwrap()
}

#[test]
fn markdown_of_a_rich_report() {
    insta::assert_snapshot!(render_markdown(&rich_report()));
}

#[test]
fn table_of_a_rich_report() {
    insta::assert_snapshot!(render_text(&rich_report(), 120));
}

#[test]
fn the_json_of_a_report_reads_back_as_itself() {
    let report = rich_report();
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
}

#[test]
fn both_renderings_contain_every_change_and_request() {
    let report = rich_report();
    for shown in [render_markdown(&report), render_text(&report, 2000)] {
        for change in &report.changes {
            let reason = change.reason.replace('|', "\\|");
            assert!(
                shown.contains(&change.reason) || shown.contains(&reason),
                "{} is not in\n{shown}",
                change.reason
            );
        }
        for outcome in &report.mutations {
            let reason = outcome.reason.replace('|', "\\|");
            assert!(
                shown.contains(&outcome.reason) || shown.contains(&reason),
                "{} is not in\n{shown}",
                outcome.reason
            );
        }
        for run in report.sampled.iter().chain(&report.unsampled) {
            assert!(shown.contains(run.run.as_str()), "{}", run.run);
        }
        assert!(shown.contains(&report.policy_hash) && shown.contains(&report.sample.seed));
    }
}

#[test]
fn held_memories_are_listed_with_the_commands_that_decide_about_them() {
    let mut report = rich_report();
    assert!(!render_markdown(&report).contains("Held for a person"), "nothing is held");
    let mut held = report.changes[0].clone();
    let why = "a person decides: Runs content of an address (“curl x | sh”)".to_owned();
    (held.effect, held.reason) = (ChangeEffect::Held { why: why.clone() }, why);
    let id = held.memory.short_id();
    report.changes.push(held);
    for shown in [render_markdown(&report).replace(['\\', '`'], ""), render_text(&report, 2000)] {
        let section = shown.split("Held for a person").nth(1).expect("the section");
        for part in [
            "until a person releases them",
            "Runs content of an address",
            &format!("retro memories release {id} --reason …"),
            &format!("retro memories retire {id} --reason …"),
        ] {
            assert!(section.contains(part), "{part:?} is not in\n{section}");
        }
        assert!(shown.contains("1 memory was held for a person"), "{shown}");
    }
    report.tenant = Tenant::new("acme").unwrap();
    assert!(render_text(&report, 2000).contains(&format!("retro --tenant acme memories release {id} ")));
}

#[test]
fn refused_observations_are_named_as_such() {
    let mut report = rich_report();
    let mut refused = report.changes[0].clone();
    refused.effect = ChangeEffect::Refused { requested: "observe".to_owned() };
    refused.reason = "the gate refuses its text: it speaks to the model".to_owned();
    report.changes.push(refused);
    for shown in [render_markdown(&report), render_text(&report, 2000)] {
        assert!(shown.contains("1 observation was refused, and 1 request was refused"), "{shown}");
        assert!(
            shown.contains("observation refused") && shown.contains("the gate refuses its text"),
            "{shown}"
        );
    }
}

#[test]
fn runs_are_rendered_with_their_known_pull_requests() {
    let mut report = rich_report();
    let review = |verdict| ReviewFacts { verdict: Some(verdict), ..ReviewFacts::default() };
    let known = PullRequestFacts {
        merged_at: Some(report.closed_at),
        reviews: [
            (1, review(ReviewVerdict::ChangesRequested)),
            (2, review(ReviewVerdict::ChangesRequested)),
            (3, review(ReviewVerdict::Approved)),
        ]
        .into(),
        ..Default::default()
    };
    let outcomes =
        |number, facts| vec![PullRequestOutcome::from_facts(PullRequestRef::new("Acme/Shop", number), facts)];
    report.sampled[0].pull_requests = outcomes(7, &known);
    report.unsampled[0].pull_requests = outcomes(8, &PullRequestFacts::default());
    for shown in [render_markdown(&report).replace(['\\', '`'], ""), render_text(&report, 2000)] {
        let expected = "; acme/shop#7 merged, approved, sent back 2 times)";
        assert_eq!(
            shown.matches(expected).count(),
            2,
            "at the investigation and in the list of runs: {shown}"
        );
        assert_eq!(shown.matches("; acme/shop#8 open)").count(), 1, "{shown}");
    }
}

#[test]
fn the_power_of_the_sample_is_described_in_words() {
    let expected = "a pattern in 2 of 10 runs shows in a sample of 4 with p = 0.667, twice with p = 0.133";
    assert!(render_markdown(&rich_report()).contains(expected));
    assert!(render_text(&rich_report(), 120).contains(expected));
}

#[test]
fn a_text_from_a_run_makes_no_cell_no_tag_no_link_and_moves_no_cursor() {
    let report = rich_report();
    let hostile = |shown: &str| shown.contains('\u{1b}');
    assert!(!hostile(&render_markdown(&report)) && !hostile(&render_text(&report, 120)));
    let shown = render_markdown(&report);
    let outside_of_quotes = shown.split("text\n").map(|part| part.rsplit("```").next().unwrap());
    let outside: String = outside_of_quotes.collect();
    assert!(!outside.contains("<img") && !outside.contains(" [l](http"), "{outside}");
    let cells = |line: &&str| line.replace("\\|", "").matches('|').count();
    let rows: Vec<_> = shown.lines().filter(|line| line.contains("a\\|b")).collect();
    assert!(!rows.is_empty(), "the hostile title is shown");
    assert!(rows.iter().all(|row| !row.starts_with('|') || (5..=7).contains(&cells(row))), "{rows:#?}");
}

#[test]
fn a_failed_retrospective_and_one_without_a_change_say_so_first() {
    let failed: &dyn Fn(&World, u32) -> InvestigationResult =
        &|_, _| InvestigationResult::Failed { reason: "the trace is gone".to_owned() };
    let report = World::default().run_retrospective(&workflow_key("default", "shop"), failed);
    assert_eq!(report.ended, RetrospectiveState::Failed);
    assert!(
        render_headline(&report)
            .contains("nothing was learnt and nothing changed. The runs are released: the next")
    );
    assert!(render_text(&report, 100).contains("failed: the trace is gone"), "{}", render_text(&report, 100));
    let quiet = World::default()
        .run_retrospective(&workflow_key("default", "shop"), &|_, _| investigation_result(vec![], vec![]));
    assert!(render_headline(&quiet).ends_with("Nothing changed."), "{}", render_headline(&quiet));
}

#[test]
fn a_retrospective_that_only_saw_memories_again_says_so() {
    let key = workflow_key("default", "shop");
    let mut world = World::default();
    let shows = |_: &World, _| investigation_result(vec![repair_finding("no such table")], vec![]);
    let first = world.run_retrospective(&key, &shows);
    assert!(render_headline(&first).contains("became active"), "{}", render_headline(&first));
    let second = world.run_retrospective(&key, &shows);
    assert!(second.changes.iter().all(|change| matches!(change.effect, ChangeEffect::Observed { .. })));
    assert!(render_headline(&second).ends_with(" 1 memory was seen again."), "{}", render_headline(&second));
}

#[test]
fn failures_without_a_memory_and_operations_are_bounded() {
    let mut report = rich_report();
    let calls = report.calls.as_mut().expect("the calls of the window were counted");
    calls.missed = vec![calls.missed[0].clone(); 12];
    calls.operations = vec![calls.operations[0].clone(); 11];
    calls.operations.iter_mut().for_each(|one| one.tool = "look_up".to_owned());
    for shown in [render_markdown(&report), render_text(&report, 2000)] {
        let section = |title: &str| shown.split(title).nth(1).expect("the section").to_owned();
        let (missed, called) = (section("Failures without a memory"), section("What the runs called"));
        assert_eq!(missed.split("What the runs called").next().unwrap().matches("met by").count(), 10);
        assert!(missed.contains("\nand 2 more (the JSON has all)\n"), "{missed}");
        let called = called.split("Findings").next().unwrap().to_owned();
        assert_eq!(called.matches("look_up").count(), 10, "{called}");
        assert!(called.contains("\nand 1 more (the JSON has all)\n"), "{called}");
    }
}

#[test]
fn a_report_without_counted_calls_has_no_section_about_them() {
    let mut report = rich_report();
    for shown in [render_markdown(&report), render_text(&report, 120)] {
        assert!(shown.contains("Failures without a memory") && shown.contains("What the runs called"));
    }
    report.calls.as_mut().expect("the calls of the window were counted").missed.clear();
    for shown in [render_markdown(&report), render_text(&report, 120)] {
        assert!(!shown.contains("Failures without a memory") && shown.contains("What the runs called"));
    }
    report.calls = None;
    for shown in [render_markdown(&report), render_text(&report, 120)] {
        assert!(!shown.contains("Failures without a memory") && !shown.contains("What the runs called"));
    }
}

#[test]
fn a_hostile_tool_is_shown_harmlessly() {
    let report = rich_report();
    let markdown = render_markdown(&report);
    let section = markdown.split("## Failures without a memory").nth(1).expect("the section");
    let section = section.split("## Findings").next().unwrap();
    assert!(section.contains("octocat") && section.contains("img"), "the tool is shown: {section}");
    let prose: String = section.split('`').step_by(2).collect();
    for live in ["<img", "<b>", "@octocat", "](http"] {
        assert!(!prose.contains(live), "{live} stands in the prose of {section}");
    }
    assert!(!markdown.contains('\u{1b}') && !render_text(&report, 120).contains('\u{1b}'));
    let rows: Vec<_> =
        section.lines().filter(|line| line.starts_with('|') && line.contains("octocat")).collect();
    assert_eq!(rows.len(), 1, "{section}");
    assert_eq!(rows[0].replace("\\|", "").matches('|').count(), 9, "eight cells: {}", rows[0]);
}
