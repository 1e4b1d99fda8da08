-- Waiting presentations are found by one of a few buckets instead of by their run. An entry for each run lies on a page of
-- its own, which made a stored answer cost five times as much; the entries of a bucket lie side by side in the order in
-- which they come.
ALTER TABLE pending_presentations ADD COLUMN bucket BIGINT NOT NULL DEFAULT 0;
DROP INDEX pending_presentations_by_run;
CREATE INDEX pending_presentations_by_bucket ON pending_presentations (bucket);
