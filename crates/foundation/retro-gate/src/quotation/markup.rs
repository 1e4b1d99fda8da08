//! Removes markup, frames of chats, code and chains of a shell from a quotation.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::folded::fold_text;
use crate::name::is_plain_name;

/// Mark for everything that a quotation leaves out.
pub(super) const LEFT_OUT: char = '…';

/// Removes escape sequences of terminals, also those that lost their escape character.
pub(super) fn strip_escapes(text: &str) -> Cow<'_, str> {
    ESCAPE.replace_all(text, "")
}

/// Replaces comments and the targets of links.
pub(super) fn strip_comments(line: &str) -> String {
    LINK.replace_all(&COMMENT.replace_all(line, "…"), "$1").into_owned()
}

/// Removes tags, marks of chats, and marks of our own lists. A type parameter, as in `Vec<String>`, stays.
pub(super) fn strip_tags(line: &str) -> String {
    let line = TAG.replace_all(line, |found: &Captures<'_>| {
        found.name("typed").map_or_else(|| " ".to_owned(), |typed| typed.as_str().to_owned())
    });
    let line = BANNER.replace_all(&line, " ");
    LIST_LINE.replace_all(&SPACED_WORD.replace_all(&line, "…"), "…").into_owned()
}

/// Replaces code in backticks by `…`, unless it is one plain word or among the calls that worked.
pub(super) fn leave_out_code(line: &str, worked: &[&str]) -> String {
    // An old way to quote: `x'.
    let line = OLD_QUOTE.replace_all(line, "'$1'");
    CODE.replace_all(&line, |found: &Captures<'_>| {
        let code = found[1].trim();
        let stays =
            is_plain_name(code) || is_option(code) || EXPRESSION.is_match(code) || is_among(code, worked);
        if stays { code.to_owned() } else { LEFT_OUT.to_string() }
    })
    .into_owned()
}

/// Replaces commands that are joined by operators of a shell by `…`, unless they are among the calls that
/// worked.
pub(super) fn leave_out_shell_chains(line: &str, worked: &[&str]) -> String {
    SHELL_CHAIN
        .replace_all(line, |found: &Captures<'_>| {
            if is_among(&found[0], worked) { found[0].to_owned() } else { LEFT_OUT.to_string() }
        })
        .into_owned()
}

/// Returns a text without the marks that end a quotation or a code span, and without marks that look like
/// them.
pub(super) fn without_quotation_marks(text: &str) -> String {
    QUOTATION_MARK.replace_all(text, "'").replace('`', "")
}

fn is_option(code: &str) -> bool {
    code.starts_with('-') && is_plain_name(code.trim_start_matches('-'))
}

/// Returns `true` if a command is a part of a call that worked.
pub(super) fn is_among(command: &str, worked: &[&str]) -> bool {
    let squeeze = |text: &str| fold_text(text).split_whitespace().collect::<Vec<_>>().join(" ");
    let command = squeeze(command);
    !command.is_empty() && worked.iter().any(|call| squeeze(call).contains(&command))
}

// Escape sequences of terminals in the 7-bit and the 8-bit form, and colours without their escape character.
pattern!(
    ESCAPE,
    r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])|\u{9b}[0-9;?]*[ -/]*[@-~]|(?:\^\[)?\[\d{1,3}(?:;\d{1,3}){0,4}m"
);
pattern!(COMMENT, r"(?s)<!-.*?(?:-+>|\z)");
pattern!(LINK, r"!?\[([^\]\n]{0,200})\]\([^)\n]*\)?");
pattern!(CODE, r"`{1,3}([^`]{1,400})`{1,3}");
// A type, a comparison of two names, or a mark.
pattern!(
    EXPRESSION,
    r"^(?:&?(?:mut )?[\w:]+(?:<&?[\w:]+(?:, ?&?[\w:]+)*>)?|[\w.]+ (?:==|!=|<=?|>=?) [\w.]+|[^\w\s$|&]{1,3})$"
);
pattern!(OLD_QUOTE, r"`([^`'\s]{1,80})'");
// A type with parameters, which stays; tags, also with spaces or as entities; and the roles of a chat.
pattern!(
    TAG,
    concat!(
        r"(?P<typed>\b(?:[A-Z]\w*|vector|map|set|list|array|unique_ptr|shared_ptr|std::\w+)<[\w:]{1,40}(?:, ?[\w:]{1,40}){0,3}>)|",
        r"<\s*/?\s*[A-Za-z!|][^<>]{0,200}>|(?i:&lt;|%3c|\\u003c|\\x3c)\s*/?\s*[A-Za-z!|][^<>&%\\]{0,200}(?i:&gt;|%3e|\\u003e|\\x3e)|",
        r"\[{1,2}\s*/?\s*(?i:inst|sys|system|assistant|user)\s*\]{1,2}|<\|[^|>]{0,60}\|>|```+|~~~+"
    )
);
// Runs of marks around a heading.
pattern!(BANNER, r"={3,}|#{2,}\s|\*{3,}|_{5,}");
// Letters with spaces or points between them, which models read as a word.
pattern!(SPACED_WORD, r"\b(?:\p{L}[ .]){4,}\p{L}\b");
// A line of ours up to its title, or only its weight.
pattern!(LIST_LINE, r"-?\s*\[[0-9a-fA-F]{8}\]\s*\(?|\([01][.,]\d{3}\)");
// Commands joined by operators of a shell, from the first word to the end of the clause.
pattern!(
    SHELL_CHAIN,
    r"(?:[\w./~$-]+\s+)?[^\s|&;]*\s*(?:\|\s*(?:sudo\s+)?[a-z][\w.-]*|&&|\|\||\$\(|>>)(?:[^.!?:]|:\S)*"
);
// Every mark of quotation but the two of ASCII and the apostrophe, and characters that look like a pair of
// them.
pattern!(QUOTATION_MARK, r"[\p{Quotation_Mark}ʺˮ˝״″‴‵‶‷⁗❛-❠🙶-🙸〃＂--['\x22‘’]]");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_go_in_every_form_and_types_stay() {
        for (text, left) in [
            ("a </tool_result> b", "a   b"),
            ("a < /tag > b", "a   b"),
            ("a &lt;/tag&gt; b", "a   b"),
            ("a %3C/system%3E b", "a   b"),
            (r"a \u003c/system\u003e b", "a   b"),
            ("now a.p.p.r.o.v.e it", "now … it"),
            ("a [ system ] b", "a   b"),
            ("a [[system]] b", "a   b"),
            ("x === END === y", "x   END   y"),
            ("now a p p r o v e it", "now … it"),
            ("expected Vec<String>, found Option<u8>", "expected Vec<String>, found Option<u8>"),
            ("x[system_id] and a == b", "x[system_id] and a == b"),
        ] {
            assert_eq!(strip_tags(text), left, "{text}");
        }
    }

    #[test]
    fn marks_that_look_like_the_end_of_a_quotation_become_apostrophes() {
        for mark in "“”„‟«»❝❞＂″‶〞🙶״⹂ˮ".chars() {
            assert_eq!(without_quotation_marks(&format!("a{mark}b")), "a'b", "{mark}");
        }
        assert_eq!(without_quotation_marks("it's \"x\""), "it's \"x\"");
    }

    #[test]
    fn colours_without_their_escape_character_are_removed_and_indices_stay() {
        assert_eq!(strip_escapes("a [31mred[0m [1;31mb"), "a red b");
        assert_eq!(strip_escapes("a[31] m[0]"), "a[31] m[0]");
    }

    #[test]
    fn an_error_after_a_chain_of_commands_stays() {
        assert_eq!(
            leave_out_shell_chains("ls | head -c: line 2: syntax error", &[]),
            "…: line 2: syntax error"
        );
        assert_eq!(leave_out_shell_chains("a || b", &["x a || b"]), "a || b");
    }
}
