//! Builds findings: a one-sentence title with its cue, content that describes the case in a few sentences,
//! and a quote as evidence.

use retro_core::finding::{
    CONTENT_CHARS_MAX, CUE_CHARS_MAX, EvidenceOrigin, Finding, FindingKind, LessonCue, ObservedFailure,
    TITLE_CHARS_MAX,
};
use retro_core::id::Step;
use retro_core::trajectory::QuotePlace;
use retro_gate::{Speaker, call_as_data, quote_as_data};
use serde_json::Value;

use super::advice::{Advice, format_title};
use super::blame::{Blame, BlameSign};
use super::call::Call;
use super::lookup;
use super::manner::Manner;
use super::quote::shorten_text;
use super::reaction::SeenReaction;
use super::tool_output::summarize_output;

/// Maximum number of characters of the arguments, and of the answer, that the content shows.
const SHOWN_CHARS_MAX: usize = 240;

/// Lesson about an error, before it becomes a finding.
pub(super) struct Lesson {
    pub(super) kind: FindingKind,
    pub(super) advice: Advice,
    pub(super) avoid: Option<Manner>,
    pub(super) prefer: Option<Manner>,
    /// Arguments of the call that worked, as the agent made it; `None` if no call did.
    pub(super) worked: Option<String>,
    /// Sentence about what happened after the failing call.
    pub(super) after: String,
}

impl Lesson {
    /// Converts the lesson into a finding, or returns `None` if the title is too long or the failing call has
    /// no text to quote.
    pub(super) fn into_finding(self, step: &Step, failing: &Call<'_>) -> Option<Finding> {
        let worked: Vec<&str> = self.worked.as_deref().into_iter().collect();
        let title = format_title(failing.tool, failing.error(), &self.advice, &worked)?;
        if title.chars().count() > TITLE_CHARS_MAX {
            return None;
        }
        let cue = LessonCue {
            tool: Some(failing.tool.to_owned()),
            error: Some(failing.error().to_owned()),
            avoid: self.avoid.as_ref().map(Manner::to_string),
            prefer: self.prefer.as_ref().map(Manner::to_string),
            worked: self.worked.as_deref().map(|raw| shorten_text(raw, CUE_CHARS_MAX)),
        };
        let subject = lesson_subject(failing, self.prefer.as_ref().or(self.avoid.as_ref()));
        let reported =
            summarize_output(failing.answer).map_or_else(String::new, |summary| format!(" {summary}"));
        let content = shorten_text(
            &format!(
                "{}{reported} {}",
                describe_failure(failing, failing_line(failing), &worked),
                self.after
            ),
            CONTENT_CHARS_MAX,
        );
        let quote = failing.error_quote()?;
        Some(Finding {
            kind: self.kind,
            step: step.clone(),
            subject,
            title,
            content,
            cue,
            quote,
            contradicts: None,
            origin: EvidenceOrigin { source: lookup::find_source(failing), ..EvidenceOrigin::default() },
        })
    }
}

/// Describes a reaction as evidence for a contrast. Returns `None` if no call got past the error, or if there is
/// nothing to quote.
pub(super) fn describe_reaction(seen: &SeenReaction<'_>) -> Option<ObservedFailure> {
    let (failing, worked) = (seen.failing, seen.worked?);
    let quote = seen.quote.clone()?;
    let content =
        format!("{} {}", describe_failure(failing, &quote.text, &[worked.raw]), describe_success(worked));
    Some(ObservedFailure {
        step: seen.reaction.step.clone(),
        tool: seen.reaction.tool.clone(),
        error: seen.reaction.error.clone(),
        content: shorten_text(&content, CONTENT_CHARS_MAX),
        worked: Some(shorten_text(worked.raw, CUE_CHARS_MAX)),
        quote,
        origin: EvidenceOrigin { source: lookup::find_source(failing), ..EvidenceOrigin::default() },
    })
}

/// Appends a note to the findings about the blamed turn: the run failed, and no later call of the tool
/// succeeded.
pub(super) fn append_blame(findings: &mut [Finding], blame: Option<Blame>) {
    const NOTE: &str = " The run failed, and no later call of the tool succeeded.";
    let Some(Blame { turn, sign: BlameSign::UnresolvedError }) = blame else { return };
    for finding in findings {
        let there = matches!(finding.quote.place, QuotePlace::Answer { turn: at, .. } if at == turn);
        if there && finding.content.chars().count() + NOTE.len() <= CONTENT_CHARS_MAX {
            finding.content.push_str(NOTE);
        }
    }
}

/// Returns the subject of a lesson: the tool, followed by the parameter or program that the lesson is about,
/// if any. A lesson and its reverse have the same subject.
fn lesson_subject(failing: &Call<'_>, manner: Option<&Manner>) -> String {
    let tool = failing.tool;
    match manner {
        Some(
            Manner::Typed(key, _) | Manner::Written(key, _) | Manner::Kind(key, _) | Manner::Value(key, _),
        ) => format!("{tool} {key}"),
        Some(Manner::WithOption(program, _) | Manner::WithoutOption(program, _)) => {
            format!("{tool} {program}")
        }
        Some(_) => tool.to_owned(),
        None => failing.subject(),
    }
}

fn failing_line<'a>(failing: &Call<'a>) -> &'a str {
    failing.failure().map_or("", |failure| failure.line)
}

/// Describes a call that was answered with the line of an error.
pub(super) fn describe_failure(failing: &Call<'_>, line: &str, worked: &[&str]) -> String {
    let answered = match quote_as_data(line, Speaker::Tool, worked, SHOWN_CHARS_MAX) {
        Some(words) => format!("answered “{words}”"),
        None => "answered with an error that is not quoted here".to_owned(),
    };
    format!("Seen: `{}` was called with “{}” and {answered}.", failing.tool, show_arguments(failing))
}

/// Maximum length of a string argument that is shown, in characters, and of its words. A longer one is content,
/// which says nothing about how to make the call and may be anybody's words.
const VALUE_CHARS_MAX: usize = 60;
const VALUE_WORDS_MAX: usize = 5;

/// Returns the arguments of a call as data: a command as it was sent, and named parameters with their short
/// values.
fn show_arguments(call: &Call<'_>) -> String {
    match call.arguments.as_object() {
        None => call_as_data(call.raw, SHOWN_CHARS_MAX),
        Some(map) => {
            let short = map.iter().map(|(key, value)| (key.clone(), shorten_value(value))).collect();
            call_as_data(&Value::Object(short).to_string(), SHOWN_CHARS_MAX)
        }
    }
}

fn shorten_value(value: &Value) -> Value {
    match value {
        Value::String(text)
            if text.chars().count() > VALUE_CHARS_MAX
                || text.split_whitespace().count() > VALUE_WORDS_MAX =>
        {
            Value::String("…".to_owned())
        }
        Value::Array(items) => Value::Array(items.iter().map(shorten_value).collect()),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(key, value)| (key.clone(), shorten_value(value))).collect())
        }
        other => other.clone(),
    }
}

/// Describes a call whose answer says something that is quoted.
pub(super) fn describe_answer(call: &Call<'_>, quoted: &str) -> String {
    format!("Seen: `{}` was called with “{}” and answered “{quoted}”.", call.tool, show_arguments(call))
}

/// Formats "Then `tool` was called with arguments and did not fail."
pub(super) fn describe_success(call: &Call<'_>) -> String {
    format!("Then `{}` was called with “{}” and did not fail.", call.tool, show_arguments(call))
}
