//! Finds the pieces in which two long texts differ, such as queries or filters, or the items in which two lists differ:
//! what was put in, and what was taken out.
//! Nothing of a language is known but that texts consist of words and marks.

use serde_json::Value;

use super::values::{is_shareable, text_of};

/// Maximum number of tokens of a text, and of items of a list, that are compared: comparing takes quadratic time.
const TOKENS_MAX: usize = 400;
/// Minimum share of the tokens that both texts have, in per cent. Otherwise they are different texts.
const SHARED_MIN: usize = 60;
/// Minimum number of tokens of a text. A shorter one is a value and not a text.
const TOKENS_MIN: usize = 6;
/// Maximum number of places in which the texts differ.
const PIECES_MAX: usize = 3;
/// Minimum number of characters of a piece. Shorter ones are in every text.
const PIECE_CHARS_MIN: usize = 3;

/// Place in which two texts differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// What only the second text has there; empty if something was taken out.
    pub(super) added: String,
    /// What only the first text has there; empty if something was put in.
    pub(super) removed: String,
}

/// Returns the places in which two texts differ. Empty if they differ in too much, or in nothing that can be named.
pub(super) fn changed_pieces(before: &str, after: &str) -> Vec<Piece> {
    let (a, b) = (split_tokens(before), split_tokens(after));
    let size = a.len().max(b.len());
    if a.len().min(b.len()) < TOKENS_MIN || size > TOKENS_MAX {
        return Vec::new();
    }
    let kept = align(&a, &b);
    if kept.len() * 100 < size * SHARED_MIN {
        return Vec::new();
    }
    let ends = kept.iter().copied().chain([(a.len(), b.len())]);
    let (mut from, mut pieces) = ((0, 0), Vec::new());
    for (i, j) in ends {
        if (i, j) != from {
            let piece = Piece { added: trim_marks(&b[from.1..j]), removed: trim_marks(&a[from.0..i]) };
            let piece = if piece.is_short() { piece.with_word_before(&b[..from.1]) } else { piece };
            pieces.extend((!piece.added.is_empty() || !piece.removed.is_empty()).then_some(piece));
        }
        from = (i + 1, j + 1);
    }
    if pieces.len() > PIECES_MAX {
        return Vec::new();
    }
    pieces.retain(|piece| !piece.is_short());
    pieces
}

/// Returns the items that only one of two lists of texts and numbers has. Empty if the lists differ in too much.
pub(super) fn changed_items(before: &[Value], after: &[Value]) -> Vec<Piece> {
    let is_leaf = |item: &&Value| item.is_string() || item.is_number();
    let is_long = before.len().max(after.len()) > TOKENS_MAX;
    if before.is_empty() || is_long || !before.iter().chain(after).all(|item| is_leaf(&item)) {
        return Vec::new();
    }
    let only = |among: &[Value], others: &[Value]| -> Vec<String> {
        among.iter().filter(|item| !others.contains(item)).map(text_of).collect()
    };
    let (added, removed) = (only(after, before), only(before, after));
    let changed = added.len().max(removed.len());
    if changed == 0 || changed > PIECES_MAX {
        return Vec::new();
    }
    let pieces = (0..changed).map(|at| Piece {
        added: added.get(at).cloned().unwrap_or_default(),
        removed: removed.get(at).cloned().unwrap_or_default(),
    });
    pieces.collect()
}

impl Piece {
    /// Returns `true` if the piece is too short to be found in other texts.
    fn is_short(&self) -> bool {
        let text = if self.added.is_empty() { &self.removed } else { &self.added };
        text.chars().count() < PIECE_CHARS_MIN
    }

    /// Returns the piece with the word that stands directly before it, as in `iPhone 16`. `before` are the tokens before
    /// the place.
    fn with_word_before(self, before: &[&str]) -> Self {
        let [.., word, blank] = before else { return self };
        if !blank.starts_with(char::is_whitespace) || !word.starts_with(char::is_alphabetic) {
            return self;
        }
        let join = |piece: &str| if piece.is_empty() { String::new() } else { format!("{word} {piece}") };
        Self { added: join(&self.added), removed: join(&self.removed) }
    }

    /// Returns what can be said about a text with this piece, from the whole piece to its first word. `is_known` tells
    /// of a text whether it is a value of this run.
    pub(super) fn describe(&self, is_known: impl Fn(&str) -> bool) -> Vec<String> {
        if self.added.is_empty() {
            // What an error names as wrong may be left out.
            let can_be_named = is_shareable(&self.removed);
            return can_be_named.then(|| format!("not containing `{}`", self.removed)).into_iter().collect();
        }
        let can_be_named =
            |text: &&str| text.chars().count() >= PIECE_CHARS_MIN && is_shareable(text) && !is_known(text);
        let texts = std::iter::once(self.added.as_str()).chain(self.key());
        texts.filter(can_be_named).map(|text| format!("containing `{text}`")).collect()
    }

    /// Returns the name before a value, as in `earliest=-24h`, or of what is called, as in `to_date(day)`.
    fn key(&self) -> Option<&str> {
        let first = self.first_word();
        let after = self.added.strip_prefix(first)?;
        after.starts_with(['=', ':', '(']).then_some(first)
    }

    /// Returns the first word of the piece, by which it is found in other runs.
    pub(super) fn first_word(&self) -> &str {
        let text = if self.added.is_empty() { &self.removed } else { &self.added };
        let is_inner = |c: char| c.is_alphanumeric() || c == '_';
        let start = text.find(is_inner).unwrap_or(0);
        let end = text[start..].find(|c| !is_inner(c)).map_or(text.len(), |end| start + end);
        &text[..end]
    }
}

/// Splits a text into words, runs of blanks and single marks.
fn split_tokens(text: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '/' | '.');
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = if is_word(first) {
            rest.find(|c| !is_word(c))
        } else if first.is_whitespace() {
            rest.find(|c: char| !c.is_whitespace())
        } else {
            Some(first.len_utf8())
        };
        let (token, after) = rest.split_at(end.unwrap_or(rest.len()));
        tokens.push(token);
        rest = after;
        if tokens.len() > TOKENS_MAX {
            break;
        }
    }
    tokens
}

/// Returns the places of the tokens that both texts have, in their order: a longest common subsequence.
fn align(a: &[&str], b: &[&str]) -> Vec<(usize, usize)> {
    let is_blank = |token: &str| token.starts_with(char::is_whitespace);
    let equal = |a: &str, b: &str| a == b || (is_blank(a) && is_blank(b));
    let mut longest = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            longest[i][j] = if equal(a[i], b[j]) {
                longest[i + 1][j + 1] + 1
            } else {
                longest[i + 1][j].max(longest[i][j + 1])
            };
        }
    }
    let (mut i, mut j, mut kept) = (0, 0, Vec::new());
    while i < a.len() && j < b.len() {
        if equal(a[i], b[j]) {
            kept.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if longest[i + 1][j] >= longest[i][j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    kept
}

/// Joins tokens without the marks at their ends that only separate them from the rest.
fn trim_marks(tokens: &[&str]) -> String {
    let joined = tokens.concat();
    let mut text = joined.trim();
    loop {
        let count = |mark: char| text.matches(mark).count();
        let is_loose = |mark: char| match mark {
            ',' | ';' | '|' => true,
            '(' | ')' => count('(') != count(')'),
            '[' | ']' => count('[') != count(']'),
            '{' | '}' => count('{') != count('}'),
            // The other half belongs to the rest of the text.
            '\'' | '"' => count(mark) % 2 == 1,
            _ => false,
        };
        let shorter = text.trim_start_matches(is_loose).trim_end_matches(|c| c == ':' || is_loose(c)).trim();
        if shorter.len() == text.len() {
            return text.to_owned();
        }
        text = shorter;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &str, after: &str, expected: &[&str]) {
        let found: Vec<String> =
            changed_pieces(before, after).iter().flat_map(|piece| piece.describe(|_| false)).collect();
        assert_eq!(found, expected, "{before} → {after}");
    }

    #[test]
    fn what_was_put_in_and_taken_out_is_named() {
        check(
            "select id, name from users where team = 7 order by id",
            "select id, name from users where team = 7 and deleted_at is null order by id",
            &["containing `and deleted_at is null`"],
        );
        check(
            "select sum(amount) from orders where day = '2026-01-01' group by region",
            "select sum(amount) from orders with (nolock) where day = '2026-01-01' group by region",
            &["containing `with (nolock)`"],
        );
        check(
            "select a, b, c from t where a > 1 limit 10",
            "select a, b, c from t where a > 1",
            &["not containing `limit 10`"],
        );
        check(
            "drawtext=text='shot':x=40:y=40:fontsize=36:fontcolor=white",
            "drawtext=fontfile=/usr/share/a.ttf:text='shot':x=40:y=40:fontsize=36:fontcolor=white",
            &["containing `fontfile=/usr/share/a.ttf`", "containing `fontfile`"],
        );
        check(
            "index=main sourcetype=syslog host=web error | stats count by host",
            "index=main sourcetype=syslog host=web error earliest=-24h | stats count by host",
            &["containing `earliest=-24h`", "containing `earliest`"],
        );
        check(
            "platform=iOS Simulator,name=iPhone 14",
            "platform=iOS Simulator,name=iPhone 16",
            &["containing `iPhone 16`"],
        );
        check("short", "text", &[]);
        check("one two three four five six", "a b c d e f g", &[]);
    }
}
