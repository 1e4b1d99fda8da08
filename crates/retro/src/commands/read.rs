//! The commands that read.

use std::sync::Arc;

use retro_config::Config;
use retro_core::id::{ReviewBatchId, Tenant};
use retro_operator::{Acted, acts, export_canonical, lists, report, reviews, terminal_columns};
use retro_store::{ActRow, OperatorStore, ProposalFilter, RunFilter, Store};
use uuid::Uuid;

use super::{Exit, steer};
use crate::cli::{Outcomes, Output, Reports, Retrospectives, Runs};
use crate::output;

/// For whom, and how it is printed.
pub(crate) struct Asked<'a> {
    pub(crate) tenant: &'a Tenant,
    pub(crate) output: Output,
}

pub(crate) async fn workflows(asked: &Asked<'_>, store: &dyn OperatorStore) -> anyhow::Result<Exit> {
    let rows = store.workflows(asked.tenant).await?;
    output::data(asked.output, &rows, || lists::workflows(&rows, terminal_columns()))?;
    Ok(Exit::Done)
}

pub(crate) async fn runs(asked: &Asked<'_>, store: &dyn OperatorStore, args: &Runs) -> anyhow::Result<Exit> {
    let filter = RunFilter { workflow: args.workflow.clone(), run: args.run.clone(), limit: args.limit };
    let rows = store.runs(asked.tenant, &filter).await?;
    output::data(asked.output, &rows, || lists::runs(&rows, terminal_columns()))?;
    Ok(Exit::Done)
}

pub(crate) async fn outcomes(
    asked: &Asked<'_>,
    store: &dyn OperatorStore,
    args: &Outcomes,
) -> anyhow::Result<Exit> {
    let rows = retro_operator::outcomes(store, asked.tenant, args.workflow.as_ref()).await?;
    output::data(asked.output, &rows, || lists::outcomes(&rows, terminal_columns()))?;
    Ok(Exit::Done)
}

pub(crate) async fn retrospectives(
    asked: &Asked<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    command: &Retrospectives,
) -> anyhow::Result<Exit> {
    match command {
        Retrospectives::List { workflow, limit } => {
            let rows = store.retrospectives(asked.tenant, workflow.as_ref(), *limit).await?;
            output::data(asked.output, &rows, || lists::retrospectives(&rows, terminal_columns()))?;
            Ok(Exit::Done)
        }
        Retrospectives::Show { id } => {
            let found = store.retrospective(asked.tenant, *id).await?;
            let found = with_acts(&*store, asked, id.0, found).await?;
            let filter = ProposalFilter { retrospective: Some(*id), limit: u32::MAX, ..Default::default() };
            let proposed = store.proposals(asked.tenant, &filter).await?;
            shown(asked, found, "retrospective", id, |one| {
                let shown = lists::retrospective(&one.of, &proposed, terminal_columns());
                format!("{shown}{}", below(&one.acts))
            })
        }
        Retrospectives::Cancel { id, act } => steer::cancel(asked, store, *id, act).await,
        Retrospectives::Trigger(args) => super::manual::trigger(asked, config, store, args).await,
    }
}

pub(crate) async fn reports(
    asked: &Asked<'_>,
    store: &dyn OperatorStore,
    command: &Reports,
) -> anyhow::Result<Exit> {
    match command {
        Reports::List { workflow, limit } => {
            let rows = store.retrospectives(asked.tenant, workflow.as_ref(), *limit).await?;
            output::data(asked.output, &rows, || lists::reports(&rows, terminal_columns()))?;
            Ok(Exit::Done)
        }
        Reports::Show { id, markdown } => {
            let found = store.report(asked.tenant, *id).await?;
            if found.is_none() {
                // Of a retrospective, or of reviews: whoever has an id need not know.
                let found = store.review_report(asked.tenant, ReviewBatchId(id.0)).await?;
                return shown(asked, found, "report", id, |one| reviews::report(one, terminal_columns()));
            }
            let text = |one: &_| {
                if *markdown { report::markdown(one) } else { report::table(one, terminal_columns()) }
            };
            shown(asked, found, "report", id, text)
        }
    }
}

/// Checks every invariant; an empty store proves nothing and is not in order.
pub(crate) async fn verify(output: Output, store: &dyn OperatorStore) -> anyhow::Result<Exit> {
    let verification = retro_operator::verify(store).await?;
    output::data(output, &verification, || verification.text())?;
    Ok(if verification.sound() { Exit::Done } else { Exit::NotInOrder })
}

pub(crate) async fn export(asked: &Asked<'_>, store: &dyn OperatorStore) -> anyhow::Result<Exit> {
    output::json(&export_canonical(store, asked.tenant).await?)?;
    Ok(Exit::Done)
}

/// What was found, with what people did about it.
pub(super) async fn with_acts<T>(
    store: &dyn OperatorStore,
    asked: &Asked<'_>,
    subject: Uuid,
    found: Option<T>,
) -> anyhow::Result<Option<Acted<T>>> {
    let Some(of) = found else { return Ok(None) };
    Ok(Some(Acted { of, acts: store.acts(asked.tenant, subject).await? }))
}

/// What people did, below what it was about.
fn below(rows: &[ActRow]) -> String {
    if rows.is_empty() { String::new() } else { format!("\n{}", acts(rows)) }
}

/// Prints what was found; another tenant's is not found.
pub(super) fn shown<T: serde::Serialize>(
    asked: &Asked<'_>,
    found: Option<T>,
    what: &str,
    id: &impl std::fmt::Display,
    text: impl FnOnce(&T) -> String,
) -> anyhow::Result<Exit> {
    let Some(found) = found else {
        output::told(&format!("there is no {what} {id} in tenant {}", asked.tenant));
        return Ok(Exit::NotFound);
    };
    output::data(asked.output, &found, || text(&found))?;
    Ok(Exit::Done)
}
