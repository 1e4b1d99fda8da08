//! Tenant and output format of a command, and the answers that several commands print alike.

use retro_core::id::{ObjectRef, Tenant};
use retro_operator::{Layout, render_shown};
use retro_store::{ObjectKind, ObjectRefStore, UnresolvedObject, resolve_object_ref};
use uuid::Uuid;

use crate::cli::Output;
use crate::exit::Exit;
use crate::output;

/// Tenant and output format of a command.
pub(crate) struct CommandContext<'a> {
    pub(crate) tenant: &'a Tenant,
    pub(crate) output: Output,
}

/// Prints the result, or a message that the item does not exist. Items of other tenants count as nonexistent. The
/// Markdown form is the text as a code block.
pub(super) fn print_found<T: serde::Serialize>(
    context: &CommandContext<'_>,
    found: Option<T>,
    what: &str,
    id: &impl std::fmt::Display,
    text: impl FnOnce(&T) -> String,
) -> anyhow::Result<Exit> {
    print_document(context, found, what, id, |found, layout| match layout {
        Layout::Terminal(_) => text(found),
        Layout::Markdown => render_shown(what, &id.to_string(), &text(found)),
    })
}

/// Prints the result, which has a Markdown form of its own, or a message that the item does not exist.
pub(super) fn print_document<T: serde::Serialize>(
    context: &CommandContext<'_>,
    found: Option<T>,
    what: &str,
    id: &impl std::fmt::Display,
    render: impl FnOnce(&T, Layout) -> String,
) -> anyhow::Result<Exit> {
    let Some(found) = found else {
        output::print_notice(&format!("there is no {what} {id} in tenant {}", context.tenant));
        return Ok(Exit::NotFound);
    };
    output::print_list(context.output, &found, |layout| render(&found, layout))?;
    Ok(Exit::Done)
}

/// Returns the id of the object that `name` refers to, or the exit of the command if it matches none or several.
pub(super) async fn resolve_object<S: ObjectRefStore + ?Sized>(
    context: &CommandContext<'_>,
    store: &S,
    kind: ObjectKind,
    name: ObjectRef,
) -> anyhow::Result<Result<Uuid, Exit>> {
    Ok(match resolve_object_ref(store, context.tenant, kind, name).await? {
        Ok(id) => Ok(id),
        Err(UnresolvedObject::Missing { .. }) => {
            Err(print_found(context, None::<()>, kind.as_str(), &name, |()| String::new())?)
        }
        Err(ambiguous @ UnresolvedObject::Ambiguous { .. }) => {
            output::print_notice(&format!("retro: {ambiguous}"));
            Err(Exit::UsageError)
        }
    })
}

/// Unwraps the resolved id, or returns the exit from the command.
macro_rules! resolve {
    ($context:expr, $store:expr, $kind:ident, $name:expr) => {
        match $crate::commands::command_context::resolve_object(
            $context,
            $store,
            retro_store::ObjectKind::$kind,
            $name,
        )
        .await?
        {
            Ok(id) => id,
            Err(exit) => return Ok(exit),
        }
    };
}

pub(super) use resolve;
