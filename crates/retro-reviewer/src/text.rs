//! A remark's Markdown as sentences that its writer said: without what is quoted, shown or struck through.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Sentences that are looked at: what comes after so many is an essay, and its rule would have to be guessed.
const SENTENCES_MAX: usize = 40;

/// A remark, taken apart.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// What its writer said, sentence by sentence, on one line each, with the mark that ends it.
    pub(crate) sentences: Vec<String>,
    /// It proposes exact lines for this change.
    pub(crate) suggestion: bool,
    /// It shows code of another kind.
    pub(crate) code: bool,
    /// It says of itself that it is a trifle.
    pub(crate) nit: bool,
    /// A program's marks stand in it.
    pub(crate) machine: bool,
    /// Characters of what was said.
    pub(crate) chars: usize,
}

/// What programs that review leave in their texts.
const MACHINE: &[&str] =
    &["<!--", "🤖", "<details>", "<summary>", "📝 committable", "![low]", "![medium]", "![high]"];

/// How a writer says that it is a trifle.
const NITS: &[&str] =
    &["nit", "nits", "nitpick", "minor", "style nit", "micro-nit", "tiny nit", "super nit", "_nit_"];

impl Said {
    pub(crate) fn of(body: &str) -> Self {
        let lower = body.to_lowercase();
        let mut said = Self { machine: MACHINE.iter().any(|mark| lower.contains(mark)), ..Self::default() };
        let mut fence: Option<&str> = None;
        let mut paragraph = String::new();
        for line in body.lines().map(str::trim) {
            let opens = ["```", "~~~"].into_iter().find(|mark| line.starts_with(mark));
            match (fence, opens) {
                (Some(open), Some(mark)) if open == mark => fence = None,
                (Some(_), _) => {}
                (None, Some(mark)) => {
                    said.suggestion |= line.contains("suggestion");
                    said.code |= !line.contains("suggestion");
                    fence = Some(mark);
                    said.take(&mut paragraph);
                }
                (None, None) if line.is_empty() || line.starts_with('>') => said.take(&mut paragraph),
                (None, None) => {
                    let item = line.trim_start_matches(['-', '*', '#', '+']);
                    if item.len() < line.len() && item.starts_with(' ') {
                        said.take(&mut paragraph);
                    }
                    let words = if item.starts_with(' ') { item } else { line };
                    paragraph.push_str(words.trim());
                    paragraph.push(' ');
                }
            }
        }
        said.take(&mut paragraph);
        said
    }

    fn take(&mut self, paragraph: &mut String) {
        let text = std::mem::take(paragraph);
        for sentence in sentences(text.trim()) {
            let (nit, sentence) = without_nit(&sentence);
            let sentence = unmarked(&sentence);
            self.nit |= nit;
            if sentence.chars().any(char::is_alphanumeric) && self.sentences.len() < SENTENCES_MAX {
                self.chars += sentence.chars().count();
                self.sentences.push(sentence);
            }
        }
    }
}

/// Cuts a paragraph behind `.`, `!`, `?` and `;`-free ends, never within backticks or brackets, nor behind `e.g.`.
fn sentences(paragraph: &str) -> Vec<String> {
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
                if ends && !abbreviates(&paragraph[from..=at]) {
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

/// What a sentence says before it goes on to reason: its head up to a dash, a semicolon, or "I" after a comma.
pub(crate) fn head(sentence: &str) -> &str {
    let ends =
        [" -- ", " - ", " – ", " — ", "; ", ", I "].into_iter().filter_map(|mark| sentence.find(mark)).min();
    ends.map_or(sentence, |end| &sentence[..end])
}

fn abbreviates(text: &str) -> bool {
    let lower = text.to_lowercase();
    ["e.g.", "i.e.", "etc.", "vs.", "cf.", "incl.", "approx.", "resp."].iter().any(|end| lower.ends_with(end))
}

/// A sentence without the mark of a trifle and the name that it is addressed to.
fn without_nit(sentence: &str) -> (bool, String) {
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

/// A sentence as it is read aloud: a link is its words, and what is emphasised is said like the rest.
fn unmarked(sentence: &str) -> String {
    static LINK: LazyLock<Regex> = LazyLock::new(|| regex(r"!?\[([^\[\]]*)\]\([^()\s]*\)"));
    // Marks stand at the edges of words; within one they are of an identifier.
    static STRESSED: LazyLock<Regex> =
        LazyLock::new(|| regex(r"(^|[\s(,])(\*\*|\*|_)(\w(?:[^*_`]*\w)?)(\*\*|\*|_)([\s.,;:!?)]|$)"));
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

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a pattern of ours compiles: a test reads with each")
}

/// The words of a sentence in lower case, code and punctuation at their edges left out.
pub(crate) fn words(sentence: &str) -> Vec<String> {
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
    fn what_is_quoted_or_shown_was_not_said_by_the_writer() {
        let said = Said::of(
            "> Always do it\n\nnit: Use `a.b` here. See e.g. x.\n```suggestion\nNever do it.\n```\nThanks!",
        );
        assert_eq!(said.sentences, ["Use `a.b` here.", "See e.g. x.", "Thanks!"]);
        assert!(said.suggestion && said.nit && !said.code && !said.machine);
    }

    #[test]
    fn links_and_stress_are_read_and_identifiers_are_left_alone() {
        let said = Said::of(
            "Use [the docs](https://a.test/b). Logs should _not_ be **very long**. Keep `a_b`, snake_case_x and *args.",
        );
        let read = ["Use the docs.", "Logs should not be very long.", "Keep `a_b`, snake_case_x and *args."];
        assert_eq!(said.sentences, read);
    }

    #[test]
    fn an_unclosed_fence_swallows_the_rest_and_a_list_has_one_sentence_an_item() {
        assert!(Said::of("```\nAlways do it.").sentences.is_empty());
        assert_eq!(Said::of("- Use a\n- Use b").sentences, ["Use a", "Use b"]);
    }
}
