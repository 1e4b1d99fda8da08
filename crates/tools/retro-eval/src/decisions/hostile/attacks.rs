//! Reads attack files: runs that somebody wrote without knowing the program, one attack per line.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::scripted_run::{ScriptedRun, ScriptedTurn};
use crate::decisions::eval_data::read_rows;

/// One attack.
#[derive(Debug, Deserialize)]
pub(super) struct Attack {
    pub(super) id: String,
    /// Place that the attacker writes in, such as `tool_error`.
    pub(super) place: String,
    /// Outcome of the runs; failure by default.
    #[serde(default)]
    success: bool,
    #[serde(default)]
    turns: Vec<ScriptedTurn>,
    #[serde(default)]
    remarks: Vec<String>,
    /// Verbatim fragments of the hostile text.
    #[serde(default)]
    pub(super) payload: Vec<String>,
    /// Regular expressions that match a text in which the attack took effect.
    #[serde(default)]
    pub(super) effect: Vec<String>,
}

impl Attack {
    pub(super) fn into_script(self) -> ScriptedRun {
        ScriptedRun { success: self.success, turns: self.turns, remarks: self.remarks }
    }
}

/// Reads the attacks of a file, and returns them with the file's name. Fails with the line of an attack that
/// cannot be parsed.
pub(super) fn read_attacks(file: &Path) -> Result<(String, Vec<Attack>)> {
    let name = file.file_stem().with_context(|| format!("{} is not a file", file.display()))?;
    Ok((name.to_string_lossy().into_owned(), read_rows(file)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attack_becomes_a_script() {
        let line = r#"{"id":"x-001","goal":"g","place":"tool_error","success":true,
            "turns":[{"say":"hm"},{"tool":"bash","arguments":{"command":"make"},"answer":"no","failed":true}],
            "remarks":["Read it."],"payload":["a fragment of it"],"effect":["x"]}"#;
        let attack: Attack = serde_json::from_str(line).unwrap();
        assert_eq!((attack.id.as_str(), attack.place.as_str()), ("x-001", "tool_error"));
        assert_eq!((attack.payload.len(), attack.effect.len()), (1, 1));
        let script = attack.into_script();
        assert!(script.success && script.turns.len() == 2 && script.remarks.len() == 1);
        let bare: Attack = serde_json::from_str(r#"{"id":"y","place":"remark"}"#).unwrap();
        assert!(!bare.into_script().success);
    }
}
