-- Rows of the same live system after 0004_idempotency: one request that was answered, and one that somebody is at.

INSERT INTO requests (tenant, route, key, fingerprint, token, begun_ms, status, content_type, body) VALUES
    ('default', 'POST /v1/events', 'nightly-2026-11-03', '4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a', 1795174300000, 1795174300000, 202, 'application/json', unhex('7b226163636570746564223a312c2272656675736564223a5b5d7d')),
    ('acme', 'POST /v1/events', 'nightly-2026-11-03', 'dbc1b4c900ffe48d575b5da5c638040125f65db0fe3e24494b76ea986457d986', 1795174301000, 1795174301000, NULL, NULL, NULL);
