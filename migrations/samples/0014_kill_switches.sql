-- A step that is handed nothing, and a workflow that was stopped for a day.
INSERT INTO kill_switches (tenant, workflow, step, engaged_by, engaged_reason, engaged_at, disengaged_by, disengaged_reason, disengaged_at) VALUES
    ('default', 'release', 'deploy', 'ada', 'the region has changed', '2026-11-01T00:00:00.000000000Z', NULL, NULL, NULL),
    ('default', 'release', '', 'ada', 'an incident', '2026-11-01T00:00:00.000000000Z', 'bob', 'it is over', '2026-11-02T00:00:00.000000000Z');
