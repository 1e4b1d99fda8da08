use super::*;

const EXPIRED: &str = "Error: nonce expired";
const AGREE: &str = r#"{"account":"a","agree":true}"#;
const PLAIN: &str = r#"{"account":"a"}"#;

/// Returns the transient errors.
fn passed(brief: &InvestigationBrief) -> Vec<String> {
    raw_answer(brief).transients.into_iter().map(|one| one.error).collect()
}

#[test]
fn an_error_that_the_identical_call_gets_past_is_transient() {
    let again = [("check", PLAIN, EXPIRED), ("check", PLAIN, "valid")];
    assert_eq!(passed(&run(&again)), ["nonce expired"]);
    let twice = [("check", PLAIN, EXPIRED), ("check", PLAIN, EXPIRED), ("check", PLAIN, "valid")];
    assert_eq!(passed(&run(&twice)), ["nonce expired"]);
    for other in [
        &[("check", PLAIN, EXPIRED), ("check", AGREE, "valid")][..],
        &[("check", PLAIN, EXPIRED), ("check", PLAIN, EXPIRED)],
        &[("check", PLAIN, EXPIRED), ("renew", PLAIN, "done"), ("check", PLAIN, "valid")],
        &[("check", PLAIN, EXPIRED), ("renew", PLAIN, "valid")],
        &[("check", PLAIN, "valid"), ("check", PLAIN, "valid")],
        &[("check", "{}", EXPIRED), ("check", "{}", "valid")],
    ] {
        assert_eq!(passed(&run(other)), [""; 0], "{other:?}");
    }
}

#[test]
fn anything_between_the_two_calls_may_be_the_cause() {
    let calm = run(&[("check", PLAIN, EXPIRED), ("check", PLAIN, "valid")]);
    let between = |turn: Turn| {
        let mut brief = calm.clone();
        brief.trajectory.turns.insert(1, turn);
        brief
    };
    let silent = |source, step: &str| {
        let step = Step::new(step).unwrap();
        Turn { step, source, message: "hm".to_owned(), calls: Vec::new(), ..turn(call(("x", "", ""))) }
    };
    assert_eq!(
        passed(&between(silent(TurnSource::Agent, "main"))).len(),
        1,
        "a message without code changes nothing"
    );
    assert_eq!(passed(&between(silent(TurnSource::User, "main"))).len(), 0, "a person spoke in between");
    for edit in
        ["So:\n```python\nx = 1\n```".to_owned(), "a.py\n<<<<<<< SEARCH".to_owned(), "long ".repeat(200)]
    {
        let said = Turn { message: edit, ..silent(TurnSource::Agent, "main") };
        assert_eq!(passed(&between(said.clone())).len(), 0, "a message with an edit may act");
        let mut with = calm.clone();
        with.trajectory.turns[1].message = said.message;
        assert_eq!(passed(&with).len(), 0, "also in the turn of the call");
    }
    let elsewhere = Turn { step: Step::new("other").unwrap(), ..turn(call(("renew", PLAIN, "done"))) };
    assert_eq!(passed(&between(elsewhere)).len(), 0, "another step made a call");
    let mut beside = calm.clone();
    beside.trajectory.turns[1].calls.push(call(("renew", PLAIN, "done")));
    assert_eq!(passed(&beside).len(), 0, "the turn made two calls");
}

#[test]
fn a_transient_contradicts_every_memory_about_its_error_only() {
    let mut brief = run(&[("check", PLAIN, EXPIRED), ("check", PLAIN, "valid")]);
    let about = |number, tool, error| {
        memory(number, "check", "Mind it", cue(tool, error, None, Some("with `agree`")))
    };
    brief.memories = vec![
        about(1, "check", "nonce expired"),
        about(2, "check", "no such account"),
        about(3, "renew", "nonce expired"),
        BriefMemory { step: Some(Step::new("other").unwrap()), ..about(4, "check", "nonce expired") },
        BriefMemory { presented: false, weight: Weight::ZERO, ..about(5, "check", "nonce expired") },
    ];
    let against: Vec<_> = raw_answer(&brief).contradictions.iter().map(|one| one.memory).collect();
    assert_eq!(against, [memory_id(1), memory_id(5)]);
}
