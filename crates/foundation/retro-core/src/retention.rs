//! Digests of events: the few bytes that remain after the details of an event are purged.
//!
//! An event repeated years later must not be counted again, and a different event with the same id must still
//! be detected. A digest of the event's identity serves the first purpose, a digest of its content the
//! second.

use uuid::Uuid;

use crate::canonical::sha256_hex;
use crate::id::{EventKey, derive_uuid};

/// 16-byte digest of an event's identity, 122 bits of which come from a SHA-256. The probability that two of
/// 10^12 events have the same digest is 10^-13.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventDigest(pub Uuid);

impl EventDigest {
    /// Computes the digest of an event as seen by one consumer.
    pub fn of_event(consumer: &str, event: &EventKey) -> Self {
        Self(derive_uuid("event", &[consumer, event.tenant.as_str(), &event.source, &event.id]))
    }
}

/// 8-byte digest of an event's content, long enough to detect a changed event. Senders have no reason to
/// forge a collision between their own events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentDigest(pub [u8; 8]);

impl ContentDigest {
    /// Computes the digest of a content hash, given as hexadecimal digits.
    pub fn of_hash(content_hash: &str) -> Self {
        let hex = sha256_hex(content_hash.as_bytes());
        let number = u64::from_str_radix(&hex[..16], 16).expect("a hash is written in hex");
        Self(number.to_be_bytes())
    }
}

/// Content of an event that arrived before, as its stored hash or digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeenContent {
    /// Full hash of the content.
    Full(String),
    /// Digest of the content hash, which remains after the details are purged.
    Purged(ContentDigest),
}

impl SeenContent {
    /// Returns `true` if the content with this hash is the one that arrived before.
    pub fn matches_hash(&self, content_hash: &str) -> bool {
        match self {
            Self::Full(hash) => hash == content_hash,
            Self::Purged(digest) => *digest == ContentDigest::of_hash(content_hash),
        }
    }
}

impl std::fmt::Display for SeenContent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Full(hash) => write!(f, "data sha256 {hash}"),
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
        let one = EventDigest::of_event("counter", &event("t", "ci", "1"));
        assert_eq!(one, EventDigest::of_event("counter", &event("t", "ci", "1")));
        for other in
            [event("u", "ci", "1"), event("t", "ci1", ""), event("t", "c", "i1"), event("t", "ci", "1\0")]
        {
            assert_ne!(one, EventDigest::of_event("counter", &other), "{other:?}");
        }
        assert_ne!(one, EventDigest::of_event("another", &event("t", "ci", "1")));
    }

    /// Digests are stored, so a changed derivation would count every event again.
    #[test]
    fn digests_never_change_between_versions() {
        let digest = EventDigest::of_event("counter", &event("default", "https://ci.example", "golden"));
        assert_eq!(digest.0.to_string(), "352f4e85-9987-87e9-a9fb-ba48aec0a1d6");
        assert_eq!(ContentDigest::of_hash("golden").0, 0xdd56_de41_3795_1d9c_u64.to_be_bytes());
    }

    #[test]
    fn purged_content_still_differs_from_other_content() {
        let whole = SeenContent::Full("abc".into());
        let purged = SeenContent::Purged(ContentDigest::of_hash("abc"));
        for seen in [whole, purged] {
            assert!(seen.matches_hash("abc") && !seen.matches_hash("abd"), "{seen}");
        }
    }
}
