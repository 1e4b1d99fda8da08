//! What is said about code that agents wrote in messages and that a terminal ran.

use retro_core::finding::FindingKind;
use retro_core::trajectory::Place;

use super::*;

const UNDEFINED: &str = "exitcode: 1 (execution failed)\nCode output: Traceback (most recent call last):\n  File \"a.py\", line 1\nNameError: name 'search' is not defined\n";

/// A run in which agents only talk: who, and what.
fn talk(turns: &[(&str, &str)]) -> Brief {
    let mut brief = run(&[]);
    let said = |(step, message): &(&str, &str)| Turn {
        step: Step::new(*step).unwrap(),
        agentic: true,
        source: Source::Agent,
        message: (*message).to_owned(),
        reasoning: String::new(),
        calls: Vec::new(),
    };
    brief.trajectory.turns = turns.iter().map(said).collect();
    brief
}

#[test]
fn the_error_of_code_that_a_terminal_ran_is_a_lesson_for_who_wrote_it() {
    let code = ("Analyst", "I search.\n```python\nsearch('a')\n```");
    let finding = looked(&talk(&[code, ("terminal", UNDEFINED)])).0.remove(0);
    assert_eq!(
        finding.title,
        "When `python` answers “NameError: name … is not defined”, define or import every name in the code itself before using it."
    );
    assert_eq!((finding.kind, finding.step.as_str()), (FindingKind::Failure, "Analyst"));
    assert_eq!(
        (finding.quote.place, finding.quote.text.as_str()),
        (Place::Message { turn: 0 }, "search('a')")
    );
    assert!(finding.content.contains("name 'search' is not defined"), "{}", finding.content);
}

#[test]
fn a_terminal_that_speaks_in_the_same_step_is_quoted() {
    let code = ("main", "I search.\n```python\nsearch('a')\n```");
    let quote = looked(&talk(&[code, ("main", UNDEFINED)])).0.remove(0).quote;
    let expected = (Place::Message { turn: 1 }, "NameError: name 'search' is not defined");
    assert_eq!((quote.place, quote.text.as_str()), expected);
}

#[test]
fn a_changed_program_teaches_no_option_and_no_program() {
    let code = |body: &str| format!("```python\n{body}\n```");
    let (a, b) = (code("show(dataframe)"), code("show(dataset)"));
    let ran = "exitcode: 0 (execution succeeded)\nCode output: 7";
    let calls = [("a", a.as_str()), ("terminal", UNDEFINED), ("a", b.as_str()), ("terminal", ran)];
    let kinds: Vec<_> = looked(&talk(&calls)).0.into_iter().map(|finding| finding.kind).collect();
    assert_eq!(kinds, [FindingKind::Failure]);
}

#[test]
fn a_command_in_a_message_is_one_like_any_other() {
    let code = |body: &str| format!("```sh\n{body}\n```");
    let (a, b) = (code("tar -xzf a.tgz -c /b"), code("tar -xzf a.tgz -C /b"));
    let refused = "exitcode: 2 (execution failed)\nCode output: tar: You may not specify more than one '-Acdtrux' option\nTry 'tar --help'";
    let ran = "exitcode: 0 (execution succeeded)\nCode output: ";
    let calls = [("a", a.as_str()), ("terminal", refused), ("a", b.as_str()), ("terminal", ran)];
    let finding = looked(&talk(&calls)).0.remove(0);
    assert!(finding.title.ends_with("call `tar` with `-C` instead of `-c`."), "{}", finding.title);
    assert_eq!(finding.cue.tool.as_deref(), Some("sh"));
}

#[test]
fn what_a_web_page_says_is_no_error_of_the_code() {
    let failed = "exitcode: 1 (execution failed)\nCode output: Search result 1:\nError handling in Rust is easy\nand more of it";
    let code = ("a", "```python\nsearch('a')\n```");
    assert!(looked(&talk(&[code, ("terminal", failed)])).0.is_empty());
}
