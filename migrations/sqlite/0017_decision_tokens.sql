-- The access token with which somebody decided, beside the name that the request gave: DecisionToken, with the id and the
-- name of the token. NULL: the request had none, or came from the command line, or was made before tokens were stored.
-- Changes, feedback, proposals and manual retrospectives have it in their JSON.
ALTER TABLE audit_log ADD COLUMN with_token TEXT;
ALTER TABLE dead_letter_versions ADD COLUMN with_token TEXT;
ALTER TABLE replays ADD COLUMN with_token TEXT;
ALTER TABLE replay_batches ADD COLUMN with_token TEXT;
ALTER TABLE kill_switches ADD COLUMN engaged_with TEXT;
ALTER TABLE kill_switches ADD COLUMN disengaged_with TEXT;
