//! Runs `retro runs`, which lists runs and shows one in full.

use retro_core::inspection::RunProperties;
use retro_core::time::Clock as _;
use retro_operator::{RunPages, RunView, UnresolvedRun, find_run_view, lists};
use retro_store::{OperatorStore, RUNS_SEARCHED_MAX, RunFilter};

use super::command_context::{CommandContext, print_document};
use super::nearest_name::print_unknown_name;
use crate::cli::{ListRuns, Noun, RunCommand, ShowRun};
use crate::clock::SystemClock;
use crate::exit::Exit;
use crate::output;

pub(crate) async fn run_command(
    context: &CommandContext<'_>,
    store: &dyn OperatorStore,
    noun: &Noun<RunCommand, ListRuns>,
) -> anyhow::Result<Exit> {
    match &noun.command {
        None => list_runs(context, store, &noun.list).await,
        Some(RunCommand::List(list)) => list_runs(context, store, list).await,
        Some(RunCommand::Show(args)) => show_run(context, store, args).await,
    }
}

async fn list_runs(
    context: &CommandContext<'_>,
    store: &dyn OperatorStore,
    args: &ListRuns,
) -> anyhow::Result<Exit> {
    let now = SystemClock.now();
    let filter = RunFilter {
        workflow: args.workflow.clone(),
        run: args.run.clone(),
        properties: RunProperties {
            user: args.user.clone(),
            agent: args.agent.clone(),
            prompt_version: args.prompt_version.clone(),
            outcome: args.outcome,
            repo: args.repo.clone(),
        },
        since: args.since.map(|since| since.resolve_at(now)),
        until: args.until.map(|until| until.resolve_at(now)),
        limit: args.limit,
    };
    let found = store.search_runs(context.tenant, &filter).await?;
    if found.runs.is_empty() {
        print_unknown_name(context, store, args.workflow.as_ref(), None).await?;
    }
    output::print_list(context.output, &found.runs, |layout| lists::render_runs(&found.runs, layout))?;
    if let Some(at) = found.stopped_at {
        output::print_notice(&format!(
            "the newest {RUNS_SEARCHED_MAX} runs were searched: continue with --until {at}"
        ));
    }
    Ok(Exit::Done)
}

async fn show_run(
    context: &CommandContext<'_>,
    store: &dyn OperatorStore,
    args: &ShowRun,
) -> anyhow::Result<Exit> {
    let pages = RunPages { from_turn: args.from_turn, turns: args.turns };
    let found = find_run_view(store, context.tenant, &args.run, args.workflow.as_ref(), pages).await?;
    let found = match found {
        Ok(view) => Some(view),
        Err(UnresolvedRun::Missing(_)) => {
            print_unknown_name(context, store, args.workflow.as_ref(), None).await?;
            None
        }
        Err(ambiguous @ UnresolvedRun::Ambiguous { .. }) => {
            output::print_notice(&format!("retro: {ambiguous}"));
            return Ok(Exit::UsageError);
        }
    };
    print_document(context, found, "run", &args.run, |view: &RunView, layout| view.render(layout))
}
