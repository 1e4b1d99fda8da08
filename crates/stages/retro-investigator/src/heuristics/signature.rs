//! Computes error signatures: the text of an error with everything specific to one run masked.
//!
//! Numbers, dates, paths, identifiers, addresses and quoted names become `…`; the other words are kept.
//! Errors of one class get the same signature whatever names they contain, and errors of different classes
//! get different ones. Some parts look like names but define the class, so they are kept: the program in
//! front (`tar:`), options (`-exec`), single quoted punctuation (`)`), status codes, exception classes, a
//! missing program, module or parameter, and the key of a value.
//!
//! Templates are deliberately not learned from the data. The miners that were tried (the crates `logdrain`,
//! `drain3`, `drainrs` and `drain-rs`, all based on Drain) learn from earlier lines which parts vary, so the
//! same line gets another template in another run, in another order or on another worker. A signature is
//! compared with those stored by earlier retrospectives, so it must never change. It is also part of a
//! lesson, so the words that it keeps must be readable.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::arguments::{Arguments, basename};
use super::quote::{first_chars, shorten_text};

/// Mask for everything that is specific to one run.
pub(super) const MASK: &str = "…";
/// Maximum length of a signature, in characters. Longer error lines contain data.
const SIGNATURE_CHARS_MAX: usize = 160;
/// Maximum number of characters of an error line that are read.
const LINE_CHARS_MAX: usize = 1_000;
/// Maximum length of a quoted name, in characters. A quotation mark without a closing mark within this length
/// is an apostrophe.
const QUOTED_CHARS_MAX: usize = 200;

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($text).expect("constant patterns compile"));
    };
}

pattern!(ANSI, r"\x1b\[[0-9;]*[A-Za-z]");
// Number of a redacted secret within its run.
pattern!(SECRET_NUMBER, r"(\[redacted:[a-z0-9_-]+)#\d+\]");
pattern!(SHELL_LINE, r"^.*?: (?:-c: )?line \d+: ");
// Location in a source file before a compiler's message, which differs in every run.
pattern!(PLACE, r"^(?:\S*/)?[\w+.-]*\.[A-Za-z+]{1,5}:\d+:\d+: ");
pattern!(
    GENERIC_PREFIX,
    concat!(
        r"(?i)^(?:\[?(?:fatal error|error|fatal|exception|failure)\]?\s*:\s*|",
        r"error (?:executing|running|calling|processing|invoking|while) [a-z ]{1,30}:\s*|",
        r"tool (?:call|execution) (?:failed|error):\s*)"
    )
);
pattern!(NEAR, r#"\bnear ['"`](?:.*['"`](?: at line \d+)?$|.*['"`](: .*)$|.*$)"#);
pattern!(UNEXPECTED, r#"\b(unexpected token) ['"`]\S+['"]?"#);
// Lists, and the names of things that were searched for. A class in brackets is a single word or has its own
// number, so it does not match.
pattern!(
    LISTED,
    concat!(
        r#"\[(?:["'][^\]]*|[^\[\]]*,[^\[\]]*|[^\[\]]* [^\[\]]*)(?:\]|$)|"#,
        r"(?:\b(?:find|found|for|named|called) )\[[^\[\]]*(?:\]|$)"
    )
);
pattern!(CANNOT_OPEN, r"\bcannot open .+ \(");
pattern!(
    UNIX,
    concat!(
        r"^([\w./+-]+): (.+): (No such file or directory|Permission denied|Is a directory|Not a directory|",
        r"File exists|Operation not permitted|Name or service not known|Directory not empty|Connection refused)\.?$"
    )
);
pattern!(
    PATH_ALONE,
    r"^[^\s:]+: (No such file or directory|Permission denied|Is a directory|Not a directory)$"
);
pattern!(NOT_FOUND, r"^(.*): (?:command )?not found$");
pattern!(PROGRAM_NAME, r"^[a-z][a-z0-9_+.-]{0,24}$");
pattern!(OPTION, r"^--?[A-Za-z][\w-]{0,30}$");
pattern!(PARAMETER_NAME, r"^[A-Za-z][A-Za-z_]{0,30}$");
pattern!(OF_PARAMETER, r"(?i)(?:argument|parameter|field|property|option|keyword)s?:? $");
pattern!(IS_WANTED, r"(?i)^ (?:is|are|was) (?:a )?(?:required|missing|mandatory)");
pattern!(KEY_NAME, r"^[A-Za-z_][\w.-]{0,60}$");
pattern!(OF_KEY, r#"^\s*:\s*["'\[{\d]"#);
pattern!(AGO, r"\b(?:\d+|an?) (?:second|minute|hour|day|week|month|year)s? ago\b");
pattern!(CALLED, r"^([A-Za-z_]{3,})\((.*)$");
pattern!(REPEATED, r"…(?:[\s,;]*(?:and |or |& )?…)+");

/// Returns the signature of an error line: equal for all errors of one class in every run, and empty if the
/// line contains no words. Stored lessons contain signatures, so the result for a line must never change.
pub fn error_signature(line: &str) -> String {
    let line = ANSI.replace_all(first_chars(line.trim(), LINE_CHARS_MAX), "");
    // The number depends on the other secrets of the run.
    let line = SECRET_NUMBER.replace_all(&line, "$1]");
    let line = strip_prefixes(&line);
    let masked = match mask_known_form(line) {
        Some(done) => done,
        None => {
            let line = NEAR.replace(line, "near …$1");
            let line = UNEXPECTED.replace(&line, "$1 …");
            let line = LISTED.replace_all(&line, mask_list);
            let line = CANNOT_OPEN.replace(&line, "cannot open … (");
            mask_words(&mask_quoted(&AGO.replace_all(&line, "… ago")))
        }
    };
    let masked = REPEATED.replace_all(&masked, MASK);
    let masked = masked.split_whitespace().collect::<Vec<_>>().join(" ");
    let masked = masked.trim_end_matches(['.', ' ', ':']);
    // A single letter is a name, as in "a" and "b", not the text of an error.
    let letters = masked.chars().filter(|c| c.is_alphabetic()).count();
    if letters > 1 || (letters == 1 && masked.contains([' ', ':'])) {
        shorten_text(masked, SIGNATURE_CHARS_MAX)
    } else {
        String::new()
    }
}

/// Minimum length of an argument that is masked in an error, in characters.
const ARGUMENT_CHARS_MIN: usize = 4;

/// Masks what a call was given where its error repeats it. Plain words stay: they may as well be words of the error. Of the
/// words of a command, only names with a digit are masked, such as a file of this run.
pub(super) fn mask_arguments(error: String, arguments: &Arguments) -> String {
    let is_long = |text: &str| text.chars().count() >= ARGUMENT_CHARS_MIN;
    let is_plain = |text: &str| text.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c == '-');
    let is_numbered = |text: &str| text.contains(|c: char| c.is_ascii_digit());
    let values = arguments.as_object().into_iter().flat_map(|map| map.values());
    let texts = values.filter_map(serde_json::Value::as_str).filter(|text| !is_plain(text));
    let words = command_words(arguments);
    let names = words.iter().flat_map(|word| [*word, basename(word)]).filter(|word| is_numbered(word));
    let mut masked = error;
    for text in texts.chain(names).filter(|text| is_long(text)) {
        if masked.contains(text) {
            masked = REPEATED.replace_all(&masked.replace(text, MASK), MASK).into_owned();
        }
    }
    masked
}

/// Returns the words of a command after its program, without the options; empty if the arguments are no command.
fn command_words(arguments: &Arguments) -> Vec<&str> {
    let words: Vec<&str> = match arguments {
        Arguments::Command(command) if !command.sql && !command.program => {
            command.words.iter().map(String::as_str).collect()
        }
        Arguments::Object(map) => {
            let lists = map.values().filter_map(serde_json::Value::as_array).flatten();
            lists.filter_map(serde_json::Value::as_str).collect()
        }
        _ => Vec::new(),
    };
    words.into_iter().skip(1).filter(|word| !word.starts_with('-')).collect()
}

/// Replaces a list in brackets by `[…]` and keeps the word before it. An error number, such as `[Errno 2]`,
/// is kept.
fn mask_list(found: &Captures<'_>) -> String {
    let whole = &found[0];
    let numbered = whole.starts_with("[Errno ") || whole.starts_with("[WinError ");
    if numbered { whole.to_owned() } else { format!("{}[{MASK}]", &whole[..whole.find('[').unwrap_or(0)]) }
}

/// Returns `true` if a line begins with a location in a source file: a path, a line and a column.
pub(super) fn has_place(line: &str) -> bool {
    PLACE.is_match(line)
}

/// Returns the line without prefixes that only say "error" or name a location in a shell script or source
/// file.
fn strip_prefixes(line: &str) -> &str {
    let mut rest = line.trim();
    if let Some(found) = SHELL_LINE.find(rest) {
        rest = &rest[found.end()..];
    }
    if let Some(found) = PLACE.find(rest).filter(|found| found.end() < rest.len()) {
        rest = &rest[found.end()..];
    }
    // Wrappers nest ("Error: Error executing query: …"); at most four have been seen so far.
    for _ in 0..4 {
        let Some(found) = GENERIC_PREFIX.find(rest).filter(|found| found.end() < rest.len()) else { break };
        rest = &rest[found.end()..];
    }
    rest.trim()
}

/// Masks the name in an error of a known form. The form shows where the name is, even if the name is a plain
/// word. Some forms keep the name.
fn mask_known_form(line: &str) -> Option<String> {
    if let Some(found) = UNIX.captures(line) {
        // A missing path is one class for all programs, but `xargs` reports a missing program with the same
        // words.
        let program = basename(&found[1]);
        let nameless = &found[3] == "No such file or directory" && program != "xargs";
        return Some(if nameless {
            format!("{MASK}: {}", &found[3])
        } else {
            format!("{program}: {MASK}: {}", &found[3])
        });
    }
    if let Some(found) = PATH_ALONE.captures(line) {
        return Some(format!("{MASK}: {}", &found[1]));
    }
    if let Some(found) = NOT_FOUND.captures(line) {
        let name = found[1].rsplit(": ").next().unwrap_or(&found[1]);
        let name = if PROGRAM_NAME.is_match(name) { name } else { MASK };
        return line.contains("command not found").then(|| format!("{name}: command not found"));
    }
    None
}

/// Masks quoted text. An apostrophe within a word does not open a quotation.
fn mask_quoted(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let opens = "'\"`‘“".contains(c) && !out.ends_with(|before: char| before.is_alphanumeric());
        let width = c.len_utf8();
        match opens.then(|| split_at_closing_quote(c, &rest[width..])).flatten() {
            Some((inner, after)) => {
                out.push_str(if keeps_quoted_text(&out, inner, after) { inner } else { MASK });
                rest = after;
            }
            None => {
                out.push(c);
                rest = &rest[width..];
            }
        }
    }
    out
}

/// Splits the text at the closing quotation mark. Returns `None` if no mark closes the quotation.
fn split_at_closing_quote(open: char, text: &str) -> Option<(&str, &str)> {
    let closes = |c: char| match open {
        '`' => c == '`' || c == '\'',
        '‘' => c == '’',
        '“' => c == '”',
        same => c == same,
    };
    let mut chars = text.char_indices().take(QUOTED_CHARS_MAX).peekable();
    while let Some((at, c)) = chars.next() {
        let before_word = chars.peek().is_some_and(|(_, next)| next.is_alphanumeric());
        // The mark in "matching `''" is content and does not close the quotation.
        if closes(c) && !before_word && (at > 0 || open != '`') {
            return Some((&text[..at], &text[at + c.len_utf8()..]));
        }
    }
    None
}

/// Returns `true` if a quoted text is part of the error class.
fn keeps_quoted_text(before: &str, inner: &str, after: &str) -> bool {
    let mark = !inner.is_empty() && inner.len() <= 3 && inner.chars().all(|c| c.is_ascii_punctuation());
    let starts = before.trim_end().is_empty() || before.trim_end().ends_with(['{', ',']);
    let key = starts && KEY_NAME.is_match(inner) && OF_KEY.is_match(after);
    let parameter =
        PARAMETER_NAME.is_match(inner) && (OF_PARAMETER.is_match(before) || IS_WANTED.is_match(after));
    mark || key
        || parameter
        || OPTION.is_match(inner)
        || before.ends_with("support ")
        || before.ends_with("No module named ")
}

fn mask_words(line: &str) -> String {
    let mut before = "";
    let mut out: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        out.push(mask_word(before, word, out.is_empty()));
        before = word;
    }
    out.join(" ")
}

/// Masks a word that is specific to one run, and keeps the punctuation around it.
fn mask_word(before: &str, word: &str, first: bool) -> String {
    if is_short_address(word) {
        return MASK.to_owned();
    }
    let is_edge = |c: char| "()[]{}<>,;:.!?\"'".contains(c);
    let core = word.trim_matches(is_edge);
    let start = word.find(core).unwrap_or(0);
    let (lead, tail) = (&word[..start], &word[start + core.len()..]);
    if first && tail.starts_with(':') && !core.starts_with('#') {
        return format!("{}{tail}", exception_class(basename(core)));
    }
    let masked = if let Some((key, value)) = split_assignment(core) {
        if is_run_specific(value) { format!("{key}={MASK}") } else { core.to_owned() }
    } else if is_status_code(before, core) {
        core.to_owned()
    } else if let Some(called) = CALLED.captures(core) {
        format!("{}({}", &called[1], if is_run_specific(&called[2]) { MASK } else { &called[2] })
    } else if is_run_specific(core) {
        MASK.to_owned()
    } else {
        exception_class(core).to_owned()
    };
    format!("{lead}{masked}{tail}")
}

/// Returns `true` if a word is an abbreviated IPv6 address such as `::1`, whose colons are not punctuation.
fn is_short_address(word: &str) -> bool {
    word.contains("::")
        && word.contains(|c: char| c.is_ascii_digit())
        && word.chars().all(|c| c.is_ascii_hexdigit() || matches!(c, ':' | '.' | ','))
}

/// Splits an assignment `key=value` at its first `=`. A URL with a query is not an assignment.
fn split_assignment(word: &str) -> Option<(&str, &str)> {
    word.split_once('=')
        .filter(|(key, _)| key.chars().all(|c| c.is_ascii_alphabetic() || c == '_' || c == '-'))
}

/// Returns `true` if the word before a number makes the number part of the error class, as a status or error
/// number. Exit codes 1 and 2 are not part of it, because they only say that something failed.
fn is_status_code(before: &str, number: &str) -> bool {
    let word = before.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let leaves = matches!(word.as_str(), "status" | "code" | "exit");
    number.chars().all(|c| c.is_ascii_digit())
        && (matches!(word.as_str(), "http" | "errno") || (leaves && !matches!(number, "1" | "2")))
}

/// Returns the last part of an exception class's dotted name, or any other word unchanged.
fn exception_class(word: &str) -> &str {
    let last = word.rsplit('.').next().unwrap_or(word);
    if last.ends_with("Error") || last.ends_with("Exception") { last } else { word }
}

/// Common words with digits, which are not masked.
const KNOWN_WITH_DIGITS: &[&str] = &[
    "python2",
    "python3",
    "pip3",
    "base64",
    "base32",
    "utf-8",
    "utf8",
    "utf-16",
    "md5",
    "md5sum",
    "sha1",
    "sha256",
    "sha256sum",
    "sha512",
    "bzip2",
    "ipv4",
    "ipv6",
    "oauth2",
    "http2",
    "x86_64",
    "s3",
    "ec2",
    "k8s",
    "iso-8601",
];

/// Names of days and months, which are parts of dates. Names that are also ordinary words, such as "May", are
/// left out.
const CALENDAR: &[&str] = &[
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
    "Mon",
    "Tue",
    "Wed",
    "Thu",
    "Fri",
    "January",
    "February",
    "April",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
    "Jan",
    "Feb",
    "Apr",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Oct",
    "Nov",
    "Dec",
    // A version tag, as in `image:latest`.
    "latest",
];

/// Returns `true` if a word is specific to one run: it contains a digit, or is an address, a path, a file or
/// a dotted name.
fn is_run_specific(word: &str) -> bool {
    if word.is_empty() || KNOWN_WITH_DIGITS.contains(&word.to_lowercase().as_str()) {
        return false;
    }
    let letters = |part: &str| !part.is_empty() && part.chars().all(char::is_alphabetic);
    let dotted = word.contains('.') && exception_class(word) == word && !word.ends_with('.');
    let slashes = word.matches('/').count();
    // "table/alias" and "and/or" are words; "/etc", "a/b/c", "src/x.c" are paths.
    let path = slashes > 0
        && !(slashes == 1 && word.split('/').all(letters))
        && !word.split('/').all(is_uppercase_word);
    word.chars().any(|c| c.is_ascii_digit())
        || word.starts_with(['/', '~', '#', '$', '@'])
        || word.contains('@')
        || word.contains("://")
        || word.contains('*')
        || CALENDAR.contains(&word)
        || dotted
        || path
        || (word.len() >= 16 && word.chars().all(|c| c.is_ascii_hexdigit()))
}

fn is_uppercase_word(part: &str) -> bool {
    !part.is_empty() && part.chars().all(|c| c.is_ascii_uppercase())
}

#[cfg(test)]
mod tests;
