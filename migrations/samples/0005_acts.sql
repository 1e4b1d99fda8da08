-- Rows of the same live system after 0005_acts: a person replayed the letter of the failed retrospective, which opened
-- the next one over its released runs, and another person called that one off.

INSERT INTO retrospectives (tenant, id, workflow, epoch, first_ordinal, last_ordinal, as_of, policy, state, sample, opened_ms, state_ms)
    SELECT tenant, '79659240-a4c8-8f7c-87e3-9cda04023281', workflow, 4, first_ordinal, last_ordinal, '2026-11-03T10:20:00.250000000Z', policy, 'cancelled',
        '{"seed":"2ff86470281b6e3256987d6f5f0ccc9731097a0083b52245643c911fd0f74103","order":[5,6],"size":2}', 1795174200000, 1795174260000
    FROM retrospectives WHERE id = '4e45b581-818a-81df-927e-01d76f35e39d';

INSERT INTO investigations (tenant, retrospective, number, ordinal, run_id, replacement, due_ms, not_before_ms, lease_ms, worker, token, attempts, claimed_ms, problem, result, ended_ms, cost_usd) VALUES
    ('default', '79659240-a4c8-8f7c-87e3-9cda04023281', 1, 5, 'task-5-trial-0', FALSE, 1795174200100, 0, NULL, 'desk-1', 2, 1, 1795174200200, NULL, NULL, NULL, NULL);

UPDATE workflows SET epoch = 4, paused_until = '2026-11-03T11:21:00.250000000Z'
    WHERE tenant = 'default' AND workflow = 'airline-support';

UPDATE dead_letters SET status = 'replayed' WHERE id = 'ddd8a83d-3e64-83ef-a1e6-926091a6d3cf';

INSERT INTO acts (tenant, deed, subject, asked_by, reason, at, opened, acted_ms) VALUES
    ('default', 'replayed', 'ddd8a83d-3e64-83ef-a1e6-926091a6d3cf', 'ann', 'the object store is back', '2026-11-03T10:20:00.250000000Z', '79659240-a4c8-8f7c-87e3-9cda04023281', 1795174200000),
    ('default', 'cancelled', '79659240-a4c8-8f7c-87e3-9cda04023281', 'bob', 'the runs were a load test', '2026-11-03T10:21:00.250000000Z', NULL, 1795174260000);
