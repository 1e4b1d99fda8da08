//! Detects when a stream of the broker was replaced, restored or lost.

use std::ops::RangeInclusive;

/// A stream of the broker, as stored in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownStream {
    /// 1-based number of this stream among all streams that have had this name.
    pub number: u64,
    /// Creation time of the stream, as reported by the broker.
    pub created: String,
    /// First sequence that still had a message at the last observation.
    pub first: u64,
    /// Last sequence of the stream at the last observation.
    pub seen_to: u64,
    /// Time when the broker stored the message at [`Self::seen_to`], as reported by the broker; `None` if
    /// that message was not read.
    pub anchor: Option<String>,
    /// Sequence up to which every consumer of the stream has acknowledged every message.
    pub handled_to: u64,
    /// Time of the check that found a different stream under this name, in Unix milliseconds by the database
    /// clock. `None` unless a second check has yet to confirm the finding.
    pub suspected: Option<u64>,
}

/// A stream as observed at the broker, with the state that the database stored *before* the broker was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamObservation {
    /// Name of the stream.
    pub stream: String,
    /// State stored before the broker was asked; `None` if the stream was not stored yet.
    pub known_before: Option<KnownStream>,
    /// Creation time of the stream, as reported by the broker.
    pub created: String,
    /// First sequence that still has a message.
    pub first: u64,
    /// Last sequence of the stream.
    pub last: u64,
    /// Time when the broker stored the message at [`Self::last`]; `None` if that message was not read.
    pub anchor: Option<String>,
    /// Time when the broker stored the message at `seen_to` of [`Self::known_before`]; `None` if that message
    /// was not read.
    pub anchor_before: Option<String>,
    /// Sequence up to which every consumer of the stream has acknowledged every message; equal to
    /// [`Self::last`] for a stream whose loss has no consequence.
    pub handled: u64,
}

/// Conclusion from an observation of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamVerdict {
    /// The stream is observed for the first time.
    FirstSeen,
    /// The stream is the one that the database knows.
    Recognized,
    /// The stream looks like a different one. A single observation proves nothing; a second one, begun after
    /// this one was stored, decides.
    Suspected,
    /// A second observation confirmed that a different stream has replaced the known one.
    Replaced,
    /// The observation is older than the stored state and proves nothing.
    Stale,
}

/// Decides whether an observed stream is the known one, a different one, or observed too late to tell.
///
/// A process may be suspended for any time between asking the broker and storing the response, while others
/// observe and store. A difference is therefore judged only against what was stored *before* the broker was
/// asked: sequences of one stream only grow, so a response with lower sequences than were known by then is not
/// outdated. The state stored now only decides whether the observation is stale, because the stream was
/// replaced, suspected or cleared in the meantime.
///
/// A stream is a different one if its creation time differs, if it ends earlier than before, or if the
/// message at its former end was stored at another time. The last case occurs if the broker was restored from
/// an older copy and has grown since then.
pub fn judge_observation(stored: Option<&KnownStream>, observation: &StreamObservation) -> StreamVerdict {
    let (stored, before) = match (stored, &observation.known_before) {
        (None, None) => return StreamVerdict::FirstSeen,
        (Some(stored), Some(before)) => (stored, before),
        (Some(_), None) | (None, Some(_)) => return StreamVerdict::Stale,
    };
    // Another process has replaced, suspected or cleared the stream since the broker was asked.
    if (stored.number, stored.suspected) != (before.number, before.suspected) {
        return StreamVerdict::Stale;
    }
    match (observation.shows_another(before), before.suspected) {
        (true, None) => StreamVerdict::Suspected,
        (true, Some(_)) => StreamVerdict::Replaced,
        // The same race in the other direction: an outdated response must not undo what a faster process has
        // stored.
        (false, _) if observation.last < stored.seen_to => StreamVerdict::Stale,
        (false, _) => StreamVerdict::Recognized,
    }
}

impl StreamObservation {
    fn shows_another(&self, known: &KnownStream) -> bool {
        let other_message = match (&known.anchor, &self.anchor_before) {
            (Some(then), Some(now)) => then != now,
            // The message expired, was purged by an operator, or could not be read: this proves nothing.
            _ => false,
        };
        self.created != known.created || self.last < known.seen_to || other_message
    }

    /// Creates the stored state of a stream that is new or replaces another one.
    pub fn to_known_stream(&self, number: u64) -> KnownStream {
        KnownStream {
            number,
            created: self.created.clone(),
            first: self.first,
            seen_to: self.last,
            anchor: self.anchor.clone(),
            handled_to: self.handled,
            suspected: None,
        }
    }

    /// Returns the sequence below which waiting messages are gone: they were already missing at the previous
    /// observation.
    pub fn gone_below(&self) -> u64 {
        self.known_before.as_ref().map_or(0, |before| before.first.min(self.first))
    }
}

impl KnownStream {
    /// Returns the stored state after an observation that recognised the stream. Sequences never decrease.
    #[must_use]
    pub fn advance(&self, observation: &StreamObservation) -> Self {
        // An anchor is the time of one message: without a new one, the old one is valid only for the same
        // last sequence.
        let kept = || self.anchor.clone().filter(|_| observation.last == self.seen_to);
        Self {
            number: self.number,
            created: self.created.clone(),
            first: self.first.max(observation.first),
            seen_to: self.seen_to.max(observation.last),
            anchor: observation.anchor.clone().or_else(kept),
            handled_to: self.handled_to.max(observation.handled),
            suspected: None,
        }
    }
}

/// Returns the sequences that are lost with a stream, except the acknowledged ones and those in `known`, in
/// as few ranges as possible. `known` must be sorted in ascending order.
pub fn lost_ranges(stream: &KnownStream, known: impl IntoIterator<Item = u64>) -> Vec<RangeInclusive<u64>> {
    let mut next = stream.handled_to + 1;
    let mut ranges = Vec::new();
    for position in known.into_iter().filter(|position| *position <= stream.seen_to) {
        if position > next {
            ranges.push(next..=position - 1);
        }
        // A position at or below `handled_to` must not move `next` backwards.
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
            created: "then".to_owned(),
            first: 1,
            seen_to,
            anchor,
            handled_to,
            suspected: None,
        }
    }

    /// Returns an observation with this creation time and last sequence, requested when `before` was stored.
    fn sight(before: &KnownStream, made: &str, last: u64) -> StreamObservation {
        StreamObservation {
            stream: "S".to_owned(),
            known_before: Some(before.clone()),
            created: made.to_owned(),
            first: 1,
            last,
            anchor: Some(format!("stored {last}")),
            anchor_before: before.anchor.clone().filter(|_| last >= before.seen_to),
            handled: 0,
        }
    }

    #[test]
    fn a_stream_is_suspected_when_creation_time_end_or_last_message_differ() {
        let one = known(3, 7);
        let other_message =
            StreamObservation { anchor_before: Some("stored later".to_owned()), ..sight(&one, "then", 8) };
        let purged = StreamObservation { anchor_before: None, ..sight(&one, "then", 8) };
        for (sight, expected) in [
            (sight(&one, "then", 7), StreamVerdict::Recognized),
            (sight(&one, "then", 8), StreamVerdict::Recognized),
            (purged, StreamVerdict::Recognized),
            (sight(&one, "then", 6), StreamVerdict::Suspected),
            (sight(&one, "now", 8), StreamVerdict::Suspected),
            (other_message, StreamVerdict::Suspected),
        ] {
            assert_eq!(judge_observation(Some(&one), &sight), expected, "{sight:?}");
        }
    }

    #[test]
    fn only_a_later_observation_confirms_or_clears_a_suspicion() {
        let before = known(3, 7);
        let suspected = KnownStream { suspected: Some(5), ..before.clone() };
        assert_eq!(judge_observation(Some(&suspected), &sight(&before, "now", 1)), StreamVerdict::Stale);
        assert_eq!(judge_observation(Some(&suspected), &sight(&before, "then", 9)), StreamVerdict::Stale);
        assert_eq!(
            judge_observation(Some(&suspected), &sight(&suspected, "now", 1)),
            StreamVerdict::Replaced
        );
        let clears = sight(&suspected, "then", 9);
        assert_eq!(judge_observation(Some(&suspected), &clears), StreamVerdict::Recognized);
        assert_eq!(suspected.advance(&clears).suspected, None);
    }

    #[test]
    fn an_overtaken_observation_is_stale() {
        let (before, since) = (known(3, 7), known(3, 10));
        assert_eq!(judge_observation(Some(&since), &sight(&before, "then", 9)), StreamVerdict::Stale);
        let replaced = KnownStream { number: 2, ..known(0, 2) };
        assert_eq!(judge_observation(Some(&replaced), &sight(&before, "then", 9)), StreamVerdict::Stale);
        let first = StreamObservation { known_before: None, ..sight(&before, "then", 5) };
        assert_eq!(judge_observation(None, &first), StreamVerdict::FirstSeen);
        assert_eq!(judge_observation(Some(&before), &first), StreamVerdict::Stale);
        assert_eq!(judge_observation(None, &sight(&before, "then", 9)), StreamVerdict::Stale);
    }

    #[test]
    fn no_sequence_of_a_known_stream_decreases() {
        let one = KnownStream { first: 4, ..known(6, 7) };
        let unread = StreamObservation { anchor: None, ..sight(&one, "then", 7) };
        assert_eq!(one.advance(&unread), one, "an anchor that was read once stays with its position");
        let longer = StreamObservation { anchor: None, ..sight(&one, "then", 8) };
        assert_eq!(one.advance(&longer), KnownStream { seen_to: 8, anchor: None, ..one });
    }

    #[test]
    fn missing_messages_are_gone_at_the_second_observation() {
        let one = known(3, 7);
        let purged = StreamObservation { first: 6, ..sight(&one, "then", 7) };
        assert_eq!(purged.gone_below(), 1);
        let second = StreamObservation { known_before: Some(one.advance(&purged)), ..purged };
        assert_eq!(second.gone_below(), 6);
    }

    #[test]
    fn unacknowledged_messages_are_lost() {
        for (handled_to, seen_to, named, expected) in [
            (7, 7, vec![], vec![]),
            (0, 0, vec![], vec![]),
            (3, 7, vec![], vec![4..=7]),
            (3, 7, vec![4, 5, 6, 7], vec![]),
            (3, 7, vec![5], vec![4..=4, 6..=7]),
            (3, 7, vec![1, 4, 9], vec![5..=7]),
            // A consumer that was created again has acknowledged nothing yet.
            (9, 7, vec![], vec![]),
        ] {
            assert_eq!(
                lost_ranges(&known(handled_to, seen_to), named.clone()),
                expected,
                "{handled_to} {seen_to} {named:?}"
            );
        }
    }
}
