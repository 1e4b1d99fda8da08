//! Suggests the workflow or step that was probably meant when a list is empty.

use retro_core::calls::SummaryContent;
use retro_core::id::{Step, Workflow, WorkflowKey};
use retro_store::{MemoryFilter, OperatorStore, StoreError};
use strsim::normalized_damerau_levenshtein;

use super::command_context::CommandContext;
use crate::output;

/// Minimum similarity of the name that is suggested. A transposed or missing letter of a short name has 0.75, and
/// unrelated names are below 0.4.
const SIMILARITY_MIN: f64 = 0.5;
/// Number of newest call summaries whose steps are known.
const SUMMARIES_READ: u32 = 50;

/// Prints a notice if the tenant has no workflow of this name, or if nothing is known of this step of it. Call it when
/// there is nothing to list: a misspelt name is a valid filter that matches nothing.
pub(super) async fn print_unknown_name(
    context: &CommandContext<'_>,
    store: &dyn OperatorStore,
    workflow: Option<&Workflow>,
    step: Option<&Step>,
) -> Result<(), StoreError> {
    let Some(workflow) = workflow else { return Ok(()) };
    let rows = store.list_workflows(context.tenant).await?;
    let known: Vec<&str> = rows.iter().map(|row| row.key.workflow.as_str()).collect();
    if !known.contains(&workflow.as_str()) {
        let tenant = context.tenant;
        output::print_notice(&describe_unknown(
            &format!("tenant {tenant} has no workflow {workflow}"),
            workflow.as_str(),
            &known,
        ));
        return Ok(());
    }
    let Some(step) = step else { return Ok(()) };
    let steps = list_steps(context, store, workflow).await?;
    let known: Vec<&str> = steps.iter().map(Step::as_str).collect();
    if !known.contains(&step.as_str()) {
        let unknown = format!("nothing is known of a step {step} of workflow {workflow}");
        output::print_notice(&describe_unknown(&unknown, step.as_str(), &known));
    }
    Ok(())
}

/// Lists the steps of a workflow that have memories or that its newest runs had.
async fn list_steps(
    context: &CommandContext<'_>,
    store: &dyn OperatorStore,
    workflow: &Workflow,
) -> Result<Vec<Step>, StoreError> {
    let filter =
        MemoryFilter { workflow: Some(workflow.clone()), limit: u32::MAX, ..MemoryFilter::default() };
    let memories = store.list_memories(context.tenant, &filter).await?;
    let key = WorkflowKey { tenant: context.tenant.clone(), workflow: workflow.clone() };
    let summaries = store.list_call_summaries(&key, SUMMARIES_READ).await?;
    let of_memories = memories.iter().filter_map(|memory| memory.scope.step().cloned());
    let operations = summaries.iter().flat_map(|stored| match &stored.content {
        SummaryContent::Summary(summary) => summary.operations.as_slice(),
        SummaryContent::Unreadable(_) => &[],
    });
    let of_runs = operations.map(|operation| operation.step.clone());
    let mut steps: Vec<Step> = of_memories.chain(of_runs).collect();
    steps.sort();
    steps.dedup();
    Ok(steps)
}

fn describe_unknown(unknown: &str, name: &str, known: &[&str]) -> String {
    let similarity =
        |other: &str| normalized_damerau_levenshtein(&name.to_lowercase(), &other.to_lowercase());
    let nearest = known.iter().map(|other| (similarity(other), *other));
    match nearest.max_by(|one, other| one.0.total_cmp(&other.0)) {
        Some((similar, nearest)) if similar >= SIMILARITY_MIN => {
            format!("{unknown}; did you mean {nearest}?")
        }
        _ => unknown.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_is_answered_with_the_nearest_and_another_with_none() {
        let known = ["release", "fix-bugs", "triage"];
        for (name, nearest) in [("relaese", "release"), ("Release", "release"), ("fixbugs", "fix-bugs")] {
            let text = describe_unknown("no workflow", name, &known);
            assert_eq!(text, format!("no workflow; did you mean {nearest}?"));
        }
        assert_eq!(describe_unknown("no workflow", "nightly", &known), "no workflow");
        assert_eq!(describe_unknown("no workflow", "release", &[]), "no workflow");
    }
}
