//! Decompresses payloads, with a limit on the decompressed size.
//!
//! The header `content-encoding` names the compression, over NATS as well as over HTTP. The supported compressions
//! are `zstd` and `gzip`, which engines and HTTP clients use. A few bytes can decompress to gigabytes, so
//! decompression stops at the limit.

use std::io::{self, Read, Write};

use bytes::Bytes;
use flate2::bufread::GzDecoder;
use retro_core::dead_letter::{DeadLetterCode, Rejection};

/// Header that names the compression.
pub const CONTENT_ENCODING: &str = "content-encoding";
/// Base-2 logarithm of the maximum window of a zstd frame, in bytes. The window is 8 MiB, which RFC 9659
/// guarantees to senders. Without a limit, a frame may demand gigabytes of memory from its reader.
const WINDOW_LOG_MAX: u32 = 23;

/// Maximum number of members of a gzip payload. A writer that compresses in blocks of 64 KiB needs about 260
/// for the largest event.
const GZIP_MEMBERS_MAX: usize = 1024;

/// Returns `true` if an encoding is supported.
pub fn is_supported(encoding: &str) -> bool {
    ["", "identity", "gzip", "x-gzip", "zstd"].contains(&encoding.trim().to_ascii_lowercase().as_str())
}

/// Decompresses a payload to at most `bytes_max` bytes. Without an encoding, the payload is returned unchanged.
/// Fails with `encoding_invalid` at `content-encoding`, or with `oversized`.
pub fn decompress_payload(
    encoding: Option<&str>,
    payload: &Bytes,
    bytes_max: usize,
) -> Result<Bytes, Rejection> {
    let Some(packed) = CompressedPayload::open(encoding, payload)? else { return Ok(payload.clone()) };
    let mut bytes = Vec::new();
    packed.copy_to(&mut bytes, bytes_max)?;
    // The vector may have grown to twice the size of the payload, which is kept while the message is handled.
    bytes.shrink_to_fit();
    Ok(bytes.into())
}

/// Returns the decompressed size of a payload in bytes, without keeping the bytes. Fails like
/// [`decompress_payload`].
pub fn decompressed_size(
    encoding: Option<&str>,
    payload: &[u8],
    bytes_max: usize,
) -> Result<usize, Rejection> {
    match CompressedPayload::open(encoding, payload)? {
        Some(packed) => packed.copy_to(&mut io::sink(), bytes_max),
        None => Ok(payload.len()),
    }
}

/// A payload that is being decompressed.
struct CompressedPayload<'a> {
    name: &'static str,
    reader: Box<dyn Read + 'a>,
}

impl<'a> CompressedPayload<'a> {
    /// Returns a reader that decompresses a payload; `None` if it is not compressed.
    fn open(encoding: Option<&str>, payload: &'a [u8]) -> Result<Option<Self>, Rejection> {
        let encoding = encoding.unwrap_or_default().trim().to_ascii_lowercase();
        match encoding.as_str() {
            "" | "identity" => Ok(None),
            "gzip" | "x-gzip" => Ok(Some(Self { name: "gzip", reader: Box::new(GzipMembers::new(payload)) })),
            "zstd" => {
                let mut frames = zstd::Decoder::with_buffer(payload)
                    .expect("creating a decoder fails only without memory");
                frames.window_log_max(WINDOW_LOG_MAX).expect("a valid zstd window");
                Ok(Some(Self { name: "zstd", reader: Box::new(frames) }))
            }
            _ => Err(encoding_error("is not one that is read: zstd, gzip".to_owned())),
        }
    }

    /// Writes the decompressed bytes to `out` and returns their number.
    fn copy_to(self, out: &mut impl Write, bytes_max: usize) -> Result<usize, Rejection> {
        let mut out = CountingWriter { out, bytes: 0 };
        // One byte more than allowed, to detect that there is more.
        let copied = io::copy(&mut self.reader.take(bytes_max as u64 + 1), &mut out);
        let bytes = out.bytes;
        // Before the error of the copy: a payload beyond the limit is oversized, whatever follows.
        if bytes > bytes_max {
            let detail = format!("unpacks to more than {bytes_max} bytes, which is the most that is taken");
            return Err(Rejection::of_message(DeadLetterCode::Oversized, detail));
        }
        copied.map(|_| bytes).map_err(|_| {
            encoding_error(format!(
                "is {}, and the payload cannot be unpacked after byte {bytes}: it is cut off, or something else",
                self.name
            ))
        })
    }
}

/// Reader over the members of a gzip payload. Starting a member takes as long as reading forty kilobytes,
/// however little data the member contains, so the number of members is limited.
struct GzipMembers<'a> {
    member: GzDecoder<&'a [u8]>,
    started: usize,
}

impl<'a> GzipMembers<'a> {
    fn new(payload: &'a [u8]) -> Self {
        Self { member: GzDecoder::new(payload), started: 1 }
    }
}

impl Read for GzipMembers<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.member.read(into)?;
            let rest: &[u8] = self.member.get_ref();
            // Reading into an empty buffer returns 0 without being at the end of a member.
            if read > 0 || into.is_empty() || rest.is_empty() {
                return Ok(read);
            }
            if self.started == GZIP_MEMBERS_MAX {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "too many members"));
            }
            self.started += 1;
            self.member = GzDecoder::new(rest);
        }
    }
}

/// Writer that counts bytes, so that an error can report where a payload is cut off.
struct CountingWriter<'w, W> {
    out: &'w mut W,
    bytes: usize,
}

impl<W: Write> Write for CountingWriter<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn encoding_error(detail: String) -> Rejection {
    Rejection::of_field(DeadLetterCode::EncodingInvalid, CONTENT_ENCODING, detail)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        zstd::encode_all(bytes, 3).unwrap()
    }

    fn code(encoding: &str, payload: &[u8]) -> Option<DeadLetterCode> {
        decompress_payload(Some(encoding), &Bytes::copy_from_slice(payload), 1024)
            .err()
            .map(|rejection| rejection.code)
    }

    #[test]
    fn supported_encodings_are_decompressed_and_others_rejected() {
        let text = b"{\"run\": 7}";
        for encoding in ["gzip", "GZip", " x-gzip "] {
            assert_eq!(
                *decompress_payload(Some(encoding), &gzip(text).into(), 1024).unwrap(),
                *text,
                "{encoding}"
            );
        }
        assert_eq!(*decompress_payload(Some("zstd"), &zstd(text).into(), 1024).unwrap(), *text);
        assert_eq!(decompressed_size(Some("zstd"), &zstd(text), 1024), Ok(text.len()));
        assert_eq!(
            decompressed_size(None, text, 1),
            Ok(text.len()),
            "what is not packed is bounded elsewhere"
        );
        let plain = Bytes::from_static(text);
        for encoding in [None, Some("identity")] {
            assert_eq!(
                decompress_payload(encoding, &plain, 1024).unwrap().as_ptr(),
                plain.as_ptr(),
                "it is not copied"
            );
        }
        for encoding in ["br", "deflate", "gzip, zstd", "\u{0}"] {
            assert_eq!(code(encoding, text), Some(DeadLetterCode::EncodingInvalid), "{encoding}");
        }
    }

    #[test]
    fn a_decompression_bomb_stops_at_the_limit() {
        for (encoding, bomb) in [("gzip", gzip(&[b' '; 1 << 20])), ("zstd", zstd(&[b' '; 1 << 20]))] {
            assert!(bomb.len() < 8192, "{encoding}: it is small");
            assert_eq!(code(encoding, &bomb), Some(DeadLetterCode::Oversized), "{encoding}");
            let counted = decompressed_size(Some(encoding), &bomb, 1024);
            assert_eq!(counted.unwrap_err().code, DeadLetterCode::Oversized, "{encoding}");
        }
        let mut packer = zstd::Encoder::new(Vec::new(), 1).unwrap();
        packer.window_log(27).unwrap();
        packer.write_all(b"asks for 128 MiB").unwrap();
        assert_eq!(code("zstd", &packer.finish().unwrap()), Some(DeadLetterCode::EncodingInvalid));
    }

    #[test]
    fn the_number_of_gzip_members_is_limited() {
        let members = |count: usize| gzip(b"x").repeat(count);
        let text =
            decompress_payload(Some("gzip"), &members(GZIP_MEMBERS_MAX).into(), GZIP_MEMBERS_MAX).unwrap();
        assert_eq!(text, "x".repeat(GZIP_MEMBERS_MAX));
        assert_eq!(code("gzip", &members(GZIP_MEMBERS_MAX + 1)), Some(DeadLetterCode::EncodingInvalid));
        assert_eq!(code("gzip", &gzip(b"").repeat(100_000)), Some(DeadLetterCode::EncodingInvalid));
        assert_eq!(
            code("gzip", &[gzip(b"x"), b"rest".to_vec()].concat()),
            Some(DeadLetterCode::EncodingInvalid)
        );
    }

    proptest! {
        #[test]
        fn a_payload_that_is_cut_off_is_refused(text in prop::collection::vec(any::<u8>(), 1..200), cut in any::<prop::sample::Index>()) {
            for (encoding, packed) in [("gzip", gzip(&text)), ("zstd", zstd(&text))] {
                let cut = 1 + cut.index(packed.len() - 1);
                prop_assert_eq!(code(encoding, &packed[..cut]), Some(DeadLetterCode::EncodingInvalid), "{} at {}", encoding, cut);
            }
        }

        #[test]
        fn any_bytes_are_unpacked_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for encoding in ["gzip", "zstd"] {
                let _ = decompress_payload(Some(encoding), &bytes.clone().into(), 1024);
            }
        }
    }
}
