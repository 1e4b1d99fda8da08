//! Defines the arguments of `retro dead-letters list`, `show`, `export` and `edit`.

use std::path::PathBuf;

use clap::Args;
use retro_core::id::ObjectRef;
use serde_json::Value;

use super::audit::UNKNOWN_OPERATOR;
use super::dead_letter_filter::DeadLetterFilterArgs;

#[derive(Debug, Args)]
pub(crate) struct ListDeadLetters {
    #[command(flatten)]
    pub(crate) filter: DeadLetterFilterArgs,
    /// Continue the list after this dead letter, the last one of the previous page.
    #[arg(long, value_name = "ID")]
    pub(crate) after: Option<ObjectRef>,
    /// Maximum number of dead letters to print.
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct ShowDeadLetter {
    /// Id of the dead letter, or at least its first 8 digits.
    pub(crate) id: ObjectRef,
    #[command(flatten)]
    pub(crate) exact: RawArgs,
    /// With `--raw`, the version to show: 0 is the original, higher numbers are edited versions.
    #[arg(long, default_value_t = 0, requires = "raw")]
    pub(crate) version: u32,
}

/// Options for access to the exact bytes, which requires a reason.
#[derive(Debug, Args)]
pub(crate) struct RawArgs {
    /// Print the exact bytes, including secrets. The access is recorded with your name and reason before
    /// anything is printed.
    #[arg(long, requires = "reason")]
    pub(crate) raw: bool,
    /// With `--raw`, reason for the access.
    #[arg(long, requires = "raw")]
    pub(crate) reason: Option<String>,
    /// With `--raw`, name of the operator.
    #[arg(long, value_name = "NAME", env = "USER", hide_env_values = true, default_value = UNKNOWN_OPERATOR)]
    pub(crate) by: String,
}

#[derive(Debug, Args)]
pub(crate) struct ExportDeadLetters {
    #[command(flatten)]
    pub(crate) filter: DeadLetterFilterArgs,
    /// Maximum number of dead letters to export, up to 100000.
    #[arg(long, default_value_t = retro_operator::EXPORT_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=i64::from(retro_operator::EXPORT_MAX)))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) exact: RawArgs,
}

#[derive(Debug, Args)]
pub(crate) struct EditDeadLetter {
    /// Id of the dead letter, or at least its first 8 digits.
    pub(crate) id: ObjectRef,
    /// Read the complete new payload from this file (- for stdin).
    #[arg(long, value_name = "FILE", conflicts_with = "set")]
    pub(crate) file: Option<PathBuf>,
    /// Set one field, such as data.usage.input_tokens=12, and leave all other bytes unchanged. The value is
    /// parsed as JSON, or used as a string if it is not valid JSON. May be repeated. Without --set and
    /// --file, the exact bytes open in $EDITOR, which is recorded like --raw.
    #[arg(long, value_name = "PATH=VALUE", value_parser = parse_field_value)]
    pub(crate) set: Vec<(String, Value)>,
    /// Version to edit; 0 is the original [default: the newest].
    #[arg(long, value_name = "VERSION")]
    pub(crate) from: Option<u32>,
    /// Show the resulting version without storing it.
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) act: super::audit::AuditArgs,
}

fn parse_field_value(text: &str) -> Result<(String, Value), String> {
    let (path, value) =
        text.split_once('=').ok_or("expected PATH=VALUE, such as data.usage.input_tokens=12")?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
    Ok((path.trim().to_owned(), value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_value_of_a_field_is_json_or_else_text() {
        assert_eq!(
            parse_field_value("data.usage.input_tokens=12"),
            Ok(("data.usage.input_tokens".to_owned(), json!(12)))
        );
        assert_eq!(parse_field_value("a=b=c"), Ok(("a".to_owned(), json!("b=c"))));
        assert_eq!(parse_field_value("a=\"12\""), Ok(("a".to_owned(), json!("12"))));
        assert_eq!(parse_field_value("tenant=null"), Ok(("tenant".to_owned(), Value::Null)));
        assert!(parse_field_value("a").is_err());
    }
}
