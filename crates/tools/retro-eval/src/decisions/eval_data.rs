//! Finds the evaluation data, divides it into two halves, and reads it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

/// Option for the location of the evaluation data.
#[derive(Args)]
pub(super) struct EvalData {
    /// Folder with the evaluation data.
    #[arg(long, env = "RETRO_EVAL_DATA")]
    pub(super) data: Option<PathBuf>,
}

impl EvalData {
    /// Returns the folder of a data set. Fails with instructions if the data set is missing or the location
    /// of the evaluation data is unknown.
    pub(super) fn set_folder(&self, name: &str) -> Result<PathBuf> {
        let data = self.data.as_deref().context("evaluation data is not part of the project: name its folder with `--data DIR` or in RETRO_EVAL_DATA")?;
        let folder = data.join(name);
        ensure!(
            folder.is_dir(),
            "{} does not exist: `--data` must name the folder that contains {name}",
            folder.display()
        );
        Ok(folder)
    }
}

/// One half of the evaluation data. Heuristics are tuned on one half, and the other half shows whether they
/// generalise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(super) enum DataHalf {
    /// Half whose cases were read while the heuristics were written.
    Read,
    /// Half whose cases were only counted and never read.
    Unread,
}

impl DataHalf {
    /// Assigns a group of cases to a half by the hash of its name.
    pub(super) fn of_group(group: &str) -> Self {
        if Sha256::digest(group.as_bytes())[0] < 128 { Self::Read } else { Self::Unread }
    }
}

/// Reads the rows of a JSON Lines file. Fails with the file and line number of a row that cannot be parsed.
pub(super) fn read_rows<Row: DeserializeOwned>(file: &Path) -> Result<Vec<Row>> {
    let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    let lines = BufReader::new(opened).lines().enumerate();
    lines
        .map(|(nth, line)| {
            let place = || format!("{}:{}", file.display(), nth + 1);
            serde_json::from_str(&line.with_context(place)?).with_context(place)
        })
        .collect()
}
