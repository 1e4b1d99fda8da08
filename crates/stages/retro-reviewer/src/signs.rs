//! Finds the signs in a sentence that count for or against a rule, with their weights.
//!
//! Weights are thousandths of certainty and were set by hand. One strong sign of a rule, or two weak ones,
//! reach the policy's 0.600 if nothing counts against a rule. No sign is enough next to a word that refers
//! only to this change.

use std::sync::LazyLock;

use regex::Regex;
use retro_core::review::ReadingFeature;

/// Certainty of a sentence that can be phrased as an instruction, in thousandths, before its features are counted.
pub(crate) const BASE_CERTAINTY: i32 = 150;

/// Sign for or against a rule, with its weight and the pattern that finds it in a sentence.
struct Sign {
    name: &'static str,
    contribution: i32,
    pattern: Regex,
}

fn compile_sign(name: &'static str, contribution: i32, pattern: &str) -> Sign {
    let pattern =
        Regex::new(&format!("(?i){pattern}")).expect("constant patterns compile, as a test verifies");
    Sign { name, contribution, pattern }
}

/// Verbs that express a habit after "we don't". Other verbs there say that something is missing or unknown.
const HABIT_VERBS: &str = "use|do|want|allow|test|log|add|put|import|write|call|hide|expose|suggest|recommend|support|include|commit|\
merge|mock|catch|throw|raise|return|rely|depend|create|define|name|prefix|capitalize|check|ship|store|hardcode|hard-code|introduce|\
document|merge|accept|like|mix|nest|wrap|leave|keep|make|sleep|panic|unwrap|skip|export|format|indent|abbreviate|duplicate";

static SIGNS_FOR: LazyLock<Vec<Sign>> = LazyLock::new(|| {
    vec![
        compile_sign(
            "general practice: we don't",
            480,
            &format!(
                r"\bwe (?:really |also |generally |usually |typically |normally |tend to )?(?:do not|don'?t|never|avoid|try not to|prefer not to) (?:want to )?(?:usually |generally |typically |normally |ever )?(?:{HABIT_VERBS}|\w+ing)\b"
            ),
        ),
        compile_sign(
            "general practice: we always",
            480,
            r"\bwe (?:always|usually|typically|generally|normally|tend to|try to|like to|prefer|strive|aim to|favou?r|require|avoid|standardi[sz]ed? on|discourage|encourage)\b",
        ),
        compile_sign(
            "in general",
            330,
            r"(?:^|\b)(?:in general|as a (?:general )?rule|as a general|generally|general (?:note|comment|rule)|rule of thumb|by convention|as a convention)\b",
        ),
        compile_sign(
            "always or never",
            300,
            r"^(?:please |also,? |and |but )?(?:always|never|do not ever|don'?t ever)\b",
        ),
        compile_sign(
            "always or never with should",
            300,
            r"\b(?:should|must|shall|needs? to|has to|have to) (?:always|never)\b|\b(?:should|must) (?:generally|usually|normally|ideally)\b",
        ),
        compile_sign(
            "convention",
            280,
            r"\b(?:naming )?convention(?:s|ally)?\b|\bstyle ?guide\b|\bguide ?lines?\b|\bcoding (?:style|standards?)\b|\bcode style\b|\bbest practices?\b|\bhouse style\b|\bour (?:rules?|policy|standards?)\b",
        ),
        compile_sign(
            "whole project",
            250,
            r"\b(?:in|across|throughout|within|for) (?:this|the|our|all|every) (?:whole |entire )?(?:repo(?:sitory)?|code ?base|project|package|crate|monorepo|tests|docs|documentation|modules?)\b|\bproject-wide\b|\bnew code\b|\bin (?:tests|docs|production|public apis?)\b|\bfor (?:all|every|any|each) (?:new |public )?\w+s?\b",
        ),
        compile_sign("for every one", 50, r"\bfor every (?:new |public )?\w+\b"),
        compile_sign("everywhere", 200, r"\b(?:everywhere|anywhere)\b"),
        compile_sign("general practice: we use", 200, r"^we use \S+"),
        compile_sign(
            "from now on",
            320,
            r"\b(?:from now on|going forward|in (?:the )?future|for (?:the )?future|every time|whenever|any ?time)\b",
        ),
        compile_sign("prefer", 300, r"^(?:please |so |and |also,? )?prefer(?:ably)? (?:to |using |the )?\S+"),
        compile_sign(
            "avoid",
            300,
            r"^(?:please,? |pls |so |and |also,? |let'?s |just )*(?:always )?(?:try to )?avoid (?:using |doing |the use of )?\S+",
        ),
        compile_sign("calls itself a convention", 320, r"^(?:naming |style )?conventions?: "),
        compile_sign(
            "one thing over another",
            160,
            r"\b(?:instead of|rather than|in place of|in favou?r of|over using)\b",
        ),
        compile_sign(
            "plural subject with should",
            450,
            r"^(?:also,? )?(?:all |every |each |any |new |public |private |unit |error |log |test )*`?(?:[\w.\-]+s`?(?: \w+)?|\w+ code) (?:should|must|shall|need to|have to|are expected to)\b",
        ),
        compile_sign(
            "all of a kind need something",
            450,
            r"^(?:all|every|each|any) (?:\w+ ){0,3}?[\w`.\-]+ (?:needs?|requires?) (?:an? |no |their |its )?[\w`]+",
        ),
        compile_sign("only, with should", 160, r"\b(?:should|must|may|can) only\b"),
        compile_sign("should not, of anything", 120, r"\b(?:should|must)(?:n'?t| not| never)\b"),
    ]
});

static SIGNS_AGAINST: LazyLock<Vec<Sign>> = LazyLock::new(|| {
    vec![
        compile_sign(
            "asks",
            -700,
            r"\?\s*$|^(?:why|what|how|where|who|which|when|is|are|was|were|does|did|do (?:we|you|i|they)|can|could|would|should|shall|will|have (?:we|you)|has|any reason|wonder|wondering|curious)\b.*\?",
        ),
        compile_sign(
            POINTS_AT_CHANGE,
            -260,
            r"\b(?:this|these|those|here|above|below|the same|the (?:current|existing|new|other|first|second|last|previous) \w+)\b",
        ),
        compile_sign(
            "points back",
            -120,
            r"^(?:it|its|it's|that|that's|they|there|he|she)\b|\b(?:it|them|that)[.!]?$",
        ),
        compile_sign(
            "names a place",
            -200,
            r"\bline \d+|\bL\d+\b|\bin this (?:pr|change|patch|commit|file|function|method|class|case|test|review)\b",
        ),
        compile_sign(
            "speaks of itself",
            -220,
            r"\b(?:i|i'?m|i'?d|i'?ll|i'?ve|my|me|imo|imho|iiuc|iirc|afaik|afair|afaict)\b",
        ),
        compile_sign(
            "hedges",
            -200,
            r"\b(?:maybe|perhaps|might|could|probably|possibly|not sure|wonder|guess|seems?|looks? like|feel free|optional(?:ly)?|would be|would have|if you want|what if|up to you|either)\b",
        ),
        compile_sign("speaks of you", -120, r"\b(?:you|your|you'?re|you'?ve|you'?ll)\b"),
        compile_sign(
            "tells what is or was",
            -250,
            r"\b(?:already|currently|because|since|yet|anymore|any more|was|were|had|did|has been|have been|fixed|done|updated|changed|removed|added)\b",
        ),
        compile_sign(
            "tells of want or lack",
            -200,
            r"\bwe (?:don'?t|do not|never) (?:have|need|know|care|see|get|pass|lose|end up|take)\b|\bwe (?:need|can|could|may|might|will|won'?t|would|should|shouldn'?t)\b",
        ),
        compile_sign(
            "waits for something",
            -200,
            r"\b(?:todo|fixme|follow-?up|later|next (?:pr|patch|change)|separate (?:pr|patch|change)|for now)\b",
        ),
        compile_sign(
            "an aside",
            -120,
            r"^(?:also|so|but|and|or|then|otherwise|if|in this case|since|because|unless|although|though|as)\b",
        ),
    ]
});

static IMPERATIVE: LazyLock<Regex> = LazyLock::new(|| {
    let verbs = "use|add|avoid|prefer|keep|make|ensure|move|remove|rename|write|put|do not|don'?t|never|always|follow|try|wrap|\
include|document|test|check|run|return|call|handle|log|name|declare|define|import|sort|format|extract|replace|pass|set|create|mark|\
leave|place|stick|favou?r|limit|provide|specify|verify|validate|update|annotate|start|end|capitali[sz]e|spell|split|group|merge|\
delete|drop|mock|throw|raise|catch|implement|refactor|reuse|consider|let'?s|require|inline|expose|hide|store|read|match|order";
    Regex::new(&format!(r"(?i)^(?:please,? |pls |and |also,? |so |then |just |better to |always |never |instead,? |nit:? )*(?:{verbs})\b"))
        .expect("constant patterns compile, as a test verifies")
});

/// Number of words below which a sentence is too short for a rule, which has a verb, an object, and a place
/// or a reason.
const WORDS_MIN: usize = 3;
/// Number of words above which a sentence is too long for a rule.
const WORDS_MAX: usize = 45;

/// Returns `true` if a sentence begins like an instruction.
pub(crate) fn is_imperative(sentence: &str) -> bool {
    IMPERATIVE.is_match(sentence)
}

/// Name of the sign of a sentence that is about this change only.
const POINTS_AT_CHANGE: &str = "points at this change";

/// Returns `true` if a sentence tells nothing to somebody who does not see the change.
pub(crate) fn points_at_change(sentence: &str) -> bool {
    static OBJECT: LazyLock<Regex> = LazyLock::new(|| {
        compile_regex(
            r"^(?:please |do not |don't |always |never )*\w+ (?:it|them|this|that|these|those|one)\b",
        )
    });
    OBJECT.is_match(sentence)
        || sentence_features(sentence).iter().any(|feature| feature.name == POINTS_AT_CHANGE)
}

/// Returns the features of a sentence that count for or against a rule.
pub(crate) fn sentence_features(sentence: &str) -> Vec<ReadingFeature> {
    let plain = sentence.replace('’', "'");
    let masked = mask_code(&plain);
    let elsewhere = mask_project(&masked);
    let mut features = Vec::new();
    if is_imperative(&plain) {
        features.push(build_feature("imperative", 150, ""));
    }
    let signs = SIGNS_FOR.iter().map(|sign| (sign, masked.as_str()));
    for (sign, text) in signs.chain(SIGNS_AGAINST.iter().map(|sign| (sign, elsewhere.as_str()))) {
        if let Some(seen) = sign.pattern.find(text) {
            features.push(build_feature(sign.name, sign.contribution, seen.as_str().trim()));
        }
    }
    if plain.contains('`') {
        features.push(build_feature("names code", 20, ""));
    }
    match plain.split_whitespace().count() {
        0..WORDS_MIN => features.push(build_feature("too short", -400, "")),
        WORDS_MIN..=WORDS_MAX => {}
        _ => features.push(build_feature("too long", -300, "")),
    }
    features
}

/// Removes the words by which a sentence points at the whole project and not at the change: `this` in "this repository",
/// and `here` at the end of what a team never does. "We never close the file here" is about a file: it has an article.
fn mask_project(sentence: &str) -> String {
    static THIS_PROJECT: LazyLock<Regex> = LazyLock::new(|| {
        compile_regex(r"\bthis (repo(?:sitory)?|code ?base|project|package|crate|monorepo)\b")
    });
    static NEVER_HERE: LazyLock<Regex> =
        LazyLock::new(|| compile_regex(r"^(we never .*) (?:in|around )?here[.!]*$"));
    static ARTICLE: LazyLock<Regex> =
        LazyLock::new(|| compile_regex(r"\b(?:the|this|that|these|those|its?|an?)\b"));
    let plain = THIS_PROJECT.replace_all(sentence, "$1").into_owned();
    match NEVER_HERE.captures(&plain) {
        Some(found) if !ARTICLE.is_match(&found[1]) => found[1].to_owned(),
        _ => plain,
    }
}

fn compile_regex(pattern: &str) -> Regex {
    Regex::new(&format!("(?i){pattern}")).expect("constant patterns compile, as a test verifies")
}

/// Replaces the characters of code in backticks with `x`, so that words in code do not count as signs.
fn mask_code(sentence: &str) -> String {
    let mut quoted = false;
    let mask = |c: char| {
        if c == '`' {
            quoted = !quoted;
            return c;
        }
        if quoted && !c.is_whitespace() { 'x' } else { c }
    };
    sentence.chars().map(mask).collect()
}

pub(crate) fn build_feature(name: &str, contribution: i32, matched_text: &str) -> ReadingFeature {
    ReadingFeature { name: name.to_owned(), contribution, matched_text: matched_text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(sentence: &str) -> Vec<String> {
        sentence_features(sentence).into_iter().map(|feature| feature.name).collect()
    }

    #[test]
    fn every_pattern_compiles_and_signs_are_found() {
        assert!(names("We do not use sleeping in tests.").contains(&"general practice: we don't".to_owned()));
        assert!(names("Always use `x`.").contains(&"always or never".to_owned()));
        assert!(names("Please try to avoid `Foo` as a name").contains(&"avoid".to_owned()));
        assert!(
            names("Error logs should not be capitalized").contains(&"plural subject with should".to_owned())
        );
        assert!(!names("The cap should not be set").contains(&"plural subject with should".to_owned()));
        assert!(names("We don't have that yet").contains(&"tells of want or lack".to_owned()));
        assert!(!names("Use `always()` there").contains(&"always or never".to_owned()), "code is masked");
        let points_at_change = |sentence: &str| names(sentence).contains(&"points at this change".to_owned());
        assert!(!points_at_change("We use tabs in this repository"));
        assert!(!points_at_change("We never catch bare exceptions here."));
        for said in
            ["We never close the file here", "Use this repository handle, not this one", "Rename it here"]
        {
            assert!(points_at_change(said), "{said}");
        }
        let of_a_kind = "all of a kind need something".to_owned();
        assert!(names("All public functions need a docstring").contains(&of_a_kind));
        assert!(names("Every endpoint needs authentication").contains(&of_a_kind));
        assert!(!names("Tests need fixing").contains(&of_a_kind));
        assert!(is_imperative("Please use it") && !is_imperative("Used it"));
    }
}
