//! Rephrases a sentence of a remark as an instruction. Gives up if this would require guessing.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use retro_core::finding::TITLE_CHARS_MAX;

/// Opening words of a sentence that are not part of the rule, such as "please".
const LEADS: &[&str] = &[
    "please",
    "pls",
    "also",
    "so",
    "and",
    "but",
    "then",
    "just",
    "in general",
    "generally",
    "as a general rule",
    "as a rule",
    "as a rule of thumb",
    "general note",
    "general comment",
    "note",
    "note that",
    "let's",
    "lets",
    "ideally",
    "again",
    "fwiw",
    "here too",
    "instead",
    "nit",
    "minor",
    "hey",
    "hi",
    "hm",
    "hmm",
    "yes",
    "no",
    "i think",
    "imo",
    "usually",
    "typically",
    "normally",
    "going forward",
    "from now on",
    "in the future",
    "for the future",
    "by convention",
    "convention",
    "naming convention",
    "style convention",
    "rule of thumb",
    "ok",
    "remember",
    "remember that",
    "fyi",
    "style",
    "we should",
    "we must",
    "we need to",
    "you should",
    "you must",
    "that",
];

fn compile_regex(pattern: &str) -> Regex {
    Regex::new(&format!("(?i){pattern}")).expect("constant patterns compile, as a test verifies")
}

const OFTEN: &str =
    "(?:really |also |generally |usually |typically |normally |ever |tend to |try to |in general )?";

static WE_DO_NOT: LazyLock<Regex> = LazyLock::new(|| {
    compile_regex(&format!(
        r"^we {OFTEN}(?:do not|don't|dont|never) {OFTEN}(?:want to |wanna |like to )?(?P<rest>\S.*)$"
    ))
});
static WE_HABIT: LazyLock<Regex> = LazyLock::new(|| {
    compile_regex(
        r"^we (?:always |usually |typically |generally |normally |also |tend to |try to |like to |strive to |aim to |prefer to |would prefer to )+(?P<rest>\S.*)$",
    )
});
static WE_VERB: LazyLock<Regex> = LazyLock::new(|| {
    compile_regex(
        r"^we (?P<rest>(?:prefer|avoid|require|favou?r|discourage|encourage|standardi[sz]e|use)\b.*)$",
    )
});
static SHOULD_BE: LazyLock<Regex> = LazyLock::new(|| {
    compile_regex(
        r"^(?P<what>.{2,80}?) (?:should|must|shall)(?P<not> not|n't)?(?: (?P<how>always|never|only|also|generally|ideally|usually))? be (?P<rest>\S.*)$",
    )
});
static SHOULD_DO: LazyLock<Regex> = LazyLock::new(|| {
    compile_regex(
        r"^(?P<what>.{2,80}?) (?:should|must|shall|need to|have to)(?P<not> not|n't)?(?: (?P<how>always|never|only|generally|ideally|usually))? (?P<rest>\S.*)$",
    )
});

static ALL_NEED: LazyLock<Regex> = LazyLock::new(|| {
    compile_regex(
        r"^(?P<what>(?:all|every|each|any) (?:\w+ ){0,3}?[\w`.\-]+) (?P<verb>needs?|requires?) (?P<rest>\S.*)$",
    )
});

/// Phrases a sentence as an instruction: capitalised, without final punctuation, on one line, and no longer
/// than a title may be. Returns `None` if it is not an instruction and cannot easily be turned into one.
pub(crate) fn phrase_imperative(sentence: &str) -> Option<String> {
    // A typographic apostrophe would hide `don't` from the patterns.
    let plain = sentence.replace('’', "'");
    let mut rest = plain.trim().trim_end_matches(['.', '!', ':', ',', ' ']).trim();
    while let Some(after) = LEADS.iter().find_map(|lead| strip_lead(rest, lead)) {
        rest = after;
    }
    let phrased =
        rephrase_habit(rest).or_else(|| crate::signs::is_imperative(rest).then(|| rest.to_owned()))?;
    let phrased = phrased.split_whitespace().collect::<Vec<_>>().join(" ");
    let phrased = capitalize_first(phrased.trim());
    // A title cut out of code or a parenthesis would mislead.
    let balanced = phrased.matches('`').count().is_multiple_of(2)
        && phrased.matches('(').count() == phrased.matches(')').count();
    (balanced && phrased.chars().count() <= TITLE_CHARS_MAX && !phrased.contains("://")).then_some(phrased)
}

/// Returns the folder that a sentence limits its rule to, such as `src/api`; `None` if it names none.
pub(crate) fn find_folder(sentence: &str) -> Option<String> {
    static IN_FOLDER: LazyLock<Regex> = LazyLock::new(|| {
        compile_regex(
            r"\b(?:in|under|within|inside|below) (?:the )?`?(?P<path>[\w.\-]+(?:/[\w.\-*]+)*/)`?(?:[\s.,;:]|$)",
        )
    });
    let found = IN_FOLDER.captures(sentence)?;
    let path = found["path"].trim_end_matches('/').to_owned();
    // A path with `..` could leave the repository.
    (!path.contains("..")).then_some(path)
}

fn strip_lead<'t>(text: &'t str, lead: &str) -> Option<&'t str> {
    // `get`, because the end of the lead may fall within a character.
    let (head, after) = (text.get(..lead.len())?, text.get(lead.len()..)?);
    let ends = after.starts_with([' ', ',', ':']);
    (ends && head.eq_ignore_ascii_case(lead)).then(|| after.trim_start_matches([' ', ',', ':', '-']))
}

/// Turns a sentence that states a habit or a demand into an instruction. Returns `None` if it cannot be rephrased.
fn rephrase_habit(text: &str) -> Option<String> {
    if let Some(found) = WE_DO_NOT.captures(text) {
        return Some(format!("Do not {}", &found["rest"]));
    }
    if let Some(found) = WE_HABIT.captures(text) {
        return Some(found["rest"].to_owned());
    }
    if let Some(found) = WE_VERB.captures(text) {
        let rest = &found["rest"];
        return Some(rest.strip_prefix("prefer to ").unwrap_or(rest).to_owned());
    }
    if let Some(found) = ALL_NEED.captures(text).filter(names_a_kind) {
        let has = if found["verb"].ends_with('s') { "has" } else { "have" };
        return Some(format!(
            "Make sure that {} {has} {}",
            lowercase_first_word(&found["what"]),
            &found["rest"]
        ));
    }
    // Before `SHOULD_DO`, which also matches `should be`.
    if let Some(found) = SHOULD_BE.captures(text).filter(has_own_subject) {
        let plural = is_plural(&found["what"]);
        let (be, what) = (if plural { "are" } else { "is" }, &found["what"]);
        let not = if found.name("not").is_some() { " not" } else { "" };
        let how = found.name("how").map_or(String::new(), |how| format!(" {}", how.as_str()));
        return Some(format!(
            "Make sure that {} {be}{not}{how} {}",
            lowercase_first_word(what),
            &found["rest"]
        ));
    }
    let found = SHOULD_DO.captures(text).filter(has_own_subject)?;
    let not = if found.name("not").is_some() { " do not" } else { "" };
    let how = found.name("how").map_or(String::new(), |how| format!(" {}", how.as_str()));
    if found["what"].ends_with(" code") {
        return Some(format!("In {},{not}{how} {}", lowercase_first_word(&found["what"]), &found["rest"]));
    }
    if !is_plural(&found["what"]) {
        return None;
    }
    Some(format!("Make sure that {}{not}{how} {}", lowercase_first_word(&found["what"]), &found["rest"]))
}

/// Returns `true` if the subject of a rule is an independent noun: not a pronoun, and not part of a longer sentence.
fn has_own_subject(found: &Captures<'_>) -> bool {
    const POINTING: &[&str] = &[
        "this", "that", "these", "those", "it", "i", "you", "we", "they", "there", "what", "which", "if",
        "when", "because", "however", "here",
    ];
    let first = found["what"].split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_lowercase();
    !POINTING.contains(&first.as_str()) && !found["what"].contains([',', ';', ':'])
}

/// Returns `true` if the subject is every one of a kind: "all functions", and not "all of the functions".
fn names_a_kind(found: &Captures<'_>) -> bool {
    const DEFINITE: &[&str] = &["the", "of", "these", "those", "this", "that", "your", "my", "our"];
    let second = found["what"].split_whitespace().nth(1).unwrap_or_default().to_lowercase();
    !DEFINITE.contains(&second.as_str()) && !found["rest"].to_lowercase().starts_with("to ")
}

fn is_plural(what: &str) -> bool {
    let bare = what.trim().trim_end_matches('`');
    bare.ends_with('s') && !bare.ends_with("ss")
}

/// Returns the text with its first word in lower case, unless this word is an identifier or an acronym.
fn lowercase_first_word(text: &str) -> String {
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(first), Some(second)) if first.is_uppercase() && second.is_lowercase() => {
            first.to_lowercase().chain(text.chars().skip(1)).collect()
        }
        _ => text.to_owned(),
    }
}

fn capitalize_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(said: &str, phrased: &str) {
        assert_eq!(phrase_imperative(said).as_deref(), Some(phrased), "{said}");
    }

    #[test]
    fn a_habit_becomes_an_instruction() {
        check("We do not use sleeping in tests.", "Do not use sleeping in tests");
        check("we don't want to expose containers", "Do not expose containers");
        check(
            "In general we prefer to avoid using the hash comparison feature",
            "Avoid using the hash comparison feature",
        );
        check("We usually hide new features by default.", "Hide new features by default");
        check("We prefer `a` over `b`", "Prefer `a` over `b`");
        check("Please always run the formatter!", "Always run the formatter");
        check(
            "Error messages should not be capitalized.",
            "Make sure that error messages are not capitalized",
        );
        check(
            "In general, `Optional`s should only be used as a return type",
            "Make sure that `Optional`s are only used as a return type",
        );
        check(
            "Public functions must have a doc comment.",
            "Make sure that public functions have a doc comment",
        );
        check("Never import from `internal`", "Never import from `internal`");
        check("New code should use `testify`.", "In new code, use `testify`");
        check("We like to avoid sleeps in tests", "Avoid sleeps in tests");
        check("convention: start types with a capital", "Start types with a capital");
        check(
            "All public functions need a docstring",
            "Make sure that all public functions have a docstring",
        );
        check("Every endpoint needs authentication.", "Make sure that every endpoint has authentication");
    }

    #[test]
    fn a_sentence_that_needs_guessing_is_not_phrased() {
        for said in [
            "All of the callers need an update",
            "Looks good to me",
            "This should be renamed",
            "Hm",
            "",
            "Use `a",
            "See https://example.org",
        ] {
            assert_eq!(phrase_imperative(said), None, "{said}");
        }
        assert_eq!(phrase_imperative(&format!("Use {}", "x".repeat(300))), None);
    }

    #[test]
    fn a_folder_limits_a_rule() {
        assert_eq!(find_folder("In `src/api/` we never log bodies").as_deref(), Some("src/api"));
        assert_eq!(find_folder("Use tabs in tests/ only.").as_deref(), Some("tests"));
        assert_eq!(find_folder("Never do it in production"), None);
        assert_eq!(find_folder("see ../../etc/ in ../x/"), None);
    }
}
