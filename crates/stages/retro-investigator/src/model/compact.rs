//! Shortens what a prompt says about earlier runs. A model may merge and drop lines by their numbers and write no word; without
//! a usable answer the rule of the program does it.

use retro_core::finding::{
    COMPACTED_BYTES_MAX, Compaction, EARLIER_BYTES_MAX, EarlierFinding, EarlierLine, EarlierLines, LineGroup,
};
use retro_model::{ChatMessage, ModelRequest, ModelResponse, ToolSpec};
use retro_pipeline::{PromptName, PromptProblem, Prompts, fence_data};
use retro_store::StoreError;
use schemars::JsonSchema;
use serde::Deserialize;

use super::asker::Asker;
use super::prompt::data_rules;
use super::tools::schema_of;

/// Name of the tool with which a model groups lines.
const SUBMIT_GROUPS: &str = "submit_groups";

/// Groups of lines.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SubmittedGroups {
    /// Lines that are kept, each with those that say the same. A line that is in no group is dropped.
    groups: Vec<SubmittedGroup>,
}

/// Lines that say the same.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SubmittedGroup {
    /// Number of the line that says it best. It is kept as it is.
    keep: u32,
    /// Numbers of the other lines that say the same, of the same step.
    #[serde(default)]
    same: Vec<u32>,
}

/// Returns the lines that an investigation is told about earlier runs, and how they were shortened if they were too long. Fails
/// if a call could not be stored.
pub(super) async fn compact_earlier(
    asker: &mut Asker<'_>,
    prompts: &Prompts,
    earlier: &[EarlierFinding],
) -> Result<(Vec<EarlierLine>, Option<Compaction>), StoreError> {
    let mut lines = EarlierLines::new(earlier);
    if lines.fit() {
        return Ok((lines.lines().to_vec(), None));
    }
    // What is equal needs no model.
    lines.merge_equal();
    let (mut by, mut problem) = (None, None);
    if !lines.fit() {
        lines.drop_to(COMPACTED_BYTES_MAX);
        match ask_for_groups(asker, prompts, &mut lines).await? {
            Ok(()) => by = Some(asker.model_name().to_owned()),
            Err(why) => problem = Some(why),
        }
        lines.drop_to(EARLIER_BYTES_MAX);
    }
    let compaction = lines.describe(by, problem);
    Ok((lines.lines().to_vec(), Some(compaction)))
}

/// Asks the model once, and groups the lines as it says. Returns the reason why its answer cannot be used.
async fn ask_for_groups(
    asker: &mut Asker<'_>,
    prompts: &Prompts,
    lines: &mut EarlierLines,
) -> Result<Result<(), String>, StoreError> {
    let request = match build_request(asker, prompts, lines) {
        Ok(request) => request,
        Err(problem) => return Ok(Err(problem.to_string())),
    };
    let answered = asker.ask(&request).await?;
    let response = match answered {
        Ok(response) => response,
        Err(no_answer) => return Ok(Err(no_answer.problem().to_owned())),
    };
    Ok(parse_groups(&response).and_then(|groups| lines.group(&groups)))
}

fn build_request(
    asker: &Asker<'_>,
    prompts: &Prompts,
    lines: &EarlierLines,
) -> Result<ModelRequest, PromptProblem> {
    let instructions = prompts.render(PromptName::Compact, &[].into())?;
    let data_rules = data_rules();
    let rules = format!(
        "{data_rules}\n\nAnswer by calling {SUBMIT_GROUPS} once, with numbers alone. Keep lines of at most \
         {EARLIER_BYTES_MAX} bytes together; programs check every number, and drop what is beyond."
    );
    let numbered = (1u32..).zip(lines.lines()).map(|(number, line)| format!("{number}. {}\n", line.text()));
    let text = fence_data("findings", &numbered.collect::<String>());
    Ok(ModelRequest {
        tools: vec![ToolSpec {
            name: SUBMIT_GROUPS.to_owned(),
            description: "Groups the lines by their numbers.".to_owned(),
            parameters: schema_of::<SubmittedGroups>(),
        }],
        forced_tool: Some(SUBMIT_GROUPS.to_owned()),
        system: format!("{instructions}\n\n{rules}"),
        messages: vec![ChatMessage::User { text }],
        output_tokens_max: asker.bounds().output_tokens_max,
    })
}

fn parse_groups(response: &ModelResponse) -> Result<Vec<LineGroup>, String> {
    let call = response.calls.iter().find(|call| call.name == SUBMIT_GROUPS);
    let call = call.ok_or_else(|| format!("it did not call {SUBMIT_GROUPS}"))?;
    let submitted: SubmittedGroups = serde_json::from_str(&call.arguments)
        .map_err(|error| format!("the arguments of {SUBMIT_GROUPS} are not as the schema says: {error}"))?;
    let group = |SubmittedGroup { keep, same }| LineGroup { keep, same };
    Ok(submitted.groups.into_iter().map(group).collect())
}
