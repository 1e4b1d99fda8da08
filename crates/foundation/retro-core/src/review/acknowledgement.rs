//! Detects replies in which the author of a pull request acknowledges a remark.

/// Maximum length of a reply that is only an acknowledgement, in characters. An example is "Good point,
/// thanks! Fixed in 0123456789abcdef0123456789abcdef01234567, and in the two other places." Longer replies
/// contain reasoning.
const ACKNOWLEDGEMENT_CHARS_MAX: usize = 160;

/// Phrases that an acknowledgement may begin with, after an optional mention and an optional interjection.
const DONE_PHRASES: &[&str] = &[
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

/// Interjections that may precede an acknowledgement but are none on their own.
const INTERJECTIONS: &[&str] = &[
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

/// Words that retract an acknowledgement.
const RETRACTING_WORDS: &[&str] =
    &["but", "however", "not", "won't", "don't", "can't", "unless", "although", "why", "disagree"];

/// Returns `true` if a reply says that the request has been or will be carried out. Such a reply is short,
/// begins with an acknowledgement, contains no question and retracts nothing. Returns `false` if in doubt.
pub fn is_acknowledgement(text: &str) -> bool {
    // Quoted lines repeat the remark, which may itself say "done".
    let answer: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with('>')).collect();
    let answer = answer.join(" ").to_lowercase().replace('’', "'");
    let answer = answer.trim();
    if answer.is_empty() || answer.chars().count() > ACKNOWLEDGEMENT_CHARS_MAX || answer.contains('?') {
        return false;
    }
    let words: Vec<_> = answer.split(|c: char| !(c.is_alphanumeric() || c == '\'')).collect();
    if words.iter().any(|word| RETRACTING_WORDS.contains(word)) {
        return false;
    }
    let mut rest = strip_mention(answer);
    let mut thumbs = false;
    if let Some(after) = ["👍", ":+1:", "✅", "✔"].iter().find_map(|sign| rest.strip_prefix(sign)) {
        (rest, thumbs) = (after.trim_start_matches(is_separator), true);
    }
    let opened = INTERJECTIONS.iter().find_map(|opening| strip_word(rest, opening));
    rest = opened.map_or(rest, |after| after.trim_start_matches(is_separator));
    (thumbs && rest.is_empty()) || DONE_PHRASES.iter().any(|done| strip_word(rest, done).is_some())
}

/// Strips a leading `@name`, if there is one.
fn strip_mention(text: &str) -> &str {
    match text.strip_prefix('@') {
        Some(named) => named.split_once(char::is_whitespace).map_or("", |(_, rest)| rest).trim_start(),
        None => text,
    }
}

fn strip_word<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let after = text.strip_prefix(word)?;
    (!after.starts_with(|c: char| c.is_alphanumeric() || c == '\'')).then_some(after)
}

fn is_separator(c: char) -> bool {
    !c.is_alphanumeric() && c != '👍'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_are_detected() {
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
    fn questions_reasons_and_retractions_are_no_acknowledgements() {
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
