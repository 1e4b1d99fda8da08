-- A version of a folder that changes one constant, with the retrospective that was opened under it.
INSERT INTO pipeline_versions (tenant, hash, prompts, contents, loaded_from, retrospective, workflow, first_seen_ms) VALUES
    ('default', '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08', '2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae', '{"policy":{"threshold_runs":2},"workflows":{},"prompts":{"system.md":"Look.","run.md":"{{ facts }}"},"schemas":{},"files":{"retrospective/pipeline.toml":"[policy]\nthreshold_runs = 2\n"}}', '/etc/retro/pipelines', '5a070d20-98f6-809d-9c53-bf2513930bca', 'airline-support', 1795173196380);
UPDATE retrospectives SET pipeline = '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08', prompts = '2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae'
    WHERE tenant = 'default' AND id = '5a070d20-98f6-809d-9c53-bf2513930bca';
INSERT INTO pipeline_reverts (tenant, hash, requested_by, reason, requested_at, detail, recorded_ms) VALUES
    ('default', '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08', 'anna', 'the new prompt finds less', '2026-11-20T12:00:00.250000000Z', '/etc/retro/pipelines', 1795173196400);
