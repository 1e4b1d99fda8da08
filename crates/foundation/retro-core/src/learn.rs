//! Turns the results of investigations and reviews into changes to memories.
//!
//! [`settle_investigations`] turns findings and verdicts into a batch of mutations, in the order observe,
//! contradict, credit, sweep. [`apply_mutations`] decides the effects of the batch: every mutation gets an
//! outcome, every effect is a change with an effect key, and the memories are computed by folding their
//! changes. [`close_retrospective`] adds the report and the next state of the workflow. [`apply_rules`] and
//! [`close_review`] do the same for rules from reviews. [`decide_memory`] is for what a person asks of one memory, and
//! [`add_memory`] for one that a person wrote. [`add_rule`] is for a rule that a person wrote or made of a remark, and
//! [`save_lesson`] for a lesson that an agent states in fields during its run.

mod account;
mod add;
mod apply;
mod check_quote;
mod close;
mod decide;
mod feedback;
mod missed;
mod no_lesson;
mod observe;
mod remedies;
mod rules;
mod save;
mod settle;
mod signals;
mod weigh;
mod widen;
mod wording;
mod writer;

pub use crate::finding::{LessonFieldError, SavedChange};
pub use add::{AddedMemory, AdditionError, AdditionFacts, WrittenMemory, add_memory};
pub use apply::{apply_mutations, delete_by_operator, release_by_operator};
pub use close::{ClosedRetrospective, ClosingFacts, close_retrospective};
pub use decide::{
    DecidedMemory, DecisionRequest, MemoryDecision, MemoryDecisionError, MemoryDecisionFacts, decide_memory,
};
pub use feedback::{
    FEEDBACK_PASSES_MAX, FeedbackChanges, FeedbackRun, FeedbackSelection, SettledFeedback, WaitingFeedback,
};
pub use no_lesson::NoLessonReason;
pub use remedies::{ContrastSupport, SupportElsewhere};
pub use rules::{
    AddedRule, ClosedReview, PromoteError, PromoteFacts, PromotedRemark, ReviewClosingFacts, RuleAddition,
    RuleAdditionError, RuleAdditionFacts, RuleChanges, RuleFacts, RuleUse, RuleUseBatch, add_rule,
    apply_rules, build_rule_use_batches, close_review, promote_rule,
};
pub use save::{
    CAUSE_CHARS_MAX, LessonFields, LessonSaving, SAVED_PER_RUN_MAX, SAVED_PER_WORKFLOW_MAX, SaveError,
    SaveFacts, SavedLesson, save_lesson,
};
pub use settle::{Mutation, MutationKind, build_batch, settle_investigations};
pub use signals::RunSignal;
pub use wording::{LessonWording, TextLengthError};
pub use writer::WriterFacts;
