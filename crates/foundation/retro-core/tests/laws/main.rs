//! The laws of the design, as properties over random stories. The decisions are those of the crate; an
//! in-memory store replaces the database between them.

#![expect(clippy::unwrap_used, reason = "clippy does not recognize shared test helpers as tests")]

#[expect(dead_code, reason = "the policy tests use more of it than the laws")]
#[path = "../world/mod.rs"]
mod world;

mod ledger;
mod story;

mod compared_texts;
mod law_01_a_run_is_counted_once;
mod law_02_one_open_and_windows_contiguous;
mod law_03_feedback_in_any_order;
mod law_03_same_inputs_same_bytes;
mod law_03_windows_follow_the_stream;
mod law_04_a_change_happens_once;
mod law_04_late_credit_happens_once;
mod law_05_the_log_folds_to_the_memories;
mod law_06_a_separate_run_is_another_run_id;
mod law_07_no_dead_state_and_no_limbo;
mod law_13_two_workers_produce_what_one_would;
mod law_15_a_repository_is_told_what_it_may_read;
mod law_17_no_loss_is_reported_without_proof;
mod people_add_rules;
mod people_decide;
mod recall_for_a_task;
mod rules;

use proptest::test_runner::Config;

/// Number of random cases per law. All laws together take a few seconds in a debug build.
const CASES: u32 = 48;

fn cases(cases: u32) -> Config {
    // A failing case is printed in full, so no file of old failures is needed.
    Config { cases, failure_persistence: None, ..Config::default() }
}
