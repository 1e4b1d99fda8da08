-- Which database this is, so that a broker whose events are counted here is not consumed into another one by mistake.

-- One row, drawn when the table is made and never changed: a copy or a restored backup is the same database.
CREATE TABLE database_identity (
    single          BIGINT NOT NULL PRIMARY KEY CHECK (single = 1),
    identity        TEXT COLLATE "C" NOT NULL -- 32 hexadecimal digits; the broker's streams and consumers carry them
);
INSERT INTO database_identity (single, identity) VALUES (1, replace(gen_random_uuid()::text, '-', ''));
