use crate::canonical;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::Value;

use super::*;

fn parse(text: &[u8]) -> Result<JsonDocument, Rejection> {
    JsonDocument::parse(
        &Bytes::copy_from_slice(text),
        JsonBounds { bytes_max: 1024 * 1024, values_max: 1000 },
    )
}

#[track_caller]
fn check(text: &[u8], expected: Result<(), DeadLetterCode>) {
    let found = parse(text).map(drop).map_err(|rejection| rejection.code);
    assert_eq!(found, expected, "{}", String::from_utf8_lossy(&text[..text.len().min(200)]));
}

#[test]
fn rejections_name_the_exceeded_bound() {
    check(b"{}", Ok(()));
    check("\u{feff}{}".as_bytes(), Ok(()));
    for text in [&b"{"[..], b"", b"{\"a\":1e999}", b"[1]x", b"[01]", b"[1 2]", br#"["\ud800"]"#, b"nul", b"]"]
    {
        check(text, Err(DeadLetterCode::NotJson));
    }
    check("9".repeat(330).as_bytes(), Err(DeadLetterCode::NotJson));
    check(b"{\"a\":\"\xff\"}", Err(DeadLetterCode::NotUtf8));
    check(&vec![b' '; 1024 * 1024 + 1], Err(DeadLetterCode::Oversized));
}

#[test]
fn keys_and_numbers_are_bounded_and_strings_are_not() {
    check(format!("[{}]", "1".repeat(NUMBER_BYTES_MAX + 1)).as_bytes(), Err(DeadLetterCode::Oversized));
    check(format!("[0.{}]", "1".repeat(NUMBER_BYTES_MAX - 2)).as_bytes(), Ok(()));
    let key = |bytes: usize, rest: &str| format!("{{\"{}\"{rest}", "k".repeat(bytes - 2));
    check(key(KEY_BYTES_MAX, " :1}").as_bytes(), Ok(()));
    check(key(KEY_BYTES_MAX + 1, " :1}").as_bytes(), Err(DeadLetterCode::Oversized));
    check(format!("[\"{}\"]", "k".repeat(2 * KEY_BYTES_MAX)).as_bytes(), Ok(()));
}

#[test]
fn values_are_counted_before_parsing() {
    for value in ["0", "{}", "[]", "\"\"", "null", "{\"a\":0}"] {
        let each = if value == "{\"a\":0}" { 3 } else { 1 };
        let array = |items: usize| format!("[{}]", vec![value; items].join(","));
        check(array(999 / each).as_bytes(), Ok(()));
        check(array(999 / each + 1).as_bytes(), Err(DeadLetterCode::TooManyValues));
    }
    // The second text is not JSON either, but its size is reported, because values are counted first.
    check("[".repeat(100).as_bytes(), Err(DeadLetterCode::NotJson));
    check("0 ".repeat(1001).as_bytes(), Err(DeadLetterCode::TooManyValues));
}

#[test]
fn nesting_is_accepted_up_to_the_limit() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    check(nested(DEPTH_MAX).as_bytes(), Ok(()));
    check(nested(DEPTH_MAX + 1).as_bytes(), Err(DeadLetterCode::TooDeep));
    check(format!("\"\\\"{}\"", "[".repeat(200)).as_bytes(), Ok(()));
}

#[test]
fn duplicate_keys_are_rejected_in_any_spelling() {
    for text in [
        r#"{"a":1,"a":1}"#,
        r#"{"a":1,"b":2,"\u0061":3}"#,
        r#"[{"x":{"y":[{"k":null,"k":null}]}}]"#,
        r#"{"":1,"":2}"#,
    ] {
        check(text.as_bytes(), Err(DeadLetterCode::DuplicateKey));
    }
    check(br#"{"a":{"a":1},"b":{"a":1},"A":"a"}"#, Ok(()));
    let detail = parse(br#" {"secret":1,"secret":2}"#).unwrap_err().detail;
    assert!(detail.contains("object at byte 1") && !detail.contains("secret"), "{detail}");
}

#[test]
fn a_part_of_a_document_is_a_document() {
    let whole = parse(br#"{"a": [1, {"b": "x\ty"}], "c": null}"#).unwrap();
    let part = whole.subdocument(whole.root().get("a").unwrap());
    assert_eq!(part.root().raw_text(), r#"[1, {"b": "x\ty"}]"#);
    assert_eq!(part.root().items().unwrap().nth(1).unwrap().get("b").unwrap().as_str().unwrap(), "x\ty");
    assert!(whole.root().get("c").unwrap().is_null() && whole.root().get_non_null("c").is_none());
    assert_eq!((whole.root().descendant_count(), part.root().descendant_count()), (8, 4));
}

#[test]
fn the_items_of_a_batch_are_split_whatever_they_contain() {
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    let batch = Bytes::from(format!("\u{feff}[{{\"a\": 1}}, 7,{deep}]"));
    assert_eq!(split_array(&batch, 1 << 20, 3).unwrap(), [r#"{"a": 1}"#, "7", &deep]);
    let split = |text: &'static [u8]| split_array(&Bytes::from_static(text), 1024, 3);
    assert_eq!(split(b"[]").unwrap(), Vec::<Bytes>::new());
    for (text, code) in [
        (&b"[1,2,3,4]"[..], DeadLetterCode::Oversized),
        (b"{}", DeadLetterCode::NotCloudEvent),
        (b"[1,", DeadLetterCode::NotJson),
        (b"[1,2,3,4", DeadLetterCode::NotJson),
        (b"[1]x", DeadLetterCode::NotJson),
        (b"[\"\xff\"]", DeadLetterCode::NotUtf8),
    ] {
        assert_eq!(split(text).unwrap_err().code, code, "{}", String::from_utf8_lossy(text));
    }
}

/// Generates arbitrary JSON of up to four levels and about two dozen values.
fn any_json() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        prop::num::f64::NORMAL.prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_document_is_the_value_that_the_library_reads(value in any_json(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        let document = parse(text.unwrap().as_bytes()).unwrap();
        let node = document.root();
        prop_assert_eq!(&node.to_value(), &value);
        prop_assert_eq!(&Value::deserialize(node).unwrap(), &value);
        prop_assert_eq!(&serde_json::to_value(node).unwrap(), &value);
        prop_assert_eq!(node.canonical_json(), canonical::canonical_json(&value));
        prop_assert_eq!(node.content_hash(), canonical::content_hash(&value));
        prop_assert_eq!(node.sorted_json(), value.to_string().into_bytes());
        prop_assert!(JsonDocument::from_value(&value) == document);
    }

    #[test]
    fn any_text_is_read_as_the_library_reads_it_or_refused(text in r#"[\[\]{}:,"\\a0-9.eE+\- u]{0,40}"#) {
        let ours = parse(text.as_bytes());
        match (serde_json::from_str::<Value>(&text), ours) {
            (Ok(value), Ok(document)) => prop_assert_eq!(document.root().to_value(), value),
            (Ok(_), Err(rejection)) => prop_assert_eq!(rejection.code, DeadLetterCode::DuplicateKey),
            (Err(_), Err(rejection)) => prop_assert!(rejection.code != DeadLetterCode::Oversized),
            (Err(error), Ok(_)) => prop_assert!(false, "{:?} was read: {}", text, error),
        }
    }
}
