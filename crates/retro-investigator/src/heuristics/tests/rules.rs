//! What is said about rules of the repository.

use retro_core::finding::{Cue, KnownMemory, Verdict};

use super::{looked, memory, run};

/// The verdict on a rule in a run in which the agent said this and wrote that; `None`: nobody can tell.
fn judged(title: &str, message: &str, wrote: &str) -> Option<Verdict> {
    let mut brief = run(&[("write_file", wrote, "written")]);
    brief.trajectory.turns[0].message = message.to_owned();
    brief.memories = vec![KnownMemory { step: None, ..memory(7, "errors", title, Cue::default()) }];
    let verdicts = looked(&brief).1;
    verdicts.first().map(|said| said.verdict)
}

#[test]
fn advice_is_applied_where_a_text_of_the_agent_holds_it() {
    const ADVICE: &str = "Wrap every database error with context";
    let check =
        |message, wrote, expected| assert_eq!(judged(ADVICE, message, wrote), expected, "{message} {wrote}");
    check("", r#"{"text":"database.query().context(wrap_error)"}"#, Some(Verdict::Applied));
    check("I will wrap the database errors with some context", "{}", Some(Verdict::Applied));
    check("", r#"{"text":"database.query()? // error"}"#, Some(Verdict::Ignored));
    check("The colours of the page are wrong", r#"{"text":"a { color: red }"}"#, Some(Verdict::CueNotMet));
}

#[test]
fn what_is_advised_against_is_no_advice() {
    let title = "Return `Result` instead of calling `panic!` in library code";
    assert_eq!(judged(title, "", "panic!(library code)"), Some(Verdict::Ignored));
    assert_eq!(judged(title, "", "library code: return Result"), Some(Verdict::Applied));
    let title = "Use snake_case names, not camelCase names";
    assert_eq!(judged(title, "", "camelCase names"), Some(Verdict::Ignored));
}

#[test]
fn nothing_is_held_against_a_prohibition_that_nobody_broke() {
    const NEVER: &str = "Never unwrap in library code; return an error";
    let check =
        |message, wrote, expected| assert_eq!(judged(NEVER, message, wrote), expected, "{message} {wrote}");
    check("I must not unwrap in library code, so I pass the failure on", "{}", Some(Verdict::Applied));
    check("", "value.unwrap() // library code", Some(Verdict::Ignored));
    check("", "library code: return value", None);
    check("The colours of the page are wrong", "{}", Some(Verdict::CueNotMet));
}

#[test]
fn one_word_is_in_every_other_trace() {
    assert_eq!(judged("Use tabs", "tabs tabs tabs", "tabs"), None);
}
