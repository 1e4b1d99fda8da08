//! The conformance suite that every database behind the ports must pass.
//!
//! A case is one function whose name states the rule it checks. It gets a fresh, migrated database with two handles,
//! as two processes would have. A database crate runs all cases with three lines in a test file:
//!
//! ```text
//! async fn open() -> (retro_store::conformance::Database, impl Sized) { /* a fresh database and its guard */ }
//! retro_store::conformance!(crate::open);
//! ```
//!
//! The cases call the core's own decisions, so that they store what a running program stores.

mod scenario;

pub mod audit;
pub mod broker;
pub mod close;
pub mod count;
pub mod delivery;
pub mod investigate;
pub mod keep;
pub mod letter;
pub mod level;
pub mod manual;
pub mod operate;
pub mod recall;
pub mod replay;
pub mod request;
pub mod review;
pub mod rules;
pub mod sample;
pub mod samples;
pub mod steer;
pub mod tenants;
pub mod trace;
pub mod track;
pub mod vectors;
pub mod verify;
pub mod write;

use std::sync::Arc;

use crate::Store;

/// A fresh database with two handles that share no memory.
pub struct Database {
    /// Handle of the first process.
    pub one: Arc<dyn Store>,
    /// Handle of the second process.
    pub two: Arc<dyn Store>,
}

/// Generates one test per case. `$open` is the absolute path of an async function that returns a [`Database`] and a
/// guard that keeps it alive. The calling crate needs `tokio` with its macros.
#[macro_export]
macro_rules! conformance {
    ($open:path) => {
        $crate::conformance! {
            $open;
            count {
                a_run_is_counted_once_though_its_event_comes_again
                a_run_is_counted_once_though_it_comes_under_new_event_ids
                two_workers_with_the_same_batch_leave_what_one_would_have_left
                a_window_is_claimed_in_the_order_of_the_stream_whoever_was_quicker
                two_workers_with_different_batches_give_each_run_its_own_ordinal
                an_event_that_comes_in_two_workflows_at_once_is_counted_in_one
                two_batches_over_the_same_workflows_in_other_orders_both_go_through
                the_same_event_id_with_other_content_is_a_conflict_and_changes_nothing
                event_ids_that_differ_behind_a_nul_are_two_events
                a_run_that_does_not_count_is_recorded_and_counts_once_it_does
                a_higher_attempt_replaces_facts_and_body_and_a_lower_one_does_not
                of_several_attempts_in_one_batch_the_last_stays
                a_run_that_a_retrospective_has_claimed_keeps_its_facts
                a_full_window_opens_exactly_one_retrospective
                a_window_is_waiting_only_while_none_is_open_and_no_pause_runs
                a_batch_may_span_tenants_and_workflows
                an_empty_batch_only_looks_at_windows
                a_second_open_retrospective_is_refused_whatever_a_decision_says
                a_count_that_is_cut_short_leaves_nothing_or_all_of_it
            }
            trace {
                a_retrospective_continues_the_run_that_filled_its_window
                a_window_that_is_opened_again_does_not_continue_the_run_that_filled_it
                an_investigation_knows_the_run_that_it_looks_into
                what_nobody_traced_goes_its_way_all_the_same
            }
            track {
                what_is_heard_of_a_pull_request_grows_and_an_event_adds_once
                a_run_belongs_by_its_event_by_its_commit_or_by_a_trailer
                a_trailer_that_fits_several_runs_names_none_until_it_names_the_workflow
                credit_comes_once_whatever_is_known_last
                a_close_without_a_merge_costs_and_a_merge_after_it_credits
                credit_comes_in_parts_and_none_is_lost
                what_a_higher_attempt_says_of_its_pull_request_is_followed
                links_are_read_a_look_at_a_time
                a_report_tells_what_was_known_of_its_runs_pull_requests
                pull_requests_keep_tenants_apart
            }
            sample {
                a_sample_is_stored_before_anything_is_investigated
                a_sample_is_drawn_once_by_however_many_samplers
                a_window_with_a_missing_run_is_damage_and_nothing_is_stored
                a_retrospective_is_overdue_only_while_it_waits_for_its_sample
            }
            investigate {
                a_claim_carries_everything_that_is_known
                bodies_of_every_kind_come_back_as_they_came
                nobody_claims_what_somebody_holds
                two_workers_at_once_claim_two_different_investigations
                an_expired_lease_is_taken_over_with_a_larger_token
                the_old_holder_is_fenced_and_writes_nothing
                a_heartbeat_holds_a_lease_and_can_let_it_end
                a_takeover_resumes_from_the_journal
                a_claim_that_is_given_back_waits_and_is_fenced
                a_claim_that_is_released_is_due_at_once_and_costs_no_attempt
                who_released_a_claim_is_fenced
                finishing_makes_the_next_due_and_the_last_one_settles
                a_failed_investigation_is_replaced_from_the_window
                two_holders_that_finish_at_once_leave_one_result
            }
            close {
                closing_stores_changes_memories_report_and_messages_together
                the_memories_are_the_fold_of_the_changes
                closing_twice_changes_nothing
                two_writers_at_once_close_once
                a_closing_that_cannot_be_stored_leaves_nothing
                what_was_applied_is_told_to_whoever_closes
                what_went_before_is_told_to_whoever_closes
                closing_opens_the_next_when_the_window_is_full_again
                a_failed_retrospective_releases_pauses_and_leaves_a_dead_letter
                windows_stay_contiguous_after_a_release
                the_previous_epoch_is_the_last_that_succeeded
                memories_that_the_batch_names_are_loaded_whatever_their_status
                expired_tombstones_are_purged
                a_report_tells_what_the_database_saw
                a_retrospective_is_overdue_only_while_it_settles
            }
            write {
                a_deletion_leaves_a_change_a_tombstone_and_an_announcement
                the_same_deletion_happens_once
                what_cannot_be_deleted_is_told_and_nothing_is_written
            }
            manual {
                a_manual_one_begins_with_its_runs_and_leaves_the_window_alone
                the_same_request_opens_one
                what_cannot_be_looked_at_is_told_and_nothing_is_written
                any_number_may_be_open_beside_the_automatic_one
                closing_a_manual_one_stores_its_proposals_and_nothing_else
                a_manual_one_without_a_success_leaves_only_its_report
                an_accepted_proposal_is_a_memory_with_its_changes_and_announcements
                two_people_at_once_leave_one_decision
                a_refusal_is_kept_and_changes_no_memory
                a_decision_knows_what_the_runs_have_shown_before
                proposals_are_listed_and_filtered
                the_previous_epoch_is_never_a_manual_one
            }
            recall {
                candidates_are_the_active_memories_of_the_step
                a_presentation_counts_once_a_run
                reading_is_remembered_with_and_without_a_presentation
                a_memory_of_another_workflow_is_not_recorded
                a_short_name_means_the_one_memory_that_begins_so
                a_short_name_of_several_memories_asks_for_more_digits
            }
            request {
                a_request_is_done_once_and_its_answer_is_given_again
                of_two_that_begin_a_request_at_once_one_may_do_it
                another_content_under_the_same_key_is_told
                a_request_that_somebody_left_is_taken_over_and_the_late_answer_is_dropped
                a_request_that_ends_without_an_answer_can_be_begun_again
                requests_of_other_tenants_and_routes_are_others
                old_requests_are_forgotten_in_bounded_stages
            }
            review {
                an_event_of_github_is_taken_once
                two_that_hear_the_same_at_once_leave_what_one_would_have_left
                a_pull_request_is_due_once_its_wait_is_over
                the_newest_of_a_remark_stays_whatever_came_first
                threads_and_authors_are_known_whenever_they_are_told
                what_was_decided_upon_an_older_state_is_not_stored
                requests_are_told_to_the_other_pull_requests_of_the_repository
                closing_a_batch_of_rules_stores_everything_once
                what_a_remark_has_caused_is_told_to_the_next_round
                a_person_promotes_a_quarantined_rule_once
                reviewing_keeps_tenants_apart
            }
            rules {
                what_runs_made_of_a_rule_is_asked_of_its_keeper_once
                a_rule_that_some_run_used_is_counted_anew
                a_rule_is_shown_to_nobody_of_another_tenant
            }
            delivery {
                messages_wait_in_order_until_they_are_sent
                attempts_are_counted_for_each_consumer_and_position
                a_message_whose_attempts_are_spent_is_counted_no_further
                of_two_that_begin_the_last_attempt_at_once_one_may
                a_message_that_is_a_dead_letter_begins_no_attempt
                attempts_at_a_message_that_was_handled_are_forgotten
                a_dead_letter_comes_back_byte_for_byte
                giving_up_twice_leaves_one_letter
                two_that_give_up_at_once_leave_one_letter
                a_letter_without_a_tenant_is_the_default_tenants_to_see
                health_counts_what_waits
            }
            broker {
                a_stream_is_the_same_as_long_as_it_says_the_same_and_grows
                a_stream_is_another_when_the_message_at_its_end_was_stored_at_another_time
                a_look_that_others_have_overtaken_says_nothing
                a_suspicion_is_cleared_by_a_look_that_recognizes_the_stream
                names_read_from_a_stream_that_is_suspected_or_has_ended_are_not_kept
                what_the_stream_in_its_place_holds_is_not_lost_and_waits_there
                a_loss_is_closed_once_and_says_who_closed_it_and_why
                what_went_with_a_stream_is_told_unless_it_was_handled_or_given_up
                what_several_read_is_lost_until_each_of_them_has_handled_it
                what_was_acknowledged_does_not_wait
                what_waited_and_is_gone_from_its_stream_is_lost_unless_it_was_handled
                attempts_at_positions_of_a_stream_that_ended_are_forgotten
                a_stream_made_anew_is_fed_again_by_the_outbox
                two_that_find_a_stream_made_anew_leave_one_row_and_feed_it_once
                a_stream_is_compared_by_one_process_within_a_pause
                a_message_that_was_given_up_is_known_by_its_position_and_payload
                a_handled_event_is_seen_and_another_is_not
            }
            operate {
                runs_are_listed_newest_first_and_filtered
                memories_are_listed_heaviest_first_and_filtered
                runs_are_told_with_whether_they_met_a_memory
                retrospectives_are_listed_with_what_they_did
                dead_letters_are_filtered_by_everything_that_is_said
                dead_letters_are_listed_in_pages
                a_migrated_database_lacks_nothing
            }
            keep {
                an_event_that_comes_again_after_its_details_were_purged_is_not_counted
                bodies_are_kept_until_their_retrospective_has_closed
                a_body_that_was_dropped_and_is_asked_for_again_is_gone
                facts_go_after_their_bodies_and_identities_stay
                a_run_that_was_not_counted_keeps_its_details_as_long_as_a_body
                journals_are_kept_until_their_retrospective_has_ended
                effects_are_known_after_everything_was_purged
                messages_are_purged_only_after_they_were_sent
                attempts_are_forgotten_by_age
                purging_is_bounded_and_two_at_once_purge_what_one_would_have
            }
            audit {
                what_people_did_is_kept_in_order_and_any_number_of_times
            }
            letter {
                a_letter_tells_of_every_attempt_and_its_error
                an_attempt_that_left_no_word_is_told_with_when_it_began
                giving_up_twice_leaves_one_history
                a_history_is_bounded
                a_version_is_kept_beside_the_letter_and_with_who_made_it
                letters_are_counted_by_what_is_the_same_of_them
                what_belongs_to_a_letter_keeps_tenants_apart
            }
            vectors {
                a_memory_lacks_a_vector_until_one_is_kept
                vectors_are_found_by_text_within_their_tenant_and_embedder
                what_was_deleted_lacks_a_vector_as_long_as_its_tombstone_stands
                a_decision_that_wants_vectors_stores_nothing
                vectors_of_other_embedders_are_forgotten_by_age
            }
            level {
                an_empty_database_stands_at_nothing
                levels_count_what_waits_over_all_tenants
                a_retrospective_is_open_until_it_ends
                the_oldest_tentative_is_told_by_policy_time
                a_confirmation_tells_how_long_it_took
            }
            steer {
                cancelling_releases_the_runs_and_keeps_who_and_why
                a_retrospective_that_has_ended_cannot_be_cancelled
                cancelling_fences_the_investigator_and_makes_every_message_harmless
                a_cancel_and_a_closing_at_once_leave_one_end
                replaying_a_failure_opens_the_next_epoch_at_once
                a_letter_is_replayed_once_by_however_many
                a_letter_with_nothing_to_open_stays_open
                only_the_letter_of_a_failed_retrospective_reopens
            }
            replay {
                a_letter_is_sent_again_as_it_came_under_another_id
                of_two_who_replay_a_letter_at_once_one_does
                what_came_of_a_replay_stands_with_its_letter
                a_replay_that_fails_leaves_its_letter_open_and_no_second_one
                a_message_is_believed_to_be_a_replay_when_it_is_what_was_sent
                a_replay_that_nothing_came_of_is_sent_again_under_its_id
                a_replay_that_the_broker_refuses_leaves_its_letter_open
                replays_are_due_one_after_the_other
                a_slow_batch_keeps_nobody_waiting
                a_letter_that_was_put_aside_is_kept_and_can_be_replayed
                a_batch_stops_when_one_that_went_first_fails
                a_batch_leaves_alone_what_somebody_acted_on_meanwhile
                a_batch_that_is_called_off_takes_up_no_more
                a_failed_retrospective_in_a_batch_opens_the_next_one
                two_that_drive_a_batch_at_once_leave_what_one_would_have_left
            }
            verify {
                workflows_are_met_once_whatever_the_size_of_a_page
                retrospectives_come_with_their_reports_and_changes
                memories_come_with_their_changes_and_tombstones
                runs_that_are_not_counted_are_named
                a_database_has_one_identity
            }
            tenants {
                counting_keeps_tenants_apart
                sampling_keeps_tenants_apart
                investigating_keeps_tenants_apart
                closing_keeps_tenants_apart
                what_a_writer_is_told_keeps_tenants_apart
                deleting_keeps_tenants_apart
                manual_retrospectives_keep_tenants_apart
                recalling_keeps_tenants_apart
                naming_keeps_tenants_apart
                every_question_keeps_tenants_apart
                dead_letters_keep_tenants_apart
                steering_keeps_tenants_apart
                replaying_keeps_tenants_apart
            }
        }
    };
    ($open:path; $($module:ident { $($case:ident)+ })+) => {
        $(mod $module {$(
            #[tokio::test]
            async fn $case() {
                let (database, _alive) = $open().await;
                $crate::conformance::$module::$case(&database).await;
            }
        )+})+
    };
}

#[cfg(test)]
mod tests {
    /// A case that is not listed in the macro would never run.
    #[test]
    fn every_case_is_listed() {
        let list = include_str!("mod.rs");
        let files = [
            include_str!("audit.rs"),
            include_str!("broker.rs"),
            include_str!("close.rs"),
            include_str!("count.rs"),
            include_str!("delivery.rs"),
            include_str!("investigate.rs"),
            include_str!("keep.rs"),
            include_str!("letter.rs"),
            include_str!("level.rs"),
            include_str!("manual.rs"),
            include_str!("operate.rs"),
            include_str!("recall.rs"),
            include_str!("replay.rs"),
            include_str!("request.rs"),
            include_str!("review.rs"),
            include_str!("sample.rs"),
            include_str!("steer.rs"),
            include_str!("tenants.rs"),
            include_str!("track.rs"),
            include_str!("verify.rs"),
            include_str!("write.rs"),
        ];
        let mut cases = 0;
        for line in files.iter().flat_map(|file| file.lines()) {
            let Some(case) = line.strip_prefix("pub async fn ").and_then(|rest| rest.split('(').next())
            else {
                continue;
            };
            cases += 1;
            assert!(list.lines().any(|listed| listed.trim() == case), "{case} is not listed");
        }
        assert!(cases > 50, "only {cases} cases were found");
    }
}
