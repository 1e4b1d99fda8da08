//! Searches a text in one pass for all keywords, and then with each rule only near its own keywords.
//!
//! All rules except two have keywords without which they cannot match. One automaton finds all keywords in
//! one pass. A rule whose keyword was found is tried in a window around it, and touching windows of one rule
//! are merged. Therefore the automaton and each rule read each byte at most once. Time is linear in the text,
//! and plain prose, which contains few keywords, costs little more than the automaton.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use crate::allowlist::Candidate;
use crate::assignment::is_assigned;
use crate::escape::decode_escapes;
use crate::marker::find_markers;
use crate::rules::{Rule, RuleSet};

/// Maximum number of bytes by which a window is extended so that it does not end within a word. Of a longer
/// word, only the first part is searched.
const WORD_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of bytes of a line that an allowlist examines on each side of a match, because log lines
/// can be megabytes long.
const LINE_SIDE_BYTES_MAX: usize = 512;
/// Rules that give way to a more specific rule, because they recognise a secret only by the name it is
/// assigned to.
const GENERIC_RULES: [&str; 3] = ["generic-api-key", "assigned-secret", "hashicorp-tf-password"];

/// A match of a rule that is a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) rule: usize,
    pub(crate) range: Range<usize>,
}

/// Finds all secrets in a text, sorted by position. Overlapping secrets are merged.
pub(crate) fn scan_text(rules: &RuleSet, text: &str) -> Vec<Hit> {
    let mut hits = Vec::new();
    let found = find_windows(rules, text);
    for (rule, windows) in found.windows {
        for window in windows {
            search_window(rules, rule, text, window, &mut hits);
        }
    }
    if found.has_escapes {
        scan_decoded(rules, text, &mut hits);
    }
    merge_hits(rules, without_markers(text, hits))
}

/// Finds the secrets in a name. Only strict rules are tried.
pub(crate) fn scan_name(rules: &RuleSet, name: &str) -> Vec<Hit> {
    let mut hits = Vec::new();
    for (rule, windows) in find_windows(rules, name).windows {
        if rules.rule(rule).strict {
            windows.into_iter().for_each(|window| search_window(rules, rule, name, window, &mut hits));
        }
    }
    merge_hits(rules, without_markers(name, hits))
}

/// Searches a text without its escapes. A window without a decoded character was searched before, in the text
/// itself.
fn scan_decoded(rules: &RuleSet, text: &str, hits: &mut Vec<Hit>) {
    let Some(decoded) = decode_escapes(text) else { return };
    let mut found = Vec::new();
    for (rule, windows) in find_windows(rules, &decoded.text).windows {
        for window in windows.into_iter().filter(|window| decoded.is_decoded_within(window)) {
            search_window(rules, rule, &decoded.text, window, &mut found);
        }
    }
    let original = |hit: Hit| Hit { range: decoded.original_range(&hit.range), ..hit };
    hits.extend(found.into_iter().map(original));
}

/// Removes hits that overlap a replacement of an earlier redaction, so redacting a text twice changes nothing.
fn without_markers(text: &str, mut hits: Vec<Hit>) -> Vec<Hit> {
    if hits.is_empty() {
        return hits;
    }
    let markers = find_markers(text);
    hits.retain(|hit| {
        let after = markers.partition_point(|mark| mark.end <= hit.range.start);
        markers.get(after).is_none_or(|mark| hit.range.end <= mark.start)
    });
    hits
}

/// What the pass over a text for keywords found.
struct KeywordPass {
    /// Windows that each rule searches, keyed by the index of the rule.
    windows: BTreeMap<usize, Vec<Range<usize>>>,
    /// `true` if the text has escapes that may hide a secret.
    has_escapes: bool,
}

/// Finds the windows of the text that each rule searches.
fn find_windows(rules: &RuleSet, text: &str) -> KeywordPass {
    let mut windows: BTreeMap<usize, Vec<Range<usize>>> = BTreeMap::new();
    let mut has_escapes = false;
    let lower = text.to_ascii_lowercase();
    for (keyword, at) in rules.find_keywords(&lower) {
        has_escapes |= keyword.starts_escape;
        let mut assigned = None;
        for &index in &keyword.rules {
            let rule = rules.rule(index);
            if rule.assignment && !*assigned.get_or_insert_with(|| is_assigned(text.as_bytes(), at.end)) {
                continue;
            }
            merge_window(windows.entry(index).or_default(), window_around(rule, text.as_bytes(), &at));
        }
    }
    windows.extend(
        rules.without_keyword().iter().map(|&index| (index, std::iter::once(0..text.len()).collect())),
    );
    KeywordPass { windows, has_escapes }
}

fn window_around(rule: &Rule, text: &[u8], keyword: &Range<usize>) -> Range<usize> {
    let start = keyword.start.saturating_sub(rule.before);
    let end = (keyword.end + rule.after).min(text.len());
    start..end
}

/// Adds a window, or merges it into the last one if they touch. Keywords arrive sorted by their ends, so a
/// new window can touch only the last one.
fn merge_window(windows: &mut Vec<Range<usize>>, new: Range<usize>) {
    match windows.last_mut() {
        Some(last) if new.start <= last.end => {
            last.start = last.start.min(new.start);
            last.end = last.end.max(new.end);
        }
        _ => windows.push(new),
    }
}

fn search_window(rules: &RuleSet, index: usize, text: &str, window: Range<usize>, hits: &mut Vec<Hit>) {
    let rule = rules.rule(index);
    let bytes = text.as_bytes();
    let haystack = &bytes[..end_of_word(bytes, window.end)];
    let mut from = window.start;
    while from <= haystack.len() {
        // Unlike slicing, `captures_at` lets `\b` see the bytes before `from`.
        let Some(found) = rule.regex().captures_at(haystack, from) else { break };
        let match_range = found.get(0).expect("group 0 is the match").range();
        let secret = match rule.group {
            Some(group) => found.get(group),
            None => found.iter().skip(1).flatten().find(|group| !group.is_empty()),
        };
        let secret = trim_range(bytes, secret.map_or(match_range.clone(), |group| group.range()));
        if is_secret(rules, rule, bytes, &match_range, &secret) {
            hits.push(Hit { rule: index, range: widen_to_characters(text, secret) });
        }
        // An empty match must also advance, or the loop would never end.
        from = match_range.end.max(from + 1);
    }
}

fn end_of_word(text: &[u8], end: usize) -> usize {
    let rest = &text[end..text.len().min(end + WORD_BYTES_MAX)];
    end + rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len())
}

fn trim_range(text: &[u8], range: Range<usize>) -> Range<usize> {
    let bytes = &text[range.clone()];
    let start = range.start + (bytes.len() - bytes.trim_ascii_start().len());
    start..start + bytes.trim_ascii().len()
}

fn is_secret(
    rules: &RuleSet,
    rule: &Rule,
    text: &[u8],
    match_range: &Range<usize>,
    secret: &Range<usize>,
) -> bool {
    let candidate = Candidate {
        secret: &text[secret.clone()],
        full_match: &text[match_range.clone()],
        line: line_of(text, match_range),
    };
    !candidate.secret.is_empty()
        && (rule.entropy == 0.0 || shannon_entropy(candidate.secret) > rule.entropy)
        // Upstream exempts the alphabet as a placeholder, but a vendor's prefix in front of it says enough.
        && (rule.strict || !rules.global_allowlist().allows(candidate))
        && !rule.allowlists.iter().any(|allow| allow.allows(candidate))
}

fn line_of<'t>(text: &'t [u8], match_range: &Range<usize>) -> &'t [u8] {
    let before = &text[match_range.start.saturating_sub(LINE_SIDE_BYTES_MAX)..match_range.start];
    let after = &text[match_range.end..text.len().min(match_range.end + LINE_SIDE_BYTES_MAX)];
    let start =
        before.iter().rposition(|&byte| byte == b'\n').map_or(before.len(), |at| before.len() - at - 1);
    let end = after.iter().position(|&byte| byte == b'\n').unwrap_or(after.len());
    &text[match_range.start - start..match_range.end + end]
}

/// Returns the Shannon entropy of a secret in bits per byte.
fn shannon_entropy(secret: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for &byte in secret {
        counts[usize::from(byte)] += 1;
    }
    let length = secret.len() as f64;
    let share = |&count: &u32| f64::from(count) / length;
    counts.iter().filter(|&&count| count > 0).map(share).map(|share| -share * share.log2()).sum()
}

/// Widens a range to whole characters, because expressions match bytes and may end within a character.
fn widen_to_characters(text: &str, range: Range<usize>) -> Range<usize> {
    text.floor_char_boundary(range.start)..text.ceil_char_boundary(range.end)
}

/// Merges overlapping hits. A merged hit gets the first rule that is not generic; of hits with the same
/// start, the longest comes first.
fn merge_hits(rules: &RuleSet, mut hits: Vec<Hit>) -> Vec<Hit> {
    hits.sort_by_key(|hit| (hit.range.start, Reverse(hit.range.end), hit.rule));
    let mut joined: Vec<Hit> = Vec::new();
    for hit in hits {
        match joined.last_mut() {
            Some(last) if hit.range.start < last.range.end => {
                last.range.end = last.range.end.max(hit.range.end);
                if GENERIC_RULES.contains(&rules.rule(last.rule).id.as_str()) {
                    last.rule = hit.rule;
                }
            }
            _ => joined.push(hit),
        }
    }
    joined
}
