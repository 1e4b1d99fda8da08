//! Who asks for something, and why.

use clap::Args;

/// Who does something to a retrospective or a letter, and why; both are kept for ever.
#[derive(Debug, Args)]
pub(crate) struct ActArgs {
    /// Why.
    #[arg(long)]
    pub(crate) reason: String,
    /// Who.
    #[arg(long, env = "USER", hide_env_values = true, default_value = "somebody at a terminal")]
    pub(crate) by: String,
}

/// Who asks, and how asking again is recognised.
#[derive(Debug, Args)]
pub(crate) struct Request {
    /// Who asks, for the record.
    #[arg(
        long,
        value_name = "NAME",
        env = "USER",
        hide_env_values = true,
        default_value = "somebody at a terminal"
    )]
    pub(crate) by: String,
    /// Identifies this request, so that repeating it changes nothing [default: derived from what is asked].
    #[arg(long)]
    pub(crate) request: Option<String>,
}
