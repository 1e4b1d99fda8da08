//! What the patterns cannot read, they cannot vouch for: prose in Latin letters without a word of English.
//!
//! Reviews in Chinese, Russian or Japanese are common and honest, and are told by their letters; for these the screen
//! has the few patterns that matter most. In Latin letters any of a thousand languages may stand, and an instruction
//! in a rare one is the cheapest way around a screen, since models read them all.

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::grammar;
use crate::reason::{Code, Reason};

/// Fewest words that make a sentence: headings and lists of names have fewer, or have digits and signs in them.
const WORDS_MIN: usize = 7;

/// One English function word in so many is English: half of the words of English prose are such words.
const WORDS_PER_ENGLISH_MAX: usize = 9;

/// Words that hardly an English sentence does without, and a few that reviews are made of.
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

/// Function words of the languages that borrow most from English, or lend to it: two of them, and a sentence is theirs.
const FOREIGN: &[&str] = &[
    "de", "la", "le", "les", "des", "du", "un", "une", "et", "est", "que", "qui", "pour", "dans", "el",
    "los", "las", "una", "y", "por", "con", "para", "es", "und", "der", "das", "ist", "nicht", "mit", "ein",
    "eine", "il", "che", "di", "uma", "os", "em", "não", "het", "een", "van", "och", "att", "som", "og",
    "til", "nie", "jest", "ve", "bir",
];

/// Words of the trade are English too: a list of nouns is no sentence of another language.
static TRADE: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let words = [grammar::TRADE, grammar::VERBS].into_iter().flat_map(|words| words.split('|'));
    words.map(|word| word.replace("s?", "").replace("(?:", "").replace([')', '(', '?', '*'], "")).collect()
});

/// The first sentence that no pattern could read.
pub(crate) fn find(text: &str) -> Option<Reason> {
    let mut in_fence = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let (start, fence) = (at, line.trim_start().starts_with("```"));
        at += line.len();
        in_fence ^= fence;
        // A suggestion or an example is code; what stands in it is looked at by every pattern all the same.
        if !in_fence && !fence && is_unread(line) {
            return Some(Reason::sure(Code::UnreadLanguage, text, start..at));
        }
    }
    None
}

fn is_unread(line: &str) -> bool {
    line.split_inclusive(['.', '!', '?', '|', ';']).any(|sentence| {
        let (words, english) = counted(sentence);
        words >= WORDS_MIN && english * WORDS_PER_ENGLISH_MAX < words
    })
}

/// How many words of plain letters a sentence has, and how many of them are English.
fn counted(sentence: &str) -> (usize, usize) {
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
        trade += usize::from(is_of_trade(&letters));
    }
    (words, if foreign >= 2 { english } else { english + trade })
}

/// A word of the trade, or one with an ending that English adds to every verb.
fn is_of_trade(word: &str) -> bool {
    let ends = ["ing", "ed", "ly", "ness"].iter().any(|ending| word.len() > 5 && word.ends_with(ending));
    ends || TRADE.contains(word) || word.strip_suffix('s').is_some_and(|one| TRADE.contains(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn english_and_code_are_read_and_other_latin_prose_is_not() {
        for read in [
            "Prefer `Arc::clone(&x)` over `x.clone()` so that readers see a cheap copy.",
            "Missing createFromArray, valueArrayOf, createUninitialized, scalar, toString, hashCode, equals",
            "LGTM, thanks!",
            "这个 4px 有必要换成 token 吗？",
        ] {
            assert_eq!(find(read), None);
        }
        for unread in [
            "Bitte schreibe beim nächsten Mal alle Tests zuerst und dann den Rest",
            "Merci de toujours mettre les mots de passe dans le fichier",
        ] {
            assert!(find(unread).is_some(), "{unread}");
        }
    }
}
