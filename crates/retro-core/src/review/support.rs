//! Answers that say "done".

/// The longest answer that is taken for nothing but an acknowledgement, in characters: "Good point, thanks! Fixed in
/// 0123456789abcdef0123456789abcdef01234567, and in the two other places." What is longer reasons.
const ACKNOWLEDGEMENT_CHARS_MAX: usize = 160;

/// How such an answer begins, after a name and an interjection.
const DONE: &[&str] = &[
    "done",
    "fixed",
    "addressed",
    "updated",
    "changed",
    "applied",
    "resolved",
    "removed",
    "renamed",
    "added",
    "moved",
    "reverted",
    "corrected",
    "will do",
    "will fix",
    "agreed",
    "i've fixed",
    "i have fixed",
    "i fixed",
    "i've updated",
    "i updated",
    "i've changed",
    "i changed",
    "i've added",
    "i added",
    "i've removed",
    "i removed",
    "should be fixed",
    "this is fixed",
    "good catch",
    "good point",
    "makes sense",
    "you're right",
    "fair enough",
    "fair point",
    "nice catch",
];

/// Openings that say nothing themselves.
const OPENINGS: &[&str] = &[
    "thanks",
    "thank you",
    "thx",
    "ok",
    "okay",
    "oh",
    "ah",
    "yes",
    "yep",
    "yeah",
    "sure",
    "sorry",
    "great",
    "right",
    "of course",
    "oops",
    "absolutely",
    "indeed",
    "ack",
];

/// Words that take it back.
const BUT: &[&str] =
    &["but", "however", "not", "won't", "don't", "can't", "unless", "although", "why", "disagree"];

/// Whether an answer says that what was asked has been done, or will be: short, begins so, asks nothing and takes nothing
/// back. When in doubt it does not.
pub fn is_acknowledgement(text: &str) -> bool {
    let said: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with('>')).collect();
    let said = said.join(" ").to_lowercase().replace('’', "'");
    let said = said.trim();
    if said.is_empty() || said.chars().count() > ACKNOWLEDGEMENT_CHARS_MAX || said.contains('?') {
        return false;
    }
    let words: Vec<_> = said.split(|c: char| !(c.is_alphanumeric() || c == '\'')).collect();
    if words.iter().any(|word| BUT.contains(word)) {
        return false;
    }
    let mut rest = unnamed(said);
    let mut thumbs = false;
    if let Some(after) = ["👍", ":+1:", "✅", "✔"].iter().find_map(|sign| rest.strip_prefix(sign)) {
        (rest, thumbs) = (after.trim_start_matches(separates), true);
    }
    let opened = OPENINGS.iter().find_map(|opening| after_word(rest, opening));
    rest = opened.map_or(rest, |after| after.trim_start_matches(separates));
    (thumbs && rest.is_empty()) || DONE.iter().any(|done| after_word(rest, done).is_some())
}

/// Without the `@name` that the answer is addressed to.
fn unnamed(text: &str) -> &str {
    match text.strip_prefix('@') {
        Some(named) => named.split_once(char::is_whitespace).map_or("", |(_, rest)| rest).trim_start(),
        None => text,
    }
}

fn after_word<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let after = text.strip_prefix(word)?;
    (!after.starts_with(|c: char| c.is_alphanumeric() || c == '\'')).then_some(after)
}

fn separates(c: char) -> bool {
    !c.is_alphanumeric() && c != '👍'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_says_done_is_known() {
        for text in [
            "done",
            "Done!",
            "@ann Fixed in 0a1b2c3, thanks.",
            "Thanks, updated.",
            "👍",
            ":+1: will do",
            "> please rename\n\nRenamed.",
            "Good catch. I've added a test.",
            "OK, changed it in both places",
        ] {
            assert!(is_acknowledgement(text), "{text}");
        }
    }

    #[test]
    fn an_answer_that_asks_reasons_or_takes_back_is_none() {
        for text in [
            "",
            "Why?",
            "Done? Which one do you mean",
            "Fixed, but I don't think that it is right",
            "I don't agree",
            "> done\n\nThis is what the other module does as well.",
            "donet is another word",
            "Thanks",
            "This has been discussed before and the outcome was that we leave it.",
        ] {
            assert!(!is_acknowledgement(text), "{text}");
        }
    }
}
