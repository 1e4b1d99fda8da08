//! Weights in a directory, in the form of Model2Vec: a vector for each token, and a text's is their mean.

use std::fs;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use model2vec_rs::model::StaticModel;
use retro_core::canonical::sha256_hex;
use retro_core::similar::{COMPONENTS_MAX, Scale, ScaleError};
use retro_store::{SourceError, VectorSource};

use crate::integers;

/// The files of a directory, in the order in which they are hashed.
const FILES: [&str; 3] = ["config.json", "tokenizer.json", "model.safetensors"];
/// The file of the scale.
const SCALE: &str = "retrospect.json";
/// The largest file: the largest published models have half of it.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Tokens of a text that count; a title has a tenth of it.
const TOKENS_MAX: usize = 512;
/// Texts at once, so that handling many is left between.
const TEXTS_MAX: usize = 256;

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// A file is missing or cannot be read.
    #[error("{} cannot be read: {problem}; a directory of Model2Vec weights holds {}", file.display(), FILES.join(", "))]
    Unread {
        /// The file.
        file: PathBuf,
        /// Why.
        problem: String,
    },
    /// The files are no model.
    #[error("{} holds no Model2Vec weights: {problem}", dir.display())]
    NoModel {
        /// The directory.
        dir: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Nobody knows what its cosines mean.
    #[error(
        "{} has no scale: `cargo xtask eval paraphrases --embedder-dir {} --calibrate` prints one, for its file {SCALE} or for embedder_scale",
        dir.display(), dir.display()
    )]
    NoScale {
        /// The directory.
        dir: PathBuf,
    },
    /// The scale that lies there cannot be used.
    #[error("{} is no scale: {problem}", file.display())]
    BadScale {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

/// Weights that were read.
pub struct Directory {
    name: String,
    scale: Scale,
    model: StaticModel,
}

impl Directory {
    /// Reads a directory; a scale that is given holds instead of the one that lies there.
    pub fn load(dir: &Path, scale: Option<Scale>) -> Result<Self, DirectoryError> {
        let scale = match scale {
            Some(scale) => scale,
            None => read_scale(dir)?.ok_or_else(|| DirectoryError::NoScale { dir: dir.to_owned() })?,
        };
        Self::with(dir, scale)
    }

    /// Reads a directory that may have no scale yet, to calibrate it: one that says nothing stands for it.
    pub fn to_calibrate(dir: &Path) -> Result<Self, DirectoryError> {
        let nothing =
            Scale { contradiction: Scale::CONTRADICTION, tombstone: Scale::TOMBSTONE, merge: Scale::MERGE };
        Self::with(dir, read_scale(dir)?.unwrap_or(nothing))
    }

    fn with(dir: &Path, scale: Scale) -> Result<Self, DirectoryError> {
        let [config, tokenizer, weights] = FILES.map(|name| read(&dir.join(name)));
        let (config, tokenizer, weights) = (config?, tokenizer?, weights?);
        let hashes = [&config, &tokenizer, &weights].map(|bytes| sha256_hex(bytes));
        let name = format!("model2vec@{}", &sha256_hex(hashes.concat().as_bytes())[..16]);
        let no_model = |problem: String| DirectoryError::NoModel { dir: dir.to_owned(), problem };
        let model = StaticModel::from_bytes(tokenizer, weights, config, None)
            .map_err(|error| no_model(format!("{error:#}")))?;
        if !(1..=COMPONENTS_MAX).contains(&model.dim()) {
            return Err(no_model(format!(
                "its vectors have {} components; 1 to {COMPONENTS_MAX} can be",
                model.dim()
            )));
        }
        Ok(Self { name, scale, model })
    }

    /// Components of a vector.
    pub fn dimensions(&self) -> usize {
        self.model.dim()
    }

    /// The vector of each text. Fails when the weights hold what is no number.
    pub fn vectors(&self, texts: &[String]) -> Result<Vec<Vec<i32>>, SourceError> {
        vectors(&self.model, texts)
    }
}

fn vectors(model: &StaticModel, texts: &[String]) -> Result<Vec<Vec<i32>>, SourceError> {
    let made = model.encode_with_args(texts, Some(TOKENS_MAX), TEXTS_MAX);
    let whole = |vector: &Vec<f32>| integers(&vector.iter().map(|x| f64::from(*x)).collect::<Vec<_>>());
    made.iter()
        .map(|vector| {
            whole(vector).ok_or_else(|| SourceError::Failed("the weights hold what is no number".to_owned()))
        })
        .collect()
}

fn read(file: &Path) -> Result<Vec<u8>, DirectoryError> {
    let unread = |problem: String| DirectoryError::Unread { file: file.to_owned(), problem };
    let length = fs::metadata(file).map_err(|error| unread(error.to_string()))?.len();
    if length > FILE_BYTES_MAX {
        return Err(unread(format!("it has {length} bytes, at most {FILE_BYTES_MAX} are read")));
    }
    fs::read(file).map_err(|error| unread(error.to_string()))
}

fn read_scale(dir: &Path) -> Result<Option<Scale>, DirectoryError> {
    let file = dir.join(SCALE);
    if !file.exists() {
        return Ok(None);
    }
    let bytes = read(&file)?;
    let bad = |problem: String| DirectoryError::BadScale { file: file.clone(), problem };
    let scale: Scale = serde_json::from_slice(&bytes).map_err(|error| bad(error.to_string()))?;
    scale.check().map(Some).map_err(|error: ScaleError| bad(error.to_string()))
}

#[async_trait]
impl VectorSource for Directory {
    fn name(&self) -> &str {
        &self.name
    }

    fn scale(&self) -> Scale {
        self.scale
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<i32>>, SourceError> {
        // It computes, for milliseconds: not on a thread that others wait for. Clones share the weights.
        let (model, texts) = (self.model.clone(), texts.to_vec());
        let made = tokio::task::spawn_blocking(move || vectors(&model, &texts)).await;
        made.unwrap_or_else(|error| Err(SourceError::Failed(format!("the model broke: {error}"))))
    }
}
