//! Runs `retro memories search`, which answers like the gateway.

use std::sync::Arc;

use retro_config::Config;
use retro_core::audience::RunRepository;
use retro_gateway::{FoundEntry, SearchAnswer, SearchRequest, TaskRanking};
use retro_operator::Layout;
use retro_store::Store;

use super::command_context::CommandContext;
use super::gateway::build_gateway;
use super::nearest_name::print_unknown_name;
use crate::cli::SearchMemories;
use crate::exit::Exit;
use crate::output;

pub(super) async fn search_memories(
    context: &CommandContext<'_>,
    config: &Config,
    store: &Arc<dyn Store>,
    args: &SearchMemories,
) -> anyhow::Result<Exit> {
    let SearchMemories { query, workflow, step, repo, repo_visibility: visibility, run, limit } = args;
    let repository = repo.clone().map(|repo| RunRepository { repo, visibility: *visibility });
    let request = SearchRequest {
        query: query.clone(),
        limit: usize::from(*limit),
        workflow: workflow.clone(),
        step: step.clone(),
        repository,
        run: run.clone(),
    };
    let answer = build_gateway(config, store, true)?.search(context.tenant, request).await;
    if answer.memories.is_empty() && workflow.is_some() {
        print_unknown_name(context, &**store, workflow.as_ref(), Some(step)).await?;
    }
    output::print_list(context.output, &answer, |layout| match layout {
        // Exactly what an agent would put into its prompt.
        Layout::Markdown => answer.text.clone(),
        Layout::Terminal(_) => render_found(&answer),
    })?;
    Ok(Exit::Done)
}

fn render_found(answer: &SearchAnswer) -> String {
    let line = |found: &FoundEntry| {
        let (id, weight, title) = (found.id.short_id(), found.weight, &found.title);
        let relevance = format_thousandths(found.relevance);
        format!("[{id}] ({weight}) {title}\n    relevance {relevance}{}", describe_words(&found.words))
    };
    let mut lines: Vec<String> = answer.memories.iter().map(line).collect();
    lines.extend(answer.ranking.as_ref().map(describe_ranking));
    lines.extend(answer.reason.as_ref().map(|reason| format!("({reason})")));
    lines.join("\n")
}

/// Formats thousandths as weights are printed, such as 0.300.
pub(super) fn format_thousandths(value: u16) -> String {
    format!("{}.{:03}", value / 1000, value % 1000)
}

/// Describes the words that a memory shares with a task; empty without any.
pub(super) fn describe_words(words: &[String]) -> String {
    if words.is_empty() { String::new() } else { format!(", shares {}", words.join(", ")) }
}

/// Describes how memories were compared with a task.
pub(super) fn describe_ranking(ranking: &TaskRanking) -> String {
    let left_out = ranking.left_out.as_ref().map(|reason| format!("; {reason}")).unwrap_or_default();
    format!("(compared by words and by the embedder {}{left_out})", ranking.embedder)
}
