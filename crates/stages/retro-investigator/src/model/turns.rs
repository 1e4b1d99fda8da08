//! Reads turns in a row with their texts shortened, so that a model sees a short run in one answer.

use std::fmt::Write as _;

use retro_core::trajectory::{Trajectory, Turn, TurnSource};
use retro_pipeline::fence_data;
use schemars::JsonSchema;
use serde::Deserialize;

/// Name of the tool.
pub(super) const READ_TURNS: &str = "read_turns";
/// Maximum number of characters of all turns that are read at once.
const ALL_CHARS_MAX: usize = 12_000;
/// Fewest and most characters that are shown of one text.
const TEXT_CHARS: (usize, usize) = (100, 4_000);

/// Arguments of [`READ_TURNS`].
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadTurns {
    /// Number of the first turn.
    #[serde(default)]
    from_turn: u32,
    /// Number of turns.
    #[serde(default = "default_turns")]
    turns: u32,
    /// Maximum number of characters of each message, argument list and answer, 100 to 4000.
    #[serde(default = "default_text_chars")]
    text_chars: u32,
}

const fn default_turns() -> u32 {
    20
}

const fn default_text_chars() -> u32 {
    600
}

/// Returns the name of whoever speaks in a turn.
pub(super) fn speaker_of(turn: &Turn) -> &'static str {
    match turn.source {
        TurnSource::System => "system",
        TurnSource::User => "user",
        TurnSource::Agent => "agent",
    }
}

/// Returns all turns of a short run, uncut. Returns `None` for a run that is longer than what is read at once.
pub(super) fn read_short_run(trajectory: &Trajectory) -> Option<String> {
    let (mut out, mut bytes) = (String::new(), 0);
    for (nth, turn) in (0u32..).zip(&trajectory.turns) {
        let of_calls =
            turn.calls.iter().map(|one| one.arguments.len() + one.answer.as_ref().map_or(0, String::len));
        bytes += turn.message.len() + turn.reasoning.len() + of_calls.sum::<usize>();
        // A character has at most four bytes. Nothing long is copied.
        if bytes > 4 * ALL_CHARS_MAX {
            return None;
        }
        out.push_str(&describe_turn(nth, turn, usize::MAX));
    }
    (out.chars().count() <= ALL_CHARS_MAX).then(|| fence_data("turns", &out))
}

/// Reads the turns of which `includes` says that they may be read, until there is no more room. Fails if there is none.
pub(super) fn read_turns(
    trajectory: &Trajectory,
    asked: &ReadTurns,
    includes: impl Fn(u32) -> bool,
) -> Result<String, String> {
    let text_chars = (asked.text_chars as usize).clamp(TEXT_CHARS.0, TEXT_CHARS.1);
    let end = asked.from_turn.saturating_add(asked.turns.max(1));
    let (mut out, mut room, mut next) = (String::new(), ALL_CHARS_MAX, None);
    for (nth, turn) in (0u32..).zip(&trajectory.turns).skip(asked.from_turn as usize) {
        if nth >= end || !includes(nth) {
            continue;
        }
        let described = describe_turn(nth, turn, text_chars);
        let length = described.chars().count();
        // The first one is shown even if it alone is too long: cut, so that the model gets on.
        if length > room && !out.is_empty() {
            next = Some(nth);
            break;
        }
        out.extend(described.chars().take(room));
        if length > room {
            out.push_str("… the rest of this turn with `read`\n");
            next = Some(nth + 1).filter(|next| (*next as usize) < trajectory.turns.len() && *next < end);
            break;
        }
        room -= length;
    }
    if out.is_empty() {
        return Err("the run has no such turn".to_owned());
    }
    if let Some(next) = next {
        writeln!(out, "no room for more: read on from turn {next}")
            .expect("writing to a String does not fail");
    }
    Ok(fence_data("turns", &out))
}

/// Describes a turn: what was said, and each call with its answer.
fn describe_turn(nth: u32, turn: &Turn, text_chars: usize) -> String {
    let mut out = format!("turn {nth}, {}\n", speaker_of(turn));
    let mut add = |name: &str, text: &str| {
        if !text.trim().is_empty() {
            out.push_str(&format!("{name}: {}\n", cut(text, text_chars)));
        }
    };
    add("message", &turn.message);
    add("reasoning", &turn.reasoning);
    for (call, one) in turn.calls.iter().enumerate() {
        add(&format!("call {call} {}, arguments", one.tool), &one.arguments);
        match &one.answer {
            Some(answer) => add(&format!("call {call}, answer"), answer),
            None => add(&format!("call {call}"), "no answer"),
        }
    }
    out
}

/// Cuts a text, and says how much is missing.
fn cut(text: &str, chars_max: usize) -> String {
    let kept: String = text.chars().take(chars_max).collect();
    match text.chars().count().saturating_sub(chars_max) {
        0 => kept,
        more => format!("{kept}… ({more} more characters)"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::call_turn;
    use super::*;

    fn run(answers: &[&str]) -> Trajectory {
        Trajectory {
            turns: answers.iter().map(|answer| call_turn("query", r#"{"sql":"x"}"#, answer)).collect(),
            agents_md: None,
        }
    }

    fn read(run: &Trajectory, asked: &str) -> Result<String, String> {
        read_turns(run, &serde_json::from_str(asked).unwrap(), |_| true)
    }

    #[test]
    fn a_short_run_is_read_at_once_and_verbatim() {
        let run = run(&["Error: no such table: b", "", "3 rows"]);
        let text = read(&run, "{}").unwrap();
        for wanted in [
            "turn 0, agent",
            r#"call 0 query, arguments: {"sql":"x"}"#,
            "answer: Error: no such table: b",
            "3 rows",
        ] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        assert!(!text.contains("no room") && !text.contains("more characters"), "{text}");
    }

    #[test]
    fn only_a_run_that_can_be_read_at_once_is_short() {
        let short = read_short_run(&run(&["Error: no such table: b", "3 rows"])).unwrap();
        assert!(short.contains("turn 1, agent") && short.contains("answer: 3 rows"), "{short}");
        for long in ["x".repeat(ALL_CHARS_MAX), "x".repeat(20_000_000)] {
            assert_eq!(read_short_run(&run(&["ok", &long])), None);
        }
    }

    #[test]
    fn a_long_run_is_read_in_parts_and_each_text_says_what_is_missing() {
        let long = "ü".repeat(5_000);
        let run = run(&[long.as_str(); 40]);
        let first = read(&run, "{}").unwrap();
        assert!(first.contains("(4400 more characters)"), "{first}");
        assert!(first.chars().count() < 13_000, "{}", first.chars().count());
        let next =
            first.split("read on from turn ").nth(1).unwrap().split(char::is_whitespace).next().unwrap();
        let second = read(&run, &format!(r#"{{"from_turn":{next}}}"#)).unwrap();
        assert!(second.contains(&format!("turn {next}, agent")), "{second}");
        // A window of turns ends where it was asked to end.
        let two = read(&run, r#"{"from_turn":7,"turns":2,"text_chars":1}"#).unwrap();
        assert!(two.contains("turn 8,") && !two.contains("turn 9,") && !two.contains("no room"), "{two}");
    }

    #[test]
    fn a_turn_that_alone_has_no_room_is_cut_and_the_next_one_is_named() {
        let mut run = run(&["a", "b"]);
        let call = run.turns[0].calls[0].clone();
        run.turns[0].calls = vec![call; 2_000];
        let text = read(&run, "{}").unwrap();
        assert!(text.contains("the rest of this turn with `read`") && text.contains("from turn 1"), "{text}");
        assert_eq!(read(&run, r#"{"from_turn":2}"#), Err("the run has no such turn".to_owned()));
        assert_eq!(read_turns(&run, &serde_json::from_str("{}").unwrap(), |_| false).ok(), None);
    }
}
