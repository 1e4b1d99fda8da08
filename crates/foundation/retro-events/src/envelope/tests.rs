use proptest::prelude::*;
use serde_json::json;

use super::*;

fn delivery(encoded: EncodedEvent) -> Delivery {
    Delivery {
        stream: "INTAKE".to_owned(),
        subject: "retro.run.completed.acme.ci".to_owned(),
        sequence: 1,
        headers: encoded.headers,
        payload: encoded.payload,
        delivered: 1,
        stored_at: Timestamp::UNIX_EPOCH,
    }
}

#[test]
fn the_content_type_says_the_mode_whatever_other_headers_say() {
    let event = json!({"specversion": "1.0", "id": "in the body", "source": "s", "type": "t", "data": {}});
    let headers = [
        ("Content-Type", "Application/CloudEvents+JSON; charset=utf-8"),
        ("ce-specversion", "1.0"),
        ("ce-id", "in a header"),
    ];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let mut message = delivery(EncodedEvent { headers, payload: event.to_string().into() });
    assert_eq!(Envelope::from_delivery(&message).unwrap().id, "in the body");
    message.headers.remove(0);
    let missing = Envelope::from_delivery(&message).unwrap_err();
    assert_eq!(missing.path.as_deref(), Some("source"), "without a content type the headers count");
    message.headers.clear();
    assert_eq!(
        Envelope::from_delivery(&message).unwrap().id,
        "in the body",
        "without both the body is looked at"
    );
}

#[test]
fn null_attributes_are_absent_ones() {
    let event =
        json!({"specversion": "1.0", "id": "i", "source": "s", "type": "t", "subject": null, "data": 1.5});
    let envelope = Envelope::from_document(&event.into()).unwrap();
    assert!(envelope.extensions.is_empty());
    assert_eq!(envelope.data, json!(1.5).into());
}

proptest! {
    #[test]
    fn an_event_survives_both_modes(
        id in "[^\\pC]{1,40}",
        source in "[^\\pC]{1,40}",
        extension in "\\PC{0,40}",
        text in any::<String>(),
        seconds in 0..4_000_000_000_i64,
    ) {
        let envelope = Envelope {
            id,
            source,
            kind: "t".to_owned(),
            time: Some(Timestamp::from_second(seconds).unwrap()),
            extensions: Map::from_iter([("ext".to_owned(), json!(extension))]),
            data: json!({"text": text, "f": 0.1 + 0.2}).into(),
        };
        for encoded in [envelope.to_structured(), envelope.to_binary()] {
            let mut back = Envelope::from_delivery(&delivery(encoded)).unwrap();
            back.extensions.remove("datacontenttype");
            prop_assert_eq!(&back, &envelope);
        }
    }

    #[test]
    fn decoding_takes_any_text(text in "\\PC{0,40}", cut in "[%0-9A-Fa-f+]{0,12}") {
        prop_assert_eq!(percent_decode(&percent_encode(&text)), text);
        percent_decode(&cut);
    }
}
