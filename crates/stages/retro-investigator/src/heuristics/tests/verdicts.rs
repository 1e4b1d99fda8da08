use super::*;
use retro_core::finding::MemoryVerdict;

/// Returns the verdict on one memory with its quote.
fn verdict(known: LessonCue, calls: &[Told<'_>]) -> (MemoryVerdict, String) {
    let mut brief = run(calls);
    brief.memories = vec![memory(7, "t", "Title", known)];
    let (_, verdicts) = investigated(&brief);
    let one = verdicts.into_iter().next().expect("a verdict");
    (one.verdict, one.quote.map(|quote| quote.text).unwrap_or_default())
}

const PLAIN: &str = r#"{"service":"checkout"}"#;
const PLACED: &str = r#"{"service":"checkout","region":"eu"}"#;
const OWN: &str = "Error: missing required argument 'region'";

fn with_region() -> LessonCue {
    cue("deploy", "missing required argument region", Some("without `region`"), Some("with `region`"))
}

#[test]
fn a_manner_of_the_call_is_judged_by_the_call() {
    for (calls, expected, words) in [
        (vec![("deploy", PLACED, "deployed")], MemoryVerdict::Helped, PLACED),
        (vec![("deploy", PLAIN, OWN), ("deploy", PLACED, "deployed")], MemoryVerdict::Helped, PLACED),
        (vec![("deploy", PLACED, "deployed"), ("deploy", PLAIN, OWN)], MemoryVerdict::Applied, PLACED),
        (
            vec![("deploy", PLAIN, OWN), ("deploy", PLAIN, OWN), ("deploy", PLACED, "ok")],
            MemoryVerdict::Applied,
            PLACED,
        ),
        (vec![("deploy", PLAIN, OWN)], MemoryVerdict::Ignored, OWN),
        (vec![("deploy", PLAIN, "deployed")], MemoryVerdict::Ignored, PLAIN),
        (
            vec![("deploy", PLACED, "Error: unknown argument region")],
            MemoryVerdict::Harmed,
            "Error: unknown argument region",
        ),
        (vec![("deploy", PLACED, OWN)], MemoryVerdict::Harmed, OWN),
        (vec![("build", "{}", "built")], MemoryVerdict::CueNotMet, ""),
    ] {
        assert_eq!(verdict(with_region(), &calls), (expected, words.to_owned()), "{calls:?}");
    }
}

#[test]
fn a_value_that_was_not_given_is_ignored_if_its_error_came_and_not_met_otherwise() {
    let known = || cue("deploy", "missing required argument region", None, Some("`region` = `eu`"));
    for (calls, expected) in [
        (vec![("deploy", PLAIN, OWN)], MemoryVerdict::Ignored),
        (vec![("deploy", PLAIN, OWN), ("deploy", PLACED, "deployed")], MemoryVerdict::Helped),
        (vec![("deploy", PLAIN, "deployed")], MemoryVerdict::CueNotMet),
        (vec![("deploy", PLAIN, "Error: no such service")], MemoryVerdict::CueNotMet),
    ] {
        assert_eq!(verdict(known(), &calls).0, expected, "{calls:?}");
    }
}

#[test]
fn an_earlier_or_transient_error_is_no_harm() {
    let down = "Error: the cluster is down";
    let anyhow = [("deploy", PLAIN, down), ("deploy", PLACED, down)];
    assert_eq!(verdict(with_region(), &anyhow).0, MemoryVerdict::Applied);
    let passing = [("deploy", PLACED, "HTTP 503 Service Unavailable")];
    assert_eq!(verdict(with_region(), &passing).0, MemoryVerdict::Applied);
    let then_worked = [("deploy", PLACED, down), ("deploy", PLACED, "deployed")];
    assert_eq!(verdict(with_region(), &then_worked).0, MemoryVerdict::Helped);
}

#[test]
fn a_lookup_is_judged_by_the_next_call() {
    let own = "Error executing query: Table 'x.t' doesn't exist";
    let known = || cue("mysql", "Table … doesn't exist", None, Some("first `SHOW TABLES`"));
    let looking = ("mysql", "SHOW TABLES", "[('u',)]");
    let query = |answer| ("mysql", "SELECT a FROM u", answer);
    for (calls, expected) in [
        (vec![looking, query("[(1,)]")], MemoryVerdict::Helped),
        (vec![query(own), looking, query("[(1,)]")], MemoryVerdict::Helped),
        (vec![looking, query(own)], MemoryVerdict::Applied),
        (vec![query(own), looking], MemoryVerdict::Applied),
        (vec![looking, query("Error executing query: Unknown column 'a'")], MemoryVerdict::Applied),
        (vec![query(own), query(own)], MemoryVerdict::Ignored),
        (vec![query("[(1,)]")], MemoryVerdict::Ignored),
        (
            vec![("mysql", "SHOW TABLES", "Error: access denied for this user"), query("[(1,)]")],
            MemoryVerdict::Harmed,
        ),
        (vec![("bash", "ls", "")], MemoryVerdict::CueNotMet),
    ] {
        assert_eq!(verdict(known(), &calls).0, expected, "{calls:?}");
    }
}

#[test]
fn a_prerequisite_is_judged_by_the_next_call() {
    let own = "Error: no session is open";
    let known = || cue("export_report", "no session is open", None, Some("first `open_session`"));
    let open = |answer| ("open_session", r#"{"user":"anna"}"#, answer);
    let export = |answer| ("export_report", r#"{"id":"r-7"}"#, answer);
    for (calls, expected) in [
        (vec![open("session 17"), export("12 pages")], MemoryVerdict::Helped),
        (vec![open("session 17"), export(own)], MemoryVerdict::Applied),
        (vec![open("Error: open_session was retired"), export("12 pages")], MemoryVerdict::Harmed),
        (vec![export(own)], MemoryVerdict::Ignored),
    ] {
        assert_eq!(verdict(known(), &calls).0, expected, "{calls:?}");
    }
}

#[test]
fn what_must_come_first_harms_when_the_call_after_it_fails_in_a_new_way() {
    let own = "Error: no approved change is attached to the request";
    let known = || {
        cue("sign_image", "no approved change is attached to the request", None, Some("first `find_change`"))
    };
    let looking = ("find_change", r#"{"revision":"4f2a"}"#, "CR-17 approved");
    let sign = |answer| ("sign_image", r#"{"image":"b-7","change_request":"CR-17"}"#, answer);
    let refused = "Error: unknown field change_request (schema v3)";
    for (calls, expected, words) in [
        (vec![looking, sign("signed")], MemoryVerdict::Helped, looking.1),
        (vec![looking, sign(refused)], MemoryVerdict::Harmed, refused),
        (vec![sign(refused), looking, sign(refused)], MemoryVerdict::Applied, refused),
        (
            vec![looking, sign("HTTP 503 Service Unavailable")],
            MemoryVerdict::Applied,
            "HTTP 503 Service Unavailable",
        ),
        (vec![looking, sign(own)], MemoryVerdict::Applied, looking.1),
    ] {
        assert_eq!(verdict(known(), &calls), (expected, words.to_owned()), "{calls:?}");
    }
}

#[test]
fn a_lesson_about_one_program_is_not_met_by_another() {
    let known = || {
        cue(
            "bash",
            "tar: You may not specify more than one -c option",
            Some("`tar` with `-c`"),
            Some("`tar` with `-C`"),
        )
    };
    assert_eq!(verdict(known(), &[("bash", "ls -c", "a")]).0, MemoryVerdict::CueNotMet);
    assert_eq!(verdict(known(), &[("bash", "tar -xzf a -C b", "")]).0, MemoryVerdict::Helped);
}

#[test]
fn repeating_is_judged_by_what_follows_the_error() {
    let known = || cue("book", "weird state …", Some("the same call again"), None);
    let failing = ("book", r#"{"a":1}"#, "Error: weird state 17");
    let other = ("book", r#"{"a":2}"#, "ok");
    for (calls, expected) in [
        (vec![failing, failing], MemoryVerdict::Ignored),
        (vec![failing, other], MemoryVerdict::Helped),
        (vec![failing], MemoryVerdict::Applied),
        (vec![other], MemoryVerdict::CueNotMet),
    ] {
        assert_eq!(verdict(known(), &calls).0, expected, "{calls:?}");
    }
}

#[test]
fn an_absent_error_counts_only_when_the_agent_mentions_the_lesson() {
    let known = || cue("book", "payment amount does not add up", None, None);
    let title = "Before calling `book`, check that the payment amount adds up to the total price; otherwise it answers “payment amount does not add up”.";
    let judged = |message: &str, answer: &str| {
        let mut brief = run(&[("book", r#"{"a":1}"#, answer)]);
        brief.trajectory.turns[0].message = message.to_owned();
        brief.memories = vec![memory(7, "book", title, known())];
        investigated(&brief).1[0].verdict
    };
    assert_eq!(judged("", "Error: payment amount does not add up"), MemoryVerdict::Ignored);
    assert_eq!(judged("", "booked"), MemoryVerdict::Ignored);
    assert_eq!(
        judged(
            "I verified that the payment amount adds up to the total price before the book call",
            "booked"
        ),
        MemoryVerdict::Helped
    );
}

#[test]
fn a_memory_without_a_tool_is_applied_when_a_turn_holds_most_of_its_words() {
    let judged = |title: &str, message: &str, step: &str| {
        let mut brief = run(&[("deploy", "{}", "ok")]);
        brief.trajectory.turns[0].message = message.to_owned();
        brief.memories = vec![BriefMemory {
            step: Some(Step::new(step).unwrap()),
            ..memory(7, "", title, LessonCue::default())
        }];
        investigated(&brief).1[0].verdict
    };
    let title = "List the open incidents before you deploy the service";
    assert_eq!(
        judged(title, "First I list open incidents, then I deploy this service", "main"),
        MemoryVerdict::Applied
    );
    assert_eq!(judged(title, "I deploy the service", "main"), MemoryVerdict::Ignored);
    assert_eq!(
        judged("Never list open incidents before a deploy", "I list open incidents, then deploy", "main"),
        MemoryVerdict::Ignored
    );
    assert_eq!(judged(title, "", "other"), MemoryVerdict::CueNotMet);
}

#[test]
fn a_memory_without_a_tool_harms_when_the_call_that_follows_it_fails() {
    let judged = |calls: &[Told<'_>]| {
        let mut brief = run(calls);
        let title = "Always restart the balancer before you reload its certificate";
        brief.memories = vec![memory(7, "", title, LessonCue::default())];
        let (_, verdicts) = investigated(&brief);
        (verdicts[0].verdict, verdicts[0].quote.as_ref().map(|quote| quote.text.clone()))
    };
    let (plain, restarted) = (r#"{"balancer":"lb-1"}"#, r#"{"balancer":"lb-1","restart":true}"#);
    let lost = "Error: lb-1 dropped 312 connections";
    let failed = ("reload_balancer", restarted, lost);
    assert_eq!(judged(&[failed]), (MemoryVerdict::Harmed, Some(lost.to_owned())));
    assert_eq!(judged(&[failed, ("reload_balancer", restarted, "done")]).0, MemoryVerdict::Ignored);
    assert_eq!(
        judged(&[("reload_balancer", plain, lost), failed]).0,
        MemoryVerdict::Ignored,
        "the error had come before"
    );
    assert_eq!(
        judged(&[("reload_balancer", plain, lost)]).0,
        MemoryVerdict::Ignored,
        "no call followed the memory"
    );
    let passing = ("reload_balancer", restarted, "HTTP 503 Service Unavailable");
    assert_eq!(judged(&[passing]).0, MemoryVerdict::Ignored);
}

#[test]
fn memories_that_were_not_presented_get_no_verdict() {
    let mut brief = run(&[("deploy", PLACED, "deployed")]);
    brief.memories = vec![BriefMemory { presented: false, ..memory(7, "deploy", "Title", with_region()) }];
    assert!(investigated(&brief).1.is_empty());
}

#[test]
fn a_tool_that_refuses_what_a_memory_prefers_contradicts_it() {
    let against = |answer: &str| {
        let mut brief = run(&[("deploy", PLACED, answer)]);
        brief.memories = vec![memory(7, "deploy", "Title", with_region())];
        raw_answer(&brief).contradictions
    };
    let said = against("Error: unknown argument region");
    assert_eq!(said.len(), 1);
    assert_eq!(said[0].memory, memory_id(7));
    assert_eq!(said[0].reason, "called with `region`, and the tool refuses just that");
    assert!(against(OWN).is_empty(), "a harmful memory whose preference the tool does not refuse");
    assert!(against("Error: invalid region eu").is_empty(), "only the value is refused");
    assert!(against("deployed").is_empty());
}
