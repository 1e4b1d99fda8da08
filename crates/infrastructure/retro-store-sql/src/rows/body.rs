//! Compresses and decompresses the bodies of runs.

use retro_core::run::BodyRef;
use retro_store::{IncomingBody, IncomingRun, Result, StoreError, StoredBody};

/// zstd compression level: the default, a good trade-off between size and time for a few KiB of JSON.
const ZSTD_LEVEL: i32 = 3;
/// Maximum size of a decompressed body, in bytes. Far above the 64 KiB of an inline body; protects against a
/// damaged size field.
const BODY_BYTES_MAX: usize = 64 << 20;

/// Compressed inline bodies of a batch of runs, in one buffer.
#[derive(Debug)]
pub(crate) struct CompressedBodies {
    /// Concatenated compressed bodies.
    pub(crate) bytes: Vec<u8>,
    /// Offset and length of each run's body in `bytes`, in batch order; `None` for a run without an inline
    /// body.
    pub(crate) spans: Vec<Option<(usize, usize)>>,
}

/// Compresses the inline bodies of a batch. Call this before the transaction begins, so no lock is held
/// during compression. Fails with [`StoreError::Unavailable`] if the compressor runs out of memory.
pub(crate) fn compress_bodies(batch: &[IncomingRun]) -> Result<CompressedBodies> {
    let mut compressor = zstd::bulk::Compressor::new(ZSTD_LEVEL).map_err(compressor_failed)?;
    let mut packed = CompressedBodies { bytes: Vec::new(), spans: Vec::with_capacity(batch.len()) };
    for run in batch {
        let IncomingBody::Inline(body) = &run.body else {
            packed.spans.push(None);
            continue;
        };
        // The bulk API writes the content size into the frame, without which `decompress` rejects the body.
        let compressed = compressor.compress(body).map_err(compressor_failed)?;
        packed.spans.push(Some((packed.bytes.len(), compressed.len())));
        packed.bytes.extend_from_slice(&compressed);
    }
    Ok(packed)
}

/// Compresses a document for a column of bytes. Fails with [`StoreError::Unavailable`] if the compressor runs
/// out of memory.
pub(crate) fn compress(document: &[u8]) -> Result<Vec<u8>> {
    zstd::bulk::compress(document, ZSTD_LEVEL).map_err(compressor_failed)
}

#[expect(clippy::needless_pass_by_value, reason = "map_err passes a value")]
fn compressor_failed(error: std::io::Error) -> StoreError {
    StoreError::Unavailable(format!("compressing a document: {error}"))
}

/// Returns the body reference to store with an incoming run.
pub(crate) fn body_ref(body: &IncomingBody) -> BodyRef {
    match body {
        IncomingBody::None => BodyRef::None,
        IncomingBody::Inline(_) => BodyRef::Stored,
        IncomingBody::Object(object) => BodyRef::Object(object.clone()),
        IncomingBody::Https(body) => BodyRef::Https(body.clone()),
        IncomingBody::GithubLog(log) => BodyRef::GithubLog(log.clone()),
    }
}

/// Builds the body of a run from `run_facts.body` and `run_bodies.trajectory`. Maps an unreadable body to
/// [`StoredBody::Gone`], for which the investigator samples a replacement run.
pub(crate) fn stored_body(body: &str, stored: Option<&[u8]>) -> StoredBody {
    match (serde_json::from_str(body), stored) {
        (Ok(BodyRef::None), _) => StoredBody::None,
        (Ok(BodyRef::Object(object)), _) => StoredBody::Object(object),
        (Ok(BodyRef::Https(body)), _) => StoredBody::Https(body),
        (Ok(BodyRef::GithubLog(log)), _) => StoredBody::GithubLog(log),
        (Ok(BodyRef::Dropped), _) => StoredBody::Gone("it was dropped on purpose".to_owned()),
        (Ok(BodyRef::Stored), Some(bytes)) => match decompress(bytes) {
            Ok(trajectory) => StoredBody::Inline(trajectory),
            Err(problem) => StoredBody::Gone(problem),
        },
        (Ok(BodyRef::Stored), None) => StoredBody::Gone("its row in run_bodies is missing".to_owned()),
        (Err(error), _) => StoredBody::Gone(format!("run_facts.body cannot be read: {error}")),
    }
}

/// Decompresses a stored document. The error is a human-readable description.
pub(crate) fn decompress(stored: &[u8]) -> std::result::Result<Vec<u8>, String> {
    // The size comes from the stored frame: if unchecked, a damaged frame could allocate any amount of
    // memory.
    let size = zstd::zstd_safe::get_frame_content_size(stored).ok().flatten();
    let size = size.and_then(|size| usize::try_from(size).ok()).filter(|size| *size <= BODY_BYTES_MAX);
    let size = size.ok_or("what is stored is not a compressed body")?;
    zstd::bulk::decompress(stored, size)
        .map_err(|error| format!("what is stored cannot be decompressed: {error}"))
}
