use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::{Tenant, Workflow};
use retro_store::{DeadLetter, DeadLetterFilter, DeadLetterStatus, DeliveryPosition, NewDeadLetter};

use super::*;
use crate::world::at_hour;

pub(crate) fn dead_letter(tenant: Option<&str>, payload: &[u8]) -> DeadLetter {
    let dead_letter = NewDeadLetter {
        position: DeliveryPosition {
            consumer: "counter".to_owned(),
            stream: "RETRO_RUNS".to_owned(),
            sequence: 17,
        },
        tenant: tenant.map(|name| Tenant::new(name).unwrap()),
        workflow: Some(Workflow::new("shop").unwrap()),
        subject: "retro.run.completed.default.shop".to_owned(),
        headers: vec![("Authorization".to_owned(), "Bearer hunter2".to_owned())],
        payload: payload.to_vec(),
        rejection: Rejection::of_field(
            DeadLetterCode::FieldInvalid,
            "data.outcome",
            "unknown variant `fine`; use one of `success`, …",
        ),
        attempts: 1,
        stored_at: at_hour(0),
    };
    DeadLetter {
        id: dead_letter.id(),
        payload_sha256: retro_core::canonical::sha256_hex(payload),
        status: DeadLetterStatus::Open,
        replays: 0,
        created_at: at_hour(1),
        program_version: "0.1.0".to_owned(),
        message: dead_letter,
    }
}

fn redact(text: &str) -> String {
    text.replace("hunter2", "[redacted]")
}

#[test]
fn a_dead_letter_is_shown_redacted_and_stays_stored_exactly() {
    let stored = dead_letter(Some("default"), b"{\"token\": \"hunter2\", \"outcome\": \"fine\"}");
    let view = DeadLetterWithMessage::from_dead_letter(&stored, &redact);
    let json = serde_json::to_string(&view).unwrap();
    for shown in [&json, &view.render_text(view.summary.replay_advice())] {
        assert!(
            !shown.contains("hunter2") && shown.contains("[redacted]") && shown.contains("fine"),
            "{shown}"
        );
    }
    assert!(stored.message.payload.windows(7).any(|bytes| bytes == b"hunter2"));
    insta::assert_snapshot!(view.render_text(view.summary.replay_advice()));
}

#[test]
fn a_list_holds_no_message_and_a_reason_of_bounded_length() {
    let mut long = dead_letter(None, &[0xff, 0xfe]);
    long.message.rejection.detail = "x".repeat(4000);
    let view = DeadLetterView::from_dead_letter(&long, &redact);
    let json = serde_json::to_value(&view).unwrap();
    assert!(json.get("payload").is_none() && json.get("headers").is_none(), "{json}");
    let shown = render_dead_letters(&[view], 120);
    assert!(shown.contains("field_invalid") && shown.contains('…') && shown.len() < 2000, "{shown}");
    assert_eq!(render_dead_letters(&[], 120), "no dead letters\n");
}

#[test]
fn bytes_that_are_not_utf8_are_shown_with_a_warning() {
    let view = DeadLetterWithMessage::from_dead_letter(&dead_letter(None, &[b'a', 0xff, 0x1b]), &redact);
    assert!(
        view.render_text(view.summary.replay_advice()).contains("not UTF-8")
            && !view.render_text(view.summary.replay_advice()).contains('\u{1b}'),
        "{}",
        view.render_text(view.summary.replay_advice())
    );
}

#[tokio::test]
async fn a_text_search_covers_only_redacted_text() {
    let bytes = |number: u32| format!("{{\"token\": \"hunter2\", \"note\": \"Number {number}\"}}");
    let mut world = crate::world::rich_world();
    world.dead_letters = (0..250).map(|number| dead_letter(None, bytes(number).as_bytes())).collect();
    let tenant = Tenant::default_tenant();
    let search = |text: &str, limit| DeadLetterSearch {
        filter: DeadLetterFilter { limit, ..Default::default() },
        text: Some(text.to_owned()),
    };
    let find = |text: &'static str, limit| {
        let (world, tenant) = (&world, &tenant);
        async move { search(text, limit).find_matches(world, tenant, &redact).await.unwrap().dead_letters.len() }
    };
    assert_eq!(find("number 249\"", 9).await, 1, "in any case, also on a later page");
    assert_eq!(find("data.outcome", 9).await, 9);
    assert_eq!(find("hunter2", 9).await, 0, "redacted text cannot be found");
    assert!(!search("a", 9).is_empty() && DeadLetterSearch::default().is_empty());
    let stats = search("data.outcome", 9).compute_stats(&world, &tenant, &redact).await.unwrap();
    assert_eq!(
        (stats.dead_letters, stats.truncated),
        (250, false),
        "all matches are counted, whatever the limit"
    );
    let few = search("number 24", 1).compute_stats(&world, &tenant, &redact).await.unwrap();
    assert_eq!(few.dead_letters, 11, "24 and 240 to 249");
}
