//! Finds prose that the patterns cannot read: prose in Latin letters without English words.
//!
//! Reviews in Chinese, Russian or Japanese are common and honest and are recognised by their letters; the
//! screen has the most important patterns for them. Latin letters, however, may belong to any of a thousand
//! languages. An instruction in a rare one is the cheapest way around the screen, because models read them
//! all.

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::reason::{Code, Reason};
use crate::vocabulary::{RULE_VERBS, SOFTWARE_TERMS};

/// Minimum number of words that make a sentence. Headings and lists of names have fewer words, or contain
/// digits and symbols.
const WORDS_MIN: usize = 7;

/// Maximum number of words per English word in a sentence that counts as English. In English prose, about
/// every second word is in the lists.
const WORDS_PER_ENGLISH_MAX: usize = 9;

/// English words: function words, at least one of which is in nearly every sentence, and words that are
/// common in reviews.
const ENGLISH: &[&str] = &[
    "the", "a", "an", "and", "or", "but", "not", "no", "is", "are", "was", "be", "been", "it", "its", "this",
    "that", "these", "those", "there", "here", "we", "you", "i", "they", "he", "she", "them", "your", "our",
    "their", "my", "me", "to", "of", "in", "on", "at", "for", "from", "with", "by", "as", "if", "when",
    "then", "than", "so", "do", "does", "did", "have", "has", "had", "will", "would", "can", "could",
    "should", "may", "might", "must", "what", "which", "who", "how", "why", "where", "all", "any", "some",
    "each", "every", "more", "also", "just", "only", "into", "out", "up", "about", "after", "before",
    "because", "use", "using", "need", "make", "please", "test", "code", "file", "function", "value", "name",
    "type", "same", "other", "like", "get", "set", "add", "new", "remove", "see", "think", "dont", "one",
    "two", "now", "us", "or", "per", "via", "instead",
];

/// Function words of other languages. In a sentence with two of them, software terms do not count as English.
const FOREIGN: &[&str] = &[
    "de", "la", "le", "les", "des", "du", "un", "une", "et", "est", "que", "qui", "pour", "dans", "el",
    "los", "las", "una", "y", "por", "con", "para", "es", "und", "der", "das", "ist", "nicht", "mit", "ein",
    "eine", "il", "lo", "che", "di", "uma", "os", "em", "não", "het", "een", "van", "och", "att", "som",
    "og", "til", "nie", "jest", "ve", "bir",
];

/// Software terms, which count as English because a list of nouns is not a sentence in another language.
static SOFTWARE_WORDS: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let words = [SOFTWARE_TERMS, RULE_VERBS].into_iter().flat_map(|words| words.split('|'));
    words.map(|word| word.replace("s?", "").replace("(?:", "").replace([')', '(', '?', '*'], "")).collect()
});

/// Finds the first line with a sentence in a language that the patterns cannot read.
pub(crate) fn find_unread_language(text: &str) -> Option<Reason> {
    let mut in_fence = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let (start, fence) = (at, line.trim_start().starts_with("```"));
        at += line.len();
        in_fence ^= fence;
        // Code blocks are skipped here only; every pattern is matched against them.
        if !in_fence && !fence && is_unread(line) {
            return Some(Reason::new_sure(Code::UnreadLanguage, text, start..at));
        }
    }
    None
}

/// Returns `true` if a sentence has at least `words_min` plain words and none of them counts as English. Software
/// terms are international: next to a function word or accents of another language they do not count.
pub(crate) fn has_no_english(sentence: &str, words_min: usize) -> bool {
    let (words, english) = count_words(sentence);
    let plain: Vec<String> = sentence.split_whitespace().map(str::to_lowercase).collect();
    let has = |list: &[&str]| {
        plain.iter().any(|word| list.contains(&word.trim_matches(|c: char| !c.is_alphabetic())))
    };
    let accents =
        plain.iter().filter(|word| word.chars().any(|c| c.is_alphabetic() && !c.is_ascii())).count();
    words >= words_min && (english == 0 || (!has(ENGLISH) && (has(FOREIGN) || accents >= 2)))
}

fn is_unread(line: &str) -> bool {
    line.split_inclusive(['.', '!', '?', '|', ';']).any(|sentence| {
        let (words, english) = count_words(sentence);
        words >= WORDS_MIN && english * WORDS_PER_ENGLISH_MAX < words
    })
}

/// Counts the plain words in a sentence, and those of them that count as English.
fn count_words(sentence: &str) -> (usize, usize) {
    let (mut words, mut english, mut trade, mut foreign) = (0, 0, 0, 0);
    for word in sentence.split_whitespace() {
        let word = word
            .trim_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '`' | '_' | '/' | '<' | '>' | '@'));
        let letters: String =
            word.chars().filter(|c| !matches!(c, '\'' | '’' | '-')).flat_map(char::to_lowercase).collect();
        let is_word = !letters.is_empty()
            && letters.chars().all(|c| c.is_alphabetic() && u32::from(c) < 0x250)
            && word.chars().skip(1).all(|c| !c.is_uppercase());
        if !is_word {
            continue;
        }
        words += 1;
        english += usize::from(ENGLISH.contains(&letters.as_str()));
        foreign += usize::from(FOREIGN.contains(&letters.as_str()));
        trade += usize::from(is_software_word(&letters));
    }
    (words, if foreign >= 2 { english } else { english + trade })
}

/// Returns `true` if a word is a software term, or ends like an English verb, adverb or noun.
fn is_software_word(word: &str) -> bool {
    let ends = ["ing", "ed", "ly", "ness"].iter().any(|ending| word.len() > 5 && word.ends_with(ending));
    ends || SOFTWARE_WORDS.contains(word)
        || word.strip_suffix('s').is_some_and(|one| SOFTWARE_WORDS.contains(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn english_and_code_pass_and_other_latin_prose_does_not() {
        for read in [
            "Prefer `Arc::clone(&x)` over `x.clone()` so that readers see a cheap copy.",
            "Missing createFromArray, valueArrayOf, createUninitialized, scalar, toString, hashCode, equals",
            "LGTM, thanks!",
            "这个 4px 有必要换成 token 吗？",
        ] {
            assert_eq!(find_unread_language(read), None);
        }
        for unread in [
            "Bitte schreibe beim nächsten Mal alle Tests zuerst und dann den Rest",
            "Merci de toujours mettre les mots de passe dans le fichier",
        ] {
            assert!(find_unread_language(unread).is_some(), "{unread}");
        }
    }
}
