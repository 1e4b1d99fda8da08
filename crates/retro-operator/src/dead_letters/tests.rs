use retro_core::dead_letter::{Code, Rejection};
use retro_store::{DeadLetterFilter, NewDeadLetter};

use super::*;
use crate::world::hour;

pub(crate) fn letter(tenant: Option<&str>, payload: &[u8]) -> DeadLetter {
    let letter = NewDeadLetter {
        position: Position { consumer: "counter".to_owned(), stream: "RETRO_RUNS".to_owned(), sequence: 17 },
        tenant: tenant.map(|name| Tenant::new(name).unwrap()),
        workflow: Some(Workflow::new("shop").unwrap()),
        subject: "retro.run.completed.default.shop".to_owned(),
        headers: vec![("Authorization".to_owned(), "Bearer hunter2".to_owned())],
        payload: payload.to_vec(),
        rejection: Rejection::at(
            Code::FieldInvalid,
            "data.outcome",
            "unknown variant `fine`; use one of `success`, …",
        ),
        attempts: 1,
        stored_at: hour(0),
    };
    DeadLetter {
        id: letter.id(),
        payload_sha256: retro_core::canonical::sha256_hex(payload),
        status: LetterStatus::Open,
        replays: 0,
        created_at: hour(1),
        program_version: "0.1.0".to_owned(),
        letter,
    }
}

fn redact(text: &str) -> String {
    text.replace("hunter2", "[redacted]")
}

#[test]
fn a_letter_is_shown_redacted_and_the_stored_one_stays_exact() {
    let stored = letter(Some("default"), b"{\"token\": \"hunter2\", \"outcome\": \"fine\"}");
    let view = DeadLetterView::whole(&stored, &redact);
    let json = serde_json::to_string(&view).unwrap();
    for shown in [&json, &view.text_with(view.advice())] {
        assert!(
            !shown.contains("hunter2") && shown.contains("[redacted]") && shown.contains("fine"),
            "{shown}"
        );
    }
    assert!(stored.letter.payload.windows(7).any(|bytes| bytes == b"hunter2"));
    insta::assert_snapshot!(view.text_with(view.advice()));
}

#[test]
fn a_list_holds_no_message_and_a_reason_of_bounded_length() {
    let mut long = letter(None, &[0xff, 0xfe]);
    long.letter.rejection.detail = "x".repeat(4000);
    let view = DeadLetterView::listed(&long, &redact);
    assert!(view.message.is_none());
    let shown = dead_letters(&[view], 120);
    assert!(shown.contains("field_invalid") && shown.contains('…') && shown.len() < 2000, "{shown}");
    assert_eq!(dead_letters(&[], 120), "no dead letters\n");
}

#[test]
fn bytes_that_are_no_text_are_shown_with_a_word_of_warning() {
    let view = DeadLetterView::whole(&letter(None, &[b'a', 0xff, 0x1b]), &redact);
    assert!(
        view.text_with(view.advice()).contains("not UTF-8")
            && !view.text_with(view.advice()).contains('\u{1b}'),
        "{}",
        view.text_with(view.advice())
    );
}

#[tokio::test]
async fn a_text_is_searched_in_what_would_be_shown() {
    let bytes = |number: u32| format!("{{\"token\": \"hunter2\", \"note\": \"Number {number}\"}}");
    let mut world = crate::world::rich();
    world.letters = (0..250).map(|number| letter(None, bytes(number).as_bytes())).collect();
    let tenant = Tenant::default_tenant();
    let search = |text: &str, limit| LetterSearch {
        filter: DeadLetterFilter { limit, ..Default::default() },
        text: Some(text.to_owned()),
    };
    let find = |text: &'static str, limit| {
        let (world, tenant) = (&world, &tenant);
        async move { search(text, limit).find(world, tenant, &redact).await.unwrap().letters.len() }
    };
    assert_eq!(find("number 249\"", 9).await, 1, "in any case, also on a later page");
    assert_eq!(find("data.outcome", 9).await, 9);
    assert_eq!(find("hunter2", 9).await, 0, "what is redacted is found by nobody");
    assert!(!search("a", 9).is_empty() && LetterSearch::default().is_empty());
    let stats = search("data.outcome", 9).stats(&world, &tenant, &redact).await.unwrap();
    assert_eq!((stats.letters, stats.cut), (250, false), "all that show it are counted, whatever the limit");
    let few = search("number 24", 1).stats(&world, &tenant, &redact).await.unwrap();
    assert_eq!(few.letters, 11, "24 and 240 to 249");
}
