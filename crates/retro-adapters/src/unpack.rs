//! A file's bytes → JSON documents: compressed or not, one document, an array of events, or one a line.

use std::io::Read as _;

use bytes::Bytes;
use retro_core::dead_letter::{Code, Rejection};
use retro_core::json::{Bounds, Document, VALUES_MAX};
use serde_json::Value;

/// The largest file that is read, unpacked, in bytes: a benchmark's results of several hundred runs.
pub const FILE_BYTES_MAX: usize = 128 * 1024 * 1024;

/// The most values and keys of a file: as many to a byte as in the largest event.
const FILE_VALUES_MAX: usize = 8 * VALUES_MAX;

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The documents of a file.
pub(crate) enum Content {
    /// The file is one document.
    Single(Value),
    /// One document a line, with its line number from 1.
    Lines(Vec<(usize, Value)>),
}

impl Content {
    /// The documents with their places.
    pub(crate) fn documents(&self) -> Vec<(String, &Value)> {
        match self {
            Self::Single(Value::Array(items)) => {
                items.iter().enumerate().map(|(nth, item)| (format!("[{nth}]"), item)).collect()
            }
            Self::Single(document) => vec![(String::new(), document)],
            Self::Lines(lines) => lines.iter().map(|(line, doc)| (format!("line {line}"), doc)).collect(),
        }
    }
}

/// Unpacks and parses a file.
pub(crate) fn read(bytes: &[u8]) -> Result<Content, Rejection> {
    let bytes = decompress(bytes)?;
    match parse(&bytes) {
        Ok(document) => Ok(Content::Single(document)),
        // Only a file whose first line is a document is taken for lines: a broken document keeps its own error.
        Err(whole) if whole.code == Code::NotJson => read_lines(&bytes).unwrap_or(Err(whole)),
        Err(whole) => Err(whole),
    }
}

fn parse(text: &Bytes) -> Result<Value, Rejection> {
    let bounds = Bounds { bytes_max: FILE_BYTES_MAX, values_max: FILE_VALUES_MAX };
    Document::parse(text, bounds).map(|document| document.root().to_value())
}

fn read_lines(bytes: &Bytes) -> Option<Result<Content, Rejection>> {
    let mut lines = bytes
        .split(|byte| *byte == b'\n')
        .zip(1..)
        .filter(|(line, _)| !line.trim_ascii().is_empty())
        .peekable();
    let (first, _) = lines.peek()?;
    parse(&bytes.slice_ref(first)).ok().filter(Value::is_object)?;
    let documents = lines.map(|(line, number)| match parse(&bytes.slice_ref(line)) {
        Ok(document) => Ok((number, document)),
        Err(rejection) => Err(Rejection { path: Some(format!("line {number}")), ..rejection }),
    });
    Some(documents.collect::<Result<_, _>>().map(Content::Lines))
}

/// Decompresses what begins like Zstandard, never past the bound: a small file may unpack into an endless one.
fn decompress(bytes: &[u8]) -> Result<Bytes, Rejection> {
    if !bytes.starts_with(&ZSTD_MAGIC) {
        return Ok(Bytes::copy_from_slice(bytes));
    }
    let mut unpacked = Vec::new();
    let decoder = zstd::stream::read::Decoder::with_buffer(bytes);
    decoder.and_then(|decoder| decoder.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut unpacked)).map_err(
        |_| Rejection::whole(Code::NotJson, "begins like a Zstandard file and cannot be unpacked"),
    )?;
    Ok(unpacked.into())
}
