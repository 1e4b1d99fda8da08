-- What continues what, so that one trace leads from an emitter's event to the change that it caused, whichever processes it
-- went through. Each is a W3C `traceparent`, and after a space a `tracestate` when there is one; NULL: nobody traced it. Nothing
-- is decided by it, no id is derived from it, and the canonical export leaves it out.

-- run_facts.trace: where the run was counted. It goes with the facts when they are purged.
ALTER TABLE run_facts ADD COLUMN trace TEXT;
-- retrospectives.trace: of the run that filled the window; of the request, for a manual one.
ALTER TABLE retrospectives ADD COLUMN trace TEXT;
-- investigations.trace: of what made it due: the sampling, or the end of the one before it.
ALTER TABLE investigations ADD COLUMN trace TEXT;
-- outbox.trace: of what wrote the message. It is sent as its header, not in it.
ALTER TABLE outbox ADD COLUMN trace TEXT;
