//! Conformance cases for the audit log.

use retro_core::attribution::Attribution;

use super::Database;
use super::cancel::new_act;
use super::delivery::new_dead_letter;
use super::scenario::{test_tenant, time_at};
use crate::{AuditAction, AuditRow};

/// Checks that audit rows are appended in order, even for a repeated action, and that each tenant reads only
/// its own rows.
pub async fn audit_rows_are_appended_in_order(database: &Database) {
    let (first, second) = (new_dead_letter(1).id().0, new_dead_letter(2).id().0);
    let result = Attribution::new("bob", "to mend \u{0} it", time_at(30)).expect("it says who and why");
    let note = |subjects: Vec<_>, action, act, detail| async move {
        database
            .one
            .record_audit_rows(&test_tenant("t"), &subjects, action, act, detail)
            .await
            .expect("writing");
    };
    let ann = new_act("ann");
    note(vec![first, second], AuditAction::ReadRaw, &ann, None).await;
    note(vec![first], AuditAction::Discarded, &result, Some("it was a load test")).await;
    note(vec![first], AuditAction::ReadRaw, &ann, None).await;
    note(Vec::new(), AuditAction::Exported, &ann, None).await;
    let rows = database.two.list_audit_rows(&test_tenant("t"), first).await.expect("reading");
    let read = AuditRow { action: AuditAction::ReadRaw, act: ann, opened_retrospective: None, detail: None };
    assert_eq!(rows.len(), 3);
    assert_eq!((&rows[0], &rows[2]), (&read, &read));
    let AuditRow { action, act, opened_retrospective: None, detail: Some(detail) } = &rows[1] else {
        panic!("{rows:?}")
    };
    assert_eq!((*action, act.by.as_str(), act.at), (AuditAction::Discarded, "bob", time_at(30)));
    assert!(act.reason.starts_with("to mend "), "{act:?}");
    assert_eq!(detail, "it was a load test");
    assert_eq!(database.two.list_audit_rows(&test_tenant("t"), second).await.expect("reading"), rows[..1]);
    assert_eq!(database.two.list_audit_rows(&test_tenant("other"), first).await.expect("reading"), []);
}
