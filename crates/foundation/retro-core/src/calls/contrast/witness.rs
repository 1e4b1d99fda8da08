//! What runs did about one error, and their numbers.

use serde::{Deserialize, Serialize};

use crate::calls::reaction::{ChangedPart, Reaction, ReactionEnding};
use crate::id::RunId;

/// What one run did about an error, with the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Witness<'a> {
    pub(super) run: &'a RunId,
    /// `true` if the run is known to have ended badly.
    pub(super) ended_badly: bool,
    pub(super) reaction: &'a Reaction,
}

/// Numbers of runs that reacted to one error, of those that a contrast counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ReactionCounts {
    /// Runs that got past the error with the remedy; 0 if there is none.
    pub with_remedy: u32,
    /// Runs that got past the error with a changed call, or with another call before it.
    pub changed: u32,
    /// Runs in which the identical call succeeded when it was repeated at once.
    pub repeated: u32,
    /// Repetitions of the identical call that failed again.
    pub repeats_failed: u32,
    /// Runs that did not get past the error.
    pub gave_up: u32,
}

/// Number of runs with a remedy that outweigh the words of an error, and number of failed repetitions that do.
const OUTWEIGHING_RUNS: u32 = 4;
const OUTWEIGHING_REPEATS: u32 = 2;

impl ReactionCounts {
    /// Returns `true` if the runs leave no doubt that the remedy is needed, although the words of the error say that it
    /// passes.
    pub(super) const fn outweighs_words(&self) -> bool {
        self.repeated == 0
            && (self.with_remedy >= OUTWEIGHING_RUNS || self.repeats_failed >= OUTWEIGHING_REPEATS)
    }
}

/// Returns the parts in which a call that succeeded differs; empty if none did.
pub(super) fn parts_of(reaction: &Reaction) -> &[ChangedPart] {
    match &reaction.ending {
        ReactionEnding::Changed { parts } => parts,
        _ => &[],
    }
}

pub(super) fn to_count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Returns `true` if a part of a whole is more than `percent` per cent of it.
pub(super) const fn exceeds_share(part: u32, whole: u32, percent: usize) -> bool {
    part as usize * 100 > whole as usize * percent
}
