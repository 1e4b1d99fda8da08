-- Version of the agent's prompt, as the commit that has the trailer says in another one; NULL: it says none.
ALTER TABLE commit_trailers ADD COLUMN prompt_version TEXT;

-- Prompt versions of runs, by the commits with a trailer that matches exactly one run of the tenant, like the links of
-- `run_links`.
CREATE VIEW run_prompt_versions AS
SELECT DISTINCT run.tenant, run.workflow, run.run_id, named.prompt_version
FROM tracked_runs AS run
JOIN commit_trailers AS named ON named.tenant = run.tenant AND named.run_id = run.run_id
    AND (named.workflow = '' OR named.workflow = run.workflow)
WHERE named.prompt_version IS NOT NULL
    AND NOT EXISTS (
        SELECT 1 FROM commit_trailers AS other
        JOIN tracked_runs AS another ON another.tenant = other.tenant AND another.run_id = other.run_id
            AND (other.workflow = '' OR other.workflow = another.workflow)
        WHERE other.tenant = named.tenant AND other.commit_id = named.commit_id AND other.trailer = named.trailer
            AND NOT (another.workflow = run.workflow AND another.run_id = run.run_id));
