-- Rows of the same live system after 0007_replays: a person replayed, as a batch of one, the letter that is no UTF-8. It
-- failed again, which stopped the batch; then its bytes were read.

INSERT INTO replay_batches (id, tenant, asked, asked_by, reason, at, canary, rate_milli, failed_permille_max, state, next_ms, created_ms, ended_ms, ended) VALUES
    ('0f3c1d5e-9a4b-8c2d-a1b2-c3d4e5f60718', 'default', 'code not_utf8', 'ann', 'the emitter says that it is mended', '2026-11-03T10:30:00.250000000Z', 1, 5000, 200, 'stopped', 1795174800200, 1795174800000, 1795174800900, '1 of the 1 letter that went first failed again');

INSERT INTO replays (id, tenant, letter, number, version, batch, asked_by, reason, at, state, due_ms, sendings, sent_ms, ended_ms, outcome) VALUES
    ('833218b2-3008-8e6d-8cf2-e1270f467c3a', 'default', '71d7af92-4bec-86fa-9979-46ae1ecfc332', 1, 0, '0f3c1d5e-9a4b-8c2d-a1b2-c3d4e5f60718', 'ann', 'the emitter says that it is mended', '2026-11-03T10:30:00.250000000Z', 'failed', 1795174800000, 1, 1795174800100, 1795174800800,
        '{"came":"failed","rejection":{"code":"not_utf8","detail":"byte 0 is no UTF-8"},"attempts":1}');

INSERT INTO replay_batch_letters (batch, place, letter, chosen, state, told) VALUES
    ('0f3c1d5e-9a4b-8c2d-a1b2-c3d4e5f60718', 1, '71d7af92-4bec-86fa-9979-46ae1ecfc332', 'open', 'failed', 'it failed again: not_utf8: byte 0 is no UTF-8');

UPDATE dead_letters SET replays = 1 WHERE id = '71d7af92-4bec-86fa-9979-46ae1ecfc332';

INSERT INTO letter_acts (tenant, deed, subject, asked_by, reason, at, detail, acted_ms) VALUES
    ('default', 'replayed', '71d7af92-4bec-86fa-9979-46ae1ecfc332', 'ann', 'the emitter says that it is mended', '2026-11-03T10:30:00.250000000Z', 'replay 1 of its bytes as they came', 1795174800000),
    ('default', 'read_raw', '71d7af92-4bec-86fa-9979-46ae1ecfc332', 'bob', 'which encoding is it?', '2026-11-03T10:31:00.250000000Z', NULL, 1795174860000);
