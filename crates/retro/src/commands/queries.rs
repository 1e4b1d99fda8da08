//! Runs the commands that read from the store, and `retro retrospectives`.

use std::sync::Arc;

use retro_config::Config;
use retro_core::id::ReviewBatchId;
use retro_operator::{
    export_canonical, find_retrospective_view, lists, render_audit_log, report, reviews, terminal_columns,
};
use retro_store::{AuditRow, OperatorStore, ProposalFilter, RunFilter, Store};

use super::command_context::{CommandContext, print_found};
use super::nearest_name::print_unknown_name;
use super::{cancel, manual};
use crate::cli::{Outcomes, Output, Reports, Retrospectives, Runs};
use crate::exit::Exit;
use crate::output;

pub(crate) async fn list_runs(
    context: &CommandContext<'_>,
    store: &dyn OperatorStore,
    args: &Runs,
) -> anyhow::Result<Exit> {
    let filter = RunFilter { workflow: args.workflow.clone(), run: args.run.clone(), limit: args.limit };
    let rows = store.list_runs(context.tenant, &filter).await?;
    if rows.is_empty() {
        print_unknown_name(context, store, args.workflow.as_ref(), None).await?;
    }
    output::print_data(context.output, &rows, || lists::render_runs(&rows, terminal_columns()))?;
    Ok(Exit::Done)
}

pub(crate) async fn list_outcomes(
    context: &CommandContext<'_>,
    store: &dyn OperatorStore,
    args: &Outcomes,
) -> anyhow::Result<Exit> {
    let rows = retro_operator::summarize_outcomes(store, context.tenant, args.workflow.as_ref()).await?;
    if rows.is_empty() {
        print_unknown_name(context, store, args.workflow.as_ref(), None).await?;
    }
    output::print_data(context.output, &rows, || lists::render_outcomes(&rows, terminal_columns()))?;
    Ok(Exit::Done)
}

pub(crate) async fn run_retrospectives(
    context: &CommandContext<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    command: &Retrospectives,
) -> anyhow::Result<Exit> {
    match command {
        Retrospectives::List { workflow, limit } => {
            let rows = store.list_retrospectives(context.tenant, workflow.as_ref(), *limit).await?;
            if rows.is_empty() {
                print_unknown_name(context, &*store, workflow.as_ref(), None).await?;
            }
            output::print_data(context.output, &rows, || {
                lists::render_retrospectives(&rows, terminal_columns())
            })?;
            Ok(Exit::Done)
        }
        Retrospectives::Show { id } => {
            let found = find_retrospective_view(&*store, context.tenant, *id).await?;
            let filter = ProposalFilter { retrospective: Some(*id), limit: u32::MAX, ..Default::default() };
            let proposed = store.list_proposals(context.tenant, &filter).await?;
            print_found(context, found, "retrospective", id, |one| {
                let shown = lists::render_retrospective(one, &proposed, terminal_columns());
                format!("{shown}{}", format_audit_trail(&one.audit_log))
            })
        }
        Retrospectives::Cancel { id, act } => cancel::cancel_retrospective(context, store, *id, act).await,
        Retrospectives::Trigger(args) => manual::trigger_retrospective(context, config, store, args).await,
    }
}

pub(crate) async fn run_reports(
    context: &CommandContext<'_>,
    store: &dyn OperatorStore,
    command: &Reports,
) -> anyhow::Result<Exit> {
    match command {
        Reports::List { workflow, limit } => {
            let rows = store.list_retrospectives(context.tenant, workflow.as_ref(), *limit).await?;
            if rows.is_empty() {
                print_unknown_name(context, store, workflow.as_ref(), None).await?;
            }
            output::print_data(context.output, &rows, || lists::render_reports(&rows, terminal_columns()))?;
            Ok(Exit::Done)
        }
        Reports::Show { id, markdown } => {
            let found = store.find_report(context.tenant, *id).await?;
            if found.is_none() {
                // The id may belong to a review report: callers need not know the kind.
                let found = store.find_review_report(context.tenant, ReviewBatchId(id.0)).await?;
                return print_found(context, found, "report", id, |one| {
                    reviews::render_report(one, terminal_columns())
                });
            }
            let text = |one: &_| {
                if *markdown {
                    report::render_markdown(one)
                } else {
                    report::render_text(one, terminal_columns())
                }
            };
            print_found(context, found, "report", id, text)
        }
    }
}

/// Checks all invariants of the stored data. An empty store proves nothing and counts as a problem.
pub(crate) async fn verify_store(output: Output, store: &dyn OperatorStore) -> anyhow::Result<Exit> {
    let verification = retro_operator::verify_store(store).await?;
    output::print_data(output, &verification, || verification.render_text())?;
    Ok(if verification.is_sound() { Exit::Done } else { Exit::ProblemFound })
}

pub(crate) async fn export_tenant(
    context: &CommandContext<'_>,
    store: &dyn OperatorStore,
) -> anyhow::Result<Exit> {
    output::print_json(&export_canonical(store, context.tenant).await?)?;
    Ok(Exit::Done)
}

/// Formats the audit log for the end of a page.
fn format_audit_trail(rows: &[AuditRow]) -> String {
    if rows.is_empty() { String::new() } else { format!("\n{}", render_audit_log(rows)) }
}
