//! Computes figures about the memories from the observed results, with pure functions.

mod causes;
mod episodes;
mod interval;
mod ratio;
mod world_result;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::closed_loop::simulation::{HELD, WINDOW, WindowResult};
use crate::closed_loop::truth::MemoryTruth;
use crate::closed_loop::world::Cause;

pub(crate) use causes::{CauseScore, KNOWN_AFTER, score_causes};
use causes::{is_known, recall_kept};
pub(crate) use episodes::{Episodes, fading_episodes, harmful_episodes, waiting_episodes};
pub(crate) use interval::Interval;
pub(crate) use ratio::ratio;
pub(crate) use world_result::{WorldResult, list_final_memories};

/// Figures after a number of retrospectives, over all workflows and seeds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub(crate) struct CurvePoint {
    pub(crate) retrospective: usize,
    /// Mean number of active memories per workflow.
    pub(crate) active: f64,
    pub(crate) tentative: f64,
    /// Share of active memories that are not false; `None` if there are none.
    pub(crate) precision: Option<f64>,
    /// Share of active memories that are not false and whose cause is not fixed; `None` if there are none.
    pub(crate) precision_strict: Option<f64>,
    /// Share of present causes for which an active memory names the remedy; `None` if no cause is present.
    pub(crate) recall: Option<f64>,
    /// Share of this window's runs that succeeded.
    pub(crate) success: f64,
    pub(crate) success_without: f64,
    /// Share of this window's runs that a memory harmed.
    pub(crate) harmed: f64,
    pub(crate) tokens_per_run: f64,
    /// Mean number of lessons suppressed so far, per workflow.
    pub(crate) suppressed: f64,
}

/// Sums from which a [`CurvePoint`] is computed.
#[derive(Default)]
struct PointSums {
    stories: f64,
    runs: f64,
    failed: f64,
    failed_without: f64,
    harmed: f64,
    tokens: f64,
    tentative: f64,
    active: TruthCounts,
    known: f64,
    present: f64,
}

/// Numbers of active memories by truth.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub(crate) struct TruthCounts {
    pub(crate) whole: f64,
    pub(crate) vague: f64,
    pub(crate) stale: f64,
    pub(crate) outdated: f64,
    pub(crate) trap: f64,
    pub(crate) noise: f64,
}

impl TruthCounts {
    fn count_memory(&mut self, standing: MemoryTruth) {
        let kind = match standing {
            MemoryTruth::True => &mut self.whole,
            MemoryTruth::Vague => &mut self.vague,
            MemoryTruth::Stale => &mut self.stale,
            MemoryTruth::Outdated => &mut self.outdated,
            MemoryTruth::Trap => &mut self.trap,
            MemoryTruth::Noise => &mut self.noise,
        };
        *kind += 1.0;
    }

    pub(crate) fn total(&self) -> f64 {
        self.whole + self.vague + self.stale + self.outdated + self.trap + self.noise
    }

    fn total_wrong(&self) -> f64 {
        self.outdated + self.trap + self.noise
    }

    pub(crate) fn precision(&self) -> Option<f64> {
        ratio(self.total() - self.total_wrong(), self.total())
    }

    fn precision_strict(&self) -> Option<f64> {
        ratio(self.whole + self.vague, self.total())
    }
}

/// Computes the figures after each retrospective, over all worlds.
pub(crate) fn compute_curve(results: &[WorldResult<'_>]) -> Vec<CurvePoint> {
    let mut sums: Vec<PointSums> = Vec::new();
    let mut suppressed: Vec<f64> = Vec::new();
    for results in results {
        for story in &results.workflow_results {
            let causes = &results.world.workflows[story.workflow].causes;
            for (at, look) in story.windows.iter().enumerate() {
                if sums.len() == at {
                    sums.push(PointSums::default());
                    suppressed.push(0.0);
                }
                sums[at].add_window(look, causes.iter().map(|one| one.get_ref()));
                suppressed[at] += f64::from(look.suppressed);
            }
        }
    }
    let mut so_far = 0.0;
    let points = sums.iter().zip(suppressed).enumerate().map(|(at, (sums, suppressed))| {
        so_far += suppressed / sums.stories;
        sums.to_point(at + 1, so_far)
    });
    points.collect()
}

impl PointSums {
    fn add_window<'c>(&mut self, look: &WindowResult, causes: impl Iterator<Item = &'c Cause>) {
        self.stories += 1.0;
        self.runs += f64::from(WINDOW);
        self.failed += f64::from(look.failed);
        self.failed_without += f64::from(look.failed_without);
        self.harmed += f64::from(look.harmed);
        self.tokens += look.tokens as f64;
        for memory in &look.memories {
            self.tentative += f64::from(u8::from(memory.tentative));
            if memory.active {
                self.active.count_memory(memory.truth);
            }
        }
        for (at, cause) in causes.enumerate() {
            if cause.is_expected(look.runs_completed) {
                self.present += 1.0;
                self.known += f64::from(u8::from(is_known(look, at, cause.remedy_at(look.runs_completed))));
            }
        }
    }

    fn to_point(&self, retrospective: usize, suppressed: f64) -> CurvePoint {
        CurvePoint {
            retrospective,
            active: self.active.total() / self.stories,
            tentative: self.tentative / self.stories,
            precision: self.active.precision(),
            precision_strict: self.active.precision_strict(),
            recall: ratio(self.known, self.present),
            success: 1.0 - self.failed / self.runs,
            success_without: 1.0 - self.failed_without / self.runs,
            harmed: self.harmed / self.runs,
            tokens_per_run: self.tokens / self.runs,
            suppressed,
        }
    }
}

/// Figures on which the goals and claims of the simulation rest.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub(crate) stories: usize,
    pub(crate) runs: u64,
    /// Numbers of active memories by truth, summed over every retrospective from the tenth on.
    pub(crate) active: TruthCounts,
    pub(crate) precision: Option<f64>,
    pub(crate) precision_strict: Option<f64>,
    /// Share of the causes present for ten retrospectives that were known by then; `None` if there are no
    /// such causes.
    pub(crate) recall: Option<f64>,
    pub(crate) causes: usize,
    /// Number of causes that are in no recall, because too few runs meet them.
    pub(crate) causes_rare: usize,
    /// Number of causes that are in no recall, because they did not last for ten retrospectives.
    pub(crate) causes_brief: usize,
    /// Mean number of memories per workflow that wait for a person at the end, and are shown to nobody.
    pub(crate) held: f64,
    /// Recall over the same retrospectives as the precision: of the causes that have been present for ten
    /// retrospectives, the share that an active memory knows, at every retrospective from then on.
    pub(crate) recall_kept: Option<f64>,
    pub(crate) success: f64,
    pub(crate) success_without: f64,
    /// Success share with memory minus that without, paired by seed; `None` for fewer than two seeds.
    pub(crate) gain: Option<Interval>,
    /// Number of retrospectives until a harmful memory is no longer handed out.
    pub(crate) harmful: Episodes,
    /// Number of retrospectives until a harmless memory is no longer handed out after its cause was fixed.
    pub(crate) fading: Episodes,
    /// Number of retrospectives that a memory waits, once it has enough weight, until it is handed to a run.
    pub(crate) waiting: Episodes,
    /// Mean number of times per workflow that a harmful lesson was handed out again after it had been
    /// withdrawn.
    pub(crate) comebacks: f64,
    /// Among the runs with memory that encountered a cause that appeared after the first window, the share
    /// that failed because of it; `None` if no run did.
    pub(crate) late_failed: Option<f64>,
    pub(crate) late_failed_without: Option<f64>,
    pub(crate) harmed: f64,
    pub(crate) tokens_per_run: f64,
    pub(crate) suppressed: f64,
}

/// Computes the summary over all worlds.
pub(crate) fn compute_summary(results: &[WorldResult<'_>]) -> Summary {
    let mut kinds = TruthCounts::default();
    for look in results
        .iter()
        .flat_map(|results| &results.workflow_results)
        .flat_map(|story| story.windows.iter().skip(KNOWN_AFTER - 1))
    {
        look.memories
            .iter()
            .filter(|memory| memory.active)
            .for_each(|memory| kinds.count_memory(memory.truth));
    }
    let looks =
        || results.iter().flat_map(|results| &results.workflow_results).flat_map(|story| &story.windows);
    let stories: usize = results.iter().map(|results| results.workflow_results.len()).sum();
    let runs = looks().count() as f64 * f64::from(WINDOW);
    let sum = |of: fn(&WindowResult) -> f64| looks().map(of).sum::<f64>();
    let (success, success_without) = (
        1.0 - sum(|look| f64::from(look.failed)) / runs,
        1.0 - sum(|look| f64::from(look.failed_without)) / runs,
    );
    let causes = score_causes(results);
    let count = |score: CauseScore| causes.iter().filter(|cause| cause.score == score).count();
    let (known, due) = (count(CauseScore::Known), count(CauseScore::Known) + count(CauseScore::Unknown));
    let late = count_late_causes(results);
    let harmful = harmful_episodes(results);
    Summary {
        stories,
        runs: runs as u64,
        active: kinds,
        precision: kinds.precision(),
        precision_strict: kinds.precision_strict(),
        recall: ratio(known as f64, due as f64),
        causes: due,
        causes_rare: count(CauseScore::Rare),
        causes_brief: count(CauseScore::Brief),
        held: looks_at_end(results).map(count_held).sum::<usize>() as f64 / stories as f64,
        recall_kept: recall_kept(results),
        success,
        success_without,
        gain: Interval::from_samples(
            &group_by_seed(results).values().map(|results| success_gain(results)).collect::<Vec<_>>(),
        ),
        comebacks: episodes::comebacks_per_workflow(results),
        harmful,
        fading: fading_episodes(results),
        waiting: waiting_episodes(results),
        late_failed: ratio(f64::from(late[0].1), f64::from(late[0].0)),
        late_failed_without: ratio(f64::from(late[1].1), f64::from(late[1].0)),
        harmed: sum(|look| f64::from(look.harmed)) / runs,
        tokens_per_run: sum(|look| look.tokens as f64) / runs,
        suppressed: sum(|look| f64::from(look.suppressed)) / stories as f64,
    }
}

fn looks_at_end<'t>(results: &'t [WorldResult<'_>]) -> impl Iterator<Item = &'t WindowResult> {
    results.iter().flat_map(|results| &results.workflow_results).filter_map(|story| story.windows.last())
}

fn count_held(look: &WindowResult) -> usize {
    look.memories.iter().filter(|memory| memory.status == HELD).count()
}

/// Groups the results by seed, over all worlds.
pub(crate) fn group_by_seed<'a>(results: &[WorldResult<'a>]) -> BTreeMap<u64, Vec<WorldResult<'a>>> {
    let mut seeds: BTreeMap<u64, Vec<WorldResult<'a>>> = BTreeMap::new();
    for one in results {
        for story in &one.workflow_results {
            let worlds = seeds.entry(story.seed).or_default();
            // The results of a world are consecutive, so only the last entry can be the same world.
            if worlds.last().is_none_or(|last| last.world.name != one.world.name) {
                worlds.push(WorldResult { world: one.world, workflow_results: Vec::new() });
            }
            worlds.last_mut().expect("one was pushed").workflow_results.push(story.clone());
        }
    }
    seeds
}

fn success_gain(results: &[WorldResult<'_>]) -> f64 {
    let looks =
        || results.iter().flat_map(|results| &results.workflow_results).flat_map(|story| &story.windows);
    let runs = looks().count() as f64 * f64::from(WINDOW);
    looks().map(|look| f64::from(look.failed_without) - f64::from(look.failed)).sum::<f64>() / runs.max(1.0)
}

/// Counts the runs that encountered a cause that appeared after the first window, and those that failed
/// because of it. The first pair is with memory, the second without.
fn count_late_causes(results: &[WorldResult<'_>]) -> [(u32, u32); 2] {
    let mut sums = [(0, 0); 2];
    for (results, story) in
        results.iter().flat_map(|results| results.workflow_results.iter().map(move |story| (results, story)))
    {
        let causes = &results.world.workflows[story.workflow].causes;
        for look in &story.windows {
            for (sum, met) in sums.iter_mut().zip([&look.causes_met, &look.causes_met_without]) {
                for (_, (runs, failed)) in met.iter().filter(|(at, _)| causes[**at].get_ref().from > WINDOW) {
                    *sum = (sum.0 + runs, sum.1 + failed);
                }
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests;
