use super::*;

const EXPIRED: &str = "Error: nonce expired";
const AGREE: &str = r#"{"account":"a","agree":true}"#;
const PLAIN: &str = r#"{"account":"a"}"#;

/// The errors that passed by themselves.
fn passed(brief: &Brief) -> Vec<String> {
    seen(brief).transients.into_iter().map(|one| one.error).collect()
}

#[test]
fn an_error_that_the_very_same_call_gets_past_is_transient_and_what_another_changed_is_not() {
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
fn whatever_happens_between_the_two_may_be_what_helped() {
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
    assert_eq!(passed(&between(silent(Source::Agent, "main"))).len(), 1, "thinking changes nothing");
    assert_eq!(passed(&between(silent(Source::User, "main"))).len(), 0, "somebody answered");
    for edit in
        ["So:\n```python\nx = 1\n```".to_owned(), "a.py\n<<<<<<< SEARCH".to_owned(), "long ".repeat(200)]
    {
        let said = Turn { message: edit, ..silent(Source::Agent, "main") };
        assert_eq!(passed(&between(said.clone())).len(), 0, "some agents act by what they say");
        let mut with = calm.clone();
        with.trajectory.turns[1].message = said.message;
        assert_eq!(passed(&with).len(), 0, "with the call as well");
    }
    let elsewhere = Turn { step: Step::new("other").unwrap(), ..turn(call(("renew", PLAIN, "done"))) };
    assert_eq!(passed(&between(elsewhere)).len(), 0, "another step acted");
    let mut beside = calm.clone();
    beside.trajectory.turns[1].calls.push(call(("renew", PLAIN, "done")));
    assert_eq!(passed(&beside).len(), 0, "two calls went out together");
}

#[test]
fn it_speaks_against_every_memory_about_its_error_and_no_other() {
    let mut brief = run(&[("check", PLAIN, EXPIRED), ("check", PLAIN, "valid")]);
    let about = |number, tool, error| {
        memory(number, "check", "Mind it", cue(tool, error, None, Some("with `agree`")))
    };
    brief.memories = vec![
        about(1, "check", "nonce expired"),
        about(2, "check", "no such account"),
        about(3, "renew", "nonce expired"),
        KnownMemory { step: Some(Step::new("other").unwrap()), ..about(4, "check", "nonce expired") },
        KnownMemory { presented: false, weight: Weight::ZERO, ..about(5, "check", "nonce expired") },
    ];
    let against: Vec<_> = seen(&brief).contradictions.iter().map(|one| one.memory).collect();
    assert_eq!(against, [memory_id(1), memory_id(5)]);
}
