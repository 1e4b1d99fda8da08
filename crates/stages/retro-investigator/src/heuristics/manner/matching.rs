//! Tells whether a call or a value is in a manner.

use super::super::arguments::{Command, basename, is_assignment};
use super::super::call::Call;
use super::super::format::has_format;
use super::super::parts;

/// Returns `true` if a command runs a program or a subcommand, such as `helm upgrade`.
pub(super) fn runs_program(command: &Command, program: &str) -> bool {
    let (program, does) = program.split_once(' ').map_or((program, None), |(one, does)| (one, Some(does)));
    command.programs().any(|one| one == program)
        && does.is_none_or(|does| command.words_after(program).first().is_some_and(|word| word == does))
}

/// Returns `true` if one of the commands of a call contains the words of another command in their order, and begins
/// with the first of them.
pub(super) fn runs_command(call: &Call<'_>, command: &str) -> bool {
    let wanted: Vec<&str> = command.split(' ').collect();
    let words = parts::words_of(call);
    wanted.len() > 1
        && words.split(|word| matches!(word.as_str(), "&&" | "||" | ";" | "|" | "&")).any(|words| {
            let mut rest = words.iter().skip_while(|word| is_assignment(word)).peekable();
            rest.peek().is_some_and(|word| basename(word) == wanted[0])
                && wanted[1..].iter().all(|wanted| rest.any(|word| word.trim_matches(['"', '\'']) == *wanted))
        })
}

/// Returns `true` if a value is written in a form that is described in words. A form that the value alone does not
/// show counts as met.
pub(super) fn has_form(value: &str, form: &str) -> bool {
    compare_form(value, form).unwrap_or(true)
}

/// Returns `true` if a value alone shows that it is in a form. A number does not show what it was multiplied by.
pub(super) fn is_visible_form(form: &str) -> bool {
    compare_form("", form).is_some()
}

/// Returns whether a value is in a form, or `None` if the value alone does not show it.
fn compare_form(value: &str, form: &str) -> Option<bool> {
    if let Some(quoted) = form.strip_prefix("containing what is named in the error, “") {
        return Some(value.contains(quoted.trim_end_matches('”')));
    }
    let affix = |words: &str| form.strip_prefix(words).map(|rest| rest.trim_matches('`').to_owned());
    match form {
        "in upper case" => Some(value.to_uppercase() == value),
        "in lower case" => Some(value.to_lowercase() == value),
        "written without separators" => Some(value.chars().all(char::is_alphanumeric)),
        _ => {
            let digits = form.strip_prefix("written with ").and_then(|rest| rest.strip_suffix(" digits"));
            affix("beginning with ")
                .map(|text| value.starts_with(&text))
                .or_else(|| affix("ending with ").map(|text| value.ends_with(&text)))
                .or_else(|| affix("not beginning with ").map(|text| !value.starts_with(&text)))
                .or_else(|| affix("not ending with ").map(|text| !value.ends_with(&text)))
                .or_else(|| affix("containing ").map(|text| value.contains(&text)))
                .or_else(|| affix("not containing ").map(|text| !value.contains(&text)))
                .or_else(|| digits.map(|digits| value.chars().count().to_string() == digits))
                .or_else(|| {
                    let format =
                        form.strip_prefix("written ").filter(|format| !format.starts_with("with "))?;
                    Some(has_format(value, format))
                })
        }
    }
}

/// Returns `true` if source code in the arguments of a call has a call of this name.
pub(super) fn is_called_in_code(call: &Call<'_>, function: &str) -> bool {
    call.raw.contains(&format!("{function}(")) && parts::words_of(call).is_empty()
}

pub(super) fn has_option(call: &Call<'_>, program: &str, option: &str) -> Option<bool> {
    if is_called_in_code(call, program) {
        // A keyword argument, with its value or without.
        return Some(
            call.raw.contains(&option.replace('"', "\\\"")) || call.raw.contains(&format!("{option}=")),
        );
    }
    let Some(command) = call.arguments.as_command() else {
        // A command as a list of words.
        let words = parts::words_of(call);
        let runs_it = words.first().is_some_and(|word| basename(word) == program);
        return runs_it.then(|| has_words(&words, option));
    };
    let words = command.words_after(program).iter().chain(command.assignments_before(program));
    let words: Vec<String> = words.cloned().collect();
    command.programs().any(|one| one == program).then(|| has_words(&words, option))
}

/// Returns `true` if an option is among some words: with its value, as one word or two, or with any value if none is
/// named.
pub(super) fn has_words(words: &[String], option: &str) -> bool {
    let wanted: Vec<&str> = option.split(' ').collect();
    let equal = |word: &String, wanted: &str| {
        word == wanted
            || (wanted.starts_with('-')
                && word.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('=')))
    };
    words.windows(wanted.len()).any(|some| some.iter().zip(&wanted).all(|(word, wanted)| equal(word, wanted)))
}
