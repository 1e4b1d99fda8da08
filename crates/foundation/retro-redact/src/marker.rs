//! Text that stands in place of a secret.
//!
//! Two different secrets must not leave the same text, or a reader would take them for one value; one secret
//! should leave the same text wherever it stands. A hash of the secret would do both, but a short password
//! can be found from its hash by trying. Masks are therefore numbered in the order of first appearance within
//! one text or run: `[redacted:password]`, `[redacted:password#2]`. The first of a kind has no number, so a
//! text with one secret reads as before. Numbers say nothing across runs.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use crate::escape::decode_escapes;

/// First characters of every replacement. They mark text that is already redacted and must not be redacted
/// again.
pub(crate) const MARKER_PREFIX: &str = "[redacted:";
/// Maximum length of a replacement in bytes: the longest rule id and a number.
const MARKER_BYTES_MAX: usize = 80;

/// Masks of the secrets of one text or run.
#[derive(Debug, Default)]
pub(crate) struct Masks {
    by_secret: HashMap<String, String>,
    /// Highest number in use for each rule.
    numbers: HashMap<String, u32>,
}

impl Masks {
    /// Returns the mask of a secret: the same for each occurrence, and different from the masks of all other
    /// secrets. An escaped secret gets the mask of the plain one.
    pub(crate) fn mask(&mut self, rule: &str, secret: &str) -> &str {
        let plain = decode_escapes(secret).map_or(Cow::Borrowed(secret), |decoded| Cow::Owned(decoded.text));
        let numbers = &mut self.numbers;
        self.by_secret.entry(plain.into_owned()).or_insert_with(|| {
            let number = numbers.entry(rule.to_owned()).or_default();
            *number = number.saturating_add(1);
            format_marker(rule, *number)
        })
    }

    /// Reserves the masks that a text already contains, so that no new secret gets one of them.
    pub(crate) fn reserve_markers(&mut self, text: &str) {
        for marker in find_markers(text) {
            let inner = &text[marker.start + MARKER_PREFIX.len()..marker.end - 1];
            let (rule, number) = inner.split_once('#').unwrap_or((inner, "1"));
            // A number that does not fit was not given by `mask`.
            let Ok(number) = number.parse::<u32>() else { continue };
            let highest = self.numbers.entry(rule.to_owned()).or_default();
            *highest = number.max(*highest);
        }
    }
}

/// Returns the replacement of the secret with this 1-based number among those that this rule found.
pub(crate) fn format_marker(rule: &str, number: u32) -> String {
    if number <= 1 { format!("{MARKER_PREFIX}{rule}]") } else { format!("{MARKER_PREFIX}{rule}#{number}]") }
}

/// Returns `true` if the whole text is one replacement.
pub(crate) fn is_marker(text: &str) -> bool {
    marker_bytes(text) == Some(text.len())
}

/// Finds the replacements of an earlier redaction, sorted by position.
pub(crate) fn find_markers(text: &str) -> Vec<Range<usize>> {
    // `contains` is several times faster than `match_indices`, and nearly all texts have no marker.
    if !text.contains(MARKER_PREFIX) {
        return Vec::new();
    }
    let marker = |(start, _): (usize, &str)| Some(start..start + marker_bytes(&text[start..])?);
    text.match_indices(MARKER_PREFIX).filter_map(marker).collect()
}

/// Returns the length of the replacement that a text begins with. Only the characters of rule ids may be in
/// it, so that a secret in brackets does not pass for one.
fn marker_bytes(text: &str) -> Option<usize> {
    let inner = text.strip_prefix(MARKER_PREFIX)?;
    let end = inner.bytes().take(MARKER_BYTES_MAX).position(|byte| byte == b']')?;
    let (rule, number) = inner[..end].split_once('#').unwrap_or((&inner[..end], "1"));
    let is_rule = rule.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'));
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_rule && !rule.is_empty() && is_number).then_some(MARKER_PREFIX.len() + end + 1)
}
