//! `composed-release`: build, lint, test, migrate, deploy, notify, and now and then a scale-down or a roll-back.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{RUNS, close_act, sampled};
use crate::demo::agent::{Advice, Run};
use crate::instance::Instance;

const WORKFLOW: &str = "composed-release";
/// The memory that a person deletes says this.
const INCIDENTS: &str = "open incidents";

/// How the world stands in one act. What is not named is fine.
#[derive(Clone, Copy, Default)]
struct World {
    title: &'static str,
    /// The image cache is empty: a build has to pull.
    cache_cold: bool,
    lint: Lint,
    tests: Tests,
    migration: Migration,
    /// The step in which the channel is told is reached.
    notify: bool,
    /// What one looked-at run, the first of them, meets besides.
    first_looked_at: Rare,
    /// What the second looked-at run meets besides.
    second_looked_at: Rare,
    /// Agents open the memory about the region before they deploy.
    opened: bool,
    /// Agents open the note about the build, and do not follow it.
    build_opened: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Lint {
    /// The step is not reached.
    #[default]
    Skipped,
    /// It fails without its `config`.
    NeedsConfig,
    /// It works as it is.
    Fine,
    /// One looked-at agent follows its notes, and `config` is gone.
    ConfigGone,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Tests {
    #[default]
    Fine,
    /// They time out unless they run in parallel.
    Slow,
    /// They break when they run in parallel.
    ParallelBreaks,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Migration {
    /// There is nothing to migrate.
    #[default]
    None,
    /// It fails without a lock timeout.
    NeedsTimeout,
    /// The option is gone; whoever passes it fails.
    TimeoutGone,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Rare {
    #[default]
    Nothing,
    /// The agent's own remarks.
    Says(&'static [&'static str]),
    /// A roll-back that misses its region.
    RollBack,
    /// A tool of a rare step works only with its extra argument.
    Needs(RareTool),
    /// The same tool works only without it.
    Refuses(RareTool),
}

/// A tool of a step that few runs reach.
#[derive(Clone, Copy, PartialEq, Eq)]
struct RareTool {
    step: &'static str,
    name: &'static str,
    argument: &'static str,
}

const SCALE: RareTool = RareTool { step: "scale", name: "scale_down", argument: "drain" };
const WARM_UP: RareTool = RareTool { step: "warm-up", name: "warm_cache", argument: "cold_start" };

/// The acts, in order. Runs of an act differ only in what the first two looked-at ones meet.
const ACTS: [World; 15] = [
    World {
        title: "nobody knows anything: every step is learned the hard way",
        cache_cold: true,
        lint: Lint::NeedsConfig,
        tests: Tests::Slow,
        migration: Migration::NeedsTimeout,
        notify: true,
        first_looked_at: Rare::Says(&["List the open incidents before you deploy."]),
        second_looked_at: Rare::Says(&["Before you deploy, list the open incidents."]),
        ..FINE
    },
    World {
        title: "the notes are handed out: deploy and test follow theirs, build ignores its own, notify is not reached",
        tests: Tests::Slow,
        opened: true,
        first_looked_at: Rare::Says(&["Wait 5 minutes after a deploy before you check the error rate."]),
        second_looked_at: Rare::Says(&["Wait 50 minutes after a deploy before you check the error rate."]),
        ..FINE
    },
    World {
        title: "the world turns: parallel tests break, two options are gone; whoever follows the old notes fails",
        lint: Lint::ConfigGone,
        tests: Tests::ParallelBreaks,
        migration: Migration::TimeoutGone,
        first_looked_at: Rare::RollBack,
        ..FINE
    },
    World {
        title: "tests are slow again: the note against parallel falls, and a tombstone keeps the old one away",
        lint: Lint::Fine,
        tests: Tests::Slow,
        first_looked_at: Rare::Says(&[
            "Tag the release in git before you deploy.",
            "Before you deploy, tag the release in git.",
        ]),
        ..FINE
    },
    World {
        title: "the migration needs its timeout again: the archived note comes back, first as tentative",
        lint: Lint::Fine,
        migration: Migration::NeedsTimeout,
        first_looked_at: Rare::Needs(SCALE),
        second_looked_at: Rare::Needs(SCALE),
        ..FINE
    },
    World {
        title: "one run shows the opposite of an active note: that counts as a harm",
        lint: Lint::Fine,
        first_looked_at: Rare::Refuses(SCALE),
        ..FINE
    },
    World {
        title: "a second run shows it: the note is deleted. Lint needs its config again while its note is in limbo",
        lint: Lint::NeedsConfig,
        first_looked_at: Rare::Refuses(SCALE),
        ..FINE
    },
    World {
        title: "a person has deleted the note about incidents; one run learns something new",
        first_looked_at: Rare::Needs(WARM_UP),
        ..FINE
    },
    World {
        title: "an agent says in other words what was deleted; another shows the opposite of a tentative note",
        first_looked_at: Rare::Says(&["Always list all open incidents before you deploy."]),
        second_looked_at: Rare::Refuses(WARM_UP),
        ..FINE
    },
    World {
        title: "the note about the build is opened and not followed: read counts as use",
        build_opened: true,
        ..FINE
    },
    World { title: "nobody reads the note about the build", ..FINE },
    World { title: "nobody reads the note about the build", ..FINE },
    World { title: "the note about the build falls below what is injected", ..FINE },
    World { title: "in limbo nobody could read it: it fades on", ..FINE },
    World { title: "and is archived", ..FINE },
];

const FINE: World = World {
    title: "",
    cache_cold: false,
    lint: Lint::Skipped,
    tests: Tests::Fine,
    migration: Migration::None,
    notify: false,
    first_looked_at: Rare::Nothing,
    second_looked_at: Rare::Nothing,
    opened: false,
    build_opened: false,
};

/// The act before which a person deletes a memory.
const DELETION_BEFORE_ACT: u64 = 8;

/// Plays every act. Returns how many events were sent.
pub(super) async fn play(retro: &Instance, folder: &Path) -> Result<u64> {
    println!("   {WORKFLOW}");
    for (act, world) in (1u64..).zip(ACTS) {
        if act == DELETION_BEFORE_ACT {
            delete_by_a_person(retro).await?;
        }
        let looked_at = sampled(WORKFLOW, act)?;
        let mut events = Vec::new();
        for number in 0..RUNS {
            let rank = looked_at.iter().position(|sampled| *sampled == number);
            let run = Run::new(retro, WORKFLOW, format!("release-{:03}", (act - 1) * RUNS + number + 1));
            events.push(release(run, world, rank).await?);
        }
        close_act(retro, folder, WORKFLOW, act, world.title, &events).await?;
    }
    Ok(ACTS.len() as u64 * RUNS)
}

async fn delete_by_a_person(retro: &Instance) -> Result<()> {
    let rows = retro.ask(&["memories", "list", "--workflow", WORKFLOW, "--status", "active"]).await?;
    let about = |row: &&Value| row["lesson"]["title"].as_str().is_some_and(|title| title.contains(INCIDENTS));
    let row = rows
        .as_array()
        .and_then(|rows| rows.iter().find(about))
        .context("no active memory about incidents")?;
    let id = row["id"].as_str().context("a memory without an id")?;
    let reason = "the incident tool does this by itself now";
    retro.ask(&["memories", "delete", id, "--reason", reason]).await?;
    println!("   a person: retro memories delete {id} --reason \"{reason}\"");
    Ok(())
}

/// One run. `rank` says whether the retrospective will look at it, and as which.
async fn release(mut run: Run<'_>, world: World, rank: Option<usize>) -> Result<Value> {
    let rare = match rank {
        Some(0) => world.first_looked_at,
        Some(1) => world.second_looked_at,
        _ => Rare::Nothing,
    };
    for step in ["migrate", "notify", "lint"] {
        run.look_ahead(step).await?;
    }
    build(&mut run, world).await?;
    lint(&mut run, world, rank).await?;
    test(&mut run, world).await?;
    migrate(&mut run, world).await?;
    deploy(&mut run, world).await?;
    notify(&mut run, world).await?;
    meet(&mut run, rare).await?;
    Ok(run.event())
}

/// The agent of this step never reads its notes.
async fn build(run: &mut Run<'_>, world: World) -> Result<()> {
    let advice = run.enter("build", "Build the image.").await?;
    if world.build_opened
        && let Some(memory) = advice.to_pass("pull")
    {
        run.open(memory).await?;
    }
    let plain = json!({"image": "checkout"});
    if world.cache_cold {
        run.call("build", "build_image", &plain, "Error: base layer not found in the local cache");
        run.call(
            "build",
            "build_image",
            &json!({"image": "checkout", "pull": "always"}),
            "built checkout:latest",
        );
    } else {
        run.call("build", "build_image", &plain, "built checkout:latest");
    }
    Ok(())
}

async fn lint(run: &mut Run<'_>, world: World, rank: Option<usize>) -> Result<()> {
    if world.lint == Lint::Skipped || (world.lint == Lint::ConfigGone && rank != Some(1)) {
        return Ok(());
    }
    let advice = run.enter("lint", "Lint the sources.").await?;
    let (plain, configured) = (json!({"path": "src"}), json!({"path": "src", "config": "strict"}));
    match world.lint {
        Lint::ConfigGone if advice.says_pass("config") => {
            run.call("lint", "run_lint", &configured, "Error: unknown argument config");
            run.give_up();
        }
        Lint::NeedsConfig if advice.says_pass("config") => {
            run.call("lint", "run_lint", &configured, "0 findings")
        }
        Lint::NeedsConfig => {
            run.call("lint", "run_lint", &plain, "Error: no lint configuration was given");
            run.call("lint", "run_lint", &configured, "0 findings");
        }
        _ => run.call("lint", "run_lint", &plain, "0 findings"),
    }
    Ok(())
}

async fn test(run: &mut Run<'_>, world: World) -> Result<()> {
    let advice = run.enter("test", "Run the tests.").await?;
    let (plain, parallel) = (json!({"suite": "unit"}), json!({"suite": "unit", "parallel": true}));
    let passed = "212 passed";
    match (world.tests, advice.says_pass("parallel")) {
        (Tests::Slow, false) => {
            run.call("test", "run_tests", &plain, "Error: the suite timed out after 600 s");
            run.call("test", "run_tests", &parallel, passed);
        }
        (Tests::Slow, true) => run.call("test", "run_tests", &parallel, passed),
        (Tests::ParallelBreaks, true) => {
            run.call("test", "run_tests", &parallel, "Error: the database is locked by another worker");
            run.call("test", "run_tests", &plain, passed);
        }
        (Tests::ParallelBreaks | Tests::Fine, _) => run.call("test", "run_tests", &plain, passed),
    }
    Ok(())
}

async fn migrate(run: &mut Run<'_>, world: World) -> Result<()> {
    if world.migration == Migration::None {
        return Ok(());
    }
    let advice = run.enter("migrate", "Run the migration.").await?;
    let (plain, patient) = (json!({"name": "add_index"}), json!({"name": "add_index", "lock_timeout_s": 60}));
    match (world.migration, advice.says_pass("lock_timeout_s")) {
        (Migration::NeedsTimeout, false) => {
            run.call("migrate", "run_migration", &plain, "Error: gave up waiting for a lock on the table");
            run.call("migrate", "run_migration", &patient, "applied add_index");
        }
        (Migration::NeedsTimeout, true) => {
            run.call("migrate", "run_migration", &patient, "applied add_index")
        }
        (Migration::TimeoutGone, true) => {
            run.call("migrate", "run_migration", &patient, "Error: unknown argument lock_timeout_s");
            run.give_up();
        }
        _ => run.call("migrate", "run_migration", &plain, "applied add_index"),
    }
    Ok(())
}

/// The region is always required; the agent of this step does what its notes say.
async fn deploy(run: &mut Run<'_>, world: World) -> Result<()> {
    let advice = run.enter("deploy", "Deploy the service.").await?;
    if world.opened
        && let Some(memory) = advice.to_pass("region")
    {
        run.open(memory).await?;
    }
    deploy_service(run, "deploy", &advice);
    Ok(())
}

fn deploy_service(run: &mut Run<'_>, step: &str, advice: &Advice) {
    let (plain, placed) =
        (json!({"service": "checkout"}), json!({"service": "checkout", "region": "eu-west-1"}));
    if !advice.says_pass("region") {
        run.call(step, "deploy_service", &plain, "Error: missing required argument 'region'");
    }
    run.call(step, "deploy_service", &placed, "deployed checkout");
}

async fn notify(run: &mut Run<'_>, world: World) -> Result<()> {
    if !world.notify {
        return Ok(());
    }
    run.enter("notify", "Tell the channel.").await?;
    run.call("notify", "post_message", &json!({"text": "released"}), "Error: no channel was given");
    run.call("notify", "post_message", &json!({"text": "released", "channel": "#releases"}), "sent");
    Ok(())
}

async fn meet(run: &mut Run<'_>, rare: Rare) -> Result<()> {
    match rare {
        Rare::Nothing => {}
        Rare::Says(remarks) => remarks.iter().for_each(|remark| run.remark(remark)),
        Rare::RollBack => {
            let advice = run.enter("rollback", "Roll the service back.").await?;
            deploy_service(run, "rollback", &advice);
        }
        Rare::Needs(tool) => {
            run.enter(tool.step, "Do what is rarely done.").await?;
            run.call(tool.step, tool.name, &json!({"nodes": 2}), "Error: nodes still hold sessions");
            run.call(tool.step, tool.name, &json!({"nodes": 2, tool.argument: true}), "done");
        }
        Rare::Refuses(tool) => {
            run.enter(tool.step, "Do what is rarely done.").await?;
            run.call(
                tool.step,
                tool.name,
                &json!({"nodes": 2, tool.argument: true}),
                "Error: switched off for this pool",
            );
            run.call(tool.step, tool.name, &json!({"nodes": 2}), "done");
        }
    }
    Ok(())
}
