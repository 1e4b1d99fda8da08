-- Positions in the intake stream, by which a window is not opened while a run that belongs to it is not counted yet.
-- Highest position of a run that was counted since the window was last empty.
ALTER TABLE workflows ADD COLUMN counted_up_to BIGINT NOT NULL DEFAULT 0;
-- Position up to which the stream had been handled when a run of the workflow was last counted.
ALTER TABLE workflows ADD COLUMN handled_up_to BIGINT NOT NULL DEFAULT 0;
