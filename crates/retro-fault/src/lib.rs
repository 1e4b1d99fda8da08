#![doc = include_str!("../README.md")]

#[cfg(feature = "armed")]
mod armed;

macro_rules! words {
    ($(#[$doc:meta])* pub enum $name:ident { $($(#[$of:meta])* $one:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$of])* $one,)* }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$one),*];

            /// The word in variables, reports and names of tests.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$one => $text),* }
            }
        }
    };
}

words! {
    /// A durable step: a commit, a publication or an acknowledgement. The name says whose it is, and ends in what it is.
    /// Each is crossed in one place of the program, or in one of each database.
    pub enum Label {
        // Migration.
        /// SQLite's file comes to be.
        MigrateFile = "migrate.file",
        /// Every migration that is missing, in one transaction.
        MigrateCommit = "migrate.commit",
        /// A stream is made at the broker.
        StreamCreate = "stream.create",
        /// A stream is made what it has to be.
        StreamUpdate = "stream.update",
        /// A durable consumer is made at the broker.
        ConsumerCreate = "consumer.create",
        /// A durable consumer is made what it has to be.
        ConsumerUpdate = "consumer.update",
        // Intake.
        /// `retro emit` hands over one event.
        EmitPublish = "emit.publish",
        /// The gateway hands over an event that came alone.
        IntakeOnePublish = "intake.one.publish",
        /// The gateway opens a batch of events with its first one.
        IntakeFirstPublish = "intake.first.publish",
        /// An event between the first and the last one of a batch.
        IntakeNextPublish = "intake.next.publish",
        /// The last event, with which the broker stores the whole batch.
        IntakeLastPublish = "intake.last.publish",
        /// The bridge hands over what happened at GitHub.
        BridgePublish = "bridge.publish",
        /// A body is stored in the broker's object store.
        ObjectPut = "object.put",
        // The road.
        /// The counter's batch of events.
        CountCommit = "count.commit",
        /// Its events are acknowledged.
        CountAck = "count.ack",
        /// A window is sampled.
        SampleCommit = "sample.commit",
        /// What woke the sampler is acknowledged.
        SampleAck = "sample.ack",
        /// What woke the investigator is acknowledged: it has told a worker, no more.
        InvestigateAck = "investigate.ack",
        /// A worker takes an investigation, with a new token.
        ClaimCommit = "claim.commit",
        /// A worker holds its lease.
        HeartbeatCommit = "heartbeat.commit",
        /// What the investigator is shown is journalled.
        JournalBriefedCommit = "journal.briefed.commit",
        /// What the investigator said is journalled.
        JournalAnsweredCommit = "journal.answered.commit",
        /// A failed attempt gives its investigation back, for later.
        RetryCommit = "retry.commit",
        /// A worker that stops gives its investigation back.
        ReleaseCommit = "release.commit",
        /// An investigation ends; the next one is due, or the batch for the writer is.
        FinishCommit = "finish.commit",
        /// The writer closes a retrospective: changes, report, and the workflow is free.
        CloseCommit = "close.commit",
        /// The writer credits memories with the end of a pull request.
        CreditCommit = "credit.commit",
        /// What woke the writer is acknowledged.
        WriteAck = "write.ack",
        // Reviews.
        /// The reviewer's batch of what people said.
        HearCommit = "hear.commit",
        /// What they said is acknowledged.
        HearAck = "hear.ack",
        /// What was decided about a pull request's remarks is stored, and the writer is to be told.
        ReviewCommit = "review.commit",
        /// The writer closes such a batch: changes and report.
        RulesCommit = "rules.commit",
        // The relay.
        /// The relay hands a message to the broker.
        RelayPublish = "relay.publish",
        /// The relay marks messages as sent.
        RelayMarkCommit = "relay.mark.commit",
        // Outcomes.
        /// What an event says of a pull request is stored.
        TrackCommit = "track.commit",
        /// Where runs belong is stored.
        FollowCommit = "follow.commit",
        /// An event of a pull request is acknowledged.
        TrackAck = "track.ack",
        // Dead letters.
        /// An attempt is counted, before the handler runs.
        AttemptCommit = "attempt.commit",
        /// The attempts at a message that was handled in the end are forgotten.
        AttemptForgetCommit = "attempt.forget.commit",
        /// That an attempt failed, and why, is noted.
        FailureCommit = "failure.commit",
        /// A message is put off at the broker.
        PutOffNak = "put_off.nak",
        /// A message becomes a dead letter.
        BuryCommit = "bury.commit",
        /// A message that is a dead letter by now is acknowledged.
        BuryAck = "bury.ack",
        /// Replaying the letter of a failed retrospective opens the next one.
        ReopenCommit = "reopen.commit",
        /// A person makes a version of a dead letter.
        MendCommit = "mend.commit",
        /// A person has a dead letter sent again.
        ReplayCommit = "replay.commit",
        /// A person puts dead letters aside.
        DiscardCommit = "discard.commit",
        /// A person has many dead letters sent again.
        BatchStartCommit = "batch.start.commit",
        /// Letters of a batch are taken up, or it ends.
        BatchStepCommit = "batch.step.commit",
        /// A person calls a batch off.
        BatchCancelCommit = "batch.cancel.commit",
        /// The relay hands a dead letter to the broker again.
        ReplayPublish = "replay.publish",
        /// It is marked as sent.
        ReplayMarkCommit = "replay.mark.commit",
        /// The broker does not take it, and it is open again.
        ReplayRefuseCommit = "replay.refuse.commit",
        /// What came of a replay is stored.
        SettleCommit = "settle.commit",
        /// What a person did about dead letters is written down.
        NoteCommit = "note.commit",
        // The backstop.
        /// How a stream of the broker looks is remembered; one that was made anew is fed again.
        LookCommit = "look.commit",
        /// Messages that wait are remembered by name.
        NameWaitingCommit = "name.waiting.commit",
        /// A person closes losses.
        CloseLossesCommit = "close.losses.commit",
        /// Somebody begins to compare a stream with what was done.
        CompareCommit = "compare.commit",
        /// How far a stream was compared with what was done is remembered.
        CheckedCommit = "checked.commit",
        // Agents.
        /// The gateway records what stood in a run's prompt.
        PresentedCommit = "presented.commit",
        /// The gateway records that a run opened a memory.
        ReadCommit = "read.commit",
        /// A request with a key begins.
        RequestBeginCommit = "request.begin.commit",
        /// Its answer is kept, or the key is free again.
        RequestEndCommit = "request.end.commit",
        /// Old answers are forgotten.
        RequestForgetCommit = "request.forget.commit",
        // People.
        /// A person asks for a retrospective of named runs.
        TriggerCommit = "trigger.commit",
        /// A person decides about a proposal.
        DecideCommit = "decide.commit",
        /// A person promotes a rule.
        PromoteCommit = "promote.commit",
        /// A person deletes a memory.
        DeleteCommit = "delete.commit",
        /// A person calls a retrospective off.
        CancelCommit = "cancel.commit",
        // Retention.
        /// Bodies that grew old are dropped.
        PurgeBodiesCommit = "purge.bodies.commit",
        /// Journals of what has ended are dropped.
        PurgeJournalsCommit = "purge.journals.commit",
        /// What old events said is dropped; their identities stay.
        PurgeRunsCommit = "purge.runs.commit",
        /// Inbox rows shrink to a digest.
        PurgeEventsCommit = "purge.events.commit",
        /// Messages that were sent long ago are dropped.
        PurgeMessagesCommit = "purge.messages.commit",
        /// Attempts of which nothing was heard again are dropped.
        PurgeAttemptsCommit = "purge.attempts.commit",
        // Vectors.
        /// What an embedder made of memories is kept.
        KeepVectorsCommit = "keep.vectors.commit",
        /// What embedders of long ago made is forgotten.
        ForgetVectorsCommit = "forget.vectors.commit",
    }
}

words! {
    /// On which side of the step the process dies.
    pub enum Side {
        /// It has not been asked for.
        Before = "before",
        /// It is done, and nobody has been told.
        After = "after",
    }
}

words! {
    /// A guard of the program that a test may take away, to see that the checker notices.
    pub enum Guard {
        /// An event that was handled before is known.
        Inbox = "inbox",
        /// A worker whose claim was taken over commits nothing.
        Fencing = "fencing",
        /// A change that has happened does not happen again.
        EffectKey = "effect_key",
        /// A message is marked as sent only when the broker has it.
        Outbox = "outbox",
        /// Giving up twice on one message leaves one dead letter.
        LetterId = "letter_id",
    }
}

words! {
    /// What a poisoned message does to whoever handles it.
    pub enum Poison {
        /// It panics.
        Panic = "panic",
        /// It ends the process at once.
        Abort = "abort",
        /// It computes without end and never gives its thread back.
        Loop = "loop",
        /// It takes memory until there is none; under a limit only.
        Hog = "hog",
    }
}

/// The process crosses a point; a test may have it die here.
#[inline]
pub fn cross(label: Label, side: Side) {
    #[cfg(feature = "armed")]
    armed::cross(label, side);
    #[cfg(not(feature = "armed"))]
    let _ = (label, side);
}

/// Takes a durable step, and crosses its two sides. One that failed has no other side: nobody knows whether it is done.
pub async fn step<T, E>(label: Label, step: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    cross(label, Side::Before);
    let done = step.await?;
    cross(label, Side::After);
    Ok(done)
}

/// Somebody (a consumer's name, or `engine`) begins to handle this; a test may have poisoned it.
#[inline]
pub fn poison(who: &str, what: &[u8]) {
    #[cfg(feature = "armed")]
    armed::poison(who, what);
    #[cfg(not(feature = "armed"))]
    let _ = (who, what);
}

/// By how many seconds a test has set this process's clock wrong. Never in what is shipped: 0.
#[inline]
pub fn clock_off_s() -> i64 {
    #[cfg(feature = "armed")]
    return armed::clock_off_s();
    #[cfg(not(feature = "armed"))]
    0
}

/// Whether a test has taken this guard away. Never in what is shipped.
#[inline]
pub fn broken(guard: Guard) -> bool {
    #[cfg(feature = "armed")]
    return armed::broken(guard);
    #[cfg(not(feature = "armed"))]
    {
        let _ = guard;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_of_a_label_is_its_name() {
        for label in Label::ALL {
            let word: String = label.as_str().chars().filter(|one| one.is_alphanumeric()).collect();
            assert_eq!(word, format!("{label:?}").to_lowercase());
        }
    }
}
