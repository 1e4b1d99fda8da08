//! What people did, kept.

use retro_core::steer::Act;

use super::Database;
use super::delivery::letter;
use super::steer::act;
use super::story::{moment, tenant};
use crate::{ActRow, Deed};

/// Appended, never replaced: the same act twice stands there twice, and each tenant reads its own.
pub async fn what_people_did_is_kept_in_order_and_any_number_of_times(database: &Database) {
    let (first, second) = (letter(1).id().0, letter(2).id().0);
    let told = Act::new("bob", "to mend \u{0} it", moment(30)).expect("it says who and why");
    let note = |subjects: Vec<_>, deed, act, detail| async move {
        database.one.note(&tenant("t"), &subjects, deed, act, detail).await.expect("writing");
    };
    let ann = act("ann");
    note(vec![first, second], Deed::ReadRaw, &ann, None).await;
    note(vec![first], Deed::Discarded, &told, Some("it was a load test")).await;
    note(vec![first], Deed::ReadRaw, &ann, None).await;
    note(Vec::new(), Deed::Exported, &ann, None).await;
    let rows = database.two.acts(&tenant("t"), first).await.expect("reading");
    let read = ActRow { deed: Deed::ReadRaw, act: ann, opened: None, detail: None };
    assert_eq!(rows.len(), 3);
    assert_eq!((&rows[0], &rows[2]), (&read, &read));
    let ActRow { deed, act, opened: None, detail: Some(detail) } = &rows[1] else { panic!("{rows:?}") };
    assert_eq!((*deed, act.by.as_str(), act.at), (Deed::Discarded, "bob", moment(30)));
    assert!(act.reason.starts_with("to mend "), "{act:?}");
    assert_eq!(detail, "it was a load test");
    assert_eq!(database.two.acts(&tenant("t"), second).await.expect("reading"), rows[..1]);
    assert_eq!(database.two.acts(&tenant("other"), first).await.expect("reading"), []);
}
