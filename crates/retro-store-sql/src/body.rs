//! Run bodies: compressed on the way in, several in one stretch of bytes, and read back.

use retro_core::run::BodyRef;
use retro_store::{IncomingBody, IncomingRun, Result, StoreError, StoredBody};

/// Level of compression: the default of zstd, the best gain for its time on a few KiB of JSON.
const LEVEL: i32 = 3;
/// Largest body that is decompressed, in bytes: far above the 64 KiB that come inline. Protects from a damaged size.
const BODY_BYTES_MAX: usize = 64 << 20;

/// The bodies of a batch, one after another, with where each lies.
#[derive(Debug)]
pub struct Packed {
    /// All of them.
    pub bytes: Vec<u8>,
    /// Offset and length of each run's body, in the order of the batch; `None` where none lies inline.
    pub spans: Vec<Option<(usize, usize)>>,
}

/// Compresses the inline bodies of a batch. Done before the transaction begins: nobody waits for it. Fails with
/// [`StoreError::Unavailable`] when memory does not suffice.
pub fn pack(batch: &[IncomingRun]) -> Result<Packed> {
    let failed = |error: std::io::Error| StoreError::Unavailable(format!("compressing a body: {error}"));
    let mut compressor = zstd::bulk::Compressor::new(LEVEL).map_err(failed)?;
    let mut packed = Packed { bytes: Vec::new(), spans: Vec::with_capacity(batch.len()) };
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

/// Where the body of an incoming run will lie.
pub fn body_ref(body: &IncomingBody) -> BodyRef {
    match body {
        IncomingBody::None => BodyRef::None,
        IncomingBody::Inline(_) => BodyRef::Stored,
        IncomingBody::Object(object) => BodyRef::Object(object.clone()),
        IncomingBody::Https(body) => BodyRef::Https(body.clone()),
    }
}

/// The body of a run as `run_facts.body` and `run_bodies.trajectory` tell. One that cannot be read is gone: the
/// investigator has an answer to that.
pub fn stored_body(body: &str, stored: Option<&[u8]>) -> StoredBody {
    match (serde_json::from_str(body), stored) {
        (Ok(BodyRef::None), _) => StoredBody::None,
        (Ok(BodyRef::Object(object)), _) => StoredBody::Object(object),
        (Ok(BodyRef::Https(body)), _) => StoredBody::Https(body),
        (Ok(BodyRef::Dropped), _) => StoredBody::Gone("it was dropped on purpose".to_owned()),
        (Ok(BodyRef::Stored), Some(bytes)) => match unpack(bytes) {
            Ok(trajectory) => StoredBody::Inline(trajectory),
            Err(problem) => StoredBody::Gone(problem),
        },
        (Ok(BodyRef::Stored), None) => StoredBody::Gone("its row in run_bodies is missing".to_owned()),
        (Err(error), _) => StoredBody::Gone(format!("run_facts.body cannot be read: {error}")),
    }
}

/// Decompresses a stored body; says what is wrong with one that cannot be.
fn unpack(stored: &[u8]) -> std::result::Result<Vec<u8>, String> {
    let size = zstd::zstd_safe::get_frame_content_size(stored).ok().flatten();
    let size = size.and_then(|size| usize::try_from(size).ok()).filter(|size| *size <= BODY_BYTES_MAX);
    let size = size.ok_or("what is stored is not a compressed body")?;
    zstd::bulk::decompress(stored, size)
        .map_err(|error| format!("what is stored cannot be decompressed: {error}"))
}
