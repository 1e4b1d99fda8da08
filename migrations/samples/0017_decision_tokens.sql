-- A workflow that was stopped for an hour by requests with an access token.
INSERT INTO kill_switches (tenant, workflow, step, engaged_by, engaged_reason, engaged_at, engaged_with, disengaged_by, disengaged_reason, disengaged_at, disengaged_with) VALUES
    ('default', 'release', 'build', 'ada', 'an incident', '2026-11-03T00:00:00.000000000Z', '{"id":"0123456789abcdef","name":"ci-ops"}', 'bob', 'it is over', '2026-11-03T01:00:00.000000000Z', '{"id":"0123456789abcdef","name":"ci-ops"}');
