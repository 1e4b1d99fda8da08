//! What sentences about the same mistake have in common, so that a thousand letters are one line.

/// A sentence without what varies: what is quoted becomes `…`, and a word with a digit in it `#`. Sentences of one mistake
/// have one shape whatever values, ids, positions or sizes they name.
pub fn shape(sentence: &str) -> String {
    let mut out = String::with_capacity(sentence.len());
    let mut rest = sentence;
    while let Some(first) = rest.chars().next() {
        if let Some(closing) = closing(first)
            && let Some(end) = rest[first.len_utf8()..].find(closing)
        {
            out.extend([first, '…', closing]);
            rest = &rest[first.len_utf8() + end + closing.len_utf8()..];
        } else if in_word(first) {
            let end = rest.find(|c| !in_word(c)).unwrap_or(rest.len());
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

/// What ends a quotation that begins so.
const fn closing(opening: char) -> Option<char> {
    match opening {
        '`' => Some('`'),
        '"' => Some('"'),
        '“' => Some('”'),
        _ => None,
    }
}

fn in_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(sentence: &str, expected: &str) {
        assert_eq!(shape(sentence), expected);
    }

    #[test]
    fn values_ids_positions_and_sizes_do_not_tell_mistakes_apart() {
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
            let once = shape(&sentence);
            prop_assert_eq!(&shape(&once), &once);
            prop_assert!(once.chars().count() <= sentence.chars().count() * 2);
        }

        #[test]
        fn the_number_in_a_sentence_does_not_matter(a: u64, b: u64) {
            let of = |n: u64| shape(&format!("it is {n} bytes long"));
            prop_assert_eq!(of(a), of(b));
        }
    }
}
