//! Builds findings from the fields that a model states, and only from what the trace confirms.
//!
//! A model may invent, and text in the run may tell it what to say. So its fields are claims: the quote must be where it
//! says, and the run itself must have made the call that the lesson advises, without a failure. The sentence is ours.

use retro_core::finding::{
    Advice, CONTENT_CHARS_MAX, CUE_CHARS_MAX, EvidenceOrigin, Finding, FindingKind, LessonCue, Quote,
    SavedChange, StatedFields, TITLE_CHARS_MAX, format_advice, format_title, stated_form,
};
use retro_core::trajectory::{QuotePlace, Trajectory};
use serde_json::Value;

use super::arguments::Command;
use super::call::{self, Call};
use super::lesson::{describe_failure, describe_success};
use super::lookup;
use super::quote::{quote_at, shorten_text};
use super::signature::error_signature;
use super::stated_option::find_option_change;
use super::stated_reach::{check_is_general, check_tells_failure, is_answer_of};

/// What a model states about a call of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StatedFinding {
    /// 0-based index of the turn with the quoted text.
    pub(crate) turn: u32,
    /// 0-based index of the call within the turn; `None` if the quote is from a message.
    pub(crate) call: Option<u32>,
    /// Tool that the finding is about.
    pub(crate) tool: String,
    /// Text that shows what went wrong, verbatim.
    pub(crate) error_quote: String,
    /// What is to be changed in the call; `None` if nothing is known.
    pub(crate) change: Option<SavedChange>,
    /// Argument that is to be changed.
    pub(crate) argument: Option<String>,
    /// Value of the argument that failed.
    pub(crate) bad: Option<String>,
    /// Value of the argument that works, or the tool or the call.
    pub(crate) good: Option<String>,
}

/// What remains of a statement that the trace confirms.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "there are a few of them per run; a box would only hide the finding"
)]
pub(crate) enum Stated {
    /// A finding, from which agents may learn.
    Finding(Finding),
    /// A quote for the cause that the report shows to people: nothing is to be changed.
    CauseOnly(Quote),
}

/// Builds the finding that a model states. Fails with the reason if the trace does not confirm it, in words that
/// the model may be told.
pub(crate) fn build_stated_finding(
    trajectory: &Trajectory,
    stated: &StatedFinding,
) -> Result<Stated, String> {
    let quote = find_quote(trajectory, stated.turn, stated.call, &stated.error_quote)
        .ok_or_else(|| format!("`error_quote` is not in turn {} as it is written", stated.turn))?;
    let Some(change) = stated.change else {
        // A warning without a remedy is noise to an agent, however right the model is about the cause. The heuristics warn where
        // it is not.
        return Ok(Stated::CauseOnly(quote));
    };
    let steps = call::calls_by_step(trajectory);
    let own = trajectory.turns.get(stated.turn as usize).map(|turn| &turn.step);
    let step = steps.iter().find(|step| Some(step.step) == own);
    let step = step.ok_or_else(|| format!("turn {} is in no step with calls of an agent", stated.turn))?;
    let failing = find_failing(&step.calls, stated).ok_or_else(|| {
        format!("`tool`: the step has no call of {} at turn {} or before", stated.tool, stated.turn)
    })?;
    if !is_answer_of(trajectory, &quote, &stated.tool) {
        return Err(format!(
            "`error_quote` is no answer of {}: an agent meets the line when the tool answers so; quote its answer, or leave \
             `change` out",
            stated.tool
        ));
    }
    check_is_general(trajectory, failing.turn, stated, change)?;
    let ConfirmedChange { form, avoid, worked, subject } =
        confirm_change(&step.calls, failing, stated, change)?;
    check_tells_failure(&quote.text, worked.answer)?;
    let is_answer = matches!(quote.place, QuotePlace::Answer { turn, .. } if turn == failing.turn);
    // The masked error of the call is the same in every run, so that other runs and the heuristics confirm the finding.
    let error = match failing.failure() {
        Some(failure) if is_answer && !failure.error.is_empty() => failure.error.clone(),
        _ => error_signature(quote.text.lines().next().unwrap_or_default()),
    };
    let advice = Advice::When(format_advice(&[&form], avoid.as_deref()));
    let title = format_title(failing.tool, &error, &advice, &[worked.raw])
        .ok_or("nothing of `error_quote` can be quoted to agents: quote the words that say what is wrong")?;
    let length = title.chars().count();
    if length > TITLE_CHARS_MAX {
        return Err(format!(
            "the sentence of the lesson would have {length} characters, at most {TITLE_CHARS_MAX}: quote fewer words"
        ));
    }
    let failed = describe_failure(failing, &quote.text, &[worked.raw]);
    let content = format!("{failed} {}", describe_success(worked));
    Ok(Stated::Finding(Finding {
        kind: FindingKind::Repair,
        step: step.step.clone(),
        subject,
        title,
        content: shorten_text(&content, CONTENT_CHARS_MAX),
        cue: LessonCue {
            tool: Some(failing.tool.to_owned()),
            error: Some(error),
            avoid,
            prefer: Some(form),
            worked: Some(shorten_text(worked.raw, CUE_CHARS_MAX)),
        },
        quote,
        contradicts: None,
        origin: EvidenceOrigin { source: lookup::find_source(failing), ..EvidenceOrigin::default() },
    }))
}

/// Change that a later call of the run made, and did not fail.
struct ConfirmedChange<'c, 'a> {
    /// What is to be done, and what it replaces, as in a cue.
    form: String,
    avoid: Option<String>,
    worked: &'c Call<'a>,
    subject: String,
}

/// Finds the call that made the stated change. Fails with the reason if no later call of the run did, or if a field is not what
/// it should be.
fn confirm_change<'c, 'a>(
    calls: &'c [Call<'a>],
    failing: &Call<'a>,
    stated: &StatedFinding,
    change: SavedChange,
) -> Result<ConfirmedChange<'c, 'a>, String> {
    let option = find_option_change(calls, failing, stated, change)?;
    let program = option.as_ref().map(|found| found.program.as_str());
    let argument = stated.argument.as_deref();
    let fields = StatedFields {
        change,
        tool: &stated.tool,
        program,
        argument,
        bad: stated.bad.as_deref(),
        good: stated.good.as_deref(),
    };
    let (form, avoid) = stated_form(&fields).map_err(|error| error.to_string())?;
    let about = program.or(argument.filter(|_| change == SavedChange::SetArgument));
    let subject = about.map_or_else(|| failing.subject(), |about| format!("{} {about}", failing.tool));
    let worked = match &option {
        Some(found) => found.worked,
        None => find_worked(calls, failing, &fields)?,
    };
    Ok(ConfirmedChange { form, avoid, worked, subject })
}

/// Returns the quote at its place in a turn: in the answer or the arguments of the named call, or of any call, or in the
/// message. Returns `None` if the turn does not contain it.
pub(crate) fn find_quote(trajectory: &Trajectory, turn: u32, call: Option<u32>, text: &str) -> Option<Quote> {
    let text = text.trim();
    let calls = u32::try_from(trajectory.turns.get(turn as usize)?.calls.len()).unwrap_or(u32::MAX);
    let of_calls = call
        .into_iter()
        .chain(0..calls)
        .flat_map(|call| [QuotePlace::Answer { turn, call }, QuotePlace::Arguments { turn, call }]);
    let mut places = of_calls.chain([QuotePlace::Message { turn }, QuotePlace::Reasoning { turn }]);
    let place = places.find(|place| trajectory.text_at(*place).is_some_and(|at| at.contains(text)))?;
    quote_at(place, text)
}

/// Returns the call that a finding is about: the named one, or the last call of the tool up to the turn.
fn find_failing<'c, 'a>(calls: &'c [Call<'a>], stated: &StatedFinding) -> Option<&'c Call<'a>> {
    let of_tool = |one: &&Call<'_>| one.tool == stated.tool && one.turn <= stated.turn;
    let named = |one: &&Call<'_>| one.turn == stated.turn && Some(one.call_index) == stated.call;
    let own = calls.iter().filter(of_tool).find(named);
    own.or_else(|| calls.iter().rfind(of_tool))
}

/// Returns the later call of the run that did as the fields say and did not fail. Fails if there is none: what nobody did is
/// no advice.
fn find_worked<'c, 'a>(
    calls: &'c [Call<'a>],
    failing: &Call<'a>,
    fields: &StatedFields<'_>,
) -> Result<&'c Call<'a>, String> {
    let place = |one: &Call<'_>| (one.turn, one.call_index);
    let later = || calls.iter().filter(|one| place(one) > place(failing) && one.failure().is_none());
    let same_tool = |one: &&Call<'_>| one.tool == failing.tool;
    let argument = fields.argument.unwrap_or_default();
    let found = match fields.change {
        SavedChange::SetArgument => {
            let bad = parameter(failing, argument);
            if fields.bad.is_some_and(|stated| bad.as_deref() != Some(stated)) {
                return Err(format!("`bad`: the call at turn {} does not have this value", failing.turn));
            }
            let is_good = |one: &&Call<'_>| {
                bad.as_deref() != fields.good && parameter(one, argument).as_deref() == fields.good
            };
            later().filter(same_tool).find(is_good)
        }
        SavedChange::AddArgument => {
            let was_missing = parameter(failing, argument).is_none();
            later().filter(same_tool).find(|one| was_missing && parameter(one, argument).is_some())
        }
        SavedChange::DropArgument => {
            let was_there = parameter(failing, argument).is_some();
            later().filter(same_tool).find(|one| was_there && parameter(one, argument).is_none())
        }
        SavedChange::UseTool => later().find(|one| Some(one.tool) == fields.good && one.tool != failing.tool),
        SavedChange::CallFirst => {
            let first = fields.good.unwrap_or_default();
            let is_first = |one: &&Call<'_>| {
                one.tool == first
                    || one.arguments.as_command().is_some_and(|command| runs_words(command, first))
            };
            let first = later().find(is_first);
            first.and_then(|first| later().filter(same_tool).find(|one| place(one) > place(first)))
        }
    };
    found.ok_or_else(|| "no later call of the run did so without a failure; leave `change` out".to_owned())
}

/// Returns `true` if a command begins with these words, or runs the first of them with the others, in this order, after
/// options: `terraform -chdir=stacks/a init` runs `terraform init`.
fn runs_words(command: &Command, words: &str) -> bool {
    if command
        .text
        .trim()
        .strip_prefix(words)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
    {
        return true;
    }
    let mut wanted = words.split(' ');
    let Some(program) = wanted.next().filter(|program| command.programs().any(|one| one == *program)) else {
        return false;
    };
    let mut given = command.words_after(program).iter().filter(|word| !word.starts_with('-'));
    wanted.all(|word| given.next().is_some_and(|given| given == word))
}

/// Returns the value of a parameter of a call as text; `None` if the call does not have it.
fn parameter(call: &Call<'_>, name: &str) -> Option<String> {
    Some(match call.arguments.parameters()?.get(name)? {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use retro_core::id::Step;
    use retro_core::trajectory::{ToolCall, Turn, TurnSource};

    use super::*;

    fn run(calls: &[(&str, &str, &str)]) -> Trajectory {
        let turn = |(tool, arguments, answer): &(&str, &str, &str)| Turn {
            step: Step::main(),
            agentic: true,
            entry: None,
            at: None,
            source: TurnSource::Agent,
            message: format!("I call {tool}."),
            reasoning: String::new(),
            calls: vec![ToolCall {
                tool: (*tool).to_owned(),
                arguments: (*arguments).to_owned(),
                answer: Some((*answer).to_owned()),
                failed: None,
            }],
        };
        calls.iter().map(turn).collect::<Vec<_>>().into()
    }

    /// A search that finds nothing, which is no failure to the heuristics, and then finds something.
    fn bookings() -> Trajectory {
        run(&[
            ("find_bookings", r#"{"day":"03/04/2026","desk":7}"#, r#"{"items":[],"total":0}"#),
            ("open_desk", r#"{"desk":7}"#, "opened"),
            ("find_bookings", r#"{"day":"2026-04-03","desk":7,"all":true}"#, r#"{"items":["b1"],"total":1}"#),
        ])
    }

    fn build_finding(run: &Trajectory, stated: &StatedFinding) -> Result<Finding, String> {
        match build_stated_finding(run, stated)? {
            Stated::Finding(found) => Ok(found),
            Stated::CauseOnly(quote) => Err(format!("a cause only: {}", quote.text)),
        }
    }

    #[test]
    fn without_a_change_only_the_cause_remains() {
        let run = bookings();
        let empty = StatedFinding { change: None, ..stated(SavedChange::AddArgument, "", None, None) };
        let of_message =
            StatedFinding { call: None, error_quote: "I call find_bookings.".to_owned(), ..empty.clone() };
        for one in [empty, of_message] {
            let Stated::CauseOnly(quote) = build_stated_finding(&run, &one).unwrap() else {
                panic!("{one:?}")
            };
            assert_eq!(quote.text, one.error_quote);
        }
    }

    fn stated(change: SavedChange, argument: &str, bad: Option<&str>, good: Option<&str>) -> StatedFinding {
        StatedFinding {
            turn: 0,
            call: Some(0),
            tool: "find_bookings".to_owned(),
            error_quote: r#""items":[]"#.to_owned(),
            change: Some(change),
            argument: Some(argument.to_owned()).filter(|argument| !argument.is_empty()),
            bad: bad.map(str::to_owned),
            good: good.map(str::to_owned),
        }
    }

    #[test]
    fn what_the_run_did_becomes_a_lesson_in_our_words() {
        let run = bookings();
        let day = stated(SavedChange::SetArgument, "day", Some("03/04/2026"), Some("2026-04-03"));
        let found = build_finding(&run, &day).unwrap();
        assert!(
            found.title.ends_with("set `day` to `2026-04-03` instead of `03/04/2026`."),
            "{}",
            found.title
        );
        assert_eq!((found.subject.as_str(), found.kind), ("find_bookings day", FindingKind::Repair));
        assert_eq!(found.quote.place, QuotePlace::Answer { turn: 0, call: 0 });
        assert!(found.content.contains("2026-04-03"), "{}", found.content);
        for (change, argument, good, advice) in [
            (SavedChange::AddArgument, "all", None, "pass `all` as well."),
            (SavedChange::UseTool, "", Some("open_desk"), "call `open_desk` instead."),
            (SavedChange::CallFirst, "", Some("open_desk"), "call `open_desk` first."),
        ] {
            let found = build_finding(&run, &stated(change, argument, None, good)).unwrap();
            assert!(found.title.ends_with(advice), "{}", found.title);
        }
    }

    /// Commands as one string: an option, its value, and a preparing command with an option between its words.
    fn commands() -> Trajectory {
        let command = |text: &str| format!("{{\"command\":\"{text}\"}}");
        let lines = [
            ("cd out && ffmpeg -i a.mov -c:a libfdk_aac b.mp4", "Unknown encoder 'libfdk_aac'"),
            ("cd out && ffmpeg -i a.mov -c:a aac -y b.mp4", "wrote b.mp4"),
            ("terraform plan", "Error: Backend initialization required"),
            ("terraform -chdir=stacks/a init", "initialized"),
            ("terraform plan -lock-timeout=5m", "Plan: 1 to add"),
        ];
        let calls: Vec<(String, &str)> =
            lines.iter().map(|(text, answer)| (command(text), *answer)).collect();
        run(&calls.iter().map(|(raw, answer)| ("bash", raw.as_str(), *answer)).collect::<Vec<_>>())
    }

    #[test]
    fn options_of_commands_are_changed_like_arguments() {
        let run = commands();
        let of_command =
            |turn, quote: &str, change, argument: &str, bad: Option<&str>, good: Option<&str>| {
                let error_quote = quote.to_owned();
                let stated = StatedFinding {
                    turn,
                    error_quote,
                    tool: "bash".to_owned(),
                    ..stated(change, argument, bad, good)
                };
                build_finding(&run, &stated)
            };
        let (encoder, backend) = ("Unknown encoder 'libfdk_aac'", "Error: Backend initialization required");
        for (turn, quote, change, argument, bad, good, advice) in [
            (
                0,
                encoder,
                SavedChange::SetArgument,
                "-c:a",
                Some("libfdk_aac"),
                Some("aac"),
                "call `ffmpeg` with `-c:a aac` instead of `-c:a libfdk_aac`.",
            ),
            (0, encoder, SavedChange::AddArgument, "-y", None, None, "call `ffmpeg` with `-y`."),
            (
                2,
                backend,
                SavedChange::AddArgument,
                "-lock-timeout",
                None,
                Some("5m"),
                "call `terraform` with `-lock-timeout 5m`.",
            ),
            (
                2,
                backend,
                SavedChange::CallFirst,
                "",
                None,
                Some("terraform init"),
                "run `terraform init` first.",
            ),
        ] {
            let found = of_command(turn, quote, change, argument, bad, good).unwrap();
            assert!(found.title.ends_with(advice), "{}", found.title);
        }
        for (change, argument, bad, good) in [
            (SavedChange::SetArgument, "-c:a", Some("mp3"), Some("aac")),
            (SavedChange::SetArgument, "-c:a", None, Some("opus")),
            (SavedChange::AddArgument, "-i", None, None),
            (SavedChange::DropArgument, "-i", None, None),
            (SavedChange::DropArgument, "-an", None, None),
        ] {
            let refused = of_command(0, encoder, change, argument, bad, good).unwrap_err();
            assert!(refused.contains("no later call of bash"), "{refused}");
        }
    }

    #[test]
    fn what_no_answer_of_the_tool_says_is_no_cue() {
        let run = bookings();
        let day = || stated(SavedChange::SetArgument, "day", Some("03/04/2026"), Some("2026-04-03"));
        let of_arguments = StatedFinding { error_quote: r#""day":"03/04/2026""#.to_owned(), ..day() };
        let of_message =
            StatedFinding { call: None, error_quote: "I call find_bookings.".to_owned(), ..day() };
        let of_another_tool =
            StatedFinding { turn: 1, call: Some(0), error_quote: "opened".to_owned(), ..day() };
        for wrong in [of_arguments, of_message, of_another_tool] {
            let refused = build_stated_finding(&run, &wrong).unwrap_err();
            assert!(refused.contains("is no answer of find_bookings"), "{refused}");
        }
    }

    #[test]
    fn what_a_call_that_worked_answers_too_is_no_cue() {
        let run = run(&[
            ("update", r#"{"id":1,"reason":"jury_duty"}"#, r#"{"fee":0,"difference":12.50,"paid":300}"#),
            ("update", r#"{"id":1,"reason":"personal"}"#, r#"{"fee":75,"difference":8,"paid":375}"#),
        ]);
        let wrong = StatedFinding {
            tool: "update".to_owned(),
            error_quote: r#""fee":0,"#.to_owned(),
            ..stated(SavedChange::SetArgument, "reason", Some("jury_duty"), Some("personal"))
        };
        assert!(
            build_stated_finding(&run, &wrong).unwrap_err().contains("also in the answer of the later call")
        );
    }

    #[test]
    fn a_value_of_this_task_is_no_lesson() {
        let day = || stated(SavedChange::SetArgument, "day", Some("03/04/2026"), Some("2026-04-03"));
        let mut told = bookings();
        told.turns[1].source = TurnSource::User;
        told.turns[1].message = "I mean the 2026-04-03, please.".to_owned();
        let mut answered = bookings();
        answered.turns.insert(0, bookings().turns[1].clone());
        answered.turns[0].calls[0].answer = Some(r#"{"next":"2026-04-03"}"#.to_owned());
        let later = StatedFinding { turn: 1, ..day() };
        for (run, stated) in [(told, day()), (answered, later)] {
            let refused = build_stated_finding(&run, &stated).unwrap_err();
            assert!(refused.contains("another run needs another value"), "{refused}");
        }
        assert!(build_stated_finding(&bookings(), &day()).is_ok(), "nobody gave it");
    }

    #[test]
    fn what_the_run_did_not_do_becomes_nothing() {
        let run = bookings();
        let day = || stated(SavedChange::SetArgument, "day", Some("03/04/2026"), Some("2026-04-03"));
        for (wrong, reason) in [
            (StatedFinding { error_quote: "no such words".to_owned(), ..day() }, "`error_quote`"),
            (StatedFinding { turn: 9, ..day() }, "`error_quote`"),
            (StatedFinding { tool: "rm".to_owned(), ..day() }, "`tool`"),
            (StatedFinding { good: Some("2026-04-04".to_owned()), ..day() }, "no later call"),
            (StatedFinding { bad: Some("x".to_owned()), ..day() }, "`bad`"),
            (StatedFinding { good: Some("run curl evil.example".to_owned()), ..day() }, "`good`"),
            (stated(SavedChange::UseTool, "", None, Some("wipe_disk")), "no later call"),
            (stated(SavedChange::CallFirst, "", None, Some("curl evil")), "no later call"),
            (stated(SavedChange::DropArgument, "desk", None, None), "no later call"),
        ] {
            let refused = build_stated_finding(&run, &wrong).unwrap_err();
            assert!(refused.contains(reason), "{refused}: {wrong:?}");
        }
    }
}
