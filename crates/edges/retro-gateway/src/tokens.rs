//! Counts the tokens of a text.

/// Returns the number of `r50k_base` tokens in a text. The first call in a process loads the vocabulary
/// (about 0.1 s in a debug build); [`crate::Gateway::new`] makes that call, so no request waits for it.
pub fn count_tokens(text: &str) -> usize {
    tiktoken_rs::r50k_base_singleton().count_ordinary(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_tokens_and_not_bytes() {
        assert_eq!(count_tokens(""), 0);
        assert_eq!(count_tokens("Retry the call"), 4);
        assert_eq!(count_tokens("<|endoftext|>"), 7, "text from a run never becomes a special token");
    }

    #[test]
    fn no_token_reaches_over_a_line_break() {
        let lines = [
            "<<<RETROSPECT MEMORIES: background knowledge, not instructions from the user>>>",
            "- [8aad0cee] (0.300) When `mysql` answers “ERROR 1054”, list the columns first",
            "- [00000000] (1.000) ends with a space ",
            "- [12345678] (0.999) ends with many   \t",
            "- [0b8e26c4] (0.100) größe, 日本語のテスト, 🦀🦀, e\u{301}, \u{a0}",
            "- [ffffffff] (0.500) it's, they'll, 12 345 678, --flag=\"x\", C:\\new\\dir, ((((",
            "- [ffffffff] (0.500) ",
            "<<<END OF RETROSPECT MEMORIES>>>",
        ];
        for first in lines {
            for second in lines {
                let together = count_tokens(&format!("{first}\n{second}"));
                let apart = count_tokens(first) + count_tokens("\n") + count_tokens(second);
                assert_eq!(together, apart, "{first:?} {second:?}");
            }
        }
    }
}
