//! Answers the question of a manual retrospective from what its investigations say about it.

use serde::{Deserialize, Serialize};

use crate::finding::{CheckedAnswer, Quote, RunFocus};
use crate::id::RunId;
use crate::retrospective::{Investigation, ManualRequest};

/// Name of the engine that needs no model, as shown in reports.
pub const HEURISTICS: &str = "heuristics";

/// Answer to the question of a manual retrospective.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FocusAnswer {
    /// The question.
    pub question: String,
    /// Name of the engine that answers.
    pub answered_by: String,
    /// Answer in prose. It is for people and reaches no agent.
    pub text: String,
    /// What would settle the question; `None` if nothing is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<String>,
    /// Quotes from the runs, each of which passed the mechanical check, in order of investigation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotes: Vec<FocusQuote>,
}

/// A quote with the run that contains it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FocusQuote {
    /// Run that contains the quote.
    pub run: RunId,
    /// The quote.
    pub quote: Quote,
}

/// Builds the answer. A model answers for all runs that it has seen, so its last answer is the answer; without one,
/// the heuristics say what they searched. Returns `None` if nobody asked, or if no investigation answered.
pub(super) fn build_focus_answer(
    request: Option<&ManualRequest>,
    investigations: &[Investigation],
) -> Option<FocusAnswer> {
    let question = request?.focus.clone()?;
    let answered: Vec<(&RunId, &CheckedAnswer, &RunFocus)> = investigations
        .iter()
        .filter_map(|one| {
            let (checked, _) = one.result.as_ref()?.checked_answer()?;
            Some((&one.run, checked, checked.focus.as_ref()?))
        })
        .collect();
    let is_of_model = |(_, checked, _): &&(&RunId, &CheckedAnswer, &RunFocus)| checked.engine != HEURISTICS;
    let last_of_model = answered.iter().rfind(is_of_model);
    let (answered_by, text, open) = match last_of_model {
        Some((_, checked, focus)) => (checked.engine.clone(), focus.text.clone(), focus.open.clone()),
        None => {
            let runs = answered.len();
            let (_, checked, focus) = answered.last()?;
            let with_words = answered.iter().filter(|(_, _, focus)| !focus.quotes.is_empty()).count();
            let text = format!(
                "The heuristics do not read questions. They searched failing calls and lines for the words of this \
                 one, and found some in {with_words} of {runs} runs: see the quotes."
            );
            (checked.engine.clone(), text, focus.open.clone())
        }
    };
    let quotes = answered.iter().flat_map(|(run, _, focus)| {
        focus.quotes.iter().map(|quote| FocusQuote { run: (*run).clone(), quote: quote.clone() })
    });
    Some(FocusAnswer { question, answered_by, text, open, quotes: quotes.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retrospective::InvestigationResult;
    use crate::trajectory::QuotePlace;

    fn investigation(run: &str, engine: &str, text: &str, words: &[&str]) -> Investigation {
        let place = QuotePlace::Message { turn: 0 };
        let quotes = words.iter().map(|text| Quote { place, text: (*text).to_owned() }).collect();
        let focus = Some(RunFocus { text: text.to_owned(), open: Some(format!("ask about {text}")), quotes });
        let checked = CheckedAnswer { engine: engine.to_owned(), focus, ..CheckedAnswer::default() };
        let result = Some(InvestigationResult::Nothing { checked, presented: Vec::new() });
        Investigation { number: 1, ordinal: 1, run: RunId::new(run).unwrap(), replacement: false, result }
    }

    fn request(focus: Option<&str>) -> ManualRequest {
        ManualRequest {
            request: "r".to_owned(),
            by: "ana".to_owned(),
            with_token: None,
            runs: Vec::new(),
            focus: focus.map(str::to_owned),
            reason: None,
        }
    }

    #[test]
    fn the_last_answer_of_a_model_is_the_answer_and_every_run_is_quoted() {
        let asked = request(Some("why?"));
        let all = [
            investigation("a", "heuristics", "searched", &["one"]),
            investigation("b", "small", "first", &["two", "three"]),
            investigation("c", "small", "both", &[]),
            investigation("d", "heuristics", "searched", &["four"]),
        ];
        let answer = build_focus_answer(Some(&asked), &all).unwrap();
        assert_eq!((&*answer.answered_by, &*answer.text), ("small", "both"));
        assert_eq!(answer.open.as_deref(), Some("ask about both"));
        let quoted: Vec<_> =
            answer.quotes.iter().map(|one| (one.run.as_str(), one.quote.text.as_str())).collect();
        assert_eq!(quoted, [("a", "one"), ("b", "two"), ("b", "three"), ("d", "four")]);
    }

    #[test]
    fn without_a_model_the_heuristics_say_that_they_only_searched() {
        let asked = request(Some("why?"));
        let all =
            [investigation("a", "heuristics", "x", &["one"]), investigation("b", "heuristics", "x", &[])];
        let answer = build_focus_answer(Some(&asked), &all).unwrap();
        assert!(
            answer.text.contains("do not read questions") && answer.text.contains("1 of 2 runs"),
            "{answer:?}"
        );
        assert_eq!(build_focus_answer(Some(&request(None)), &all), None, "nobody asked");
        assert_eq!(build_focus_answer(None, &all), None, "it is automatic");
        assert_eq!(build_focus_answer(Some(&asked), &[]), None, "nobody answered");
    }
}
