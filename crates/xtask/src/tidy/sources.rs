//! What the source itself shows: rights, purity, honest tests, lengths.

use super::Problem;
use super::tree::{Crate, Source, Tree};

/// Lines from which a file is a place where things are put.
const LINES_MAX: usize = 500;

/// Longer files that may stay so, each with its reason.
const LONG_FILES: &[(&str, &str)] = &[];

/// Files whose tests may sleep, each with its reason.
const SLEEPERS: &[(&str, &str)] = &[];

/// Whoever names one of these can change memory: `Store` holds the writer's port too.
const WRITING_RIGHTS: &[&str] = &["WriterStore", "dyn Store", "retro_store::Store"];

const WRITERS: &[&str] = &[
    "retro-writer",
    "retro-store",
    "retro-store-postgres",
    "retro-store-sql",
    "retro-store-sqlite",
    "retro",
];

/// What asks the machine or the moment.
const NOT_IN_CORE: &[&str] = &[
    "std::env",
    "std::fs",
    "std::io",
    "std::net",
    "std::process",
    "std::thread",
    "SystemTime",
    "Instant",
    "::now(",
    "now_v7(",
    "new_v4(",
    "RandomState",
];

/// Only the writer, the stores behind it and the binary that joins them name a right to write memory.
pub(super) fn writing_right(tree: &Tree) -> Vec<Problem> {
    let others =
        tree.crates.iter().filter(|krate| !WRITERS.contains(&krate.name.as_str()) && krate.name != "xtask");
    let find = |source: &Source| {
        named(
            source,
            &source.production(),
            WRITING_RIGHTS,
            "only the writer changes memory; ask for a narrower port",
        )
    };
    others.flat_map(|krate| krate.sources.iter().flat_map(find)).collect()
}

/// The core's program asks neither the clock nor the machine.
pub(super) fn core_is_pure(tree: &Tree) -> Vec<Problem> {
    let find = |source: &Source| {
        named(source, &source.production(), NOT_IN_CORE, "the core decides from its arguments alone")
    };
    core(tree).flat_map(|krate| krate.sources.iter().flat_map(find)).collect()
}

/// An ignored test is one that nobody runs.
pub(super) fn no_ignored_test(tree: &Tree) -> Vec<Problem> {
    let ignore = concat!("#[", "ignore");
    every_source(tree)
        .flat_map(|source| named(source, &source.lines(), &[ignore], "make it pass, or take it out"))
        .collect()
}

/// A test that sleeps is slow when it passes and wrong when the machine is busy.
pub(super) fn no_sleeping_test(tree: &Tree) -> Vec<Problem> {
    let sleep = concat!("sleep", "(");
    let awake = every_source(tree).filter(|source| !SLEEPERS.iter().any(|(path, _)| *path == source.path));
    awake
        .flat_map(|source| {
            named(source, &source.tests(), &[sleep], "wait for the signal itself, never for time")
        })
        .collect()
}

/// Files stay readable in one sitting. An exception that is no longer needed is a problem too.
pub(super) fn short_files(tree: &Tree) -> Vec<Problem> {
    short_files_but(tree, LONG_FILES)
}

fn short_files_but(tree: &Tree, exceptions: &[(&str, &str)]) -> Vec<Problem> {
    let excepted = |path: &str| exceptions.iter().any(|(known, _)| *known == path);
    let long: Vec<_> = every_source(tree)
        .map(|source| (source, source.text.lines().count()))
        .filter(|(_, n)| *n > LINES_MAX)
        .collect();
    let too_long = long.iter().filter(|(source, _)| !excepted(&source.path)).map(|(source, lines)| {
        format!("{} has {lines} lines, more than {LINES_MAX}: split it along a natural seam", source.path)
    });
    let stale = exceptions.iter().filter(|(path, _)| !long.iter().any(|(source, _)| source.path == *path));
    let stale =
        stale.map(|(path, _)| format!("{path} is excepted from {LINES_MAX} lines and needs it no longer"));
    too_long.chain(stale).collect()
}

fn core(tree: &Tree) -> impl Iterator<Item = &Crate> {
    tree.crates.iter().filter(|krate| krate.name == "retro-core")
}

fn every_source(tree: &Tree) -> impl Iterator<Item = &Source> {
    tree.crates.iter().flat_map(|krate| &krate.sources)
}

/// Where one of `words` stands in `lines` of `source`, each with what to do.
fn named(source: &Source, lines: &[(usize, &str)], words: &[&str], advice: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (number, line) in lines {
        for word in words.iter().filter(|word| names(line, word)) {
            problems.push(format!("{}:{number} has `{word}`: {advice}", source.path));
        }
    }
    problems
}

/// Whether a line has this word, and not a longer one that begins so.
fn names(line: &str, word: &str) -> bool {
    let is_longer = |rest: &str| {
        word.ends_with(char::is_alphanumeric)
            && rest.starts_with(|next: char| next.is_alphanumeric() || next == '_')
    };
    line.match_indices(word).any(|(at, _)| !is_longer(&line[at + word.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_word_is_another() {
        assert!(names("use retro_store::Store;", "retro_store::Store"));
        assert!(!names("use retro_store::StoreError;", "retro_store::Store"));
        assert!(names("Instant::now()", "::now("));
    }

    fn tree(name: &str, path: &str, text: &str) -> Tree {
        let sources = vec![Source { path: path.to_owned(), text: text.to_owned() }];
        Tree { crates: vec![Crate { name: name.to_owned(), sources, ..Crate::default() }], ..Tree::default() }
    }

    #[test]
    fn a_gateway_that_asks_for_the_writers_port_is_found_and_the_writer_is_not() {
        let text = "use retro_store::WriterStore;\n";
        let problems = writing_right(&tree("retro-gateway", "crates/retro-gateway/src/lib.rs", text));
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with("crates/retro-gateway/src/lib.rs:1 has `WriterStore`"));
        assert!(writing_right(&tree("retro-writer", "crates/retro-writer/src/lib.rs", text)).is_empty());
        let whole = "fn f(store: Arc<dyn Store>) {}\n";
        assert_eq!(writing_right(&tree("retro-counter", "crates/retro-counter/src/lib.rs", whole)).len(), 1);
    }

    #[test]
    fn the_core_asking_for_the_time_is_found_but_a_comment_or_a_test_about_it_is_not() {
        let asks = "fn f() { let t = Timestamp::now(); }\n";
        assert_eq!(core_is_pure(&tree("retro-core", "crates/retro-core/src/a.rs", asks)).len(), 1);
        let speaks = "// not SystemTime\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
        assert!(core_is_pure(&tree("retro-core", "crates/retro-core/src/a.rs", speaks)).is_empty());
        assert!(core_is_pure(&tree("retro-bus", "crates/retro-bus/src/a.rs", asks)).is_empty());
    }

    #[test]
    fn an_ignored_test_is_found() {
        let text = format!("#[test]\n{}]\nfn f() {{}}\n", concat!("#[", "ignore"));
        assert_eq!(no_ignored_test(&tree("retro", "crates/retro/tests/a.rs", &text)).len(), 1);
    }

    #[test]
    fn a_sleeping_test_is_found_and_a_sleeping_program_is_not() {
        let line = format!("tokio::time::{}d).await;\n", concat!("sleep", "("));
        assert_eq!(no_sleeping_test(&tree("retro", "crates/retro/tests/a.rs", &line)).len(), 1);
        let inline = format!("fn f() {{}}\n\n#[cfg(test)]\nmod tests {{\n    {line}}}\n");
        assert_eq!(no_sleeping_test(&tree("retro", "crates/retro/src/a.rs", &inline)).len(), 1);
        assert!(no_sleeping_test(&tree("retro", "crates/retro/src/a.rs", &line)).is_empty());
    }

    #[test]
    fn a_long_file_is_found_and_so_is_an_exception_that_is_not_needed() {
        let long = tree("retro", "crates/retro/src/a.rs", &"\n".repeat(LINES_MAX + 1));
        assert_eq!(short_files_but(&long, &[]).len(), 1);
        assert!(short_files_but(&long, &[("crates/retro/src/a.rs", "a table")]).is_empty());
        let short = tree("retro", "crates/retro/src/a.rs", "\n");
        assert_eq!(short_files_but(&short, &[("crates/retro/src/a.rs", "a table")]).len(), 1);
    }
}
