//! The machine-readable part of a lesson, and how two of them compare.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::line::FORM_SEPARATOR;
use crate::calls::is_same_error_class;

/// Form of [`LessonCue::avoid`] for a call that is repeated without a change.
pub const SAME_CALL_AGAIN: &str = "the same call again";

/// Beginning of [`LessonCue::prefer`] for a call that is made as the answer of a tool states. The statement follows.
pub const AS_DOCUMENTED: &str = "as documented: ";

/// Machine-readable part of a lesson: when the lesson applies, and how a trace shows that it was followed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LessonCue {
    /// Tool whose calls the lesson is about; `None` if the lesson is only text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Error that the lesson is about, with numbers, paths, identifiers and quoted names masked; `None` if
    /// the lesson is not about one error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Part of the failing call that the successful call does not contain; `None` if there is no such part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avoid: Option<String>,
    /// Part of the successful call that the failing call does not contain; `None` if there is no such part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefer: Option<String>,
    /// Arguments of the call that worked, as the agent made it, shortened; `None` if no call did. Not part of
    /// the signature: it differs in every run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worked: Option<String>,
}

impl LessonCue {
    /// Returns `true` if the lesson hands on what the answer of a tool states.
    pub fn is_documented(&self) -> bool {
        self.prefer.as_deref().is_some_and(|prefer| prefer.starts_with(AS_DOCUMENTED))
    }

    /// Returns a key that is equal for equal lessons. Returns `None` if the lesson is only text or names
    /// nothing but a tool, because all lessons about that tool would otherwise share one key. The direction
    /// of the advice matters: "x instead of y" and "y instead of x" are two lessons.
    pub fn signature(&self) -> Option<String> {
        let tool = self.tool.as_deref()?;
        self.error.as_ref().or(self.avoid.as_ref()).or(self.prefer.as_ref())?;
        let part = |text: &Option<String>| text.as_deref().unwrap_or("").to_owned();
        // The unit separator keeps the parts apart: without it, `ab` and `c` would give the key of `a` and
        // `bc`.
        Some([tool, &part(&self.error), &part(&self.avoid), &part(&self.prefer)].join("\u{1f}"))
    }

    /// Returns `true` if both cues are about the same error of the same tool and only this one has a remedy.
    pub fn adds_remedy_to(&self, other: &Self) -> bool {
        self.tool.is_some()
            && self.error.is_some()
            && self.tool == other.tool
            && self.error == other.error
            && self.prefer.is_some()
            && other.prefer.is_none()
            && other.avoid.is_none()
    }

    /// Returns `true` if both cues state the same remedy of one class of errors. The names in an error differ from
    /// run to run, and one of the cues may leave open which value to give.
    pub fn is_same_remedy(&self, other: &Self) -> bool {
        let (Some(one), Some(with)) = (&self.prefer, &other.prefer) else { return false };
        let is_same = || one == with || self.leaves_value_open(with) || other.leaves_value_open(one);
        self.tool.is_some() && self.tool == other.tool && self.is_about_error_of(other) && is_same()
    }

    /// Returns `true` if this cue says to give what `stated` gives but not with which value, and the call that worked
    /// had that value.
    fn leaves_value_open(&self, stated: &str) -> bool {
        let Some(open) = &self.prefer else { return false };
        let worked = self.worked.as_deref().unwrap_or_default();
        let (open, stated): (Vec<_>, Vec<_>) =
            (open.split(FORM_SEPARATOR).collect(), stated.split(FORM_SEPARATOR).collect());
        open.len() == stated.len()
            && open.iter().zip(&stated).all(|(open, stated)| {
                open == stated
                    || value_left_open(open, stated)
                        .is_some_and(|value| !value.is_empty() && worked.contains(value))
            })
    }

    /// Returns `true` if both cues change a call in the same place after one class of errors, so that one of them
    /// states the other anew.
    pub fn restates(&self, other: &Self) -> bool {
        let places = |cue: &Self| -> BTreeSet<String> {
            let forms = cue.prefer.iter().flat_map(|prefer| prefer.split(FORM_SEPARATOR));
            forms.filter_map(place_of_form).collect()
        };
        self.tool.is_some()
            && self.tool == other.tool
            && self.is_about_error_of(other)
            && !places(self).is_disjoint(&places(other))
    }

    fn is_about_error_of(&self, other: &Self) -> bool {
        match (&self.error, &other.error) {
            (Some(one), Some(other)) => is_same_error_class(one, other),
            _ => false,
        }
    }

    /// Returns `true` if the two cues give opposite advice about the same tool: each prefers what the other
    /// avoids.
    pub fn opposes(&self, other: &Self) -> bool {
        self.tool.is_some()
            && self.tool == other.tool
            && self.prefer.is_some()
            && self.avoid.is_some()
            && self.prefer == other.avoid
            && self.avoid == other.prefer
    }
}

/// Returns the value that `stated` gives to the parameter or option that `open` only names. Returns `None` if they are
/// not about the same one.
fn value_left_open<'s>(open: &str, stated: &'s str) -> Option<&'s str> {
    let (open, stated): (Vec<_>, Vec<_>) = (open.split('`').collect(), stated.split('`').collect());
    match (open.as_slice(), stated.as_slice()) {
        (["with ", name, ""], ["", key, " = ", value, ""]) => (name == key).then_some(*value),
        (["", program, " with ", option, ""], ["", other, " with ", given, ""]) if program == other => {
            given.strip_prefix(option).and_then(|rest| rest.strip_prefix([' ', '=']))
        }
        _ => None,
    }
}

/// Returns the place in a call that a form of a remedy is about: a parameter, a program with its option, or what is
/// called first.
fn place_of_form(form: &str) -> Option<String> {
    match form.split('`').collect::<Vec<_>>().as_slice() {
        ["after about ", _, " seconds"] | ["after a pause"] => Some("pause".to_owned()),
        ["with " | "without ", key, ""] => Some((*key).to_owned()),
        ["first ", call, ""] => {
            Some(format!("first {}", call.split(' ').take(2).collect::<Vec<_>>().join(" ")))
        }
        ["program " | "tool ", _, ""] => Some("program".to_owned()),
        ["", program, " with " | " without ", option, ..] => {
            Some(format!("{program} {}", option.split([' ', '=']).next().unwrap_or_default()))
        }
        ["", key, ..] => Some((*key).to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cue(tool: Option<&str>, parts: [Option<&str>; 3]) -> LessonCue {
        let [error, avoid, prefer] = parts.map(|part| part.map(str::to_owned));
        LessonCue { tool: tool.map(str::to_owned), error, avoid, prefer, worked: None }
    }

    #[test]
    fn a_signature_needs_a_tool_and_something_about_it() {
        assert_eq!(cue(None, [Some("not found"), None, None]).signature(), None);
        assert_eq!(cue(Some("sh"), [None, None, None]).signature(), None, "or all lessons about sh were one");
        assert!(cue(Some("sh"), [None, None, Some("rg")]).signature().is_some());
    }

    #[test]
    fn signatures_differ_by_part_and_direction() {
        let one = cue(Some("sh"), [None, Some("grep"), Some("rg")]);
        let other = cue(Some("sh"), [None, Some("rg"), Some("grep")]);
        assert_ne!(one.signature(), other.signature());
        assert!(one.opposes(&other) && !one.opposes(&one));
        assert_ne!(one.signature(), cue(Some("sh"), [Some("grep"), None, Some("rg")]).signature());
    }

    #[test]
    fn a_remedy_is_the_same_if_one_of_two_lessons_leaves_its_value_open() {
        let about = |prefer: &str, worked: &str| LessonCue {
            worked: Some(worked.to_owned()),
            ..cue(Some("sh"), [Some("missing region"), None, Some(prefer)])
        };
        let stated = about("`region` = `eu-1`", "");
        assert!(about("with `region`", r#"{"region":"eu-1"}"#).is_same_remedy(&stated));
        assert!(!about("with `region`", r#"{"region":"us-7"}"#).is_same_remedy(&stated));
        assert!(!about("with `zone`", r#"{"zone":"eu-1"}"#).is_same_remedy(&stated));
        assert!(!about("without `region`", r#"{"region":"eu-1"}"#).is_same_remedy(&stated));
        let option = about("`tar` with `--level 9`", "");
        assert!(about("`tar` with `--level`", "tar --level 9 a").is_same_remedy(&option));
        assert!(!about("`tar` with `--le`", "tar --level 9 a").is_same_remedy(&option));
        assert!(!about("`zip` with `--level`", "zip --level 9 a").is_same_remedy(&option));
    }

    #[test]
    fn a_remedy_is_the_same_or_stated_anew_only_for_one_class_of_errors() {
        let about = |error: &str, prefer: &str| cue(Some("sh"), [Some(error), None, Some(prefer)]);
        let (one, other) = ("no stack named a found in acme", "no stack named b found in acme");
        assert!(about(one, "with `x`").is_same_remedy(&about(other, "with `x`")));
        assert!(!about(one, "with `x`").is_same_remedy(&about("locked", "with `x`")));
        for (form, anew) in [
            ("`x` = `1`", "with `x`"),
            ("`x` written YYYY-MM-DD", "`x` = `1`"),
            ("`tar` with `-f a`", "`tar` with `-f`"),
            ("first `npm ci --silent`", "first `npm ci`"),
            ("first `a b`; with `x`", "`x` = `1`"),
        ] {
            assert!(about(one, form).restates(&about(other, anew)), "{form} / {anew}");
            assert!(!about(one, form).restates(&about("locked", anew)), "{form} / {anew}");
        }
        for (form, another) in
            [("with `x`", "with `y`"), ("`tar` with `-f`", "`tar` with `-x`"), ("first `a b`", "first `a c`")]
        {
            assert!(!about(one, form).restates(&about(one, another)), "{form} / {another}");
        }
    }
}
