-- Rows of the same live system after 0010_broker: the broker's disk was replaced once. One event that had waited went with
-- it, and two positions of which nothing is known.

INSERT INTO streams (stream, number, made, seen_to, handled_to, checked_to, found_ms, seen_ms, ended_ms, compared_ms, fed_again) VALUES
    ('RETRO_INTAKE', 1, '2026-11-01T08:00:00.5Z', 120, 117, 110, 1795174000000, 1795174300000, 1795174400000, 1795174300000, 0),
    ('RETRO_INTAKE', 2, '2026-11-03T10:30:00.25Z', 4, 4, 4, 1795174400000, 1795174500000, NULL, 1795174500000, 0),
    ('RETRO_WORK', 1, '2026-11-01T08:00:00.6Z', 40, 40, 40, 1795174000000, 1795174500000, NULL, 0, 2);

INSERT INTO waiting (stream, number, sequence, message) VALUES
    ('RETRO_INTAKE', 2, 5, '{"subject":"retro.run.completed.default.airline-support","event":{"tenant":"default","source":"/tests","id":"waits"}}');

INSERT INTO losses (stream, number, first_sequence, last_sequence, message) VALUES
    ('RETRO_INTAKE', 1, 118, 118, '{"subject":"retro.run.completed.default.airline-support","event":{"tenant":"default","source":"/tests","id":"lost"}}'),
    ('RETRO_INTAKE', 1, 119, 120, NULL);
