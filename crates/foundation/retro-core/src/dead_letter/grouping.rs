//! Groups rejection sentences, so a thousand dead letters with the same problem can be shown as one line.

/// Returns the sentence with its variable parts masked: quoted text becomes `…`, and a word with a digit
/// becomes `#`. Sentences about the same problem get the same key even if they contain different values, ids,
/// positions or sizes.
pub fn grouping_key(sentence: &str) -> String {
    let mut out = String::with_capacity(sentence.len());
    let mut rest = sentence;
    while let Some(first) = rest.chars().next() {
        // An opening quote without a closing one is plain text, or it would mask the rest of the sentence.
        if let Some(closing) = closing_quote(first)
            && let Some(end) = rest[first.len_utf8()..].find(closing)
        {
            out.extend([first, '…', closing]);
            rest = &rest[first.len_utf8() + end + closing.len_utf8()..];
        } else if is_word_char(first) {
            let end = rest.find(|c| !is_word_char(c)).unwrap_or(rest.len());
            let word = &rest[..end];
            out.push_str(if word.contains(|c: char| c.is_ascii_digit()) { "#" } else { word });
            rest = &rest[end..];
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}

/// Returns the quote character that closes `opening`, or `None` if `opening` does not open a quotation.
const fn closing_quote(opening: char) -> Option<char> {
    match opening {
        '`' => Some('`'),
        '"' => Some('"'),
        '“' => Some('”'),
        _ => None,
    }
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(sentence: &str, expected: &str) {
        assert_eq!(grouping_key(sentence), expected);
    }

    #[test]
    fn values_ids_positions_and_sizes_do_not_change_the_key() {
        check("byte 17 is not UTF-8", "byte # is not #");
        check("unknown variant `fine`, expected `success`", "unknown variant `…`, expected `…`");
        check("expected value at line 1 column 3", "expected value at line # column #");
        check(
            "there is no retrospective 4e45b581-818a-81df-927e-01d746c53e94",
            "there is no retrospective #",
        );
        check("“größer” is 1.5 times “x", "“…” is #.# times “x");
        check("data.steps[3].text", "data.steps[#].text");
        check("is missing", "is missing");
        check("", "");
    }

    proptest! {
        #[test]
        fn a_shape_is_its_own_shape_and_never_longer_by_more_than_its_quotes(sentence in ".{0,200}") {
            let once = grouping_key(&sentence);
            prop_assert_eq!(&grouping_key(&once), &once);
            prop_assert!(once.chars().count() <= sentence.chars().count() * 2);
        }

        #[test]
        fn the_number_in_a_sentence_does_not_matter(a: u64, b: u64) {
            let of = |n: u64| grouping_key(&format!("it is {n} bytes long"));
            prop_assert_eq!(of(a), of(b));
        }
    }
}
