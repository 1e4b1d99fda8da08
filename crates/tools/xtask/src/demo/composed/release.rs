//! Runs the workflow `composed-release`: build, lint, test, migrate, deploy and notify, with an occasional
//! scale-down or roll-back.

use std::path::Path;

use anyhow::{Context, Result};
use retro_eval::instance::Instance;
use serde_json::{Value, json};

use super::window::{RUNS_PER_WINDOW, finish_window, sampled_runs};
use crate::demo::agent::{AgentRun, HandedMemories};

const WORKFLOW: &str = "composed-release";
/// Phrase in the title of the memory that the operator deletes.
const INCIDENTS_PHRASE: &str = "open incidents";

/// Conditions of the runs in one window. A condition that is not set is normal.
#[derive(Clone, Copy, Default)]
struct Conditions {
    title: &'static str,
    /// `true` if the image cache is empty, so a build must pull.
    cache_cold: bool,
    lint: Lint,
    tests: Tests,
    migration: Migration,
    /// `true` if the runs reach the notify step.
    notify: bool,
    /// Extra event in the first sampled run.
    first_sampled: RareEvent,
    /// Extra event in the second sampled run.
    second_sampled: RareEvent,
    /// `true` if agents open the memory about the region before they deploy.
    region_note_opened: bool,
    /// `true` if agents open the memory about the build, which they do not follow.
    build_note_opened: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Lint {
    /// The run does not reach the lint step.
    #[default]
    Skipped,
    /// The lint tool fails without `config`.
    NeedsConfig,
    /// The lint tool succeeds without arguments.
    Fine,
    /// The lint tool no longer accepts `config`, but one sampled agent still passes it.
    ConfigGone,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Tests {
    #[default]
    Fine,
    /// The tests time out unless they run in parallel.
    Slow,
    /// The tests fail when they run in parallel.
    ParallelBreaks,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Migration {
    /// There are no migrations to apply.
    #[default]
    None,
    /// The migration fails without a lock timeout.
    NeedsTimeout,
    /// The migration tool no longer accepts a lock timeout; agents that pass one fail.
    TimeoutGone,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum RareEvent {
    #[default]
    Nothing,
    /// The agent leaves these remarks as self-feedback.
    Remarks(&'static [&'static str]),
    /// The agent tries to roll back without the required region.
    RollBack,
    /// The agent calls a rarely used tool, which succeeds only with its extra argument.
    Needs(RareTool),
    /// The agent calls a rarely used tool, which succeeds only without its extra argument.
    Refuses(RareTool),
}

/// A tool used in a step that few runs reach.
#[derive(Clone, Copy, PartialEq, Eq)]
struct RareTool {
    step: &'static str,
    name: &'static str,
    argument: &'static str,
}

const SCALE: RareTool = RareTool { step: "scale", name: "scale_down", argument: "drain" };
const WARM_UP: RareTool = RareTool { step: "warm-up", name: "warm_cache", argument: "cold_start" };

/// Conditions of each window, in order. Within a window, only the first two sampled runs differ from the
/// others.
const WINDOWS: [Conditions; 15] = [
    Conditions {
        title: "there are no memories yet: every step fails first",
        cache_cold: true,
        lint: Lint::NeedsConfig,
        tests: Tests::Slow,
        migration: Migration::NeedsTimeout,
        notify: true,
        first_sampled: RareEvent::Remarks(&["List the open incidents before you deploy."]),
        second_sampled: RareEvent::Remarks(&["Before you deploy, list the open incidents."]),
        ..ALL_FINE
    },
    Conditions {
        title: "memories are handed out: deploy and test follow theirs, build ignores its own, notify is not reached",
        tests: Tests::Slow,
        region_note_opened: true,
        first_sampled: RareEvent::Remarks(&[
            "Wait 5 minutes after a deploy before you check the error rate.",
        ]),
        second_sampled: RareEvent::Remarks(&[
            "Wait 50 minutes after a deploy before you check the error rate.",
        ]),
        ..ALL_FINE
    },
    Conditions {
        title: "conditions change: parallel tests break and two options are gone, so following the old memories fails",
        lint: Lint::ConfigGone,
        tests: Tests::ParallelBreaks,
        migration: Migration::TimeoutGone,
        first_sampled: RareEvent::RollBack,
        ..ALL_FINE
    },
    Conditions {
        title: "tests are slow again: the memory against parallel tests loses weight, and a tombstone stops the old one",
        lint: Lint::Fine,
        tests: Tests::Slow,
        first_sampled: RareEvent::Remarks(&[
            "Tag the release in git before you deploy.",
            "Before you deploy, tag the release in git.",
        ]),
        ..ALL_FINE
    },
    Conditions {
        title: "the migration needs its timeout again: the archived memory is revived as tentative",
        lint: Lint::Fine,
        migration: Migration::NeedsTimeout,
        first_sampled: RareEvent::Needs(SCALE),
        second_sampled: RareEvent::Needs(SCALE),
        ..ALL_FINE
    },
    Conditions {
        title: "one run contradicts an active memory, which counts as harm",
        lint: Lint::Fine,
        first_sampled: RareEvent::Refuses(SCALE),
        ..ALL_FINE
    },
    Conditions {
        title: "a second run contradicts it, so it is deleted. Lint needs its config again while its memory is in limbo",
        lint: Lint::NeedsConfig,
        first_sampled: RareEvent::Refuses(SCALE),
        ..ALL_FINE
    },
    Conditions {
        title: "a person has deleted the memory about incidents; one run shows something new",
        first_sampled: RareEvent::Needs(WARM_UP),
        ..ALL_FINE
    },
    Conditions {
        title: "an agent rephrases what was deleted; another run contradicts a tentative memory",
        first_sampled: RareEvent::Remarks(&["Always list all open incidents before you deploy."]),
        second_sampled: RareEvent::Refuses(WARM_UP),
        ..ALL_FINE
    },
    Conditions {
        title: "the memory about the build is opened and not followed: being read counts as use",
        build_note_opened: true,
        ..ALL_FINE
    },
    Conditions { title: "no agent reads the memory about the build", ..ALL_FINE },
    Conditions { title: "no agent reads the memory about the build", ..ALL_FINE },
    Conditions { title: "the memory about the build falls below the weight for injection", ..ALL_FINE },
    Conditions { title: "in limbo no agent can read it, so it fades further", ..ALL_FINE },
    Conditions { title: "the memory about the build is archived", ..ALL_FINE },
];

const ALL_FINE: Conditions = Conditions {
    title: "",
    cache_cold: false,
    lint: Lint::Skipped,
    tests: Tests::Fine,
    migration: Migration::None,
    notify: false,
    first_sampled: RareEvent::Nothing,
    second_sampled: RareEvent::Nothing,
    region_note_opened: false,
    build_note_opened: false,
};

/// 1-based number of the window before which the operator deletes a memory.
const DELETION_BEFORE_WINDOW: u64 = 8;

/// Runs all windows of the workflow and returns the number of events sent.
pub(super) async fn run_release_workflow(retro: &Instance, folder: &Path) -> Result<u64> {
    println!("   {WORKFLOW}");
    for (act, world) in (1u64..).zip(WINDOWS) {
        if act == DELETION_BEFORE_WINDOW {
            delete_as_person(retro).await?;
        }
        let looked_at = sampled_runs(WORKFLOW, act)?;
        let mut events = Vec::new();
        for number in 0..RUNS_PER_WINDOW {
            let rank = looked_at.iter().position(|sampled| *sampled == number);
            let run = AgentRun::new(
                retro,
                WORKFLOW,
                format!("release-{:03}", (act - 1) * RUNS_PER_WINDOW + number + 1),
            );
            events.push(simulate_release(run, world, rank).await?);
        }
        finish_window(retro, folder, WORKFLOW, act, world.title, &events).await?;
    }
    Ok(WINDOWS.len() as u64 * RUNS_PER_WINDOW)
}

async fn delete_as_person(retro: &Instance) -> Result<()> {
    let rows = retro.run_json(&["memories", "list", "--workflow", WORKFLOW, "--status", "active"]).await?;
    let about =
        |row: &&Value| row["lesson"]["title"].as_str().is_some_and(|title| title.contains(INCIDENTS_PHRASE));
    let row = rows
        .as_array()
        .and_then(|rows| rows.iter().find(about))
        .context("no active memory about incidents")?;
    let id = row["id"].as_str().context("a memory without an id")?;
    let reason = "the incident tool does this by itself now";
    retro.run_json(&["memories", "delete", id, "--reason", reason]).await?;
    println!("   a person: retro memories delete {id} --reason \"{reason}\"");
    Ok(())
}

/// Simulates one run and returns its event. `rank` is the run's 0-based position in the sample, or `None` if
/// the run is not sampled.
async fn simulate_release(mut run: AgentRun<'_>, world: Conditions, rank: Option<usize>) -> Result<Value> {
    let rare = match rank {
        Some(0) => world.first_sampled,
        Some(1) => world.second_sampled,
        _ => RareEvent::Nothing,
    };
    // Also presents memories of steps that the run does not reach, so that unmet cues occur.
    for step in ["migrate", "notify", "lint"] {
        run.request_context_ahead(step).await?;
    }
    simulate_build(&mut run, world).await?;
    simulate_lint(&mut run, world, rank).await?;
    simulate_tests(&mut run, world).await?;
    simulate_migration(&mut run, world).await?;
    simulate_deploy(&mut run, world).await?;
    simulate_notify(&mut run, world).await?;
    apply_rare_event(&mut run, rare).await?;
    Ok(run.into_event())
}

/// Simulates the build step, in which the agent never follows its memories.
async fn simulate_build(run: &mut AgentRun<'_>, world: Conditions) -> Result<()> {
    let advice = run.enter_step("build", "Build the image.").await?;
    if world.build_note_opened
        && let Some(memory) = advice.find_advice("pull")
    {
        run.open_memory(memory).await?;
    }
    let plain = json!({"image": "checkout"});
    if world.cache_cold {
        run.record_call("build", "build_image", &plain, "Error: base layer not found in the local cache");
        run.record_call(
            "build",
            "build_image",
            &json!({"image": "checkout", "pull": "always"}),
            "built checkout:latest",
        );
    } else {
        run.record_call("build", "build_image", &plain, "built checkout:latest");
    }
    Ok(())
}

async fn simulate_lint(run: &mut AgentRun<'_>, world: Conditions, rank: Option<usize>) -> Result<()> {
    if world.lint == Lint::Skipped || (world.lint == Lint::ConfigGone && rank != Some(1)) {
        return Ok(());
    }
    let advice = run.enter_step("lint", "Lint the sources.").await?;
    let (plain, configured) = (json!({"path": "src"}), json!({"path": "src", "config": "strict"}));
    match world.lint {
        Lint::ConfigGone if advice.advises_argument("config") => {
            run.record_call("lint", "run_lint", &configured, "Error: unknown argument config");
            run.mark_failed();
        }
        Lint::NeedsConfig if advice.advises_argument("config") => {
            run.record_call("lint", "run_lint", &configured, "0 findings")
        }
        Lint::NeedsConfig => {
            run.record_call("lint", "run_lint", &plain, "Error: no lint configuration was given");
            run.record_call("lint", "run_lint", &configured, "0 findings");
        }
        _ => run.record_call("lint", "run_lint", &plain, "0 findings"),
    }
    Ok(())
}

async fn simulate_tests(run: &mut AgentRun<'_>, world: Conditions) -> Result<()> {
    let advice = run.enter_step("test", "Run the tests.").await?;
    let (plain, parallel) = (json!({"suite": "unit"}), json!({"suite": "unit", "parallel": true}));
    let passed = "212 passed";
    match (world.tests, advice.advises_argument("parallel")) {
        (Tests::Slow, false) => {
            run.record_call("test", "run_tests", &plain, "Error: the suite timed out after 600 s");
            run.record_call("test", "run_tests", &parallel, passed);
        }
        (Tests::Slow, true) => run.record_call("test", "run_tests", &parallel, passed),
        (Tests::ParallelBreaks, true) => {
            run.record_call(
                "test",
                "run_tests",
                &parallel,
                "Error: the database is locked by another worker",
            );
            run.record_call("test", "run_tests", &plain, passed);
        }
        (Tests::ParallelBreaks | Tests::Fine, _) => run.record_call("test", "run_tests", &plain, passed),
    }
    Ok(())
}

async fn simulate_migration(run: &mut AgentRun<'_>, world: Conditions) -> Result<()> {
    if world.migration == Migration::None {
        return Ok(());
    }
    let advice = run.enter_step("migrate", "Run the migration.").await?;
    let (plain, patient) = (json!({"name": "add_index"}), json!({"name": "add_index", "lock_timeout_s": 60}));
    match (world.migration, advice.advises_argument("lock_timeout_s")) {
        (Migration::NeedsTimeout, false) => {
            run.record_call(
                "migrate",
                "run_migration",
                &plain,
                "Error: gave up waiting for a lock on the table",
            );
            run.record_call("migrate", "run_migration", &patient, "applied add_index");
        }
        (Migration::NeedsTimeout, true) => {
            run.record_call("migrate", "run_migration", &patient, "applied add_index")
        }
        (Migration::TimeoutGone, true) => {
            run.record_call("migrate", "run_migration", &patient, "Error: unknown argument lock_timeout_s");
            run.mark_failed();
        }
        _ => run.record_call("migrate", "run_migration", &plain, "applied add_index"),
    }
    Ok(())
}

/// Simulates the deploy step, which always requires the region. The agent follows its memories.
async fn simulate_deploy(run: &mut AgentRun<'_>, world: Conditions) -> Result<()> {
    let advice = run.enter_step("deploy", "Deploy the service.").await?;
    if world.region_note_opened
        && let Some(memory) = advice.find_advice("region")
    {
        run.open_memory(memory).await?;
    }
    deploy_service(run, "deploy", &advice);
    Ok(())
}

fn deploy_service(run: &mut AgentRun<'_>, step: &str, advice: &HandedMemories) {
    let (plain, placed) =
        (json!({"service": "checkout"}), json!({"service": "checkout", "region": "eu-west-1"}));
    if !advice.advises_argument("region") {
        run.record_call(step, "deploy_service", &plain, "Error: missing required argument 'region'");
    }
    run.record_call(step, "deploy_service", &placed, "deployed checkout");
}

async fn simulate_notify(run: &mut AgentRun<'_>, world: Conditions) -> Result<()> {
    if !world.notify {
        return Ok(());
    }
    run.enter_step("notify", "Tell the channel.").await?;
    run.record_call("notify", "post_message", &json!({"text": "released"}), "Error: no channel was given");
    run.record_call("notify", "post_message", &json!({"text": "released", "channel": "#releases"}), "sent");
    Ok(())
}

async fn apply_rare_event(run: &mut AgentRun<'_>, rare: RareEvent) -> Result<()> {
    match rare {
        RareEvent::Nothing => {}
        RareEvent::Remarks(remarks) => remarks.iter().for_each(|remark| run.add_remark(remark)),
        RareEvent::RollBack => {
            let advice = run.enter_step("rollback", "Roll the service back.").await?;
            deploy_service(run, "rollback", &advice);
        }
        RareEvent::Needs(tool) => {
            run.enter_step(tool.step, "Do what is rarely done.").await?;
            run.record_call(tool.step, tool.name, &json!({"nodes": 2}), "Error: nodes still hold sessions");
            run.record_call(tool.step, tool.name, &json!({"nodes": 2, tool.argument: true}), "done");
        }
        RareEvent::Refuses(tool) => {
            run.enter_step(tool.step, "Do what is rarely done.").await?;
            run.record_call(
                tool.step,
                tool.name,
                &json!({"nodes": 2, tool.argument: true}),
                "Error: switched off for this pool",
            );
            run.record_call(tool.step, tool.name, &json!({"nodes": 2}), "done");
        }
    }
    Ok(())
}
