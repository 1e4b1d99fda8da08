//! How long something lasts, counted in retrospectives; what has not ended when the runs do is counted as lasting until then.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{HANDED_OUT_MIN, Told};
use crate::play::{Kept, Story};
use crate::truth::{About, Says, Standing};

/// How long several things lasted.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(crate) struct Episodes {
    /// How many there were.
    pub(crate) count: usize,
    /// Mean, in retrospectives.
    pub(crate) mean: f64,
    pub(crate) longest: u32,
    /// Of them, those that ended within three retrospectives.
    pub(crate) within_three: usize,
    /// Those that had not ended when the runs did.
    pub(crate) unended: usize,
}

/// Begin and end, by retrospective; without an end, the last one.
struct Episode {
    lasted: u32,
    ended: bool,
}

impl Episodes {
    fn of(episodes: &[Episode]) -> Self {
        let lasted = || episodes.iter().map(|one| one.lasted);
        Self {
            count: episodes.len(),
            mean: f64::from(lasted().sum::<u32>()) / episodes.len().max(1) as f64,
            longest: lasted().max().unwrap_or_default(),
            within_three: episodes.iter().filter(|one| one.ended && one.lasted <= 3).count(),
            unended: episodes.iter().filter(|one| !one.ended).count(),
        }
    }

    /// Share that ended within three retrospectives; `None` when there was nothing.
    pub(crate) fn share_within_three(&self) -> Option<f64> {
        super::share(self.within_three as f64, self.count as f64)
    }
}

fn handed_out(memory: &Kept) -> bool {
    memory.active && memory.weight >= HANDED_OUT_MIN
}

fn stories<'t>(told: &'t [Told<'_>]) -> impl Iterator<Item = &'t Story> {
    told.iter().flat_map(|told| &told.stories)
}

/// How long each memory was handed out while it stood like this.
fn standing_so(told: &[Told<'_>], so: fn(Standing) -> bool) -> Episodes {
    let mut episodes = Vec::new();
    for story in stories(told) {
        let mut open: BTreeMap<&str, usize> = BTreeMap::new();
        for (at, look) in story.looks.iter().enumerate() {
            let now: BTreeSet<&str> = look
                .memories
                .iter()
                .filter(|memory| handed_out(memory) && so(memory.standing))
                .map(|memory| memory.id.as_str())
                .collect();
            let gone: Vec<&str> = open.keys().copied().filter(|id| !now.contains(id)).collect();
            for id in gone {
                let began = open.remove(id).expect("it is open");
                episodes.push(Episode { lasted: (at - began) as u32, ended: true });
            }
            for id in now {
                open.entry(id).or_insert(at);
            }
        }
        let last = story.looks.len();
        episodes
            .extend(open.into_values().map(|began| Episode { lasted: (last - began) as u32, ended: false }));
    }
    Episodes::of(&episodes)
}

/// Retrospectives for which a memory that harms went on being handed out. One that appears at a retrospective and is gone
/// at the next lasted 1.
pub(crate) fn harmful(told: &[Told<'_>]) -> Episodes {
    standing_so(told, |standing| matches!(standing, Standing::Trap | Standing::Outdated))
}

/// The same for a memory whose cause is fixed and that harms nobody.
pub(crate) fn fading(told: &[Told<'_>]) -> Episodes {
    standing_so(told, |standing| standing == Standing::Stale)
}

/// Retrospectives from the one that made a memory heavy enough until one of the next windows was handed it: 1 is at once.
pub(crate) fn waiting(told: &[Told<'_>]) -> Episodes {
    let mut episodes = Vec::new();
    for story in stories(told) {
        let mut begun: BTreeMap<&str, usize> = BTreeMap::new();
        let mut shown: BTreeSet<&str> = BTreeSet::new();
        for (at, look) in story.looks.iter().enumerate() {
            for id in look.handed.iter().map(String::as_str) {
                if let (true, Some(began)) = (shown.insert(id), begun.get(id)) {
                    episodes.push(Episode { lasted: (at - began) as u32, ended: true });
                }
            }
            for memory in look.memories.iter().filter(|memory| handed_out(memory)) {
                begun.entry(&memory.id).or_insert(at);
            }
        }
        // What became heavy enough at the very end had no run that could have been handed it.
        let last = story.looks.len().saturating_sub(1);
        let never = begun.iter().filter(|(id, began)| !shown.contains(*id) && **began < last);
        episodes.extend(never.map(|(_, began)| Episode { lasted: (last - began) as u32, ended: false }));
    }
    Episodes::of(&episodes)
}

/// How often a lesson that harms was handed out again after it had fallen, a workflow; as this memory or as another.
pub(crate) fn comebacks(told: &[Told<'_>]) -> f64 {
    let mut times = 0;
    for story in stories(told) {
        let mut lessons: BTreeMap<About, (bool, bool)> = BTreeMap::new();
        for look in &story.looks {
            let harm = |memory: &&Kept| {
                handed_out(memory) && matches!(memory.standing, Standing::Trap | Standing::Outdated)
            };
            let about = |memory: &Kept| match memory.says {
                Says::Whole(about) => Some(about),
                _ => None,
            };
            let now: BTreeSet<About> = look.memories.iter().filter(harm).filter_map(about).collect();
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
    times as f64 / stories(told).count().max(1) as f64
}
