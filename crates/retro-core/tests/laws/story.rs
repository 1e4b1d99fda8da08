//! Random stories of one workflow's memories: what its retrospectives see, and what people do in between.

use std::ops::Range;

use proptest::prelude::*;
use retro_core::finding::{Finding, MemoryVerdict};
use retro_core::id::{MemoryId, Step};
use retro_core::learn::AppliedBatch;
use retro_core::memory::Memory;
use retro_core::policy::Policy;
use retro_core::time::add_seconds;

use crate::world::{Asked, DAY_S, Look, World, decide, finding, in_step, look, quote, remark};

/// What a look may hold. Memories are named by a position among those that exist when it is looked.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    Find { lesson: usize, step: usize },
    Contradict { memory: usize, elsewhere: bool },
    Pass { memory: usize },
    Judge { memory: usize, verdict: MemoryVerdict },
    Read { memory: usize },
}

#[derive(Debug, Clone)]
pub(crate) enum Chapter {
    Retrospective(Vec<(u8, Vec<Act>)>),
    Fail,
    Delete { memory: usize },
    Wait { days: u64 },
    Manual(Vec<(u8, Vec<Act>)>),
    Decide { proposal: usize, accept: bool, despite: bool },
}

#[derive(Debug, Clone)]
pub(crate) struct Story {
    pub(crate) policy: Policy,
    pub(crate) chapters: Vec<Chapter>,
}

/// Lessons with signatures, and lessons of words; some words are similar, some opposite.
const WORDS: &[&str] = &[
    "List the tables before querying one",
    "Before querying, list all the tables",
    "Never list the tables before querying one",
    "Use rg instead of grep",
    "Use grep instead of rg",
];
/// Of the lessons with signatures, so many are about an error alone; the others know ways out of the first of those errors.
const ERRORS: usize = 4;
const LESSONS: Range<usize> = 0..WORDS.len() + ERRORS + 2;

pub(crate) fn lesson(nth: usize) -> Finding {
    let Some(error) = nth.checked_sub(WORDS.len()) else { return remark(WORDS[nth]) };
    if error < ERRORS {
        return finding(&format!("L{error}"));
    }
    let mut found = finding(&format!("L{}", error - ERRORS));
    found.title = format!("W{error}");
    found.cue.prefer = Some("with `region`".to_owned());
    found
}

impl Story {
    /// Tells it; `watch` sees each retrospective's batch, what came of it, and the world before and after.
    pub(crate) fn tell(&self, mut watch: impl FnMut(&World, &Asked, &AppliedBatch, &World)) -> World {
        let mut world = World::with(self.policy.clone());
        for chapter in &self.chapters {
            match chapter {
                Chapter::Fail => world.fail(),
                Chapter::Wait { days } => world.now = add_seconds(world.now, days * DAY_S),
                Chapter::Delete { memory } => delete(&mut world, *memory),
                Chapter::Manual(looks) => {
                    let looks: Vec<_> = looks.iter().map(|(run, acts)| seen(&world, *run, acts)).collect();
                    world.manual(&looks);
                }
                Chapter::Decide { proposal, accept, despite } => {
                    decide_proposal(&mut world, *proposal, *accept, *despite);
                }
                Chapter::Retrospective(looks) => {
                    let looks: Vec<_> = looks.iter().map(|(run, acts)| seen(&world, *run, acts)).collect();
                    let asked = world.ask(&looks);
                    let before = world.clone();
                    let applied = decide(&asked);
                    world.commit(&applied);
                    watch(&before, &asked, &applied, &world);
                }
            }
        }
        world
    }
}

fn pick(world: &World, nth: usize) -> Option<&Memory> {
    world.memories.values().nth(nth % world.memories.len().max(1))
}

fn delete(world: &mut World, nth: usize) {
    let Some(memory) = pick(world, nth).filter(|memory| memory.status.is_living()) else { return };
    world.delete(memory.id);
}

/// A person decides about a proposal that is there, perhaps again and perhaps against a tombstone.
fn decide_proposal(world: &mut World, nth: usize, accept: bool, despite: bool) {
    let Some((proposal, _)) = world.proposals.get(nth % world.proposals.len().max(1)) else { return };
    let id = proposal.id;
    if accept {
        let _ = world.accept(id, despite.then_some("it is right now"));
    } else {
        let _ = world.refuse(id, "it is not");
    }
}

fn seen(world: &World, run: u8, acts: &[Act]) -> Look {
    acts.iter().fold(look(&format!("r{run}")), |look, act| match act {
        Act::Find { lesson: nth, step } => look.finds(in_step(["main", "review"][*step], lesson(*nth))),
        Act::Contradict { memory, elsewhere } => match pick(world, *memory) {
            Some(memory) => look.finds(opposed(memory, *elsewhere)),
            None => look,
        },
        Act::Pass { memory } => match pick(world, *memory) {
            Some(memory) if memory.lesson.cue.error.is_some() => look.passed(&again(memory), [memory]),
            _ => look,
        },
        Act::Judge { memory, verdict } => match pick(world, *memory) {
            Some(memory) => look.judged(memory.id, *verdict),
            None => look,
        },
        Act::Read { memory } => match pick(world, *memory) {
            Some(memory) => look.read(memory.id),
            None => look,
        },
    })
}

/// A finding against a memory, about the same subject in the same step, or elsewhere.
pub(crate) fn opposed(memory: &Memory, elsewhere: bool) -> Finding {
    let step = if elsewhere { Step::new("elsewhere").unwrap() } else { memory.scope.step().unwrap().clone() };
    let against = finding(&format!("against {}", memory.id));
    Finding { step, subject: memory.lesson.subject.clone(), contradicts: Some(memory.id), ..against }
}

/// The finding that shows what a memory says, in its step.
pub(crate) fn again(memory: &Memory) -> Finding {
    let lesson = memory.lesson.clone();
    let step = memory.scope.step().unwrap().clone();
    let shown = Finding { cue: lesson.cue, subject: lesson.subject, ..remark(&lesson.title) };
    Finding { step, content: lesson.content, quote: quote(), ..shown }
}

pub(crate) fn find(world: &World, id: MemoryId) -> &Memory {
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
    // Few runs, so that the same run is often looked at again, in the same retrospective or in a later one.
    let looks = || prop::collection::vec((0..12u8, prop::collection::vec(act(), 0..5)), 0..5);
    prop_oneof![
        12 => looks().prop_map(Chapter::Retrospective),
        3 => looks().prop_map(Chapter::Manual),
        4 => (0..12usize, prop::bool::weighted(0.8), any::<bool>())
            .prop_map(|(proposal, accept, despite)| Chapter::Decide { proposal, accept, despite }),
        1 => Just(Chapter::Fail),
        1 => (0..8usize).prop_map(|memory| Chapter::Delete { memory }),
        1 => (1..40u64).prop_map(|days| Chapter::Wait { days }),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let verdict = prop::sample::select(vec![
        MemoryVerdict::Harmed,
        MemoryVerdict::Helped,
        MemoryVerdict::Applied,
        MemoryVerdict::Ignored,
        MemoryVerdict::CueNotMet,
    ]);
    prop_oneof![
        6 => (LESSONS, 0..2usize).prop_map(|(lesson, step)| Act::Find { lesson, step }),
        2 => (0..8usize, prop::bool::weighted(0.2))
            .prop_map(|(memory, elsewhere)| Act::Contradict { memory, elsewhere }),
        1 => (0..8usize).prop_map(|memory| Act::Pass { memory }),
        4 => (0..8usize, verdict).prop_map(|(memory, verdict)| Act::Judge { memory, verdict }),
        1 => (0..8usize).prop_map(|memory| Act::Read { memory }),
    ]
}
