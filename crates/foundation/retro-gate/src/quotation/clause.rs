//! Splits a line into clauses, at which a quotation may end.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

/// Maximum number of bytes that are read of a clause after a soft border. Orders are recognised by their first
/// words, and a line of nothing but borders must not take quadratic time.
const SOFT_CLAUSE_BYTES_MAX: usize = 200;

/// Part of a line that may be a sentence of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Clause {
    /// Position in the line.
    pub(super) range: Range<usize>,
    /// End of the previous clause, where a quotation without this one ends.
    pub(super) cut: usize,
    /// Whether the border in front of the clause is soft, so that the clause is read with the one before it,
    /// too.
    pub(super) soft: bool,
}

/// Returns the clauses of a line, sorted by position. A hard border such as `; ` ends a clause. A soft border,
/// such as a line break, an arrow or a bullet, only begins another one: otherwise a line break after the first
/// word would hide an order.
pub(super) fn split_clauses(line: &str) -> Vec<Clause> {
    let mut clauses = Vec::new();
    let mut start = 0;
    let mut cut = 0;
    let end = line.len()..line.len();
    let ends = HARD_BORDER.find_iter(line).map(|border| border.range());
    for border in ends.chain(std::iter::once(end)) {
        clauses.push(Clause { range: start..border.start, cut, soft: false });
        let body = &line[start..border.start];
        clauses.extend(SOFT_BORDER.find_iter(body).map(|soft| {
            let at = start + soft.end();
            let end = line.floor_char_boundary(border.start.min(at + SOFT_CLAUSE_BYTES_MAX));
            Clause { range: at..end, cut: start + soft.start(), soft: true }
        }));
        start = border.end;
        cut = border.start;
    }
    clauses.extend(QUOTED.captures_iter(line).filter_map(|found| {
        let quoted = found.get(1)?;
        let end =
            HARD_BORDER.find(quoted.as_str()).map_or(quoted.end(), |border| quoted.start() + border.start());
        Some(Clause { range: quoted.start()..end, cut: found.get(0)?.start(), soft: true })
    }));
    clauses.sort_by_key(|clause| (clause.cut, clause.range.start));
    clauses
}

// Marks between clauses, and "to fix", after which a remedy stands.
static HARD_BORDER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"[.!?;]+(?:\s|$)|\)\s|:\s|\s[-–—]+\s|,\s|\(|\s\|\s|\bto (?:fix|resolve|continue|proceed|solve|avoid|bypass|unblock)\b",
    )
    .expect("constant patterns compile")
});

// Line breaks, arrows, bullets and brackets. A mark that operators consist of counts only between spaces.
static SOFT_BORDER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\n|\s(?:[*=/+·•●▪◦‣~]+|[=-]+>)\s|[→⟶➜➔⇒⟹▶►—…\[{]\s*").expect("constant patterns compile")
});

// A sentence within quotation marks. A name is shorter.
static QUOTED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#""([^"]{12,200})""#).expect("constant patterns compile"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_soft_border_begins_a_clause_and_ends_none() {
        let clauses = |line: &'static str| -> Vec<&'static str> {
            split_clauses(line).into_iter().map(|clause| &line[clause.range]).collect()
        };
        assert_eq!(clauses("a b; c d"), ["a b", "c d"]);
        assert_eq!(clauses("a\nb c → d"), ["a\nb c → d", "b c → d", "d"]);
        assert_eq!(clauses("a=b c/d"), ["a=b c/d"]);
        assert_eq!(clauses("a \"b\" \"one two three\""), ["a \"b\" \"one two three\"", "one two three"]);
        assert_eq!(clauses("\"one two three, four\"").first(), Some(&"\"one two three"));
    }
}
