//! Arguments of the tools and of the prompt.

use retro_core::audience::{RepoVisibility, RunRepository};
use retro_core::feedback::FeedbackVerdict;
use retro_core::id::{MemoryRef, Repository, RunId, Step, Workflow};
use retro_core::learn::SavedChange;
use retro_gateway::{
    ContextRequest, FOUND_MAX, FeedbackRequest, FeedbackSource, LessonRequest, MemoryReader, SearchRequest,
};
use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Maximum length of an error about arguments, in characters: it may quote a value of any length.
const PROBLEM_CHARS_MAX: usize = 400;

/// Number of memories that a search finds unless it says how many: few enough to read each of them.
const FOUND_DEFAULT: usize = 5;

/// Arguments of `memory_list`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListArguments {
    /// Workflow that the step belongs to.
    #[schemars(with = "String")]
    workflow: Workflow,
    /// Name of the step that is about to start [default: `main`].
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    step: Option<Step>,
    /// Id of your run, to which the memories are recorded as handed out. Without it, the answer is a preview.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    run: Option<RunId>,
    /// Repository that you work on, as `owner/name` or `host/owner/name`. Brings its rules and what was learnt in it.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    repo: Option<Repository>,
    /// Who may read the repository: `public` or `private` [default: what its runs have last said].
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    repo_visibility: Option<RepoVisibility>,
    /// Paths that you are going to touch, at most 100. Leaves out rules for other paths.
    #[serde(default)]
    paths: Option<Vec<String>>,
    /// What you are about to do, in plain text, at most 4,096 bytes. What is about it comes first.
    #[serde(default)]
    task: Option<String>,
}

/// Arguments of `memory_search`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchArguments {
    /// What to search for, in plain text, at most 4,096 bytes: an error, a tool, a file, a plan.
    query: String,
    /// Maximum number of memories and rules to find, from 1 to 20 [default: 5].
    #[serde(default)]
    #[schemars(range(min = 1, max = 20))]
    k: Option<usize>,
    /// Workflow whose memories are searched.
    #[schemars(with = "String")]
    workflow: Workflow,
    /// Name of the step whose memories are searched [default: `main`].
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    step: Option<Step>,
    /// Repository that you work on, as `owner/name` or `host/owner/name`, whose rules are searched, too.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    repo: Option<Repository>,
    /// Who may read the repository: `public` or `private` [default: `public`].
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    repo_visibility: Option<RepoVisibility>,
    /// Id of your run, to which is recorded what was found.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    run: Option<RunId>,
}

/// Arguments of `memory_read`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadArguments {
    /// Id of the memory or rule, or at least its first 8 digits.
    #[schemars(with = "String")]
    memory: MemoryRef,
    /// Id of your run, to which the memory is recorded as read.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    run: Option<RunId>,
    /// Workflow of your run [default: the memory's].
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    workflow: Option<Workflow>,
    /// Repository that you work on. What was learnt in a repository is not found without it, unless it was handed to
    /// your run.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    repo: Option<Repository>,
    /// Who may read the repository: `public` or `private` [default: `public`].
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    repo_visibility: Option<RepoVisibility>,
}

/// Arguments of `memory_feedback`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FeedbackArguments {
    /// Id of the memory or rule, or at least its first 8 digits.
    #[schemars(with = "String")]
    memory: MemoryRef,
    /// What it did in your run: `helped`, `hurt` if it misled you or cost time, `wrong` if what it says is not so.
    #[schemars(with = "String", extend("enum" = ["helped", "hurt", "wrong"]))]
    verdict: FeedbackVerdict,
    /// Why, in at most 1,024 bytes. People read it; no agent does.
    #[serde(default)]
    #[schemars(length(max = 1024))]
    why: Option<String>,
    /// Id of your run.
    #[schemars(with = "String")]
    run: RunId,
    /// Workflow of your run.
    #[schemars(with = "String")]
    workflow: Workflow,
}

/// Arguments of `memory_save`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SaveArguments {
    /// Workflow of your run.
    #[schemars(with = "String")]
    workflow: Workflow,
    /// Name of the step [default: `main`].
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    step: Option<Step>,
    /// Id of your run.
    #[schemars(with = "String")]
    run: RunId,
    /// Repository that you work on, as `owner/name` or `host/owner/name`. The lesson is one of its runs.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    repo: Option<Repository>,
    /// Who may read the repository: `public` or `private` [default: `public`].
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    repo_visibility: Option<RepoVisibility>,
    /// What has to be changed in a call that fails: set, add or drop an argument, use another tool, or call something
    /// first.
    #[schemars(with = "String", extend("enum" = ["set_argument", "add_argument", "drop_argument", "use_tool", "call_first"]))]
    kind: SavedChange,
    /// Tool whose call failed.
    tool: String,
    /// Argument that is to be changed; for `set_argument`, `add_argument` and `drop_argument`.
    #[serde(default)]
    argument: Option<String>,
    /// Value of the argument that failed.
    #[serde(default)]
    bad: Option<String>,
    /// Value of the argument that works; for `use_tool` and `call_first` the tool or the call.
    #[serde(default)]
    good: Option<String>,
    /// What the tool answered, verbatim, in at most 400 characters.
    error_quote: String,
    /// Cause in a few words for people, at most 240 characters.
    #[serde(default)]
    cause: Option<String>,
}

/// Arguments of the prompt `memories`, which are all strings.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PromptArguments {
    workflow: Workflow,
    #[serde(default)]
    step: Option<Step>,
    #[serde(default)]
    task: Option<String>,
    #[serde(default)]
    run: Option<RunId>,
}

/// Reads arguments. Fails with a sentence that names the argument that is missing, unknown or of the wrong type.
pub(crate) fn parse_arguments<T: DeserializeOwned>(arguments: Option<JsonObject>) -> Result<T, String> {
    parse_value(Value::Object(arguments.unwrap_or_default()))
}

/// Reads a value. Fails with a sentence that names the field that is missing, unknown or of the wrong type.
pub(crate) fn parse_value<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner().to_string();
        let problem = if path == "." { inner } else { format!("`{path}`: {inner}") };
        shorten(problem)
    })
}

fn shorten(problem: String) -> String {
    match problem.char_indices().nth(PROBLEM_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &problem[..end]),
        None => problem,
    }
}

fn run_repository(repo: Option<Repository>, visibility: Option<RepoVisibility>) -> Option<RunRepository> {
    repo.map(|repo| RunRepository { repo, visibility })
}

impl ListArguments {
    /// Returns the request for the context.
    pub(crate) fn into_request(self) -> ContextRequest {
        let Self { workflow, step, run, repo, repo_visibility, paths, task } = self;
        ContextRequest {
            workflow,
            step: step.unwrap_or_else(Step::main),
            run_id: run,
            repo,
            repo_visibility,
            paths: paths.unwrap_or_default(),
            task,
        }
    }
}

impl SearchArguments {
    /// Returns the request for a search. Fails if `k` is out of range.
    pub(crate) fn into_request(self) -> Result<SearchRequest, String> {
        let Self { query, k, workflow, step, repo, repo_visibility, run } = self;
        let limit = k.unwrap_or(FOUND_DEFAULT);
        if !(1..=FOUND_MAX).contains(&limit) {
            return Err(format!("`k`: expected a number from 1 to {FOUND_MAX}"));
        }
        Ok(SearchRequest {
            query,
            limit,
            workflow: Some(workflow),
            step: step.unwrap_or_else(Step::main),
            repository: run_repository(repo, repo_visibility),
            run,
        })
    }
}

impl ReadArguments {
    /// Returns the memory's name, and who opens it.
    pub(crate) fn into_reader(self) -> (MemoryRef, MemoryReader) {
        let Self { memory, run, workflow, repo, repo_visibility } = self;
        (memory, MemoryReader { run, workflow, repository: run_repository(repo, repo_visibility) })
    }
}

impl FeedbackArguments {
    /// Returns the request for feedback of an agent, never of a person or an evaluation.
    pub(crate) fn into_request(self) -> FeedbackRequest {
        let Self { memory, verdict, why, run, workflow } = self;
        FeedbackRequest {
            memory,
            verdict,
            why,
            run: Some(run),
            workflow: Some(workflow),
            step: None,
            by: None,
            source: Some(FeedbackSource::Agent),
        }
    }
}

impl SaveArguments {
    /// Returns the request for saving a lesson.
    pub(crate) fn into_request(self) -> LessonRequest {
        LessonRequest {
            workflow: self.workflow,
            step: self.step.unwrap_or_else(Step::main),
            run: self.run,
            repo: self.repo,
            repo_visibility: self.repo_visibility,
            kind: self.kind,
            tool: self.tool,
            argument: self.argument,
            bad: self.bad,
            good: self.good,
            error_quote: self.error_quote,
            cause: self.cause,
        }
    }
}

impl PromptArguments {
    /// Returns the request for the context.
    pub(crate) fn into_request(self) -> ContextRequest {
        let Self { workflow, step, task, run } = self;
        ContextRequest {
            workflow,
            step: step.unwrap_or_else(Step::main),
            run_id: run,
            repo: None,
            repo_visibility: None,
            paths: Vec::new(),
            task,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse<T: DeserializeOwned>(value: Value) -> Result<T, String> {
        let Value::Object(arguments) = value else { panic!("not an object: {value}") };
        parse_arguments(Some(arguments))
    }

    #[test]
    fn an_error_names_the_argument() {
        for (arguments, part) in [
            (json!({}), "missing field `workflow`"),
            (json!({"workflow": 5}), "`workflow`: invalid type"),
            (json!({"workflow": "w", "run": ["r"]}), "`run`: invalid type"),
            (json!({"workflow": "w", "paths": ["a", 1]}), "`paths[1]`: invalid type"),
            (json!({"workflow": "w", "tenant": "acme"}), "unknown field `tenant`"),
            (json!({"workflow": "w", "repo_visibility": "secret"}), "`repo_visibility`: unknown variant"),
        ] {
            let problem = parse::<ListArguments>(arguments).unwrap_err();
            assert!(problem.contains(part), "{part:?} is not in {problem:?}");
        }
        let long = json!({"workflow": "w", "paths": "é".repeat(50_000)});
        let problem = parse::<ListArguments>(long).unwrap_err();
        assert_eq!(problem.chars().count(), PROBLEM_CHARS_MAX + 1, "{problem}");
        for k in [0, 21] {
            let asked: SearchArguments = parse(json!({"workflow": "w", "query": "q", "k": k})).unwrap();
            assert_eq!(asked.into_request().unwrap_err(), "`k`: expected a number from 1 to 20");
        }
    }

    #[test]
    fn null_is_an_argument_that_is_left_out() {
        let nulls = json!({"workflow": "w", "step": null, "run": null, "repo": null, "repo_visibility": null,
            "paths": null, "task": null});
        let left_out: ListArguments = parse(json!({"workflow": "w"})).unwrap();
        assert_eq!(parse::<ListArguments>(nulls).unwrap().into_request(), left_out.into_request());
    }

    #[test]
    fn feedback_is_an_agents_and_nobody_elses() {
        let said = json!({"memory": "0123456789", "verdict": "hurt", "run": "r", "workflow": "w"});
        assert!(parse::<FeedbackArguments>(said.clone()).unwrap().into_request().is_of_agent());
        for (field, value) in [("by", "ann"), ("source", "person")] {
            let mut said = said.clone();
            said[field] = json!(value);
            assert!(
                parse::<FeedbackArguments>(said).unwrap_err().contains(&format!("unknown field `{field}`"))
            );
        }
        for verdict in ["helped", "hurt", "wrong"] {
            let mut said = said.clone();
            said["verdict"] = json!(verdict);
            parse::<FeedbackArguments>(said).unwrap();
        }
    }
}
