//! The commands that ask and answer. Each reads the store, lets `retro-operator` say it for people, and prints.

pub(crate) mod configuration;
mod doctor;
mod git;
mod letters;
mod losses;
mod manual;
mod memories;
mod migrate;
mod pipeline;
mod read;
mod ready;
mod replay;
mod rules;
mod steer;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use retro_config::{Config, Loaded};
use retro_gateway::Gateway;
use retro_http::Scrape;
use tokio::signal::unix::SignalKind;

use crate::cli::{Cli, Command, Context as ContextArgs};
use crate::policies::PolicyBook;
use crate::{emit, output, serve, store, up};

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what was asked.
    Done,
    /// It cannot tell what was meant.
    WrongUsage,
    /// What was asked for is not there.
    NotFound,
    /// It looked, and something is not in order.
    NotInOrder,
    /// It was ended at once by a second signal.
    Signalled(SignalKind),
    /// It ended itself, since work hung that nothing else could end.
    Hung,
}

impl Exit {
    /// What whoever started it is told.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::WrongUsage => 2,
            Self::NotFound => 3,
            Self::NotInOrder => 4,
            Self::Hung => 5,
            // What a shell says of a process that a signal has ended.
            Self::Signalled(signal) => 128 + u8::try_from(signal.as_raw_value()).unwrap_or(0),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Carries out a command; `metrics` is what this process measures meanwhile.
pub(crate) async fn run(cli: &Cli, loaded: Loaded, metrics: Scrape) -> anyhow::Result<Exit> {
    if let Command::Serve(_) = &cli.command {
        serve::require_database(&loaded)?;
    }
    let Loaded { mut config, origins } = loaded;
    let output = cli.global.output;
    let asked = read::Asked { tenant: &cli.global.tenant, output };
    match &cli.command {
        Command::Up(args) => {
            config.http_listen = args.http_listen.unwrap_or(config.http_listen);
            config.nats_port = args.nats_port.unwrap_or(config.nats_port);
            up::up(config, metrics).await
        }
        Command::Serve(args) => {
            config.http_listen = args.http_listen.unwrap_or(config.http_listen);
            config.health_listen = args.health_listen.or(config.health_listen);
            serve::serve(config, args.roles.iter().copied().collect(), metrics).await
        }
        Command::Migrate(args) => migrate::run(&config, args, output).await,
        Command::Emit(args) => Box::pin(emit::emit(args, &config, &cli.global.tenant, output)).await,
        Command::Workflows => read::workflows(&asked, &*store::open(&config).await?).await,
        Command::Runs(args) => read::runs(&asked, &*store::open(&config).await?, args).await,
        Command::Outcomes(args) => read::outcomes(&asked, &*store::open(&config).await?, args).await,
        Command::Git(command) => git::run(output, command),
        Command::Memories(command) => {
            memories::run(&asked, &config, store::open(&config).await?, command).await
        }
        Command::Rules(command) => rules::run(&asked, &config, store::open(&config).await?, command).await,
        Command::Retrospectives(command) => {
            read::retrospectives(&asked, &config, store::open(&config).await?, command).await
        }
        Command::Proposals(command) => {
            manual::proposals(&asked, &config, store::open(&config).await?, command).await
        }
        Command::Reports(command) => read::reports(&asked, &*store::open(&config).await?, command).await,
        Command::DeadLetters(command) => {
            letters::run(&asked, &config, store::open(&config).await?, command).await
        }
        Command::Losses(command) => losses::run(&asked, &*store::open(&config).await?, command).await,
        Command::Context(args) => context(&asked, &config, args).await,
        Command::Verify => read::verify(output, &*store::open(&config).await?).await,
        Command::Export(_) => read::export(&asked, &*store::open(&config).await?).await,
        Command::Config(command) => configuration::run(&config, &origins, output, command),
        Command::Pipeline(command) => pipeline::run(&config, output, command),
        Command::Openapi => openapi(),
        Command::Doctor => doctor::run(&config, output).await,
        Command::Ready => ready::run(&config, output).await,
    }
}

fn openapi() -> anyhow::Result<Exit> {
    let document = retro_gateway::description().merge(retro_operator::description()).document();
    output::json(&serde_json::to_string_pretty(&document)?)?;
    Ok(Exit::Done)
}

async fn context(asked: &read::Asked<'_>, config: &Config, args: &ContextArgs) -> anyhow::Result<Exit> {
    let policies = Arc::new(PolicyBook::load(config.pipelines.as_deref())?);
    let gateway = Gateway::new(store::open(config).await?, policies);
    let gateway = gateway.answering_within(Duration::from_millis(config.answer_ms));
    let request = retro_gateway::ContextRequest {
        workflow: args.workflow.clone(),
        step: args.step.clone(),
        run_id: args.run.clone(),
        repo: args.repo.clone(),
        paths: args.paths.clone(),
    };
    let answer = gateway.context(asked.tenant, request).await;
    output::data(asked.output, &answer, || {
        let memories = match (&answer.reason, answer.text.as_str()) {
            (Some(reason), "") => format!("nothing to hand out: {reason}"),
            (_, text) => format!("{text}\n({} tokens, {} left out)", answer.tokens, answer.left_out),
        };
        let rules = answer.rules.as_ref().map(|rules| {
            let retro_gateway::RulesAnswer { text, tokens, left_out, withheld, .. } = rules;
            format!("\n{text}\n(rules: {tokens} tokens, {left_out} left out, {withheld} withheld)")
        });
        memories + &rules.unwrap_or_default()
    })?;
    Ok(Exit::Done)
}
