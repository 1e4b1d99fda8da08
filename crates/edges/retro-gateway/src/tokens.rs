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
}
