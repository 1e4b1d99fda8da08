//! Reasons why a pattern is no lesson.

use serde::{Deserialize, Serialize};

use crate::calls::ReactionCounts;
use crate::finding::RefutationReason;
use crate::id::{MemoryId, RunId};

/// Reason why a pattern is not a lesson although its quote was found in the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum NoLessonReason {
    /// The identical call succeeded when it was repeated, so the error passes without a change.
    Transient {
        /// Run of the retrospective in which the repeated call succeeded.
        run: RunId,
    },
    /// In other runs the identical call got past the error when it was repeated.
    PassesByItself {
        /// Numbers of the runs with the error.
        counts: ReactionCounts,
    },
    /// What runs called after the error, runs without it call as well.
    Routine {
        /// Numbers of the runs with the error.
        counts: ReactionCounts,
    },
    /// The call fails again and again, and the runs share no way past its error. Advice not to repeat it helps no agent.
    NoRemedy,
    /// Following a memory caused the error. The error counts as harm by that memory and teaches nothing else.
    Harm {
        /// Memory that caused the error.
        memory: MemoryId,
    },
    /// A language model refutes the finding with a quote from the run. Heuristics and model disagree, so it counts neither for
    /// nor against anything.
    Disputed {
        /// What the model says is wrong with it.
        because: RefutationReason,
    },
}

impl NoLessonReason {
    /// Returns the reason as one sentence about a pattern that was seen in the run `shown_in`.
    pub(super) fn describe(&self, shown_in: &RunId) -> String {
        match self {
            Self::Transient { run } if run == shown_in => {
                "the very same call got past the error in the same run: it passes by itself".to_owned()
            }
            Self::Transient { run } => {
                format!("the very same call got past the error in run {run}: it passes by itself")
            }
            Self::PassesByItself { counts } => format!(
                "the very same call got past the error in {} of the last {} runs that got past it: it passes by \
                 itself",
                counts.repeated,
                counts.repeated + counts.changed
            ),
            Self::Routine { counts } => format!(
                "runs without the error make the same call, so it is no remedy: {} of the last {} runs with the error \
                 got no further",
                counts.gave_up,
                counts.gave_up + counts.repeated + counts.changed
            ),
            Self::NoRemedy => {
                "the call fails again and again, and the runs share no way past the error yet".to_owned()
            }
            Self::Harm { memory } => {
                format!("following memory {memory} led to this error, which counts as its harm")
            }
            Self::Disputed { because } => format!(
                "a language model refutes it with a quote from the run, because {}: it counts neither for nor against",
                because.describe()
            ),
        }
    }
}
