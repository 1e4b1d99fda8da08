-- Traces whose spans come in several requests (`POST /v1/traces`), until their runs are read. A row stays for a day after
-- its spans were deleted, so that later ones are recognized.
CREATE TABLE collected_traces (
    tenant     TEXT    NOT NULL,
    trace_id   TEXT    NOT NULL, -- in lower-case hexadecimal digits, which are also the id of the run
    last_ms    INTEGER NOT NULL, -- time at which its newest span came
    spans      INTEGER NOT NULL, -- number of rows in trace_spans; once it is closed, what it was
    bytes      INTEGER NOT NULL, -- size of their documents before compression; 0 once it is closed
    read_spans INTEGER NOT NULL DEFAULT 0, -- number of spans from which its run was read; 0: not yet
    workflow   TEXT, -- workflow of its run, which stays the same when it is read again; NULL: not yet
    attempt    INTEGER NOT NULL, -- number of claims: the fencing token, and the attempt of the run that is read under it
    lease_ms   INTEGER, -- time until which a process works on it; NULL: none
    due_ms     INTEGER, -- time from which a process may decide about it; NULL: closed
    closed_ms  INTEGER, -- time at which its spans were deleted
    PRIMARY KEY (tenant, trace_id),
    CHECK ((due_ms IS NULL) = (closed_ms IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX collected_traces_due ON collected_traces (due_ms) WHERE due_ms IS NOT NULL;
CREATE INDEX collected_traces_closed ON collected_traces (closed_ms) WHERE closed_ms IS NOT NULL;

-- Spans of these traces, without secrets.
CREATE TABLE trace_spans (
    tenant      TEXT    NOT NULL,
    trace_id    TEXT    NOT NULL,
    span_id     TEXT    NOT NULL, -- in lower-case hexadecimal digits; of a span without an id, derived from its content
    parent_id   TEXT    NOT NULL, -- empty: a root
    ended       INTEGER NOT NULL, -- 1: it says when it ended
    remote      INTEGER NOT NULL, -- 1: its parent is of another process
    is_call     INTEGER NOT NULL, -- 1: the call of an agent, a model or a tool
    bytes       INTEGER NOT NULL, -- size of the document before compression
    document    BLOB    NOT NULL, -- the span with its resource: OTLP as JSON, compressed with zstd
    PRIMARY KEY (tenant, trace_id, span_id)
) STRICT, WITHOUT ROWID;

-- What the traces of a tenant that are not closed take up. The row is the lock under which they are added and closed.
CREATE TABLE trace_usage (
    tenant TEXT    NOT NULL PRIMARY KEY,
    traces INTEGER NOT NULL, -- number of rows of collected_traces that are not closed
    bytes  INTEGER NOT NULL  -- sum of their bytes
) STRICT, WITHOUT ROWID;

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('collected_traces', 'collected_traces', '100000 10000 1'),
    ('collected_traces', 'collected_traces_closed', '90000 10'),
    ('collected_traces', 'collected_traces_due', '10000 10'),
    ('trace_spans', 'trace_spans', '100000 10000 20 1'),
    ('trace_usage', 'trace_usage', '100 1');
