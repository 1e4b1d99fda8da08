//! Turns an error into one imperative sentence that says what the error demands.
//!
//! Error classes with a publicly known meaning (those of a database or a shell) are tried first, then the
//! grammar of the error itself ("non-pending order cannot be modified" demands that the order is pending). If
//! neither applies, there is no sentence, because a title never claims more than the error says.

use std::sync::LazyLock;

use regex::Regex;
use retro_core::finding::TITLE_CHARS_MAX;

use super::call::Call;
use super::quote::shorten_text;
use super::signature::{self, MASK};

/// Advice for a path that does not exist.
const USE_A_PATH: &str = "list the parent directory and use a path that it shows";
/// Minimum number of characters of an error that a title quotes. A shorter quote would not distinguish the
/// error from others.
const ERROR_CHARS_MIN: usize = 40;
/// Maximum length of a condition derived from an error, in characters. Longer text does not read as a
/// condition.
const CONDITION_CHARS_MAX: usize = 110;

/// Returns the title of a lesson about a failed call. Returns `None` if there is nothing to add to the error
/// itself, or if the known advice does not fit this call.
pub(super) fn title_for_call(call: &Call<'_>) -> Option<String> {
    let error = call.error();
    if find_known_advice(error) == Some(USE_A_PATH)
        && call.failure().is_some_and(|failure| is_not_a_path(call, failure.line))
    {
        return None;
    }
    title_for_error(call.tool, error)
}

/// Returns `true` if the file that the error reports as missing is not a path in the call. Its name may be
/// part of an option (awk's `-f,` for `-F,`), punctuation or a piece of a program, or a compiler may have
/// found it in a source file. Advice to look for existing paths would not help in these cases.
fn is_not_a_path(call: &Call<'_>, line: &str) -> bool {
    if signature::has_place(line) {
        return true;
    }
    let Some(name) = MISSING_FILE.captures(line).and_then(|found| found.get(1).or(found.get(2))) else {
        return false;
    };
    let name = name.as_str().trim_matches(['\'', '"', '‘', '’', '`']);
    let glued = |word: &String| {
        let rest = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        rest.and_then(|rest| rest.get(1..)).is_some_and(|rest| rest.trim_matches(['\'', '"']) == name)
    };
    let mark = !name.chars().any(char::is_alphanumeric) && !name.contains(['/', '.', '~', '*']);
    mark || name.contains(['{', '}', '$', ';', '|', '(', ')', '<', '>'])
        || call.arguments.as_command().is_some_and(|command| command.words.iter().any(glued))
}

/// Matches the name of the file in an error about a file that could not be opened.
static MISSING_FILE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?:(?:cannot|can't|can’t|could not) (?:open|access|stat|read)|can't open file|cannot remove)(?: file)? ",
        r"(.+?)(?: \(|: No such file| for reading|$)|^[\w./+-]+: (.+?): No such file"
    ))
    .expect("constant patterns compile")
});

/// Returns the title of a lesson about a tool's error, or `None` if there is nothing to add to the error
/// itself.
fn title_for_error(tool: &str, error: &str) -> Option<String> {
    if let Some(advice) = find_known_advice(error) {
        return Some(format_when_title(tool, error, advice));
    }
    derive_condition(error).map(|condition| format_before_title(tool, error, &condition))
}

/// Formats "When `tool` answers “error”, advice."
pub(super) fn format_when_title(tool: &str, error: &str, advice: &str) -> String {
    let frame = format!("When `{tool}` answers “”, {advice}.").chars().count();
    format!("When `{tool}` answers “{}”, {advice}.", shorten_error(error, frame))
}

/// Formats "Before calling `tool`, check that condition; otherwise it answers “error”."
fn format_before_title(tool: &str, error: &str, condition: &str) -> String {
    let frame =
        format!("Before calling `{tool}`, check that {condition}; otherwise it answers “”.").chars().count();
    format!(
        "Before calling `{tool}`, check that {condition}; otherwise it answers “{}”.",
        shorten_error(error, frame)
    )
}

/// Shortens an error to fit into a title that has `frame` other characters.
fn shorten_error(error: &str, frame: usize) -> String {
    let room = TITLE_CHARS_MAX.saturating_sub(frame).clamp(ERROR_CHARS_MIN, 110);
    shorten_text(error, room)
}

/// Returns the advice for a known error class, whichever tool reported the error.
pub(super) fn find_known_advice(error: &str) -> Option<&'static str> {
    KNOWN_ADVICE.iter().find(|(pattern, _)| pattern.is_match(error)).map(|(_, advice)| *advice)
}

/// Known error classes with their advice. The first matching pattern wins, so specific patterns precede
/// general ones.
static KNOWN_ADVICE: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (
            r"(?i)^table … doesn't exist|no such table|relation … does not exist",
            "look up which tables exist before querying one",
        ),
        (
            r"(?i)^unknown column|no such column|column … does not exist",
            "look up the table's columns before using one",
        ),
        (r"(?i)^unknown database", "leave the database's name out, or look up which databases exist"),
        (r"(?i)column .*ambiguous", "qualify the column with its table or alias"),
        (
            r"(?i)not in group by clause",
            "name every column of the SELECT list that is not aggregated in GROUP BY",
        ),
        (
            r"(?i)in aggregated query without group by",
            "add a GROUP BY, or aggregate every column of the SELECT list",
        ),
        (
            r"(?i)invalid use of group function",
            "put a condition on an aggregate into HAVING or a subquery, not into WHERE",
        ),
        (r"(?i)derived table must have its own alias", "give every subquery in FROM an alias"),
        (
            r"(?i)LIMIT & IN/ALL/ANY/SOME",
            "do not put LIMIT into an IN, ALL, ANY or SOME subquery; join with a derived table",
        ),
        (r"(?i)not unique table/alias", "give every occurrence of a table an alias of its own"),
        (
            r"(?i)operand should contain … column",
            "let the subquery return as many columns as it is compared with",
        ),
        (r"(?i)different number of columns", "select the same number of columns in every part of the UNION"),
        (r"(?i)subquery returns more than … row", "compare with IN, or limit the subquery to one row"),
        (
            r"(?i)you have an error in your sql syntax|near …: syntax error",
            "send one plain statement with nothing around it, and quote names that are reserved words",
        ),
        (
            r"(?i)^no sql code was found|did not contain sql|^format your sql",
            "send one SQL statement in the form that the answer shows",
        ),
        (r"(?i)did not contain bash|^malformed command", "send one plain command and no prose around it"),
        (
            r"(?i)failed to exactly match lines|string to replace not found|no replacement was performed|old_str. not found|failed to find expected lines",
            "read the file again and copy the lines to be replaced exactly, with their indentation",
        ),
        (
            r"(?i)did not conform to the edit format",
            "send each edit as one block in the form that is asked for, with the file's path in front of it",
        ),
        (r"(?i)patch does not apply|patch failed|hunk .*failed", "make the patch from the file as it is now"),
        (r"(?i)^F(?:821|822|823) |undefined name", "define or import every name that the edit uses"),
        (
            r"(?i)^E9\d\d |IndentationError|^SyntaxError: (?:invalid syntax|unexpected indent|unindent)",
            "check the indentation and that every bracket and quote is closed before sending the code",
        ),
        (
            r"(?i)\bsimilar: (?:\[…|…)|did you mean|(?:valid|available|allowed|possible) (?:\w+ )?(?:are|values|options|choices)\b|choose from|expected one of",
            "use one of those that the answer offers, written as it writes them",
        ),
        (
            r"^NameError: name … is not defined",
            "define or import every name in the code itself before using it",
        ),
        (r"(?i)command not found", "check with `command -v` that the program is there before calling it"),
        (r"(?i)no module named", "check that the module is installed before importing it"),
        (
            r"(?i)unexpected EOF|unexpected end of file|unterminated",
            "close every quote, bracket and block, and send no code-block marks",
        ),
        (r"(?i)near unexpected token", "quote special characters and send the command alone"),
        (
            r"^xargs: …: No such file",
            "name an existing program after `xargs`, with `-I {}` where the command has `{}`",
        ),
        (
            r"(?i)no such file\b|cannot stat|can't open file",
            USE_A_PATH,
        ),
        (r"(?i)is a directory$", "name files, or use the option that goes through directories"),
        (r"(?i)option requires an argument|missing argument to", "give the option its argument, quoted"),
        (
            r"(?i)invalid option|unrecognized (?:command-line )?option|unknown (?:option|predicate)",
            "look the option up in the program's `--help` before using it",
        ),
        (
            r"(?i)\binvalid (?:-\S+ )?(?:type|argument|value|mode|format|predicate)\b",
            "look up in the program's manual what it takes there before giving it",
        ),
        (r"(?i)syntax error at or near", "put right what stands at the place that it names before sending it again"),
        (r"(?i)paths must precede expression", "quote the pattern, and put paths before expressions"),
        (r"(?i)file exists$", "check whether the target exists before creating it"),
        (r"(?i)^command timed out", "send only commands that end by themselves and ask for no input"),
        (
            r"(?i)^your proposed edit has introduced",
            "check the indentation and the line range of the edit before sending it",
        ),
        (r"(?i)permission denied", "check the rights on the target before touching it"),
        (
            r"(?i)bad substitution",
            "check that the shell knows this expansion, or list with `compgen` or `env` instead",
        ),
        (
            r"(?i)^awk: line …: syntax error",
            "put the awk program into single quotes, so that the shell leaves it alone",
        ),
    ]
    .into_iter()
    .map(|(pattern, advice)| (Regex::new(pattern).expect("constant patterns compile"), advice))
    .collect()
});

/// Derives the condition that an error in plain words demands, such as "the order is pending".
fn derive_condition(error: &str) -> Option<String> {
    let (pattern, build) = GRAMMAR.iter().find(|(pattern, _)| pattern.is_match(error))?;
    let found = pattern.captures(error)?;
    let part = |index: usize| found.get(index).map_or("", |part| part.as_str());
    let text = build
        .replace("{1}", &clean_noun_phrase(part(1)))
        .replace("{2}", &unmask_phrase(part(2)))
        .replace("{3}", &unmask_phrase(part(3)));
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!clean_noun_phrase(part(1)).is_empty()
        && !text.contains(MASK)
        && text.chars().count() <= CONDITION_CHARS_MAX)
        .then_some(text)
}

/// Patterns of error signatures, each with the condition that it demands. `{1}` to `{3}` stand for the
/// captured phrases; `{1}` is a noun phrase.
static GRAMMAR: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (r"(?i)^non-([\w-]+) (\w[\w ]*?) cannot be \w+$", "the {2} is {1}"),
        (r"(?i)^([\w ]+?) (?:does|do)(?: not|n't) add up\b", "the {1} adds up"),
        (r"(?i)^(?:not enough|insufficient) ([\w …]+)$", "there is enough of it ({1})"),
        (r"(?i)^([\w …]+?) cannot be used (to|for|with|in) ([\w …]+)$", "no {1} is used {2} {3}"),
        (r"(?i)^([\w …]+?) cannot be (\w+)$", "the {1} can be {2}"),
        (r"(?i)^([\w …]+?) (?:was |is )?not found or available$", "the {1} exists and is available"),
        (
            r"(?i)^([\w …]+?) (?:was |is )?not available(?: (on|at|for|in) ([\w …]+))?$",
            "the {1} is available {2} {3}",
        ),
        (r"(?i)^([\w …]+?) (?:(?:was |is )?not found|does(?: not|n't) exist)$", "the {1} exists"),
        (r"(?i)^(?:no such|unknown) ([\w …]+)$", "the {1} exists"),
        (r"(?i)^([\w …]+?) (?:should|must) not be ([\w …]+)$", "the {1} is not {2}"),
        (r"(?i)^([\w …]+?) (?:should|must) be ([\w …]+)$", "the {1} is {2}"),
        (r"(?i)^([\w …]+?) (?:should|must) match$", "the {1} matches"),
        (r"(?i)^([\w …]+?) (?:is|are) not ([\w …]+)$", "the {1} is {2}"),
        (
            r"(?i)^missing (?:required )?(?:parameter|argument|field|property|value)s?:? ([\w …]+)$",
            "it gets `{1}`",
        ),
        (r"(?i)^([\w …]+?) (?:is|are) (?:required|missing)$", "it gets the {1}"),
        (r"(?i)^invalid ([\w …]+)$", "the {1} is valid"),
        (r"(?i)^([\w …]+?) (?:is|are) invalid$", "the {1} is valid"),
        (r"(?i)^([\w …]+?) already exists$", "the {1} does not exist yet"),
        (r"(?i)^([\w …]+?) (?:is |was |has )?(?:been )?already ([\w …]+)$", "the {1} is not {2} already"),
    ]
    .into_iter()
    .map(|(pattern, build)| (Regex::new(pattern).expect("constant patterns compile"), build))
    .collect()
});

/// Returns a noun phrase without masks and without its article.
fn clean_noun_phrase(text: &str) -> String {
    let words = text.split_whitespace().filter(|word| *word != MASK);
    let words: Vec<_> = words.collect();
    let article = words
        .first()
        .is_some_and(|word| ["the", "a", "an", "this", "your"].contains(&word.to_lowercase().as_str()));
    words[usize::from(article)..].join(" ")
}

/// Replaces each masked noun ("date …" becomes "that date") and removes all other masks.
fn unmask_phrase(text: &str) -> String {
    static NAMED: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"([A-Za-z]+) …").expect("constant patterns compile"));
    NAMED.replace_all(text, "that $1").replace(MASK, "")
}

#[cfg(test)]
mod tests {
    use super::super::outcome::{CallFailure, CallOutcome};
    use super::*;

    #[test]
    fn the_title_states_what_the_error_demands() {
        for (error, expected) in [
            (
                "non-pending order cannot be modified",
                "Before calling `t`, check that the order is pending; otherwise it answers “non-pending order cannot be modified”.",
            ),
            (
                "new item … not found or available",
                "Before calling `t`, check that the new item exists and is available; otherwise it answers “new item … not found or available”.",
            ),
            (
                "flight … not available on date …",
                "Before calling `t`, check that the flight is available on that date; otherwise it answers “flight … not available on date …”.",
            ),
            (
                "gift card balance is not enough",
                "Before calling `t`, check that the gift card balance is enough; otherwise it answers “gift card balance is not enough”.",
            ),
            (
                "certificate cannot be used to update reservation",
                "Before calling `t`, check that no certificate is used to update reservation; otherwise it answers “certificate cannot be used to update reservation”.",
            ),
            (
                "payment amount does not add up, total price is …, but paid …",
                "Before calling `t`, check that the payment amount adds up; otherwise it answers “payment amount does not add up, total price is …, but paid …”.",
            ),
            (
                "the number of items to be exchanged should match",
                "Before calling `t`, check that the number of items to be exchanged matches; otherwise it answers “the number of items to be exchanged should match”.",
            ),
            (
                "Column … in … is ambiguous",
                "When `t` answers “Column … in … is ambiguous”, qualify the column with its table or alias.",
            ),
        ] {
            assert_eq!(title_for_error("t", error).as_deref(), Some(expected));
        }
        for error in ["something odd happened", "…: 3", "", "… not found"] {
            assert_eq!(title_for_error("t", error), None, "{error}");
        }
    }

    #[test]
    fn a_name_that_is_no_path_gets_no_path_advice() {
        let is_advice = |raw: &str, line: &str| {
            let outcome = CallOutcome::Failed(CallFailure::from_line(line));
            let call = Call { outcome, ..Call::with_answer("bash", raw, line) };
            title_for_call(&call).is_some_and(|title| title.contains(USE_A_PATH))
        };
        for (raw, line) in [
            ("awk -f, '{print $1}' /a/b.csv", "awk: cannot open , (No such file or directory)"),
            ("awk -fx '{print $1}' /a/b.csv", "awk: cannot open x (No such file or directory)"),
            ("make", "src/a.c:3:10: fatal error: b.h: No such file or directory"),
            ("cat ';' a", "cat: ';': No such file or directory"),
            ("awk -f '{print $1}' a", "awk: cannot open {print $1} (No such file or directory)"),
            ("ls \"${directory}\"", "ls: cannot access '${directory}': No such file or directory"),
        ] {
            assert!(!is_advice(raw, line), "{line}");
        }
        for (raw, line) in [
            ("awk -f a.awk /a/b.csv", "awk: cannot open a.awk (No such file or directory)"),
            ("ls -l /a/b", "ls: cannot access '/a/b': No such file or directory"),
            ("cat notes", "cat: notes: No such file or directory"),
            ("rm /a/*.o", "rm: cannot remove '/a/*.o': No such file or directory"),
            ("python x.py", "python: can't open file 'x.py': [Errno 2] No such file or directory"),
        ] {
            assert!(is_advice(raw, line), "{line}");
        }
    }

    #[test]
    fn a_title_stays_within_its_bound() {
        let error = "order is not ".to_owned() + &"very long words ".repeat(30);
        for title in
            [title_for_error("t", &error), Some(format_when_title(&"tool".repeat(10), &error, "stop"))]
                .into_iter()
                .flatten()
        {
            assert!(title.chars().count() <= TITLE_CHARS_MAX, "{title}");
        }
    }
}
