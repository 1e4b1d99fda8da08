//! Findings put together: one sentence with its cue, the case for whoever asks, and the words that show it.

use retro_core::finding::{CONTENT_CHARS_MAX, Cue, Finding, FindingKind, TITLE_CHARS_MAX};
use retro_core::id::Step;
use retro_core::trajectory::Place;

use super::blame::{Blame, Sign};
use super::call::Call;
use super::manner::Manner;
use super::quote::shortened;
use super::tool_output::told;

/// How much of arguments and answers the content shows, in characters each.
const SHOWN_CHARS_MAX: usize = 240;

/// A lesson about an error, before it is a finding.
pub(super) struct Lesson {
    pub(super) kind: FindingKind,
    pub(super) title: String,
    pub(super) avoid: Option<Manner>,
    pub(super) prefer: Option<Manner>,
    /// What happened after the failing call, in one sentence.
    pub(super) after: String,
}

impl Lesson {
    /// The finding; `None` when the title does not fit or the failing call has no words to quote.
    pub(super) fn of(self, step: &Step, failing: &Call<'_>) -> Option<Finding> {
        if self.title.chars().count() > TITLE_CHARS_MAX {
            return None;
        }
        let cue = Cue {
            tool: Some(failing.tool.to_owned()),
            error: Some(failing.error().to_owned()),
            avoid: self.avoid.as_ref().map(Manner::to_string),
            prefer: self.prefer.as_ref().map(Manner::to_string),
        };
        let subject = subject(failing, self.prefer.as_ref().or(self.avoid.as_ref()));
        let reported = told(failing.answer).map_or_else(String::new, |told| format!(" {told}"));
        let content = shortened(&format!("{}{reported} {}", seen(failing), self.after), CONTENT_CHARS_MAX);
        let quote = failing.error_quote()?;
        Some(Finding {
            kind: self.kind,
            step: step.clone(),
            subject,
            title: self.title,
            content,
            cue,
            quote,
            contradicts: None,
        })
    }
}

/// Says in the findings of a failed run which of them it did not get past.
pub(super) fn blame(findings: &mut [Finding], blame: Option<Blame>) {
    const SAID: &str = " The run failed, and no later call of the tool succeeded.";
    let Some(Blame { turn, sign: Sign::NothingGotPast }) = blame else { return };
    for finding in findings {
        let there = matches!(finding.quote.place, Place::Answer { turn: at, .. } if at == turn);
        if there && finding.content.chars().count() + SAID.len() <= CONTENT_CHARS_MAX {
            finding.content.push_str(SAID);
        }
    }
}

/// What a lesson is about: the tool, and the parameter or the program when it is about one. The same for a lesson
/// and its reverse.
fn subject(failing: &Call<'_>, manner: Option<&Manner>) -> String {
    let tool = failing.tool;
    match manner {
        Some(
            Manner::Typed(key, _) | Manner::Written(key, _) | Manner::Kind(key, _) | Manner::Value(key, _),
        ) => format!("{tool} {key}"),
        Some(Manner::Option(program, _) | Manner::NoOption(program, _)) => format!("{tool} {program}"),
        Some(_) => tool.to_owned(),
        None => failing.subject(),
    }
}

fn seen(failing: &Call<'_>) -> String {
    let line = failing.failure().map_or("", |failure| failure.line);
    format!(
        "Seen: `{}` was called with {} and answered “{}”.",
        failing.tool,
        shortened(failing.raw, SHOWN_CHARS_MAX),
        shortened(line, SHOWN_CHARS_MAX)
    )
}

/// "Then `tool` was called with arguments and did not fail."
pub(super) fn then_succeeded(call: &Call<'_>) -> String {
    format!("Then `{}` was called with {} and did not fail.", call.tool, shortened(call.raw, SHOWN_CHARS_MAX))
}
