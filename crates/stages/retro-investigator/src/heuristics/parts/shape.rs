//! Describes what a call asks for without what differs from run to run, so that the same call is recognised in other
//! runs.

use retro_gate::is_plain_name;
use serde_json::Value;

use super::super::arguments::Arguments;
use super::super::call::Call;
use super::command_line::words_of;
use super::leaves::flatten;
use super::{code, contains_value, pieces_of};

/// Maximum number of words or parameters of a shape.
const PIECES_MAX: usize = 32;
/// Maximum length of a value that stays in a shape, in characters.
const VALUE_CHARS_MAX: usize = 48;
/// Minimum length of a piece of a value that is searched for in the task, in characters.
const PIECE_CHARS_MIN: usize = 3;
/// Stands for a value that differs from run to run.
const MASK: &str = "#";

/// Returns the shape of a call: its words, or its parameters with their values. Values with digits and those that the task
/// names are masked. Of source code only the tool and what it calls first are known.
pub(in super::super) fn call_shape(call: &Call<'_>, task: &str) -> String {
    let words = words_of(call);
    let pieces: Vec<String> = if let Some((program, rest)) = words.split_first() {
        let program = program.rsplit('/').next().unwrap_or(program).to_owned();
        std::iter::once(program).chain(rest.iter().map(|word| mask_word(word, task))).collect()
    } else {
        match &call.arguments {
            Arguments::Object(map) => {
                let leaves = flatten(map).into_iter();
                leaves.map(|(path, value)| format!("{path}={}", mask_value(value, task))).collect()
            }
            Arguments::Command(command) => {
                let called = code::first_called(&command.text).or(command.words.first().map(String::as_str));
                called.filter(|name| is_plain_name(name)).map(str::to_owned).into_iter().collect()
            }
        }
    };
    let pieces: Vec<&str> = pieces.iter().take(PIECES_MAX).map(String::as_str).collect();
    format!("{} {}", call.tool, pieces.join(" "))
}

/// Masks a word of a command. The name of an option stays.
fn mask_word(word: &str, task: &str) -> String {
    match word.split_once('=') {
        Some((option, value)) if word.starts_with('-') => format!("{option}={}", mask_text(value, task)),
        _ if word.starts_with("--") => word.to_owned(),
        _ => mask_text(word, task),
    }
}

fn mask_value(value: &Value, task: &str) -> String {
    match value {
        Value::String(text) => mask_text(text, task),
        Value::Number(_) => MASK.to_owned(),
        Value::Bool(_) | Value::Null => value.to_string(),
        Value::Array(_) | Value::Object(_) => "[]".to_owned(),
    }
}

fn mask_text(text: &str, task: &str) -> String {
    let is_long = text.chars().count() > VALUE_CHARS_MAX;
    let is_named =
        pieces_of(text).any(|piece| piece.chars().count() >= PIECE_CHARS_MIN && contains_value(task, piece));
    let varies = is_long || is_named || text.contains(|c: char| c.is_ascii_digit());
    if varies { MASK.to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(tool: &str, raw: &str) -> String {
        call_shape(&Call::with_answer(tool, raw, ""), "Configure cache-05.prod with the role nginx.")
    }

    #[test]
    fn what_differs_from_run_to_run_is_masked() {
        for (tool, raw, expected) in [
            (
                "bash",
                r#"{"command":"ansible-playbook site.yml --limit cache-05.prod --tags nginx"}"#,
                "bash ansible-playbook site.yml --limit # --tags #",
            ),
            ("bash", r#"{"command":"/usr/bin/head -n5 --lines=7 a.txt"}"#, "bash head # --lines=# a.txt"),
            (
                "send",
                r#"{"to":{"host":"cache-05.prod"},"mode":"full","n":3,"dry":true,"l":[1]}"#,
                "send dry=true l=[] mode=full n=# to.host=#",
            ),
            ("run_r", r#"{"code":"d <- read.csv('a.csv')"}"#, "run_r read.csv"),
        ] {
            assert_eq!(shape(tool, raw), expected);
        }
    }
}
