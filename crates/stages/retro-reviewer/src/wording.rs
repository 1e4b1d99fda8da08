//! Checks that a wording of a rule that the program did not phrase says what the remark says: mechanically, and in doubt it
//! does not.
//!
//! A wording could drop a "not", invent a name, swap what is wanted with what is rejected, or drop an exception. So each of its
//! content words has to stand in the words that were quoted, and on the same side of a negation; numbers and names have to stand
//! there letter by letter; and it has to keep every condition. This refuses many good wordings. Then the remark stays as the
//! heuristics read it, and a person can still make a rule of it.

use std::collections::BTreeSet;

/// Words that only connect or advise, and may be added to an instruction.
const GLUE: &[&str] = &[
    "a", "an", "the", "and", "or", "of", "in", "on", "at", "to", "for", "from", "with", "by", "as", "into",
    "that", "this", "these", "those", "it", "its", "is", "are", "be", "been", "was", "were", "do", "does",
    "did", "use", "uses", "using", "used", "make", "sure", "ensure", "keep", "please", "should", "must",
    "shall", "will", "can", "we", "you", "our", "your", "i", "they", "them", "their", "all", "any", "each",
    "every", "always", "have", "has", "there", "so", "then", "also", "via", "here", "of",
];

/// Words that reject what stands around them.
const REJECTING: &[&str] = &[
    "not",
    "no",
    "never",
    "don't",
    "dont",
    "doesn't",
    "didn't",
    "cannot",
    "can't",
    "won't",
    "shouldn't",
    "mustn't",
    "isn't",
    "aren't",
    "wasn't",
    "without",
    "avoid",
    "avoids",
    "avoiding",
    "stop",
    "forbid",
    "forbidden",
    "ban",
    "banned",
    "disallow",
    "disallowed",
    "discourage",
    "discouraged",
    "deprecated",
    "prohibited",
    "refuse",
    "refrain",
    "nor",
    "neither",
    "none",
    "nothing",
    "dislike",
    "hate",
    "bad",
    "wrong",
];

/// Words that limit when something holds. A wording that lacks one would hold more often than the remark says.
const LIMITS: &[&str] = &[
    "unless",
    "except",
    "only",
    "if",
    "when",
    "whenever",
    "until",
    "while",
    "where",
    "outside",
    "inside",
    "within",
    "during",
    "but",
    "before",
    "after",
    "temporarily",
    "sometimes",
    "usually",
    "mostly",
    "might",
    "may",
    "maybe",
    "perhaps",
    "unsure",
];

/// Word of a text, as it is compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ContentWord {
    /// The word as written for a name or number, otherwise without the ending of its form.
    text: String,
    /// `true` for a name in code, an identifier, a path or a number.
    is_exact: bool,
}

/// Words of a text: those that it wants or states, those that it rejects, and those that limit it.
#[derive(Debug, Default)]
struct WordSides {
    stated: BTreeSet<ContentWord>,
    rejected: BTreeSet<ContentWord>,
    limits: BTreeSet<String>,
}

/// Fails with the reason, in one clause, if a wording may say something else than the words that it is based on.
pub(crate) fn check_wording(wording: &str, quoted: &str) -> Result<(), String> {
    let (new, said) = (WordSides::parse(wording), WordSides::parse(quoted));
    let known = |word: &ContentWord| said.stated.contains(word) || said.rejected.contains(word);
    if let Some(word) = new.stated.iter().chain(&new.rejected).find(|word| !known(word)) {
        let what = if word.is_exact { "the name or number" } else { "the word" };
        return Err(format!("it has {what} `{}`, which the quoted words do not have", word.text));
    }
    let turned = |from: &BTreeSet<ContentWord>, to: &BTreeSet<ContentWord>| {
        from.iter().find(|word| !to.contains(*word)).map(|word| word.text.clone())
    };
    if let Some(word) = turned(&new.stated, &said.stated) {
        return Err(format!("it states `{word}`, which the quoted words reject"));
    }
    if let Some(word) = turned(&new.rejected, &said.rejected) {
        return Err(format!("it rejects `{word}`, which the quoted words do not reject"));
    }
    if let Some(limit) = said.limits.difference(&new.limits).next() {
        return Err(format!("it drops the condition after `{limit}`"));
    }
    if let Some(limit) = new.limits.difference(&said.limits).next() {
        return Err(format!("it adds the condition `{limit}`"));
    }
    if new.stated.is_empty() && new.rejected.is_empty() {
        return Err("it has no word of the quoted words".to_owned());
    }
    Ok(())
}

impl WordSides {
    /// Reads a text clause by clause. A negation holds for its whole clause: what is rejected may stand before it ("X is not
    /// allowed") or after it ("never X").
    fn parse(text: &str) -> Self {
        let mut sides = Self::default();
        for clause in split_clauses(text) {
            let (mut before, mut rejecting, mut words) = (Vec::new(), false, Vec::new());
            for (at, token) in clause.iter().enumerate() {
                let lower = token.text.to_lowercase();
                let next = clause.get(at + 1).map(|next| next.text.to_lowercase());
                let is_pair = |first: &str, second: &str| lower == first && next.as_deref() == Some(second);
                if token.is_code {
                    words.extend(content_word(token));
                } else if is_pair("instead", "of") || is_pair("rather", "than") || lower == "over" {
                    // What stands before it is wanted, what stands after it is rejected.
                    before.append(&mut words);
                    rejecting = true;
                } else if REJECTING.contains(&lower.as_str()) || lower.ends_with("n't") {
                    rejecting = true;
                } else if LIMITS.contains(&lower.as_str()) {
                    sides.limits.insert(lower);
                } else if !(lower == "than" || lower == "of" || GLUE.contains(&lower.as_str())) {
                    words.extend(content_word(token));
                }
            }
            sides.stated.extend(before);
            if rejecting { sides.rejected.extend(words) } else { sides.stated.extend(words) }
        }
        sides
    }
}

/// Token of a text.
#[derive(Debug)]
struct Token {
    text: String,
    is_code: bool,
}

/// Verbs with which a clause after a comma begins anew, so that a negation before the comma does not hold for it.
const BEGINNING: &[&str] =
    &["use", "prefer", "always", "please", "we", "instead", "just", "do", "never", "don't", "not", "avoid"];

/// Splits a text into the clauses for which a negation holds.
fn split_clauses(text: &str) -> Vec<Vec<Token>> {
    let plain = text.replace('’', "'");
    let mut clauses: Vec<Vec<Token>> = vec![Vec::new()];
    let mut in_code = false;
    let raw: Vec<&str> = plain.split_whitespace().collect();
    for (at, token) in raw.iter().enumerate() {
        let opens = token.trim_start_matches(['(', '"', '“', '\'']).starts_with('`');
        let is_code = in_code || opens;
        // An odd number of backticks opens or closes code that has spaces in it.
        in_code ^= !token.matches('`').count().is_multiple_of(2);
        let bare = token.trim_matches(|c: char| ",.;:!?()[]{}\"“”`'…".contains(c));
        let begins_anew = !is_code && matches!(bare.to_lowercase().as_str(), "but");
        if begins_anew || (!is_code && matches!(*token, "-" | "--" | "–" | "—")) {
            clauses.push(Vec::new());
        }
        if !bare.is_empty() {
            let clause = clauses.last_mut().expect("there is always a clause");
            clause.push(Token { text: bare.to_owned(), is_code });
        }
        let next = raw.get(at + 1).map_or_else(String::new, |next| next.to_lowercase());
        let comma = token.ends_with(',') && BEGINNING.contains(&next.trim_matches(','));
        if !in_code && (token.ends_with(['.', ';', ':', '!', '?']) || comma) {
            clauses.push(Vec::new());
        }
    }
    clauses
}

fn content_word(token: &Token) -> Option<ContentWord> {
    let text = &token.text;
    let is_name = |c: char| c.is_ascii_digit() || "_./\\-:#@$<>=*".contains(c);
    let has_inner_capital = text.chars().skip(1).any(char::is_uppercase);
    if token.is_code || text.contains(is_name) || has_inner_capital {
        return Some(ContentWord { text: text.clone(), is_exact: true });
    }
    let stem = stem_word(&text.to_lowercase());
    (!stem.is_empty()).then_some(ContentWord { text: stem, is_exact: false })
}

/// Removes the ending of a form of an English word, such as the plural.
fn stem_word(word: &str) -> String {
    const SHORTEST: usize = 3;
    for ending in ["ing", "ed", "es", "s", "e"] {
        if let Some(stem) = word.strip_suffix(ending)
            && stem.chars().count() >= SHORTEST
            && !word.ends_with("ss")
        {
            // "naming" and "name", "logged" and "log"
            let stem =
                stem.strip_suffix('e').filter(|short| short.chars().count() >= SHORTEST).unwrap_or(stem);
            let mut chars: Vec<char> = stem.chars().collect();
            if chars.len() > SHORTEST && chars[chars.len() - 1] == chars[chars.len() - 2] && ending != "s" {
                chars.pop();
            }
            return chars.into_iter().collect();
        }
    }
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(wording: &str, quoted: &str) {
        assert_eq!(check_wording(wording, quoted), Ok(()), "{wording:?} for {quoted:?}");
    }

    fn refuses(wording: &str, quoted: &str, why: &str) {
        let refused = check_wording(wording, quoted);
        let reason = refused.expect_err(&format!("{wording:?} for {quoted:?}"));
        assert!(reason.contains(why), "{wording:?} for {quoted:?}: {reason}");
    }

    #[test]
    fn an_instruction_in_the_words_of_the_remark_is_accepted() {
        accepts("Name files in snake_case", "the naming of our files is snake_case");
        accepts("Do not capitalize error logs", "Error logs should not be capitalized.");
        accepts("Use `pathlib` instead of `os.path`", "`pathlib` instead of `os.path`, as everywhere");
        accepts("Use Vitest, not Jest", "Don't use Jest, use Vitest.");
        accepts("Never log request bodies", "request bodies must never be logged");
        accepts("Keep tests beside the code", "tests are kept beside the code in this repo");
        accepts("Only log errors in `main`", "errors are only logged in `main`");
    }

    #[test]
    fn a_dropped_or_added_negation_is_refused() {
        refuses("Use unwrap in handlers", "Do not use unwrap in handlers.", "reject");
        refuses("Capitalize error logs", "Error logs should not be capitalized.", "reject");
        refuses("Use globals", "globals are forbidden here", "reject");
        refuses("Do not use Vitest", "We use Vitest", "reject");
        refuses("Use Jest", "We use Vitest instead of Jest", "reject");
        refuses("Use Jest instead of Vitest", "We use Vitest instead of Jest", "reject");
        refuses("Use A, B and C", "Do not use A, B or C", "reject");
        refuses("Add tests", "Don't forget to add tests", "reject");
        refuses("Prefer `b` over `a`", "We prefer `a` over `b`", "reject");
    }

    #[test]
    fn an_invented_name_number_or_word_is_refused() {
        refuses("Use `parseDate`", "Use `parse_date` for dates", "the name or number `parseDate`");
        refuses("Keep lines below 120 characters", "keep lines below 100 characters", "`120`");
        refuses("Validate and encrypt input", "validate input", "the word `encrypt`");
        refuses("Use api/v2", "Use api/v1", "`api/v2`");
        refuses("Use it", "We like it", "no word");
    }

    #[test]
    fn a_dropped_or_added_condition_is_refused() {
        refuses("Never use unwrap", "never use unwrap unless in tests", "unless");
        refuses("Log errors", "errors are only logged in main", "only");
        refuses("Always log errors if they recur", "errors are logged and recur", "adds the condition");
        refuses("Use Vitest", "maybe we use Vitest", "maybe");
    }
}
