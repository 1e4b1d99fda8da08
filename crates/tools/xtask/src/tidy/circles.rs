//! Finds files of a crate that import each other in a circle.
//!
//! A file uses another one if its code names something that the other file defines, by a `use` or by a path.
//! A module that only declares and re-exports its children defines nothing and is passed through. Tests may
//! use everything and do not count. Names that only a compiler can resolve (methods, derived names) are not
//! seen.

mod modules;

use std::collections::{BTreeMap, BTreeSet};

use super::problem::Problem;
use super::tree::Tree;
use modules::{Modules, Uses};

/// Beginnings of the paths of files that may stand in circles among themselves, each with its reason.
const KNOWN_CIRCLES: &[(&str, &str)] =
    &[("crates/stages/retro-investigator/src/heuristics", "to be taken apart with the mechanism")];

/// Checks that no files of a crate import each other in a circle. An exception that is no longer needed is
/// also a problem.
pub(super) fn check_circles(tree: &Tree) -> Vec<Problem> {
    check_circles_except(tree, KNOWN_CIRCLES)
}

fn check_circles_except(tree: &Tree, exceptions: &[(&str, &str)]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut needed = BTreeSet::new();
    for krate in &tree.crates {
        let uses = Modules::read(krate).find_uses();
        for circle in find_circles(&uses) {
            let known =
                exceptions.iter().find(|(start, _)| circle.iter().all(|file| file.starts_with(*start)));
            match known {
                Some((start, _)) => {
                    needed.insert(*start);
                }
                None => problems.push(describe_circle(&uses, &circle)),
            }
        }
    }
    let stale = exceptions.iter().filter(|(start, _)| !needed.contains(start));
    problems.extend(stale.map(|(start, _)| format!("{start} no longer needs its exception from circles")));
    problems
}

/// Returns the circles: each is a largest group of files that all reach each other.
fn find_circles<'a>(uses: &Uses<'a>) -> BTreeSet<BTreeSet<&'a str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        uses.keys().map(|&file| (file, find_reachable(uses, file))).collect();
    let reaches = |from: &str, to: &str| reached.get(from).is_some_and(|files| files.contains(to));
    let in_circles = reached.iter().filter(|(file, _)| reaches(file, file));
    in_circles
        .map(|(file, files)| files.iter().copied().filter(|other| reaches(other, file)).collect())
        .collect()
}

/// Returns the files that `from` uses, directly or through others.
fn find_reachable<'a>(uses: &Uses<'a>, from: &'a str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        for next in uses.get(file).into_iter().flat_map(|used| used.keys().copied()) {
            if found.insert(next) {
                open.push(next);
            }
        }
    }
    found
}

fn describe_circle(uses: &Uses<'_>, circle: &BTreeSet<&str>) -> Problem {
    let mut text = format!(
        "{} files import each other in a circle; move what they share into a file that uses none of them:",
        circle.len()
    );
    for file in circle {
        let used = uses.get(*file).into_iter().flatten().filter(|(other, _)| circle.contains(**other));
        for (other, names) in used {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            text.push_str(&format!("\n    {file} -> {other}: {}", names.join(", ")));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::tree::{Crate, Source};
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        let source = |(name, text): &(&str, &str)| Source {
            path: format!("crates/a/src/{name}"),
            text: (*text).to_owned(),
        };
        let sources = files.iter().map(source).collect();
        Tree { crates: vec![Crate { name: "a".to_owned(), sources, ..Crate::default() }], ..Tree::default() }
    }

    fn check(files: &[(&str, &str)]) -> Vec<Problem> {
        check_circles_except(&tree(files), &[])
    }

    const PAIR: &[(&str, &str)] = &[
        ("lib.rs", "mod one;\nmod two;\n"),
        ("one.rs", "use crate::two::Two;\npub struct One(Two);\n"),
        ("two.rs", "pub struct Two;\nfn f() { let _ = crate::one::One; }\n"),
    ];

    #[test]
    fn a_circle_of_two_files_is_found_with_its_arrows() {
        let problems = check(PAIR);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].starts_with("2 files"), "{problems:?}");
        assert!(problems[0].contains("crates/a/src/one.rs -> crates/a/src/two.rs: Two"), "{problems:?}");
        assert!(problems[0].contains("crates/a/src/two.rs -> crates/a/src/one.rs: One"), "{problems:?}");
    }

    #[test]
    fn a_chain_of_files_is_no_circle() {
        assert!(
            check(&[
                ("lib.rs", "mod one;\nmod two;\nuse two::Two;\n"),
                PAIR[1],
                ("two.rs", "pub struct Two;")
            ])
            .is_empty()
        );
    }

    #[test]
    fn a_parent_that_only_re_exports_is_no_circle_and_one_that_uses_its_child_is() {
        let children =
            [("one.rs", "use super::Two;\npub struct One(Two);\n"), ("two.rs", "pub struct Two;\n")];
        let parent = "mod one;\nmod two;\npub use one::One;\npub use two::{Two, Two as Other};\n";
        assert!(check(&[("lib.rs", parent), children[0], children[1]]).is_empty());
        let defines = "mod one;\npub use one::One;\npub struct Two;\nfn f(_: One) {}\n";
        assert_eq!(check(&[("lib.rs", defines), children[0]]).len(), 1);
        let only_defines = "mod one;\npub use one::One;\npub struct Two;\n";
        assert!(check(&[("lib.rs", only_defines), children[0]]).is_empty());
    }

    #[test]
    fn names_in_macros_behind_globs_and_through_modules_are_resolved() {
        let child = ("one.rs", "use crate::deep;\npub fn one() { println!(\"{}\", deep::two::TWO); }\n");
        let deep = ("deep/mod.rs", "pub mod two;\n");
        let two = ("deep/two.rs", "use crate::*;\npub const TWO: u8 = 2;\nfn f() { one() }\n");
        let root = ("lib.rs", "mod deep;\nmod one;\npub(crate) use one::*;\n");
        let problems = check(&[root, child, deep, two]);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("one.rs -> crates/a/src/deep/two.rs: TWO"), "{problems:?}");
        assert!(problems[0].contains("two.rs -> crates/a/src/one.rs: one"), "{problems:?}");
    }

    #[test]
    fn a_name_that_a_macro_defines_is_found() {
        let one = (
            "one.rs",
            "macro_rules! words { () => { pub enum Word {} } }\nwords! {}\nuse crate::two::Two;\n",
        );
        let two = ("two.rs", "pub struct Two(crate::one::Word);\n");
        assert_eq!(check(&[PAIR[0], one, two]).len(), 1);
    }

    #[test]
    fn tests_may_use_everything() {
        let two = ("two.rs", "pub struct Two;\n#[cfg(test)]\nmod tests {\n    use crate::one::One;\n}\n");
        let tests = ("two/tests.rs", "use crate::one::One;\n");
        assert!(check(&[PAIR[0], PAIR[1], two, tests]).is_empty());
    }

    #[test]
    fn an_import_with_the_name_of_a_foreign_crate_ends() {
        assert!(check(&[("lib.rs", "use anyhow::anyhow;\nfn f() { anyhow!(\"no\"); }\n")]).is_empty());
    }

    #[test]
    fn an_exception_is_honoured_and_a_stale_one_is_a_problem() {
        let known = &[("crates/a/src/", "on purpose")];
        assert!(check_circles_except(&tree(PAIR), known).is_empty());
        let problems = check_circles_except(&tree(&PAIR[..1]), known);
        assert_eq!(problems, ["crates/a/src/ no longer needs its exception from circles"]);
        assert_eq!(check_circles_except(&tree(PAIR), &[("crates/a/src/one", "half of it")]).len(), 2);
    }
}
