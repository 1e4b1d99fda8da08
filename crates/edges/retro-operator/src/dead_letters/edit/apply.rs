//! Applies an edit to a message, and refuses edits that would change what must stay.

use std::borrow::Cow;

use bytes::Bytes;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::json::{JsonBounds, JsonDocument};
use retro_events::envelope::MESSAGE_BYTES_MAX;
use retro_events::{Role, encoding};
use retro_store::{DeadLetter, MessageContent};
use serde_json::Value;

use super::error::{EditError, refuse_edit};
use super::set_field::{self, SetFieldError};

/// Prefix of the placeholder for a redacted secret. A payload that contains it was copied from redacted output.
const REDACTION_PREFIX: &str = "[redacted:";

/// A change to a dead letter's payload, as requested by an operator.
#[derive(Debug, Clone, PartialEq)]
pub enum Edit {
    /// Replaces the whole payload.
    ReplacePayload(Vec<u8>),
    /// Sets the fields at these paths, in order. Every other byte is kept.
    SetFields(Vec<(String, Value)>),
}

pub(super) fn check_is_event(dead_letter: &DeadLetter) -> Result<(), EditError> {
    let readers = [Role::Counter, Role::Reviewer, Role::Tracker].map(Role::as_str);
    if readers.contains(&dead_letter.message.position.consumer.as_str()) {
        return Ok(());
    }
    refuse_edit(format!(
        "only events can be edited, and this is one of the program's own messages ({}): it contains nothing for a person to correct",
        dead_letter.message.subject
    ))
}

/// Applies an edit. The new payload is never compressed, so the encoding header is removed.
pub(super) fn apply_edit(before: &MessageContent, edit: &Edit) -> Result<MessageContent, EditError> {
    let packing = |name: &str| name.eq_ignore_ascii_case(encoding::CONTENT_ENCODING);
    let packed_by = before.headers.iter().find(|(name, _)| packing(name)).map(|(_, how)| how.as_str());
    let payload = match edit {
        Edit::ReplacePayload(payload) => payload.clone(),
        Edit::SetFields(fields) => {
            let unpacked =
                encoding::decompress_payload(packed_by, &before.payload.clone().into(), MESSAGE_BYTES_MAX);
            let unpacked = unpacked.map_err(|why| EditError::Refused(why.to_string()))?;
            let text = std::str::from_utf8(&unpacked).map_err(|_| SetFieldError::NotJson)?;
            // JSON does not allow a byte order mark, but some senders write one.
            let mut text = text.strip_prefix('\u{feff}').unwrap_or(text).to_owned();
            for (path, value) in fields {
                text = set_field::set_value(&text, path, value)?;
            }
            text.into_bytes()
        }
    };
    let headers = before.headers.iter().filter(|(name, _)| !packing(name)).cloned().collect();
    Ok(MessageContent { headers, payload })
}

pub(super) fn check_edit(
    dead_letter: &DeadLetter,
    before: &MessageContent,
    after: &MessageContent,
) -> Result<(), EditError> {
    if after.payload == before.payload {
        return refuse_edit("the edit changes nothing");
    }
    if after.payload.len() > MESSAGE_BYTES_MAX {
        let bytes = after.payload.len();
        return refuse_edit(format!(
            "the version is {bytes} bytes large; a message has at most {MESSAGE_BYTES_MAX}"
        ));
    }
    let holds = |payload: &[u8]| String::from_utf8_lossy(payload).contains(REDACTION_PREFIX);
    // A payload copied from redacted output would replace the real values with placeholders.
    if holds(&after.payload) && !holds(&dead_letter.message.payload) {
        return refuse_edit(format!(
            "the payload holds `{REDACTION_PREFIX}…`, so it was copied from redacted output: start with the exact bytes \
             (`retro dead-letters show ID --raw`), or set single fields"
        ));
    }
    let Rejection { code, path, .. } = &dead_letter.message.rejection;
    let was_wrong = *code == DeadLetterCode::IdentityConflict
        || path.as_deref().is_some_and(|path| ["id", "source"].contains(&path));
    // An identity that could not be read is not protected: adding it is a legitimate correction.
    match (read_identity(before), read_identity(after)) {
        (Some(was), Some(is)) if was != is && !was_wrong => refuse_edit(
            "the edit changes the event's source or id, and these were not what was wrong: under another identity the run \
             would be counted by an event that nobody sent",
        ),
        _ => Ok(()),
    }
}

/// Reads the source and the id from an event whose other fields may be invalid.
fn read_identity(content: &MessageContent) -> Option<(String, String)> {
    let packed_by =
        content.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(encoding::CONTENT_ENCODING));
    let packed = Bytes::copy_from_slice(&content.payload);
    let payload =
        encoding::decompress_payload(packed_by.map(|(_, how)| how.as_str()), &packed, MESSAGE_BYTES_MAX).ok();
    let json = payload.and_then(|payload| {
        JsonDocument::parse(&payload, JsonBounds::with_bytes_max(MESSAGE_BYTES_MAX)).ok()
    });
    let header = |name: &str| {
        let mut headers = content.headers.iter();
        headers.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone())
    };
    let field = |name: &str| json.as_ref()?.root().get(name)?.as_str().map(Cow::into_owned);
    let attribute = |name: &str| header(&format!("ce-{name}")).or_else(|| field(name));
    Some((attribute("source")?, attribute("id")?))
}
