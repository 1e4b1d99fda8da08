//! Measures the durations of episodes, in retrospectives. An episode that is still open at the last run
//! counts as lasting until then.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::ratio::ratio;
use super::world_result::WorldResult;
use crate::closed_loop::simulation::{MemorySnapshot, WorkflowResult};
use crate::closed_loop::truth::{MemoryTruth, WorldItem};

/// Minimum weight of a memory that is handed out, in thousandths: the policy's default.
const HANDED_OUT_MIN: u32 = 100;

/// Statistics about the durations of episodes.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(crate) struct Episodes {
    /// Number of episodes.
    pub(crate) count: usize,
    /// Mean duration, in retrospectives.
    pub(crate) mean: f64,
    pub(crate) longest: u32,
    /// Number of episodes that ended within three retrospectives.
    pub(crate) within_three: usize,
    /// Number of episodes that were still open at the last run.
    pub(crate) unended: usize,
}

/// One episode: its duration in retrospectives, and whether it ended before the last run.
struct Episode {
    lasted: u32,
    ended: bool,
}

impl Episodes {
    fn from_episodes(episodes: &[Episode]) -> Self {
        let lasted = || episodes.iter().map(|one| one.lasted);
        Self {
            count: episodes.len(),
            mean: f64::from(lasted().sum::<u32>()) / episodes.len().max(1) as f64,
            longest: lasted().max().unwrap_or_default(),
            within_three: episodes.iter().filter(|one| one.ended && one.lasted <= 3).count(),
            unended: episodes.iter().filter(|one| !one.ended).count(),
        }
    }

    /// Returns the share of episodes that ended within three retrospectives, or `None` if there are no
    /// episodes.
    pub(crate) fn share_within_three(&self) -> Option<f64> {
        ratio(self.within_three as f64, self.count as f64)
    }
}

fn is_handed_out(memory: &MemorySnapshot) -> bool {
    memory.active && memory.weight >= HANDED_OUT_MIN
}

fn workflow_results<'t>(results: &'t [WorldResult<'_>]) -> impl Iterator<Item = &'t WorkflowResult> {
    results.iter().flat_map(|results| &results.workflow_results)
}

/// Measures for how long each memory could be handed out while `so` returned `true` for its truth.
fn episodes_while(results: &[WorldResult<'_>], so: fn(MemoryTruth) -> bool) -> Episodes {
    let mut episodes = Vec::new();
    for story in workflow_results(results) {
        let mut open: BTreeMap<&str, usize> = BTreeMap::new();
        for (at, look) in story.windows.iter().enumerate() {
            let now: BTreeSet<&str> = look
                .memories
                .iter()
                .filter(|memory| is_handed_out(memory) && so(memory.truth))
                .map(|memory| memory.id.as_str())
                .collect();
            let gone: Vec<&str> = open.keys().copied().filter(|id| !now.contains(id)).collect();
            for id in gone {
                let began = open.remove(id).expect("the episode is open");
                episodes.push(Episode { lasted: (at - began) as u32, ended: true });
            }
            for id in now {
                open.entry(id).or_insert(at);
            }
        }
        let last = story.windows.len();
        episodes
            .extend(open.into_values().map(|began| Episode { lasted: (last - began) as u32, ended: false }));
    }
    Episodes::from_episodes(&episodes)
}

/// Measures for how long harmful memories could be handed out. The duration is 1 for a memory that appears at
/// one retrospective and is gone at the next.
pub(crate) fn harmful_episodes(results: &[WorldResult<'_>]) -> Episodes {
    episodes_while(results, |standing| matches!(standing, MemoryTruth::Trap | MemoryTruth::Outdated))
}

/// Measures for how long harmless memories of fixed causes could be handed out.
pub(crate) fn fading_episodes(results: &[WorldResult<'_>]) -> Episodes {
    episodes_while(results, |standing| standing == MemoryTruth::Stale)
}

/// Counts the retrospectives between the one that gave a memory enough weight and the window in which a run
/// first got it: 1 if that was the next window.
pub(crate) fn waiting_episodes(results: &[WorldResult<'_>]) -> Episodes {
    let mut episodes = Vec::new();
    for story in workflow_results(results) {
        let mut begun: BTreeMap<&str, usize> = BTreeMap::new();
        let mut shown: BTreeSet<&str> = BTreeSet::new();
        for (at, look) in story.windows.iter().enumerate() {
            for id in look.handed_memories.iter().map(String::as_str) {
                // Only the first run that is handed the memory ends its wait.
                if let (true, Some(began)) = (shown.insert(id), begun.get(id)) {
                    episodes.push(Episode { lasted: (at - began) as u32, ended: true });
                }
            }
            for memory in look.memories.iter().filter(|memory| is_handed_out(memory)) {
                begun.entry(&memory.id).or_insert(at);
            }
        }
        // A memory that became heavy enough in the last window had no later run to be handed to.
        let last = story.windows.len().saturating_sub(1);
        let never = begun.iter().filter(|(id, began)| !shown.contains(*id) && **began < last);
        episodes.extend(never.map(|(_, began)| Episode { lasted: (last - began) as u32, ended: false }));
    }
    Episodes::from_episodes(&episodes)
}

/// Returns the mean number of times per workflow that a harmful lesson was handed out again after it had been
/// withdrawn, by the same memory or by another.
pub(crate) fn comebacks_per_workflow(results: &[WorldResult<'_>]) -> f64 {
    let mut times = 0;
    for story in workflow_results(results) {
        let mut lessons: BTreeMap<WorldItem, (bool, bool)> = BTreeMap::new();
        for look in &story.windows {
            let harm = |memory: &&MemorySnapshot| {
                is_handed_out(memory) && matches!(memory.truth, MemoryTruth::Trap | MemoryTruth::Outdated)
            };
            let harmful = look.memories.iter().filter(harm);
            let now: BTreeSet<WorldItem> =
                harmful.flat_map(|memory| memory.claim.items.iter().copied()).collect();
            // Withdrawals are noted first, because a lesson counts as coming back only after a window without
            // it.
            for (lesson, (there, fell)) in &mut lessons {
                *fell |= *there && !now.contains(lesson);
                *there &= now.contains(lesson);
            }
            for lesson in now {
                let (there, fell) = lessons.entry(lesson).or_default();
                times += usize::from(!*there && *fell);
                *there = true;
            }
        }
    }
    times as f64 / workflow_results(results).count().max(1) as f64
}
