-- A loss is told only when two looks at the broker have shown it, and what was told wrongly can be closed.

-- Its first position that still held a message at the last look: what waited below it is gone at the next one, too.
ALTER TABLE streams ADD COLUMN first BIGINT NOT NULL DEFAULT 0;
-- When the broker stored the message at seen_to, as it says: another message there belongs to another stream. NULL: not read.
ALTER TABLE streams ADD COLUMN anchor TEXT;
-- When a look found another stream in its place, which no second look has confirmed or cleared yet.
ALTER TABLE streams ADD COLUMN suspected_ms BIGINT;

-- Who closed a loss that is none, or that nobody misses: all of them NULL while it is open. A closed loss stays closed.
ALTER TABLE losses ADD COLUMN closed_by TEXT;
-- Why, in their words.
ALTER TABLE losses ADD COLUMN closed_reason TEXT;
-- When, the policy moment.
ALTER TABLE losses ADD COLUMN closed_at TEXT;
