//! Reports operations on dead letters that the service refused.

use retro_operator::EditError;

use crate::output;

/// Returns the result of an operation, or prints the reason and returns `None` if the operation was refused.
pub(super) fn report_refusal<T>(answer: Result<T, EditError>) -> anyhow::Result<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(EditError::Store(error)) => Err(error.into()),
        Err(why) => {
            output::print_notice(&format!("retro: {why}"));
            Ok(None)
        }
    }
}
