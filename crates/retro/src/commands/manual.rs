//! Runs `retro retrospectives trigger` and `retro proposals`, which start manual retrospectives and decide on
//! their proposals. They only write to the database; a running process investigates the runs and sends the
//! messages.

use std::sync::Arc;

use retro_config::Config;
use retro_core::canonical::sha256_hex;
use retro_core::id::{ProposalId, RetrospectiveId, WorkflowKey};
use retro_core::manual::{Acceptance, DecideError, DecisionRecord, ProposalDecision, Refusal};
use retro_core::retrospective::ManualRequest as AskedFor;
use retro_operator::{DecisionOutcome, ManualRequests as _};
use retro_store::{CommitResult, ProposalFilter, Store};
use tokio::sync::Notify;

use super::command_context::{CommandContext, print_found, resolve};
use crate::cli::{ListProposals, Noun, ProposalCommand, Trigger};
use crate::exit::Exit;
use crate::operator_commands::OperatorCommands;
use crate::policies::PolicySource;
use crate::{embedder, output};

pub(crate) async fn trigger_retrospective(
    context: &CommandContext<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    args: &Trigger,
) -> anyhow::Result<Exit> {
    let key = WorkflowKey { tenant: context.tenant.clone(), workflow: args.workflow.clone() };
    let focus = args.focus.clone();
    let mut runs = args.runs.clone();
    runs.sort_unstable();
    runs.dedup();
    let names: Vec<_> = runs.iter().map(|run| run.as_str()).collect();
    let request = request_id(
        args.request.request.as_deref(),
        "look",
        &[&names.join(","), focus.as_deref().unwrap_or("")],
    );
    let by = args.request.by.clone();
    let (request_id, reason) = (request.clone(), args.reason.clone());
    let manual_request = AskedFor { request: request_id, by, with_token: None, runs, focus, reason };
    let (id, step) =
        match build_operator_commands(config, store)?.trigger_retrospective(&key, &manual_request).await? {
            Ok(opened) => opened,
            Err(error) => anyhow::bail!("no retrospective was opened: {error}"),
        };
    let result = if step == CommitResult::Done { "opened" } else { "was already opened by this request" };
    let answer = serde_json::json!({"retrospective": id, "request": request, "result": result});
    output::print_data(context.output, &answer, || {
        format!("manual retrospective {id} {result}; `retro retrospectives show {id}` shows its progress")
    })?;
    Ok(Exit::Done)
}

pub(crate) async fn run_proposals(
    context: &CommandContext<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    noun: &Noun<ProposalCommand, ListProposals>,
) -> anyhow::Result<Exit> {
    let Some(command) = &noun.command else { return list_proposals(context, &*store, &noun.list).await };
    match command {
        ProposalCommand::List(list) => list_proposals(context, &*store, list).await,
        ProposalCommand::Show { id } => {
            let id = ProposalId(resolve!(context, &*store, Proposal, *id));
            let found = store.find_proposal(context.tenant, id).await?;
            print_found(context, found, "proposal", &id, retro_operator::render_proposal)
        }
        ProposalCommand::Accept { id, override_tombstone, reason, request } => {
            let id = ProposalId(resolve!(context, &*store, Proposal, *id));
            let acceptance = Acceptance {
                request: request_id(request.request.as_deref(), "accept", &[&id.to_string()]),
                by: request.by.clone(),
                override_tombstone: override_tombstone.clone(),
                reason: reason.clone(),
            };
            let outcome = build_operator_commands(config, store)?
                .accept_proposal(context.tenant, id, &acceptance)
                .await?;
            print_decision(context, id, "accepted", outcome)
        }
        ProposalCommand::Refuse { id, reason, request } => {
            let id = ProposalId(resolve!(context, &*store, Proposal, *id));
            let refusal = Refusal {
                request: request_id(request.request.as_deref(), "refuse", &[&id.to_string()]),
                by: request.by.clone(),
                reason: reason.clone(),
            };
            let outcome =
                build_operator_commands(config, store)?.refuse_proposal(context.tenant, id, &refusal).await?;
            print_decision(context, id, "refused", outcome)
        }
    }
}

async fn list_proposals(
    context: &CommandContext<'_>,
    store: &dyn Store,
    args: &ListProposals,
) -> anyhow::Result<Exit> {
    let retrospective = match args.retrospective {
        Some(name) => Some(RetrospectiveId(resolve!(context, store, Retrospective, name))),
        None => None,
    };
    let ListProposals { workflow, status, limit, .. } = args;
    let filter = ProposalFilter { workflow: workflow.clone(), retrospective, status: *status, limit: *limit };
    let rows = store.list_proposals(context.tenant, &filter).await?;
    output::print_list(context.output, &rows, |layout| retro_operator::render_proposals(&rows, layout))?;
    Ok(Exit::Done)
}

/// Prints a decision, whether it was made now or earlier. Exits with [`Exit::ProblemFound`] if an earlier
/// decision was the opposite of the requested one.
fn print_decision(
    context: &CommandContext<'_>,
    id: ProposalId,
    expected: &str,
    outcome: DecisionOutcome,
) -> anyhow::Result<Exit> {
    let (decision, newly_decided) = match outcome {
        None => return print_found(context, None::<()>, "proposal", &id, |()| String::new()),
        Some(Ok(decided)) => (decided.decision, true),
        Some(Err(DecideError::AlreadyDecided(decision))) => (*decision, false),
        Some(Err(undecided)) => anyhow::bail!("proposal {id} was not decided: {undecided}"),
    };
    let answer = serde_json::json!({"proposal": id, "decision": decision, "newly_decided": newly_decided});
    let when = if newly_decided { "now" } else { "before; nothing changed" };
    output::print_data(context.output, &answer, || {
        format!("proposal {id} {} ({when})", describe_decision(&decision))
    })?;
    Ok(if decision.decision.as_str() == expected { Exit::Done } else { Exit::ProblemFound })
}

fn describe_decision(decision: &DecisionRecord) -> String {
    let by = &decision.by;
    match &decision.decision {
        ProposalDecision::Accepted { memory, result, .. } => {
            format!("was accepted by {by} as memory {memory}: {result}")
        }
        ProposalDecision::Refused { reason } => format!("was refused by {by}: {reason}"),
    }
}

fn build_operator_commands(config: &Config, store: Arc<dyn Store>) -> anyhow::Result<OperatorCommands> {
    let policies = Arc::new(PolicySource::load(config.pipelines.as_deref())?);
    Ok(OperatorCommands::new(store, policies, embedder::load_vector_source(config)?, Arc::new(Notify::new())))
}

fn request_id(given: Option<&str>, what: &str, parts: &[&str]) -> String {
    // Derived from the arguments, so repeating the command changes nothing.
    let derived = || format!("{what}-{}", &sha256_hex(parts.join("\n").as_bytes())[..16]);
    given.map_or_else(derived, str::to_owned)
}
