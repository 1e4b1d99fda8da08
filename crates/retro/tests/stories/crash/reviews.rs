//! The road of a review: from the stream to a rule, and a person's word for one.

use retro_fault::Label;

pub(super) const LABELS: [Label; 4] =
    [Label::HearCommit, Label::ReviewCommit, Label::RulesCommit, Label::PromoteCommit];
