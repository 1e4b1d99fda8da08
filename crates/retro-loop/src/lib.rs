#![doc = include_str!("../README.md")]

mod ablation;
mod agent;
mod chance;
mod curve;
mod instance;
mod play;
mod score;
mod table;
mod trace;
mod truth;
mod world;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use instance::Instance;
use play::{Part, Story, WINDOW};
use score::{Summary, Told};

pub use world::World;

/// Runs of one workflow, at most: a retrospective's list is read after each window.
const RUNS_MAX: u32 = 10_000;

/// How worlds are played.
#[derive(Debug, Clone)]
pub struct Playing {
    /// The program to start.
    pub retro: PathBuf,
    /// Where its folders go; they are removed.
    pub folder: PathBuf,
    /// Each is a tenant of its own.
    pub seeds: u64,
    /// Of each workflow; whole windows of ten.
    pub runs: u32,
    /// Workflows under way at once.
    pub side_by_side: usize,
    /// Investigations that the program carries out at once.
    pub investigators: u32,
    /// Pause between two looks at whether a retrospective has closed.
    pub look_every: Duration,
}

/// What came of it.
#[derive(Debug)]
pub struct Played {
    stories: Vec<Vec<Story>>,
    /// How long it took.
    pub took: Duration,
    spent: [f64; 4],
}

impl Playing {
    /// Plays every workflow of every world with every seed against one instance under a policy file's text.
    ///
    /// Fails with the first thing that went wrong: an answer of the program that is none, or a retrospective that does not
    /// close.
    pub async fn play(&self, worlds: &Arc<Vec<World>>, policy: &str) -> Result<Played> {
        ensure!(self.seeds > 0, "no seeds, no runs");
        ensure!(
            self.runs.is_multiple_of(WINDOW) && (WINDOW..=RUNS_MAX).contains(&self.runs),
            "{} runs: windows have {WINDOW}, and {RUNS_MAX} are the most",
            self.runs
        );
        let began = Instant::now();
        let retro = Arc::new(Instance::start(&self.retro, &self.folder, policy, self.investigators).await?);
        let places = Arc::new(Semaphore::new(self.side_by_side.max(1)));
        let mut under_way: JoinSet<Result<(usize, Story)>> = JoinSet::new();
        for seed in 1..=self.seeds {
            for at in 0..worlds.len() {
                for workflow in 0..worlds[at].workflows.len() {
                    let (retro, places, worlds) = (retro.clone(), places.clone(), worlds.clone());
                    let (runs, look_every) = (self.runs, self.look_every);
                    under_way.spawn(async move {
                        let _place = places.acquire().await.context("it is never closed")?;
                        let part = Part { world: &worlds[at], workflow, seed, runs, look_every };
                        Ok((at, part.play(&retro).await?))
                    });
                }
            }
        }
        let mut stories = vec![Vec::new(); worlds.len()];
        while let Some(told) = under_way.join_next().await {
            let (at, story) = told.context("a workflow's task panicked")??;
            stories[at].push(story);
        }
        // They end in any order; what is told of them does not depend on it.
        stories
            .iter_mut()
            .for_each(|told: &mut Vec<Story>| told.sort_by_key(|story| (story.seed, story.workflow)));
        let retro = Arc::into_inner(retro).context("a task still holds the instance")?;
        let spent = retro.spent.seconds();
        retro.stop().await?;
        Ok(Played { stories, took: began.elapsed(), spent })
    }
}

impl Played {
    fn told<'w>(&self, worlds: &'w [World]) -> Vec<Told<'w>> {
        let each = worlds.iter().zip(&self.stories);
        each.map(|(world, stories)| Told { world, stories: stories.clone() }).collect()
    }

    /// What was seen, as text for people: each world in a line, the curve, the goals, and where the time went.
    pub fn text(&self, worlds: &[World]) -> String {
        let told = self.told(worlds);
        let mut text = table::worlds(&told);
        text.push_str(&table::curve(&score::curve(&told)));
        text.push_str(&table::goals(&score::summary(&told)));
        text.push_str(&table::wrong(&told));
        text.push_str(&table::unknown(&told));
        text.push_str(&table::spent(self.took, self.spent));
        text
    }

    /// The curves as a picture.
    pub fn picture(&self, worlds: &[World]) -> String {
        curve::svg(&score::curve(&self.told(worlds)))
    }

    /// Every figure.
    pub fn json(&self, worlds: &[World]) -> serde_json::Value {
        let told = self.told(worlds);
        let of_world = |told: &Told<'_>| {
            let one = std::slice::from_ref(told);
            serde_json::json!({"world": told.world.name, "summary": score::summary(one), "curve": score::curve(one)})
        };
        serde_json::json!({
            "summary": score::summary(&told),
            "curve": score::curve(&told),
            "worlds": told.iter().map(of_world).collect::<Vec<_>>(),
            "seconds": self.took.as_secs_f64(),
        })
    }

    /// The share of runs that succeeded with memory and without, and the precision and recall, for a test that wants to
    /// know that there was something to see.
    pub fn figures(&self, worlds: &[World]) -> Figures {
        let Summary { success, success_without, precision, recall, .. } = score::summary(&self.told(worlds));
        Figures { success, success_without, precision, recall }
    }
}

/// The least that says whether the loop closes. Shares, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// Of runs that succeeded.
    pub success: f64,
    /// Of the same runs without memory.
    pub success_without: f64,
    /// Of active memories, from the tenth retrospective on; `None` without any.
    pub precision: Option<f64>,
    /// Of causes that have been there for ten retrospectives; `None` without any.
    pub recall: Option<f64>,
}

/// What the ablations say: base and each of them, with the same few seeds.
pub async fn ablations(
    playing: &Playing,
    worlds: &Arc<Vec<World>>,
    said: &dyn Fn(&str),
) -> Result<(String, serde_json::Value)> {
    let base = playing.play(worlds, "").await?;
    let base_told = base.told(worlds);
    let mut rows = Vec::new();
    for one in ablation::ALL {
        let played = playing.play(worlds, &one.policy_file()).await?;
        said(&format!("played without {} in {:.0} s", one.name, played.took.as_secs_f64()));
        rows.push(one.judged(&base_told, &played.told(worlds)));
    }
    Ok((
        ablation::table(&score::summary(&base_told), &rows),
        ablation::json(&score::summary(&base_told), &rows),
    ))
}

/// Reads the worlds of these folders.
pub fn worlds(folders: &[PathBuf]) -> Result<Arc<Vec<World>>> {
    let worlds: Vec<World> = folders.iter().map(|folder| World::read(folder)).collect::<Result<_>>()?;
    let mut names: Vec<&str> = worlds.iter().map(|world| world.name.as_str()).collect();
    names.sort_unstable();
    ensure!(names.windows(2).all(|two| two[0] != two[1]), "two worlds have one name: {names:?}");
    Ok(Arc::new(worlds))
}

/// The folders of worlds in a folder: those that have a `world.toml`, in the order of their names.
pub fn worlds_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let listed = std::fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    let mut folders: Vec<PathBuf> = listed
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("world.toml").is_file())
        .collect();
    folders.sort();
    ensure!(!folders.is_empty(), "{} has no folder with a world.toml", folder.display());
    Ok(folders)
}
