//! Dispatches the commands. Most read from the store, render the result with `retro-operator` and print it.

mod cancel;
mod command_context;
pub(crate) mod configuration;
mod dead_letters;
mod doctor;
mod gateway;
mod git;
mod github;
mod kill_switches;
mod losses;
mod manual;
mod mcp;
mod memories;
mod migrate;
mod nearest_name;
mod pipeline;
mod queries;
mod ready;
mod replay;
mod rules;
mod runs;
mod search;
mod shell_files;
mod tokens;
mod workflows;

use retro_config::{Config, LoadedConfig};
use retro_core::recall::RecallPlace;
use retro_http::Scrape;

use crate::cli::{Cli, Command, Context as ContextArgs, Github};
use crate::exit::Exit;
use crate::{emit, output, serve, store, up, validate};
use command_context::CommandContext;

/// Runs the command selected by the arguments. `metrics` renders the metrics of this process.
pub(crate) async fn run_command(cli: &Cli, loaded: LoadedConfig, metrics: Scrape) -> anyhow::Result<Exit> {
    if let Command::Serve(_) = &cli.command {
        serve::require_database(&loaded)?;
    }
    let LoadedConfig { mut config, origins } = loaded;
    let output = cli.global.output;
    let context = CommandContext { tenant: &cli.global.tenant, output };
    match &cli.command {
        Command::Up(args) => {
            config.http_listen = args.http_listen.unwrap_or(config.http_listen);
            config.nats_port = args.nats_port.unwrap_or(config.nats_port);
            up::run_up(config, metrics).await
        }
        Command::Serve(args) => {
            config.http_listen = args.http_listen.unwrap_or(config.http_listen);
            config.health_listen = args.health_listen.or(config.health_listen);
            serve::run_serve(config, args.roles.iter().copied().collect(), metrics).await
        }
        Command::Migrate(args) => migrate::run_command(&config, args, output).await,
        Command::Emit(args) => Box::pin(emit::emit_files(args, &config, &cli.global.tenant, output)).await,
        Command::Validate(args) => validate::run_validate(args, &config, &cli.global.tenant, output),
        Command::Workflows(args) => {
            workflows::run_command(&context, &*store::open_store(&config).await?, args).await
        }
        Command::Runs(args) => runs::run_command(&context, &*store::open_store(&config).await?, args).await,
        Command::Outcomes(args) => {
            queries::run_outcomes(&context, &*store::open_store(&config).await?, args).await
        }
        Command::Git(command) => git::run_command(output, command),
        Command::Github(Github::Sync(args)) => Box::pin(github::run_sync(&config, output, args)).await,
        Command::Memories(command) => {
            memories::run_command(&context, &config, store::open_store(&config).await?, command).await
        }
        Command::Rules(command) => {
            rules::run_command(&context, &config, store::open_store(&config).await?, command).await
        }
        Command::Retrospectives(command) => {
            queries::run_retrospectives(&context, &config, store::open_store(&config).await?, command).await
        }
        Command::Proposals(command) => {
            manual::run_proposals(&context, &config, store::open_store(&config).await?, command).await
        }
        Command::Reports(command) => {
            queries::run_reports(&context, &*store::open_store(&config).await?, command).await
        }
        Command::DeadLetters(command) => {
            dead_letters::run_command(&context, &config, store::open_store(&config).await?, command).await
        }
        Command::Losses(command) => {
            losses::run_command(&context, &*store::open_store(&config).await?, command).await
        }
        Command::KillSwitches(command) => {
            kill_switches::run_command(&context, store::open_store(&config).await?, command).await
        }
        Command::Tokens(command) => {
            tokens::run_command(&context, store::open_store(&config).await?, command).await
        }
        Command::Context(args) => print_context(&context, &config, args).await,
        Command::Mcp => Box::pin(mcp::run_command(&context, &config)).await,
        Command::Verify => queries::verify_store(output, &*store::open_store(&config).await?).await,
        Command::Export(_) => queries::export_tenant(&context, &*store::open_store(&config).await?).await,
        Command::Config(command) => configuration::run_command(&config, &origins, output, command),
        Command::Pipeline(command) => pipeline::run_command(&context, &config, command).await,
        Command::Openapi => print_openapi(),
        Command::Completions { shell } => shell_files::print_completions(*shell),
        Command::Man { folder } => shell_files::write_manual(folder),
        Command::Doctor => doctor::run_command(&config, output).await,
        Command::Ready => ready::run_command(&config, output).await,
    }
}

fn print_openapi() -> anyhow::Result<Exit> {
    let document = retro_gateway::describe_api()
        .merge(retro_mcp::describe_api())
        .merge(retro_operator::api_description())
        .document();
    output::print_json(&serde_json::to_string_pretty(&document)?)?;
    Ok(Exit::Done)
}

async fn print_context(
    context: &CommandContext<'_>,
    config: &Config,
    args: &ContextArgs,
) -> anyhow::Result<Exit> {
    let store = store::open_store(config).await?;
    let gateway = gateway::build_gateway(config, &store, args.task.is_some())?;
    let request = retro_gateway::ContextRequest {
        workflow: args.workflow.clone(),
        step: args.step.clone(),
        run_id: args.run.clone(),
        repo: args.repo.clone(),
        repo_visibility: args.repo_visibility,
        paths: args.paths.clone(),
        task: args.task.clone(),
    };
    let answer = gateway.context(context.tenant, request).await;
    if answer.memories.is_empty() {
        nearest_name::print_unknown_name(context, &*store, Some(&args.workflow), Some(&args.step)).await?;
    }
    output::print_list(context.output, &answer, |layout| {
        if matches!(layout, retro_operator::Layout::Markdown) {
            // Exactly what an agent gets: the block of memories, then that of rules.
            let rules = answer.rules.as_ref().map(|rules| rules.text.as_str()).unwrap_or_default();
            return [answer.text.as_str(), rules].join("\n").trim().to_owned();
        }
        let memories = match (&answer.reason, answer.text.as_str()) {
            (Some(reason), "") => format!("no memories: {reason}"),
            (_, text) => format!(
                "{text}\n({} tokens, {} omitted, {} withheld by chance)",
                answer.tokens, answer.omitted, answer.withheld_by_chance
            ),
        };
        let rules = answer.rules.as_ref().map(|rules| {
            let retro_gateway::RulesAnswer { text, tokens, omitted, blocked, .. } = rules;
            format!("\n{text}\n(rules: {tokens} tokens, {omitted} omitted, {blocked} blocked)")
        });
        memories + &rules.unwrap_or_default() + &describe_reasons(&answer)
    })?;
    Ok(Exit::Done)
}

/// Describes why each memory and rule of a context is there; empty without a task.
fn describe_reasons(answer: &retro_gateway::ContextAnswer) -> String {
    let Some(ranking) = &answer.ranking else { return String::new() };
    let rules = answer.rules.iter().flat_map(|rules| &rules.rules);
    let lines = answer.memories.iter().chain(rules).filter_map(|memory| {
        let because = memory.because.as_ref()?;
        let place = match because.place {
            RecallPlace::Weight => "by weight",
            RecallPlace::Task => "for the task",
            RecallPlace::Newcomer => "as a newcomer",
        };
        let words = search::describe_words(&because.words);
        let relevance = search::format_thousandths(because.relevance);
        Some(format!("\n[{}] {place}, relevance {relevance}{words}", memory.id.short_id()))
    });
    format!("\n{}{}", search::describe_ranking(ranking), lines.collect::<String>())
}
