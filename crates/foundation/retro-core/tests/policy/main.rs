//! The policy, rule by rule. The name of each test is the rule that it checks.

#![expect(clippy::unwrap_used, reason = "clippy does not recognize shared test helpers as tests")]

#[path = "../world/mod.rs"]
mod world;

mod cancel;
mod close;
mod contradict;
mod contrast;
mod count;
mod credit;
mod decide;
mod gate;
mod manual;
mod missed;
mod observe;
mod quotes;
mod recall;
mod repositories;
mod rules;
mod rules_by_hand;
mod stored;
mod sweep;
mod tombstone;
mod transient;
mod words;
