//! Lists the cases of the conformance suite.

/// Generates a test for each case. `$open` is the absolute path of an async function that returns a
/// [`Database`] and a guard that keeps it alive, whose async method `finish` is called after the case. The calling crate needs `tokio` with its macros.
#[macro_export]
macro_rules! conformance {
    ($open:path) => {
        $crate::conformance! {
            $open;
            count {
                a_run_is_counted_once_though_its_event_comes_again
                a_run_is_counted_once_though_it_comes_under_new_event_ids
                two_workers_with_the_same_batch_leave_what_one_would_have_left
                two_workers_with_different_batches_give_each_run_its_own_ordinal
                an_event_that_comes_in_two_workflows_at_once_is_counted_in_one
                two_batches_over_the_same_workflows_in_other_orders_both_go_through
                the_same_event_id_with_other_content_is_a_conflict_and_changes_nothing
                event_ids_that_differ_behind_a_nul_are_two_events
                a_run_that_does_not_count_is_recorded_and_counts_once_it_does
                a_higher_attempt_replaces_facts_and_body_and_a_lower_one_does_not
                of_several_attempts_in_one_batch_the_last_wins
                a_run_that_a_retrospective_has_claimed_keeps_its_facts
                a_full_window_opens_exactly_one_retrospective
                a_window_is_waiting_only_while_none_is_open_and_no_pause_runs
                a_batch_may_span_tenants_and_workflows
                an_empty_batch_only_checks_windows
                the_database_refuses_a_second_open_retrospective
                an_interrupted_count_leaves_nothing_or_all_of_it
            }
            stream_order {
                a_window_is_claimed_in_the_order_of_the_stream_whoever_was_quicker
                a_window_waits_for_the_runs_that_precede_it
                a_backlog_is_claimed_in_parts_in_the_order_of_the_stream
            }
            trace {
                a_retrospective_continues_the_run_that_filled_its_window
                a_window_that_is_opened_again_does_not_continue_the_run_that_filled_it
                an_investigation_knows_the_context_of_its_run
                untraced_work_proceeds_as_usual
            }
            track {
                facts_of_a_pull_request_grow_and_an_event_applies_once
                a_run_belongs_by_its_event_by_its_commit_or_by_a_trailer
                a_trailer_that_fits_several_runs_names_none_until_it_names_the_workflow
                credit_comes_once_whatever_is_known_last
                a_close_without_a_merge_costs_and_a_merge_after_it_credits
                credit_comes_in_parts_and_none_is_lost
                a_higher_attempt_that_names_a_pull_request_is_tracked_again
                links_are_read_page_by_page
                a_report_has_the_known_pull_requests_of_its_runs
                pull_requests_keep_tenants_apart
            }
            outcomes {
                an_outcome_credits_rules_in_their_own_scope
                a_request_for_changes_by_an_insider_counts_once
                a_revert_counts_whichever_is_known_first
                a_ci_run_reaches_the_runs_of_its_commit_and_pull_request
            }
            prompts {
                the_version_of_a_prompt_is_in_the_event_or_in_commits
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
                a_held_investigation_cannot_be_claimed
                two_workers_at_once_claim_two_different_investigations
                an_expired_lease_is_taken_over_with_a_larger_token
                the_old_holder_is_fenced_and_writes_nothing
                a_heartbeat_holds_a_lease_and_can_let_it_end
                a_takeover_resumes_from_the_journal
                a_claim_that_is_given_back_waits_and_is_fenced
                a_claim_that_is_released_is_due_at_once_and_costs_no_attempt
                a_worker_that_released_its_claim_is_fenced
                finishing_makes_the_next_due_and_the_last_one_settles
                a_failed_investigation_is_replaced_from_the_window
                two_holders_that_finish_at_once_leave_one_result
            }
            model_calls {
                a_call_is_found_by_whoever_takes_over
                an_old_holder_stores_no_call
                spending_is_summed_by_investigation_retrospective_and_day
                calls_are_purged_with_the_journals
            }
            review_calls {
                due_reviews_have_one_holder
                an_outdated_decision_ends_its_claim_and_keeps_its_calls
                spending_on_reviews_is_summed_by_pull_request_and_day
                calls_about_reviews_are_purged_with_the_journals
                a_review_version_is_stored_with_the_first_review_under_it
            }
            workflow_brief {
                a_brief_is_journalled_once_and_found_by_every_later_investigation
                the_newest_summaries_are_those_of_the_claimed_workflow
                a_run_of_the_claimed_workflow_is_found_by_its_ordinal_with_its_body
            }
            pipelines {
                a_version_is_stored_with_the_first_retrospective_under_it
                a_version_has_what_became_of_its_memories
                a_revert_is_recorded_with_its_person
            }
            close {
                closing_stores_changes_memories_report_and_messages_together
                the_memories_are_the_fold_of_the_changes
                closing_twice_changes_nothing
                two_writers_at_once_close_once
                a_closing_that_cannot_be_stored_leaves_nothing
                closing_facts_have_earlier_changes
                closing_facts_have_spending_and_earlier_findings
                closing_opens_the_next_when_the_window_is_full_again
                a_failed_retrospective_releases_pauses_and_leaves_a_dead_letter
                windows_stay_contiguous_after_a_release
                the_previous_epoch_is_the_last_that_succeeded
                memories_that_the_batch_names_are_loaded_whatever_their_status
                expired_tombstones_are_purged
                a_report_has_attempts_and_durations_of_the_database
                a_retrospective_is_overdue_only_while_it_settles
            }
            write {
                a_deletion_leaves_a_change_a_tombstone_and_an_announcement
                the_same_deletion_happens_once
                a_refused_deletion_writes_nothing
                a_release_leaves_a_change_and_an_announcement
                the_same_release_happens_once
                a_refused_release_writes_nothing
                a_held_rule_is_released_once
            }
            decide {
                a_disabled_and_pinned_memory_is_the_fold_of_its_changes
                the_same_decision_happens_once
                a_restored_memory_has_no_tombstone
                a_request_whose_deletion_was_taken_back_is_refused
                a_refused_decision_writes_nothing
                a_written_memory_needs_no_run
                the_same_memory_is_added_once
                the_same_lesson_is_saved_once
            }
            manual {
                a_manual_retrospective_has_its_runs_and_leaves_the_window_unchanged
                the_same_request_opens_one_retrospective
                a_refused_trigger_writes_nothing
                manual_retrospectives_are_open_beside_the_automatic_one
                closing_a_manual_retrospective_stores_only_report_and_proposals
                a_manual_retrospective_without_a_success_leaves_only_its_report
                an_accepted_proposal_is_a_memory_with_its_changes_and_announcements
                two_people_at_once_leave_one_decision
                a_refusal_is_stored_and_changes_no_memory
                a_decision_gets_earlier_changes_of_the_runs
                proposals_are_listed_and_filtered
                the_previous_epoch_is_never_that_of_a_manual_retrospective
            }
            summaries {
                runs_of_a_window_are_summarised_once
                a_summary_that_was_begun_before_is_begun_alone
                a_summary_that_was_begun_too_often_is_given_up
                a_run_without_details_has_an_unreadable_summary
                a_summary_of_a_lower_attempt_is_replaced
                a_summary_of_an_older_version_is_replaced
                the_old_holder_neither_begins_nor_stores_summaries
                a_manual_retrospective_has_no_summaries
                counts_travel_from_the_last_investigation_to_the_closing
                old_summaries_are_deleted_by_ordinal
            }
            context_lease {
                a_change_is_listed_under_its_workflow
                no_change_is_missed_though_transactions_overlap
                a_lease_counts_its_renewals
                presentations_of_many_runs_count_like_one_after_the_other
            }
            recall {
                candidates_are_the_active_memories_of_the_step
                a_presentation_counts_once_a_run
                candidates_are_those_of_the_repository
                a_repository_is_private_if_its_newest_run_says_so
                reading_is_remembered_with_and_without_a_presentation
                a_memory_of_another_workflow_is_not_recorded
                the_first_decision_by_chance_stays_and_is_listed_with_its_run
                a_recorded_presentation_is_known_at_once_and_counted_when_applied
                a_short_reference_resolves_to_the_only_match
                an_ambiguous_reference_asks_for_more_digits
            }
            feedback {
                the_same_feedback_is_stored_once
                feedback_on_a_foreign_memory_is_feedback_on_a_missing_one
                a_closing_weighs_feedback_once
                feedback_without_a_run_is_given_up
                a_flood_of_one_run_is_refused
                a_flood_of_one_run_at_once_is_refused
                a_batch_of_rules_weighs_feedback_once
            }
            idempotency {
                a_request_is_processed_once_and_its_response_is_repeated
                of_two_that_begin_a_request_at_once_one_may_do_it
                other_content_under_the_same_key_is_a_mismatch
                an_abandoned_request_is_taken_over_and_its_late_response_is_dropped
                a_request_that_ends_without_a_response_can_be_repeated
                requests_of_other_tenants_and_routes_are_separate
                old_requests_are_deleted_in_bounded_steps
            }
            review {
                a_review_event_is_recorded_once
                two_processes_recording_the_same_events_leave_what_one_would_have_left
                a_pull_request_is_due_once_its_wait_is_over
                the_newest_version_of_a_remark_wins_in_any_order
                threads_and_authors_may_arrive_in_any_order
                a_decision_about_an_older_revision_is_not_stored
                a_decision_gets_requests_of_the_repositorys_other_pull_requests
                closing_a_batch_of_rules_stores_everything_once
                undecided_rules_store_nothing_and_their_facts_are_readable
                the_next_round_gets_earlier_changes_of_a_remark
                a_person_promotes_a_quarantined_rule_once
                reviewing_keeps_tenants_apart
            }
            rule_additions {
                an_added_rule_needs_no_review
                the_same_rule_is_added_once
                an_added_rule_replaces_one_from_a_review
                an_undecided_or_refused_rule_stores_nothing
                a_promoted_remark_is_the_evidence_of_its_rule
                a_deleted_or_foreign_remark_is_a_missing_one
            }
            rules {
                verdicts_of_runs_on_a_rule_are_applied_to_its_scope_once
                a_used_rule_restarts_its_count_of_unused_presentations
                a_rule_is_never_presented_to_another_tenant
            }
            delivery {
                messages_wait_in_order_until_they_are_sent
                attempts_are_counted_for_each_consumer_and_position
                a_message_without_attempts_left_is_not_counted_further
                of_two_that_begin_the_last_attempt_at_once_one_may
                a_message_that_is_a_dead_letter_begins_no_attempt
                attempts_at_a_handled_message_are_deleted
                a_dead_letter_comes_back_byte_for_byte
                storing_twice_leaves_one_dead_letter
                two_processes_storing_at_once_leave_one_dead_letter
                a_dead_letter_without_a_tenant_is_visible_to_the_default_tenant
                health_counts_what_waits
            }
            broker {
                a_stream_with_the_same_creation_time_that_grows_is_recognized
                a_stream_is_another_when_the_message_at_its_end_was_stored_at_another_time
                an_overtaken_observation_is_stale
                a_suspicion_is_cleared_when_the_stream_is_recognized
                waiting_messages_of_a_suspected_or_ended_stream_are_not_recorded
                messages_held_by_the_new_stream_are_not_lost_and_wait_there
                a_loss_is_closed_once_with_person_and_reason
                messages_lost_with_a_stream_are_reported_unless_handled_or_dead_lettered
                a_message_of_several_consumers_is_lost_until_each_has_handled_it
                an_acknowledged_message_does_not_wait
                a_waiting_message_missing_from_its_stream_is_lost_unless_handled
                attempts_at_positions_of_an_ended_stream_are_deleted
                a_replaced_stream_is_fed_again_by_the_outbox
                two_processes_finding_a_replaced_stream_feed_it_once
                a_stream_is_reconciled_by_one_process_within_a_pause
                a_dead_lettered_message_is_found_by_position_and_payload
                a_handled_event_is_seen_and_another_is_not
            }
            operator {
                runs_are_listed_newest_first_and_filtered
                memories_are_listed_heaviest_first_and_filtered
                held_memories_are_listed_until_they_are_released_or_deleted
                runs_are_listed_with_their_exposure_to_a_memory
                retrospectives_are_listed_with_their_counts
                dead_letters_are_filtered_by_every_field
                dead_letters_are_listed_in_pages
                a_migrated_database_lacks_nothing
            }
            inspect {
                a_run_comes_with_everything_that_is_known_about_it
                the_window_of_a_run_is_found_among_many
                a_run_is_found_in_each_workflow_that_has_it
                runs_are_found_by_their_facts
                the_use_of_memories_is_counted_once_a_run
                runs_are_shown_to_their_tenant_only
                objects_are_found_by_the_first_digits_of_their_ids
            }
            retention {
                an_event_that_comes_again_after_its_details_were_purged_is_not_counted
                bodies_are_kept_until_their_retrospective_has_closed
                a_dropped_body_is_gone
                facts_are_purged_after_bodies_and_identities_stay
                what_waits_is_applied_before_its_run_is_purged
                call_summaries_outlive_bodies_and_facts
                a_run_that_was_not_counted_keeps_its_details_as_long_as_a_body
                journals_are_kept_until_their_retrospective_has_ended
                effects_are_known_after_everything_was_purged
                messages_are_purged_only_after_they_were_sent
                attempts_are_purged_by_age
                purging_is_bounded_and_two_at_once_purge_what_one_would_have
            }
            audit {
                audit_rows_are_appended_in_order
            }
            dead_letter {
                a_dead_letter_has_every_attempt_and_its_error
                an_attempt_without_a_failure_has_its_start
                storing_twice_leaves_one_history
                a_history_is_bounded
                a_version_is_stored_with_person_and_reason
                dead_letters_are_grouped_by_rejection
                history_and_versions_keep_tenants_apart
            }
            embeddings {
                a_memory_is_missing_its_embedding_until_one_is_stored
                embeddings_are_found_by_text_within_tenant_and_embedder
                a_deleted_memory_needs_an_embedding_while_its_tombstone_stands
                an_undecided_closing_stores_nothing_and_a_later_one_closes
                embeddings_of_other_embedders_are_purged_by_age
            }
            access {
                a_token_is_usable_until_it_is_revoked_or_expires
                a_name_is_free_again_once_its_token_is_revoked
                the_last_use_of_tokens_is_recorded
                tokens_keep_tenants_apart
            }
            kill_switch {
                a_kill_switch_is_engaged_until_a_person_disengages_it
            }
            collected_traces {
                a_span_that_comes_again_is_one_and_a_complete_trace_is_due
                a_span_that_has_ended_replaces_the_running_one
                of_two_that_claim_traces_at_once_one_gets_each
                two_parts_that_come_at_once_are_both_stored
                a_whole_trace_is_claimed_by_its_sender_and_read_again_with_what_comes_later
                a_claim_that_was_taken_over_decides_nothing
                a_span_that_comes_during_a_claim_is_decided_about
                a_trace_that_is_given_up_is_a_dead_letter_of_its_tenant
                traces_with_one_id_of_two_tenants_do_not_mix
                traces_and_tenants_have_bounds
                waiting_traces_are_counted
            }
            metrics {
                an_empty_database_has_zero_metrics
                metrics_are_totals_over_all_tenants
                a_retrospective_is_open_until_it_ends
                the_oldest_tentative_memory_has_a_policy_time
                held_memories_are_counted_per_status
                engaged_kill_switches_are_counted_by_their_scope
                a_confirmation_has_its_delay
            }
            cancel {
                cancelling_releases_the_runs_and_records_person_and_reason
                a_retrospective_that_has_ended_cannot_be_cancelled
                cancelling_fences_the_investigator_and_makes_every_message_harmless
                a_cancel_and_a_closing_at_once_leave_one_end
                replaying_a_failure_opens_the_next_epoch_at_once
                a_failed_retrospective_is_reopened_once
                a_dead_letter_with_nothing_to_reopen_stays_open
                only_the_dead_letter_of_a_failed_retrospective_reopens
            }
            replay {
                a_dead_letter_is_replayed_unchanged_under_another_id
                of_two_concurrent_replay_requests_one_takes_effect
                the_outcome_of_a_replay_is_stored_with_its_dead_letter
                a_failed_replay_reopens_its_dead_letter_without_a_second_one
                a_message_is_accepted_as_a_replay_only_if_it_equals_what_was_sent
                a_replay_without_a_result_is_sent_again_under_its_id
                a_replay_refused_by_the_broker_leaves_its_dead_letter_open
                replays_are_spaced
                a_slow_batch_delays_no_other_replay
                a_discarded_dead_letter_is_kept_and_can_be_replayed
                a_batch_stops_when_one_of_its_first_replays_fails
                a_batch_skips_dead_letters_that_changed_meanwhile
                a_cancelled_batch_starts_no_more_replays
                a_failed_retrospective_in_a_batch_opens_the_next_one
                two_processes_advancing_a_batch_leave_what_one_would_have_left
            }
            verify {
                workflows_are_listed_once_with_any_page_size
                retrospectives_come_with_their_reports_and_changes
                memories_come_with_their_changes_and_tombstones
                uncounted_runs_are_found
                a_database_has_one_id
            }
            tenants {
                counting_keeps_tenants_apart
                sampling_keeps_tenants_apart
                investigating_keeps_tenants_apart
                summarising_keeps_tenants_apart
                closing_keeps_tenants_apart
                closing_facts_keep_tenants_apart
                deleting_keeps_tenants_apart
                releasing_keeps_tenants_apart
                manual_retrospectives_keep_tenants_apart
                recalling_keeps_tenants_apart
                resolving_references_keeps_tenants_apart
                every_query_keeps_tenants_apart
                dead_letters_keep_tenants_apart
                cancelling_keeps_tenants_apart
                replaying_keeps_tenants_apart
            }
        }
    };
    ($open:path; $($module:ident { $($case:ident)+ })+) => {
        $(mod $module {$(
            #[tokio::test]
            async fn $case() {
                let (database, alive) = $open().await;
                $crate::conformance::$module::$case(&database).await;
                alive.finish().await;
            }
        )+})+
    };
}

#[cfg(test)]
mod tests {
    /// A case that is not listed in the macro would never run.
    #[test]
    fn every_case_is_listed() {
        let list = include_str!("cases.rs");
        let files = [
            include_str!("access.rs"),
            include_str!("audit.rs"),
            include_str!("broker.rs"),
            include_str!("close.rs"),
            include_str!("count.rs"),
            include_str!("delivery.rs"),
            include_str!("embeddings.rs"),
            include_str!("investigate.rs"),
            include_str!("retention.rs"),
            include_str!("dead_letter.rs"),
            include_str!("metrics.rs"),
            include_str!("kill_switch.rs"),
            include_str!("manual.rs"),
            include_str!("operator.rs"),
            include_str!("outcomes.rs"),
            include_str!("prompts.rs"),
            include_str!("recall.rs"),
            include_str!("replay.rs"),
            include_str!("idempotency.rs"),
            include_str!("review.rs"),
            include_str!("rules.rs"),
            include_str!("sample.rs"),
            include_str!("summaries.rs"),
            include_str!("cancel.rs"),
            include_str!("tenants.rs"),
            include_str!("trace.rs"),
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
