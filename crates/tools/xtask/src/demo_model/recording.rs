//! Answers the requests that the `file:` adapter writes, from the answers of a person.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::answers::RunAnswers;

/// Pause between two looks for requests.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Bytes of text for one token in the estimates: no tokenizer takes part.
const BYTES_PER_TOKEN: usize = 4;

/// Answers requests, and remembers which answers were given.
pub(super) struct Recorder {
    requests: PathBuf,
    answers: Vec<RunAnswers>,
    given: RefCell<BTreeSet<(usize, usize)>>,
    seen: RefCell<Vec<String>>,
    named: RefCell<BTreeSet<PathBuf>>,
    answered: Cell<usize>,
}

impl Recorder {
    pub(super) fn new(requests: &Path, answers: Vec<RunAnswers>) -> Self {
        Self {
            requests: requests.to_owned(),
            answers,
            given: RefCell::default(),
            seen: RefCell::default(),
            named: RefCell::default(),
            answered: Cell::default(),
        }
    }

    /// Answers until the work is done. A request without an answer is named, and waits for a person.
    pub(super) async fn answer_during(&self, work: impl Future<Output = Result<()>>) -> Result<()> {
        let answering = async {
            loop {
                self.answer_waiting()?;
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
        };
        tokio::select! {
            failed = answering => failed,
            done = work => done,
        }
    }

    /// Returns the number of answers that were given.
    pub(super) fn answered(&self) -> usize {
        self.answered.get()
    }

    /// Names the answers that nothing asked for.
    pub(super) fn unused_answers(&self) -> Vec<String> {
        let given = self.given.borrow();
        let all = self.answers.iter().enumerate();
        let unused = all.flat_map(|(run, one)| (0..one.turns.len()).map(move |turn| (run, turn, one)));
        unused
            .filter(|(run, turn, _)| !given.contains(&(*run, *turn)))
            .map(|(_, turn, one)| format!("answer {} about {:?}", turn + 1, one.prompt_has))
            .collect()
    }

    fn answer_waiting(&self) -> Result<()> {
        for entry in std::fs::read_dir(&self.requests)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let Some(hash) = name.strip_suffix(".request.json") else { continue };
            let answer = self.requests.join(format!("{hash}.answer.json"));
            if answer.exists() {
                continue;
            }
            let request: Value = serde_json::from_slice(&std::fs::read(&path)?)
                .with_context(|| format!("{} is no request", path.display()))?;
            match self.find_answer(&request) {
                Some(calls) => self.write_answer(&answer, &request, &calls)?,
                None => self.name_unanswered(&path),
            }
        }
        Ok(())
    }

    fn find_answer(&self, request: &Value) -> Option<Value> {
        let messages = request["messages"].as_array()?;
        let of_role = |role: &'static str| messages.iter().filter(move |message| message["role"] == role);
        let asked: String = of_role("user").filter_map(|message| message["text"].as_str()).collect();
        let run = self.answers.iter().position(|one| one.fits(&asked))?;
        let turn = of_role("assistant").count();
        let calls = self.answers[run].calls_of(turn)?;
        self.given.borrow_mut().insert((run, turn));
        Some(calls)
    }

    fn write_answer(&self, path: &Path, request: &Value, calls: &Value) -> Result<()> {
        let answer = json!({"calls": calls, "usage": self.estimate_usage(request, calls)});
        // Renamed, so that the adapter reads no half of it.
        let partial = path.with_extension("partial");
        std::fs::write(&partial, serde_json::to_vec_pretty(&answer)?)?;
        std::fs::rename(&partial, path)?;
        self.answered.set(self.answered.get() + 1);
        Ok(())
    }

    /// Estimates the tokens of a call. What the request has in common with the beginning of an earlier one counts as cached.
    fn estimate_usage(&self, request: &Value, calls: &Value) -> Value {
        let text =
            [&request["tools"], &request["system"], &request["messages"]].map(Value::to_string).concat();
        let common =
            |seen: &String| seen.bytes().zip(text.bytes()).take_while(|(one, other)| one == other).count();
        let cached = self.seen.borrow().iter().map(common).max().unwrap_or_default();
        let tokens = |bytes: usize| bytes.div_ceil(BYTES_PER_TOKEN);
        let usage = json!({
            "input_tokens": tokens(text.len()),
            "cached_tokens": cached / BYTES_PER_TOKEN,
            "output_tokens": tokens(calls.to_string().len()),
        });
        self.seen.borrow_mut().push(text);
        usage
    }

    fn name_unanswered(&self, path: &Path) {
        if self.named.borrow_mut().insert(path.to_owned()) {
            println!("Nobody has answered yet: {}", path.with_extension("md").display());
        }
    }
}
