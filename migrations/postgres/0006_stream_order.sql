-- The order of the intake stream, so that a window is the same whichever of several counters was quicker.

-- runs.position: the run's place in the intake stream when it was first counted. While a window waits its ordinals follow
-- the order of counting; when it is claimed they are dealt again in the order of this column. NULL: stored before there was
-- one; such a run stands before all that have one.
ALTER TABLE runs ADD COLUMN position BIGINT;
