//! Finds the sentences of a remark that a quote is from.

use crate::text::RemarkText;

/// Minimum length of a quote, in characters. A shorter one could be from anywhere.
const QUOTE_CHARS_MIN: usize = 8;

/// Returns the whole sentences of the remark's author that contain the quote, so that a quote of half a sentence drops no
/// negation. Returns `None` if the author did not write it: it is invented, or from a quotation or a code block.
pub(crate) fn find_quoted_sentences(body: &str, quote: &str) -> Option<Vec<String>> {
    let sentences = RemarkText::parse(body).sentences;
    let quoted: Vec<String> = RemarkText::parse(quote).sentences.iter().map(|one| normalize(one)).collect();
    let quoted = quoted.join(" ");
    if quoted.chars().count() < QUOTE_CHARS_MIN {
        return None;
    }
    let (mut joined, mut ends) = (String::new(), Vec::new());
    for sentence in &sentences {
        if !joined.is_empty() {
            joined.push(' ');
        }
        joined.push_str(&normalize(sentence));
        ends.push(joined.len());
    }
    let from = joined.find(&quoted)?;
    let to = from + quoted.len();
    let mut starts = std::iter::once(0).chain(ends.iter().map(|end| end + 1));
    let touched = ends.iter().map(|end| (starts.next().unwrap_or_default(), *end));
    let found: Vec<String> = touched
        .zip(sentences.iter())
        .filter(|((start, end), _)| *start < to && from < *end)
        .map(|(_, sentence)| sentence.clone())
        .collect();
    (!found.is_empty()).then_some(found)
}

/// Makes blanks and apostrophes equal, and removes the punctuation at the end.
fn normalize(text: &str) -> String {
    let line = text.replace('’', "'").split_whitespace().collect::<Vec<_>>().join(" ");
    line.trim_end_matches(['.', '!', ',', ';', ':', '…']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_is_extended_to_whole_sentences_of_the_author() {
        let body = "nit: Don’t use *globals* here. We   inject\nthem. Thanks!";
        let found = |quote: &str| find_quoted_sentences(body, quote).unwrap_or_default();
        assert_eq!(found("use globals here"), ["Don’t use globals here."]);
        assert_eq!(found("Don't use *globals* here."), ["Don’t use globals here."]);
        assert_eq!(found("globals here. We inject them").len(), 2);
        assert_eq!(found("We inject them."), ["We   inject them."]);
        assert_eq!(found("them"), Vec::<String>::new(), "too short");
    }
}
