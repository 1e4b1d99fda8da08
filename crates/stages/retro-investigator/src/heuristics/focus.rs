//! Searches a run for the words of a question. The heuristics do not read; they show where a reader should look.

use std::collections::BTreeSet;

use retro_core::finding::{InvestigationBrief, Quote, RunFocus};
use retro_core::trajectory::QuotePlace;

use super::call::StepCalls;
use super::quote;

/// Maximum number of lines that one run quotes for a question.
const LINES_MAX: usize = 3;
/// Minimum length of a word that is searched, in characters.
const WORD_CHARS_MIN: usize = 3;
/// Words that questions have and that say nothing about what is asked.
const QUESTION_WORDS: &[&str] = &[
    "and", "any", "are", "both", "can", "could", "did", "does", "for", "from", "had", "has", "have", "how",
    "its", "not", "one", "our", "out", "run", "runs", "should", "that", "the", "them", "these", "they",
    "this", "those", "was", "were", "what", "when", "where", "which", "who", "whose", "why", "will", "with",
    "would", "you",
];

/// A line that shares words with the question.
struct FoundLine<'a> {
    place: QuotePlace,
    line: &'a str,
    words: BTreeSet<&'a str>,
    /// `true` if the line reports the failure of a call.
    is_failure: bool,
}

/// Returns the lines of a run that share the most words with a question, those of failing calls first, and what a search
/// cannot say.
pub(super) fn search_question(
    question: &str,
    brief: &InvestigationBrief,
    steps: &[StepCalls<'_>],
) -> RunFocus {
    let question = question.to_lowercase();
    let wanted = question_words(&question);
    let mut found = find_lines(&wanted, brief, steps);
    // The sort is stable and keeps the order of the run among equals.
    found.sort_by_key(|one| std::cmp::Reverse((one.words.len(), one.is_failure)));
    let mut quotes: Vec<Quote> = Vec::new();
    for one in &found {
        let quoted = quote::quote_at(one.place, one.line);
        if let Some(quoted) = quoted.filter(|new| quotes.iter().all(|known| known.text != new.text)) {
            quotes.push(quoted);
        }
        if quotes.len() == LINES_MAX {
            break;
        }
    }
    let words = wanted.iter().copied().collect::<Vec<_>>().join(", ");
    let text = match found.len() {
        _ if wanted.is_empty() => "The question has no word that can be searched.".to_owned(),
        0 => format!("No line of the run has one of the words: {words}."),
        count => format!("{count} lines of the run have some of the words: {words}."),
    };
    let open = "Why it happened, a search cannot say: a language model (model_url) or a person has to read the runs.";
    RunFocus { text, open: Some(open.to_owned()), quotes }
}

fn question_words(question: &str) -> BTreeSet<&str> {
    let words = question.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| word.chars().count() >= WORD_CHARS_MIN && !QUESTION_WORDS.contains(word)).collect()
}

fn find_lines<'a>(
    wanted: &BTreeSet<&'a str>,
    brief: &'a InvestigationBrief,
    steps: &[StepCalls<'a>],
) -> Vec<FoundLine<'a>> {
    let mut found = Vec::new();
    let failures = steps.iter().flat_map(|step| &step.calls).filter_map(|call| {
        let quote = call.error_quote()?;
        // What was called belongs to the failure: "deploy" is often in the call and not in its error.
        Some((quote.place, call.failure()?.line, [call.tool, call.raw]))
    });
    for (place, line, context) in failures {
        let words = shared_words(wanted, [line, context[0], context[1]].into_iter());
        if !words.is_empty() {
            found.push(FoundLine { place, line, words, is_failure: true });
        }
    }
    for (turn, entry) in (0u32..).zip(&brief.trajectory.turns) {
        let message = (QuotePlace::Message { turn }, entry.message.as_str());
        let answers = (0u32..)
            .zip(&entry.calls)
            .filter_map(|(call, one)| Some((QuotePlace::Answer { turn, call }, one.answer.as_deref()?)));
        for (place, text) in std::iter::once(message).chain(answers) {
            for line in text.lines() {
                let words = shared_words(wanted, std::iter::once(line));
                if !words.is_empty() {
                    found.push(FoundLine { place, line, words, is_failure: false });
                }
            }
        }
    }
    found
}

fn shared_words<'w, 't>(
    wanted: &BTreeSet<&'w str>,
    texts: impl Iterator<Item = &'t str>,
) -> BTreeSet<&'w str> {
    let mut shared = BTreeSet::new();
    for text in texts {
        let text = text.to_lowercase();
        shared.extend(wanted.iter().copied().filter(|word| text.contains(word)));
    }
    shared
}

#[cfg(test)]
mod tests {
    use retro_core::id::Step;
    use retro_core::trajectory::{ToolCall, Turn, TurnSource};

    use super::super::investigate_run;
    use super::*;

    fn brief(question: &str, answers: &[(&str, &str)]) -> InvestigationBrief {
        let turn = |(tool, answer): &(&str, &str)| Turn {
            step: Step::main(),
            agentic: true,
            entry: None,
            at: None,
            source: TurnSource::Agent,
            message: String::new(),
            reasoning: String::new(),
            calls: vec![ToolCall {
                tool: (*tool).to_owned(),
                arguments: "{}".to_owned(),
                answer: Some((*answer).to_owned()),
                failed: None,
            }],
        };
        InvestigationBrief {
            run: serde_json::from_value(serde_json::json!({"run_id": "r", "outcome": "failure"})).unwrap(),
            trajectory: answers.iter().map(turn).collect::<Vec<_>>().into(),
            memories: Vec::new(),
            earlier: Vec::new(),
            focus: Some(retro_core::finding::FocusQuestion {
                question: question.to_owned(),
                earlier: Vec::new(),
            }),
        }
    }

    fn answer(question: &str, answers: &[(&str, &str)]) -> RunFocus {
        let retro_core::finding::InvestigatorAnswer::Answered(answer) =
            investigate_run(&brief(question, answers))
        else {
            panic!("the heuristics always answer")
        };
        answer.focus.unwrap()
    }

    #[test]
    fn lines_of_failing_calls_with_the_words_of_the_question_come_first() {
        let run = [
            ("read_notes", "the deploy plan\nnothing of interest"),
            ("deploy", "Error: timed out after 300 s"),
            ("list", "ok"),
        ];
        let found = answer("Why did the deploy step time out?", &run);
        let quoted: Vec<_> = found.quotes.iter().map(|quote| quote.text.as_str()).collect();
        assert_eq!(quoted, ["Error: timed out after 300 s", "the deploy plan"]);
        assert!(found.text.contains("deploy, step, time"), "{found:?}");
        assert!(found.open.unwrap().contains("a language model"));
    }

    #[test]
    fn a_question_without_a_line_or_a_word_says_so() {
        let none = answer("Which certificate expired?", &[("list", "ok")]);
        assert!(none.text.starts_with("No line of the run") && none.quotes.is_empty(), "{none:?}");
        assert!(answer("why?", &[("list", "ok")]).text.contains("no word"));
    }
}
