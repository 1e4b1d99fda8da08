-- What the levels of the metrics are asked from, without reading a table whole.

-- Since when a memory stands as it does, policy time; a copy of what stands in `memory`. NULL: written by a program from before.
ALTER TABLE memories ADD COLUMN changed_at TEXT COLLATE "C";
-- As text, since a document that holds an escaped NUL cannot be asked for its parts; a quotation mark within a string is escaped.
UPDATE memories SET changed_at = substring(memory FROM '"changed_at":"([^"]+)"');
CREATE INDEX memories_tentative ON memories (changed_at) WHERE status = 'tentative';

-- The oldest letter that nobody has acted on.
CREATE INDEX dead_letters_open_by_age ON dead_letters (created_ms) WHERE status = 'open';
