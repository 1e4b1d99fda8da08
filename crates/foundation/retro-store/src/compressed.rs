//! Compresses and decompresses documents, such as the bodies of runs, before they reach a database.

use crate::{Result, StoreError};

/// zstd compression level: the default, a good trade-off between size and time for a few KiB of JSON.
const ZSTD_LEVEL: i32 = 3;
/// Maximum size of a decompressed document, in bytes. Far above the 64 KiB of an inline body; protects against a
/// damaged size field.
const DOCUMENT_BYTES_MAX: usize = 64 << 20;

/// A document as it is stored: one zstd frame that contains the document's size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompressedDocument(Vec<u8>);

impl CompressedDocument {
    /// Compresses a document. Fails with [`StoreError::Unavailable`] if the compressor runs out of memory.
    pub fn from_document(document: &[u8]) -> Result<Self> {
        DocumentCompressor::new()?.compress(document)
    }

    /// Returns the stored form.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the stored form.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Compresses one document after the other with the same working memory, about a MiB.
pub struct DocumentCompressor(zstd::bulk::Compressor<'static>);

impl DocumentCompressor {
    /// Creates a compressor. Fails with [`StoreError::Unavailable`] if there is not enough memory.
    pub fn new() -> Result<Self> {
        zstd::bulk::Compressor::new(ZSTD_LEVEL).map(Self).map_err(|error| compressor_failed(&error))
    }

    /// Compresses a document. Fails with [`StoreError::Unavailable`] if the compressor runs out of memory.
    pub fn compress(&mut self, document: &[u8]) -> Result<CompressedDocument> {
        // The bulk API writes the content size into the frame, without which `decompress_document` rejects it.
        self.0.compress(document).map(CompressedDocument).map_err(|error| compressor_failed(&error))
    }
}

fn compressor_failed(error: &std::io::Error) -> StoreError {
    StoreError::Unavailable(format!("compressing a document: {error}"))
}

/// Decompresses a stored document. The error is a human-readable description.
pub fn decompress_document(stored: &[u8]) -> std::result::Result<Vec<u8>, String> {
    // The size comes from the stored frame: if unchecked, a damaged frame could allocate any amount of
    // memory.
    let size = zstd::zstd_safe::get_frame_content_size(stored).ok().flatten();
    let size = size.and_then(|size| usize::try_from(size).ok()).filter(|size| *size <= DOCUMENT_BYTES_MAX);
    let size = size.ok_or("what is stored is not a compressed body")?;
    zstd::bulk::decompress(stored, size)
        .map_err(|error| format!("what is stored cannot be decompressed: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_comes_back_and_damage_is_an_error() {
        let stored = CompressedDocument::from_document(b"{\"turns\":[]}").expect("memory for a compressor");
        assert_eq!(decompress_document(stored.as_bytes()).expect("a whole frame"), b"{\"turns\":[]}");
        let damaged = &stored.as_bytes()[..stored.as_bytes().len() - 1];
        assert!(decompress_document(damaged).is_err());
        assert!(decompress_document(b"no frame").is_err());
    }
}
