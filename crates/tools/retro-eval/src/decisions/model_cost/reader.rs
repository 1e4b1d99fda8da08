//! A script that reads a run as a careful model would: it looks at what failed, reads the answers of failing calls and what
//! was called after them, asks about the step with most failures, and submits what it has read with quotes.
//!
//! It decides by the request alone, so the same run is read in the same way each time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use retro_model::{ChatMessage, LanguageModel, ModelError, ModelRequest, ModelResponse, StopReason, ToolUse};
use serde_json::{Value, json};

use super::tokens::PromptCache;

/// Name of the script.
pub(super) const MODEL: &str = "scripted";
/// Number of tools that are called at once: as many as the program carries out.
const CALLS_AT_ONCE: usize = 8;
/// Number of failing calls whose answers are read in a conversation about a run, and in one about a step.
const FAILURES_READ: usize = 16;
const FAILURES_READ_IN_STEP: usize = 6;
/// Number of failures after which the next calls are listed.
const FOLLOWED: usize = 2;
/// Maximum length of a quote, in characters.
const QUOTE_CHARS_MAX: usize = 160;

/// The script, with the tokens that it would have cost.
pub(super) struct CarefulReader {
    bytes_per_token: u64,
    cache: Mutex<PromptCache>,
    /// Size of tools and instructions of a conversation about a run, in bytes; 0 before the first one.
    instructions_bytes: Mutex<usize>,
}

/// A failing call, as a list of calls shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FailingCall {
    turn: u64,
    call: u64,
    step: String,
    tool: String,
    error: String,
}

impl CarefulReader {
    pub(super) fn new(bytes_per_token: u64) -> Self {
        Self { bytes_per_token, cache: Mutex::default(), instructions_bytes: Mutex::default() }
    }

    /// Returns the size of tools and instructions, which a prompt with whole runs would need as well.
    pub(super) fn instructions_bytes(&self) -> usize {
        *self.instructions_bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl LanguageModel for CarefulReader {
    fn name(&self) -> &str {
        MODEL
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let calls = answer(request);
        let usage = self.cache.lock().unwrap_or_else(PoisonError::into_inner).bill(
            request,
            &calls,
            self.bytes_per_token,
        );
        if has_tool(request, "submit_findings") {
            let bare = ModelRequest { messages: Vec::new(), ..request.clone() };
            let bytes = usize::try_from(bare.prompt_bytes()).unwrap_or(usize::MAX);
            *self.instructions_bytes.lock().unwrap_or_else(PoisonError::into_inner) = bytes;
        }
        Ok(ModelResponse { text: String::new(), calls, stop: StopReason::Complete, usage })
    }
}

fn has_tool(request: &ModelRequest, name: &str) -> bool {
    request.tools.iter().any(|tool| tool.name == name)
}

fn answer(request: &ModelRequest) -> Vec<ToolUse> {
    let calls = if has_tool(request, "submit_groups") {
        vec![group_lines(request)]
    } else if has_tool(request, "submit_summary") {
        read_step(request)
    } else {
        read_run(request)
    };
    calls
        .into_iter()
        .take(CALLS_AT_ONCE)
        .enumerate()
        .map(|(nth, (name, arguments))| ToolUse {
            id: format!("call_{nth}"),
            name: name.to_owned(),
            arguments: arguments.to_string(),
        })
        .collect()
}

type Call = (&'static str, Value);

/// Reads a run in six answers, the last of which submits.
fn read_run(request: &ModelRequest) -> Vec<Call> {
    let failures = list_failures(request);
    let last = failures.last().map_or(0, |one| one.turn + 1);
    let distinct = distinct_failures(&failures);
    let reads = |range: std::ops::Range<usize>| {
        distinct.iter().skip(range.start).take(range.len()).map(|one| read_answer(one)).collect::<Vec<_>>()
    };
    let turns = answers_so_far(request);
    let forced = request.forced_tool.is_some();
    let next = match turns {
        _ if forced => Vec::new(),
        0 => vec![
            ("list_workflow_calls", json!({"failed_only": true})),
            ("list_calls", json!({"failed_only": true, "from_turn": last})),
            ("search", json!({"text": "error"})),
            ("search", json!({"text": "traceback"})),
        ],
        1 if distinct.is_empty() => read_last_messages(request),
        1 => reads(0..CALLS_AT_ONCE),
        2 => {
            distinct.iter().take(FOLLOWED).map(|one| ("list_calls", json!({"from_turn": one.turn}))).collect()
        }
        3 if distinct.len() > CALLS_AT_ONCE => reads(CALLS_AT_ONCE..FAILURES_READ),
        3 | 4 => ask_about_worst_step(request, &failures).into_iter().collect(),
        _ => Vec::new(),
    };
    // With nothing left to look at, it answers earlier.
    if next.is_empty() { vec![("submit_findings", build_findings(request, &distinct))] } else { next }
}

/// Reads the last messages of a run in which no call failed: what went wrong in it was said.
fn read_last_messages(request: &ModelRequest) -> Vec<Call> {
    let lines = texts_of(request).into_iter().flat_map(str::lines);
    let turns = lines
        .filter_map(|line| line.strip_suffix(" turns, numbered from 0"))
        .find_map(|number| number.parse::<usize>().ok());
    let turns = turns.unwrap_or_default();
    let last = turns.saturating_sub(CALLS_AT_ONCE)..turns;
    last.map(|turn| ("read", json!({"turn": turn, "part": "message"}))).collect()
}

/// Reads a step in three answers.
fn read_step(request: &ModelRequest) -> Vec<Call> {
    let failures = list_failures(request);
    let distinct = distinct_failures(&failures);
    let next = match answers_so_far(request) {
        _ if request.forced_tool.is_some() => Vec::new(),
        0 => vec![("list_calls", json!({"failed_only": true}))],
        1 => distinct.iter().take(FAILURES_READ_IN_STEP).map(|one| read_answer(one)).collect(),
        _ => Vec::new(),
    };
    if !next.is_empty() {
        return next;
    }
    let read = read_lines(request);
    let quote = |one: &FailingCall| {
        let line = read.get(&(one.turn, one.call))?;
        Some(json!({"turn": one.turn, "call": one.call, "text": shorten(line)}))
    };
    let quotes: Vec<Value> = distinct.iter().filter_map(quote).take(3).collect();
    let text =
        format!("{} calls of the step failed, with {} different errors.", failures.len(), distinct.len());
    vec![("submit_summary", json!({"text": text, "quotes": quotes}))]
}

/// Keeps the first lines of a list that is too long.
fn group_lines(request: &ModelRequest) -> Call {
    let text = texts_of(request).join("\n");
    let lines = text
        .lines()
        .filter(|line| line.split_once(". run").is_some_and(|(number, _)| number.parse::<u32>().is_ok()));
    let groups: Vec<Value> = (1..=lines.count().min(30)).map(|keep| json!({"keep": keep})).collect();
    ("submit_groups", json!({"groups": groups}))
}

fn read_answer(one: &FailingCall) -> Call {
    ("read", json!({"turn": one.turn, "part": "answer", "call": one.call}))
}

/// Asks about the step with the most failing calls, if there are several steps and none was asked about.
fn ask_about_worst_step(request: &ModelRequest, failures: &[FailingCall]) -> Option<Call> {
    let is_asked = made_calls(request).any(|call| call.name == "investigate_step");
    (has_tool(request, "investigate_step") && !is_asked).then_some(())?;
    let steps: BTreeSet<&str> = failures.iter().map(|one| one.step.as_str()).collect();
    let count = |step: &&&str| failures.iter().filter(|one| one.step == **step).count();
    let worst = steps.iter().max_by_key(count).filter(|_| steps.len() > 1)?;
    let question = "Which errors does the step show, and what did the agent do about each?";
    Some(("investigate_step", json!({"step": worst, "question": question})))
}

/// States every failure whose answer was read. No change is stated: whether one is right takes understanding.
fn build_findings(request: &ModelRequest, distinct: &[FailingCall]) -> Value {
    let read = read_lines(request);
    let stated = distinct.iter().filter_map(|one| {
        let line = read.get(&(one.turn, one.call))?;
        Some(json!({
            "turn": one.turn, "call": one.call, "tool": one.tool, "error_quote": shorten(line),
            "cause": format!("The call of {} at turn {} was refused with these words.", one.tool, one.turn)
        }))
    });
    json!({"findings": stated.collect::<Vec<_>>()})
}

/// Returns the first line of each answer that was read, by turn and call.
fn read_lines(request: &ModelRequest) -> BTreeMap<(u64, u64), &str> {
    let pairs = request.messages.windows(2).filter_map(|pair| match pair {
        [ChatMessage::Assistant { calls, .. }, ChatMessage::Results { results }] => {
            Some(calls.iter().zip(results))
        }
        _ => None,
    });
    let read = pairs.flatten().filter(|(call, _)| call.name == "read").filter_map(|(call, result)| {
        let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
        // The program says what it shows, and marks where the text begins.
        let line = result.text.lines().skip(2).find(|line| !line.trim().is_empty())?;
        Some(((arguments["turn"].as_u64()?, arguments["call"].as_u64()?), line))
    });
    read.collect()
}

fn made_calls(request: &ModelRequest) -> impl Iterator<Item = &ToolUse> {
    request.messages.iter().flat_map(|message| match message {
        ChatMessage::Assistant { calls, .. } => calls.as_slice(),
        _ => &[],
    })
}

fn answers_so_far(request: &ModelRequest) -> usize {
    request.messages.iter().filter(|message| matches!(message, ChatMessage::Assistant { .. })).count()
}

/// Returns the texts that the program has sent.
fn texts_of(request: &ModelRequest) -> Vec<&str> {
    let texts = request.messages.iter().flat_map(|message| match message {
        ChatMessage::User { text } => vec![text.as_str()],
        ChatMessage::Results { results } => results.iter().map(|one| one.text.as_str()).collect(),
        ChatMessage::Assistant { .. } => Vec::new(),
    });
    texts.collect()
}

/// Lists the failing calls that were shown, in the order of the run.
fn list_failures(request: &ModelRequest) -> Vec<FailingCall> {
    let lines = texts_of(request).into_iter().flat_map(str::lines);
    let mut failures: Vec<FailingCall> = lines.filter_map(parse_failure).collect();
    failures.sort_by_key(|one| (one.turn, one.call));
    failures.dedup();
    failures
}

/// Parses a line such as `turn 3 call 0 step main: bash ls -> FAILED no such file`.
fn parse_failure(line: &str) -> Option<FailingCall> {
    let (call, error) = line.split_once(" -> FAILED ")?;
    let rest = call.strip_prefix("turn ")?;
    let (turn, rest) = rest.split_once(" call ")?;
    let (call, rest) = rest.split_once(" step ")?;
    let (step, rest) = rest.split_once(": ")?;
    let tool = rest.split_whitespace().next()?;
    Some(FailingCall {
        turn: turn.parse().ok()?,
        call: call.parse().ok()?,
        step: step.to_owned(),
        tool: tool.to_owned(),
        error: error.trim_end_matches('…').to_owned(),
    })
}

/// Returns the first failing call with each error, whatever its numbers are.
fn distinct_failures(failures: &[FailingCall]) -> Vec<FailingCall> {
    let mut known = BTreeSet::new();
    let masked = |one: &FailingCall| one.error.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    failures.iter().filter(|one| !one.error.is_empty() && known.insert(masked(one))).cloned().collect()
}

fn shorten(text: &str) -> String {
    text.chars().take(QUOTE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use retro_model::ToolSpec;

    use super::*;

    fn request(tools: &[&str], texts: &[&str]) -> ModelRequest {
        let spec = |name: &&str| ToolSpec {
            name: (*name).to_owned(),
            description: String::new(),
            parameters: Value::Null,
        };
        ModelRequest {
            tools: tools.iter().map(spec).collect(),
            forced_tool: None,
            system: String::new(),
            messages: texts.iter().map(|text| ChatMessage::User { text: (*text).to_owned() }).collect(),
            output_tokens_max: 10,
        }
    }

    #[test]
    fn failing_calls_are_read_from_the_lists_of_the_program() {
        let line = "turn 12 call 1 step part-3: bash cat /etc/x -> FAILED cat: no such file…";
        let asked = request(&["submit_findings"], &["turn 1 call 0 step a: ls fine", line, line]);
        let [one] = &list_failures(&asked)[..] else { panic!("one failure, however often it is shown") };
        assert_eq!((one.turn, one.call, one.step.as_str(), one.tool.as_str()), (12, 1, "part-3", "bash"));
        assert_eq!(one.error, "cat: no such file");
    }

    #[test]
    fn errors_that_differ_in_numbers_alone_are_read_once() {
        let lines =
            ["turn 1 call 0 step a: ls -> FAILED no file 1", "turn 2 call 0 step a: ls -> FAILED no file 2"];
        let failures = list_failures(&request(&["submit_findings"], &lines));
        assert_eq!((failures.len(), distinct_failures(&failures).len()), (2, 1));
    }

    #[test]
    fn without_a_failing_call_the_last_messages_are_read() {
        let asked = request(&["submit_findings"], &["x\n20 turns, numbered from 0\ny"]);
        let turn = |call: &Call| call.1["turn"].as_u64().unwrap();
        let turns: Vec<u64> = read_last_messages(&asked).iter().map(turn).collect();
        assert_eq!(turns, (12..20).collect::<Vec<_>>());
    }

    #[test]
    fn a_forced_answer_is_given_at_once() {
        let mut asked = request(&["submit_findings", "read"], &[]);
        assert_ne!(answer(&asked)[0].name, "submit_findings");
        asked.forced_tool = Some("submit_findings".to_owned());
        assert_eq!(answer(&asked)[0].name, "submit_findings");
        let groups =
            answer(&request(&["submit_groups"], &["1. run a: step b: c\n2. runs a, b: step b: d\nno line"]));
        assert_eq!(groups[0].arguments, r#"{"groups":[{"keep":1},{"keep":2}]}"#);
    }
}
