//! Runs `retro workflows`.

use retro_core::id::{Workflow, WorkflowKey};
use retro_core::time::Clock as _;
use retro_operator::{
    MissedFailures, find_missed_failures, find_prompt_versions, find_workflow_statistics, lists,
    terminal_columns,
};
use retro_store::OperatorStore;

use super::command_context::{CommandContext, print_document, print_found};
use super::nearest_name::print_unknown_name;
use crate::cli::{WorkflowCommand, Workflows};
use crate::clock::SystemClock;
use crate::exit::Exit;
use crate::output;

pub(crate) async fn run_command(
    context: &CommandContext<'_>,
    store: &dyn OperatorStore,
    args: &Workflows,
) -> anyhow::Result<Exit> {
    let key =
        |workflow: &Workflow| WorkflowKey { tenant: context.tenant.clone(), workflow: workflow.clone() };
    match &args.command {
        None | Some(WorkflowCommand::List) => list_workflows(context, store).await,
        Some(WorkflowCommand::Stats { workflow, runs }) => {
            let found = find_workflow_statistics(store, &key(workflow), *runs, SystemClock.now()).await?;
            if found.is_none() {
                print_unknown_name(context, store, Some(workflow), None).await?;
            }
            print_found(context, found, "workflow", workflow, |one| one.render_text(terminal_columns()))
        }
        Some(WorkflowCommand::Prompts { workflow, runs }) => {
            let found = find_prompt_versions(store, &key(workflow), *runs).await?;
            if found.is_none() {
                print_unknown_name(context, store, Some(workflow), None).await?;
            }
            print_document(context, found, "workflow", workflow, |one, layout| one.render(layout))
        }
        Some(WorkflowCommand::Missed { workflow }) => {
            let found = find_missed_failures(store, &key(workflow)).await?;
            if found.is_none() {
                print_unknown_name(context, store, Some(workflow), None).await?;
            }
            print_found(context, found, "workflow", workflow, MissedFailures::render_text)
        }
    }
}

async fn list_workflows(context: &CommandContext<'_>, store: &dyn OperatorStore) -> anyhow::Result<Exit> {
    let rows = store.list_workflows(context.tenant).await?;
    output::print_list(context.output, &rows, |layout| lists::render_workflows(&rows, layout))?;
    Ok(Exit::Done)
}
