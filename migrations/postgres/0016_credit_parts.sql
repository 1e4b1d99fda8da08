-- Late credit in parts: a pull request may have any number of runs behind it, and one transaction takes a bounded part.

-- The last run and memory (memory_uses) that the writer has looked at; empty: none yet. Ordered as text, byte for byte.
ALTER TABLE credits_due ADD COLUMN after_run    TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE credits_due ADD COLUMN after_memory TEXT COLLATE "C" NOT NULL DEFAULT '';
