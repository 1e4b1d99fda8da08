//! Prerequisites: a call fails, something else is done, and the very same call succeeds. What was done in between is the lesson.
//!
//! It has to be the one thing that was done: with two nobody knows which counted. Writing a file is no prerequisite (what was
//! written is what helped, and another run writes something else), and neither is thinking, waiting or talking.

use std::sync::LazyLock;

use regex::Regex;
use retro_core::finding::FindingKind;

use super::call::Call;
use super::demand::when;
use super::lesson::{Lesson, then_succeeded};
use super::lookup;
use super::manner::{Manner, is_name};

/// The longest text in the arguments of a prerequisite, in characters: what is longer writes something.
const TEXT_CHARS_MAX: usize = 120;

/// Words in the names of tools that write, think, wait or talk.
static NO_PREREQUISITE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i)(?:^|[_.\-/ ])(?:edit|edits|write|patch|replace|insert|append|think|thought|plan|note|wait|sleep|pause|say|message|",
        r"respond|reply|ask|calculate|compute|submit|finish|done|scroll|click|type|press)(?:$|[_.\-/ ])"
    ))
    .expect("a constant pattern")
});

/// Shell commands that make something else possible; to make the missing thing up, as `mkdir` does, is none: the program, and the word that says what it does where it does many things.
static SETUP: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^(?:sudo )?(?:(?P<one>chmod|chown|source|ssh-add|kinit)|",
        r"(?P<many>(?:npm|yarn|pnpm|bundle|composer|poetry|pip3?|python3? -m pip|apt|apt-get|apk|brew|gem|conda|uv pip) (?:install|ci|update|sync)|",
        r"git (?:fetch|pull|init|add|stash|commit|config|submodule)|cargo (?:fetch|generate-lockfile)|go mod (?:tidy|download)|",
        r"(?:docker|podman|helm|aws|az|gcloud|gh|kubectl|npm|terraform|vault) (?:login|pull|start|init|auth|config|repo)|",
        r"(?:systemctl|service) (?:start|restart)))(?:\s|$)"
    ))
    .expect("a constant pattern")
});

/// What made the very same call succeed: the one thing that was done between the two. `between` holds every call of the
/// step that stands between them.
pub(super) fn lesson(failing: &Call<'_>, between: &[Call<'_>]) -> Option<Lesson> {
    let mut acts = between.iter().filter(|call| lookup::label(call).is_none());
    let (Some(act), None) = (acts.next(), acts.next()) else { return None };
    let label = label(act).filter(|_| act.succeeded() && act.error().is_empty())?;
    Some(Lesson {
        kind: FindingKind::Repair,
        title: when(failing.tool, failing.error(), &format!("{} `{label}` first", verb(act))),
        avoid: None,
        prefer: Some(Manner::First(label)),
        after: format!("{} The same call did not fail after it.", then_succeeded(act)),
    })
}

fn verb(act: &Call<'_>) -> &'static str {
    if act.arguments.command().is_some() { "run" } else { "call" }
}

/// How something that may be a prerequisite is called in a lesson; `None` for what is none.
pub(super) fn label(call: &Call<'_>) -> Option<String> {
    if let Some(command) = call.arguments.command() {
        let found = SETUP.captures(command.text.trim())?;
        let label = found.name("one").or_else(|| found.name("many"))?.as_str();
        return (command.programs().filter(|program| *program != "sudo").count() == 1)
            .then(|| label.to_owned());
    }
    let short = |value: &serde_json::Value| {
        value.as_str().is_none_or(|text| text.chars().count() <= TEXT_CHARS_MAX && !text.contains('\n'))
    };
    let acts = is_name(call.tool)
        && lookup::label(call).is_none()
        && !NO_PREREQUISITE.is_match(call.tool)
        && call.arguments.object()?.values().all(short);
    acts.then(|| call.tool.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(tool: &str, raw: &str) -> Option<String> {
        label(&Call::answered(tool, raw, ""))
    }

    #[test]
    fn what_makes_something_possible_has_a_name_and_what_writes_thinks_or_looks_has_none() {
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
