//! Conformance cases for dead letters: their attempts, versions and grouping.

use futures::future::join;
use retro_core::attribution::Attribution;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::{Tenant, Workflow};

use super::Database;
use super::delivery::{begin_next_attempt, new_dead_letter};
use super::scenario::{test_tenant, time_at};
use crate::dead_letter::{ATTEMPTS_KEPT, FAILURE_CHARS_MAX};
use crate::{
    Attempt, AttemptFailure, AuditAction, DeadLetterFilter, DeadLetterStatus, MessageContent, NewDeadLetter,
};

/// Checks that a dead letter lists every attempt with its error. The first delivery is not counted, so its
/// start is unknown.
pub async fn a_dead_letter_has_every_attempt_and_its_error(database: &Database) {
    let given_up = NewDeadLetter { attempts: 3, ..new_dead_letter(7) };
    let position = &given_up.position;
    database
        .one
        .record_failure(position, &AttemptFailure::from_error(1, "it was locked"))
        .await
        .expect("recording");
    begin_next_attempt(&*database.one, position).await;
    database
        .two
        .record_failure(position, &AttemptFailure::from_error(2, "it was locked \u{0} again"))
        .await
        .expect("recording");
    begin_next_attempt(&*database.one, position).await;
    let id = database.two.store_dead_letter(&given_up).await.expect("storing");
    let result = database.one.list_attempts(&test_tenant("t"), id).await.expect("reading");
    let numbers: Vec<_> =
        result.iter().map(|one| (one.attempt, one.started_at.is_some(), one.code)).collect();
    assert_eq!(numbers, [(1, false, None), (2, true, None), (3, true, Some(DeadLetterCode::FieldInvalid))]);
    assert_eq!(result[0].detail.as_deref(), Some("it was locked"));
    assert!(result[1].detail.as_deref().is_some_and(|detail| detail.ends_with("again")));
    assert_eq!(result[2].path.as_deref(), Some("data.run_id"));
    let whole = |one: &Attempt| {
        one.position == *position && !one.program_version.is_empty() && one.failed_at >= one.started_at
    };
    assert!(result.iter().all(whole), "{result:?}");
}

/// Checks that an attempt that crashed the process is listed with its start but without a failure.
pub async fn an_attempt_without_a_failure_has_its_start(database: &Database) {
    let given_up = NewDeadLetter { attempts: 3, ..new_dead_letter(7) };
    // Two attempts crash, the last one fails, and the fourth delivery only stores the dead letter.
    for _ in 0..3 {
        begin_next_attempt(&*database.one, &given_up.position).await;
    }
    let id = database.one.store_dead_letter(&given_up).await.expect("storing");
    let result = database.two.list_attempts(&test_tenant("t"), id).await.expect("reading");
    let words: Vec<_> =
        result.iter().map(|one| (one.attempt, one.detail.is_some(), one.failed_at.is_some())).collect();
    assert_eq!(words, [(2, false, false), (3, true, true)]);
    assert!(result.iter().all(|one| one.started_at.is_some()), "{result:?}");
}

/// Checks that the history of a redelivered message is stored once, after a crash before the acknowledgement
/// or after the broker lost its data.
pub async fn storing_twice_leaves_one_history(database: &Database) {
    let given_up = NewDeadLetter { attempts: 1, ..new_dead_letter(7) };
    let id = database.one.store_dead_letter(&given_up).await.expect("storing");
    let first = database.one.list_attempts(&test_tenant("t"), id).await.expect("reading");
    assert_eq!(first.len(), 1);
    begin_next_attempt(&*database.two, &given_up.position).await;
    database
        .two
        .store_dead_letter(&NewDeadLetter { attempts: 2, ..given_up.clone() })
        .await
        .expect("storing");
    assert_eq!(database.two.list_attempts(&test_tenant("t"), id).await.expect("reading"), first);
    // Another message at the same position has its own history.
    let other = NewDeadLetter { payload: b"another".to_vec(), ..given_up };
    let other = database.two.store_dead_letter(&other).await.expect("storing");
    let result = database.one.list_attempts(&test_tenant("t"), other).await.expect("reading");
    assert_eq!(result.iter().map(|one| one.attempt).collect::<Vec<_>>(), [1]);
    assert_eq!(database.two.list_attempts(&test_tenant("t"), id).await.expect("reading"), first);
}

/// Checks that a long history keeps the first attempt, which shows how the failure began, and the newest
/// ones.
pub async fn a_history_is_bounded(database: &Database) {
    let many = ATTEMPTS_KEPT + 20;
    let given_up = NewDeadLetter {
        attempts: many,
        rejection: Rejection::of_message(DeadLetterCode::AttemptsExhausted, "no".repeat(FAILURE_CHARS_MAX)),
        ..new_dead_letter(7)
    };
    for attempt in 1..many {
        let failure = AttemptFailure::from_error(attempt, "not yet");
        database.one.record_failure(&given_up.position, &failure).await.expect("recording");
    }
    let id = database.one.store_dead_letter(&given_up).await.expect("storing");
    let result = database.two.list_attempts(&test_tenant("t"), id).await.expect("reading");
    let numbers: Vec<_> = result.iter().map(|one| one.attempt).collect();
    let newest = many - ATTEMPTS_KEPT + 2..=many;
    assert_eq!(numbers, std::iter::once(1).chain(newest).collect::<Vec<_>>());
    let last = result.last().and_then(|one| one.detail.as_ref()).expect("a word");
    assert_eq!(last.chars().count(), FAILURE_CHARS_MAX);
    let whole =
        database.two.find_dead_letter(&test_tenant("t"), id).await.expect("reading").expect("the row exists");
    assert_eq!(whole.message, given_up, "the dead letter itself is unchanged");
}

/// Checks that an edit is stored as a new version with its attribution. Version 0 is the dead letter as
/// received.
pub async fn a_version_is_stored_with_person_and_reason(database: &Database) {
    let original = new_dead_letter(7);
    let id = database.one.store_dead_letter(&original).await.expect("storing");
    assert_eq!(database.one.list_versions(&test_tenant("t"), id).await.expect("reading"), []);
    let attribution = Attribution {
        by: "ann".to_owned(),
        with_token: None,
        reason: "the \u{0} is wrong".to_owned(),
        at: time_at(60),
    };
    let content = MessageContent { headers: original.headers.clone(), payload: b"\x00{\xff".to_vec() };
    let made = database
        .one
        .edit_dead_letter(&test_tenant("t"), id, 0, &content, &attribution)
        .await
        .expect("editing");
    assert_eq!(made, Some(1));
    let (one, two) = join(
        database.one.edit_dead_letter(&test_tenant("t"), id, 1, &content, &attribution),
        database.two.edit_dead_letter(&test_tenant("t"), id, 0, &content, &attribution),
    )
    .await;
    let mut both = [one.expect("editing"), two.expect("editing")];
    both.sort_unstable();
    assert_eq!(both, [Some(2), Some(3)], "each has a number of its own");
    let rows = database.two.list_versions(&test_tenant("t"), id).await.expect("reading");
    assert_eq!(rows.iter().map(|row| row.version).collect::<Vec<_>>(), [1, 2, 3]);
    let whole =
        database.two.find_version(&test_tenant("t"), id, 1).await.expect("reading").expect("the row exists");
    assert_eq!((&whole.content, whole.based_on, whole.act.at), (&content, 0, attribution.at));
    assert_eq!(whole.payload_sha256, retro_core::canonical::sha256_hex(&content.payload));
    assert_eq!((rows[0].payload_bytes, &rows[0].payload_sha256), (3, &whole.payload_sha256));
    assert_eq!(database.two.find_version(&test_tenant("t"), id, 4).await.expect("reading"), None);
    let stored =
        database.two.find_dead_letter(&test_tenant("t"), id).await.expect("reading").expect("the row exists");
    assert_eq!(stored.message, original, "the original is as it came");
    let audit_rows = database.two.list_audit_rows(&test_tenant("t"), id.0).await.expect("reading");
    let result: Vec<_> = audit_rows.iter().map(|row| (row.action, row.act.by.as_str())).collect();
    assert_eq!(result, [(AuditAction::Edited, "ann"); 3]);
}

/// Checks that dead letters are grouped by identical rejections; similar ones are grouped only for display.
pub async fn dead_letters_are_grouped_by_rejection(database: &Database) {
    let too_large = |sequence| NewDeadLetter {
        rejection: Rejection::of_message(DeadLetterCode::Oversized, "too large"),
        ..new_dead_letter(sequence)
    };
    let elsewhere =
        NewDeadLetter { workflow: Some(Workflow::new("v").expect("a valid name")), ..new_dead_letter(4) };
    let nobodys = NewDeadLetter { tenant: None, workflow: None, ..new_dead_letter(5) };
    for dead_letter in [&new_dead_letter(1), &too_large(2), &too_large(3), &elsewhere, &nobodys] {
        database.one.store_dead_letter(dead_letter).await.expect("storing");
    }
    let count = |of: &str, filter: DeadLetterFilter| {
        let of = test_tenant(of);
        async move {
            let counts = database.two.count_dead_letters(&of, &filter).await.expect("counting");
            let result = counts
                .into_iter()
                .map(|one| (one.rejection.code, one.workflow, one.total, one.open, one.example));
            result.collect::<Vec<_>>()
        }
    };
    let (v, w) = (elsewhere.workflow.clone(), new_dead_letter(1).workflow);
    let all = DeadLetterFilter { limit: 9, ..Default::default() };
    let expected = [
        (DeadLetterCode::FieldInvalid, v.clone(), 1, 1, elsewhere.id()),
        (DeadLetterCode::Oversized, w.clone(), 2, 2, too_large(3).id()),
        (DeadLetterCode::FieldInvalid, w, 1, 1, new_dead_letter(1).id()),
    ];
    assert_eq!(count("t", all.clone()).await, expected);
    assert_eq!(count("t", DeadLetterFilter { limit: 1, ..all.clone() }).await, expected[..1]);
    assert_eq!(count("t", DeadLetterFilter { workflow: v, ..all.clone() }).await, expected[..1]);
    let only = DeadLetterFilter {
        ids: vec![too_large(2).id()],
        code: Some(DeadLetterCode::Oversized),
        ..all.clone()
    };
    assert_eq!(
        count("t", only).await.iter().map(|one| (one.2, one.4)).collect::<Vec<_>>(),
        [(1, too_large(2).id())]
    );
    assert_eq!(
        count("t", DeadLetterFilter { status: Some(DeadLetterStatus::Handled), ..all.clone() }).await,
        []
    );
    assert_eq!(count("u", all.clone()).await, [], "another tenant's");
    assert_eq!(
        count("default", all.clone()).await.len(),
        1,
        "those without a tenant belong to the default tenant"
    );
    let counts = database.one.count_dead_letters(&test_tenant("t"), &all).await.expect("counting");
    assert!(
        counts.iter().all(|one| one.first_seen <= one.last_seen && one.consumer == "counter"),
        "{counts:?}"
    );
}

/// Checks that a tenant cannot read the attempts and versions of another tenant's dead letters (law 11), and
/// that the default tenant owns dead letters without a tenant.
pub async fn history_and_versions_keep_tenants_apart(database: &Database) {
    let id = database.one.store_dead_letter(&new_dead_letter(7)).await.expect("storing");
    assert_eq!(database.two.list_attempts(&test_tenant("t"), id).await.expect("reading").len(), 1);
    assert_eq!(database.two.list_attempts(&test_tenant("u"), id).await.expect("reading"), []);
    assert_eq!(database.two.list_attempts(&Tenant::default_tenant(), id).await.expect("reading"), []);
    let attribution =
        Attribution { by: "eve".to_owned(), with_token: None, reason: "curious".to_owned(), at: time_at(0) };
    let content = MessageContent { headers: vec![], payload: b"{}".to_vec() };
    assert_eq!(
        database
            .two
            .edit_dead_letter(&test_tenant("u"), id, 0, &content, &attribution)
            .await
            .expect("editing"),
        None
    );
    assert_eq!(
        database
            .two
            .edit_dead_letter(&test_tenant("t"), id, 0, &content, &attribution)
            .await
            .expect("editing"),
        Some(1)
    );
    assert_eq!(database.two.list_versions(&test_tenant("u"), id).await.expect("reading"), []);
    assert_eq!(database.two.find_version(&test_tenant("u"), id, 1).await.expect("reading"), None);
    assert_eq!(database.two.list_versions(&test_tenant("t"), id).await.expect("reading").len(), 1);
    assert_eq!(database.two.list_audit_rows(&test_tenant("u"), id.0).await.expect("reading"), []);
    let nobodys = NewDeadLetter { tenant: None, workflow: None, ..new_dead_letter(8) };
    let id = database.one.store_dead_letter(&nobodys).await.expect("storing");
    assert_eq!(database.two.list_attempts(&Tenant::default_tenant(), id).await.expect("reading").len(), 1);
    assert_eq!(database.two.list_attempts(&test_tenant("t"), id).await.expect("reading"), []);
}
