use super::super::call::calls_by_step;
use super::super::trial::find_trial;
use super::*;

/// Returns if the memory was followed, and if the call failed.
fn trial(known: LessonCue, told: &[Told<'_>]) -> Option<(bool, bool)> {
    let brief = run(told);
    let steps = calls_by_step(&brief.trajectory);
    let found = find_trial(&memory(7, "t", "Title", known), &steps)?;
    Some((found.followed, found.failed))
}

#[test]
fn a_form_that_a_value_shows_is_tried_by_the_call() {
    let get = |path: &'static str, answer| vec![("get", path, answer)];
    let (plain, with) = (r#"{"path":"/courses/77"}"#, r#"{"path":"/courses/sis:77"}"#);
    let known = || cue("get", "not found", None, Some("`path` containing `sis:`"));
    assert_eq!(trial(known(), &get(with, "ok")), Some((true, false)));
    assert_eq!(trial(known(), &get(plain, "Error: not found")), Some((false, true)));
    let scaled = cue("get", "not found", None, Some("`path` multiplied by 100"));
    assert_eq!(trial(scaled, &get(with, "ok")), None, "a value does not show its unit");
}

#[test]
fn what_must_come_first_is_tried_by_the_call_after_it() {
    let known = || cue("queue", "no authority is held", None, Some("first `acquire`"));
    let acquire = |answer| ("acquire", r#"{"pass":"p1"}"#, answer);
    let queue = |answer| ("queue", r#"{"pass":"p1","stack":"s"}"#, answer);
    let (held, no) = ("authority is held", "Error: no authority is held");
    for (told, expected) in [
        (vec![acquire(held), queue("queued")], Some((true, false))),
        (vec![acquire(held), queue("Error: two people must agree")], Some((true, true))),
        (vec![queue(no), acquire(held), queue("queued")], Some((true, false))),
        (vec![queue("queued")], Some((false, false))),
        (vec![queue(no)], Some((false, true))),
        (vec![acquire("Error: denied"), queue(no)], Some((false, true))),
        (vec![acquire(held), queue("HTTP 503 Service Unavailable")], Some((true, false))),
        (vec![acquire(held)], None),
    ] {
        assert_eq!(trial(known(), &told), expected, "{told:?}");
    }
    let shell = cue("bash", "no rule to make target", None, Some("first `make image`"));
    assert_eq!(trial(shell, &[("bash", "make image", "ok"), ("bash", "make sign", "ok")]), None);
}
