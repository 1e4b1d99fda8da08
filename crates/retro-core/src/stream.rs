//! What it means that a stream of the broker looks different from the last time.

use std::ops::RangeInclusive;

/// A stream as it was last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// When the broker had made it, as it said.
    pub made: String,
    /// Its last position.
    pub seen_to: u64,
    /// Everything up to here was acknowledged by its consumer.
    pub handled_to: u64,
}

/// Whether a stream, made at this time and ending at `last`, is the one that is known. One that was made at another time is
/// not; nor is one that ends earlier than it did, as a broker restored from an older copy has: it will give positions that it
/// gave before to other messages.
pub fn is_same(known: &Known, made: &str, last: u64) -> bool {
    known.made == made && last >= known.seen_to
}

/// The positions that are lost with a stream, when these are handled or known by name: everything that was there and not
/// acknowledged, in as few ranges as can be. `known` is in rising order.
pub fn lost(stream: &Known, known: impl IntoIterator<Item = u64>) -> Vec<RangeInclusive<u64>> {
    let mut next = stream.handled_to + 1;
    let mut ranges = Vec::new();
    for position in known.into_iter().filter(|position| *position <= stream.seen_to) {
        if position > next {
            ranges.push(next..=position - 1);
        }
        next = next.max(position + 1);
    }
    if next <= stream.seen_to {
        ranges.push(next..=stream.seen_to);
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(handled_to: u64, seen_to: u64) -> Known {
        Known { made: "then".to_owned(), seen_to, handled_to }
    }

    #[test]
    fn a_stream_is_another_when_it_was_made_at_another_time_or_has_lost_its_end() {
        assert!(is_same(&known(3, 7), "then", 7));
        assert!(is_same(&known(3, 7), "then", 8));
        assert!(!is_same(&known(3, 7), "then", 6));
        assert!(!is_same(&known(3, 7), "now", 8));
    }

    #[test]
    fn what_was_there_and_not_acknowledged_is_lost() {
        for (handled_to, seen_to, named, expected) in [
            (7, 7, vec![], vec![]),
            (0, 0, vec![], vec![]),
            (3, 7, vec![], vec![4..=7]),
            (3, 7, vec![4, 5, 6, 7], vec![]),
            (3, 7, vec![5], vec![4..=4, 6..=7]),
            (3, 7, vec![1, 4, 9], vec![5..=7]),
            // A consumer that was made anew has acknowledged nothing yet.
            (9, 7, vec![], vec![]),
        ] {
            assert_eq!(
                lost(&known(handled_to, seen_to), named.clone()),
                expected,
                "{handled_to} {seen_to} {named:?}"
            );
        }
    }
}
