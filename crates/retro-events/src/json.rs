//! Bytes from a stranger → JSON, within bounds.

use retro_core::dead_letter::{Code, Rejection};
use serde_json::Value;
use serde_json::value::RawValue;

/// The deepest nesting that is read. One less than the limit of the JSON reader itself, which protects the stack;
/// events of real engines stay below 20.
pub const DEPTH_MAX: usize = 127;

/// Reads JSON of at most `bytes_max` bytes and [`DEPTH_MAX`] levels. Fails with `oversized`, `not_utf8`, `too_deep`
/// or `not_json`; what it says holds positions, never the text.
pub fn parse(bytes: &[u8], bytes_max: usize) -> Result<Value, Rejection> {
    let text = text(bytes, bytes_max)?;
    if let Some(offset) = first_too_deep(text.as_bytes()) {
        let detail = format!("byte {offset} is nested deeper than {DEPTH_MAX} levels");
        return Err(Rejection::whole(Code::TooDeep, detail));
    }
    serde_json::from_str(text).map_err(|error| Rejection::whole(Code::NotJson, error.to_string()))
}

/// The items of a JSON array, unread, so that what is wrong within one is not the others' fault. Fails on more than
/// `items_max`, and as [`parse`] does on what is no array or breaks it.
pub fn items(bytes: &[u8], bytes_max: usize, items_max: usize) -> Result<Vec<&str>, Rejection> {
    let items: Vec<&RawValue> = serde_json::from_str(text(bytes, bytes_max)?).map_err(|error| {
        let code = if error.is_data() { Code::NotCloudEvent } else { Code::NotJson };
        Rejection::whole(
            code,
            format!(
                "a batch is a JSON array of events; line {} column {} is not",
                error.line(),
                error.column()
            ),
        )
    })?;
    if items.len() > items_max {
        let detail = format!("{} events; at most {items_max} are taken at once", items.len());
        return Err(Rejection::whole(Code::Oversized, detail));
    }
    Ok(items.into_iter().map(RawValue::get).collect())
}

fn text(bytes: &[u8], bytes_max: usize) -> Result<&str, Rejection> {
    if bytes.len() > bytes_max {
        let detail = format!("{} bytes; at most {bytes_max} are taken", bytes.len());
        return Err(Rejection::whole(Code::Oversized, detail));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        Rejection::whole(Code::NotUtf8, format!("byte {} is not UTF-8", error.valid_up_to()))
    })?;
    // Some Windows tools put a byte order mark before what they write.
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// The offset of the first bracket that goes too deep, found without recursion.
fn first_too_deep(text: &[u8]) -> Option<usize> {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for (offset, byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEPTH_MAX {
            return Some(offset);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: Result<(), Code>) {
        let found = parse(bytes, 1024).map(|_| ()).map_err(|rejection| rejection.code);
        assert_eq!(found, expected, "{}", String::from_utf8_lossy(bytes));
    }

    #[test]
    fn what_cannot_be_read_says_which_bound_it_broke() {
        check(b"{}", Ok(()));
        check("\u{feff}{}".as_bytes(), Ok(()));
        check(b"{", Err(Code::NotJson));
        check(b"", Err(Code::NotJson));
        check(b"{\"a\":1e999}", Err(Code::NotJson));
        check(b"{\"a\":\"\xff\"}", Err(Code::NotUtf8));
        check(&[b' '; 1025], Err(Code::Oversized));
    }

    #[test]
    fn the_items_of_a_batch_are_taken_apart_whatever_stands_within_them() {
        let deep = "[".repeat(10_000) + &"]".repeat(10_000);
        let batch = format!("\u{feff}[{{\"a\": 1}}, 7,{deep}]");
        assert_eq!(items(batch.as_bytes(), 1 << 20, 3).unwrap(), [r#"{"a": 1}"#, "7", &deep]);
        assert_eq!(items(b"[]", 1024, 3).unwrap(), Vec::<&str>::new());
        for (bytes, code) in [
            (&b"[1,2,3,4]"[..], Code::Oversized),
            (b"{}", Code::NotCloudEvent),
            (b"[1,", Code::NotJson),
            (b"[1]x", Code::NotJson),
            (b"[\"\xff\"]", Code::NotUtf8),
        ] {
            assert_eq!(items(bytes, 1024, 3).unwrap_err().code, code, "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn the_deepest_nesting_is_read_and_one_more_is_refused() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        check(nested(DEPTH_MAX).as_bytes(), Ok(()));
        check(nested(DEPTH_MAX + 1).as_bytes(), Err(Code::TooDeep));
        check(format!("\"\\\"{}\"", "[".repeat(200)).as_bytes(), Ok(()));
    }
}
