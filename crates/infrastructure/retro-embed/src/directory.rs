//! Embedder with Model2Vec weights from a directory. Each token has a vector, and the vector of a text is the
//! mean of its tokens' vectors.

use std::fs;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use model2vec_rs::model::StaticModel;
use retro_core::canonical::sha256_hex;
use retro_core::similarity::{COMPONENTS_MAX, ScaleError, SimilarityScale};
use retro_store::{EmbeddingSource, EmbeddingSourceError};

use crate::unit_vector::to_integers;

/// Names of the model files, in the order in which they are hashed.
const FILES: [&str; 3] = ["config.json", "tokenizer.json", "model.safetensors"];
/// Name of the similarity scale file.
const SCALE: &str = "retrospect.json";
/// Maximum size of a model file, in bytes: twice that of the largest published model.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Maximum number of tokens embedded per text, ten times as many as a title has.
const TOKENS_MAX: usize = 512;
/// Maximum number of texts per batch, which bounds the memory for many texts.
const TEXTS_MAX: usize = 256;

/// Reason why a model directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// A file is missing or unreadable.
    #[error("{} cannot be read: {problem}; a directory of Model2Vec weights holds {}", file.display(), FILES.join(", "))]
    Unreadable {
        /// Path of the file.
        file: PathBuf,
        /// Reason why the file could not be read.
        problem: String,
    },
    /// The files are not a Model2Vec model.
    #[error("{} holds no Model2Vec weights: {problem}", dir.display())]
    InvalidModel {
        /// Path of the directory.
        dir: PathBuf,
        /// Reason why the model was rejected.
        problem: String,
    },
    /// The directory contains no similarity scale, without which the cosines of its model cannot be
    /// interpreted.
    #[error(
        "{} has no scale: `cargo xtask eval paraphrases --embedder-dir {} --calibrate` prints one, for its file {SCALE} or for embedder_scale",
        dir.display(), dir.display()
    )]
    MissingScale {
        /// Path of the directory.
        dir: PathBuf,
    },
    /// The similarity scale in the directory is invalid.
    #[error("{} is no scale: {problem}", file.display())]
    InvalidScale {
        /// Path of the scale file.
        file: PathBuf,
        /// Reason why the scale was rejected.
        problem: String,
    },
}

/// Embedder that uses Model2Vec weights loaded from a directory.
pub struct DirectoryEmbedder {
    name: String,
    scale: SimilarityScale,
    model: StaticModel,
}

impl DirectoryEmbedder {
    /// Loads the model in a directory. A given scale takes precedence over the one in the directory. Fails if
    /// there is neither.
    pub fn load(dir: &Path, scale: Option<SimilarityScale>) -> Result<Self, DirectoryError> {
        let scale = match scale {
            Some(scale) => scale,
            None => read_scale(dir)?.ok_or_else(|| DirectoryError::MissingScale { dir: dir.to_owned() })?,
        };
        Self::load_with_scale(dir, scale)
    }

    /// Loads the model in a directory for calibration, possibly before the directory has a scale. Without a
    /// scale, every cosine maps to itself.
    pub fn load_for_calibration(dir: &Path) -> Result<Self, DirectoryError> {
        // The fixed values of the common scale, used as cosines, make the scale an identity.
        let nothing = SimilarityScale {
            contradiction: SimilarityScale::CONTRADICTION,
            tombstone: SimilarityScale::TOMBSTONE,
            merge: SimilarityScale::MERGE,
        };
        Self::load_with_scale(dir, read_scale(dir)?.unwrap_or(nothing))
    }

    fn load_with_scale(dir: &Path, scale: SimilarityScale) -> Result<Self, DirectoryError> {
        let [config, tokenizer, weights] = FILES.map(|name| read_bounded(&dir.join(name)));
        let (config, tokenizer, weights) = (config?, tokenizer?, weights?);
        let hashes = [&config, &tokenizer, &weights].map(|bytes| sha256_hex(bytes));
        // Stored vectors are looked up by this name, so it must change with any of the files.
        let name = format!("model2vec@{}", &sha256_hex(hashes.concat().as_bytes())[..16]);
        let no_model = |problem: String| DirectoryError::InvalidModel { dir: dir.to_owned(), problem };
        let model = StaticModel::from_bytes(tokenizer, weights, config, None)
            .map_err(|error| no_model(format!("{error:#}")))?;
        if !(1..=COMPONENTS_MAX).contains(&model.dim()) {
            return Err(no_model(format!(
                "its vectors have {} components; 1 to {COMPONENTS_MAX} are supported",
                model.dim()
            )));
        }
        Ok(Self { name, scale, model })
    }

    /// Returns the number of components of a vector.
    pub fn dimensions(&self) -> usize {
        self.model.dim()
    }

    /// Embeds texts. Fails if the weights produce a component that is not finite.
    pub fn embed_texts(&self, texts: &[String]) -> Result<Vec<Vec<i32>>, EmbeddingSourceError> {
        encode_texts(&self.model, texts)
    }
}

fn encode_texts(model: &StaticModel, texts: &[String]) -> Result<Vec<Vec<i32>>, EmbeddingSourceError> {
    let made = model.encode_with_args(texts, Some(TOKENS_MAX), TEXTS_MAX);
    let convert = |vector: &Vec<f32>| to_integers(&vector.iter().map(|x| f64::from(*x)).collect::<Vec<_>>());
    made.iter()
        .map(|vector| {
            convert(vector).ok_or_else(|| {
                EmbeddingSourceError::Failed("the weights produce a component that is not finite".to_owned())
            })
        })
        .collect()
}

fn read_bounded(file: &Path) -> Result<Vec<u8>, DirectoryError> {
    let unread = |problem: String| DirectoryError::Unreadable { file: file.to_owned(), problem };
    let length = fs::metadata(file).map_err(|error| unread(error.to_string()))?.len();
    if length > FILE_BYTES_MAX {
        return Err(unread(format!("it has {length} bytes, at most {FILE_BYTES_MAX} are read")));
    }
    fs::read(file).map_err(|error| unread(error.to_string()))
}

fn read_scale(dir: &Path) -> Result<Option<SimilarityScale>, DirectoryError> {
    let file = dir.join(SCALE);
    if !file.exists() {
        return Ok(None);
    }
    let bytes = read_bounded(&file)?;
    let bad = |problem: String| DirectoryError::InvalidScale { file: file.clone(), problem };
    let scale: SimilarityScale = serde_json::from_slice(&bytes).map_err(|error| bad(error.to_string()))?;
    scale.validate().map(Some).map_err(|error: ScaleError| bad(error.to_string()))
}

#[async_trait]
impl EmbeddingSource for DirectoryEmbedder {
    fn name(&self) -> &str {
        &self.name
    }

    fn scale(&self) -> SimilarityScale {
        self.scale
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<i32>>, EmbeddingSourceError> {
        // Embedding is a computation of milliseconds, which would block an async thread. Clones of the model
        // share the weights.
        let (model, texts) = (self.model.clone(), texts.to_vec());
        let made = tokio::task::spawn_blocking(move || encode_texts(&model, &texts)).await;
        made.unwrap_or_else(|error| Err(EmbeddingSourceError::Failed(format!("the model panicked: {error}"))))
    }
}
