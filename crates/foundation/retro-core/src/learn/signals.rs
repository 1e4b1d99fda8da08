//! Tells how a run let the program know what became of the memories that it was handed.

use strum::IntoStaticStr;

use super::feedback::WaitingFeedback;
use crate::finding::MemoryVerdict;
use crate::retrospective::{Investigation, PresentedMemory};

/// Strongest signal of a run about the memories that it was handed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum RunSignal {
    /// Somebody said what a memory did.
    Feedback,
    /// The trace shows the agent acting on a memory.
    Applied,
    /// The agent opened a memory.
    Read,
    /// Nothing is known.
    None,
}

impl RunSignal {
    /// Returns the signal as it is shown, such as `feedback`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Returns the signal of each investigated run that memories of its workflow were presented to.
pub(super) fn list_signals(investigations: &[Investigation], feedback: &[WaitingFeedback]) -> Vec<RunSignal> {
    // Rules are excluded: the title of a rule is its whole text, so agents read rules in the prompt itself.
    let own = |one: &&PresentedMemory| one.repo.is_none();
    let signal = |one: &Investigation| {
        let (checked, presented) = one.result.as_ref()?.checked_answer()?;
        presented.iter().find(own)?;
        let of_run =
            |waiting: &WaitingFeedback| waiting.feedback.author.run().is_some_and(|(_, run)| *run == one.run);
        let applied = presented.iter().filter(own).any(|shown| {
            let verdicts = checked.verdicts.iter();
            verdicts
                .filter(|record| record.memory == shown.memory)
                .any(|record| record.verdict <= MemoryVerdict::Applied)
        });
        Some(if feedback.iter().any(of_run) {
            RunSignal::Feedback
        } else if applied {
            RunSignal::Applied
        } else if presented.iter().filter(own).any(|one| one.read) {
            RunSignal::Read
        } else {
            RunSignal::None
        })
    };
    investigations.iter().filter_map(signal).collect()
}
