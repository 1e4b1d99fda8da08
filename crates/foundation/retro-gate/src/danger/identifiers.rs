//! Finds names of tools, parameters and options that delete, such as `bulk_delete` and `--wipe-data`.

use super::reading::{Reading, gap};
use super::words::SHARED;
use super::words::is_one_of;

/// Identifiers such as `delete_file` that name everyday edits.
const EDITS: &str = "file files line lines text char chars dir directory directories folder folders word cell element key item items tmp temp cache draft test comment selection range block node file_or_directory entry todo note message event reminder label tag task attachment reaction link alias path node_modules build artifact";

/// Verbs of identifiers, and the words before them that only strengthen them.
const VERBS: &str = "delete destroy purge wipe drop terminate erase truncate nuke obliterate";
const STRONGER: &str =
    "bulk mass hard force permanent permanently recursive full all cascade batch multi admin";

/// Finds an identifier such as `delete_user`, `bulk_delete` or `--wipe-data`, which is a tool or its parameter.
pub(super) fn find_identifier(reading: &Reading<'_>, at: usize) -> Option<usize> {
    let word = &reading.words[at];
    if word.is_address() || word.text.contains('/') || !word.text.contains(['_', '-']) {
        return None;
    }
    let parts: Vec<&str> =
        word.text.split(['_', '-', '.']).filter(|part| !part.is_empty() && *part != "mcp").take(8).collect();
    let bound_off = reading
        .words
        .get(at + 1)
        .is_some_and(|next| next.gap & (gap::COLON | gap::ASSIGN) != 0 && next.is("false 0 no off null"));
    let (first, last) = (*parts.first()?, *parts.last()?);
    if bound_off || word.text.ends_with(".py") {
        return None;
    }
    if word.is_option() {
        let all = is_one_of(
            last,
            "data volumes all everything existing database databases tables schema history backups remote cluster disks storage state tenants records users",
        );
        let wipes = is_one_of(first, VERBS) && (parts.len() == 1 && is_one_of(first, "wipe nuke") || all);
        let takes = parts.len() == 2
            && first == "with"
            && matches!(last, "data" | "volumes")
            && deletes_before(reading, at);
        return (wipes || takes).then_some(at);
    }
    let object = *parts.get(1)?;
    let own = is_one_of(object, EDITS)
        || is_one_of(last, EDITS)
        || is_one_of(object, "na nan duplicates column columns index on off if after old in at");
    let named = word.text.contains('_')
        || is_one_of(last, SHARED) && reading.words[at].gap & (gap::TICK | gap::QUOTE) != 0;
    // `purge_on_start: true`
    let bound_on = reading
        .words
        .get(at + 1)
        .is_some_and(|next| next.is("true 1 yes on") || next.text == "to" && reading.text(at + 2) == "true");
    if object == "on" && is_one_of(first, "purge wipe erase destroy nuke") && bound_on {
        return Some(at);
    }
    let verb_first = is_one_of(first, VERBS) && named && !own;
    let strong = |part: &str| is_one_of(part, FOREVER) || is_one_of(part, SHARED) && part != "data";
    let removes = first == "remove" && is_one_of(last, FOREVER) && named;
    let strengthened = is_one_of(first, STRONGER) && is_one_of(object, VERBS);
    let verb_last = parts.len() == 2 && strong(first) && is_one_of(last, VERBS) && word.text.contains('_');
    (verb_first || removes || strengthened || verb_last).then_some(at)
}

/// What cannot be made again.
const FOREVER: &str = "bucket buckets database databases cluster clusters namespace namespaces volume volumes tenant tenants account accounts project projects backup backups snapshot snapshots schema repository customer customers user users";

/// Returns `true` if a verb that deletes stands before an option of the same command.
fn deletes_before(reading: &Reading<'_>, at: usize) -> bool {
    (at.saturating_sub(6)..at)
        .rev()
        .take_while(|word| reading.words[word + 1].gap & (gap::STOP | gap::COMMA | gap::SHELL) == 0)
        .any(|word| is_one_of(reading.text(word), VERBS) || is_one_of(reading.text(word), "rm remove down"))
}
