//! Splits text into the words that carry its meaning.

/// Words that connect sentences and carry no meaning of their own.
const STOP_WORDS: &[&str] = &[
    "a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "in", "is", "it", "of", "on", "or",
    "that", "the", "then", "this", "to", "was", "when", "with", "you", "your",
];

/// Returns the words of a text in lower case, without stop words.
pub(crate) fn content_words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .filter(|word| !is_stop_word(word))
}

/// Returns `true` if a word carries no meaning of its own.
pub(crate) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.contains(&word)
}

/// Words that negate what follows.
const NEGATIONS: &[&str] = &[
    "not",
    "no",
    "never",
    "don't",
    "dont",
    "doesn't",
    "cannot",
    "can't",
    "without",
    "avoid",
    "stop",
    "isn't",
    "won't",
    "shouldn't",
    "mustn't",
];

/// Returns `true` if a word, in lower case, negates what follows.
pub(super) fn is_negation(word: &str) -> bool {
    NEGATIONS.contains(&word)
}
