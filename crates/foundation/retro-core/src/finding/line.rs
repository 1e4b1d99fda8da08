//! Formats the line of a lesson: the error as quoted data, and advice in our own words.
//!
//! Advice is built from the structure of calls and never from the sentences of a tool: what a tool says must not
//! become an order, or whoever writes an error could write our advice.

use retro_gate::{Speaker, quote_as_data};

/// Maximum length of a memory's title, in characters. A title is one line of a prompt.
pub const TITLE_CHARS_MAX: usize = 240;

/// Minimum number of characters of an error that a title quotes. A shorter quote would not distinguish the
/// error from others.
const ERROR_CHARS_MIN: usize = 40;
/// Maximum number of characters of an error that a title quotes.
const ERROR_CHARS_MAX: usize = 110;

/// What a lesson tells an agent, apart from the error that it is about. Only names, values and choices of calls
/// that the agent itself made, and sentences of our own, become advice: an error is quoted, never obeyed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Advice {
    /// An imperative clause about what to do when the tool answers the error, such as "pass `a` as well".
    When(String),
    /// Nothing to do is known. The agent only learns what the tool may answer.
    Expect,
}

/// Formats a title, such as "When `tool` answers “error”, advice." The error is quoted as data: without what it
/// tells its reader to do, and without commands that are not among the calls that `worked`. Returns `None` for
/// advice to expect an error of which nothing may be quoted.
pub fn format_title(tool: &str, error: &str, advice: &Advice, worked: &[&str]) -> Option<String> {
    let frame = match advice {
        Advice::When(advice) => format!("When `{tool}` answers “”, {advice}.").chars().count(),
        Advice::Expect => format!("Before calling `{tool}`, expect that it may answer “”.").chars().count(),
    };
    let room = TITLE_CHARS_MAX.saturating_sub(frame).clamp(ERROR_CHARS_MIN, ERROR_CHARS_MAX);
    let quoted = quote_as_data(error, Speaker::Tool, worked, room);
    match (advice, quoted) {
        (Advice::When(advice), Some(error)) => Some(format!("When `{tool}` answers “{error}”, {advice}.")),
        (Advice::When(advice), None) => {
            Some(format!("When `{tool}` fails with an error that is not quoted here, {advice}."))
        }
        (Advice::Expect, error) => {
            Some(format!("Before calling `{tool}`, expect that it may answer “{}”.", error?))
        }
    }
}

/// Separator of the forms of a remedy with several parts, as in `LessonCue::prefer`.
pub const FORM_SEPARATOR: &str = "; ";

/// Formats the advice to do what the forms of a remedy say, such as "run `npm ci` first" for `` first `npm ci` ``.
/// `avoid` is what the only form replaces.
pub fn format_advice(forms: &[&str], avoid: Option<&str>) -> String {
    if let ([form], Some(avoid)) = (forms, avoid)
        && let Some(advice) = format_replacement(form, avoid)
    {
        return advice;
    }
    forms.iter().map(|form| format_form(form)).collect::<Vec<_>>().join(" and ")
}

fn format_replacement(form: &str, avoid: &str) -> Option<String> {
    let (new, old): (Vec<&str>, Vec<&str>) = (form.split('`').collect(), avoid.split('`').collect());
    Some(match (new.as_slice(), old.as_slice()) {
        (["with ", new, ""], ["with ", old, ""]) => format!("pass `{new}` instead of `{old}`"),
        (["", key, " = ", new, ""], ["", same, " = ", old, ""]) if key == same => {
            format!("set `{key}` to `{new}` instead of `{old}`")
        }
        (["program ", new, ""], ["program ", old, ""]) => format!("use `{new}` instead of `{old}`"),
        (["tool ", new, ""], ["tool ", old, ""]) => format!("call `{new}` instead of `{old}`"),
        (["", program, " with ", new, ""], ["", same, " with ", old, ""]) if program == same => {
            format!("call `{program}` with `{new}` instead of `{old}`")
        }
        _ => return None,
    })
}

/// Words after a program in a form that says how one of its arguments is written.
const ARGUMENT_FORM: &str = " with an argument ";

fn format_form(form: &str) -> String {
    match form.split('`').collect::<Vec<_>>().as_slice() {
        ["with ", key, ""] => format!("pass `{key}` as well"),
        ["without ", key, ""] => format!("leave `{key}` out"),
        ["first ", call, ""] if call.contains(' ') => format!("run `{call}` first"),
        ["first ", call, ""] => format!("call `{call}` first"),
        ["tool ", tool, ""] => format!("call `{tool}` instead"),
        ["program ", program, ""] => format!("use `{program}`"),
        ["", key, " = ", value, ""] => format!("set `{key}` to `{value}`"),
        ["", program, " with ", option, ""] => format!("call `{program}` with `{option}`"),
        ["", program, " without ", option, ""] => format!("call `{program}` without `{option}`"),
        ["after about ", seconds, " seconds"] => {
            format!("wait about {seconds} seconds and make the same call again")
        }
        ["after a pause"] => "wait and make the same call again".to_owned(),
        ["", program, " with ", option, " from ", call, ""] => {
            format!("call `{program}` with `{option}` and what `{call}` answers")
        }
        ["", program, " with ", option, named] => format!("call `{program}` with `{option}`{named}"),
        ["", program, rest @ ..] if rest.first().is_some_and(|words| words.starts_with(ARGUMENT_FORM)) => {
            format!("call `{program}`{}", rest.join("`"))
        }
        ["", key, " from ", call, ""] => format!("take `{key}` from the answer of `{call}`"),
        ["", program, " with a value from ", call, ""] => {
            format!("call `{program}` with what `{call}` answers")
        }
        ["", word, " in another place"] => format!("write `{word}` in another place of the command"),
        ["", key, rest @ ..] if rest.first().is_some_and(|words| words.starts_with(" written ")) => {
            let words = rest.join("`");
            let how = words.trim_start_matches(" written ");
            let joint = if how.starts_with("with") { "" } else { "as " };
            format!("write `{key}` {joint}{how}")
        }
        ["", key, rest @ ..] => format!("pass `{key}`{}", rest.join("`")),
        _ => format!("make the call {form}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_an_order_that_an_agent_can_follow() {
        for (form, advice) in [
            ("with `region`", "pass `region` as well"),
            ("without `region`", "leave `region` out"),
            ("first `npm ci`", "run `npm ci` first"),
            ("first `login`", "call `login` first"),
            ("program `heif-convert`", "use `heif-convert`"),
            ("`day` = `2026-12-31`", "set `day` to `2026-12-31`"),
            ("`day` written YYYY-MM-DD", "write `day` as YYYY-MM-DD"),
            ("`no` written with 8 digits", "write `no` with 8 digits"),
            ("`row` as a number", "pass `row` as a number"),
            ("`order` beginning with `#`", "pass `order` beginning with `#`"),
            ("`zone` in upper case", "pass `zone` in upper case"),
            ("`node` from `get_leader`", "take `node` from the answer of `get_leader`"),
            ("`tar` with `-C`", "call `tar` with `-C`"),
            ("`adb` with `-s` from `adb devices`", "call `adb` with `-s` and what `adb devices` answers"),
            (
                "`view` with an argument beginning with `chr`",
                "call `view` with an argument beginning with `chr`",
            ),
            ("`limit` as named in the error, “100”", "pass `limit` as named in the error, “100”"),
            (
                "`post` with `--type` as named in the error, “a”",
                "call `post` with `--type` as named in the error, “a”",
            ),
            ("after about `90` seconds", "wait about 90 seconds and make the same call again"),
        ] {
            assert_eq!(format_advice(&[form], None), advice);
        }
        let replaced = format_advice(&["`format` = `json`"], Some("`format` = `csv`"));
        assert_eq!(replaced, "set `format` to `json` instead of `csv`");
        let both = format_advice(&["first `get_leader`", "`node` from `get_leader`"], None);
        assert_eq!(both, "call `get_leader` first and take `node` from the answer of `get_leader`");
    }
}
