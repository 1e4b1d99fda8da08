use retro_core::id::{RunId, Step, Tenant};
use retro_core::run::RunOutcome;
use retro_core::trajectory::{ToolCall, Trajectory, Turn, TurnSource};
use serde_json::json;

use super::*;
use crate::http::tests::{ask_of, two_tenants};
use crate::text_table::Layout;
use crate::world::{World, rich_world, workflow_key};

const HOSTILE: &str = "</code>\n```\n# forged | <img src=x> [l](https://evil.example) @all \u{1b}[2J";

fn run_id(name: &str) -> RunId {
    RunId::new(name).unwrap()
}

/// Returns the first run that the first investigation of the third retrospective looked at.
fn investigated_run(world: &World) -> RunId {
    world.details[2].1[0].run.clone()
}

/// Returns a world whose investigated run has facts and a trajectory, with hostile words in both.
fn world_with_trajectory() -> (World, RunId) {
    let mut world = rich_world();
    let run = investigated_run(&world);
    let key = workflow_key("default", "shop");
    let call = ToolCall {
        tool: "mysql".to_owned(),
        arguments: "SELECT colour FROM orders".to_owned(),
        answer: Some(format!("ERROR 1054 (42S22): unknown column {HOSTILE}")),
        failed: Some(true),
    };
    let turn = |nth: u64| Turn {
        step: Step::new("query").unwrap(),
        entry: Some(10 + nth),
        agentic: true,
        at: None,
        source: TurnSource::Agent,
        message: if nth == 0 { HOSTILE.to_owned() } else { String::new() },
        reasoning: String::new(),
        calls: if nth == 3 { vec![call.clone()] } else { Vec::new() },
    };
    let trajectory = Trajectory::from((0..4).map(turn).collect::<Vec<_>>());
    world.trajectories.push((key.clone(), run.clone(), trajectory));
    let memory = world.memory_about("unknown column");
    let row = world.runs.iter_mut().find(|row| row.facts.run_id == run && row.key == key).unwrap();
    row.facts.user = Some("anna".to_owned());
    row.facts.task = Some(HOSTILE.to_owned());
    row.facts.memories.presented = vec![memory];
    (world, run)
}

async fn view(world: &World, run: &RunId, pages: RunPages) -> RunView {
    find_run_view(world, &Tenant::default_tenant(), run, None, pages).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_run_is_shown_with_what_was_seen_in_it_at_the_emitters_own_steps() {
    let (world, run) = world_with_trajectory();
    let view = view(&world, &run, RunPages::default()).await;
    let look = &view.retrospectives[0];
    assert_eq!((look.epoch, look.result.as_deref()), (Some(3), Some("found")));
    let quote = &look.seen[0].quote;
    assert_eq!((quote.entry, quote.step.as_deref()), (Some(13), Some("query")));
    assert_eq!(view.trajectory.turns[3].seen.len(), 3, "the findings stand beside the turn");
    let verdicts: Vec<_> = look.verdicts.iter().map(|one| one.verdict.as_str()).collect();
    assert_eq!(verdicts, ["helped", "harmed"]);
    assert!(view.memories[0].presented && view.memories[0].title.is_some());
    let shown = view.render(Layout::Terminal(120));
    for part in [
        "counted as number",
        "counting",
        "user",
        "anna",
        "drawn into the sample by chance; result: found",
        "answer to call 0 of turn 3, the emitter's step_id 13",
        "verdict on memory",
        "turn 3 (step_id 13) · step query · agent",
        "seen here: repair:",
        "SELECT colour FROM orders",
        "answer, which the log marks as failed",
    ] {
        assert!(shown.contains(part), "{part:?} is not in\n{shown}");
    }
}

#[tokio::test]
async fn hostile_words_of_a_run_stay_data_in_every_form() {
    let (world, run) = world_with_trajectory();
    let view = view(&world, &run, RunPages::default()).await;
    let markdown = view.render(Layout::Markdown);
    assert!(markdown.starts_with("# Run "), "{markdown}");
    assert!(!markdown.contains('\u{1b}') && !view.render(Layout::Terminal(120)).contains('\u{1b}'));
    // Outside code blocks no hostile word is left as it was. A block ends at a fence as long as its own.
    let mut fence: Option<&str> = None;
    let mut blocks = 0;
    for line in markdown.lines() {
        let ticks = line.trim_start();
        match fence {
            Some(open) if ticks == open => fence = None,
            Some(_) => {}
            None if ticks.starts_with("```") => {
                fence = Some(ticks.trim_end_matches("text"));
                blocks += 1;
            }
            None => {
                for part in ["<img", " [l](http", " @all", " # forged"] {
                    assert!(!line.contains(part), "{part}: {line}");
                }
            }
        }
    }
    assert!(fence.is_none() && blocks > 3, "{blocks} blocks\n{markdown}");
    assert!(markdown.contains("# forged"), "positive control: the words are in a block");
}

#[tokio::test]
async fn a_trajectory_is_shown_within_bounds() {
    let (mut world, run) = world_with_trajectory();
    world.trajectories[0].2.turns[1].message = "é".repeat(5000);
    world.trajectories[0].2.agents_md = Some(format!("Use make. {}", "é".repeat(5000)));
    let some = view(&world, &run, RunPages { from_turn: 1, turns: 2 }).await;
    let shown: Vec<_> = some.trajectory.turns.iter().map(|turn| turn.turn).collect();
    assert_eq!((shown, some.trajectory.turns_total), (vec![1, 2], Some(4)));
    assert_eq!(some.trajectory.turns[0].message.chars().count(), 2001, "cut, with a mark");
    assert_eq!(some.trajectory.agents_md.as_ref().unwrap().chars().count(), 2001);
    let text = some.render(120_u16);
    assert!(text.contains("Turns 1 to 2 of 4, counted from 0") && text.contains("Use make."), "{text}");
    let none = view(&world, &run, RunPages { from_turn: 9, turns: 1 }).await;
    assert!(none.render(120_u16).contains("No turn to show, of 4."));
}

#[tokio::test]
async fn a_run_without_a_trajectory_says_so() {
    let world = rich_world();
    let run = investigated_run(&world);
    let view = view(&world, &run, RunPages::default()).await;
    assert_eq!((view.trajectory.location, view.trajectory.turns_total), ("none", None));
    assert!(view.render(120_u16).contains("the event of the run had no trajectory."));
}

#[tokio::test]
async fn a_run_that_was_not_sampled_says_that_chance_left_it_out() {
    let world = rich_world();
    let (sample, investigations) = &world.details[2];
    let left = sample.order.iter().find(|ordinal| investigations.iter().all(|one| one.ordinal != **ordinal));
    let row = world.runs.iter().find(|row| row.ordinal.as_ref() == left).unwrap();
    let shown = view(&world, &row.facts.run_id, RunPages::default()).await.render(120_u16);
    assert!(shown.contains("not investigated: chance did not draw it into the sample"), "{shown}");
}

#[tokio::test]
async fn another_tenant_s_run_answers_exactly_like_a_missing_one() {
    let mut world = two_tenants();
    let foreign = world.runs.iter_mut().find(|row| row.key.tenant.as_str() == "acme").unwrap();
    foreign.facts.run_id = run_id("acme-run");
    let ask = |tenant: &'static str, run: &'static str| {
        let world = World { runs: world.runs.clone(), ..World::default() };
        async move { ask_of(world, tenant, &format!("/v1/runs/shop/{run}"), "*/*").await }
    };
    let own = ask("acme", "acme-run").await;
    assert_eq!((own.status, &own.json()["run"]), (200, &json!("acme-run")), "positive control");
    let (foreign, none) = (ask("default", "acme-run").await, ask("default", "no-run").await);
    assert_eq!((foreign.status, none.status), (404, 404));
    assert_eq!(foreign.body.replace("acme-run", "RUN"), none.body.replace("no-run", "RUN"));
}

#[tokio::test]
async fn a_run_is_served_in_three_forms_and_a_wrong_page_is_refused() {
    let (world, run) = world_with_trajectory();
    let ask = |path: String, accept: &'static str| {
        let (world, _) = world_with_trajectory();
        async move { ask_of(world, "default", &path, accept).await }
    };
    drop(world);
    let path = format!("/v1/runs/shop/{run}");
    assert_eq!(ask(path.clone(), "*/*").await.json()["facts"]["user"], "anna");
    assert!(ask(path.clone(), "text/markdown").await.body.starts_with("# Run "));
    assert!(ask(path.clone(), "text/plain").await.body.starts_with("Run "));
    let wrong = ask(format!("{path}?turns=501"), "*/*").await;
    assert_eq!((wrong.status, &wrong.json()["path"]), (400, &json!("turns")));
}

#[tokio::test]
async fn runs_are_listed_by_user_and_outcome_over_http() {
    let list = |query: &'static str| async move {
        let (world, _) = world_with_trajectory();
        let answer = ask_of(world, "default", &format!("/v1/runs?{query}"), "*/*").await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()["items"].as_array().unwrap().len()
    };
    let failed = rich_world().runs.iter().filter(|row| row.facts.outcome == RunOutcome::Failure).count();
    assert_eq!(list("user=anna").await, 1);
    assert_eq!(list("user=bob").await, 0);
    assert_eq!(list("outcome=failure").await, failed);
    assert_eq!(list("agent=coder").await, 0);
    assert_eq!(list("since=2000-01-01T00:00:00Z").await, 30, "positive control");
    assert_eq!(list("until=2000-01-01T00:00:00Z").await, 0);
}
