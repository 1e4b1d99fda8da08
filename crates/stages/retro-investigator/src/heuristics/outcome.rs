//! Decides whether a call failed and which line reports the failure.
//!
//! The log's own flag comes first. Without a flag the answer decides, but only by its start, its error fields
//! or its exit status, because file contents and query results mention errors all the time. A command that
//! prints files has therefore failed only if the command itself complains, and a shell answer only if every
//! line of it is a complaint. An empty answer or an empty list is a success.

mod document;
mod explanation;
mod markup;

use std::sync::LazyLock;

use regex::Regex;
use retro_core::trajectory::ToolCall;

use super::arguments::{Arguments, Command, basename};
use super::failing_line::failing_lines;
use super::quote::first_chars;
use super::signature;
use super::{edit_failure, log_ending};

/// Maximum number of characters read from the start of an answer, where errors are reported.
const ANSWER_CHARS_MAX: usize = 6_000;
/// Maximum number of lines of an answer that are read.
const LINES_MAX: usize = 60;
/// Maximum number of lines of a refusal. A longer answer is the requested content.
const REFUSAL_LINES_MAX: usize = 4;

/// Outcome of a call, as far as the log shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallOutcome<'a> {
    /// The call was answered, and nothing indicates that it failed.
    Succeeded,
    /// The call failed, according to the log's flag or to its answer.
    Failed(CallFailure<'a>),
    /// The log contains no answer to the call.
    Unanswered,
}

/// Failure of a call, with the text that reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallFailure<'a> {
    /// Verbatim part of the answer that reports the failure; empty if there is none.
    pub line: &'a str,
    /// Signature of the error; empty if the failure has no text of its own.
    pub error: String,
}

impl<'a> CallFailure<'a> {
    /// Creates the failure that a line reports.
    pub(super) fn from_line(line: &'a str) -> Self {
        Self { line, error: signature::error_signature(line) }
    }
}

/// Judges a call by the log's own flag if there is one, otherwise by its answer.
pub(super) fn judge_outcome<'a>(call: &'a ToolCall, arguments: &Arguments) -> CallOutcome<'a> {
    let answer = call.answer.as_deref().map(str::trim);
    match (call.failed, answer) {
        (Some(false), _) => CallOutcome::Succeeded,
        (Some(true), answer) => {
            let answer = answer.unwrap_or("");
            let failure = find_failure(&call.tool, arguments, answer).unwrap_or_else(|| {
                CallFailure::from_line(find_failing_line(answer).unwrap_or_else(|| first_line(answer)))
            });
            CallOutcome::Failed(explanation::explain_failure(failure, answer, &call.arguments))
        }
        (None, None) => CallOutcome::Unanswered,
        (None, Some(answer)) => {
            let failure = find_failure(&call.tool, arguments, answer);
            let explained =
                failure.map(|failure| explanation::explain_failure(failure, answer, &call.arguments));
            explained.map_or(CallOutcome::Succeeded, CallOutcome::Failed)
        }
    }
}

/// Judges code that a terminal executed. The terminal itself reports a failure. Its output may be anything,
/// so the output provides the text of the failure only if it reads as an error.
pub(super) fn judge_terminal<'a>(
    failed: bool,
    tool: &str,
    arguments: &Arguments,
    answer: &'a str,
) -> CallOutcome<'a> {
    let words = || find_failure(tool, arguments, answer).unwrap_or_else(|| CallFailure::from_line(""));
    if failed { CallOutcome::Failed(words()) } else { CallOutcome::Succeeded }
}

fn find_failure<'a>(tool: &str, arguments: &Arguments, full_answer: &'a str) -> Option<CallFailure<'a>> {
    let answer = first_chars(full_answer, ANSWER_CHARS_MAX);
    if answer.is_empty() || answer.starts_with("[(") || answer.starts_with("[{") || answer.starts_with("[]") {
        return None;
    }
    if answer.starts_with('{') {
        let failure = document::find_json_failure(answer);
        // A harness may print the exit status below the document.
        if failure.is_some() || find_exit_status(answer) != Some(true) {
            return failure;
        }
    }
    let command = arguments.as_command();
    // A file may be an error page, or a report about failures.
    let markup = || markup::find_markup_failure(answer).filter(|_| !command.is_some_and(prints_files));
    if let Some(failure) = document::find_status_failure(answer).or_else(markup) {
        return Some(failure);
    }
    if let Some(failed) = find_exit_status(answer).or_else(|| find_exit_status(full_answer)) {
        return failed.then(|| {
            CallFailure::from_line(
                find_error_line(answer)
                    .or_else(|| find_failing_line(full_answer))
                    .unwrap_or_else(|| find_last_line(full_answer)),
            )
        });
    }
    let lines = || answer.lines().map(str::trim).filter(|line| !line.is_empty()).take(LINES_MAX);
    // The contents of files may mention any error, so a long answer of such a command proves nothing.
    let content = command.is_some_and(prints_files) && lines().count() > REFUSAL_LINES_MAX;
    if !content {
        if let Some(line) = find_exception(answer).or_else(|| edit_failure::find_edit_failure(answer)) {
            return Some(CallFailure::from_line(line));
        }
        if STARTS.is_match(answer) || (SHORT_STARTS.is_match(answer) && lines().count() <= REFUSAL_LINES_MAX)
        {
            return Some(CallFailure::from_line(first_line(answer)));
        }
        if let Some(line) = log_ending::find_final_error(tool, arguments, full_answer) {
            return Some(CallFailure::from_line(line));
        }
        if let Some(found) = EXITED.find(answer).filter(|_| !log_ending::prints_foreign_text(tool, arguments))
        {
            let document = document::find_embedded_failure(&answer[found.end()..]);
            let fallback = || {
                CallFailure::from_line(
                    find_failing_line(full_answer).unwrap_or_else(|| found.as_str().trim()),
                )
            };
            return Some(document.unwrap_or_else(fallback));
        }
    }
    command
        .filter(|command| !command.program)
        .and_then(|command| find_shell_complaint(command, answer))
        .map(CallFailure::from_line)
}

/// Returns `true` if a line of the harness says that the command failed, `false` if it says that it did not, and
/// `None` if there is no such line. It is the first or the last line, in whatever form the harness prints it.
fn find_exit_status(answer: &str) -> Option<bool> {
    let not_zero = |found: regex::Captures<'_>| {
        found.iter().skip(1).flatten().any(|code| !code.as_str().trim_start_matches('0').is_empty())
    };
    if let Some(found) = EXIT.captures(answer) {
        return Some(not_zero(found));
    }
    let mut lines = answer.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next()?;
    let last = lines.next_back().unwrap_or(first);
    [last, first].into_iter().find_map(|line| EXIT_LINE.captures(line)).map(not_zero)
}

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($text).expect("constant patterns compile"));
    };
}

// Exit status as harnesses print it, at the start of the answer or on its own line.
pattern!(
    EXIT,
    concat!(
        r"(?im)\A(?:exit code:? ?(\d+)|<returncode>(\d+)</returncode>|exit status:? ?(\d+))|",
        r"^(?:process exited with (?:code|status) (\d+)|\[exit (?:code|status):? (\d+)\])"
    )
);
// A line that holds nothing but an exit status.
pattern!(
    EXIT_LINE,
    concat!(
        r"(?i)\A\W{0,3}(?:(?:the )?(?:process|command|script) )?(?:exit(?:ed|s)?(?: with)?[ _-]?(?:code|status|value)?|",
        r"return[ _-]?code|rc)\W{0,3}(\d{1,3})\W{0,3}\z"
    )
);
// Phrases in which a runner reports that a command failed.
pattern!(
    EXITED,
    r"(?im)^.{1,80}\b(?:exited|failed|terminated|finished) with (?:a )?(?:non-?zero )?(?:exit |status )?(?:code|status)[: ]+[1-9]\d{0,2}\b.*$"
);
// Phrases with which only an error begins.
pattern!(
    STARTS,
    concat!(
        r"\A(?:\[?(?i:error|fatal error|fatal|exception|failure)\]?\s*:|(?i:error) [a-z]+ing [a-z ]{1,40}:|",
        r"error\[E\d+\]|npm (?:ERR!|error )|E: [A-Z]|Error from server(?: \([A-Za-z]+\))?: |Parse error(?: near line \d+)?: |",
        r"An error occurred \([A-Za-z]+\) when calling |(?i:http(?:/[\d.]+)?(?: status)?:? ?[45]\d\d\b)|",
        r"[45]\d\d (?:Bad Request|Unauthorized|Forbidden|Not Found|Method Not Allowed|Conflict|Unprocessable|",
        r"Too Many Requests|Internal Server Error|Bad Gateway|Service Unavailable|Gateway Time-?out)|",
        r"(?:[A-Za-z_]+\.)*[A-Z]\w*(?:Error|Exception)(?::|$| while )|(?:[a-z]\w*\.){0,6}(?:errors?|exceptions?)\.[A-Z]\w+: |(?:[\w.]+: )?net::ERR_[A-Z_]+|",
        r"[A-Z][a-z]+(?:[A-Z][a-z]+)*(?:Not|No|Invalid|Missing|Denied|Refused|Failed|Failure|Unknown|Expired|Exceeded|Conflict|Required|Mismatch|Violation|Fault|Timeout)(?:[A-Z][a-z]+)*: |",
        r"No [A-Za-z ]{1,30} (?:was|were) found in your|Format your [A-Za-z ]{1,30} as follows|Your last .{1,60} did not contain|",
        r"Your proposed edit has introduced new syntax error)"
    )
);
// Phrases with which errors begin, but also prose, so they count only in a short answer.
pattern!(
    SHORT_STARTS,
    concat!(
        r"(?i)\A(?:failed to |could not |cannot |can't |unable to |invalid |unknown |unrecognized |missing required |",
        r"permission denied|access denied|(?:command|request|operation|execution) timed out|timed out|time-?out\b|",
        r"malformed |command not found|no such |segmentation fault|killed$|unauthorized|forbidden|bad request|",
        r"internal server error|service unavailable|rate limit|too many requests|tool (?:call|execution) failed|[\w ]{1,40} failed: )"
    )
);
// Start of a Python syntax error.
pattern!(SYNTAX_PLACE, r#"\AFile "[^"]+", line \d+\s*\n"#);
pattern!(RAISED, r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning)\b");
pattern!(
    COMPLAINT,
    concat!(
        r"(?i)^[\w./+-]+(?: \(child\))?: .*(?:cannot|can't|could ?n.t|no such|not found|invalid|unrecognized|illegal|unknown|",
        r"missing|denied|requires|is a directory|not a directory|exists|syntax error|unexpected|too many|extra operand|",
        r"failed|error|must |may not|bad |unable|refused|paths must|not permitted|not recoverable|meaningless|ambiguous|",
        r"no input|unary|expected|not set|unterminated|possible unquoted|not known|loop detected|returned status|substitution|Exiting with)|",
        r": (?:-c: )?line \d+: "
    )
);
// Notices that programs print while they work.
pattern!(NOTICE, r"^tar: Removing leading ");
// Message of a shell that cannot parse its command.
pattern!(
    SHELL_SYNTAX,
    r"^(?:\S*/)?(?:ba|z|da|k)?sh: (?:-c: |eval: )?(?:line )?\d+: (?i:syntax error|unexpected EOF)"
);
// Message of a program that cannot work at all, unlike one that fails on a single file.
pattern!(CAN_NOTHING, r"(?i)^(?:invalid input|unable to (?:resolve|connect|parse|read)|cannot execute)");
// Last line of a program that was called with wrong arguments.
pattern!(HINT, r"^Try ['`‘]([\w./+-]+)(?: --help| -h)?['’]");
pattern!(CONTINUES, r"(?i)^(?:try '|try `|usage:|or:|see '|\s{2,})");

/// Returns the exception of a traceback that starts or ends the answer.
fn find_exception(answer: &str) -> Option<&str> {
    const HEADER: &str = "Traceback (most recent call last)";
    // A syntax error has no traceback, only the place in the file.
    let at = if answer.starts_with("File \"") { 0 } else { answer.find(HEADER)? };
    let last = answer[at..].lines().rev().map(str::trim).find(|line| RAISED.is_match(line));
    match last {
        Some(line) if at == 0 || answer.trim_end().ends_with(line) => Some(line),
        None if answer.starts_with(HEADER) => Some(HEADER),
        // The exception itself is cut off.
        None if at == 0 && SYNTAX_PLACE.is_match(answer) => Some(first_line(answer)),
        _ => None,
    }
}

/// Returns the first complaint of a shell answer that consists only of complaints. Any other output means
/// that the command worked, unless the program says at the end that it did not.
fn find_shell_complaint<'a>(command: &Command, answer: &'a str) -> Option<&'a str> {
    if let Some(line) = find_exit_complaint(command, answer).or_else(|| find_fatal_complaint(command, answer))
    {
        return Some(line);
    }
    let mut first = None;
    for line in answer.lines().take(LINES_MAX) {
        if line.trim().is_empty() || (first.is_some() && CONTINUES.is_match(line)) || NOTICE.is_match(line) {
            continue;
        }
        let shows_usage = first.is_none() && line.starts_with("Usage: ");
        if !shows_usage && !is_complaint(command, line.trim()) {
            return None;
        }
        first = first.or(Some(line.trim()));
    }
    first
}

/// Returns the complaint of a program whose last line refers to its help or reports a failing exit.
fn find_exit_complaint<'a>(command: &Command, answer: &'a str) -> Option<&'a str> {
    let lines: Vec<_> =
        answer.lines().map(str::trim).filter(|line| !line.is_empty()).take(LINES_MAX).collect();
    let (last, before) = lines.split_last()?;
    let complaint = before.last()?;
    let speaker = complaint.split_once(": ").map(|(front, _)| basename(front))?;
    let ends = HINT.captures(last).is_some_and(|found| basename(&found[1]) == speaker)
        || last.strip_prefix(speaker).is_some_and(|rest| rest.starts_with(": Exiting with failure status"));
    (ends && command.words.iter().any(|word| basename(word) == speaker)).then_some(*complaint)
}

/// Returns the line that says that the command achieved nothing, even if the answer contains other text: the
/// shell could not parse the command, or the last program could not use its input.
fn find_fatal_complaint<'a>(command: &Command, answer: &'a str) -> Option<&'a str> {
    let mut lines = answer.lines().map(str::trim).filter(|line| !line.is_empty()).take(LINES_MAX);
    let first = lines.clone().next()?;
    if SHELL_SYNTAX.is_match(first) {
        return Some(first);
    }
    let last = format!("{}: ", command.programs().last()?);
    lines.find_map(|line| {
        let words = &line[line.find(&last)?..];
        CAN_NOTHING.is_match(&words[last.len()..]).then_some(words)
    })
}

/// Returns `true` if a line is a complaint by the shell or by a program of the command.
fn is_complaint(command: &Command, line: &str) -> bool {
    if !COMPLAINT.is_match(line) {
        return false;
    }
    let speaker = line.split([':', ' ']).next().map(basename).unwrap_or("");
    matches!(speaker, "bash" | "sh" | "zsh" | "dash" | "ksh")
        || line.starts_with("/usr/bin/")
        || line.contains(": line ")
        || command.words.iter().any(|word| basename(word) == speaker)
        || command.programs().any(|program| program.starts_with(speaker) && !speaker.is_empty())
}

/// Returns the last line of an answer that is no exit status: whatever it says, in whatever language, it is what the
/// program said last. Empty if there is no such line.
fn find_last_line(answer: &str) -> &str {
    let mut lines = answer.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    lines.find(|line| !EXIT_LINE.is_match(line) && !EXIT.is_match(line)).unwrap_or("")
}

/// Returns the line of a log that says why the work failed. Call this only if the work is known to have
/// failed.
fn find_failing_line(answer: &str) -> Option<&str> {
    failing_lines(answer).first().map(|line| line.text)
}

/// Returns the first line of an answer that reads like an error.
fn find_error_line(answer: &str) -> Option<&str> {
    find_exception(answer).or_else(|| {
        answer.lines().take(LINES_MAX).map(str::trim).find(|line| {
            !EXIT.is_match(line)
                && !EXIT_LINE.is_match(line)
                && (STARTS.is_match(line) || SHORT_STARTS.is_match(line) || COMPLAINT.is_match(line))
        })
    })
}

/// Returns `true` if the command prints the contents of files, which may say anything.
fn prints_files(command: &Command) -> bool {
    const PRINTERS: &[&str] = &[
        "cat",
        "head",
        "tail",
        "less",
        "more",
        "grep",
        "rg",
        "sed",
        "awk",
        "strings",
        "find_file",
        "open",
        "view",
    ];
    command.programs().last().is_some_and(|program| PRINTERS.contains(&program))
}

fn first_line(text: &str) -> &str {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("")
}

#[cfg(test)]
mod tests;
