//! Runs the commands that read from the store, and `retro retrospectives`.

use std::sync::Arc;

use retro_config::Config;
use retro_core::id::{RetrospectiveId, ReviewBatchId};
use retro_operator::{
    Layout, export_canonical, find_retrospective_view, lists, render_audit_log, report, reviews,
    terminal_columns,
};
use retro_store::{AuditRow, OperatorStore, ProposalFilter, Store};

use super::command_context::{CommandContext, print_document, print_found, resolve};
use super::nearest_name::print_unknown_name;
use super::{cancel, manual};
use crate::cli::{
    ListOutcomes, ListReports, ListRetrospectives, Noun, OutcomeCommand, Output, ReportCommand,
    Retrospectives,
};
use crate::exit::Exit;
use crate::output;

pub(crate) async fn run_outcomes(
    context: &CommandContext<'_>,
    store: &dyn OperatorStore,
    noun: &Noun<OutcomeCommand, ListOutcomes>,
) -> anyhow::Result<Exit> {
    let workflow = match &noun.command {
        None => noun.list.workflow.as_ref(),
        Some(OutcomeCommand::List(list)) => list.workflow.as_ref(),
        Some(OutcomeCommand::Show { workflow }) => Some(workflow),
    };
    let rows = retro_operator::summarize_outcomes(store, context.tenant, workflow).await?;
    if rows.is_empty() {
        print_unknown_name(context, store, workflow, None).await?;
    }
    output::print_list(context.output, &rows, |layout| lists::render_outcomes(&rows, layout))?;
    Ok(Exit::Done)
}

pub(crate) async fn run_retrospectives(
    context: &CommandContext<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    noun: &Noun<Retrospectives, ListRetrospectives>,
) -> anyhow::Result<Exit> {
    match &noun.command {
        None => list_retrospectives(context, &*store, &noun.list).await,
        Some(Retrospectives::List(list)) => list_retrospectives(context, &*store, list).await,
        Some(Retrospectives::Show { id }) => {
            let id = RetrospectiveId(resolve!(context, &*store, Retrospective, *id));
            show_retrospective(context, &*store, id).await
        }
        Some(Retrospectives::Cancel { id, act }) => {
            let id = RetrospectiveId(resolve!(context, &*store, Retrospective, *id));
            cancel::cancel_retrospective(context, store, id, act).await
        }
        Some(Retrospectives::Trigger(args)) => {
            manual::trigger_retrospective(context, config, store, args).await
        }
    }
}

async fn list_retrospectives(
    context: &CommandContext<'_>,
    store: &dyn OperatorStore,
    ListRetrospectives { workflow, limit }: &ListRetrospectives,
) -> anyhow::Result<Exit> {
    let rows = store.list_retrospectives(context.tenant, workflow.as_ref(), *limit).await?;
    if rows.is_empty() {
        print_unknown_name(context, store, workflow.as_ref(), None).await?;
    }
    output::print_list(context.output, &rows, |layout| lists::render_retrospectives(&rows, layout))?;
    Ok(Exit::Done)
}

async fn show_retrospective(
    context: &CommandContext<'_>,
    store: &dyn OperatorStore,
    id: RetrospectiveId,
) -> anyhow::Result<Exit> {
    let found = find_retrospective_view(store, context.tenant, id).await?;
    let filter = ProposalFilter { retrospective: Some(id), limit: u32::MAX, ..Default::default() };
    let proposed = store.list_proposals(context.tenant, &filter).await?;
    print_found(context, found, "retrospective", &id, |one| {
        let shown = lists::render_retrospective(one, &proposed, terminal_columns());
        format!("{shown}{}", format_audit_trail(&one.audit_log))
    })
}

pub(crate) async fn run_reports(
    context: &CommandContext<'_>,
    store: &dyn OperatorStore,
    noun: &Noun<ReportCommand, ListReports>,
) -> anyhow::Result<Exit> {
    match &noun.command {
        None => list_reports(context, store, &noun.list).await,
        Some(ReportCommand::List(list)) => list_reports(context, store, list).await,
        Some(ReportCommand::Show { id, markdown }) => {
            let id = RetrospectiveId(resolve!(context, store, Report, *id));
            show_report(context, store, id, *markdown).await
        }
    }
}

async fn list_reports(
    context: &CommandContext<'_>,
    store: &dyn OperatorStore,
    ListReports { workflow, limit }: &ListReports,
) -> anyhow::Result<Exit> {
    let rows = store.list_retrospectives(context.tenant, workflow.as_ref(), *limit).await?;
    if rows.is_empty() {
        print_unknown_name(context, store, workflow.as_ref(), None).await?;
    }
    output::print_list(context.output, &rows, |layout| lists::render_reports(&rows, layout))?;
    Ok(Exit::Done)
}

async fn show_report(
    context: &CommandContext<'_>,
    store: &dyn OperatorStore,
    id: RetrospectiveId,
    markdown: bool,
) -> anyhow::Result<Exit> {
    let found = store.find_report(context.tenant, id).await?;
    if found.is_none() {
        // The id may belong to a review report: callers need not know the kind.
        let found = store.find_review_report(context.tenant, ReviewBatchId(id.0)).await?;
        return print_found(context, found, "report", &id, |one| {
            reviews::render_report(one, terminal_columns())
        });
    }
    print_document(context, found, "report", &id, |one, layout| match layout {
        Layout::Terminal(columns) if !markdown => report::render_text(one, columns),
        _ => report::render_markdown(one),
    })
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
