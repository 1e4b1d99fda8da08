//! Splits texts into the terms that a task and a memory may share: words without their plural, and names such as
//! `deploy_service`, `src/app.rs` and `E-1054`, which count as a whole and by their parts.

use crate::similarity::{is_light_word, is_stop_word};

/// Maximum length of a term, in bytes. Longer ones are data, such as hashes of encoded files.
const TERM_BYTES_MAX: usize = 64;

/// A word or name of a text, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Term {
    /// Word as it stands in the text, in lower case.
    pub(super) word: String,
    /// Hash of the word without its plural.
    pub(super) hash: u32,
    /// `true` for a word that expresses advice or its extent, whatever the subject.
    pub(super) is_light: bool,
}

/// Calls `found` for each term of a text, in the order of the text.
pub(super) fn for_each_term(text: &str, mut found: impl FnMut(Term)) {
    for token in text.split(|c: char| !c.is_alphanumeric() && !JOINERS.contains(c)) {
        let token = token.trim_matches(|c: char| !c.is_alphanumeric());
        if token.is_empty() || token.len() > TERM_BYTES_MAX {
            continue;
        }
        let token = token.to_lowercase();
        let mut parts = token.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty());
        if parts.clone().nth(1).is_some() {
            parts.by_ref().filter_map(word_term).for_each(&mut found);
            found(Term { hash: hash_term(&token), word: token, is_light: false });
        } else if let Some(term) = word_term(&token) {
            found(term);
        }
    }
}

/// Characters that join the parts of a name.
const JOINERS: &str = "_-./:@#$+=\\~";

fn word_term(word: &str) -> Option<Term> {
    if word.len() < 2 || is_stop_word(word) {
        return None;
    }
    let singular = word.strip_suffix('s').filter(|rest| rest.len() > 2 && !rest.ends_with('s'));
    let hash = hash_term(singular.unwrap_or(word));
    Some(Term { word: word.to_owned(), hash, is_light: is_light_word(word) })
}

/// Computes the 32-bit FNV-1a hash. Two of the few hundred terms of a step have the same one by chance about once in
/// 100,000 steps.
fn hash_term(term: &str) -> u32 {
    term.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        for_each_term(text, |term| words.push(term.word));
        words
    }

    #[test]
    fn names_and_paths_count_as_a_whole_and_by_their_parts() {
        assert_eq!(
            words("Call `deploy_service` with --region, see src/app.rs."),
            [
                "call",
                "deploy",
                "service",
                "deploy_service",
                "region",
                "see",
                "src",
                "app",
                "rs",
                "src/app.rs"
            ]
        );
        assert_eq!(
            words("ERROR 1054 (42S22): Unknown column"),
            ["error", "1054", "42s22", "unknown", "column"]
        );
        assert_eq!(words("a - b ... \u{1b}[31m the; \"\""), ["31m"]);
        assert!(words(&"x".repeat(TERM_BYTES_MAX + 1)).is_empty());
    }

    #[test]
    fn a_plural_is_the_same_term() {
        let hash = |text: &str| {
            let mut hashes = Vec::new();
            for_each_term(text, |term| hashes.push(term.hash));
            hashes
        };
        assert_eq!(hash("tables"), hash("Table"));
        assert_ne!(hash("pass"), hash("pas"));
    }
}
