//! Splits the Markdown of a remark into the author's sentences, without quotations and code blocks.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Maximum number of sentences considered per remark. In a longer text, finding the rule would be guesswork.
const SENTENCES_MAX: usize = 40;

/// Text of a remark, split into sentences.
#[derive(Debug, Default)]
pub(crate) struct RemarkText {
    /// Sentences that the author wrote, each on one line and with its final punctuation.
    pub(crate) sentences: Vec<String>,
    /// `true` if the remark contains a suggestion block, which proposes exact lines for this change.
    pub(crate) has_suggestion: bool,
    /// `true` if the remark contains a code block that is not a suggestion.
    pub(crate) has_code: bool,
    /// `true` if the author calls the remark a nit.
    pub(crate) is_nit: bool,
    /// `true` if the remark contains marks that review programs leave.
    pub(crate) has_bot_marks: bool,
    /// Total number of characters of the sentences.
    pub(crate) chars: usize,
}

/// Marks that review programs leave in their text.
const MACHINE: &[&str] =
    &["<!--", "🤖", "<details>", "<summary>", "📝 committable", "![low]", "![medium]", "![high]"];

/// Words with which authors mark a remark as a nit.
const NITS: &[&str] =
    &["nit", "nits", "nitpick", "minor", "style nit", "micro-nit", "tiny nit", "super nit", "_nit_"];

impl RemarkText {
    pub(crate) fn parse(body: &str) -> Self {
        let lower = body.to_lowercase();
        let mut parsed =
            Self { has_bot_marks: MACHINE.iter().any(|mark| lower.contains(mark)), ..Self::default() };
        let mut fence: Option<&str> = None;
        let mut paragraph = String::new();
        for line in body.lines().map(str::trim) {
            let opens = ["```", "~~~"].into_iter().find(|mark| line.starts_with(mark));
            match (fence, opens) {
                (Some(open), Some(mark)) if open == mark => fence = None,
                (Some(_), _) => {}
                (None, Some(mark)) => {
                    parsed.has_suggestion |= line.contains("suggestion");
                    parsed.has_code |= !line.contains("suggestion");
                    fence = Some(mark);
                    parsed.push_paragraph(&mut paragraph);
                }
                // A quotation is not a sentence of the author, and like an empty line it ends the paragraph.
                (None, None) if line.is_empty() || line.starts_with('>') => {
                    parsed.push_paragraph(&mut paragraph)
                }
                (None, None) => {
                    let item = line.trim_start_matches(['-', '*', '#', '+']);
                    // A list item starts a paragraph. Without the space, `*` is emphasis and `-` is part of a
                    // word.
                    if item.len() < line.len() && item.starts_with(' ') {
                        parsed.push_paragraph(&mut paragraph);
                    }
                    let words = if item.starts_with(' ') { item } else { line };
                    paragraph.push_str(words.trim());
                    paragraph.push(' ');
                }
            }
        }
        parsed.push_paragraph(&mut paragraph);
        parsed
    }

    fn push_paragraph(&mut self, paragraph: &mut String) {
        let text = std::mem::take(paragraph);
        for sentence in split_sentences(text.trim()) {
            let (nit, sentence) = strip_nit(&sentence);
            let sentence = strip_markup(&sentence);
            self.is_nit |= nit;
            if sentence.chars().any(char::is_alphanumeric) && self.sentences.len() < SENTENCES_MAX {
                self.chars += sentence.chars().count();
                self.sentences.push(sentence);
            }
        }
    }
}

/// Splits a paragraph after `.`, `!` and `?`, but not within backticks or brackets, nor after abbreviations
/// such as `e.g.`.
fn split_sentences(paragraph: &str) -> Vec<String> {
    let mut found = Vec::new();
    let (mut from, mut quoted, mut depth) = (0, false, 0usize);
    let mut chars = paragraph.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '`' => quoted = !quoted,
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            '.' | '!' | '?' if !quoted && depth == 0 => {
                let ends = chars.peek().is_none_or(|(_, next)| next.is_whitespace());
                if ends && !ends_with_abbreviation(&paragraph[from..=at]) {
                    found.push(paragraph[from..=at].trim().to_owned());
                    from = at + c.len_utf8();
                }
            }
            _ => {}
        }
    }
    found.push(paragraph[from..].trim().to_owned());
    found.retain(|sentence| !sentence.is_empty());
    found
}

/// Returns the part of a sentence before its reasons: the part before a dash, a semicolon, or a comma that is
/// followed by "I".
pub(crate) fn main_clause(sentence: &str) -> &str {
    let ends =
        [" -- ", " - ", " – ", " — ", "; ", ", I "].into_iter().filter_map(|mark| sentence.find(mark)).min();
    ends.map_or(sentence, |end| &sentence[..end])
}

fn ends_with_abbreviation(text: &str) -> bool {
    let lower = text.to_lowercase();
    ["e.g.", "i.e.", "etc.", "vs.", "cf.", "incl.", "approx.", "resp."].iter().any(|end| lower.ends_with(end))
}

/// Removes the mark of a nit and the user names that a sentence addresses. Returns `true` if the sentence had
/// the mark, and the rest of the sentence.
fn strip_nit(sentence: &str) -> (bool, String) {
    let mut rest = sentence.trim();
    let mut nit = false;
    while let Some(named) = rest.strip_prefix('@') {
        rest = named
            .split_once(char::is_whitespace)
            .map_or("", |(_, rest)| rest)
            .trim_start_matches([' ', ',', ':']);
    }
    let bare = rest.trim_start_matches(['*', '_', '(', '[']);
    if let Some((mark, after)) = bare.split_once([':', ')', ']', '-', ','])
        && NITS.contains(&mark.trim_matches(['*', '_', ' ']).to_lowercase().as_str())
    {
        nit = true;
        rest = after.trim_start_matches(['*', '_', ':', ' ', ')', ']']);
    }
    (nit, rest.trim().to_owned())
}

/// Removes Markdown from a sentence: links keep only their text, and emphasised words lose their marks.
fn strip_markup(sentence: &str) -> String {
    static LINK: LazyLock<Regex> = LazyLock::new(|| compile_regex(r"!?\[([^\[\]]*)\]\([^()\s]*\)"));
    // Emphasis marks are at the edges of words; marks within a word belong to an identifier.
    static STRESSED: LazyLock<Regex> =
        LazyLock::new(|| compile_regex(r"(^|[\s(,])(\*\*|\*|_)(\w(?:[^*_`]*\w)?)(\*\*|\*|_)([\s.,;:!?)]|$)"));
    let linked = LINK.replace_all(sentence, "$1");
    let plain = STRESSED.replace_all(&linked, |found: &Captures<'_>| {
        if found[2] == found[4] {
            format!("{}{}{}", &found[1], &found[3], &found[5])
        } else {
            found[0].to_owned()
        }
    });
    plain.into_owned()
}

fn compile_regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("constant patterns compile, as a test verifies")
}

/// Returns the words of a sentence in lower case, without punctuation at their edges.
pub(crate) fn lowercase_words(sentence: &str) -> Vec<String> {
    let lower = sentence.to_lowercase().replace('’', "'");
    lower
        .split_whitespace()
        .map(|word| word.trim_matches(|c: char| !(c.is_alphanumeric() || c == '`')).to_owned())
        .filter(|word| !word.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotations_and_code_blocks_are_not_sentences_of_the_author() {
        let said = RemarkText::parse(
            "> Always do it\n\nnit: Use `a.b` here. See e.g. x.\n```suggestion\nNever do it.\n```\nThanks!",
        );
        assert_eq!(said.sentences, ["Use `a.b` here.", "See e.g. x.", "Thanks!"]);
        assert!(said.has_suggestion && said.is_nit && !said.has_code && !said.has_bot_marks);
    }

    #[test]
    fn links_and_emphasis_are_unwrapped_and_identifiers_are_kept() {
        let said = RemarkText::parse(
            "Use [the docs](https://a.test/b). Logs should _not_ be **very long**. Keep `a_b`, snake_case_x and *args.",
        );
        let read = ["Use the docs.", "Logs should not be very long.", "Keep `a_b`, snake_case_x and *args."];
        assert_eq!(said.sentences, read);
    }

    #[test]
    fn an_unclosed_fence_hides_the_rest_and_list_items_are_sentences() {
        assert!(RemarkText::parse("```\nAlways do it.").sentences.is_empty());
        assert_eq!(RemarkText::parse("- Use a\n- Use b").sentences, ["Use a", "Use b"]);
    }
}
