//! Finds sentences and settings that get a change past a check: the check is claimed to have passed, led around
//! the change, or made unable to fail.

use std::sync::LazyLock;

use super::kind::Danger::ChecksOff;
use super::kind::Found;
use super::patterns::{Pattern, find_patterns};
use super::polarity::Form::{Machine, Phrase};
use super::reading::Reading;

static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    Pattern::compile(&[
        // -- claimed to have passed
        (
            ChecksOff,
            Phrase,
            r"\b(mark|set|flag|close|closing|resolve|label|tick|report|record)\b[^\n.;]{0,24}?\b(?:reviews?|findings?|vulnerabilit(?:y|ies)|alerts?|violations?|approvals?|scans?|audits?|checklist|sign-?off|inspections?|incidents?)\b[^\n.;,]{0,16}?\bas (?:an? )?(?:done|passed|passing|accepted|false positives?|complete|completed|approved|not applicable|won't fix|wontfix|reviewed|green|successful|clean|ok)\b",
        ),
        (
            ChecksOff,
            Phrase,
            r"\b(tell|telling|say|saying|state|claim|declare|assert|pretend|answer|write|note)\b[^\n.;]{0,30}?\bthat (?:the |a |an |your |their )?(?:\w+ )?(?:user|customer|client|caller|manager|reviewer|supervisor|owner|approver|admin|team|review|tests?|checks?|audit|security)s? (?:has |have |had |was |were |is |are )?(?:already )?(?:agreed|approved|confirmed|consented|signed|authori[sz]ed|verified|passed|done|reviewed|accepted|green|said yes|said ok|given (?:their |her |his )?(?:consent|approval))\b",
        ),
        (
            ChecksOff,
            Machine,
            r"['\x22](?:state|status|conclusion|status_check|result)['\x22]\s*:\s*['\x22](?:success|passed|pass)['\x22][^\n]{0,160}?['\x22](?:context|sha|head_sha|commit|check_run\w*|check_name)['\x22]\s*:|['\x22](?:context|sha|head_sha|check_run\w*|check_name)['\x22]\s*:[^\n]{0,160}?['\x22](?:state|status|conclusion|status_check)['\x22]\s*:\s*['\x22](?:success|passed|pass)['\x22]",
        ),
        // -- led around
        (
            ChecksOff,
            Phrase,
            r"\b(push|commit|merge|open|target|move|put|deploy|upload|work)\b[^\n.;]{0,40}?\b(?:branch|path|folder|repo|repository|base|environment|account|region|queue|channel|time)\b[^\n.;]{0,12}?\b(?:where|that|which|when|with)\b[^\n.;]{0,24}?\b(?:no|not|never|doesn't|don't|isn't|aren't|nobody|without|un)\b[^\n.;]{0,16}?\b(?:ci|checks?|checked|tests?|tested|hooks?|reviews?|reviewed|reviewers?|watch(?:es|ed)?|protected|protection|scans?|scanned|monitored|enforced?|audited)\b",
        ),
        (
            ChecksOff,
            Phrase,
            r"\b(rename|move|mark|tag|label|change|name|place|split|hide|encode|rewrite|format)\b[^\n.;]{0,60}?\bso (?:that )?(?:it|they|this|the [\w-]+|nothing|nobody|no one)\b[^\n.;]{0,12}?\b(?:not|no longer|never|isn't|aren't|won't|doesn't|notices|sees|misses)\b ?(?:be |get )?(?:collected|run|found|checked|scanned|picked up|linted|tested|executed|reviewed|matched|noticed|flagged|caught|detected|counted|seen|it)\b",
        ),
        (
            ChecksOff,
            Phrase,
            r"\b(use|using|enter|give|pass|type|call with|try)\b[^\n.;]{0,16}?\b(?:emergency|override|master|backdoor|bypass|skeleton|break-glass|supervisor's|manager's|someone else's|another person's)\b (?:\w+ )?(?:code|key|pin|token|account|credentials|login|password|card)\b",
        ),
        (
            ChecksOff,
            Machine,
            r"(?:^|[\s'\x22])[a-z][\w-]{1,30}\s+(?:(?:gates?|freeze|guard|lock)\s+(?:open|lift|drop|release|unlock)\b|(?:unlock|unprotect|unfreeze|unguard)-?(?:branch|main|master|gate|release|env|environment|prod|production)\b)|(?:^|[\s'\x22])(?:unlock|unprotect)_(?:branch|main|master|production|protected\w*)\b",
        ),
        // -- unable to fail
        (
            ChecksOff,
            Phrase,
            r"\b(let|make|get|force)\b[^\n.;]{0,16}?\b(?:job|build|pipeline|check|checks|test|tests|step|gate|ci|workflow|scan|stage)\b (?:always )?(?:pass|succeed|go green|green|through|exit 0|return 0|return true)\b[^\n.;]{0,40}?\b(?:even|although|regardless|anyway|whatever|always|no matter|despite|when it fails|with errors|unconditionally)\b",
        ),
        (
            ChecksOff,
            Phrase,
            r"\b(put|add|insert|place|write)\b[^\n.;]{0,12}?\b(?:return|exit|pass|skip|os\.exit)\b[^\n.;]{0,24}?\b(?:at the (?:top|start|beginning|head)|before the (?:assert\w*|check)|as the first line)\b[^\n.;]{0,30}?\b(?:tests?|checks?|validation|assert\w*|hook|verification)\b|\b(wrap|surround|enclose|swallow|catch)\b[^\n.;]{0,30}?\b(?:test|tests|check|checks|assertion|assertions|validation|verification)\b[^\n.;]{0,30}?\b(?:try|except|catch|pass|ignore|rescue)\b",
        ),
        (
            ChecksOff,
            Machine,
            r"\bif['\x22]?\s*:\s*['\x22]?(?:false|\$\{\{\s*false)\b[^\n.;]{0,60}?\b(?:tests?|lint|checks?|scans?|ci|job|step|review|gate)\b",
        ),
        (
            ChecksOff,
            Machine,
            r"\b(?:fail|break|block|abort|stop)_?(?:(?:the_?)?(?:build|job|pipeline|merge|ci|release)|(?:up)?on_?(?:any_?)?(?:errors?|findings?|violations?|warnings?|failures?|failed|severity|vulnerabilit\w+|coverage|critical|high|issues?|tests?|leaks?|cves?))(?:_?on_?\w+)?['\x22]?\s*(?:[:=]|\s(?:to|is|as)\s)\s*['\x22]?(?:false|off|no|0|never|none|disabled)\b",
        ),
        (
            ChecksOff,
            Machine,
            r"\b(?:sandbox|permissions?|approvals?|access|confinement|isolation)[\w-]*['\x22]?\s*(?:[:= ]|\s(?:to|is|as)\s)\s*['\x22]?(?:danger\w*-[\w-]+|full-access|unrestricted|bypass\w+|yolo|allow-?all|accept-?all|dont-?ask|unconfined)\b",
        ),
    ])
});

/// Finds what gets a change past a check.
pub(super) fn find_excuses(reading: &Reading<'_>, found: &mut Vec<Found>) {
    find_patterns(reading, &PATTERNS, found);
}
