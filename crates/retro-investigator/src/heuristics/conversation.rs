//! Code that an agent wrote in a message and that a terminal ran, as calls.
//!
//! Where agents only talk, no call stands in the log: one message holds the code in a fenced block, and the next one is what a
//! terminal answered. That is read as a call only where the harness says so in its own fixed words (AutoGen's code executor),
//! and where the message holds exactly one block with a language: of several, nobody knows which one the answer is about.
//! Both texts stay where they are, so that what is quoted stands in the messages.

use std::sync::LazyLock;

use regex::Regex;
use retro_core::trajectory::{Source, Turn};

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new($text).expect("a constant pattern"));
    };
}

// How AutoGen's terminal begins, whatever ran.
pattern!(EXECUTED, r"\A\s*exitcode: -?[0-9]+ \(execution (failed|succeeded)\)[ \t]*\r?\nCode output:");
// What that harness takes for a block of code. A mark that opens nothing swallows the text up to the next block, there as here.
pattern!(BLOCK, r"(?s)```[ \t]*([A-Za-z0-9_]+)?[ \t]*\r?\n(.*?)\r?\n[ \t]*```");

/// Code that was run.
pub(super) struct Ran<'a> {
    /// What ran it, as a tool is called: `python`, `sh`.
    pub(super) tool: &'static str,
    /// The code, a part of the message that holds it.
    pub(super) code: &'a str,
    /// Whether the terminal says that it failed.
    pub(super) failed: bool,
    /// What it printed, a part of the terminal's message.
    pub(super) answer: &'a str,
}

/// The code in the message of a turn that the next turn says it ran; `None` when it says nothing of the kind.
pub(super) fn ran<'a>(turn: &'a Turn, next: &'a Turn) -> Option<Ran<'a>> {
    let talks = turn.source == Source::Agent && turn.calls.is_empty() && next.calls.is_empty();
    let executed = talks.then(|| EXECUTED.captures(&next.message)).flatten()?;
    let mut blocks = BLOCK.captures_iter(&turn.message);
    let (block, None) = (blocks.next()?, blocks.next()) else { return None };
    let answer = next.message[executed.get(0)?.end()..].trim();
    let tool = tool(block.get(1)?.as_str())?;
    Some(Ran { tool, code: block.get(2)?.as_str(), failed: &executed[1] == "failed", answer })
}

fn tool(language: &str) -> Option<&'static str> {
    match language.to_lowercase().as_str() {
        "python" | "py" => Some("python"),
        "sh" | "shell" | "bash" => Some("sh"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use retro_core::id::Step;

    use super::*;

    fn said(message: &str) -> Turn {
        Turn {
            step: Step::main(),
            agentic: true,
            source: Source::Agent,
            message: message.to_owned(),
            reasoning: String::new(),
            calls: Vec::new(),
        }
    }

    fn told(message: &str, next: &str) -> Option<(String, String, bool, String)> {
        let (turn, next) = (said(message), said(next));
        ran(&turn, &next)
            .map(|ran| (ran.tool.to_owned(), ran.code.to_owned(), ran.failed, ran.answer.to_owned()))
    }

    #[test]
    fn code_and_what_its_terminal_answered_are_a_call() {
        for (message, next, tool, code, failed, answer) in [
            (
                "I count.\n```python\ncount()\n```\nThat is all.",
                "exitcode: 1 (execution failed)\nCode output: Traceback (most recent call last):\nNameError: name 'count'\n",
                "python",
                "count()",
                true,
                "Traceback (most recent call last):\nNameError: name 'count'",
            ),
            (
                "```bash\nls\n```",
                "exitcode: 0 (execution succeeded)\nCode output: \na.txt\n",
                "sh",
                "ls",
                false,
                "a.txt",
            ),
            (
                "```py\nx = 1\ny = 2\n```",
                "exitcode: 0 (execution succeeded)\nCode output: ",
                "python",
                "x = 1\ny = 2",
                false,
                "",
            ),
        ] {
            let expected = (tool.to_owned(), code.to_owned(), failed, answer.to_owned());
            assert_eq!(told(message, next), Some(expected), "{message}");
        }
    }

    #[test]
    fn what_is_not_certain_is_no_call() {
        const FAILED: &str = "exitcode: 1 (execution failed)\nCode output: NameError: name 'count'";
        for (message, next) in [
            ("```python\ncount()\n```", "It failed with exitcode: 1."),
            ("```python\ncount()\n```", "exitcode: 1\nNameError"),
            ("```python\na()\n```\nand\n```python\nb()\n```", FAILED),
            ("```\ncount()\n```", FAILED),
            ("```json\n{}\n```", FAILED),
            ("```1/2,3/4```\nthen\n```python\ncount()\n```", FAILED),
            ("I count.", FAILED),
        ] {
            assert_eq!(told(message, next), None, "{message}");
        }
        let person = Turn { source: Source::User, ..said("```python\ncount()\n```") };
        assert!(ran(&person, &said(FAILED)).is_none());
    }
}
