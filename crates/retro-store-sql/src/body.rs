//! Compresses the bodies of a batch of runs into one byte buffer, and decompresses bodies.

use retro_core::run::BodyRef;
use retro_store::{IncomingBody, IncomingRun, Result, StoreError, StoredBody};

/// Compression level of zstd: its default, which is the best trade-off between size and time for a few KiB of JSON.
const ZSTD_LEVEL: i32 = 3;
/// Maximum size of a decompressed body in bytes. It is far above the 64 KiB of an inline body and protects against a
/// damaged size field.
const BODY_BYTES_MAX: usize = 64 << 20;

/// Compressed bodies of a batch of runs in one buffer.
#[derive(Debug)]
pub struct CompressedBodies {
    /// Buffer with all compressed bodies, one after another.
    pub bytes: Vec<u8>,
    /// Offset and length of each run's body, in the order of the batch; `None` for a run without an inline body.
    pub spans: Vec<Option<(usize, usize)>>,
}

/// Compresses the inline bodies of a batch, before the transaction begins, so that no lock is held meanwhile. Fails
/// with [`StoreError::Unavailable`] when there is not enough memory.
pub fn compress_bodies(batch: &[IncomingRun]) -> Result<CompressedBodies> {
    let failed = |error: std::io::Error| StoreError::Unavailable(format!("compressing a body: {error}"));
    let mut compressor = zstd::bulk::Compressor::new(ZSTD_LEVEL).map_err(failed)?;
    let mut packed = CompressedBodies { bytes: Vec::new(), spans: Vec::with_capacity(batch.len()) };
    for run in batch {
        let IncomingBody::Inline(body) = &run.body else {
            packed.spans.push(None);
            continue;
        };
        let compressed = compressor.compress(body).map_err(failed)?;
        packed.spans.push(Some((packed.bytes.len(), compressed.len())));
        packed.bytes.extend_from_slice(&compressed);
    }
    Ok(packed)
}

/// Returns the reference to the body of an incoming run that will be stored with the run.
pub fn body_ref(body: &IncomingBody) -> BodyRef {
    match body {
        IncomingBody::None => BodyRef::None,
        IncomingBody::Inline(_) => BodyRef::Stored,
        IncomingBody::Object(object) => BodyRef::Object(object.clone()),
        IncomingBody::Https(body) => BodyRef::Https(body.clone()),
    }
}

/// Builds the body of a run from `run_facts.body` and `run_bodies.trajectory`. An unreadable body is reported as
/// [`StoredBody::Gone`], which the investigator handles by replacing the run.
pub fn stored_body(body: &str, stored: Option<&[u8]>) -> StoredBody {
    match (serde_json::from_str(body), stored) {
        (Ok(BodyRef::None), _) => StoredBody::None,
        (Ok(BodyRef::Object(object)), _) => StoredBody::Object(object),
        (Ok(BodyRef::Https(body)), _) => StoredBody::Https(body),
        (Ok(BodyRef::Dropped), _) => StoredBody::Gone("it was dropped on purpose".to_owned()),
        (Ok(BodyRef::Stored), Some(bytes)) => match decompress_body(bytes) {
            Ok(trajectory) => StoredBody::Inline(trajectory),
            Err(problem) => StoredBody::Gone(problem),
        },
        (Ok(BodyRef::Stored), None) => StoredBody::Gone("its row in run_bodies is missing".to_owned()),
        (Err(error), _) => StoredBody::Gone(format!("run_facts.body cannot be read: {error}")),
    }
}

/// Decompresses a stored body. Fails with a description of the problem.
fn decompress_body(stored: &[u8]) -> std::result::Result<Vec<u8>, String> {
    // The size comes from the stored frame: unchecked, a damaged size could allocate any amount of memory.
    let size = zstd::zstd_safe::get_frame_content_size(stored).ok().flatten();
    let size = size.and_then(|size| usize::try_from(size).ok()).filter(|size| *size <= BODY_BYTES_MAX);
    let size = size.ok_or("what is stored is not a compressed body")?;
    zstd::bulk::decompress(stored, size)
        .map_err(|error| format!("what is stored cannot be decompressed: {error}"))
}
