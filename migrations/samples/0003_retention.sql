-- Rows of the same live system after 0003_retention: one event of the past is known by its digest alone.

INSERT INTO seen_events (digest, content) VALUES
    (unhex('352f4e85998787e9a9fbba48aec0a1d6'), unhex('dd56de4137951d9c'));

INSERT INTO purges (stage, purged, last_ms) VALUES
    ('events', 1, 1795173197000);
