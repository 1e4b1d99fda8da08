//! Compares two commands by their code blocks, their programs and their options.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use super::super::arguments::{Command, is_assignment};
use super::super::call::{Call, program_of_error};
use super::super::manner::{Manner, is_name};
use super::super::parts::shared_words;
use super::{CHOICE_CHARS_MAX, Difference, InterveningCalls, REFUSES};

/// Minimum share of distinct words that two related commands have in common, in per cent.
const SHARED_WORDS_MIN: usize = 30;
/// Maximum length, in bytes, of a value that a lesson quotes with its option, as in `--platform=linux/amd64`.
const OPTION_VALUE_CHARS_MAX: usize = 40;

/// Compares a failing command with a later command.
pub(super) fn compare_commands(
    a: &Command,
    b: &Command,
    failing: &Call<'_>,
    intervening: InterveningCalls,
) -> Difference {
    if shared_words(&a.words, &b.words) < SHARED_WORDS_MIN {
        return Difference::Unrelated;
    }
    if a.fenced != b.fenced && !failing.answer.contains("```") {
        let (avoid, prefer) =
            if a.fenced { (Manner::Fenced, Manner::Bare) } else { (Manner::Bare, Manner::Fenced) };
        return Difference::Manner { avoid, prefer };
    }
    let error = failing.error();
    let one_more =
        || (intervening == InterveningCalls::Harmless).then(|| find_added_option(a, b, failing)).flatten();
    let another =
        || (intervening == InterveningCalls::Harmless).then(|| find_subcommand_change(a, b)).flatten();
    let program = || {
        let named = find_program_change(a, b, error)
            .or_else(|| find_option_change(a, b, failing.complaining_program(), error));
        named.or_else(one_more).or_else(another)
    };
    let manner = if a.sql || b.sql || a.code || b.code { None } else { program() };
    manner.map_or(Difference::Values(Vec::new()), |(avoid, prefer)| Difference::Manner { avoid, prefer })
}

/// Returns both programs if the commands differ only in the program, and the first program is missing or has
/// a similar name, such as `python` and `python3`.
fn find_program_change(a: &Command, b: &Command, error: &str) -> Option<(Manner, Manner)> {
    let pairs = || a.words.iter().zip(&b.words).filter(|(x, y)| x != y);
    let (x, y) = pairs().next()?;
    let one_change = a.words.len() == b.words.len() && a.words.len() > 1 && pairs().count() == 1;
    let are_programs = a.programs().any(|program| program == x) && b.programs().any(|program| program == y);
    let kin = x.get(..3).is_some_and(|start| y.starts_with(start));
    let missing = error.ends_with("command not found");
    (one_change && are_programs && is_name(x) && is_name(y) && (kin || missing))
        .then(|| (Manner::Program(x.clone()), Manner::Program(y.clone())))
}

/// Returns both subcommands if the commands differ only in the subcommand, as in `helm install x` and
/// `helm upgrade x`.
fn find_subcommand_change(a: &Command, b: &Command) -> Option<(Manner, Manner)> {
    let ([program, x, rest @ ..], [same, y, as_before @ ..]) = (a.words.as_slice(), b.words.as_slice())
    else {
        return None;
    };
    let is_verb = |word: &str| {
        word.len() <= CHOICE_CHARS_MAX
            && word.starts_with(|c: char| c.is_ascii_lowercase())
            && word.chars().all(|c| c.is_ascii_lowercase() || c == '-')
    };
    let verbs =
        program == same && x != y && !rest.is_empty() && rest == as_before && is_verb(x) && is_verb(y);
    let does = |verb: &str| Manner::Program(format!("{program} {verb}"));
    (verbs && MANY_VERBS.contains(&program.as_str())).then(|| (does(x), does(y)))
}

/// Programs that have subcommands, such as `git`.
const MANY_VERBS: &[&str] = &[
    "apt",
    "apt-get",
    "aws",
    "az",
    "brew",
    "bundle",
    "cargo",
    "composer",
    "conda",
    "docker",
    "dotnet",
    "flutter",
    "gcloud",
    "gem",
    "gh",
    "git",
    "glab",
    "go",
    "gradle",
    "hg",
    "helm",
    "kubectl",
    "mvn",
    "npm",
    "oc",
    "pip",
    "pip3",
    "pnpm",
    "podman",
    "poetry",
    "rustup",
    "svn",
    "systemctl",
    "terraform",
    "tofu",
    "uv",
    "vault",
    "yarn",
];

/// Returns the manners of both commands if exactly one option was added, removed or replaced and the error is
/// about options. Compares the options of the program that reported the error; if the error names no program,
/// those of the first program.
fn find_option_change(
    a: &Command,
    b: &Command,
    program: Option<&str>,
    error: &str,
) -> Option<(Manner, Manner)> {
    let first = || a.programs().next().filter(|_| program_of_error(error).is_none());
    let program = program.or_else(first).filter(|program| is_name(program))?;
    if !b.programs().any(|one| one == program) {
        return None;
    }
    let of = |command: &Command| -> BTreeSet<String> {
        command.words_after(program).iter().filter(|word| is_option(word)).cloned().collect()
    };
    let (before, after) = (of(a), of(b));
    let removed: Vec<_> = before.difference(&after).cloned().collect();
    let added: Vec<_> = after.difference(&before).cloned().collect();
    let with = |option: &str| Manner::WithOption(program.to_owned(), option.to_owned());
    let without = |option: &str| Manner::WithoutOption(program.to_owned(), option.to_owned());
    if !concerns_options(error, &removed, &added) {
        return None;
    }
    match (removed.as_slice(), added.as_slice()) {
        ([removed], [added]) => Some((with(removed), with(added))),
        ([removed], []) => Some((with(removed), without(removed))),
        ([], [added]) => Some((without(added), with(added))),
        _ => None,
    }
}

/// Returns the manners of both commands if the second one only adds one option or variable assignment.
/// Nothing else changed, so the option is the remedy whatever the error says. Returns `None` if the first
/// command never ran, or if the error reports something missing that the command names, because the option
/// would only silence that error.
fn find_added_option(a: &Command, b: &Command, failing: &Call<'_>) -> Option<(Manner, Manner)> {
    let at = a.words.iter().zip(&b.words).take_while(|(x, y)| x == y).count();
    let option = b.words.get(at)?;
    let rest_is_equal = a.words.get(at..) == b.words.get(at + 1..);
    let error_line = failing.failure().map_or("", |failure| failure.line);
    let spoken_of = || {
        let error_words: Vec<&str> =
            error_line.split(|c: char| c.is_whitespace() || "'\"‘’`:,()".contains(c)).collect();
        MISSING.is_match(error_line)
            && a.words.iter().skip(1).any(|word| error_words.contains(&trim_quotes(word)))
    };
    let never_ran = NEVER_RAN.is_match(error_line);
    if !rest_is_equal
        || !(is_option_with_value(option) || is_shareable_assignment(option))
        || never_ran
        || spoken_of()
    {
        return None;
    }
    // The option belongs to the last program whose part of the command line contains it.
    let program = b
        .programs()
        .filter(|one| b.words_after(one).contains(option) || b.assignments_before(one).contains(option))
        .last()?;
    let (program, option) = (Some(program).filter(|program| is_name(program))?.to_owned(), option.clone());
    Some((Manner::WithoutOption(program.clone(), option.clone()), Manner::WithOption(program, option)))
}

static MISSING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)no such file|cannot access|not found|does not exist|permission denied|timed out")
        .expect("constant patterns compile")
});

/// Matches errors of commands that never ran.
static NEVER_RAN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)did not contain|malformed command|command not found|syntax error|unexpected EOF")
        .expect("constant patterns compile")
});

fn trim_quotes(word: &str) -> &str {
    word.trim_matches(['"', '\''])
}

/// Returns `true` if a word is an option, alone or with a value that a lesson may quote.
fn is_option_with_value(word: &str) -> bool {
    match word.split_once('=') {
        Some((option, value)) => {
            option.starts_with("--") && is_option(option) && is_shareable_value(option, value)
        }
        None => is_option(word),
    }
}

/// Returns `true` if a word assigns a value that a lesson may quote, as in `PYTHONPATH=src`.
fn is_shareable_assignment(word: &str) -> bool {
    is_assignment(word) && word.split_once('=').is_some_and(|(name, value)| is_shareable_value(name, value))
}

/// Returns `true` if a lesson may quote the value: it is plain and short, and the name of its option or
/// variable does not suggest a credential.
fn is_shareable_value(name: &str, value: &str) -> bool {
    static SECRET: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?i)key|token|secret|pass|credential|auth|user").expect("constant patterns compile")
    });
    !SECRET.is_match(name)
        && !value.is_empty()
        && value.len() <= OPTION_VALUE_CHARS_MAX
        // What lies at an address or at an absolute path is not part of the lesson, and may be anybody's.
        && !value.contains("://")
        && !value.starts_with('/')
        && value.chars().all(|c| c.is_ascii_alphanumeric() || "_.-/:+=,".contains(c))
}

/// Returns `true` if an error is about how the program was called: it says so, or names an option that
/// changed. A missing path or a timeout is not such an error, even if an option changed at the same time. An
/// added option that the error refuses by name cannot be the remedy.
fn concerns_options(error: &str, removed: &[String], added: &[String]) -> bool {
    static WORDS: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?i)\boptions?\b|argument|predicate|usage|is a directory|omitting directory|not empty|may not specify")
            .expect("constant patterns compile")
    });
    let names = |options: &[String]| options.iter().any(|option| error.split(' ').any(|word| word == option));
    let refused = names(added) && REFUSES.is_match(error);
    !refused && (WORDS.is_match(error) || names(removed) || names(added))
}

/// Returns `true` if a word is an option name. Numbers such as `-19` are values.
fn is_option(word: &str) -> bool {
    let name = word.trim_start_matches('-');
    word.starts_with('-')
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.len() <= CHOICE_CHARS_MAX
        && name.chars().all(|c| c.is_ascii_alphabetic() || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heuristics::arguments::Arguments;
    use crate::heuristics::outcome::{CallFailure, CallOutcome};

    fn compare(error: &str, intervening: InterveningCalls, a: &str, b: &str) -> String {
        let outcome = CallOutcome::Failed(CallFailure::from_line(error));
        let failing = Call { outcome, ..Call::with_answer("bash", a, error) };
        let (a, b) = (Arguments::parse(a), Arguments::parse(b));
        match compare_commands(a.as_command().unwrap(), b.as_command().unwrap(), &failing, intervening) {
            Difference::Manner { avoid, prefer } => format!("{avoid} -> {prefer}"),
            _ => String::new(),
        }
    }

    #[test]
    fn one_added_option_is_the_manner_whatever_the_error_says() {
        for (error, a, b, expected) in [
            (
                "npm ERR! code ERESOLVE",
                "npm ci",
                "npm ci --legacy-peer-deps",
                "`npm` without `--legacy-peer-deps` -> `npm` with `--legacy-peer-deps`",
            ),
            (
                "exec /bin/sh: exec format error",
                "docker build -t a:1 .",
                "docker build --platform=linux/amd64 -t a:1 .",
                "`docker` without `--platform=linux/amd64` -> `docker` with `--platform=linux/amd64`",
            ),
            (
                "error[E0432]: unresolved import `b`",
                "cd x && cargo check -p a",
                "cd x && cargo check -p a --all-features",
                "`cargo` without `--all-features` -> `cargo` with `--all-features`",
            ),
            (
                "error: externally-managed-environment",
                "pip install a",
                "pip install --break-system-packages a",
                "`pip` without `--break-system-packages` -> `pip` with `--break-system-packages`",
            ),
            (
                "cc: bad target",
                "make a",
                "make a CC=clang",
                "`make` without `CC=clang` -> `make` with `CC=clang`",
            ),
            (
                "ModuleNotFoundError: No module named 'src'",
                "cd a && pytest -q",
                "cd a && PYTHONPATH=src pytest -q",
                "`pytest` without `PYTHONPATH=src` -> `pytest` with `PYTHONPATH=src`",
            ),
        ] {
            assert_eq!(compare(error, InterveningCalls::Harmless, a, b), expected, "{b}");
            assert_eq!(
                compare(error, InterveningCalls::Others, a, b),
                "",
                "another call may be the cause: {b}"
            );
        }
    }

    #[test]
    fn other_changes_and_silencing_options_are_no_manner() {
        for (error, a, b) in [
            ("npm ERR! code ERESOLVE", "npm ci", "npm ci --force --legacy-peer-deps"),
            ("npm ERR! code ERESOLVE", "npm ci", "npm install --force"),
            ("npm ERR! code ERESOLVE", "npm install a", "npm install b --force"),
            ("rm: cannot remove '/a/b': No such file or directory", "rm /a/b", "rm -f /a/b"),
            ("ls: cannot access 'x': No such file or directory", "ls x", "ls x -a"),
            ("Error executing query: Your last `execute` action did not contain bash code", "ls", "ls -R"),
            ("it failed", "sort a", "sort a 17"),
            ("it failed", "push a", "push a --token=abc"),
            ("it failed", "push a", "API_KEY=abc push a"),
            ("it failed", "sort a", "sort a -17"),
            ("it failed", "send a", "send a --to=`whoami`"),
        ] {
            assert_eq!(compare(error, InterveningCalls::Harmless, a, b), "", "{b}");
        }
    }
}
