//! Judges names whose parts mean something only together, such as `continue-on-error` and `hooksPath`.

use super::Danger;
use super::Danger::{ChecksOff, PackageAddress, RemoteContent, VerificationOff};
use super::reading::{Reading, Word, gap};
use super::switches::Value;
use super::words::part::{CHECK, PROOF, VERIFY};
use super::words::{is_one_of, meaning};

/// Folders in which a project keeps its own hooks.
const HOOK_FOLDERS: [&str; 8] =
    [".git", ".husky", "hooks", "./hooks", "scripts", "./.git", "./scripts", "./.husky"];

/// Names of several parts that say that nobody decides, or that a failure stops nothing.
const UNDECIDED: &[&[&str]] = &[
    &["auto", "approve"],
    &["auto", "approval"],
    &["auto", "approvals"],
    &["auto", "confirm"],
    &["auto", "review"],
    &["auto", "sign", "off"],
    &["auto", "signoff"],
    &["approve", "all"],
    &["approve", "everything"],
    &["self", "approve"],
    &["self", "approval"],
    &["self", "review"],
    &["break", "glass"],
    &["warn", "only"],
    &["soft", "fail"],
    &["allow", "fail"],
    &["never", "fail"],
    &["ignore", "failures"],
    &["skip", "signoff"],
    &["skip", "sign", "off"],
    &["bypass", "signoff"],
    &["unattended"],
];

/// Names of several parts that say that more than one person decides.
const DECIDED: &[&[&str]] = &[
    &["dual", "control"],
    &["four", "eyes"],
    &["two", "person"],
    &["two", "man"],
    &["second", "person"],
    &["maker", "checker"],
    &["require", "signoff"],
    &["require", "sign", "off"],
    &["separation", "of", "duties"],
];

/// Judges names that mean something only together.
pub(super) fn judge_special(
    reading: &Reading<'_>,
    at: usize,
    value: Value,
    last: usize,
) -> Option<Danger> {
    let word = &reading.words[at];
    let parts = &word.parts;
    let off_value = matches!(value, Value::Off | Value::Zero);
    let next = reading.text(at + 1);
    if parts.contains(&["trust", "remote", "code"]) {
        return (!off_value).then_some(RemoteContent);
    }
    if parts.contains(&["continue", "on", "error"])
        || parts.contains(&["allow", "failure"])
        || parts.contains(&["allow", "failures"])
    {
        return (value == Value::On).then_some(ChecksOff);
    }
    if let Some(danger) = judge_decision(reading, at, value, last) {
        return Some(danger);
    }
    if word.text.contains("hookspath") || parts.contains(&["hooks", "path"]) {
        let moved = next.len() > 1 && next.contains(['/', '.']) || is_one_of(next, "none null empty tmp");
        let own = HOOK_FOLDERS.iter().any(|folder| next.starts_with(folder));
        let unset = at > 0 && is_one_of(reading.text(at - 1), "--unset --unset-all --get unset");
        return (moved && !own && !unset).then_some(ChecksOff);
    }
    if parts.is(&["exit", "zero"]) || parts.is(&["yolo"]) && word.is_option() {
        return Some(ChecksOff);
    }
    if parts.is(&["dangerous"]) && word.is_option() {
        return Some(VerificationOff);
    }
    if parts.is(&["trust", "model"]) {
        return (value == Value::On).then_some(VerificationOff);
    }
    if parts.contains(&["fail", "under"]) || parts.is(&["exit", "code"]) && value == Value::Zero {
        return off_value.then_some(ChecksOff);
    }
    if parts.contains(&["docker", "content", "trust"]) {
        return off_value.then_some(VerificationOff);
    }
    if parts.is(&["trusted"]) && value == Value::On && word.gap & gap::BRACKET != 0 {
        return Some(VerificationOff);
    }
    if next.starts_with("/dev/null") {
        return match () {
            () if parts.has(CHECK) => Some(ChecksOff),
            () if parts.contains(&["known", "hosts"]) || word.text.contains("knownhosts") => {
                Some(VerificationOff)
            }
            () => None,
        };
    }
    // `SKIP=eslint git commit`.
    let committed = || {
        (at.saturating_sub(20)..at + 20)
            .any(|near| is_one_of(reading.text(near), "commit push pre-commit hook hooks merge"))
    };
    if parts.is(&["skip"]) && reading.words.get(at + 1).is_some_and(|next| next.gap == gap::ASSIGN) {
        return (value == Value::Other && committed() || meaning(next) & CHECK != 0).then_some(ChecksOff);
    }
    // `--skip tests`, `--disable=tls-verify`.
    let switches_off =
        word.is_option() && parts.list.len() == 1 && is_one_of(&parts.list[0].0, "skip disable bypass");
    if switches_off
        && reading.words.get(at + 1).is_some_and(|next| next.gap & (gap::STOP | gap::COMMA | gap::SHELL) == 0)
    {
        let object = &reading.words[at + 1].parts;
        let whole = !object.list.is_empty()
            && object.list.iter().all(|(_, meaning)| *meaning & (CHECK | PROOF | VERIFY) != 0);
        if whole {
            return Some(if object.has(PROOF | VERIFY) { VerificationOff } else { ChecksOff });
        }
    }
    // `trusted_index = http://…` is an address of packages.
    (parts.contains(&["insecure", "registry"])
        && reading.words.get(at + 1).is_some_and(Word::is_address))
    .then_some(PackageAddress)
}

/// Judges names of decisions that a person takes: `auto_approve`, `approval_mode = auto`, `dual_control = off`.
fn judge_decision(reading: &Reading<'_>, at: usize, value: Value, last: usize) -> Option<Danger> {
    let word = &reading.words[at];
    let parts = &word.parts;
    let off_value = matches!(value, Value::Off | Value::Zero);
    if parts.list.len() > 6 || word.is_address() {
        return None;
    }
    let any_of = |names: &[&[&str]]| names.iter().any(|name| parts.contains(name));
    let edge = gap::TICK | gap::QUOTE | gap::BRACKET | gap::ASSIGN;
    let coded = word.is_option()
        || word.text.contains('_')
        || last > at
        || word.gap & edge != 0
        || reading.words.get(at + 1).is_some_and(|next| next.gap & gap::ASSIGN != 0);
    if coded && any_of(UNDECIDED) && !parts.list.iter().any(|(word, _)| matches!(word.as_str(), "no" | "upgrades"))
    {
        return (!off_value).then_some(ChecksOff);
    }
    if any_of(DECIDED) {
        return off_value.then_some(ChecksOff);
    }
    let decides = parts.list.iter().any(|(part, _)| {
        is_one_of(part, "approval approvals approver approvers approve review reviewer reviewers confirmation signoff gate gates human")
    });
    (decides && value == Value::Automatic && last > at).then_some(ChecksOff)
}
