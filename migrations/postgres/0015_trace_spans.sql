-- Traces whose spans come in several requests (`POST /v1/traces`), until their runs are read. A row stays for a day after
-- its spans were deleted, so that later ones are recognized.
CREATE TABLE collected_traces (
    tenant     TEXT COLLATE "C" NOT NULL,
    trace_id   TEXT COLLATE "C" NOT NULL,
    last_ms    BIGINT NOT NULL,
    spans      BIGINT NOT NULL,
    bytes      BIGINT NOT NULL,
    read_spans BIGINT NOT NULL DEFAULT 0,
    workflow   TEXT COLLATE "C",
    attempt    BIGINT NOT NULL,
    lease_ms   BIGINT,
    due_ms     BIGINT,
    closed_ms  BIGINT,
    PRIMARY KEY (tenant, trace_id),
    CHECK ((due_ms IS NULL) = (closed_ms IS NOT NULL))
);
CREATE INDEX collected_traces_due ON collected_traces (due_ms) WHERE due_ms IS NOT NULL;
CREATE INDEX collected_traces_closed ON collected_traces (closed_ms) WHERE closed_ms IS NOT NULL;

-- Spans of these traces, without secrets.
CREATE TABLE trace_spans (
    tenant      TEXT COLLATE "C" NOT NULL,
    trace_id    TEXT COLLATE "C" NOT NULL,
    span_id     TEXT COLLATE "C" NOT NULL,
    parent_id   TEXT COLLATE "C" NOT NULL,
    ended       BIGINT NOT NULL,
    remote      BIGINT NOT NULL,
    is_call     BIGINT NOT NULL,
    bytes       BIGINT NOT NULL,
    document    BYTEA  NOT NULL,
    PRIMARY KEY (tenant, trace_id, span_id)
);

-- What the traces of a tenant that are not closed take up. The row is the lock under which they are added and closed.
CREATE TABLE trace_usage (
    tenant TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    traces BIGINT NOT NULL,
    bytes  BIGINT NOT NULL
);
