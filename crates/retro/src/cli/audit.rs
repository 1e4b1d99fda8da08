//! Defines the arguments for the audit log and for idempotent requests.

use clap::Args;

/// Arguments for the operator's name and reason, both stored permanently in the audit log.
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// Reason for the operation, stored permanently in the audit log.
    #[arg(long)]
    pub(crate) reason: String,
    /// Name of the operator, stored permanently in the audit log.
    #[arg(long, env = "USER", hide_env_values = true, default_value = "somebody at a terminal")]
    pub(crate) by: String,
}

/// Arguments for the name of the requester and the id of the request.
#[derive(Debug, Args)]
pub(crate) struct RequestArgs {
    /// Name of the requester, stored with the request.
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
