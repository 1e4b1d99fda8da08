//! `retro retrospectives trigger` and `retro proposals`: asking for a look at named runs, and deciding what becomes of
//! what it found. Both work beside a running process, which does the looking and sends the announcements.

use std::sync::Arc;

use retro_config::Config;
use retro_core::canonical::sha256_hex;
use retro_core::id::{ProposalId, WorkflowKey};
use retro_core::manual::{Acceptance, Asked as AskedFor, Decision, Refusal, Undecided, Verdict};
use retro_operator::{DecisionOutcome, Requests as _, terminal_columns};
use retro_store::{ProposalFilter, Step, Store};
use tokio::sync::Notify;

use super::Exit;
use super::read::{Asked, shown};
use crate::cli::{Proposals, Trigger};
use crate::hands::Hands;
use crate::policies::PolicyBook;
use crate::{embedder, output};

pub(crate) async fn trigger(
    asked: &Asked<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    args: &Trigger,
) -> anyhow::Result<Exit> {
    let key = WorkflowKey { tenant: asked.tenant.clone(), workflow: args.workflow.clone() };
    let focus = args.focus.clone();
    let mut runs = args.runs.clone();
    runs.sort_unstable();
    runs.dedup();
    let names: Vec<_> = runs.iter().map(|run| run.as_str()).collect();
    let request = given_or_derived(
        args.request.request.as_deref(),
        "look",
        &[&names.join(","), focus.as_deref().unwrap_or("")],
    );
    let by = args.request.by.clone();
    let wanted = AskedFor { request: request.clone(), by, runs, focus };
    let (id, step) = match hands(config, store)?.trigger(&key, &wanted).await? {
        Ok(opened) => opened,
        Err(untriggered) => anyhow::bail!("nothing was opened: {untriggered}"),
    };
    let did = if step == Step::Done { "opened" } else { "had been opened by this request before" };
    let answer = serde_json::json!({"retrospective": id, "request": request, "did": did});
    output::data(asked.output, &answer, || {
        format!("manual retrospective {id} {did}; `retro retrospectives show {id}` tells how far it is")
    })?;
    Ok(Exit::Done)
}

pub(crate) async fn proposals(
    asked: &Asked<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    command: &Proposals,
) -> anyhow::Result<Exit> {
    match command {
        Proposals::List { workflow, retrospective, status, limit } => {
            let (workflow, retrospective) = (workflow.clone(), *retrospective);
            let filter = ProposalFilter { workflow, retrospective, status: *status, limit: *limit };
            let rows = store.proposals(asked.tenant, &filter).await?;
            output::data(asked.output, &rows, || retro_operator::proposals(&rows, terminal_columns()))?;
            Ok(Exit::Done)
        }
        Proposals::Show { id } => {
            let found = store.proposal(asked.tenant, *id).await?;
            shown(asked, found, "proposal", id, retro_operator::proposal)
        }
        Proposals::Accept { id, despite_tombstone, request } => {
            let acceptance = Acceptance {
                request: given_or_derived(request.request.as_deref(), "accept", &[&id.to_string()]),
                by: request.by.clone(),
                despite_tombstone: despite_tombstone.clone(),
            };
            let outcome = hands(config, store)?.accept(asked.tenant, *id, &acceptance).await?;
            decided(asked, *id, "accepted", outcome)
        }
        Proposals::Refuse { id, reason, request } => {
            let refusal = Refusal {
                request: given_or_derived(request.request.as_deref(), "refuse", &[&id.to_string()]),
                by: request.by.clone(),
                reason: reason.clone(),
            };
            let outcome = hands(config, store)?.refuse(asked.tenant, *id, &refusal).await?;
            decided(asked, *id, "refused", outcome)
        }
    }
}

/// Tells what was decided, now or before. The opposite of what was asked is no success.
fn decided(
    asked: &Asked<'_>,
    id: ProposalId,
    wanted: &str,
    outcome: DecisionOutcome,
) -> anyhow::Result<Exit> {
    let (decision, did) = match outcome {
        None => return shown(asked, None::<()>, "proposal", &id, |()| String::new()),
        Some(Ok(decided)) => (decided.decision, "now"),
        Some(Err(Undecided::Before(decision))) => (*decision, "before; nothing changed"),
        Some(Err(undecided)) => anyhow::bail!("proposal {id} was not decided: {undecided}"),
    };
    let answer = serde_json::json!({"proposal": id, "decision": decision, "did": did});
    output::data(asked.output, &answer, || format!("proposal {id} {} ({did})", told(&decision)))?;
    Ok(if decision.verdict.as_str() == wanted { Exit::Done } else { Exit::NotInOrder })
}

fn told(decision: &Decision) -> String {
    let by = &decision.by;
    match &decision.verdict {
        Verdict::Accepted { memory, did } => format!("was accepted by {by} as memory {memory}: {did}"),
        Verdict::Refused { reason } => format!("was refused by {by}: {reason}"),
    }
}

fn hands(config: &Config, store: Arc<dyn Store>) -> anyhow::Result<Hands> {
    let policies = Arc::new(PolicyBook::load(config.pipelines.as_deref())?);
    Ok(Hands::new(store, policies, embedder::source(config)?, Arc::new(Notify::new())))
}

fn given_or_derived(given: Option<&str>, what: &str, parts: &[&str]) -> String {
    let derived = || format!("{what}-{}", &sha256_hex(parts.join("\n").as_bytes())[..16]);
    given.map_or_else(derived, str::to_owned)
}
