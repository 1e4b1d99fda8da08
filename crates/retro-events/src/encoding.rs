//! A compressed payload → its bytes, never more of them than the caller takes.
//!
//! The header `content-encoding` says how a payload is packed, over NATS as over HTTP. Read are `zstd` and `gzip`:
//! what engines and HTTP clients write. A few bytes can unpack to gigabytes, so reading stops at the bound.

use std::io::{self, Read, Write};

use bytes::Bytes;
use flate2::bufread::GzDecoder;
use retro_core::dead_letter::{Code, Rejection};

/// The header that says how a payload is packed.
pub const HEADER: &str = "content-encoding";
/// The largest window of a zstd frame, as a power of two: 8 MiB, which RFC 9659 lets senders count on. A frame may
/// ask its reader for gigabytes of memory.
const WINDOW_LOG_MAX: u32 = 23;

/// The most members of a gzip payload: what packs in blocks of 64 KiB writes some 260 for the largest event.
const GZIP_MEMBERS_MAX: usize = 1024;

/// Whether an encoding is one that is read.
pub fn is_read(encoding: &str) -> bool {
    ["", "identity", "gzip", "x-gzip", "zstd"].contains(&encoding.trim().to_ascii_lowercase().as_str())
}

/// Unpacks a payload to at most `bytes_max` bytes; without an encoding it stays as it is. Fails with
/// `encoding_invalid` at `content-encoding`, or with `oversized`.
pub fn unpack(encoding: Option<&str>, payload: &Bytes, bytes_max: usize) -> Result<Bytes, Rejection> {
    let Some(packed) = Packed::open(encoding, payload)? else { return Ok(payload.clone()) };
    let mut bytes = Vec::new();
    packed.copy_to(&mut bytes, bytes_max)?;
    bytes.shrink_to_fit();
    Ok(bytes.into())
}

/// Returns how many bytes a payload unpacks to, without keeping any. Fails as [`unpack`] does.
pub fn unpacked_bytes(encoding: Option<&str>, payload: &[u8], bytes_max: usize) -> Result<usize, Rejection> {
    match Packed::open(encoding, payload)? {
        Some(packed) => packed.copy_to(&mut io::sink(), bytes_max),
        None => Ok(payload.len()),
    }
}

/// A payload that is being unpacked.
struct Packed<'a> {
    name: &'static str,
    reader: Box<dyn Read + 'a>,
}

impl<'a> Packed<'a> {
    /// `None` for a payload that is not packed.
    fn open(encoding: Option<&str>, payload: &'a [u8]) -> Result<Option<Self>, Rejection> {
        let encoding = encoding.unwrap_or_default().trim().to_ascii_lowercase();
        match encoding.as_str() {
            "" | "identity" => Ok(None),
            "gzip" | "x-gzip" => Ok(Some(Self { name: "gzip", reader: Box::new(Members::new(payload)) })),
            "zstd" => {
                let mut frames =
                    zstd::Decoder::with_buffer(payload).expect("a decoder needs nothing but memory");
                frames.window_log_max(WINDOW_LOG_MAX).expect("a window that zstd knows");
                Ok(Some(Self { name: "zstd", reader: Box::new(frames) }))
            }
            _ => Err(invalid("is not one that is read: zstd, gzip".to_owned())),
        }
    }

    /// Writes what comes out, and returns how many bytes these are.
    fn copy_to(self, out: &mut impl Write, bytes_max: usize) -> Result<usize, Rejection> {
        let mut out = Counted { out, bytes: 0 };
        // One more than is taken, to see that there is more.
        let copied = io::copy(&mut self.reader.take(bytes_max as u64 + 1), &mut out);
        let bytes = out.bytes;
        if bytes > bytes_max {
            let detail = format!("unpacks to more than {bytes_max} bytes, which is the most that is taken");
            return Err(Rejection::whole(Code::Oversized, detail));
        }
        copied.map(|_| bytes).map_err(|_| {
            invalid(format!(
                "is {}, and the payload cannot be unpacked after byte {bytes}: it is cut off, or something else",
                self.name
            ))
        })
    }
}

/// The members of a gzip payload, one after the other. Each costs as much to begin as forty kilobytes, however little is in it.
struct Members<'a> {
    member: GzDecoder<&'a [u8]>,
    begun: usize,
}

impl<'a> Members<'a> {
    fn new(payload: &'a [u8]) -> Self {
        Self { member: GzDecoder::new(payload), begun: 1 }
    }
}

impl Read for Members<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.member.read(into)?;
            let rest: &[u8] = self.member.get_ref();
            if read > 0 || into.is_empty() || rest.is_empty() {
                return Ok(read);
            }
            if self.begun == GZIP_MEMBERS_MAX {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "too many members"));
            }
            self.begun += 1;
            self.member = GzDecoder::new(rest);
        }
    }
}

/// Counts what is written, so that a payload that is cut off says where.
struct Counted<'w, W> {
    out: &'w mut W,
    bytes: usize,
}

impl<W: Write> Write for Counted<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn invalid(detail: String) -> Rejection {
    Rejection::at(Code::EncodingInvalid, HEADER, detail)
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

    fn code(encoding: &str, payload: &[u8]) -> Option<Code> {
        unpack(Some(encoding), &Bytes::copy_from_slice(payload), 1024).err().map(|rejection| rejection.code)
    }

    #[test]
    fn what_is_packed_comes_out_and_another_encoding_is_refused() {
        let text = b"{\"run\": 7}";
        for encoding in ["gzip", "GZip", " x-gzip "] {
            assert_eq!(*unpack(Some(encoding), &gzip(text).into(), 1024).unwrap(), *text, "{encoding}");
        }
        assert_eq!(*unpack(Some("zstd"), &zstd(text).into(), 1024).unwrap(), *text);
        assert_eq!(unpacked_bytes(Some("zstd"), &zstd(text), 1024), Ok(text.len()));
        assert_eq!(unpacked_bytes(None, text, 1), Ok(text.len()), "what is not packed is bounded elsewhere");
        let plain = Bytes::from_static(text);
        for encoding in [None, Some("identity")] {
            assert_eq!(unpack(encoding, &plain, 1024).unwrap().as_ptr(), plain.as_ptr(), "it is not copied");
        }
        for encoding in ["br", "deflate", "gzip, zstd", "\u{0}"] {
            assert_eq!(code(encoding, text), Some(Code::EncodingInvalid), "{encoding}");
        }
    }

    #[test]
    fn a_bomb_is_left_at_the_bound() {
        for (encoding, bomb) in [("gzip", gzip(&[b' '; 1 << 20])), ("zstd", zstd(&[b' '; 1 << 20]))] {
            assert!(bomb.len() < 8192, "{encoding}: it is small");
            assert_eq!(code(encoding, &bomb), Some(Code::Oversized), "{encoding}");
            let counted = unpacked_bytes(Some(encoding), &bomb, 1024);
            assert_eq!(counted.unwrap_err().code, Code::Oversized, "{encoding}");
        }
        let mut packer = zstd::Encoder::new(Vec::new(), 1).unwrap();
        packer.window_log(27).unwrap();
        packer.write_all(b"asks for 128 MiB").unwrap();
        assert_eq!(code("zstd", &packer.finish().unwrap()), Some(Code::EncodingInvalid));
    }

    #[test]
    fn gzip_may_have_members_and_not_as_many_as_it_likes() {
        let members = |count: usize| gzip(b"x").repeat(count);
        let text = unpack(Some("gzip"), &members(GZIP_MEMBERS_MAX).into(), GZIP_MEMBERS_MAX).unwrap();
        assert_eq!(text, "x".repeat(GZIP_MEMBERS_MAX));
        assert_eq!(code("gzip", &members(GZIP_MEMBERS_MAX + 1)), Some(Code::EncodingInvalid));
        assert_eq!(code("gzip", &gzip(b"").repeat(100_000)), Some(Code::EncodingInvalid));
        assert_eq!(code("gzip", &[gzip(b"x"), b"rest".to_vec()].concat()), Some(Code::EncodingInvalid));
    }

    proptest! {
        #[test]
        fn a_payload_that_is_cut_off_is_refused(text in prop::collection::vec(any::<u8>(), 1..200), cut in any::<prop::sample::Index>()) {
            for (encoding, packed) in [("gzip", gzip(&text)), ("zstd", zstd(&text))] {
                let cut = 1 + cut.index(packed.len() - 1);
                prop_assert_eq!(code(encoding, &packed[..cut]), Some(Code::EncodingInvalid), "{} at {}", encoding, cut);
            }
        }

        #[test]
        fn any_bytes_are_unpacked_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for encoding in ["gzip", "zstd"] {
                let _ = unpack(Some(encoding), &bytes.clone().into(), 1024);
            }
        }
    }
}
