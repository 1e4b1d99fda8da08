//! The policy, row by row and bullet by bullet. Each test's name is the sentence that it holds.

#![expect(
    clippy::unwrap_used,
    reason = "clippy takes only the tests themselves for tests, not what they share"
)]

#[path = "../world/mod.rs"]
mod world;

mod close;
mod contradict;
mod count;
mod credit;
mod manual;
mod observe;
mod quotes;
mod recall;
mod rules;
mod steer;
mod stored;
mod sweep;
mod tombstone;
mod transient;
