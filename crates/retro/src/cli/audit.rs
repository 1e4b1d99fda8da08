//! Defines the arguments that identify a person and a request.

use clap::Args;

/// Arguments for the person and the reason of an operation, both stored permanently in the audit log.
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// Reason for the operation, stored permanently in the audit log.
    #[arg(long)]
    pub(crate) reason: String,
    /// Name of the person who acts, stored permanently in the audit log.
    #[arg(long, env = "USER", hide_env_values = true, default_value = "somebody at a terminal")]
    pub(crate) by: String,
}

/// Arguments for the person who makes a request and for the id of the request.
#[derive(Debug, Args)]
pub(crate) struct RequestArgs {
    /// Name of the person who makes the request, stored with the request.
    #[arg(
        long,
        value_name = "NAME",
        env = "USER",
        hide_env_values = true,
        default_value = "somebody at a terminal"
    )]
    pub(crate) by: String,
    /// Id of this request; repeating a request has no effect [default: derived from the arguments].
    #[arg(long)]
    pub(crate) request: Option<String>,
}
