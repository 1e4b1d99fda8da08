//! Names the durable steps of the program, and what a test can do to them.

macro_rules! words {
    ($(#[$doc:meta])* pub enum $name:ident { $($(#[$of:meta])* $one:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$of])* $one,)* }

        impl $name {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$one),*];

            /// Returns the word used in environment variables, reports and test names.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$one => $text),* }
            }
        }
    };
}

words! {
    /// A durable step: a commit, a publication or an acknowledgement. The name begins with the component and
    /// ends with the kind of step. Each label is crossed at one place in the program, or at one place per
    /// database.
    pub enum Label {
        // Migrations and set-up.
        /// The SQLite file is created.
        MigrateFile = "migrate.file",
        /// Missing migrations are applied in one transaction.
        MigrateCommit = "migrate.commit",
        /// A stream is created at the broker.
        StreamCreate = "stream.create",
        /// A stream's configuration is updated.
        StreamUpdate = "stream.update",
        /// A durable consumer is created at the broker.
        ConsumerCreate = "consumer.create",
        /// A durable consumer's configuration is updated.
        ConsumerUpdate = "consumer.update",
        // Intake.
        /// `retro emit` publishes one event.
        EmitPublish = "emit.publish",
        /// The gateway publishes a single event.
        IntakeOnePublish = "intake.one.publish",
        /// The gateway publishes the first event of a batch, which opens it.
        IntakeFirstPublish = "intake.first.publish",
        /// The gateway publishes an event between the first and the last of a batch.
        IntakeNextPublish = "intake.next.publish",
        /// The gateway publishes the last event of a batch, and the broker then stores the batch.
        IntakeLastPublish = "intake.last.publish",
        /// The bridge publishes an event from GitHub.
        BridgePublish = "bridge.publish",
        /// A body is written to the broker's object store.
        ObjectPut = "object.put",
        // Runs, samples, investigations and retrospectives.
        /// The counter commits a batch of events.
        CountCommit = "count.commit",
        /// The counter acknowledges a batch of events.
        CountAck = "count.ack",
        /// The sampler commits the sample of a window.
        SampleCommit = "sample.commit",
        /// The sampler acknowledges its wake-up message.
        SampleAck = "sample.ack",
        /// The investigator acknowledges its wake-up message, having only notified a worker.
        InvestigateAck = "investigate.ack",
        /// A worker claims an investigation under a new token.
        ClaimCommit = "claim.commit",
        /// A worker extends its lease.
        HeartbeatCommit = "heartbeat.commit",
        /// A worker begins to summarise runs of a window, before it reads their bodies.
        SummaryBeginCommit = "summary.begin.commit",
        /// Call summaries of runs are stored.
        SummaryCommit = "summary.commit",
        /// A call of a model is stored with its answer, before anybody uses it.
        ModelCallCommit = "model_call.commit",
        /// The brief of a workflow is journalled.
        JournalBriefedCommit = "journal.briefed.commit",
        /// The investigator's answer is journalled.
        JournalAnsweredCommit = "journal.answered.commit",
        /// A failed attempt releases its investigation for a retry.
        RetryCommit = "retry.commit",
        /// A worker that stops releases its investigation.
        ReleaseCommit = "release.commit",
        /// An investigation ends, and the next one or the writer's batch becomes due.
        FinishCommit = "finish.commit",
        /// The writer closes a retrospective: it stores changes and report and frees the workflow.
        CloseCommit = "close.commit",
        /// The writer credits memories for the end of a pull request.
        CreditCommit = "credit.commit",
        /// The writer acknowledges its wake-up message.
        WriteAck = "write.ack",
        // Reviews.
        /// The reviewer commits a batch of review events.
        RecordEventsCommit = "record_events.commit",
        /// The reviewer acknowledges a batch of review events.
        RecordEventsAck = "record_events.ack",
        /// The reviewer claims the reviews of a pull request, before a model is asked about them.
        ReviewClaimCommit = "review_claim.commit",
        /// The reviewer extends its claim.
        ReviewRenewCommit = "review_renew.commit",
        /// A call of a model about a review is stored with its answer, before anybody uses it.
        ReviewCallCommit = "review_call.commit",
        /// The reviewer commits its decisions about a pull request, with the message to the writer.
        ReviewCommit = "review.commit",
        /// The writer closes a rule batch with its changes and report.
        RulesCommit = "rules.commit",
        // The relay.
        /// The relay publishes a message.
        RelayPublish = "relay.publish",
        /// The relay marks messages as sent.
        RelayMarkCommit = "relay.mark.commit",
        // Outcomes.
        /// The tracker commits an event about a pull request.
        TrackCommit = "track.commit",
        /// The tracker commits the pull requests of runs.
        TrackRunsCommit = "track_runs.commit",
        /// The tracker acknowledges an event.
        TrackAck = "track.ack",
        // Dead letters.
        /// An attempt is counted before the handler runs.
        AttemptCommit = "attempt.commit",
        /// The attempts at a message that was eventually handled are deleted.
        AttemptDeleteCommit = "attempt.delete.commit",
        /// A failed attempt is recorded with its reason.
        FailureCommit = "failure.commit",
        /// A message is negatively acknowledged, to be redelivered later.
        DeferNak = "defer.nak",
        /// A message is stored as a dead letter.
        DeadLetterCommit = "dead_letter.commit",
        /// A message stored as a dead letter is acknowledged.
        DeadLetterAck = "dead_letter.ack",
        /// The replay of a failed retrospective's dead letter opens the next retrospective.
        ReopenCommit = "reopen.commit",
        /// An operator edits a dead letter.
        EditCommit = "edit.commit",
        /// An operator requests a replay.
        ReplayCommit = "replay.commit",
        /// An operator discards dead letters.
        DiscardCommit = "discard.commit",
        /// An operator starts a batch of replays.
        BatchStartCommit = "batch.start.commit",
        /// A batch starts replays, or ends.
        BatchStepCommit = "batch.step.commit",
        /// An operator disables, enables, pins, unpins, edits or restores a memory.
        MemoryDecisionCommit = "memory_decision.commit",
        /// An operator adds a memory.
        MemoryAddCommit = "memory_add.commit",
        /// An operator adds a rule, in words of their own or from a remark.
        RuleAddCommit = "rule_add.commit",
        /// An operator cancels a batch.
        BatchCancelCommit = "batch.cancel.commit",
        /// The relay publishes a replay.
        ReplayPublish = "replay.publish",
        /// The relay marks a replay as sent.
        ReplayMarkCommit = "replay.mark.commit",
        /// A replay that the broker does not accept is recorded, and its dead letter is open again.
        ReplayRefuseCommit = "replay.refuse.commit",
        /// The outcome of a replay is stored.
        ReplayOutcomeCommit = "replay.outcome.commit",
        /// An operator's action on dead letters is recorded in the audit log.
        AuditCommit = "audit.commit",
        // Stream checks.
        /// An observation of a stream is stored; the outbox sends its messages to a recreated stream again.
        StreamCheckCommit = "stream_check.commit",
        /// The identities of waiting messages are stored.
        StreamPendingCommit = "stream_pending.commit",
        /// An operator closes losses.
        CloseLossesCommit = "close.losses.commit",
        /// A process begins to reconcile a stream with what was handled.
        ReconcileBeginCommit = "reconcile.begin.commit",
        /// The position up to which a stream is reconciled is stored.
        ReconcileCommit = "reconcile.commit",
        // Agents.
        /// The gateway records the memories presented to a run.
        PresentedCommit = "presented.commit",
        /// The gateway counts what runs were handed for the memories.
        PresentationsApplyCommit = "presentations.apply.commit",
        /// The gateway records that a run opened a memory.
        ReadCommit = "read.commit",
        /// The gateway, or the command of a person, stores feedback on a memory.
        FeedbackCommit = "feedback.commit",
        /// The agent of a run saves a lesson.
        LessonSaveCommit = "lesson_save.commit",
        /// A gateway renews the lease under which it hands out what it has cached.
        ContextLeaseCommit = "context_lease.commit",
        /// A request with an idempotency key begins.
        IdempotencyBeginCommit = "idempotency.begin.commit",
        /// The response to a request is stored, or its idempotency key is released.
        IdempotencyEndCommit = "idempotency.end.commit",
        /// Old responses are deleted.
        IdempotencyPurgeCommit = "idempotency.purge.commit",
        /// The last use of access tokens is recorded.
        TokenUseCommit = "token.use.commit",
        // Collected traces.
        /// The gateway stores the spans of a request.
        SpansAddCommit = "spans.add.commit",
        /// A gateway claims traces about which something may be decided.
        TracesClaimCommit = "traces.claim.commit",
        /// A gateway records that runs were read from traces.
        TracesReadCommit = "traces.read.commit",
        /// A gateway ends the claim of a trace that it does not read.
        TraceEndCommit = "trace.end.commit",
        /// Traces that were closed long ago are deleted.
        TracesPurgeCommit = "traces.purge.commit",
        // People.
        /// An operator triggers a retrospective over named runs.
        TriggerCommit = "trigger.commit",
        /// An operator decides about a proposal.
        ProposalCommit = "proposal.commit",
        /// An operator promotes a rule.
        PromoteCommit = "promote.commit",
        /// An operator deletes a memory.
        DeleteCommit = "delete.commit",
        /// An operator releases a memory from quarantine.
        MemoryReleaseCommit = "memory_release.commit",
        /// An operator cancels a retrospective.
        CancelCommit = "cancel.commit",
        /// An operator engages or disengages a kill switch.
        KillSwitchCommit = "kill_switch.commit",
        /// An operator creates an access token.
        TokenCreateCommit = "token.create.commit",
        /// An operator revokes an access token.
        TokenRevokeCommit = "token.revoke.commit",
        // Retention.
        /// Old bodies are dropped.
        PurgeBodiesCommit = "purge.bodies.commit",
        /// Journals of ended retrospectives are dropped.
        PurgeJournalsCommit = "purge.journals.commit",
        /// Facts of old runs are dropped; their identities stay.
        PurgeRunsCommit = "purge.runs.commit",
        /// Inbox rows are reduced to a digest.
        PurgeEventsCommit = "purge.events.commit",
        /// Messages that were sent long ago are dropped.
        PurgeMessagesCommit = "purge.messages.commit",
        /// Counted attempts at messages that were not delivered again are dropped.
        PurgeAttemptsCommit = "purge.attempts.commit",
        // Embeddings.
        /// Embeddings of memories are stored.
        StoreEmbeddingsCommit = "store.embeddings.commit",
        /// Embeddings by embedders no longer in use are deleted.
        PurgeEmbeddingsCommit = "purge.embeddings.commit",
    }
}

words! {
    /// Side of the step at which the process dies or stops.
    pub enum Side {
        /// Before the step is requested.
        Before = "before",
        /// After the step is done and before anything reacts to it.
        After = "after",
    }
}

words! {
    /// A safeguard of the program that a test can disable to prove that the checker notices.
    pub enum Guard {
        /// Recognises an event that was handled before.
        Inbox = "inbox",
        /// Prevents a worker whose claim was taken over from committing.
        Fencing = "fencing",
        /// Prevents a change from being made twice.
        EffectKey = "effect_key",
        /// Marks a message as sent only after the broker confirmed it.
        Outbox = "outbox",
        /// Prevents a message from getting a second dead letter when it is stored again.
        DeadLetterId = "dead_letter_id",
    }
}

words! {
    /// Effect of a poisoned message on its handler.
    pub enum Poison {
        /// The handler panics.
        Panic = "panic",
        /// The process aborts.
        Abort = "abort",
        /// The handler loops without end and never yields its thread.
        Loop = "loop",
        /// The handler allocates memory without end; effective only under a memory limit.
        Hog = "hog",
    }
}
