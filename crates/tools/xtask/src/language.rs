//! Measures the language of the code: function names, doc comments and plain comments.
//!
//! Counts only the program's own code, not its tests. Can print a random sample of doc comments for people to
//! read, because a share shows that a habit is gone, not that a sentence is good.

mod syntax;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use sha2::{Digest, Sha256};

use crate::tidy::problem::Problem;
use crate::tidy::tree::Tree;
use syntax::{Definition, Doc, Kind};
pub(crate) use syntax::{Syntax, is_for_tests};

/// Maximum share of functions, in per cent, whose names have only one word.
const ONE_WORD_MAX: f64 = 35.0;
/// Maximum share of doc comments, in per cent, that open with one of [`RIDDLES`].
const RIDDLES_MAX: f64 = 6.0;
/// Opening words that delay the subject of a sentence.
const RIDDLES: &[&str] = &["What", "Whether", "How", "Where", "It", "Its", "They"];

/// Options of `cargo xtask language`.
#[derive(Args)]
pub(crate) struct Options {
    /// Number of doc comments to print, drawn at random.
    #[arg(long, default_value_t = 0)]
    sample: usize,
    /// Seed of the random draw.
    #[arg(long, default_value = "1")]
    seed: String,
    /// Also prints every function with a one-word name and every doc comment with an opening that delays its
    /// subject.
    #[arg(long)]
    list: bool,
}

/// Counts from which the shares are computed.
struct Measurement<'a> {
    functions: usize,
    one_word: Vec<&'a Definition>,
    docs: usize,
    riddles: Vec<&'a Doc>,
    fillers: Vec<&'a Doc>,
    lines: usize,
    comment_lines: usize,
}

impl<'a> Measurement<'a> {
    fn new(syntax: &'a Syntax) -> Self {
        let functions = || syntax.definitions.iter().filter(|definition| definition.kind == Kind::Function);
        Self {
            functions: functions().count(),
            one_word: functions().filter(|function| is_one_word(&function.name)).collect(),
            docs: syntax.docs.len(),
            riddles: syntax.docs.iter().filter(|doc| is_riddle(&doc.text)).collect(),
            fillers: syntax.docs.iter().filter(|doc| is_filler(doc)).collect(),
            lines: syntax.lines,
            comment_lines: syntax.comment_lines,
        }
    }

    fn one_word_share(&self) -> f64 {
        percent(self.one_word.len(), self.functions)
    }

    fn riddle_share(&self) -> f64 {
        percent(self.riddles.len(), self.docs)
    }

    /// Describes each missed goal in one sentence.
    fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.one_word_share() > ONE_WORD_MAX {
            problems.push(format!(
                "{} of {} functions have a one-word name, more than {ONE_WORD_MAX} %: name the object too; \
                 `cargo xtask language --list` lists them",
                self.one_word.len(),
                self.functions
            ));
        }
        if self.riddle_share() > RIDDLES_MAX {
            problems.push(format!(
                "{} of {} doc comments open with {}, more than {RIDDLES_MAX} %: begin with the verb or the thing; \
                 `cargo xtask language --list` lists them",
                self.riddles.len(),
                self.docs,
                RIDDLES.join(", ")
            ));
        }
        problems.extend(self.fillers.iter().map(|doc| {
            format!("{}:{} says \"{}\" of `{}`: say more, or nothing", doc.path, doc.line, doc.text, doc.item)
        }));
        problems
    }
}

/// Returns the missed goals, for `cargo xtask tidy`.
pub(crate) fn check_goals(tree: &Tree) -> Vec<Problem> {
    let syntax = Syntax::read(tree);
    let mut problems = syntax.unreadable.clone();
    problems.extend(Measurement::new(&syntax).problems());
    problems
}

/// Prints the measured shares. Returns a failing exit code if a goal is missed.
pub(crate) fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    let syntax = Syntax::read(&Tree::read_workspace(root)?);
    let measured = Measurement::new(&syntax);
    println!("{} files, {} lines without tests", syntax.files, measured.lines);
    println!(
        "functions with a one-word name     {:>5} of {:>5}  {:>5.1} %  (goal: at most {ONE_WORD_MAX} %)",
        measured.one_word.len(),
        measured.functions,
        measured.one_word_share()
    );
    println!(
        "docs that open with a riddle       {:>5} of {:>5}  {:>5.1} %  (goal: at most {RIDDLES_MAX} %; {})",
        measured.riddles.len(),
        measured.docs,
        measured.riddle_share(),
        RIDDLES.join(", ")
    );
    println!("docs that only fill a line         {:>5} of {:>5}", measured.fillers.len(), measured.docs);
    println!(
        "lines with a plain comment         {:>5} of {:>5}  {:>5.1} %",
        measured.comment_lines,
        measured.lines,
        percent(measured.comment_lines, measured.lines)
    );
    if options.list {
        for function in &measured.one_word {
            println!("{}:{} fn {}", function.path, function.line, function.name);
        }
        for doc in &measured.riddles {
            println!("{}:{} {}: {}", doc.path, doc.line, doc.item, doc.text);
        }
    }
    for (place, doc) in draw(&syntax.docs, &options.seed, options.sample).iter().enumerate() {
        println!("{:>3}. {}:{} `{}`\n     {}", place + 1, doc.path, doc.line, doc.item, doc.text);
    }
    let problems = measured.problems();
    for problem in &problems {
        println!("language: {problem}");
    }
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Draws `count` doc comments: those with the smallest digests of seed, path, item and text.
fn draw<'a>(docs: &'a [Doc], seed: &str, count: usize) -> Vec<&'a Doc> {
    let digest = |doc: &&Doc| -> [u8; 32] {
        Sha256::digest(format!("{seed}\0{}\0{}\0{}", doc.path, doc.item, doc.text)).into()
    };
    let mut ordered: Vec<_> = docs.iter().collect();
    ordered.sort_by_cached_key(digest);
    ordered.truncate(count);
    ordered
}

fn is_one_word(name: &str) -> bool {
    !name.trim_matches('_').contains('_')
}

fn is_riddle(text: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric()).next().is_some_and(|word| RIDDLES.contains(&word))
}

/// Returns `true` for a doc comment of one word, and for a comment on a private item that only repeats the
/// item's name.
fn is_filler(doc: &Doc) -> bool {
    let words: Vec<_> =
        doc.text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    if words.len() <= 1 {
        return !doc.text.contains('`');
    }
    let name = doc.item.to_lowercase();
    let says_name = |word: &&str| {
        let word = word.to_lowercase();
        matches!(word.as_str(), "a" | "an" | "the" | "this") || name.split('_').any(|part| part == word)
    };
    !doc.public && words.iter().all(says_name)
}

fn percent(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::{Crate, Source};

    fn tree(text: &str) -> Tree {
        let sources = vec![Source { path: "crates/a/src/a.rs".to_owned(), text: text.to_owned() }];
        Tree { crates: vec![Crate { name: "a".to_owned(), sources, ..Crate::default() }], ..Tree::default() }
    }

    #[test]
    fn one_word_functions_and_riddles_are_problems_and_tests_are_not_counted() {
        let text = "
            /// What it takes.
            pub fn take() {}
            /// Counts runs.
            pub fn count_runs() {}
            #[cfg(test)]
            mod tests { fn help() {} }
        ";
        let syntax = Syntax::read(&tree(text));
        let measured = Measurement::new(&syntax);
        assert_eq!((measured.functions, measured.one_word.len()), (2, 1));
        assert_eq!((measured.docs, measured.riddles.len()), (2, 1));
        assert_eq!(measured.problems().len(), 2);
        assert!(check_goals(&tree("/// Counts runs.\npub fn count_runs() {}")).is_empty());
    }

    #[test]
    fn a_doc_that_says_only_the_name_fills_a_line() {
        let text = "
            struct Look {
                /// The database.
                database: u8,
                /// Identity of the database, once it is known.
                identity: u8,
                /// Which.
                kind: u8,
            }
        ";
        let syntax = Syntax::read(&tree(text));
        let fillers: Vec<_> = Measurement::new(&syntax).fillers.iter().map(|doc| doc.item.clone()).collect();
        assert_eq!(fillers, ["database", "kind"]);
    }

    #[test]
    fn a_seed_draws_the_same_docs_and_another_one_draws_others() {
        let text: String = (0..40).map(|n| format!("/// Text {n} of it.\nfn count_{n}() {{}}\n")).collect();
        let syntax = Syntax::read(&tree(&text));
        let texts = |seed| draw(&syntax.docs, seed, 5).iter().map(|doc| doc.text.clone()).collect::<Vec<_>>();
        assert_eq!(texts("1"), texts("1"));
        assert_ne!(texts("1"), texts("2"));
    }

    #[test]
    fn a_file_that_cannot_be_parsed_is_a_problem() {
        assert_eq!(check_goals(&tree("fn (")).len(), 1);
    }
}
