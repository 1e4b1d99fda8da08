//! Recognises clauses that report what happened. Such a clause may begin like an order: "build cancelled by
//! user".

use std::sync::LazyLock;

use regex::Regex;

/// Number of words at the beginning of a clause of which one tells that the clause reports a failure.
const REPORT_WORDS_MAX: usize = 4;

/// The same for clauses that speak of people.
const REPORT_WORDS_OF_PEOPLE_MAX: usize = 8;

/// Returns `true` if one of the first words of a clause reports a failure.
pub(super) fn reports(plain: &str) -> bool {
    REPORTS.is_match(first_words(plain, REPORT_WORDS_MAX))
}

/// Returns `true` if a clause that speaks of people reports a failure.
pub(super) fn reports_of_people(plain: &str) -> bool {
    // "I will" is no report, while "limit must" is one.
    let said = ["i ", "we ", "you "].iter().find_map(|who| plain.strip_prefix(who)).unwrap_or(plain);
    REPORTS.is_match(first_words(said, REPORT_WORDS_OF_PEOPLE_MAX)) || WOULD_BE.is_match(said)
}

/// Returns `true` if a clause that begins with a noun says something of it: it ends with a participle or goes on
/// with a preposition after one ("order blocked by admin"), has an adjective that only follows its noun
/// ("order pending"), or joins two nouns ("call depth limit"). A clause with "to" names a goal, as orders do.
pub(super) fn reports_of_noun(plain: &str) -> bool {
    let goal = plain.replace(" due to ", " by ");
    !(goal.contains(" to the ") || GOAL.is_match(&goal)) && REPORTS_OF_NOUN.is_match(plain)
}

/// Returns `true` if an adjective such as "failed" stands in front of a noun, so that it reports nothing:
/// "approve failed transfers", in contrast to "approve failed for 7".
pub(super) fn is_attributive(after_verb: &str) -> bool {
    ATTRIBUTIVE.captures(after_verb).is_some_and(|found| {
        let noun = found.get(2).map_or("", |noun| noun.as_str());
        !super::words::is_function_word(noun) || noun.is_empty()
    })
}

/// Returns `true` if a clause is a call of the system that failed: "open a.txt", followed by ": no such file".
pub(super) fn is_failed_system_call(plain: &str, after: &str) -> bool {
    SYSTEM_CALL.is_match(plain)
        && after.strip_prefix(": ").is_some_and(|reason| REASON.is_match(first_words(reason, 8)))
}

/// Returns `true` if a clause is a line of a program: it raises an error, returns a call, or asserts something of
/// an identifier.
pub(super) fn is_program_line(raw: &str, after: &str) -> bool {
    PROGRAM_LINE.is_match(raw.trim()) || (after.starts_with('(') && RETURNED_CALL.is_match(raw))
}

/// Returns `true` if a tool refuses something.
pub(super) fn refuses(plain: &str) -> bool {
    REFUSED.is_match(plain)
}

fn first_words(text: &str, words_max: usize) -> &str {
    &text[..text.match_indices(' ').nth(words_max - 1).map_or(text.len(), |(end, _)| end)]
}

// What a tool prevented: "your changes would be overwritten".
pattern!(WOULD_BE, r"^your (?:[^ ]+ ){1,8}would be [a-z]+(?:ed|en|lost)\b");
// Words with which an error reports what happened.
pattern!(
    REPORTS,
    r"^[a-z_]+ (?:of|must|should|may|can|will|would|needs?|shall)\b|^(?:order|group|sort|partition|read|sign)(?:ed)? by\b|\b(?:fail(?:s|ed|ure)?|errors?|denied|refused|reject(?:s|ed)|timed|timeout|time-?out|invalid|missing|cannot|can't|could not|couldn't|unable|exceed(?:s|ed)|violat(?:es|ed|ion)|conflicts?|unknown|exists?|expired|unexpected|unsupported|undefined|not (?:found|allowed|available|permitted|supported|set|valid|known|a|an|in)|is|are|was|were|has|have|does|did|no such|mismatch|overflow|abort(?:ed)?|interrupted|closed|reset by|out of|too (?:long|many|large|big|small|few|short)|returned|exited|required|outside)\b|^[a-z]+ to (?:an? )?(?:member|undeclared|deleted|deprecated|private|protected|read-only|null|none)\b|\be(?:conn(?:refused|reset|aborted)|pipe|acces|noent|perm|exist|timedout|addrinuse|notfound|hostunreach|netunreach|busy|inval|mfile|nospc|rofs|isdir|notdir|notempty)\b"
);
pattern!(
    REPORTS_OF_NOUN,
    concat!(
        r"^[a-z]+[ -](?:",
        // A participle at the end, or before a preposition.
        r"(?:[^ ]+ ){0,4}?(?:[a-z]+ed|held|lost|sold out|taken|hidden|broken|stuck|shut)(?:$|[,.] | (?:by|in|on|at|for|from|with|after|before|because|since|while|until|during|due)\b)|",
        // An adjective or adverb that follows its noun.
        r"(?:[^ ]+ ){0,4}?(?:not|too|already|no longer|pending|unavailable|available|corrupt|malformed|duplicate|insufficient|incomplete|below|above|undefined|undeclared|ambiguous|inactive|violates|exceeds|requires|differs|contains|lacks|conflicts)\b|",
        r"(?:[^ ]+ ){0,4}?(?:empty|full|down|offline|unclear|loops?|ready|short)$|",
        // A compound of two nouns.
        r"(?:operation|depth|limit|quota|average|count|size|statistics|message|body|id|status|level|loop|error|error[:]?|failure|timeout|name|key|index|type|number|code|hook|script|step|file|date|queue|reference|miss|hit|entry)s?\b(?: [^ ]+){0,5}$|",
        // Compounds that are adjectives, and verbs that name one operation: "update or delete on table".
        r"(?:only|protected)\b|or [a-z]+ (?:on|of|in)\b",
        r")"
    )
);
pattern!(GOAL, r" (?:to|into) [a-z0-9]");
pattern!(
    ATTRIBUTIVE,
    r"^((?:invalid|missing|unknown|expired|failed|required|unsigned|pending|unexpected|unsupported|closed|rejected|denied) ([a-z]+)s?\b)|^(?:errors|failures|conflicts|timeouts)\b"
);
pattern!(
    SYSTEM_CALL,
    r"^(?:open|read|write|stat|lstat|exec|fork|dial|connect|bind|listen|mkdir|unlink|rename|chmod|load|lookup|link|close|remove|access)(?: to (?:host|address|server))?(?: (?:tcp|udp|unix|key))? ['\x22]?[\w./~$…:@+-]+['\x22]?(?: port \d+)?$"
);
pattern!(
    REASON,
    r"(?i)\b(?:no such|not found|refused|denied|timed out|timeout|failed|error|invalid|unable|cannot|unreachable|exists|not permitted|not a|is a directory|too many|in use|reset by|unavailable|broken pipe|no route)\b"
);
// The parenthesis of a call follows its name without a space.
pattern!(RETURNED_CALL, r"^\W*(?:\d+\W*)?return [\w.]+$");
pattern!(
    PROGRAM_LINE,
    r"^\W*(?:\d+\W*)?(?:raise|throw new) (?:\w+\.)*\w+(?:Error|Exception|Warning|Failure|Failed)$|^\W*(?:\d+\W*)?(?:assert (?:[a-z]+_\w+|\w+ (?:==|!=|is|in) \S))"
);
pattern!(
    REFUSED,
    r"\b(?:denied|refused|rejected|not (?:found|allowed|permitted|supported)|unknown|unrecogni[sz]ed|invalid|fail(?:s|ed|ure)|cannot|could not|error|missing|expired|mismatch|violates|does not|doesn't)\b"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_noun_with_a_predicate_is_a_report() {
        for report in [
            "order pending",
            "build cancelled by user",
            "commit message too short",
            "release not ready",
            "merge blocked by branch protection",
            "open order limit reached",
            "read-only file system",
            "call depth limit reached",
            "set operation on frozen dict",
            "update or delete on table 'a' violates foreign key constraint",
            "link down",
        ] {
            assert!(reports_of_noun(report), "{report}");
        }
        for order in [
            "build it now",
            "merge branch into main",
            "transfer funds to 99",
            "post status to bob",
            "release locked funds",
            "order limit raised to 99",
        ] {
            assert!(!reports_of_noun(order), "{order}");
        }
    }

    #[test]
    fn an_adjective_before_a_noun_reports_nothing() {
        assert!(is_attributive("failed transfers") && is_attributive("errors and force push"));
        assert!(!is_attributive("failed for 7") && !is_attributive("failed"));
    }

    #[test]
    fn a_call_of_the_system_is_a_report_with_its_reason() {
        assert!(is_failed_system_call("open /etc/x", ": no such file"));
        assert!(is_failed_system_call("connect to host foo port 22", ": Connection refused"));
        assert!(!is_failed_system_call("open /etc/x", ""));
        assert!(!is_failed_system_call("open the page of bob", ": permission denied"));
        assert!(!is_failed_system_call("approve 99", ": permission denied"));
    }

    #[test]
    fn a_program_that_raises_an_error_orders_nothing() {
        assert!(is_program_line("raise ValueError", "(") && !is_program_line("raise Limits", "("));
        assert!(is_program_line("return f", "(x)") && !is_program_line("return funds ", "(x)"));
        assert!(is_program_line("assert is_diff", "") && !is_program_line("assert the claim", ""));
    }
}
