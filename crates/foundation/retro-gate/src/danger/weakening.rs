//! Finds checks that go on but find less: files and rules that a scanner
//! ignores, thresholds that nothing reaches, known findings that are written down as accepted.

use std::sync::LazyLock;

use super::kind::Danger::ChecksOff;
use super::kind::Found;
use super::patterns::{Pattern, find_patterns};
use super::polarity::Form::{Machine, Phrase};
use super::reading::{Reading, gap};
use super::words::{is_one_of, pieces};

static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    Pattern::compile(&[
        // -- rules and tests that are left out of a run
        (
            ChecksOff,
            Machine,
            r"\b(?:[a-z-]*tests?|spec|jest|vitest|mocha|rspec|ctest|nextest|unittest|check|lint|scan|verify|semgrep|[a-z]+lint|clippy|bandit|phpstan|mypy)\b[^\n|;]{0,100}?\s['\x22]?(--?(?:deselect|exclude-rule\S*|disable-rule\S*|ignore-rule\S*|skip-rule\S*|skip-check\S*|skip-tests?|ignore-tests?)[ =]['\x22]?[^\s-])",
        ),
        (
            ChecksOff,
            Machine,
            r"(?:^|[\s'\x22])(-d(?:[a-z.]+\.)?skip(?:its?|ut|qa|it|pmd|enforcer)?(?:=true)?)(?:['\x22\s;,.)]|$)|(?:^|[\s'\x22])(-d(?:checkstyle|spotbugs|findbugs|pmd|cpd|enforcer|jacoco|dependency-check|spotless|license|rat|revapi|animal\.sniffer|surefire|failsafe)[a-z.]*\.skip\b)",
        ),
        // -- findings that are written down as accepted
        (
            ChecksOff,
            Machine,
            r"(?:^|[\s'\x22])(--(?:generate|create|update|write|save|set|new)-baseline\S*|--baseline-(?:create|update|write)|--auto-gen-config|--bulk-suppress\S*|--suppress-all|--update-suppressions|--exclude-limit\s+\d{3,})",
        ),
        (
            ChecksOff,
            Machine,
            r"\.(?:eslint|prettier|stylelint|trivy|gitleaks|semgrep|markdownlint|sonar|snyk|grype|secrets|bandit|flake8|mypy|lint|htmlhint|jshint|tflint|checkov|tfsec|kics|hadolint|yamllint|codespell|gosec|audit|scan|cve|vuln|[a-z]*lint[a-z]*|[a-z]*scan[a-z]*|[a-z]*check[a-z]*)ignore\b",
        ),
        // -- expectations that follow the code
        (
            ChecksOff,
            Phrase,
            r"\b(change|edit|adjust|update|rewrite|alter|set|replace|fix|bend)\b[^.;\n]{0,30}?(?:\bexpect\b|\bassert\w*|\bexpected\b (?:value|result|output|number|status|values|results)|\bexpectations?\b|\bgolden (?:file|files|value)\b)[^;\n]{0,60}?\b(?:to|so (?:that )?it) (?:match|matches|fit|fits|equal|equals|agree|follow|be)\b[^.;\n]{0,20}?\b(?:what|whatever|the (?:code|actual|failure|observed|returned|bug)|returned)\b",
        ),
        (
            ChecksOff,
            Machine,
            r"['\x22]?\b[a-z_-]*(?:required_?(?:approving_?)?(?:review|reviewer|approval|approver)s?(?:_?count)?|(?:min|minimum)_?(?:review|reviewer|approval|approver)s?(?:_?count)?)['\x22]?\s*[:=]\s*['\x22]?0\b",
        ),
        // -- confinement that confines nothing
        (
            ChecksOff,
            Machine,
            r"\b(?:seccomp|apparmor|label|systempaths|selinux|landlock)[-\w]*['\x22]?\s*[=:]\s*['\x22]?(?:unconfined|disable|disabled|none|off)\b|\bpod-security\.[\w.]{1,40}/\w+['\x22]?\s*[=:]\s*['\x22]?privileged\b|\brandomize_va_space\s*=?\s*0\b|--no-sandbox\b",
        ),
    ])
});

/// Parts of names that say how much may be wrong.
const FINDINGS: &str = "warnings warning errors failures violations issues findings vulnerabilities vulns offenses problems alerts";

/// Smallest limit that nothing reaches.
const LIMIT_MAX: i64 = 100;

/// Finds checks that find less.
pub(super) fn find_weakening(reading: &Reading<'_>, found: &mut Vec<Found>) {
    find_patterns(reading, &PATTERNS, found);
    for at in 0..reading.words.len() {
        if let Some(last) = find_limit(reading, at)
            && reading.asks_for(at, last, Machine)
        {
            found.push(Found { danger: ChecksOff, first: at, last });
            return;
        }
    }
}

/// Returns the last word of a limit for findings that nothing reaches: `max_warnings = 9999`.
fn find_limit(reading: &Reading<'_>, at: usize) -> Option<usize> {
    let word = &reading.words[at];
    let (bounds, counts) = pieces(word.text).take(8).fold((false, false), |(bounds, counts), piece| {
        let glued = piece.strip_prefix("max").is_some_and(|rest| is_one_of(rest, FINDINGS));
        (
            bounds || glued || is_one_of(piece, "max maximum allowed limit threshold tolerated"),
            counts || glued || is_one_of(piece, FINDINGS),
        )
    });
    let next = reading.words.get(at + 1)?;
    let bound = next.gap & (gap::ASSIGN | gap::COLON) != 0 || word.is_option();
    let (value, last) = match reading.words.get(at + 2) {
        Some(value) if !bound && next.is("to as") => (value, at + 2),
        _ if bound => (next, at + 1),
        _ => return None,
    };
    let minus = reading.plain[reading.words[last - 1].end..value.start].ends_with('-');
    let number: i64 = value.text.parse().ok()?;
    (bounds && counts && (minus || !(0..LIMIT_MAX).contains(&number))).then_some(last)
}
