//! Words by their part of speech, as far as an order is recognised by them.

use std::collections::HashSet;
use std::sync::LazyLock;

use regex::Regex;

use crate::vocabulary::RULE_VERBS;

/// Returns `true` if a word is the base form of a verb: one that orders often begin with, one of them with a
/// prefix ("reinstall"), or a word with the ending of a verb ("rotate", "falsify").
pub(super) fn is_known_verb(word: &str) -> bool {
    let listed =
        |word: &str| KNOWN_VERB.is_match(word) && !ADVERBS.contains(&word) && !is_function_word(word);
    let without_prefix = || PREFIXES.iter().find_map(|prefix| word.strip_prefix(prefix));
    let prefixed =
        || without_prefix().is_some_and(|base| base.len() >= 4 && listed(base.trim_start_matches('-')));
    listed(word) || has_verb_ending(word) || prefixed()
}

fn has_verb_ending(word: &str) -> bool {
    let ends = word.ends_with("ify")
        || (word.len() > 6 && (word.ends_with("ize") || word.ends_with("ise")))
        || (word.len() > 5 && word.ends_with("ate"));
    ends && word.chars().all(|c| c.is_ascii_lowercase()) && !ENDS_LIKE_VERB.contains(&word)
}

/// Prefixes with which a verb is a verb. "Un" makes an adjective, too: "unread".
const PREFIXES: &[&str] = &["re", "dis", "over"];

/// Nouns and adjectives with the ending of a verb.
const ENDS_LIKE_VERB: &[&str] = &[
    "accurate",
    "adequate",
    "aggregate",
    "alternate",
    "appropriate",
    "approximate",
    "candidate",
    "certificate",
    "concise",
    "coordinate",
    "corporate",
    "delegate",
    "duplicate",
    "elaborate",
    "enterprise",
    "estimate",
    "exercise",
    "expertise",
    "franchise",
    "immediate",
    "inaccurate",
    "inadequate",
    "inappropriate",
    "intermediate",
    "legitimate",
    "likewise",
    "literate",
    "moderate",
    "otherwise",
    "predicate",
    "premise",
    "private",
    "promise",
    "separate",
    "surprise",
    "template",
    "ultimate",
];

/// Returns `true` if a verb is a noun, too, so that a report may begin with it: "build cancelled".
pub(super) fn is_noun(verb: &str) -> bool {
    NOUN_VERBS.contains(&verb.strip_prefix("re").unwrap_or(verb)) || NOUN_VERBS.contains(&verb)
}

/// Returns `true` for words of the closed classes: prepositions, conjunctions, pronouns, auxiliaries, and
/// adverbs. None is a verb in an order, and after most of them a base form is none.
pub(super) fn is_function_word(word: &str) -> bool {
    static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| FUNCTION_WORDS.split(' ').collect());
    WORDS.contains(word)
}

/// Returns `true` for the participles of irregular verbs, which end a clause as well as begin one.
pub(super) fn is_participle(word: &str) -> bool {
    PARTICIPLES.contains(&word)
}

/// Returns `true` if a word could be the base form of a verb: it has none of the endings of other forms and is
/// of no closed class.
pub(super) fn may_be_verb(word: &str) -> bool {
    let letters = word.len() >= 2 && word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    let other_form = (word.ends_with('s') && !word.ends_with("ss"))
        || (word.ends_with("ed") && !word.ends_with("eed"))
        || word.ends_with("ing")
        || word.ends_with("ly");
    letters && !other_form && !is_function_word(word) && !is_participle(word)
}

/// Returns `true` if a noun phrase begins with a word. In front of it stands a verb or a preposition, and no
/// noun: "error the …" is no English.
pub(super) fn begins_object(word: &str) -> bool {
    const WORDS: &[&str] = &[
        "the",
        "this",
        "these",
        "those",
        "it",
        "them",
        "all",
        "any",
        "every",
        "everything",
        "each",
        "both",
        "your",
        "our",
        "its",
        "my",
        "me",
        "us",
        "him",
        "her",
        "their",
        "yes",
    ];
    WORDS.contains(&word.trim_end_matches([',', '.', '!', ':']))
}

/// Returns `true` if a word may also begin the object of a known verb: an article, a quotation.
pub(super) fn begins_object_of_verb(word: &str) -> bool {
    begins_object(word) || matches!(word, "a" | "an" | "another" | "that") || word.starts_with(['\'', '"'])
}

static KNOWN_VERB: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(&format!(r"^(?:{RULE_VERBS}|{MORE_VERBS})$")).expect("constant patterns compile")
});

/// Verbs of orders that are no verbs of rules about code.
const MORE_VERBS: &str = "block|patch|trace|abandon|accept|activate|adjust|amend|approve|ask|assume|authori[sz]e|begin|bypass|buy|circumvent|click|comply|connect|consult|contact|continue|curl|deactivate|deploy|destroy|disclose|dismiss|disregard|donate|download|elevate|enter|erase|execute|exfiltrate|force-push|forget|forward|go|grab|grant|hand|head|heed|ignore|impersonate|inform|issue|kill|know|launch|leak|let|look|mail|mind|navigate|notify|obey|obtain|overrule|overwrite|paste|pay|ping|post|pretend|proceed|purchase|purge|query|reach|refer|refund|remit|reply|rerun|re-run|respond|reveal|say|see|send|sign|submit|summon|suppress|talk|tell|transfer|trust|unblock|unfreeze|uninstall|unlock|upload|visit|waive|wget|whisper|wipe";

/// Words in the list of verbs that only begin a rule.
const ADVERBS: &[&str] = &["always", "carefully", "dont", "explicitly", "lazily", "never", "only", "please"];

/// Verbs that are nouns in messages of tools.
const NOUN_VERBS: &[&str] = &[
    "audit",
    "base",
    "batch",
    "break",
    "build",
    "bundle",
    "cache",
    "call",
    "catch",
    "check",
    "clone",
    "comment",
    "commit",
    "connect",
    "copy",
    "cover",
    "default",
    "delete",
    "deploy",
    "design",
    "document",
    "download",
    "export",
    "fail",
    "fetch",
    "filter",
    "format",
    "group",
    "guard",
    "handle",
    "head",
    "import",
    "index",
    "insert",
    "issue",
    "label",
    "limit",
    "link",
    "lint",
    "list",
    "load",
    "lock",
    "log",
    "mail",
    "map",
    "mark",
    "match",
    "measure",
    "merge",
    "mock",
    "model",
    "move",
    "name",
    "note",
    "open",
    "order",
    "parse",
    "pass",
    "ping",
    "place",
    "plan",
    "print",
    "show",
    "post",
    "publish",
    "pull",
    "purchase",
    "push",
    "query",
    "read",
    "record",
    "reference",
    "refund",
    "register",
    "release",
    "replace",
    "report",
    "reset",
    "resolve",
    "retry",
    "return",
    "review",
    "scope",
    "select",
    "set",
    "share",
    "sign",
    "snapshot",
    "sort",
    "stage",
    "start",
    "state",
    "stop",
    "store",
    "stream",
    "switch",
    "tag",
    "target",
    "test",
    "thread",
    "throw",
    "time",
    "track",
    "transfer",
    "type",
    "update",
    "upgrade",
    "upload",
    "version",
    "wait",
    "warn",
    "watch",
    "write",
];

/// Participles and past tenses of irregular verbs that messages contain.
const PARTICIPLES: &[&str] = &[
    "became", "began", "built", "came", "found", "gave", "got", "held", "kept", "knew", "left", "lost",
    "made", "meant", "ran", "said", "saw", "sent", "thought", "told", "took", "went", "wrote",
];

/// Words of the closed classes, and words of failures, which stand in front of what failed.
const FUNCTION_WORDS: &str = "\
    a an the this that these those some any each every either neither no all both half such \
    i me my we us our you your he him his she her it its they them their one who whom whose which what \
    whatever whoever \
    about above across after against along among around as at because before behind below beneath beside \
    besides between beyond by despite down during except for from given in inside into like near of off on onto out \
    outside over past per plus since than through throughout till to toward towards under underneath until unlike \
    unless up upon versus via when whenever where wherever whether while with within without amid \
    and but nor or so yet if then else though although \
    am is are was were be been being do does did done has have had can cannot could may might must shall \
    should will would ought need dare \
    can't couldn't won't wouldn't don't doesn't didn't isn't aren't wasn't weren't hasn't haven't hadn't mustn't \
    shouldn't \
    not never always also again almost already just even ever maybe more most much many few less least only \
    perhaps rather same still there here too very how why once twice now later soon often other own else \
    due \
    error failure invalid unknown missing unexpected bad null none true false";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_nobody_listed_may_be_a_verb_unless_it_has_another_form() {
        for word in ["frobnicate", "waive", "feed", "pass"] {
            assert!(may_be_verb(word), "{word}");
        }
        for word in ["requires", "expected", "missing", "only", "because", "error", "x1", "a"] {
            assert!(!may_be_verb(word), "{word}");
        }
    }

    #[test]
    fn known_verbs_are_base_forms() {
        assert!(is_known_verb("approve") && is_known_verb("run") && is_known_verb("capitalise"));
        assert!(is_known_verb("rotate") && is_known_verb("falsify") && is_known_verb("reinstall"));
        assert!(!is_known_verb("certificate") && !is_known_verb("size") && !is_known_verb("state of"));
        assert!(!is_known_verb("approved") && !is_known_verb("only"));
        assert!(is_noun("build") && !is_noun("approve"));
    }

    #[test]
    fn every_noun_is_a_known_verb() {
        let unknown: Vec<_> = NOUN_VERBS.iter().filter(|verb| !is_known_verb(verb)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
