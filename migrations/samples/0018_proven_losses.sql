-- Rows of the same live system after 0018_proven_losses: somebody has closed the positions of which nothing is known, and a look has
-- found the stream of wake-ups made anew, which nobody has confirmed yet.

UPDATE losses SET closed_by = 'ana', closed_reason = 'Both were counted before the disk was replaced.', closed_at = '2026-11-03T11:00:00Z'
    WHERE stream = 'RETRO_INTAKE' AND number = 1 AND first_sequence = 119;
UPDATE streams SET first = 3, anchor = '2026-11-03T10:41:07.25Z' WHERE stream = 'RETRO_INTAKE' AND number = 2;
UPDATE streams SET first = 12, suspected_ms = 1795174500500 WHERE stream = 'RETRO_WORK';
