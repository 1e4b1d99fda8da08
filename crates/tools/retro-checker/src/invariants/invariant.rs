//! Lists the invariants.

macro_rules! invariants {
    ($($name:ident = $word:literal, $sentence:literal;)*) => {
        /// A property that must always hold.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Invariant {
            $(#[doc = $sentence] $name,)*
        }

        impl Invariant {
            /// All invariants.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Returns the snake-case name of the invariant.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word),* }
            }

            /// Returns the invariant as a sentence.
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$name => $sentence),* }
            }
        }
    };
}

invariants! {
    NothingLost = "nothing_lost", "Every acknowledged event is counted, a known duplicate, dead-lettered, or in flight.";
    NothingInvented = "nothing_invented", "Every stored run was emitted.";
    EventOnce = "event_once", "An event is handled once, however often it is delivered.";
    RunOnce = "run_once", "No run is counted twice, and no ordinal is missing.";
    EpochsContiguous = "epochs_contiguous", "The epochs of a workflow follow one another, and at most one is open.";
    WindowsContiguous = "windows_contiguous", "Windows are contiguous and disjoint; a released window is claimed again.";
    SampleStands = "sample_stands", "The claimed window and the drawn sample of a retrospective never change.";
    TokensGrow = "tokens_grow", "Committed stages carry non-decreasing fencing tokens, and the last is the claim's own.";
    AttemptsBounded = "attempts_bounded", "Attempts are bounded.";
    EffectOnce = "effect_once", "No effect key (memory, cause, kind) occurs twice.";
    MemoryIsFold = "memory_is_fold", "The memory table is the fold of the change log.";
    LogGrows = "log_grows", "Append-only tables only grow, and permanent rows are never deleted.";
    DeadLetterOnce = "dead_letter_once", "A message whose attempts are spent has one dead letter.";
    DeadLetterExact = "dead_letter_exact", "A dead letter's bytes equal the original's.";
    ReplayOnce = "replay_once", "Any number of replays has one effect.";
    OutboxDrained = "outbox_drained", "The outbox drains, and every message marked as sent is at the broker.";
    BrokerDrained = "broker_drained", "At the end no consumer has pending messages.";
    AckAfterCommit = "ack_after_commit", "No message is acknowledged before its effects or its dead letter are stored.";
    Progress = "progress", "A test in which nothing happened does not pass.";
}
