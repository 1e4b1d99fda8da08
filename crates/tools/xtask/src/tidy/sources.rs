//! Checks the text of the sources: write access to memories, purity of the core, ignored and sleeping tests,
//! and file lengths.

use super::problem::Problem;
use super::tree::{Crate, Source, Tree};

/// Maximum number of lines in a file.
const LINES_MAX: usize = 500;

/// Files that may be longer than [`LINES_MAX`], each with its reason.
const LONG_FILES: &[(&str, &str)] = &[];

/// Files whose tests may sleep, each with its reason.
const SLEEPING_TESTS: &[(&str, &str)] = &[];

/// Names of types that grant the right to change memories. `Store` includes the writer's port.
const WRITING_RIGHTS: &[&str] = &["WriterStore", "dyn Store", "retro_store::Store"];

const WRITERS: &[&str] = &["retro-writer", "retro-store", "retro-store-sql", "retro"];

/// Paths by which code names the export of telemetry. Written in two parts, so this file does not match itself.
const TELEMETRY_EXPORT: &[&str] =
    &[concat!("retro_telemetry::", "export"), concat!("retro_telemetry::", "{export")];

/// Names in code that accesses the machine or the clock.
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

/// Checks that only the writer, the stores and the binary use types that grant the right to change memories.
pub(super) fn check_writing_right(tree: &Tree) -> Vec<Problem> {
    let others =
        tree.crates.iter().filter(|krate| !WRITERS.contains(&krate.name.as_str()) && krate.name != "xtask");
    let find = |source: &Source| {
        find_words(
            source,
            &source.production_lines(),
            WRITING_RIGHTS,
            "only the writer changes memory; ask for a narrower port",
        )
    };
    others.flat_map(|krate| krate.sources.iter().flat_map(find)).collect()
}

/// Checks that the core accesses neither the clock nor the machine.
pub(super) fn check_core_sources(tree: &Tree) -> Vec<Problem> {
    let find = |source: &Source| {
        find_words(
            source,
            &source.production_lines(),
            NOT_IN_CORE,
            "the core must decide from its arguments alone",
        )
    };
    core_crate(tree).flat_map(|krate| krate.sources.iter().flat_map(find)).collect()
}

/// Checks that only the binary installs the SDK and exports telemetry. Everything else measures through the API
/// of `retro-telemetry`, which does nothing until then.
pub(super) fn check_telemetry_export(tree: &Tree) -> Vec<Problem> {
    let others = tree.crates.iter().filter(|krate| krate.name != "retro");
    let find = |source: &Source| {
        find_words(
            source,
            &source.production_lines(),
            TELEMETRY_EXPORT,
            "only the crate `retro` exports telemetry; measure through `trace` and `metrics`",
        )
    };
    others.flat_map(|krate| krate.sources.iter().flat_map(find)).collect()
}

/// Checks that no test is marked as ignored.
pub(super) fn check_no_ignored_test(tree: &Tree) -> Vec<Problem> {
    // Written in two parts, so this file does not match itself.
    let ignore = concat!("#[", "ignore");
    all_sources(tree)
        .flat_map(|source| find_words(source, &source.code_lines(), &[ignore], "make it pass, or remove it"))
        .collect()
}

/// Checks that no test sleeps, because a sleeping test is slow if it passes, and fails if the machine is
/// busy.
pub(super) fn check_no_sleeping_test(tree: &Tree) -> Vec<Problem> {
    // Written in two parts, so this file does not match itself.
    let sleep = concat!("sleep", "(");
    let awake =
        all_sources(tree).filter(|source| !SLEEPING_TESTS.iter().any(|(path, _)| *path == source.path));
    awake
        .flat_map(|source| {
            find_words(source, &source.test_lines(), &[sleep], "wait for the event itself, not for time")
        })
        .collect()
}

/// Checks that files have at most [`LINES_MAX`] lines. An exception that is no longer needed is also a
/// problem.
pub(super) fn check_file_lengths(tree: &Tree) -> Vec<Problem> {
    check_file_lengths_except(tree, LONG_FILES)
}

fn check_file_lengths_except(tree: &Tree, exceptions: &[(&str, &str)]) -> Vec<Problem> {
    let excepted = |path: &str| exceptions.iter().any(|(known, _)| *known == path);
    let long: Vec<_> = all_sources(tree)
        .map(|source| (source, source.text.lines().count()))
        .filter(|(_, n)| *n > LINES_MAX)
        .collect();
    let too_long = long
        .iter()
        .filter(|(source, _)| !excepted(&source.path))
        .map(|(source, lines)| format!("{} has {lines} lines, more than {LINES_MAX}: split it", source.path));
    let stale = exceptions.iter().filter(|(path, _)| !long.iter().any(|(source, _)| source.path == *path));
    let stale = stale.map(|(path, _)| format!("{path} no longer needs its exception from {LINES_MAX} lines"));
    too_long.chain(stale).collect()
}

fn core_crate(tree: &Tree) -> impl Iterator<Item = &Crate> {
    tree.crates.iter().filter(|krate| krate.name == "retro-core")
}

fn all_sources(tree: &Tree) -> impl Iterator<Item = &Source> {
    tree.crates.iter().flat_map(|krate| &krate.sources)
}

/// Finds `words` in `lines` of `source`. Returns one problem with the advice per line and word.
fn find_words(source: &Source, lines: &[(usize, &str)], words: &[&str], advice: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (number, line) in lines {
        for word in words.iter().filter(|word| contains_word(line, word)) {
            problems.push(format!("{}:{number} has `{word}`: {advice}", source.path));
        }
    }
    problems
}

/// Returns `true` if the line contains this word. A longer word that begins with it does not count.
fn contains_word(line: &str, word: &str) -> bool {
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
    fn a_longer_word_does_not_match() {
        assert!(contains_word("use retro_store::Store;", "retro_store::Store"));
        assert!(!contains_word("use retro_store::StoreError;", "retro_store::Store"));
        assert!(contains_word("Instant::now()", "::now("));
    }

    fn tree(name: &str, path: &str, text: &str) -> Tree {
        let sources = vec![Source { path: path.to_owned(), text: text.to_owned() }];
        Tree { crates: vec![Crate { name: name.to_owned(), sources, ..Crate::default() }], ..Tree::default() }
    }

    #[test]
    fn a_gateway_that_asks_for_the_writers_port_is_found_and_the_writer_is_not() {
        let text = "use retro_store::WriterStore;\n";
        let problems =
            check_writing_right(&tree("retro-gateway", "crates/edges/retro-gateway/src/lib.rs", text));
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with("crates/edges/retro-gateway/src/lib.rs:1 has `WriterStore`"));
        assert!(
            check_writing_right(&tree("retro-writer", "crates/stages/retro-writer/src/lib.rs", text))
                .is_empty()
        );
        let whole = "fn f(store: Arc<dyn Store>) {}\n";
        assert_eq!(
            check_writing_right(&tree("retro-counter", "crates/stages/retro-counter/src/lib.rs", whole))
                .len(),
            1
        );
    }

    #[test]
    fn the_core_asking_for_the_time_is_found_but_a_comment_or_a_test_about_it_is_not() {
        let asks = "fn f() { let t = Timestamp::now(); }\n";
        assert_eq!(
            check_core_sources(&tree("retro-core", "crates/foundation/retro-core/src/a.rs", asks)).len(),
            1
        );
        let speaks = "// not SystemTime\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
        assert!(
            check_core_sources(&tree("retro-core", "crates/foundation/retro-core/src/a.rs", speaks))
                .is_empty()
        );
        assert!(
            check_core_sources(&tree("retro-bus", "crates/infrastructure/retro-bus/src/a.rs", asks))
                .is_empty()
        );
    }

    #[test]
    fn a_stage_that_exports_telemetry_is_found_and_the_program_or_a_test_is_not() {
        for text in TELEMETRY_EXPORT {
            let text = format!("use {text}::Telemetry;\n");
            assert_eq!(
                check_telemetry_export(&tree(
                    "retro-counter",
                    "crates/stages/retro-counter/src/lib.rs",
                    &text
                ))
                .len(),
                1
            );
            assert!(check_telemetry_export(&tree("retro", "crates/retro/src/main.rs", &text)).is_empty());
            let in_test = tree("retro-telemetry", "crates/foundation/retro-telemetry/tests/sent.rs", &text);
            assert!(check_telemetry_export(&in_test).is_empty());
        }
    }

    #[test]
    fn an_ignored_test_is_found() {
        let text = format!("#[test]\n{}]\nfn f() {{}}\n", concat!("#[", "ignore"));
        assert_eq!(check_no_ignored_test(&tree("retro", "crates/retro/tests/a.rs", &text)).len(), 1);
    }

    #[test]
    fn a_sleeping_test_is_found_and_a_sleeping_program_is_not() {
        let line = format!("tokio::time::{}d).await;\n", concat!("sleep", "("));
        assert_eq!(check_no_sleeping_test(&tree("retro", "crates/retro/tests/a.rs", &line)).len(), 1);
        let inline = format!("fn f() {{}}\n\n#[cfg(test)]\nmod tests {{\n    {line}}}\n");
        assert_eq!(check_no_sleeping_test(&tree("retro", "crates/retro/src/a.rs", &inline)).len(), 1);
        assert!(check_no_sleeping_test(&tree("retro", "crates/retro/src/a.rs", &line)).is_empty());
    }

    #[test]
    fn a_long_file_is_found_and_so_is_an_exception_that_is_not_needed() {
        let long = tree("retro", "crates/retro/src/a.rs", &"\n".repeat(LINES_MAX + 1));
        assert_eq!(check_file_lengths_except(&long, &[]).len(), 1);
        assert!(check_file_lengths_except(&long, &[("crates/retro/src/a.rs", "a table")]).is_empty());
        let short = tree("retro", "crates/retro/src/a.rs", "\n");
        assert_eq!(check_file_lengths_except(&short, &[("crates/retro/src/a.rs", "a table")]).len(), 1);
    }
}
