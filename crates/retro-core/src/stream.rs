//! What it means that a stream of the broker looks different from the last time.

use std::ops::RangeInclusive;

/// A stream as the database remembers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownStream {
    /// 1-based number among the streams that have had its name.
    pub number: u64,
    /// When the broker made it, as the broker says.
    pub made: String,
    /// Its first position that still held a message.
    pub first: u64,
    /// Its last position.
    pub seen_to: u64,
    /// When the broker stored the message at [`Self::seen_to`], as the broker says; `None` where it was not read.
    pub anchor: Option<String>,
    /// Everything up to here was acknowledged by each of its consumers.
    pub handled_to: u64,
    /// The look that found another stream in its place, in Unix milliseconds of the database; nobody has confirmed it yet.
    pub suspected: Option<u64>,
}

/// A stream as the broker shows it, with what the database remembered *before* the broker was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSight {
    /// Its name.
    pub stream: String,
    /// What the database remembered before the broker was asked; `None` when it had never seen the stream.
    pub known_before: Option<KnownStream>,
    /// When the broker made it, as the broker says.
    pub made: String,
    /// Its first position that still holds a message.
    pub first: u64,
    /// Its last position.
    pub last: u64,
    /// When the broker stored the message at [`Self::last`]; `None` where it was not read.
    pub anchor: Option<String>,
    /// When the broker stored the message at the `seen_to` of [`Self::known_before`]; `None` where it was not read.
    pub anchor_before: Option<String>,
    /// Everything up to here was acknowledged by each of its consumers; [`Self::last`] where losing it loses nothing.
    pub handled: u64,
}

/// What follows from a sight of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SightVerdict {
    /// The stream is seen for the first time.
    Begin,
    /// It is the known stream.
    Recognized,
    /// It looks like another stream. One look proves nothing: another look, begun after this one was stored, decides.
    Suspected,
    /// A second look has confirmed it: the known stream has ended.
    Replaced,
    /// The sight is older than what is stored since, and says nothing.
    Stale,
}

/// Judges a sight against what the database remembers now.
///
/// Between asking the broker and storing the answer a process may be held up for any time, while others look and store. So a
/// sight is compared with what was stored *before* the broker was asked, never with what was stored since: positions of one
/// stream only grow, hence an answer that is smaller than what was known when the question was asked cannot be an old one.
/// A sight whose stream was replaced, suspected or cleared meanwhile is stale.
///
/// A stream is another one when the broker made it at another moment, when it ends earlier than it did, or when the message
/// at its former end was stored at another moment, as in a broker that was restored from an older copy and has grown since.
pub fn judge_sight(stored: Option<&KnownStream>, sight: &StreamSight) -> SightVerdict {
    let (stored, before) = match (stored, &sight.known_before) {
        (None, None) => return SightVerdict::Begin,
        (Some(stored), Some(before)) => (stored, before),
        (Some(_), None) | (None, Some(_)) => return SightVerdict::Stale,
    };
    if (stored.number, stored.suspected) != (before.number, before.suspected) {
        return SightVerdict::Stale;
    }
    match (sight.shows_another(before), before.suspected) {
        (true, None) => SightVerdict::Suspected,
        (true, Some(_)) => SightVerdict::Replaced,
        // The other direction of the same race: it must not take back what a quicker process has stored.
        (false, _) if sight.last < stored.seen_to => SightVerdict::Stale,
        (false, _) => SightVerdict::Recognized,
    }
}

impl StreamSight {
    fn shows_another(&self, known: &KnownStream) -> bool {
        let other_message = match (&known.anchor, &self.anchor_before) {
            (Some(then), Some(now)) => then != now,
            // Its age or an operator has removed the message, or nobody could read it.
            _ => false,
        };
        self.made != known.made || self.last < known.seen_to || other_message
    }

    /// The first row of a stream that is seen for the first time, or in the place of another.
    pub fn begin(&self, number: u64) -> KnownStream {
        KnownStream {
            number,
            made: self.made.clone(),
            first: self.first,
            seen_to: self.last,
            anchor: self.anchor.clone(),
            handled_to: self.handled,
            suspected: None,
        }
    }

    /// Messages that waited below this position are gone: they were missing at the look before, too.
    pub fn gone_below(&self) -> u64 {
        self.known_before.as_ref().map_or(0, |before| before.first.min(self.first))
    }
}

impl KnownStream {
    /// The row after a sight in which it was recognized. No position goes back.
    #[must_use]
    pub fn advance(&self, sight: &StreamSight) -> Self {
        let kept = || self.anchor.clone().filter(|_| sight.last == self.seen_to);
        Self {
            number: self.number,
            made: self.made.clone(),
            first: self.first.max(sight.first),
            seen_to: self.seen_to.max(sight.last),
            anchor: sight.anchor.clone().or_else(kept),
            handled_to: self.handled_to.max(sight.handled),
            suspected: None,
        }
    }
}

/// The positions that are lost with a stream, when these are handled or known by name: everything that was there and not
/// acknowledged, in as few ranges as can be. `known` is in rising order.
pub fn lost(stream: &KnownStream, known: impl IntoIterator<Item = u64>) -> Vec<RangeInclusive<u64>> {
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

    fn known(handled_to: u64, seen_to: u64) -> KnownStream {
        let anchor = Some(format!("stored {seen_to}"));
        KnownStream {
            number: 1,
            made: "then".to_owned(),
            first: 1,
            seen_to,
            anchor,
            handled_to,
            suspected: None,
        }
    }

    /// A sight of a stream made at a moment and ending at a position, asked for when this was known.
    fn sight(before: &KnownStream, made: &str, last: u64) -> StreamSight {
        StreamSight {
            stream: "S".to_owned(),
            known_before: Some(before.clone()),
            made: made.to_owned(),
            first: 1,
            last,
            anchor: Some(format!("stored {last}")),
            anchor_before: before.anchor.clone().filter(|_| last >= before.seen_to),
            handled: 0,
        }
    }

    #[test]
    fn a_stream_is_suspected_when_it_was_made_at_another_time_has_lost_its_end_or_holds_another_message_there()
     {
        let one = known(3, 7);
        let other_message =
            StreamSight { anchor_before: Some("stored later".to_owned()), ..sight(&one, "then", 8) };
        let purged = StreamSight { anchor_before: None, ..sight(&one, "then", 8) };
        for (sight, expected) in [
            (sight(&one, "then", 7), SightVerdict::Recognized),
            (sight(&one, "then", 8), SightVerdict::Recognized),
            (purged, SightVerdict::Recognized),
            (sight(&one, "then", 6), SightVerdict::Suspected),
            (sight(&one, "now", 8), SightVerdict::Suspected),
            (other_message, SightVerdict::Suspected),
        ] {
            assert_eq!(judge_sight(Some(&one), &sight), expected, "{sight:?}");
        }
    }

    #[test]
    fn a_suspicion_is_confirmed_or_cleared_only_by_a_look_that_began_after_it() {
        let before = known(3, 7);
        let suspected = KnownStream { suspected: Some(5), ..before.clone() };
        assert_eq!(judge_sight(Some(&suspected), &sight(&before, "now", 1)), SightVerdict::Stale);
        assert_eq!(judge_sight(Some(&suspected), &sight(&before, "then", 9)), SightVerdict::Stale);
        assert_eq!(judge_sight(Some(&suspected), &sight(&suspected, "now", 1)), SightVerdict::Replaced);
        let clears = sight(&suspected, "then", 9);
        assert_eq!(judge_sight(Some(&suspected), &clears), SightVerdict::Recognized);
        assert_eq!(suspected.advance(&clears).suspected, None);
    }

    #[test]
    fn a_sight_that_was_overtaken_says_nothing() {
        let (before, since) = (known(3, 7), known(3, 10));
        assert_eq!(judge_sight(Some(&since), &sight(&before, "then", 9)), SightVerdict::Stale);
        let replaced = KnownStream { number: 2, ..known(0, 2) };
        assert_eq!(judge_sight(Some(&replaced), &sight(&before, "then", 9)), SightVerdict::Stale);
        let first = StreamSight { known_before: None, ..sight(&before, "then", 5) };
        assert_eq!(judge_sight(None, &first), SightVerdict::Begin);
        assert_eq!(judge_sight(Some(&before), &first), SightVerdict::Stale);
        assert_eq!(judge_sight(None, &sight(&before, "then", 9)), SightVerdict::Stale);
    }

    #[test]
    fn no_position_of_a_known_stream_goes_back() {
        let one = KnownStream { first: 4, ..known(6, 7) };
        let unread = StreamSight { anchor: None, ..sight(&one, "then", 7) };
        assert_eq!(one.advance(&unread), one, "an anchor that was read once stays with its position");
        let longer = StreamSight { anchor: None, ..sight(&one, "then", 8) };
        assert_eq!(one.advance(&longer), KnownStream { seen_to: 8, anchor: None, ..one });
    }

    #[test]
    fn what_is_missing_at_the_front_is_gone_at_the_second_look() {
        let one = known(3, 7);
        let purged = StreamSight { first: 6, ..sight(&one, "then", 7) };
        assert_eq!(purged.gone_below(), 1);
        let second = StreamSight { known_before: Some(one.advance(&purged)), ..purged };
        assert_eq!(second.gone_below(), 6);
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
