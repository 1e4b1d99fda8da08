//! Decides if two masked errors are of one class.

use std::collections::BTreeSet;

/// Minimum number of different words of an error that is compared by its words. A shorter one is compared as a
/// whole: `not found` has too few words to be like another error.
const WORDS_MIN: usize = 3;
/// Minimum share of words that two errors of one class have in common (Jaccard index), in per cent. At 40, errors of
/// different causes become one.
const SHARED_MIN: usize = 60;

/// Returns `true` if two masked errors of one tool are of one class: they are equal, or most of their words are.
/// Errors that name what a run worked on differ in a few words.
pub fn is_same_error_class(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    let (one, other) = (split_error_words(one), split_error_words(other));
    let shared = one.intersection(&other).count();
    one.len().min(other.len()) >= WORDS_MIN && shared * 100 >= one.union(&other).count() * SHARED_MIN
}

fn split_error_words(error: &str) -> BTreeSet<String> {
    let words = error.split(|c: char| !c.is_alphabetic()).filter(|word| word.chars().nth(1).is_some());
    words.map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_differ_in_a_few_words_are_of_one_class() {
        let stack = "no stack named network found in organization acme";
        assert!(is_same_error_class(stack, "no stack named warehouse found in organization acme"));
        assert!(!is_same_error_class(stack, "the stack of acme is locked by another operation"));
        assert!(is_same_error_class("403", "403") && !is_same_error_class("not found", "not allowed"));
        assert!(!is_same_error_class("", "no stack named network"));
    }
}
