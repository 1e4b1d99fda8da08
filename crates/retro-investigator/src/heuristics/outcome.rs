//! Whether a call failed, and the line that says so.
//!
//! What the log itself says counts first. Else the answer decides, and only by signs at its start, in its error
//! fields or in its exit status: file contents and query results mention errors all day long. So a command that
//! prints files is believed to have failed only by its own complaints, a shell answer only when every line of it
//! is one, and an empty answer or an empty list is a success.

mod document;

use std::sync::LazyLock;

use regex::Regex;
use retro_core::trajectory::ToolCall;

use super::arguments::{Arguments, Command, basename};
use super::failing_line::failing_lines;
use super::quote::head;
use super::signature;
use super::{edit, ending};

/// How much of an answer is looked at, in characters, from its start: errors announce themselves.
const ANSWER_CHARS_MAX: usize = 6_000;
/// The most lines of an answer that are looked at.
const LINES_MAX: usize = 60;
/// An answer of more lines than this is the content of something, not the refusal to give it.
const REFUSAL_LINES_MAX: usize = 4;

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// It answered, and nothing says that it failed.
    Succeeded,
    /// It failed.
    Failed(Failure<'a>),
    /// The log holds no answer.
    Unanswered,
}

/// How a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure<'a> {
    /// The words of the answer that say so, verbatim; empty when there are none.
    pub line: &'a str,
    /// The signature of the error; empty when the failure has no words of its own.
    pub error: String,
}

impl<'a> Failure<'a> {
    /// The failure that says this.
    pub(super) fn said(line: &'a str) -> Self {
        Self { line, error: signature::of(line) }
    }
}

/// Judges a call by what the log says, else by its answer.
pub(super) fn judge<'a>(call: &'a ToolCall, arguments: &Arguments) -> Outcome<'a> {
    let answer = call.answer.as_deref().map(str::trim);
    match (call.failed, answer) {
        (Some(false), _) => Outcome::Succeeded,
        (Some(true), answer) => {
            let answer = answer.unwrap_or("");
            Outcome::Failed(
                failure_in(&call.tool, arguments, answer)
                    .unwrap_or_else(|| Failure::said(cause(answer).unwrap_or_else(|| first_line(answer)))),
            )
        }
        (None, None) => Outcome::Unanswered,
        (None, Some(answer)) => {
            failure_in(&call.tool, arguments, answer).map_or(Outcome::Succeeded, Outcome::Failed)
        }
    }
}

/// Judges code that a terminal ran, which says itself whether it failed. What it printed may be anything, so that it has
/// words only where they are an error's own.
pub(super) fn of_terminal<'a>(
    failed: bool,
    tool: &str,
    arguments: &Arguments,
    answer: &'a str,
) -> Outcome<'a> {
    let words = || failure_in(tool, arguments, answer).unwrap_or_else(|| Failure::said(""));
    if failed { Outcome::Failed(words()) } else { Outcome::Succeeded }
}

fn failure_in<'a>(tool: &str, arguments: &Arguments, whole: &'a str) -> Option<Failure<'a>> {
    let answer = head(whole, ANSWER_CHARS_MAX);
    if answer.is_empty() || answer.starts_with("[(") || answer.starts_with("[{") || answer.starts_with("[]") {
        return None;
    }
    if answer.starts_with('{') {
        return document::structured(answer);
    }
    if let Some(failure) = document::refused_with(answer).or_else(|| document::in_xml(answer)) {
        return Some(failure);
    }
    if let Some(status) = EXIT.captures(answer) {
        let failed = status.iter().skip(1).flatten().any(|code| code.as_str() != "0");
        return failed.then(|| Failure::said(complaint(answer).or_else(|| cause(whole)).unwrap_or("")));
    }
    let command = arguments.command();
    let lines = || answer.lines().map(str::trim).filter(|line| !line.is_empty()).take(LINES_MAX);
    let content = command.is_some_and(prints_files) && lines().count() > REFUSAL_LINES_MAX;
    if !content {
        if let Some(line) = raised(answer).or_else(|| edit::refusal(answer)) {
            return Some(Failure::said(line));
        }
        if STARTS.is_match(answer) || (SHORT_STARTS.is_match(answer) && lines().count() <= REFUSAL_LINES_MAX)
        {
            return Some(Failure::said(first_line(answer)));
        }
        if let Some(line) = ending::error(tool, arguments, whole) {
            return Some(Failure::said(line));
        }
        if let Some(found) = EXITED.find(answer).filter(|_| !ending::shows(tool, arguments)) {
            let document = document::behind(&answer[found.end()..]);
            let said = || Failure::said(cause(whole).unwrap_or_else(|| found.as_str().trim()));
            return Some(document.unwrap_or_else(said));
        }
    }
    command
        .filter(|command| !command.program)
        .and_then(|command| complaints(command, answer))
        .map(Failure::said)
}

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new($text).expect("a constant pattern"));
    };
}

// Exit status as harnesses write it, in front or on a line of its own.
pattern!(
    EXIT,
    concat!(
        r"(?im)\A(?:exit code:? ?(\d+)|<returncode>(\d+)</returncode>|exit status:? ?(\d+))|",
        r"^(?:process exited with (?:code|status) (\d+)|\[exit (?:code|status):? (\d+)\])"
    )
);
// What a runner says of something that it ran and that failed.
pattern!(
    EXITED,
    r"(?im)^.{1,80}\b(?:exited|failed|terminated|finished) with (?:a )?(?:non-?zero )?(?:exit |status )?(?:code|status)[: ]+[1-9]\d{0,2}\b.*$"
);
// Words that only an error starts with.
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
// Words that an error starts with, and prose too: believed in a short answer.
pattern!(
    SHORT_STARTS,
    concat!(
        r"(?i)\A(?:failed to |could not |cannot |can't |unable to |invalid |unknown |unrecognized |missing required |",
        r"permission denied|access denied|(?:command|request|operation|execution) timed out|timed out|time-?out\b|",
        r"malformed |command not found|no such |segmentation fault|killed$|unauthorized|forbidden|bad request|",
        r"internal server error|service unavailable|rate limit|too many requests|tool (?:call|execution) failed|[\w ]{1,40} failed: )"
    )
);
// How a syntax error begins in Python.
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
// What programs say beside their work.
pattern!(NOTICE, r"^tar: Removing leading ");
// A shell that cannot read what it is to run.
pattern!(
    SHELL_SYNTAX,
    r"^(?:\S*/)?(?:ba|z|da|k)?sh: (?:-c: |eval: )?(?:line )?\d+: (?i:syntax error|unexpected EOF)"
);
// A program that can do nothing at all, and not only nothing with one of its files.
pattern!(CAN_NOTHING, r"(?i)^(?:invalid input|unable to (?:resolve|connect|parse|read)|cannot execute)");
// The last line of a program that was called wrongly.
pattern!(HINT, r"^Try ['`‘]([\w./+-]+)(?: --help| -h)?['’]");
pattern!(CONTINUES, r"(?i)^(?:try '|try `|usage:|or:|see '|\s{2,})");

/// The exception at the end of a traceback that starts the answer or ends it.
fn raised(answer: &str) -> Option<&str> {
    const HEADER: &str = "Traceback (most recent call last)";
    // A syntax error comes with the place alone.
    let at = if answer.starts_with("File \"") { 0 } else { answer.find(HEADER)? };
    let last = answer[at..].lines().rev().map(str::trim).find(|line| RAISED.is_match(line));
    match last {
        Some(line) if at == 0 || answer.trim_end().ends_with(line) => Some(line),
        None if answer.starts_with(HEADER) => Some(HEADER),
        // What was raised is cut off.
        None if at == 0 && SYNTAX_PLACE.is_match(answer) => Some(first_line(answer)),
        _ => None,
    }
}

/// The first complaint of a shell answer that consists of complaints; output beside it means that it worked, unless the
/// program itself says at the end that it did not.
fn complaints<'a>(command: &Command, answer: &'a str) -> Option<&'a str> {
    if let Some(line) = given_up(command, answer).or_else(|| stopped(command, answer)) {
        return Some(line);
    }
    let mut first = None;
    for line in answer.lines().take(LINES_MAX) {
        if line.trim().is_empty() || (first.is_some() && CONTINUES.is_match(line)) || NOTICE.is_match(line) {
            continue;
        }
        let shows_usage = first.is_none() && line.starts_with("Usage: ");
        if !shows_usage && !complains(command, line.trim()) {
            return None;
        }
        first = first.or(Some(line.trim()));
    }
    first
}

/// The complaint of a program that ends by pointing to its own manual, or by saying that it leaves with a failure.
fn given_up<'a>(command: &Command, answer: &'a str) -> Option<&'a str> {
    let lines: Vec<_> =
        answer.lines().map(str::trim).filter(|line| !line.is_empty()).take(LINES_MAX).collect();
    let (last, before) = lines.split_last()?;
    let complaint = before.last()?;
    let speaker = complaint.split_once(": ").map(|(front, _)| basename(front))?;
    let ends = HINT.captures(last).is_some_and(|found| basename(&found[1]) == speaker)
        || last.strip_prefix(speaker).is_some_and(|rest| rest.starts_with(": Exiting with failure status"));
    (ends && command.words.iter().any(|word| basename(word) == speaker)).then_some(*complaint)
}

/// What says that nothing came of the command although other text stands beside it: the shell could not read it, or its
/// last program could do nothing with what it got.
fn stopped<'a>(command: &Command, answer: &'a str) -> Option<&'a str> {
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

/// Whether a program of the command (or a shell) complains in this line.
fn complains(command: &Command, line: &str) -> bool {
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

/// The line of a log that says why the work failed, for an answer that is known to have failed.
fn cause(answer: &str) -> Option<&str> {
    failing_lines(answer).first().map(|line| line.text)
}

/// The first line of an answer that reads like an error.
fn complaint(answer: &str) -> Option<&str> {
    raised(answer).or_else(|| {
        answer.lines().take(LINES_MAX).map(str::trim).find(|line| {
            !EXIT.is_match(line)
                && (STARTS.is_match(line) || SHORT_STARTS.is_match(line) || COMPLAINT.is_match(line))
        })
    })
}

/// Commands whose answer is the content of files, which may say anything.
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
