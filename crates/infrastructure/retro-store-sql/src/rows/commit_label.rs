//! Maps journal and retention stages to the fault labels of their commits.

use retro_fault::Label;
use retro_store::{JournalStage, retention};

/// Returns the fault label of the commit that writes a journal entry.
pub(crate) const fn journal_commit_label(stage: JournalStage) -> Label {
    match stage {
        JournalStage::Briefed => Label::JournalBriefedCommit,
        JournalStage::Answered => Label::JournalAnsweredCommit,
    }
}

/// Returns the fault label of the commit that purges rows of a retention stage.
pub(crate) const fn purge_commit_label(stage: retention::RetentionStage) -> Label {
    match stage {
        retention::RetentionStage::Bodies => Label::PurgeBodiesCommit,
        retention::RetentionStage::Journals => Label::PurgeJournalsCommit,
        retention::RetentionStage::Runs => Label::PurgeRunsCommit,
        retention::RetentionStage::Events => Label::PurgeEventsCommit,
        retention::RetentionStage::Messages => Label::PurgeMessagesCommit,
        retention::RetentionStage::Attempts => Label::PurgeAttemptsCommit,
    }
}
