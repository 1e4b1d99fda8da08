//! Checks that no name and no heading uses a word that the glossary retired.

use regex::Regex;

use super::problem::Problem;
use super::tree::{Manual, Tree};
use crate::language::Syntax;

/// Path of the glossary page, which defines each word and lists the retired ones.
const GLOSSARY: &str = "crates/GLOSSARY.md";
/// Heading above the table of retired words. The first column of the table contains the words, the second
/// their replacements.
const RETIRED: &str = "## Retired words";

/// Reports retired words that are used as whole names of our own definitions or in headings of manuals.
pub(super) fn find_retired_words(tree: &Tree) -> Vec<Problem> {
    let Some(glossary) = tree.manuals.iter().find(|manual| manual.path == GLOSSARY) else {
        return vec![format!("{GLOSSARY} is missing: it says what each word of the program means")];
    };
    let retired = parse_retired(&glossary.text);
    if retired.is_empty() {
        return vec![format!("{GLOSSARY} has no table under \"{RETIRED}\"")];
    }
    let syntax = Syntax::read(tree);
    let names = syntax.definitions.iter().filter_map(|definition| {
        let (word, instead) = retired.iter().find(|(word, _)| *word == definition.name)?;
        let (path, line) = (&definition.path, definition.line);
        Some(format!("{path}:{line} defines `{word}`, a retired word: {instead}"))
    });
    let headings = tree.manuals.iter().flat_map(|manual| retired_headings(manual, &retired));
    names.chain(headings).collect()
}

/// Parses the retired words of the glossary, each with its replacement.
fn parse_retired(glossary: &str) -> Vec<(String, String)> {
    let Some((_, section)) = glossary.split_once(RETIRED) else { return Vec::new() };
    let rows = section.lines().skip(1).take_while(|line| !line.starts_with('#'));
    let cells = rows.filter_map(|row| row.strip_prefix('|')?.split_once('|'));
    cells
        .flat_map(|(words, instead)| {
            let instead = instead.trim().trim_end_matches('|').trim().to_owned();
            code_spans(words).map(move |word| (word.to_owned(), instead.clone()))
        })
        .collect()
}

/// Returns the contents of the code spans in `text`.
fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn retired_headings(manual: &Manual, retired: &[(String, String)]) -> Vec<Problem> {
    if manual.path == GLOSSARY {
        return Vec::new();
    }
    let mut in_code = false;
    let mut problems = Vec::new();
    for (index, line) in manual.text.lines().enumerate() {
        // In a code block, a shell comment begins like a heading.
        in_code ^= line.starts_with("```");
        if in_code || !line.starts_with('#') {
            continue;
        }
        // The name of a type is not a word in a sentence.
        let words = retired.iter().filter(|(word, _)| word.starts_with(char::is_lowercase));
        for (word, instead) in words.filter(|(word, _)| has_word(line, word)) {
            problems.push(format!(
                "{}:{} has the retired word `{word}` in a heading: {instead}",
                manual.path,
                index + 1
            ));
        }
    }
    problems
}

fn has_word(line: &str, word: &str) -> bool {
    let pattern = format!(r"(?i)\b{}\b", regex::escape(word));
    Regex::new(&pattern).is_ok_and(|pattern| pattern.is_match(line))
}

#[cfg(test)]
mod tests {
    use super::super::tree::{Crate, Source};
    use super::*;

    const TABLE: &str = "# Words\n\n## Retired words\n\n| retired | instead |\n|---|---|\n| `hear`, `Heard` | `record_events` |\n";

    fn tree(source: &str, manual: &str) -> Tree {
        let sources = vec![Source { path: "crates/a/src/a.rs".to_owned(), text: source.to_owned() }];
        let page = |path: &str, text: &str| Manual {
            path: path.to_owned(),
            text: text.to_owned(),
            ..Manual::default()
        };
        Tree {
            crates: vec![Crate { name: "a".to_owned(), sources, ..Crate::default() }],
            manuals: vec![page(GLOSSARY, TABLE), page("README.md", manual)],
            ..Tree::default()
        }
    }

    #[test]
    fn a_retired_name_is_refused_and_a_call_of_another_crate_is_not() {
        let problems = find_retired_words(&tree("struct Heard { hear: u8 }\nfn hear() {}", ""));
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(problems[0].contains("`Heard`") && problems[0].contains("record_events"), "{problems:?}");
        assert!(find_retired_words(&tree("fn listen() { ear.hear(); overheard(); }", "")).is_empty());
    }

    #[test]
    fn a_retired_heading_is_refused_and_a_comment_in_a_block_of_code_is_not() {
        let problems = find_retired_words(&tree("", "# What we hear\n```sh\n# hear this\n```\nhear\n"));
        assert_eq!(problems.len(), 1, "{problems:?}");
    }

    #[test]
    fn a_missing_page_is_a_problem() {
        assert_eq!(find_retired_words(&Tree::default()).len(), 1);
    }
}
