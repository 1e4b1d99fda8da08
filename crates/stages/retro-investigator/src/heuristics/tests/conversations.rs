//! Tests of code that an agent wrote in a message and a terminal executed.

use retro_core::finding::FindingKind;
use retro_core::trajectory::QuotePlace;

use super::*;

const UNDEFINED: &str = "exitcode: 1 (execution failed)\nCode output: Traceback (most recent call last):\n  File \"a.py\", line 1\nNameError: name 'search' is not defined\n";

/// Builds a run in which agents only talk, from pairs of step and message.
fn talk(turns: &[(&str, &str)]) -> InvestigationBrief {
    let mut brief = run(&[]);
    let said = |(step, message): &(&str, &str)| Turn {
        at: None,
        step: Step::new(*step).unwrap(),
        entry: None,
        agentic: true,
        source: TurnSource::Agent,
        message: (*message).to_owned(),
        reasoning: String::new(),
        calls: Vec::new(),
    };
    brief.trajectory.turns = turns.iter().map(said).collect();
    brief
}

#[test]
fn an_error_of_executed_code_is_a_lesson_for_its_author() {
    let code = ("Analyst", "I search.\n```python\nsearch('a')\n```");
    let finding = investigated(&talk(&[code, ("terminal", UNDEFINED)])).0.remove(0);
    assert_eq!(
        finding.title,
        "When `python` answers “NameError: name … is not defined”, define or import every name in the code itself before using it."
    );
    assert_eq!((finding.kind, finding.step.as_str()), (FindingKind::Failure, "Analyst"));
    assert_eq!(
        (finding.quote.place, finding.quote.text.as_str()),
        (QuotePlace::Message { turn: 0 }, "search('a')")
    );
    assert!(finding.content.contains("name 'search' is not defined"), "{}", finding.content);
}

#[test]
fn a_terminal_in_the_same_step_is_quoted() {
    let code = ("main", "I search.\n```python\nsearch('a')\n```");
    let quote = investigated(&talk(&[code, ("main", UNDEFINED)])).0.remove(0).quote;
    let expected = (QuotePlace::Message { turn: 1 }, "NameError: name 'search' is not defined");
    assert_eq!((quote.place, quote.text.as_str()), expected);
}

#[test]
fn a_changed_source_text_yields_no_option_or_program() {
    let code = |body: &str| format!("```python\n{body}\n```");
    let (a, b) = (code("show(dataframe)"), code("show(dataset)"));
    let ran = "exitcode: 0 (execution succeeded)\nCode output: 7";
    let calls = [("a", a.as_str()), ("terminal", UNDEFINED), ("a", b.as_str()), ("terminal", ran)];
    let kinds: Vec<_> = investigated(&talk(&calls)).0.into_iter().map(|finding| finding.kind).collect();
    assert_eq!(kinds, [FindingKind::Failure]);
}

#[test]
fn a_command_in_a_message_is_an_ordinary_command() {
    let code = |body: &str| format!("```sh\n{body}\n```");
    let (a, b) = (code("tar -xzf a.tgz -c /b"), code("tar -xzf a.tgz -C /b"));
    let refused = "exitcode: 2 (execution failed)\nCode output: tar: You may not specify more than one '-Acdtrux' option\nTry 'tar --help'";
    let ran = "exitcode: 0 (execution succeeded)\nCode output: ";
    let calls = [("a", a.as_str()), ("terminal", refused), ("a", b.as_str()), ("terminal", ran)];
    let finding = investigated(&talk(&calls)).0.remove(0);
    assert!(finding.title.ends_with("call `tar` with `-C` instead of `-c`."), "{}", finding.title);
    assert_eq!(finding.cue.tool.as_deref(), Some("sh"));
}

#[test]
fn text_of_a_web_page_is_no_error_of_the_code() {
    let failed = "exitcode: 1 (execution failed)\nCode output: Search result 1:\nError handling in Rust is easy\nand more of it";
    let code = ("a", "```python\nsearch('a')\n```");
    assert!(investigated(&talk(&[code, ("terminal", failed)])).0.is_empty());
}
