-- Memories that are held until a person decides, heaviest first; for the lists of operators and for the metric. The
-- field is matched as text: Postgres cannot take apart JSON that contains an escaped NUL, not even for an index, and a
-- field added beside it would have to be filled for every row. Quotes within JSON strings are escaped, so the pattern
-- matches the field only. Queries have to repeat the whole condition.
CREATE INDEX memories_held ON memories (tenant, weight DESC, id)
    WHERE status IN ('tentative', 'active', 'archived') AND memory LIKE '%"quarantine":"%';
