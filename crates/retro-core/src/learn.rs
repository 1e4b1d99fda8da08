//! Learning: from what investigations saw to what memory becomes.
//!
//! [`settle`] turns findings and verdicts into a batch of mutations, in the order observe, contradict, credit,
//! sweep. [`apply`] decides what the writer does with the batch: every mutation has an outcome, every effect is a
//! change with an effect key, and the memories are the fold of the changes. [`close`] puts the report around it. Rules
//! from reviews go the same way, through [`apply_rules`] and [`close_review`].

mod alike;
mod apply;
mod close;
mod observe;
mod rules;
mod settle;
mod weigh;

pub use apply::{Applied, Asked, Did, MutationOutcome, WriterFacts, apply, delete_by_operator};
pub(crate) use close::nothing;
pub use close::{Closing, ClosingFacts, Timing, close};
pub use rules::{
    PromoteFacts, Promotion, ReviewClosing, ReviewFacts, RuleFacts, RuleUse, RulesUsed, Unpromoted,
    apply_rules, close_review, promote_rule, rules_used,
};
pub use settle::{Ask, Mutation, NoLesson, batch_of, settle};

pub(crate) use alike::Alike;
pub(crate) use observe::SHOWING;
pub(crate) use settle::passed_in;
