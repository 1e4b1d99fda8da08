//! Parses the bytes of a file, possibly compressed with Zstandard, into JSON documents. The file contains one
//! document, an array of events, or one document per line.

use std::io::Read as _;

use bytes::Bytes;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::json::{JsonBounds, JsonDocument, VALUES_MAX};
use serde_json::Value;

use crate::otel::{self, Span};

/// Maximum size of a file after decompression, in bytes. Benchmark results with several hundred runs fit.
pub const FILE_BYTES_MAX: usize = 128 * 1024 * 1024;

/// Maximum number of values and keys in a file, in the same ratio to the maximum size as for the largest
/// event.
const FILE_VALUES_MAX: usize = 8 * VALUES_MAX;

/// Maximum number of values and keys in a file that comes over a network. Each takes up to 400 bytes while it is
/// read: 100 MiB for a file of nothing else.
pub(crate) const UPLOAD_VALUES_MAX: usize = 250_000;

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Parsed documents of a file.
pub(crate) enum Content {
    /// One document or one array.
    Single(Value),
    /// One document per line, each with its 1-based line number.
    Lines(Vec<(usize, Value)>),
    /// Spans of a file that is not JSON.
    Spans(Vec<Span>),
}

impl Content {
    /// Lists the documents of the file with their locations.
    pub(crate) fn list_documents(&self) -> Vec<(String, &Value)> {
        match self {
            Self::Single(Value::Array(items)) => {
                items.iter().enumerate().map(|(nth, item)| (format!("[{nth}]"), item)).collect()
            }
            Self::Single(document) => vec![(String::new(), document)],
            Self::Lines(lines) => lines.iter().map(|(line, doc)| (format!("line {line}"), doc)).collect(),
            Self::Spans(_) => Vec::new(),
        }
    }
}

/// Decompresses and parses a file. Fails if the file is too large or contains invalid JSON.
pub(crate) fn parse_file(bytes: &[u8]) -> Result<Content, Rejection> {
    parse_content(&decompress(bytes)?, JsonBounds { bytes_max: FILE_BYTES_MAX, values_max: FILE_VALUES_MAX })
}

/// Parses what a file contains within these bounds. Fails if it is too large or contains invalid JSON.
pub(crate) fn parse_content(bytes: &Bytes, bounds: JsonBounds) -> Result<Content, Rejection> {
    match parse_document(bytes, bounds) {
        Ok(document) => Ok(Content::Single(document)),
        // A file counts as lines only if its first line is a document, so a broken single document keeps its
        // own error.
        Err(whole) if matches!(whole.code, DeadLetterCode::NotJson | DeadLetterCode::NotUtf8) => {
            if let Some(spans) = otel::parse_protobuf(bytes) {
                return spans.map(Content::Spans);
            }
            parse_lines(bytes, bounds).unwrap_or(Err(whole))
        }
        Err(whole) => Err(whole),
    }
}

fn parse_document(text: &Bytes, bounds: JsonBounds) -> Result<Value, Rejection> {
    JsonDocument::parse(text, bounds).map(|document| document.root().to_value())
}

fn parse_lines(bytes: &Bytes, bounds: JsonBounds) -> Option<Result<Content, Rejection>> {
    let mut lines = bytes
        .split(|byte| *byte == b'\n')
        .zip(1..)
        .filter(|(line, _)| !line.trim_ascii().is_empty())
        .peekable();
    let (first, _) = lines.peek()?;
    parse_document(&bytes.slice_ref(first), bounds).ok().filter(Value::is_object)?;
    let documents = lines.map(|(line, number)| match parse_document(&bytes.slice_ref(line), bounds) {
        Ok(document) => Ok((number, document)),
        Err(rejection) => Err(Rejection { path: Some(format!("line {number}")), ..rejection }),
    });
    Some(documents.collect::<Result<_, _>>().map(Content::Lines))
}

/// Decompresses a file that begins with the magic number of Zstandard. Stops at the size limit, because a
/// small compressed file may expand to any size.
fn decompress(bytes: &[u8]) -> Result<Bytes, Rejection> {
    if !bytes.starts_with(&ZSTD_MAGIC) {
        return Ok(Bytes::copy_from_slice(bytes));
    }
    let mut unpacked = Vec::new();
    let decoder = zstd::stream::read::Decoder::with_buffer(bytes);
    // One byte beyond the limit, so the parser rejects the file instead of reading a part of it.
    decoder.and_then(|decoder| decoder.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut unpacked)).map_err(
        |_| {
            Rejection::of_message(
                DeadLetterCode::NotJson,
                "looks like a Zstandard file but cannot be decompressed",
            )
        },
    )?;
    Ok(unpacked.into())
}
