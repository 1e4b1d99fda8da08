//! Random stories of one workflow's memories: the findings of its retrospectives, and operator actions.

use std::ops::Range;

use proptest::prelude::*;
use retro_core::audience::{Audience, RepoVisibility, RunRepository};
use retro_core::finding::{EvidenceOrigin, Finding, MemoryVerdict};
use retro_core::id::{MemoryId, Step};
use retro_core::memory::{AppliedBatch, Memory};
use retro_core::policy::Policy;
use retro_core::time::add_seconds;

use crate::world::{
    DAY_S, InvestigatedRun, World, WriterInput, decide, finding, in_step, investigate, quote, remark,
};

/// A part of an investigation's result. Memories are identified by their position among those that exist at
/// that time.
#[derive(Debug, Clone)]
pub(crate) enum Observation {
    Find { lesson: usize, step: usize },
    Contradict { memory: usize, elsewhere: bool },
    Pass { memory: usize },
    Judge { memory: usize, verdict: MemoryVerdict },
    Read { memory: usize },
}

#[derive(Debug, Clone)]
pub(crate) enum Chapter {
    Retrospective(Vec<(u8, Vec<Observation>)>),
    Fail,
    Delete { memory: usize },
    Release { memory: usize },
    Wait { days: u64 },
    Manual(Vec<(u8, Vec<Observation>)>),
    Decide { proposal: usize, accept: bool, despite: bool },
}

#[derive(Debug, Clone)]
pub(crate) struct Story {
    pub(crate) policy: Policy,
    pub(crate) chapters: Vec<Chapter>,
}

/// Titles of lessons without a signature. Some are similar, some opposite.
const WORDS: &[&str] = &[
    "List the tables before querying one",
    "Before querying, list all the tables",
    "Never list the tables before querying one",
    "Use rg instead of grep",
    "Use grep instead of rg",
];
/// Number of lessons with a signature that name only an error. The remaining lessons are solutions to the
/// first of these errors.
const ERRORS: usize = 4;
const LESSONS: Range<usize> = 0..WORDS.len() + ERRORS + 3;
/// What the solution of the last lesson prefers: a danger that the default policy holds.
const DANGEROUS: &str = "`git` with `--no-verify`";

pub(crate) fn lesson(nth: usize) -> Finding {
    let Some(error) = nth.checked_sub(WORDS.len()) else { return remark(WORDS[nth]) };
    if error < ERRORS {
        return finding(&format!("L{error}"));
    }
    let mut found = finding(&format!("L{}", error - ERRORS));
    found.title = format!("W{error}");
    let dangerous = nth + 1 == LESSONS.end;
    found.cue.prefer = Some(if dangerous { DANGEROUS } else { "with `region`" }.to_owned());
    found
}

impl Story {
    /// Plays the story. For each retrospective, calls `watch` with the world before it, its batch, its result
    /// and the world after it.
    pub(crate) fn play(&self, watch: impl FnMut(&World, &WriterInput, &AppliedBatch, &World)) -> World {
        let mut world = World::with(self.policy.clone());
        self.play_in(&mut world, watch);
        world
    }

    /// Plays the story in a world with a past. Runs of the same name are the same runs.
    pub(crate) fn continue_in(&self, world: &mut World) {
        self.play_in(world, |_, _, _, _| {});
    }

    fn play_in(&self, world: &mut World, mut watch: impl FnMut(&World, &WriterInput, &AppliedBatch, &World)) {
        for chapter in &self.chapters {
            match chapter {
                Chapter::Fail => world.fail_retrospective(),
                Chapter::Wait { days } => world.now = add_seconds(world.now, days * DAY_S),
                Chapter::Delete { memory } => delete(world, *memory),
                Chapter::Release { memory } => {
                    let living = world.memories.values().filter(|memory| memory.status.is_living());
                    let held = living.filter(|memory| memory.quarantine.is_some());
                    let ids: Vec<_> = held.map(|memory| memory.id).collect();
                    if let Some(id) = ids.get(memory % ids.len().max(1)) {
                        world.release(*id);
                    }
                }
                Chapter::Manual(investigated) => {
                    let investigated: Vec<_> = investigated
                        .iter()
                        .map(|(run, observations)| investigate_run(world, *run, observations))
                        .collect();
                    world.manual(&investigated);
                }
                Chapter::Decide { proposal, accept, despite } => {
                    decide_proposal(world, *proposal, *accept, *despite);
                }
                Chapter::Retrospective(investigated) => {
                    let investigated: Vec<_> = investigated
                        .iter()
                        .map(|(run, observations)| investigate_run(world, *run, observations))
                        .collect();
                    let input = world.prepare_batch(&investigated);
                    let before = world.clone();
                    let applied = decide(&input);
                    world.commit(&applied);
                    watch(&before, &input, &applied, world);
                }
            }
        }
    }
}

fn pick_memory(world: &World, nth: usize) -> Option<&Memory> {
    world.memories.values().nth(nth % world.memories.len().max(1))
}

fn delete(world: &mut World, nth: usize) {
    let Some(memory) = pick_memory(world, nth).filter(|memory| memory.status.is_living()) else { return };
    world.delete(memory.id);
}

/// Decides on a proposal, which may be decided already or blocked by a tombstone.
fn decide_proposal(world: &mut World, nth: usize, accept: bool, despite: bool) {
    let Some((proposal, _)) = world.proposals.get(nth % world.proposals.len().max(1)) else { return };
    let id = proposal.id;
    if accept {
        let _ = world.accept(id, despite.then_some("it is right now"));
    } else {
        let _ = world.refuse(id, "it is not");
    }
}

/// Returns the repository of a run: two of five name none, and one is private.
fn repository_of(run: u8) -> Option<RunRepository> {
    let (name, visibility) = match run % 5 {
        2 => ("acme/shop", RepoVisibility::Public),
        3 => ("acme/blog", RepoVisibility::Public),
        4 => ("acme/vault", RepoVisibility::Private),
        _ => return None,
    };
    RunRepository::of_run(Some(name), Some(visibility))
}

fn investigate_run(world: &World, run: u8, observations: &[Observation]) -> InvestigatedRun {
    // A third of the runs are of one task by one user.
    let task = run.is_multiple_of(3).then_some("t");
    observations.iter().fold(investigate(&format!("r{run}")), |investigated_run, observation| {
        match observation {
            Observation::Find { lesson: nth, step } => {
                let mut found = in_step(["main", "review"][*step], lesson(*nth));
                found.origin.user = task.map(str::to_owned);
                found.origin.task = task.map(str::to_owned);
                found.origin.repository = repository_of(run);
                investigated_run.with_finding(found)
            }
            Observation::Contradict { memory, elsewhere } => match pick_memory(world, *memory) {
                Some(memory) => investigated_run.with_finding(contradicting_finding(memory, *elsewhere)),
                None => investigated_run,
            },
            Observation::Pass { memory } => match pick_memory(world, *memory) {
                Some(memory) if memory.lesson.cue.error.is_some() => {
                    investigated_run.with_passed_error(&confirming_finding(memory), [memory])
                }
                _ => investigated_run,
            },
            Observation::Judge { memory, verdict } => match pick_memory(world, *memory) {
                Some(memory) => investigated_run.with_verdict(memory.id, *verdict),
                None => investigated_run,
            },
            Observation::Read { memory } => match pick_memory(world, *memory) {
                Some(memory) => investigated_run.with_read_memory(memory.id),
                None => investigated_run,
            },
        }
    })
}

/// Returns a finding that contradicts a memory, on the same subject, in its step or in another one.
pub(crate) fn contradicting_finding(memory: &Memory, elsewhere: bool) -> Finding {
    let step = if elsewhere { Step::new("elsewhere").unwrap() } else { memory.scope.step().unwrap().clone() };
    let against = finding(&format!("against {}", memory.id));
    Finding { step, subject: memory.lesson.subject.clone(), contradicts: Some(memory.id), ..against }
}

/// Returns a finding with the lesson and step of a memory, in a repository whose runs are handed it.
pub(crate) fn confirming_finding(memory: &Memory) -> Finding {
    let repository = match memory.scope.audience().unwrap() {
        Audience::Everyone => None,
        Audience::PrivateRepositories => {
            RunRepository::of_run(Some("acme/new"), Some(RepoVisibility::Private))
        }
        Audience::Repository(repo) => Some(RunRepository { repo: repo.clone(), visibility: None }),
    };
    let lesson = memory.lesson.clone();
    let step = memory.scope.step().unwrap().clone();
    let shown = Finding { cue: lesson.cue, subject: lesson.subject, ..remark(&lesson.title) };
    let origin = EvidenceOrigin { repository, ..EvidenceOrigin::default() };
    Finding { step, content: lesson.content, quote: quote(), origin, ..shown }
}

pub(crate) fn find_memory(world: &World, id: MemoryId) -> &Memory {
    &world.memories[&id]
}

pub(crate) fn stories() -> impl Strategy<Value = Story> {
    (policies(), prop::collection::vec(chapter(), 1..10))
        .prop_map(|(policy, chapters)| Story { policy, chapters })
}

fn policies() -> impl Strategy<Value = Policy> {
    (1..4u32, 1..4u32, 1..40u64, 0..3u32).prop_map(
        |(confirm_runs, contradiction_runs, days, cue_not_met_max)| {
            let tombstone_s = days * DAY_S;
            Policy { confirm_runs, contradiction_runs, tombstone_s, cue_not_met_max, ..Policy::default() }
        },
    )
}

fn chapter() -> impl Strategy<Value = Chapter> {
    // Few runs, so the same run is often investigated again, in the same retrospective or a later one.
    let investigated = || prop::collection::vec((0..12u8, prop::collection::vec(observation(), 0..5)), 0..5);
    prop_oneof![
        12 => investigated().prop_map(Chapter::Retrospective),
        3 => investigated().prop_map(Chapter::Manual),
        4 => (0..12usize, prop::bool::weighted(0.8), any::<bool>())
            .prop_map(|(proposal, accept, despite)| Chapter::Decide { proposal, accept, despite }),
        1 => Just(Chapter::Fail),
        1 => (0..8usize).prop_map(|memory| Chapter::Delete { memory }),
        1 => (0..8usize).prop_map(|memory| Chapter::Release { memory }),
        1 => (1..40u64).prop_map(|days| Chapter::Wait { days }),
    ]
}

fn observation() -> impl Strategy<Value = Observation> {
    let verdict = prop::sample::select(vec![
        MemoryVerdict::Harmed,
        MemoryVerdict::Helped,
        MemoryVerdict::Applied,
        MemoryVerdict::Ignored,
        MemoryVerdict::CueNotMet,
    ]);
    prop_oneof![
        6 => (LESSONS, 0..2usize).prop_map(|(lesson, step)| Observation::Find { lesson, step }),
        2 => (0..8usize, prop::bool::weighted(0.2))
            .prop_map(|(memory, elsewhere)| Observation::Contradict { memory, elsewhere }),
        1 => (0..8usize).prop_map(|memory| Observation::Pass { memory }),
        4 => (0..8usize, verdict).prop_map(|(memory, verdict)| Observation::Judge { memory, verdict }),
        1 => (0..8usize).prop_map(|memory| Observation::Read { memory }),
    ]
}
