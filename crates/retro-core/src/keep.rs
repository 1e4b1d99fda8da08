//! What is left of an event when its details are purged: a few bytes by which it is known for ever.
//!
//! An event that comes again years later must not count again, and one that comes under the same id with other content
//! must still be told. A digest of the identity does the first and eight bytes of the content's hash the second.

use uuid::Uuid;

use crate::canonical::sha256_hex;
use crate::id::{EventKey, derive};

/// An event's identity in 16 bytes: 122 bits of a SHA-256. Among 10^12 events two share one with a chance of 10^-13.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventDigest(pub Uuid);

impl EventDigest {
    /// The digest of an event as `consumer` saw it.
    pub fn of(consumer: &str, event: &EventKey) -> Self {
        Self(derive("event", &[consumer, event.tenant.as_str(), &event.source, &event.id]))
    }
}

/// An event's content in 8 bytes: enough to tell a changed event from the same one, which nobody forges against
/// himself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentDigest(pub [u8; 8]);

impl ContentDigest {
    /// The digest of a content hash.
    pub fn of(content_hash: &str) -> Self {
        let hex = sha256_hex(content_hash.as_bytes());
        let number = u64::from_str_radix(&hex[..16], 16).expect("a hash is written in hex");
        Self(number.to_be_bytes())
    }
}

/// What is remembered of the content of an event that was seen before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// Its hash.
    Whole(String),
    /// A digest of its hash: the details were purged.
    Purged(ContentDigest),
}

impl Seen {
    /// Whether this is the content that was seen.
    pub fn is(&self, content_hash: &str) -> bool {
        match self {
            Self::Whole(hash) => hash == content_hash,
            Self::Purged(digest) => *digest == ContentDigest::of(content_hash),
        }
    }
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole(hash) => write!(f, "data sha256 {hash}"),
            Self::Purged(_) => f.write_str("its hash was purged since"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Tenant;

    fn event(tenant: &str, source: &str, id: &str) -> EventKey {
        EventKey { tenant: Tenant::new(tenant).unwrap(), source: source.into(), id: id.into() }
    }

    #[test]
    fn every_part_of_an_identity_counts() {
        let one = EventDigest::of("counter", &event("t", "ci", "1"));
        assert_eq!(one, EventDigest::of("counter", &event("t", "ci", "1")));
        for other in
            [event("u", "ci", "1"), event("t", "ci1", ""), event("t", "c", "i1"), event("t", "ci", "1\0")]
        {
            assert_ne!(one, EventDigest::of("counter", &other), "{other:?}");
        }
        assert_ne!(one, EventDigest::of("another", &event("t", "ci", "1")));
    }

    /// They are stored: another recipe would count everything again.
    #[test]
    fn digests_never_change_between_versions() {
        let digest = EventDigest::of("counter", &event("default", "https://ci.example", "golden"));
        assert_eq!(digest.0.to_string(), "352f4e85-9987-87e9-a9fb-ba48aec0a1d6");
        assert_eq!(ContentDigest::of("golden").0, 0xdd56_de41_3795_1d9c_u64.to_be_bytes());
    }

    #[test]
    fn purged_content_is_still_told_from_other_content() {
        let whole = Seen::Whole("abc".into());
        let purged = Seen::Purged(ContentDigest::of("abc"));
        for seen in [whole, purged] {
            assert!(seen.is("abc") && !seen.is("abd"), "{seen}");
        }
    }
}
