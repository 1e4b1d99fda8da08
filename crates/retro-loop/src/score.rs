//! What the stories say about the memories: every figure that is told, as plain functions over what was seen from outside.

mod episodes;
mod interval;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::play::{Look, Story};
use crate::truth::{About, Says, Standing};
use crate::world::{Cause, World};

pub(crate) use episodes::{Episodes, fading, harmful, waiting};
pub(crate) use interval::Interval;

/// A cause that fewer runs meet need not be known: what two of four sampled runs of ten show is rarely it.
pub(crate) const SHARE_MIN: f64 = 0.2;
/// Retrospectives after which a cause has to be known.
pub(crate) const KNOWN_AFTER: usize = 10;
/// Weight from which a memory is handed out, thousandths: the policy's default.
pub(crate) const HANDED_OUT_MIN: u32 = 100;

/// Stories of one world under one policy.
#[derive(Debug, Clone)]
pub(crate) struct Told<'a> {
    pub(crate) world: &'a World,
    pub(crate) stories: Vec<Story>,
}

/// How things stand after so many retrospectives, over all workflows and seeds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub(crate) struct Point {
    pub(crate) retrospective: usize,
    /// Active memories a workflow.
    pub(crate) active: f64,
    pub(crate) tentative: f64,
    /// Share of active memories that are not false.
    pub(crate) precision: Option<f64>,
    /// Share of active memories that are not false and whose cause is still there.
    pub(crate) precision_strict: Option<f64>,
    /// Share of the present causes that an active memory names with its remedy.
    pub(crate) recall: Option<f64>,
    /// Share of this window's runs that succeeded.
    pub(crate) success: f64,
    pub(crate) success_without: f64,
    /// Runs of this window that a memory harmed, share.
    pub(crate) harmed: f64,
    pub(crate) tokens_a_run: f64,
    /// Lessons kept away so far, a workflow.
    pub(crate) suppressed: f64,
}

/// Sums behind a point.
#[derive(Default)]
struct Sums {
    stories: f64,
    runs: f64,
    failed: f64,
    failed_without: f64,
    harmed: f64,
    tokens: f64,
    tentative: f64,
    active: Kinds,
    known: f64,
    present: f64,
}

/// Active memories by how they stand.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub(crate) struct Kinds {
    pub(crate) whole: f64,
    pub(crate) vague: f64,
    pub(crate) stale: f64,
    pub(crate) outdated: f64,
    pub(crate) trap: f64,
    pub(crate) noise: f64,
}

impl Kinds {
    fn count(&mut self, standing: Standing) {
        let kind = match standing {
            Standing::True => &mut self.whole,
            Standing::Vague => &mut self.vague,
            Standing::Stale => &mut self.stale,
            Standing::Outdated => &mut self.outdated,
            Standing::Trap => &mut self.trap,
            Standing::Noise => &mut self.noise,
        };
        *kind += 1.0;
    }

    pub(crate) fn all(&self) -> f64 {
        self.whole + self.vague + self.stale + self.outdated + self.trap + self.noise
    }

    fn wrong(&self) -> f64 {
        self.outdated + self.trap + self.noise
    }

    pub(crate) fn precision(&self) -> Option<f64> {
        share(self.all() - self.wrong(), self.all())
    }

    fn precision_strict(&self) -> Option<f64> {
        share(self.whole + self.vague, self.all())
    }
}

/// A part of a whole; of nothing there is none.
pub(crate) fn share(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

impl Cause {
    /// Share of the runs that meet it while it is there, over whole cycles.
    fn share(&self) -> f64 {
        let of_cycle =
            self.rhythm.map_or(1.0, |one| f64::from(one.runs[1] + 1 - one.runs[0]) / f64::from(one.every));
        self.chance * of_cycle
    }

    /// Whether a memory of it is expected once `runs` are over.
    fn present(&self, runs: u32) -> bool {
        self.share() >= SHARE_MIN && runs >= self.from && self.until.is_none_or(|until| runs <= until)
    }
}

fn known(look: &Look, cause: usize) -> bool {
    look.memories.iter().any(|one| one.active && one.says == Says::Whole(About::Cause(cause)))
}

/// The curve over retrospectives, of every world together.
pub(crate) fn curve(told: &[Told<'_>]) -> Vec<Point> {
    let mut sums: Vec<Sums> = Vec::new();
    let mut suppressed: Vec<f64> = Vec::new();
    for told in told {
        for story in &told.stories {
            let causes = &told.world.workflows[story.workflow].causes;
            for (at, look) in story.looks.iter().enumerate() {
                if sums.len() == at {
                    sums.push(Sums::default());
                    suppressed.push(0.0);
                }
                sums[at].add(look, causes.iter().map(|one| one.get_ref()));
                suppressed[at] += f64::from(look.suppressed);
            }
        }
    }
    let mut so_far = 0.0;
    let points = sums.iter().zip(suppressed).enumerate().map(|(at, (sums, suppressed))| {
        so_far += suppressed / sums.stories;
        sums.point(at + 1, so_far)
    });
    points.collect()
}

impl Sums {
    fn add<'c>(&mut self, look: &Look, causes: impl Iterator<Item = &'c Cause>) {
        self.stories += 1.0;
        self.runs += f64::from(crate::play::WINDOW);
        self.failed += f64::from(look.failed);
        self.failed_without += f64::from(look.failed_without);
        self.harmed += f64::from(look.harmed);
        self.tokens += look.tokens as f64;
        for memory in &look.memories {
            self.tentative += f64::from(u8::from(memory.tentative));
            if memory.active {
                self.active.count(memory.standing);
            }
        }
        for (at, cause) in causes.enumerate() {
            if cause.present(look.runs_over) {
                self.present += 1.0;
                self.known += f64::from(u8::from(known(look, at)));
            }
        }
    }

    fn point(&self, retrospective: usize, suppressed: f64) -> Point {
        Point {
            retrospective,
            active: self.active.all() / self.stories,
            tentative: self.tentative / self.stories,
            precision: self.active.precision(),
            precision_strict: self.active.precision_strict(),
            recall: share(self.known, self.present),
            success: 1.0 - self.failed / self.runs,
            success_without: 1.0 - self.failed_without / self.runs,
            harmed: self.harmed / self.runs,
            tokens_a_run: self.tokens / self.runs,
            suppressed,
        }
    }
}

/// One number for each goal and each claim.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub(crate) stories: usize,
    pub(crate) runs: u64,
    /// Over every retrospective from the tenth on.
    pub(crate) active: Kinds,
    pub(crate) precision: Option<f64>,
    pub(crate) precision_strict: Option<f64>,
    /// Of causes that have been there for ten retrospectives: known at that moment.
    pub(crate) recall: Option<f64>,
    pub(crate) causes: usize,
    pub(crate) success: f64,
    pub(crate) success_without: f64,
    /// Over seeds, paired.
    pub(crate) gain: Option<Interval>,
    /// Retrospectives until a memory that harms is below the weight at which it is handed out.
    pub(crate) harmful: Episodes,
    /// The same for a memory whose cause is fixed and that harms nobody.
    pub(crate) fading: Episodes,
    /// Retrospectives from a memory's first active weight until a run is handed it.
    pub(crate) waiting: Episodes,
    /// Times that a lesson which harms was handed out again after it had fallen, a workflow.
    pub(crate) comebacks: f64,
    /// Of the runs that met a cause that came later, those that failed by it: with and without.
    pub(crate) late_failed: Option<f64>,
    pub(crate) late_failed_without: Option<f64>,
    pub(crate) harmed: f64,
    pub(crate) tokens_a_run: f64,
    pub(crate) suppressed: f64,
}

/// The summary of every world together.
pub(crate) fn summary(told: &[Told<'_>]) -> Summary {
    let mut kinds = Kinds::default();
    for look in
        told.iter().flat_map(|told| &told.stories).flat_map(|story| story.looks.iter().skip(KNOWN_AFTER - 1))
    {
        look.memories.iter().filter(|memory| memory.active).for_each(|memory| kinds.count(memory.standing));
    }
    let looks = || told.iter().flat_map(|told| &told.stories).flat_map(|story| &story.looks);
    let stories: usize = told.iter().map(|told| told.stories.len()).sum();
    let runs = looks().count() as f64 * f64::from(crate::play::WINDOW);
    let sum = |of: fn(&Look) -> f64| looks().map(of).sum::<f64>();
    let (success, success_without) = (
        1.0 - sum(|look| f64::from(look.failed)) / runs,
        1.0 - sum(|look| f64::from(look.failed_without)) / runs,
    );
    let causes = due(told);
    let known = causes.iter().filter(|cause| cause.known).count();
    let late = late(told);
    let harmful = harmful(told);
    Summary {
        stories,
        runs: runs as u64,
        active: kinds,
        precision: kinds.precision(),
        precision_strict: kinds.precision_strict(),
        recall: share(known as f64, causes.len() as f64),
        causes: causes.len(),
        success,
        success_without,
        gain: Interval::over(&by_seed(told).values().map(|told| gain(told)).collect::<Vec<_>>()),
        comebacks: episodes::comebacks(told),
        harmful,
        fading: fading(told),
        waiting: waiting(told),
        late_failed: share(f64::from(late[0].1), f64::from(late[0].0)),
        late_failed_without: share(f64::from(late[1].1), f64::from(late[1].0)),
        harmed: sum(|look| f64::from(look.harmed)) / runs,
        tokens_a_run: sum(|look| look.tokens as f64) / runs,
        suppressed: sum(|look| f64::from(look.suppressed)) / stories as f64,
    }
}

/// The stories of each seed, over all worlds.
pub(crate) fn by_seed<'a>(told: &[Told<'a>]) -> BTreeMap<u64, Vec<Told<'a>>> {
    let mut seeds: BTreeMap<u64, Vec<Told<'a>>> = BTreeMap::new();
    for one in told {
        for story in &one.stories {
            let worlds = seeds.entry(story.seed).or_default();
            if worlds.last().is_none_or(|last| last.world.name != one.world.name) {
                worlds.push(Told { world: one.world, stories: Vec::new() });
            }
            worlds.last_mut().expect("one was pushed").stories.push(story.clone());
        }
    }
    seeds
}

fn gain(told: &[Told<'_>]) -> f64 {
    let looks = || told.iter().flat_map(|told| &told.stories).flat_map(|story| &story.looks);
    let runs = looks().count() as f64 * f64::from(crate::play::WINDOW);
    looks().map(|look| f64::from(look.failed_without) - f64::from(look.failed)).sum::<f64>() / runs.max(1.0)
}

/// A cause that has been there for ten retrospectives.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Due {
    /// As `world/workflow cause`.
    pub(crate) cause: String,
    /// An active memory names it with its remedy.
    pub(crate) known: bool,
    /// The line of some memory about its tool.
    pub(crate) nearest: Option<String>,
}

/// Each cause that has been there for ten retrospectives, and whether it was known then.
pub(crate) fn due(told: &[Told<'_>]) -> Vec<Due> {
    let mut causes = Vec::new();
    for (told, story) in told.iter().flat_map(|told| told.stories.iter().map(move |story| (told, story))) {
        let workflow = &told.world.workflows[story.workflow];
        for (at, cause) in workflow.causes.iter().enumerate() {
            let cause = cause.get_ref();
            let came = (cause.from - 1) / crate::play::WINDOW;
            let Some(look) = story.looks.get(came as usize + KNOWN_AFTER - 1) else { continue };
            if cause.present(look.runs_over) {
                let about = look.memories.iter().find(|one| one.line.contains(&cause.tool));
                causes.push(Due {
                    cause: format!("{}/{} {}", told.world.name, workflow.name, cause.id),
                    known: known(look, at),
                    nearest: about.map(|one| one.line.clone()),
                });
            }
        }
    }
    causes
}

/// Runs that met a cause which came after the first window, and those that failed by it; with and without memory.
fn late(told: &[Told<'_>]) -> [(u32, u32); 2] {
    let mut sums = [(0, 0); 2];
    for (told, story) in told.iter().flat_map(|told| told.stories.iter().map(move |story| (told, story))) {
        let causes = &told.world.workflows[story.workflow].causes;
        for look in &story.looks {
            for (sum, met) in sums.iter_mut().zip([&look.met, &look.met_without]) {
                for (_, (runs, failed)) in
                    met.iter().filter(|(at, _)| causes[**at].get_ref().from > crate::play::WINDOW)
                {
                    *sum = (sum.0 + runs, sum.1 + failed);
                }
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests;
