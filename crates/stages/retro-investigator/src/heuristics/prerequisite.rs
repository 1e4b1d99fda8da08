//! Finds prerequisites: a call fails, another call is made, and then the identical call succeeds. The call in
//! between is the lesson.
//!
//! Only a single call in between counts, because with two it is unknown which one mattered. Writing a file is
//! not a prerequisite, because the content is what helped and another run writes other content. Thinking,
//! waiting and talking are not prerequisites either.

use std::sync::LazyLock;

use regex::Regex;
use retro_core::finding::FindingKind;
use retro_gate::is_plain_name;

use super::advice::Advice;
use super::call::Call;
use super::lesson::{Lesson, describe_success};
use super::lookup;
use super::manner::Manner;

/// Maximum length of a string argument of a prerequisite, in characters. A call with a longer string writes
/// content.
const TEXT_CHARS_MAX: usize = 120;

/// Matches the names of tools that write, think, wait or talk.
static NO_PREREQUISITE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i)(?:^|[_.\-/ ])(?:edit|edits|write|patch|replace|insert|append|think|thought|plan|note|wait|sleep|pause|say|message|",
        r"respond|reply|ask|calculate|compute|submit|finish|done|scroll|click|type|press)(?:$|[_.\-/ ])"
    ))
    .expect("constant patterns compile")
});

/// Matches shell commands that are prerequisites. The capture groups contain the program, or the program and
/// its subcommand if it has several. A command that creates the missing thing, such as `mkdir`, is not a
/// prerequisite.
static SETUP: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^(?:sudo )?(?:(?P<one>chmod|chown|source|ssh-add|kinit)|",
        r"(?P<many>(?:npm|yarn|pnpm|bundle|composer|poetry|pip3?|python3? -m pip|apt|apt-get|apk|brew|gem|conda|uv pip) (?:install|ci|update|sync)|",
        r"git (?:fetch|pull|init|add|stash|commit|config|submodule)|cargo (?:fetch|generate-lockfile)|go mod (?:tidy|download)|",
        r"(?:docker|podman|helm|aws|az|gcloud|gh|kubectl|npm|terraform|vault) (?:login|pull|start|init|auth|config|repo)|",
        r"(?:systemctl|service) (?:start|restart)))(?:\s|$)"
    ))
    .expect("constant patterns compile")
});

/// Returns the lesson that the only call in `between`, apart from look-ups, made the identical call succeed.
/// `between` must contain all calls of the step between the failing call and its repetition.
pub(super) fn prerequisite_lesson(failing: &Call<'_>, between: &[Call<'_>]) -> Option<Lesson> {
    let mut acts = between.iter().filter(|call| lookup::lookup_label(call).is_none());
    let (Some(act), None) = (acts.next(), acts.next()) else { return None };
    // The name of the failing tool does not tell the call before from the failing one.
    let tells = |label: &String| act.succeeded() && act.error().is_empty() && *label != failing.tool;
    let label = prerequisite_label(act).filter(tells)?;
    Some(Lesson {
        kind: FindingKind::Repair,
        advice: Advice::When(format!("{} `{label}` first", call_verb(act))),
        avoid: None,
        prefer: Some(Manner::CalledFirst(label)),
        worked: Some(act.raw.to_owned()),
        after: format!("{} The same call did not fail after it.", describe_success(act)),
    })
}

fn call_verb(act: &Call<'_>) -> &'static str {
    if act.arguments.as_command().is_some() { "run" } else { "call" }
}

/// Returns the label of a call that may be a prerequisite, or `None` for any other call.
pub(super) fn prerequisite_label(call: &Call<'_>) -> Option<String> {
    if let Some(command) = call.arguments.as_command() {
        let found = SETUP.captures(command.text.trim())?;
        let label = found.name("one").or_else(|| found.name("many"))?.as_str();
        return (command.programs().filter(|program| *program != "sudo").count() == 1)
            .then(|| label.to_owned());
    }
    let short = |value: &serde_json::Value| {
        value.as_str().is_none_or(|text| text.chars().count() <= TEXT_CHARS_MAX && !text.contains('\n'))
    };
    let acts = is_plain_name(call.tool)
        && lookup::lookup_label(call).is_none()
        && !NO_PREREQUISITE.is_match(call.tool)
        && call.arguments.as_object()?.values().all(short);
    acts.then(|| call.tool.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(tool: &str, raw: &str) -> Option<String> {
        prerequisite_label(&Call::with_answer(tool, raw, ""))
    }

    #[test]
    fn only_prerequisites_have_a_label() {
        for (tool, raw, expected) in [
            ("login", r#"{"user":"anna"}"#, "login"),
            ("create_branch", r#"{"name":"x"}"#, "create_branch"),
            ("bash", "npm install", "npm install"),
            ("bash", r#"{"command":"sudo apt-get update"}"#, "apt-get update"),
            ("bash", "git fetch origin", "git fetch"),
        ] {
            assert_eq!(labelled(tool, raw).as_deref(), Some(expected), "{raw}");
        }
        for (tool, raw) in [
            ("edit_file", r#"{"path":"x"}"#),
            ("str.replace", r#"{"path":"x"}"#),
            ("think", r#"{"about":"x"}"#),
            ("get_user", r#"{"user":"anna"}"#),
            ("create_file", r#"{"path":"x","text":"a\nb"}"#),
            ("bash", "python fix.py"),
            ("bash", "sed -i s/a/b/ x"),
            ("bash", "npm install && python fix.py"),
            ("bash", "mkdir missing"),
            ("bash", "npm installed"),
            ("bash", "ls"),
        ] {
            assert_eq!(labelled(tool, raw), None, "{raw}");
        }
    }
}
