//! The names of commits that one statement makes for several stages.

use retro_fault::Label;
use retro_store::{Stage, keep};

/// The commit of a journal entry.
pub const fn journalling(stage: Stage) -> Label {
    match stage {
        Stage::Briefed => Label::JournalBriefedCommit,
        Stage::Answered => Label::JournalAnsweredCommit,
    }
}

/// The commit of a stage of retention.
pub const fn purging(stage: keep::Stage) -> Label {
    match stage {
        keep::Stage::Bodies => Label::PurgeBodiesCommit,
        keep::Stage::Journals => Label::PurgeJournalsCommit,
        keep::Stage::Runs => Label::PurgeRunsCommit,
        keep::Stage::Events => Label::PurgeEventsCommit,
        keep::Stage::Messages => Label::PurgeMessagesCommit,
        keep::Stage::Attempts => Label::PurgeAttemptsCommit,
    }
}
