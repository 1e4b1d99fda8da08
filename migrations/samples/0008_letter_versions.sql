-- A letter that was given up at once, with what a person made of it; and a message that is under way: it failed, and is tried
-- again.
INSERT INTO attempt_history (consumer, stream, sequence, attempt, letter, begun_ms, failed_ms, code, path, detail, program_version) VALUES
    ('counter', 'RETRO_RUNS', 40, 1, '71d7af92-4bec-86fa-9979-46ae1ecfc332', NULL, 1795173196450, 'not_utf8', NULL, 'byte 0 is no UTF-8', '0.1.0'),
    ('counter', 'RETRO_RUNS', 41, 2, NULL, 1795173196460, 1795173196470, NULL, NULL, 'runs is damaged: a number was expected', '0.1.0'),
    ('counter', 'RETRO_RUNS', 41, 3, NULL, 1795173197470, NULL, NULL, NULL, NULL, '0.1.0');

INSERT INTO letter_versions (letter, version, based_on, headers, payload, payload_sha256, edited_by, reason, at, edited_ms) VALUES
    ('71d7af92-4bec-86fa-9979-46ae1ecfc332', 1, 0, '[["ce-id","1"]]', unhex('7b227370656376657273696f6e223a22312e30227d'), '9deb03778ce6ca46060ad6ed605491ca185d89d8979eca334e11c55ac60e11d8', 'ann', 'the file was written as UTF-16', '2026-11-03T10:30:00.250000000Z', 1795174800000);
