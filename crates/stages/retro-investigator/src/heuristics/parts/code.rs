//! Finds the keyword arguments in which two pieces of source code differ, as in `read_csv(path, encoding='latin-1')`.
//! Nothing of a language is known but that calls have names, parentheses and `key=value`.

/// Maximum number of new keywords that are a lesson. More of them are other code.
const KEYWORDS_MAX: usize = 3;
/// Maximum number of characters of code that are read.
const CODE_CHARS_MAX: usize = 8_000;

/// Keyword argument of a call in source code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Keyword {
    /// Last part of the name of what is called.
    pub(super) function: String,
    pub(super) key: String,
    /// Text of the value; at most one word or string.
    pub(super) value: String,
}

/// Returns the keyword arguments that only the second code has. Empty if there are too many, or if the texts are no code.
pub(super) fn new_keywords(before: &str, after: &str) -> Vec<Keyword> {
    let is_code = |text: &str| text.contains('(') && text.len() <= CODE_CHARS_MAX;
    if !is_code(before) || !is_code(after) {
        return Vec::new();
    }
    let known = keywords(before);
    let new: Vec<Keyword> = keywords(after).into_iter().filter(|one| !known.contains(one)).collect();
    if new.len() > KEYWORDS_MAX { Vec::new() } else { new }
}

/// Returns the name of what source code calls first, such as `install.packages`.
pub(super) fn first_called(code: &str) -> Option<&str> {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let before = |at: usize| {
        let start = code[..at].char_indices().rev().take_while(|(_, c)| is_inner(*c)).last();
        let start = start.map_or(at, |(start, _)| start);
        &code[start..at]
    };
    code.match_indices('(')
        .map(|(at, _)| before(at))
        .find(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))
}

fn keywords(code: &str) -> Vec<Keyword> {
    let chars: Vec<char> = code.chars().collect();
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let name_before = |end: usize| -> String {
        let start = chars[..end].iter().rposition(|c| !is_name(*c)).map_or(0, |at| at + 1);
        chars[start..end].iter().collect()
    };
    let (mut calls, mut found): (Vec<String>, Vec<Keyword>) = (Vec::new(), Vec::new());
    let mut quote: Option<char> = None;
    for (at, c) in chars.iter().copied().enumerate() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(') => calls.push(name_before(at)),
            (None, ')') => {
                calls.pop();
            }
            (None, '=') if !matches!(chars.get(at + 1), Some('=')) => {
                let key = name_before(at);
                let value = value_from(&chars[at + 1..]);
                if let Some(function) = calls.last()
                    && !function.is_empty()
                    && !key.is_empty()
                    && !value.is_empty()
                {
                    found.push(Keyword { function: function.clone(), key, value });
                }
            }
            _ => {}
        }
    }
    found
}

/// Returns the value at the start of some code: a string with its quotes, or what comes before a separator.
fn value_from(chars: &[char]) -> String {
    match chars.first() {
        Some(quote @ ('\'' | '"')) => {
            let end = chars[1..].iter().position(|c| c == quote).map_or(0, |at| at + 2);
            chars[..end].iter().collect()
        }
        _ => chars.iter().take_while(|c| !matches!(c, ',' | ')' | '(' | '\n' | ' ')).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_code_calls_first_is_named() {
        assert_eq!(first_called("d <- read.csv('a.csv')"), Some("read.csv"));
        assert_eq!(first_called("é(1); (2); library(x)"), Some("library"));
        assert_eq!(first_called("plain words"), None);
    }

    #[test]
    fn new_keywords_are_found_and_other_code_is_not() {
        let new = |before: &str, after: &str| -> Vec<String> {
            let found = new_keywords(before, after).into_iter();
            found.map(|one| format!("{} {}={}", one.function, one.key, one.value)).collect()
        };
        let before = "df = pd.read_csv('a(1).csv', sep=';')\ndf.head()";
        let after = "df = pd.read_csv('a(1).csv', sep=';', encoding='latin-1')\ndf.head()";
        assert_eq!(new(before, after), ["read_csv encoding='latin-1'"]);
        assert_eq!(new(after, after), [""; 0]);
        assert_eq!(new("f(x)", "g(f(x, n=3), m=2)"), ["f n=3", "g m=2"]);
        assert_eq!(new("f(x)", "y = 2\nf(x == y)"), [""; 0]);
        assert_eq!(new("plain words", "other words"), [""; 0]);
    }
}
