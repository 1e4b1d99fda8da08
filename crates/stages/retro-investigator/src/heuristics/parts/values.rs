//! Describes the new value of a parameter.

use retro_core::calls::VOLATILE_MARK;
use retro_gate::is_plain_name;
use serde_json::Value;

use super::super::call::Call;
use super::super::format::{date_format, describe_scale, text_shapes};
use super::super::manner::json_type_name;
use super::first_call::first_label;
use super::{ValueOrigins, contains_value};

/// Maximum length of a value that a lesson states, in characters.
const VALUE_CHARS_MAX: usize = 48;
/// Minimum number of digits of a number that is known by its end.
const CORE_CHARS_MIN: usize = 5;
/// Minimum number of segments of a path whose segments are compared.
const SEGMENTS_MIN: usize = 3;
/// Minimum number of characters that were added to a segment. Fewer are in every path.
const AFFIX_CHARS_MIN: usize = 3;
/// Maximum number of words of such a value.
const VALUE_WORDS_MAX: usize = 5;

/// Returns `true` if a path of parameters may stand in a lesson.
pub(super) fn is_name_of_parameter(path: &str) -> bool {
    is_plain_name(path)
}

/// Returns a value as a lesson shows it: a string without quotes, any other value as JSON.
pub(super) fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns `true` if a lesson may state a value: it is short and in plain characters.
pub(super) fn is_shareable(text: &str) -> bool {
    !text.is_empty()
        && text.chars().count() <= VALUE_CHARS_MAX
        && text.split_whitespace().count() <= VALUE_WORDS_MAX
        && !text.contains("://")
        && !text.contains("redacted")
        && text.chars().all(|c| c.is_alphanumeric() || "_.-/:+=,@#%*!?~^()[]{}<>\"'$& ".contains(c))
}

/// Returns `true` for values that occur in many answers by accident.
pub(super) fn is_plain_choice(value: &Value) -> bool {
    match value {
        Value::Bool(_) | Value::Null => true,
        Value::Number(number) => number.to_string().len() < 3,
        _ => false,
    }
}

/// Describes that the parameter `path` has the value `after`, which an earlier call may have supplied.
pub(super) fn describe_value(
    path: &str,
    before: Option<&Value>,
    after: &Value,
    origins: ValueOrigins<'_>,
    supplier: Option<&Call<'_>>,
) -> Vec<String> {
    let text = text_of(after);
    let mut forms = Vec::new();
    // A value that an answer of this run chose is not stated.
    let is_answered = supplier.is_some() || origins.error_demands(before.map(text_of).as_deref(), &text);
    if is_shareable(&text) && !is_answered {
        let volatile = !is_plain_choice(after) && origins.task_names(&text);
        let mark = if volatile { VOLATILE_MARK.to_string() } else { String::new() };
        forms.push(format!("{mark}`{path}` = `{text}`"));
    } else if let (Some(_), Some(quoted)) = (before, origins.quote_from_error(&text)) {
        forms.push(format!("`{path}` as named in the error, {quoted}"));
    }
    if let Some(before) = before {
        let edit = describe_edit(before, after).filter(|edit| !(is_answered && states_value(edit)));
        forms.extend(edit.map(|edit| format!("`{path}` {edit}")));
    }
    if let Some(label) = supplier.and_then(first_label) {
        forms.push(format!("`{path}` from `{label}`"));
    } else if origins.error_names(&text) {
        forms.push(format!("`{path}` as named in the error"));
    } else if !is_plain_choice(after) && contains_value(origins.task, &text) {
        forms.push(format!("`{path}` as named in the task"));
    }
    match before {
        None => forms.push(format!("with `{path}`")),
        // The letters of a shape are those of the value.
        Some(before) if !is_answered => {
            forms.extend(describe_shapes(before, after).into_iter().map(|form| format!("`{path}` {form}")));
        }
        Some(_) => {}
    }
    forms
}

/// Describes what was done to a value, such as `in upper case`, without the value itself.
fn describe_edit(before: &Value, after: &Value) -> Option<String> {
    if let Value::Array(items) = after
        && items.len() == 1
        && items[0] == *before
    {
        return Some("as a list".to_owned());
    }
    if let (Value::String(before), Value::Number(after)) = (before, after)
        && let Some(format) = date_format(before, &after.to_string())
    {
        return Some(format!("written {format}"));
    }
    if json_type_name(before) != json_type_name(after) {
        return Some(format!("as {}", json_type_name(after)));
    }
    match (before, after) {
        (Value::String(before), Value::String(after)) => describe_text_edit(before, after),
        (Value::Number(before), Value::Number(after)) => {
            describe_scale(&before.to_string(), &after.to_string())
        }
        _ => None,
    }
}

/// Returns `true` if the description of an edit states a part of the value, as that of a prefix does.
pub(super) fn states_value(edit: &str) -> bool {
    edit.contains('`')
}

/// Describes what was done to a text, without the text itself. Returns `None` if it is another text.
pub(super) fn describe_text_edit(before: &str, after: &str) -> Option<String> {
    if before == after || before.is_empty() {
        return None;
    }
    if let Some(format) = date_format(before, after) {
        return Some(format!("written {format}"));
    }
    if before.to_lowercase() == after.to_lowercase() {
        let (upper, lower) = (after.to_uppercase() == after, after.to_lowercase() == after);
        return Some(if upper {
            "in upper case".to_owned()
        } else if lower {
            "in lower case".to_owned()
        } else {
            "in the other letter case".to_owned()
        });
    }
    let digits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    if digits(before) && digits(after) && before.trim_start_matches('0') == after.trim_start_matches('0') {
        return Some(format!("written with {} digits", after.chars().count()));
    }
    if let Some(scale) = describe_scale(before, after) {
        return Some(scale);
    }
    if let Some((front, back)) = after.split_once(before) {
        return describe_affix(front, back, "");
    }
    if let Some((front, back)) = before.split_once(after) {
        return describe_affix(front, back, "not ");
    }
    // A prefix takes the place of leading zeros and blanks, as in `+49176…` for `0176 …`.
    let core = without_marks(before);
    let core = core.trim_start_matches('0');
    if core.chars().count() >= CORE_CHARS_MIN
        && let Some(front) = after.strip_suffix(core).filter(|front| !front.is_empty())
        && core.chars().all(|c| c.is_ascii_digit())
    {
        return describe_affix(front, "", "");
    }
    if let Some(edit) = describe_segment_edit(before, after) {
        return Some(edit);
    }
    if without_marks(before) == without_marks(after) && after.split_whitespace().count() <= VALUE_WORDS_MAX {
        let is_bare = without_marks(after) == after;
        return Some(if is_bare {
            "written without separators".to_owned()
        } else {
            format!("written {}", separators_of(after))
        });
    }
    None
}

fn without_marks(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

/// Describes what was added to the only segment in which two paths differ, such as `sis_course_id:` in
/// `/courses/sis_course_id:77/sections`.
fn describe_segment_edit(before: &str, after: &str) -> Option<String> {
    let (before, after): (Vec<&str>, Vec<&str>) = (before.split('/').collect(), after.split('/').collect());
    if before.len() != after.len() || before.len() < SEGMENTS_MIN {
        return None;
    }
    let mut changed = before.iter().zip(&after).filter(|(old, new)| old != new);
    let ((old, new), None) = (changed.next()?, changed.next()) else { return None };
    let (longer, shorter, negation) = if new.contains(old) { (new, old, "") } else { (old, new, "not ") };
    let added = match longer.split_once(shorter)? {
        _ if shorter.is_empty() => return None,
        (front, "") => front,
        ("", back) => back,
        _ => return None,
    };
    (added.chars().count() >= AFFIX_CHARS_MIN && is_shareable(added))
        .then(|| format!("{negation}containing `{added}`"))
}

/// Describes what was added before or after a value.
fn describe_affix(front: &str, back: &str, negation: &str) -> Option<String> {
    let (place, what) = match (front.trim(), back.trim()) {
        ("", "") => return Some(format!("{negation}with blanks around it")),
        (front, "") => ("beginning", front),
        ("", back) => ("ending", back),
        _ => return None,
    };
    is_shareable(what).then(|| format!("{negation}{place} with `{what}`"))
}

/// Describes the separators of a value, such as `with “-”`.
fn separators_of(text: &str) -> String {
    let mut separators: Vec<char> = text.chars().filter(|c| !c.is_alphanumeric()).collect();
    separators.dedup();
    let shown: String = separators.into_iter().take(3).map(|c| if c == ' ' { '␣' } else { c }).collect();
    format!("with “{shown}” between its parts")
}

/// Describes the shapes of a text that differ from those of the old one, the more exact one first.
fn describe_shapes(before: &Value, after: &Value) -> Vec<String> {
    let (Some(before), Some(after)) = (before.as_str(), after.as_str()) else { return Vec::new() };
    let is_word = |text: &str| text.chars().count() <= VALUE_CHARS_MAX && !text.contains(char::is_whitespace);
    if !is_word(before) || !is_word(after) {
        return Vec::new();
    }
    let old = text_shapes(before);
    let new = text_shapes(after).into_iter().filter(|shape| is_shareable(shape) && !old.contains(shape));
    new.map(|shape| format!("written {shape}")).collect()
}
