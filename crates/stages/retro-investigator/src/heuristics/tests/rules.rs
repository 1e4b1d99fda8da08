//! Tests of verdicts on rules of the repository.

use retro_core::finding::{BriefMemory, LessonCue, MemoryVerdict};

use super::{investigated, memory, run};

/// Returns the verdict on a rule in a run with this message and these arguments, or `None`.
fn judged(title: &str, message: &str, wrote: &str) -> Option<MemoryVerdict> {
    let mut brief = run(&[("write_file", wrote, "written")]);
    brief.trajectory.turns[0].message = message.to_owned();
    brief.memories = vec![BriefMemory { step: None, ..memory(7, "errors", title, LessonCue::default()) }];
    let verdicts = investigated(&brief).1;
    verdicts.first().map(|said| said.verdict)
}

#[test]
fn advice_is_applied_when_a_text_of_the_agent_holds_it() {
    const ADVICE: &str = "Wrap every database error with context";
    let check =
        |message, wrote, expected| assert_eq!(judged(ADVICE, message, wrote), expected, "{message} {wrote}");
    check("", r#"{"text":"database.query().context(wrap_error)"}"#, Some(MemoryVerdict::Applied));
    check("I will wrap the database errors with some context", "{}", Some(MemoryVerdict::Applied));
    check("", r#"{"text":"database.query()? // error"}"#, Some(MemoryVerdict::Ignored));
    check(
        "The colours of the page are wrong",
        r#"{"text":"a { color: red }"}"#,
        Some(MemoryVerdict::CueNotMet),
    );
}

#[test]
fn what_is_advised_against_is_no_advice() {
    let title = "Return `Result` instead of calling `panic!` in library code";
    assert_eq!(judged(title, "", "panic!(library code)"), Some(MemoryVerdict::Ignored));
    assert_eq!(judged(title, "", "library code: return Result"), Some(MemoryVerdict::Applied));
    let title = "Use snake_case names, not camelCase names";
    assert_eq!(judged(title, "", "camelCase names"), Some(MemoryVerdict::Ignored));
}

#[test]
fn a_prohibition_that_was_not_broken_is_never_ignored() {
    const NEVER: &str = "Never unwrap in library code; return an error";
    let check =
        |message, wrote, expected| assert_eq!(judged(NEVER, message, wrote), expected, "{message} {wrote}");
    check("I must not unwrap in library code, so I pass the failure on", "{}", Some(MemoryVerdict::Applied));
    check("", "value.unwrap() // library code", Some(MemoryVerdict::Ignored));
    check("", "library code: return value", None);
    check("The colours of the page are wrong", "{}", Some(MemoryVerdict::CueNotMet));
}

#[test]
fn a_rule_of_one_word_gets_no_verdict() {
    assert_eq!(judged("Use tabs", "tabs tabs tabs", "tabs"), None);
}
