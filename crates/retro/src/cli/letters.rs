//! What is said of dead letters on the command line beside which ones: versions, exact bytes, exports.

use std::path::PathBuf;

use clap::Args;
use retro_core::id::DeadLetterId;
use serde_json::Value;

use super::letter_filter::LetterFilterArgs;

#[derive(Debug, Args)]
pub(crate) struct ListLetters {
    #[command(flatten)]
    pub(crate) filter: LetterFilterArgs,
    /// Only those behind this one in the list: where the page before ended.
    #[arg(long, value_name = "ID")]
    pub(crate) behind: Option<DeadLetterId>,
    /// At most so many.
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct ShowLetter {
    /// Its id.
    pub(crate) id: DeadLetterId,
    #[command(flatten)]
    pub(crate) exact: Exact,
    /// With `--raw`: a version that somebody made of it; 0 is the letter as it came.
    #[arg(long, default_value_t = 0, requires = "raw")]
    pub(crate) version: u32,
}

/// Exact bytes, secrets included, for whoever says why.
#[derive(Debug, Args)]
pub(crate) struct Exact {
    /// The exact bytes, secrets included. Reading them is written down before they are printed: who, when and why.
    #[arg(long, requires = "reason")]
    pub(crate) raw: bool,
    /// With `--raw`: why.
    #[arg(long, requires = "raw")]
    pub(crate) reason: Option<String>,
    /// With `--raw`: who.
    #[arg(long, env = "USER", hide_env_values = true, default_value = "somebody at a terminal")]
    pub(crate) by: String,
}

#[derive(Debug, Args)]
pub(crate) struct ExportLetters {
    #[command(flatten)]
    pub(crate) filter: LetterFilterArgs,
    /// At most so many.
    #[arg(long, default_value_t = retro_operator::EXPORT_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=i64::from(retro_operator::EXPORT_MAX)))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) exact: Exact,
}

#[derive(Debug, Args)]
pub(crate) struct EditLetter {
    /// Its id.
    pub(crate) id: DeadLetterId,
    /// Take the whole payload from this file (- for stdin).
    #[arg(long, value_name = "FILE", conflicts_with = "set")]
    pub(crate) file: Option<PathBuf>,
    /// Set one field, and leave everything else byte for byte: data.usage.input_tokens=12. The value is JSON, or else a
    /// text. Several times for several fields. Without this and without --file, $EDITOR opens the exact bytes, which is
    /// written down as reading them.
    #[arg(long, value_name = "PATH=VALUE", value_parser = field)]
    pub(crate) set: Vec<(String, Value)>,
    /// Begin with this version; 0 is the letter as it came [default: the newest].
    #[arg(long, value_name = "VERSION")]
    pub(crate) from: Option<u32>,
    /// Only tell what the version would be.
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) act: super::who::ActArgs,
}

fn field(text: &str) -> Result<(String, Value), String> {
    let (path, value) = text.split_once('=').ok_or("a path and a value: data.usage.input_tokens=12")?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
    Ok((path.trim().to_owned(), value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_value_of_a_field_is_json_or_else_a_text() {
        assert_eq!(
            field("data.usage.input_tokens=12"),
            Ok(("data.usage.input_tokens".to_owned(), json!(12)))
        );
        assert_eq!(field("a=b=c"), Ok(("a".to_owned(), json!("b=c"))));
        assert_eq!(field("a=\"12\""), Ok(("a".to_owned(), json!("12"))));
        assert_eq!(field("tenant=null"), Ok(("tenant".to_owned(), Value::Null)));
        assert!(field("a").is_err());
    }
}
