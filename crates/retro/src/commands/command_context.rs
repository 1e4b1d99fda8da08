//! Tenant and output format of a command, and the answers that several commands print alike.

use retro_core::id::Tenant;

use crate::cli::Output;
use crate::exit::Exit;
use crate::output;

/// Tenant and output format of a command.
pub(crate) struct CommandContext<'a> {
    pub(crate) tenant: &'a Tenant,
    pub(crate) output: Output,
}

/// Prints the result, or a message that the item does not exist. Items of other tenants count as nonexistent.
pub(super) fn print_found<T: serde::Serialize>(
    context: &CommandContext<'_>,
    found: Option<T>,
    what: &str,
    id: &impl std::fmt::Display,
    text: impl FnOnce(&T) -> String,
) -> anyhow::Result<Exit> {
    let Some(found) = found else {
        output::print_notice(&format!("there is no {what} {id} in tenant {}", context.tenant));
        return Ok(Exit::NotFound);
    };
    output::print_data(context.output, &found, || text(&found))?;
    Ok(Exit::Done)
}
