//! Finds options, keys and values that turn verification or checks off.

use std::sync::LazyLock;

use super::kind::Danger::{ChecksOff, VerificationOff};
use super::kind::{Danger, Found};
use super::patterns::{Pattern, find_patterns};
use super::polarity::Form::{self, Command, Machine, Phrase};
use super::reading::{Reading, Word, gap};
use super::special::{Value, judge_special};
use super::words::part::{ANY, CHECK, DIGEST, HOST, LAX, OFF, PROOF, REQUIRED, THING, TRUST, VERIFY};
use super::words::{Parts, is_one_of};

const OFF_VALUES: &str = "false 0 no off none never disable disabled disabling ignore skip insecure permissive optional allow any naive verify_none cert_none n null lax lenient unsafe bypass bypassed skipped suppress unchecked relaxed nobody";
/// Values of a check that say that nobody has to pass it.
const AUTOMATIC_VALUES: &str = "auto automatic automatically self bot robot implicit instant agent";
/// Values that switch a check off which is named by one everyday word: `scan: disabled`.
const CERTAIN_OFF_VALUES: &str = "off disabled disable skip skipped bypass bypassed suppress";
const ON_VALUES: &str = "true 1 yes on always enable enabled y t";

/// Who or what a person proves in a step-up.
pub(super) const PERSONS: &str = "identity kyc aml otp captcha mfa 2fa totp human caller customer age";

/// Whom a signature or a package comes from, and keys, which are trusted without a proof.
const SIGNERS: &str = "publisher publishers signer signers issuer issuers origin origins source sources author key keys package packages artifact artifacts image images";

/// Endings of words that are files and not names of settings.
const FILE_ENDINGS: &str = "py rs js ts tsx jsx go java kt rb php md sh txt log html css c h cpp cs sql lock";

/// Options of one letter and other spellings whose parts say nothing.
static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    Pattern::compile(&[
        (
            VerificationOff,
            Machine,
            r"\bcurl\b[^\n|;]{0,200}?[\s'\x22](-[a-jl-z#]{0,6}k[a-z]{0,6})(?:['\x22\s,.)}]|$)",
        ),
        (
            VerificationOff,
            Machine,
            r"\b(?:wget|xh|http|https|httpie|lftp|ldapsearch|openssl)\b[^\n|;]{0,160}?\s(--verify[= ]no|--no-check-cert\w*|-noverify)",
        ),
        (
            VerificationOff,
            Machine,
            r"certificate_?validation_?callback[^\n]{0,80}true|checkservertrusted|hostnameverifier[^\n]{0,60}true|\[trusted=yes\]|\bsiglevel\s*=\s*(?:never|optional)|com\.apple\.quarantine|\bspctl\s+--master-disable|executionpolicy['\x22]?\s+['\x22]?(?:bypass|unrestricted)|-ep\s+bypass|strict-?host-?key-?checking[= ]+['\x22]?(?:no|off|accept-new)",
        ),
        (
            VerificationOff,
            Phrase,
            r"\b(use|using|switch to|fall back to|talk|connect)\s+(?:over |via |to )?(?:plain |unencrypted )?http\s+(?:instead of|rather than|and not)\s+https\b|\b(?:plain|unencrypted) http\b|--plain-http\b|--insecure-http\b|\bhttp://['\x22]?\s+(?:instead of|rather than|and not)\s+['\x22]?https|\bgpg\.program['\x22]?[= ]\s*\S{0,20}/(?:true|echo)\b",
        ),
        (
            ChecksOff,
            Command,
            r"\b(?:[a-z]*tests?|jest|vitest|mocha|rspec|phpunit|ctest|tox|nox|lint|eslint|ruff|flake8|clippy|mypy|pylint|check|verify|audit|ci|scan|validate|typecheck|tsc)\b[^\n|;&]{0,100}?(?:\|\|\s*(?:true|:|exit\s+0|echo)|;\s*(?:true|exit\s+0))(?:\b|\s|$)",
        ),
        (
            ChecksOff,
            Machine,
            r"\b(?:gradlew?|gradle)\b[^\n|;]{0,160}?\s['\x22]?(-x\s+\S*(?:test|check|lint|spotless|detekt)\w*|--exclude-task\s+\S*(?:test|check|lint))",
        ),
        (
            ChecksOff,
            Machine,
            r"\bgit\b['\x22]?[^\n|;]{0,60}?\bcommit\b[^\n|;]{0,120}?[\s'\x22](-(?:n|an|nm|anm|na|nam|sn|ns))(?:['\x22\s,.)}]|$)",
        ),
        (
            ChecksOff,
            Machine,
            r"\bmerge\b[^\n|;]{0,80}?(--admin)\b|\b(?:pr|mr)\s+review\b[^\n|;]{0,60}--approve\b|\bmr\s+approve\b|\bworkflow\s+disable\b|\beslint-disable\b|@ts-(?:nocheck|ignore)\b|\bnoqa\b|\btype:\s*ignore\b|//\s*nolint\b|\bnosec\b|@suppress(?:warnings|lint)?\b|\b(?:rubocop|pylint|shellcheck|stylelint|swiftlint|ktlint|detekt|phpcs|hadolint)[:\s-]+(?:disable|ignore)\b|\s-a\s+(?:clippy|warnings|unused)|#!?\[allow\(|\bcap-lints[ =]allow|\bpragma:\s*no\s*cover|\bistanbul\s+ignore|\bphpstan-ignore|\bset \+e\b|\bsetenforce\s+0|\bufw\s+disable\b|\biptables\s+(?:-f|--flush)\b|@(?:pytest|unittest)\.(?:mark\.)?(?:skip|xfail)|\b(?:it|test|describe)\.(?:skip|todo)\b|\bt\.skip\s*\(|\bxit\s*\(|#\[ignore\]|@disabled\b|--passwithnotests|--deselect\b|\bdisable-next-line\b",
        ),
        // -- the files and the interfaces that checks are made of
        (
            ChecksOff,
            Command,
            r"\b(?:rm|mv|unlink|shred|delete|deleting|remove|removing|rename|move|chmod\s+(?:-x|a-x|-\S*x|0?[046]{3})|truncate|rmdir|trash)\b[^\n;|&]{0,60}?(?:\.git/hooks|\.husky|\.github/workflows|\.pre-commit-config|\.gitlab-ci|\bjenkinsfile|\bcodeowners\b|/hooks/(?:pre|commit|post)|\.circleci|branch-protection|lefthook\.yml|\.(?:eslintrc|flake8|golangci|semgrep|gitleaks|trivyignore))",
        ),
        (
            ChecksOff,
            Command,
            r"\bdelete\b[^\n;|]{0,160}/(?:protection|rulesets|required_status_checks|required_pull_request_reviews|approval_rules|push_rule)\b|\bdelete\s+(?:validatingwebhook\w*|mutatingwebhook\w*|constraints?|clusterpolic\w*|networkpolic\w*|pdb|poddisruptionbudgets?|podsecuritypolic\w*)\b|\b(?:patch|put)\b[^\n;|]{0,120}/protection\b[^\n;|]{0,120}(?:false|null|=0)\b|\benforce_admins\S{0,4}\s*(?:=|:)\s*false",
        ),
        (VerificationOff, Machine, r"\balg(?:orithms?)?['\x22]?\s*[:=]\s*[\[(]?\s*['\x22]?none\b"),
        (
            VerificationOff,
            Phrase,
            r"\b(?:checksum|signature|certificate|hash|fingerprint|host key)s?\b[^\n.;]{0,60}?\b(ignore|skip|bypass|accept)\s+(?:it|that|this|them)\b",
        ),
        (
            ChecksOff,
            Phrase,
            r"\b(?:tests?|checks?|hooks?|lint|linter|ci|reviews?|assertion)\b[^\n.;]{0,60}?\b(ignore|skip|bypass|disable|delete|remove)\s+(?:it|that|them)\b(?:['\x22.,;]|$|\s(?:and|then|so|for|to|before))",
        ),
        (
            ChecksOff,
            Command,
            r"\[(?:skip ci|ci skip|no ci|skip actions|actions skip|skip tests?|skip checks?)\]|\*\*\*no_ci\*\*\*",
        ),
        (
            ChecksOff,
            Phrase,
            r"\b(approve|approving|accept|lgtm)\s+(?:your|its|their|his|her|my|our|the agent's)\s+(?:own\s+)?(?:pull request|pr|change|changes|merge request|mr|work|commit|diff)s?\b|\bself[- ]?(approve|approving|merge|merging|review)\b|\bapprove\s+(?:it|them|the (?:pr|change|pull request|diff))\s+(?:yourself|blindly|unread|unseen|automatically)",
        ),
        (
            ChecksOff,
            Phrase,
            r"\b(merge|approve|push|land|deploy|release)\b[^\n.;]{0,40}?\bwith\s+(?:admin|administrator|root|owner)\s+(?:rights|privileges|override|permissions)\b|\b(let)\s+(?:the |an? )?(?:agent|bot|tool|script|model|assistant|system|pipeline)\s+(?:approve|confirm|sign|authori[sz]e|accept)\b|\b(approve|authori[sz]e|confirm|accept)\s+(?:all|every|everything|any)\b[^\n.,;]{0,30}?\b(?:requests?|changes|prompts?|approvals?|transactions?|payments?|permissions?|actions?|commands?|prs?|merge|refunds?|orders?|calls?)\b|\b(without)\s+(?:asking|consulting|telling|informing|waiting for)\s+(?:the |a |an |any |your |its )?(?:caller|customer|user|person|human|owner|manager|team|reviewer|supervisor|operator|maintainer|anybody|anyone|somebody|someone)\b|\b(without)\s+(?:a |any )?(?:human|person|manager|supervisor|second (?:person|pair|look|approver)|sign-?off|four[- ]eyes)\b",
        ),
        (
            ChecksOff,
            Phrase,
            r"\b(merge|merging|approve|land|ship|deploy|release|commit|push)\b[^.;\n]{0,60}?\b(?:regardless of|no matter|even if|even though|even when|despite|whatever|in spite of|whether or not|although)\b[^.;\n]{0,40}?\b(?:reviews?|reviewers?|ci|tests?|checks?|approvals?|lint|pipeline|build|hooks?)\b",
        ),
        (
            ChecksOff,
            Phrase,
            r"\b(merge|approve|land|ship|deploy|release)\b[^.,;\n]{0,40}?\b(?:before|ahead of)\s+(?:the |any |its |all )?(?:[a-z]+ )?(?:review|reviews|approval|approvals|ci|checks|tests)\b(?:['\x22.,;\s]|$)",
        ),
        (
            ChecksOff,
            Phrase,
            r"\b(?:ci|reviews?|reviewers?|approvals?|checks?|tests?)\b[^\n.;]{0,60}?\b(?:merge|deploy|push|release|land|ship)\s+(?:it\s+|them\s+)?(without)\s+waiting\b",
        ),
        (
            ChecksOff,
            Phrase,
            r"\b(push|commit|pushing)\s+(?:[a-z'-]+ ){0,4}?(?:straight|directly|right)\s+(?:to|on|onto|into)\s+(?:the )?['\x22]?(?:main|master|trunk|production|the default branch|default branch|release|develop)\b",
        ),
        (
            ChecksOff,
            Phrase,
            r"\b(merge|ship|deploy|land|release)\s+(?:it\s+|them\s+)?(?:first|now|right away|immediately)\b[^\n;]{0,24}\b(?:review|test|check|ask|verify)\w*\s+(?:\w+\s+)?(?:later|after|afterwards)\b|\b(?:ship|deploy|merge|release|publish|push|land|commit)\b[^\n.,;]{0,30}\b(?:untested|unreviewed|unchecked|without looking)\b",
        ),
        (
            ChecksOff,
            Phrase,
            r"\b(unprotect(?:ing)?)\s+(?:the |a |all )?(?:[a-z'/-]+ )?(?:branch|branches|main|master|default)|\b(ignore|dismiss)\s+(?:the |all |any )?(?:review|reviewers?'?s?) (?:comments?|feedback|requests?|findings|objections)\b",
        ),
        (
            ChecksOff,
            Phrase,
            r"\b(hard-?code|fake|stub|force|rig|tweak|change|edit|weaken|rewrite)\b[^.;\n]{0,40}?\b(?:tests?|assertions?|checks?|expectations?)\b[^.;\n]{0,40}?\b(?:so (?:that )?(?:it|they|the \w+) (?:always )?pass(?:es)?|to (?:always )?pass|until (?:it|they) pass)\b",
        ),
    ])
});

/// Finds every option, key and pair that turns something off.
pub(super) fn find_switches(reading: &Reading<'_>, found: &mut Vec<Found>) {
    for at in 0..reading.words.len() {
        if is_plain(reading, at) {
            continue;
        }
        let (value, last) = read_value(reading, at);
        let Some(danger) = judge_setting(reading, at, value, last) else { continue };
        if reading.asks_for(at, last, Form::Machine) {
            found.push(Found { danger, first: at, last });
        }
    }
    find_patterns(reading, &PATTERNS, found);
}

/// Returns `true` for a word that is no setting: it is no option, and no part of it has a meaning.
fn is_plain(reading: &Reading<'_>, at: usize) -> bool {
    let word = &reading.words[at];
    let parts = &word.parts.list;
    !word.is_option()
        && parts.len() < 2
        && parts.iter().all(|(_, meaning)| *meaning == 0)
        && !reading.text(at + 1).starts_with("/dev/null")
        && !word.text.contains("hookspath")
        && !matches!(word.text, "mode" | "enforcement" | "unattended" | "approver")
}

/// Reads the value that is bound to a name, and the last word of both.
fn read_value(reading: &Reading<'_>, at: usize) -> (Value, usize) {
    let name = &reading.words[at];
    let Some(next) = reading.words.get(at + 1) else { return (Value::None, at) };
    let bound =
        next.gap & (gap::ASSIGN | gap::COLON) != 0 && next.gap & (gap::STOP | gap::COMMA | gap::SHELL) == 0;
    if bound {
        return (judge_value(next.text), at + 1);
    }
    let compound = name.is_option() || name.parts.list.len() > 1;
    if compound && (next.is(OFF_VALUES) || next.is(ON_VALUES)) && next.gap & (gap::STOP | gap::SHELL) == 0 {
        return (judge_value(next.text), at + 1);
    }
    let linked = next.is("to is as at equals equal") && next.gap & gap::ENDS == 0;
    let skipped = 2 + usize::from(matches!(reading.text(at + 2), "be" | "equal" | "to" | "the"));
    if linked && let Some(value) = reading.words.get(at + skipped) {
        // "set to `false`" and "is off", but not "is disabled", which phrases judge with their tense.
        let judged = judge_value(value.text);
        // "Use `--no-verify` to skip the hooks."
        let purpose = name.is_option() && value.is("skip ignore disable bypass suppress allow");
        if value.gap & gap::ENDS == 0
            && !purpose
            && judged != Value::Other
            && !value.is("disabled skipped optional ignored any bypassed suppress null")
        {
            return (judged, at + skipped);
        }
    }
    (Value::None, at)
}

fn judge_value(text: &str) -> Value {
    let text = text.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    match text {
        "0" | "0.0" => Value::Zero,
        text if is_one_of(text, OFF_VALUES) => Value::Off,
        text if is_one_of(text, ON_VALUES) => Value::On,
        text if is_one_of(text, AUTOMATIC_VALUES) => Value::Automatic,
        _ => Value::Other,
    }
}

/// Returns the danger of a name with its value, if it is one.
fn judge_setting(reading: &Reading<'_>, at: usize, value: Value, last: usize) -> Option<Danger> {
    let word = &reading.words[at];
    let parts = &word.parts;
    if let Some(danger) = judge_special(reading, at, value, last) {
        return Some(danger);
    }
    if word.text.contains('/') && value == Value::None
        || word.text.rsplit_once('.').is_some_and(|(_, end)| is_one_of(end, FILE_ENDINGS))
    {
        return None;
    }
    // `--signoff`, `--sign-off` and `--no-sign-request` are about people and requests.
    let signs = |pair: &[(String, u16)]| {
        pair[0].0 == "sign" && is_one_of(&pair[1].0, "in up off out on request requests")
    };
    // Coverage is also left out to run a debugger.
    if parts.list.windows(2).any(signs) || parts.is(&["no", "cov"]) || parts.is(&["coverage"]) {
        return None;
    }
    let off = parts.count(OFF);
    let lax = parts.has(LAX) || lets_anything_through(parts);
    let digest_off = parts.has(DIGEST)
        && parts.list.iter().any(|(word, _)| is_one_of(word, "ignore skip bypass disable ignoring skipping"));
    let verifies = digest_off
        || parts.has(VERIFY | PROOF)
        || parts.has(DIGEST | HOST) && parts.has(VERIFY | CHECK | REQUIRED);
    let checks = parts.has(CHECK) && !verifies;
    if !(lax || verifies || checks) {
        return None;
    }
    // "Insecure skip verify" says one thing twice; only "no insecure" takes it back.
    let takes_back = parts.list.windows(2).any(|pair| pair[0].1 & OFF != 0 && pair[1].1 & (LAX | TRUST) != 0);
    let negative = if lax { !takes_back } else { off % 2 == 1 };
    // A plain word is a name only if a value is bound to it.
    let ticked = |at: usize| reading.words.get(at).is_none_or(|word| word.gap & gap::TICK != 0);
    let parameter = parts.list.len() == 1 && lax && at > 0 && ticked(at) && ticked(at + 1);
    let whole =
        parts.list.len() > 1 && value != Value::None && parts.list.iter().all(|(_, meaning)| *meaning != 0);
    let named =
        word.is_option() || parameter || whole || parts.list.len() > 1 && is_written_as_code(reading, at);
    let dangerous = match value {
        Value::None => negative && named,
        Value::On | Value::Automatic | Value::Other => {
            negative && (named || parts.list.len() == 1 && lax && value == Value::On)
        }
        Value::Off | Value::Zero => !negative,
    };
    if !dangerous {
        return None;
    }
    // `verify_identity` and `otp_verification` are steps that a person takes.
    if !lax
        && !parts.list.iter().any(|(word, _)| word == "readable")
        && parts.list.iter().any(|(word, _)| is_one_of(word, PERSONS))
    {
        // `age_verified = false` says what is so.
        let states = !negative && parts.list.last().is_some_and(|(word, _)| word == "verified");
        return (!states).then_some(ChecksOff);
    }
    if lax || verifies && !checks {
        return judge_verification(word, lax, negative);
    }
    let certain = last > at && reading.words[last].is(CERTAIN_OFF_VALUES);
    judge_check(parts, negative, value, word.is_option() || certain).then_some(ChecksOff)
}

/// Judges a name that is about verification, or that lets anything through.
fn judge_verification(word: &Word<'_>, lax: bool, negative: bool) -> Option<Danger> {
    let parts = &word.parts;
    let thing = parts.has(THING) && !parts.has(CHECK) && !lax;
    let object = parts.has(VERIFY) && parts.has(THING) && !parts.has(PROOF);
    let about_a_thing =
        !lax && !negative && (thing || object) || negative && parts.has(THING) && !parts.has(VERIFY) && !lax;
    // `--no-verify` skips hooks; with another word it skips verification.
    let skips_hooks = parts.is(&["no", "verify"])
        && word.text.contains(['-', '_'])
        && word.text.contains("no")
        && !word.text.contains("noverify");
    let danger = if skips_hooks { ChecksOff } else { VerificationOff };
    (!about_a_thing).then_some(danger)
}

fn judge_check(parts: &Parts, negative: bool, value: Value, certain: bool) -> bool {
    let list = &parts.list;
    let check = list.iter().rposition(|(_, meaning)| meaning & CHECK != 0).unwrap_or(0);
    if negative {
        let off = list.iter().position(|(_, meaning)| meaning & OFF != 0).unwrap_or(0);
        // `test_skip_login` is a test, and `check-no-changes` a check.
        let ordered = off < check || off + 1 == list.len();
        return ordered
            && !(parts.has(THING) && list.last().is_some_and(|(_, meaning)| meaning & THING != 0));
    }
    let single = list.len() == 1
        && is_one_of(
            &list[0].0,
            "check test ci review scan validate cov permissions policies testing checking gate 2fa otp confirm confirmation human canary smoke freeze captcha",
        )
        && !certain;
    let thing = parts.has(THING) && !parts.has(REQUIRED);
    let zero = value == Value::Zero
        && list.len() > 1
        && !parts.has(REQUIRED)
        && list.last().is_some_and(|(_, meaning)| meaning & (CHECK | THING) == 0);
    // `include_tests` and `show_reviews` choose what is listed.
    let lists = list.first().is_some_and(|(word, _)| {
        is_one_of(word, "include show list has is count display return only dry exclude")
    });
    let policy = !certain && list.iter().any(|(word, _)| matches!(word.as_str(), "policy" | "policies"))
        || list.last().is_some_and(|(word, _)| word == "policy");
    // `review_policy = none` switches the review off.
    let policy = policy && parts.count(CHECK) == 1;
    !(single || thing || zero || lists || policy)
}

/// Returns `true` for `--trust-all-certs`, `trustServerCertificate`, `accept-invalid-certs`, `--trusted-host`.
fn lets_anything_through(parts: &Parts) -> bool {
    let trusts = parts.has(TRUST);
    let anything = parts.has(ANY)
        && (parts.has(PROOF | VERIFY | HOST | CHECK | DIGEST)
            || parts.list.iter().any(|(word, _)| is_one_of(word, SIGNERS)));
    // `KESTREL_TRUST_ALL`
    let all = parts.contains(&["trust", "all"])
        || parts.contains(&["trust", "any"])
        || parts.contains(&["trust", "unknown"])
        || parts.contains(&["trust", "new"])
        || parts.contains(&["always", "trust"])
        || parts.contains(&["trust", "everything"])
        || parts.contains(&["trust", "on", "first", "use"]);
    let hosts = parts.list.iter().any(|(word, _)| matches!(word.as_str(), "trust" | "trusted"))
        && parts
            .list
            .iter()
            .any(|(word, _)| matches!(word.as_str(), "host" | "hosts" | "server" | "hostname"));
    trusts && (anything || hosts || all)
}

/// Returns `true` if a word of several parts is a name: it has a separator, is quoted as code, or has a value.
fn is_written_as_code(reading: &Reading<'_>, at: usize) -> bool {
    let word = &reading.words[at];
    let edge = gap::TICK | gap::QUOTE | gap::BRACKET | gap::ASSIGN;
    let after = reading.words.get(at + 1).map_or(0, |next| next.gap);
    let glued = !word.text.contains('-') && word.parts.count(OFF | LAX | CHECK | PROOF | VERIFY) > 1;
    word.is_option()
        || word.text.contains(['_', '.'])
        || word.gap & edge != 0
        || after & (edge | gap::COLON) != 0
        || glued
}
