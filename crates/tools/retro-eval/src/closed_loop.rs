//! Measures how true and how useful the learned memories are, in simulated worlds whose truth is known.
//!
//! The closed loop is a black box test: it uses only the public interface of the `retro` binary, and neither
//! another crate of the workspace nor another module of this crate except `http_client`. `cargo xtask tidy`
//! checks that.

mod ablation;
mod agent;
mod curve;
mod form;
mod instance;
mod lesson;
mod remedy;
mod repositories;
mod score;
mod seeded_rng;
mod simulation;
mod table;
mod trajectory;
mod truth;
mod words;
mod world;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use instance::Instance;
use score::{Summary, WorldResult};
use simulation::{WINDOW, WorkflowResult, WorkflowSimulation};

pub use world::World;

/// Maximum number of runs per workflow. The memories are listed after each window, so more runs would be
/// slow.
const RUNS_MAX: u32 = 10_000;

/// Settings of a simulation.
#[derive(Debug, Clone)]
pub struct Simulation {
    /// Path of the `retro` binary.
    pub retro: PathBuf,
    /// Folder in which temporary data is created and removed.
    pub folder: PathBuf,
    /// Number of seeds. Each seed is simulated under its own tenant.
    pub seeds: u64,
    /// Number of runs per workflow, a multiple of the window size of ten.
    pub runs: u32,
    /// Number of repositories over which the runs of a workflow are spread; 0 if they name none.
    pub repositories: u32,
    /// Number of workflows simulated concurrently.
    pub concurrency: usize,
    /// Maximum number of concurrent investigations in the retro process.
    pub investigators: u32,
    /// Maximum time that a retrospective takes.
    pub close_timeout: Duration,
    /// Interval at which an open retrospective is polled.
    pub poll_interval: Duration,
}

/// Result of a simulation.
#[derive(Debug)]
pub struct SimulationResult {
    workflow_results: Vec<Vec<WorkflowResult>>,
    /// Wall-clock duration of the simulation.
    pub took: Duration,
    time_spent: [f64; 4],
}

impl Simulation {
    /// Simulates every workflow of every world with every seed, against one instance with this policy file
    /// text.
    ///
    /// Fails at the first error, such as an invalid response of the program or a retrospective that does not
    /// close.
    pub async fn run(&self, worlds: &Arc<Vec<World>>, policy: &str) -> Result<SimulationResult> {
        ensure!(self.seeds > 0, "at least one seed is needed");
        ensure!(
            self.runs.is_multiple_of(WINDOW) && (WINDOW..=RUNS_MAX).contains(&self.runs),
            "{} runs: must be a multiple of {WINDOW} and at most {RUNS_MAX}",
            self.runs
        );
        let began = Instant::now();
        let retro = Arc::new(
            Instance::start(&self.retro, &self.folder, policy, self.investigators, self.close_timeout)
                .await?,
        );
        let places = Arc::new(Semaphore::new(self.concurrency.max(1)));
        let mut under_way: JoinSet<Result<(usize, WorkflowResult)>> = JoinSet::new();
        for seed in 1..=self.seeds {
            for at in 0..worlds.len() {
                for workflow in 0..worlds[at].workflows.len() {
                    let (retro, places, worlds) = (retro.clone(), places.clone(), worlds.clone());
                    let (runs, repositories, look_every) = (self.runs, self.repositories, self.poll_interval);
                    under_way.spawn(async move {
                        // A named guard is held until the workflow is done; `_` would release the permit
                        // immediately.
                        let _place = places.acquire().await.context("the semaphore is closed")?;
                        let part = WorkflowSimulation {
                            world: &worlds[at],
                            workflow,
                            seed,
                            runs,
                            repositories,
                            poll_interval: look_every,
                        };
                        Ok((at, part.simulate(&retro).await?))
                    });
                }
            }
        }
        let mut stories = vec![Vec::new(); worlds.len()];
        while let Some(results) = under_way.join_next().await {
            let (at, story) = results.context("a workflow's task panicked")??;
            stories[at].push(story);
        }
        // Workflows finish in any order; sorting makes the output deterministic.
        stories.iter_mut().for_each(|results: &mut Vec<WorkflowResult>| {
            results.sort_by_key(|story| (story.seed, story.workflow))
        });
        // All tasks have ended, so this is the only handle left.
        let retro = Arc::into_inner(retro).context("a task still holds the instance")?;
        let spent = retro.time_spent.as_seconds();
        retro.stop().await?;
        Ok(SimulationResult { workflow_results: stories, took: began.elapsed(), time_spent: spent })
    }
}

impl SimulationResult {
    fn world_results<'w>(&self, worlds: &'w [World]) -> Vec<WorldResult<'w>> {
        let each = worlds.iter().zip(&self.workflow_results);
        each.map(|(world, stories)| WorldResult { world, workflow_results: stories.clone() }).collect()
    }

    /// Renders the results as text: one line per world, the curve, the goals, false memories, unknown causes,
    /// and the time spent.
    pub fn render_text(&self, worlds: &[World]) -> String {
        let results = self.world_results(worlds);
        let mut text = table::render_worlds(&results);
        text.push_str(&table::render_curve(&score::compute_curve(&results)));
        text.push_str(&table::render_goals(&score::compute_summary(&results)));
        text.push_str(&table::render_handed(&results));
        text.push_str(&table::render_wrong_memories(&results));
        text.push_str(&table::render_unknown_causes(&results));
        text.push_str(&table::render_time_spent(self.took, self.time_spent));
        text
    }

    /// Renders the curves as an SVG chart.
    pub fn render_svg(&self, worlds: &[World]) -> String {
        curve::render_svg(&score::compute_curve(&self.world_results(worlds)))
    }

    /// Returns all figures as JSON.
    pub fn to_json(&self, worlds: &[World]) -> serde_json::Value {
        let results = self.world_results(worlds);
        let of_world = |results: &WorldResult<'_>| {
            let one = std::slice::from_ref(results);
            serde_json::json!({"world": results.world.name, "summary": score::compute_summary(one), "curve": score::compute_curve(one)})
        };
        serde_json::json!({
            "summary": score::compute_summary(&results),
            "curve": score::compute_curve(&results),
            "worlds": results.iter().map(of_world).collect::<Vec<_>>(),
            "causes": score::score_causes(&results),
            "memories": score::list_final_memories(&results),
            "seconds": self.took.as_secs_f64(),
        })
    }

    /// Returns the success shares with and without memory, precision and recall, with which tests check that
    /// the simulation is not empty.
    pub fn key_figures(&self, worlds: &[World]) -> Figures {
        let Summary { success, success_without, precision, recall, .. } =
            score::compute_summary(&self.world_results(worlds));
        Figures { success, success_without, precision, recall }
    }
}

/// Key figures of a simulation, as shares from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// Share of runs that succeeded.
    pub success: f64,
    /// Share of the same runs that succeeded without memory.
    pub success_without: f64,
    /// Share of active memories that are not false, from the tenth retrospective on; `None` if there are no
    /// active memories.
    pub precision: Option<f64>,
    /// Share of the causes present for ten retrospectives that were known by then; `None` if there are no
    /// such causes.
    pub recall: Option<f64>,
}

/// Simulates the base without ablation and then every ablation, with the same seeds. Returns the results as a
/// table and as JSON.
pub async fn run_ablations(
    playing: &Simulation,
    worlds: &Arc<Vec<World>>,
    said: &dyn Fn(&str),
) -> Result<(String, serde_json::Value)> {
    let base = playing.run(worlds, "").await?;
    let base_told = base.world_results(worlds);
    let mut rows = Vec::new();
    for one in ablation::ABLATIONS {
        let played = playing.run(worlds, &one.policy_file()).await?;
        said(&format!("simulated without {} in {:.0} s", one.name, played.took.as_secs_f64()));
        rows.push(one.compare_to_base(&base_told, &played.world_results(worlds)));
    }
    Ok((
        ablation::render_table(&score::compute_summary(&base_told), &rows),
        ablation::to_json(&score::compute_summary(&base_told), &rows),
    ))
}

/// Loads the worlds in these folders. Fails if a world is invalid or two worlds have the same name.
pub fn load_worlds(folders: &[PathBuf]) -> Result<Arc<Vec<World>>> {
    let worlds: Vec<World> =
        folders.iter().map(|folder| World::read_folder(folder)).collect::<Result<_>>()?;
    let mut names: Vec<&str> = worlds.iter().map(|world| world.name.as_str()).collect();
    names.sort_unstable();
    ensure!(names.windows(2).all(|two| two[0] != two[1]), "two worlds have the same name: {names:?}");
    Ok(Arc::new(worlds))
}

/// Lists the subfolders that contain a `world.toml`, sorted by path. Fails if there are none.
pub fn find_world_folders(folder: &Path) -> Result<Vec<PathBuf>> {
    let listed = std::fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    let mut folders: Vec<PathBuf> = listed
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("world.toml").is_file())
        .collect();
    folders.sort();
    ensure!(!folders.is_empty(), "{} contains no folder with a world.toml", folder.display());
    Ok(folders)
}
