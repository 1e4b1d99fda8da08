//! The commands that ask and answer. Each reads the store, lets `retro-operator` say it for people, and prints.

pub(crate) mod configuration;
mod doctor;
mod memories;
mod read;
mod steer;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use retro_config::{Config, Loaded};
use retro_gateway::Gateway;
use retro_store_sqlite::SqliteStore;

use crate::cli::{Cli, Command, Context as ContextArgs, Output};
use crate::policies::PolicyBook;
use crate::{emit, instance, output, up};

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
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::WrongUsage => 2,
            Exit::NotFound => 3,
            Exit::NotInOrder => 4,
        })
    }
}

/// Carries out a command.
pub(crate) async fn run(cli: &Cli, loaded: Loaded) -> anyhow::Result<Exit> {
    let Loaded { mut config, origins } = loaded;
    let output = cli.global.output;
    let asked = read::Asked { tenant: &cli.global.tenant, output };
    match &cli.command {
        Command::Up(args) => {
            config.http_listen = args.http_listen.unwrap_or(config.http_listen);
            config.nats_port = args.nats_port.unwrap_or(config.nats_port);
            up::up(config).await
        }
        Command::Migrate => migrate(&config, output).await,
        Command::Emit(args) => emit::emit(args, &config, &cli.global.tenant, output).await,
        Command::Workflows => read::workflows(&asked, &*store(&config).await?).await,
        Command::Runs(args) => read::runs(&asked, &*store(&config).await?, args).await,
        Command::Memories(command) => memories::run(&asked, &config, store(&config).await?, command).await,
        Command::Retrospectives(command) => {
            read::retrospectives(&asked, &config, store(&config).await?, command).await
        }
        Command::Reports(command) => read::reports(&asked, &*store(&config).await?, command).await,
        Command::DeadLetters(command) => {
            read::dead_letters(&asked, &config, store(&config).await?, command).await
        }
        Command::Context(args) => context(&asked, &config, args).await,
        Command::Verify => read::verify(output, &*store(&config).await?).await,
        Command::Export(_) => read::export(&asked, &*store(&config).await?).await,
        Command::Config(command) => configuration::run(&config, &origins, output, command),
        Command::Doctor => doctor::run(&config, output).await,
    }
}

/// Opens the database of the data folder, beside a running `retro up` or without one.
async fn store(config: &Config) -> anyhow::Result<Arc<SqliteStore>> {
    let path = instance::database(&config.data_dir);
    if !path.exists() {
        anyhow::bail!(
            "there is no database at {}; start `retro up` or run `retro migrate` first",
            path.display()
        );
    }
    let store = SqliteStore::open(&path).await;
    Ok(Arc::new(store.with_context(|| format!("the database {} cannot be used", path.display()))?))
}

async fn migrate(config: &Config, output: Output) -> anyhow::Result<Exit> {
    std::fs::create_dir_all(&config.data_dir)
        .with_context(|| format!("cannot make the data folder {}", config.data_dir.display()))?;
    let path = instance::database(&config.data_dir);
    let applied = retro_store_sqlite::migrate(&path).await?;
    output::data(output, &applied, || match applied.as_slice() {
        [] => format!("{} is up to date", path.display()),
        names => format!("{}: applied {}", path.display(), names.join(", ")),
    })?;
    Ok(Exit::Done)
}

async fn context(asked: &read::Asked<'_>, config: &Config, args: &ContextArgs) -> anyhow::Result<Exit> {
    let policies = Arc::new(PolicyBook::load(config.pipelines.as_deref())?);
    let gateway = Gateway::new(store(config).await?, policies);
    let request = retro_gateway::ContextRequest {
        workflow: args.workflow.clone(),
        step: args.step.clone(),
        run_id: args.run.clone(),
    };
    let answer = gateway.context(asked.tenant, request).await;
    output::data(asked.output, &answer, || match (&answer.reason, answer.text.as_str()) {
        (Some(reason), "") => format!("nothing to hand out: {reason}"),
        (_, text) => format!("{text}\n({} tokens, {} left out)", answer.tokens, answer.left_out),
    })?;
    Ok(Exit::Done)
}
