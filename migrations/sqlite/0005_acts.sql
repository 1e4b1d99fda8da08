-- What people did about retrospectives and dead letters: a retrospective that was called off, a letter that was replayed.

-- Append-only: an act is never changed or removed. What it was about points nowhere, since a letter has no tenant in
-- its key; the acts of a tenant are its own.
CREATE TABLE acts (
    sequence      INTEGER PRIMARY KEY AUTOINCREMENT, -- the order in which they happened, over everything
    tenant        TEXT    NOT NULL,
    deed          TEXT    NOT NULL CHECK (deed IN ('cancelled', 'replayed')),
    subject       TEXT    NOT NULL,          -- retrospectives.id or dead_letters.id
    asked_by      TEXT    NOT NULL,          -- who, as far as the road they came by can tell
    reason        TEXT    NOT NULL,          -- why, in their words
    at            TEXT    NOT NULL,          -- the policy moment
    opened        TEXT,                      -- retrospectives.id: what a replay opened
    acted_ms      INTEGER NOT NULL,
    UNIQUE (tenant, subject, deed)           -- each happens once
) STRICT;
