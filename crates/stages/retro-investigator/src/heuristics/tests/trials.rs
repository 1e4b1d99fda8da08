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
