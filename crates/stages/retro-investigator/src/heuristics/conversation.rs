//! Recovers calls from conversations: code that an agent wrote in a message and that a terminal executed.
//!
//! If agents only talk to each other, the log contains no calls: one message contains the code in a fenced
//! block, and the next message is the terminal's answer. The pair counts as a call only if the harness
//! reports an execution in its own fixed words (AutoGen's code executor) and the message contains exactly one
//! code block, which names its language. With several blocks, it would be unclear which one the answer refers
//! to. Both texts stay in place, so quotes point at the original messages.

use std::sync::LazyLock;

use regex::Regex;
use retro_core::trajectory::{Turn, TurnSource};

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($text).expect("constant patterns compile"));
    };
}

// Header that AutoGen's terminal prints for every execution.
pattern!(EXECUTED, r"\A\s*exitcode: -?[0-9]+ \(execution (failed|succeeded)\)[ \t]*\r?\nCode output:");
// Code blocks as AutoGen recognises them: an unmatched fence swallows the text up to the next block.
pattern!(BLOCK, r"(?s)```[ \t]*([A-Za-z0-9_]+)?[ \t]*\r?\n(.*?)\r?\n[ \t]*```");

/// Code in a message that a terminal executed, with the terminal's answer.
pub(super) struct ExecutedCode<'a> {
    /// Name of the tool that executed the code: `python` or `sh`.
    pub(super) tool: &'static str,
    /// Text of the code, borrowed from the message that contains it.
    pub(super) code: &'a str,
    /// `true` if the terminal reports a failure.
    pub(super) failed: bool,
    /// Output of the code, borrowed from the terminal's message.
    pub(super) answer: &'a str,
}

/// Returns the code in the message of `turn` if the message of `next` reports its execution; otherwise
/// `None`.
pub(super) fn find_executed_code<'a>(turn: &'a Turn, next: &'a Turn) -> Option<ExecutedCode<'a>> {
    let talks = turn.source == TurnSource::Agent && turn.calls.is_empty() && next.calls.is_empty();
    let executed = talks.then(|| EXECUTED.captures(&next.message)).flatten()?;
    let mut blocks = BLOCK.captures_iter(&turn.message);
    let (block, None) = (blocks.next()?, blocks.next()) else { return None };
    let answer = next.message[executed.get(0)?.end()..].trim();
    let tool = tool_for_language(block.get(1)?.as_str())?;
    Some(ExecutedCode { tool, code: block.get(2)?.as_str(), failed: &executed[1] == "failed", answer })
}

fn tool_for_language(language: &str) -> Option<&'static str> {
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

    fn agent_turn(message: &str) -> Turn {
        Turn {
            at: None,
            step: Step::main(),
            entry: None,
            agentic: true,
            source: TurnSource::Agent,
            message: message.to_owned(),
            reasoning: String::new(),
            calls: Vec::new(),
        }
    }

    fn executed(message: &str, next: &str) -> Option<(String, String, bool, String)> {
        let (turn, next) = (agent_turn(message), agent_turn(next));
        find_executed_code(&turn, &next)
            .map(|ran| (ran.tool.to_owned(), ran.code.to_owned(), ran.failed, ran.answer.to_owned()))
    }

    #[test]
    fn executed_code_and_its_output_are_a_call() {
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
            assert_eq!(executed(message, next), Some(expected), "{message}");
        }
    }

    #[test]
    fn ambiguous_messages_are_no_call() {
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
            assert_eq!(executed(message, next), None, "{message}");
        }
        let person = Turn { source: TurnSource::User, ..agent_turn("```python\ncount()\n```") };
        assert!(find_executed_code(&person, &agent_turn(FAILED)).is_none());
    }
}
