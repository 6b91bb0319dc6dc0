-- +goose Up
PRAGMA user_version = 1;

CREATE TABLE store (
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    format     INTEGER NOT NULL,
    device     TEXT    NOT NULL,
    key_source TEXT    NOT NULL CHECK (key_source IN ('env', 'keyring', 'file')),
    key_id     TEXT    NOT NULL CHECK (length(key_id) = 8),
    hmac       BLOB    NOT NULL CHECK (length(hmac) = 32)
) STRICT;

-- What every commit changes comes first: however long the rest is, it lies on one page.
CREATE TABLE sessions (
    no          INTEGER PRIMARY KEY CHECK (no BETWEEN 1 AND 8388607),
    last_seq    INTEGER NOT NULL CHECK (last_seq >= 1),
    last_us     INTEGER NOT NULL,
    done        INTEGER NOT NULL,
    calls       INTEGER NOT NULL,
    head        BLOB    NOT NULL CHECK (length(head) = 32),
    row_digest  BLOB    NOT NULL CHECK (length(row_digest) = 32),
    steps       BLOB    NOT NULL CHECK (length(steps) = 32),
    files       BLOB    NOT NULL CHECK (length(files) = 32),
    key_id      TEXT    NOT NULL,
    hmac        BLOB    NOT NULL CHECK (length(hmac) = 32),
    id          TEXT    NOT NULL UNIQUE CHECK (length(id) = 36),
    short       TEXT    NOT NULL UNIQUE CHECK (length(short) = 6),
    state       TEXT    NOT NULL CHECK (state IN ('created', 'planning', 'awaiting_approval',
                'executing', 'paused', 'completed', 'failed', 'cancelled')),
    left_state  TEXT    NOT NULL,
    reason      TEXT    NOT NULL,
    epoch       INTEGER NOT NULL CHECK (epoch >= 0),
    created_us  INTEGER NOT NULL,
    plan_bytes  INTEGER NOT NULL,
    plan_sealed INTEGER NOT NULL CHECK (plan_sealed IN (0, 1)),
    tasks       INTEGER NOT NULL,
    step_total  INTEGER NOT NULL,
    on_failure  TEXT    NOT NULL,
    device      TEXT    NOT NULL,
    plan        TEXT    NOT NULL,
    manifest    TEXT    NOT NULL,
    task        TEXT    NOT NULL,
    workspace   TEXT    NOT NULL,
    detail      TEXT    NOT NULL,
    git         TEXT    NOT NULL,
    inputs      TEXT    NOT NULL,
    learnt      TEXT    NOT NULL,
    rules       TEXT    NOT NULL,
    config      TEXT    NOT NULL
) STRICT;

-- pos is the session's number and the event's seq in one integer, so that a session lies
-- together and no second index is written at each commit. An actor that is NULL is acode. The
-- checkpoint of a receipt lies beside it, so that both are one page, but its chain does not
-- cover it: a checkpoint has a signature of its own, and a bad one is passed over.
CREATE TABLE events (
    pos        INTEGER PRIMARY KEY CHECK (pos > 1099511627776),
    id         BLOB    NOT NULL CHECK (length(id) = 16),
    time_us    INTEGER NOT NULL,
    type       TEXT    NOT NULL,
    actor      TEXT,
    epoch      INTEGER NOT NULL,
    hash       BLOB    NOT NULL CHECK (length(hash) = 32),
    checkpoint BLOB    CHECK (length(checkpoint) >= 65),
    payload    TEXT    NOT NULL CHECK (length(CAST(payload AS BLOB)) <= 16384),
    session    INTEGER GENERATED ALWAYS AS (pos >> 40) VIRTUAL,
    seq        INTEGER GENERATED ALWAYS AS (pos & 1099511627775) VIRTUAL
) STRICT;

-- pos is the session's number and the step's own, counted from 1 in the order in which steps
-- are first heard of, so that a receipt and the next intent lie on one page.
CREATE TABLE steps (
    pos        INTEGER PRIMARY KEY CHECK (pos > 4294967296),
    task       TEXT    NOT NULL,
    step       TEXT    NOT NULL,
    status     TEXT    NOT NULL,
    attempt    INTEGER NOT NULL,
    key        TEXT,
    start_seq  INTEGER NOT NULL,
    last_seq   INTEGER NOT NULL,
    started_us INTEGER NOT NULL,
    ended_us   INTEGER NOT NULL,
    code       TEXT,
    message    TEXT,
    capture    TEXT,
    approval   TEXT,
    held       TEXT,
    talk       TEXT,
    session_no INTEGER GENERATED ALWAYS AS (pos >> 32) VIRTUAL
) STRICT;

-- The operations that are open, and those whose answers their agent may not have seen. Their digests
-- are part of the digest of steps.
CREATE TABLE operations (
    session_no INTEGER NOT NULL REFERENCES sessions (no),
    task       TEXT    NOT NULL,
    step       TEXT    NOT NULL,
    op         TEXT    NOT NULL,
    tool       TEXT    NOT NULL,
    digest     TEXT    NOT NULL,
    status     TEXT    NOT NULL,
    attempt    INTEGER NOT NULL,
    start_seq  INTEGER NOT NULL,
    last_seq   INTEGER NOT NULL,
    started_us INTEGER NOT NULL,
    ended_us   INTEGER NOT NULL,
    code       TEXT    NOT NULL,
    message    TEXT    NOT NULL,
    PRIMARY KEY (session_no, task, step, op)
) STRICT, WITHOUT ROWID;

-- pos is as in steps, counted in the order in which files are first heard of.
CREATE TABLE files (
    pos        INTEGER PRIMARY KEY CHECK (pos > 4294967296),
    path       TEXT    NOT NULL,
    hash       TEXT    NOT NULL,
    size       INTEGER NOT NULL,
    mode       INTEGER NOT NULL,
    mtime_ns   INTEGER NOT NULL,
    ctime_ns   INTEGER NOT NULL,
    inode      INTEGER NOT NULL,
    racy       INTEGER NOT NULL CHECK (racy IN (0, 1)),
    wrote      INTEGER NOT NULL CHECK (wrote IN (0, 1)),
    session_no INTEGER GENERATED ALWAYS AS (pos >> 32) VIRTUAL
) STRICT;

CREATE TABLE blobs (
    hash   BLOB PRIMARY KEY CHECK (length(hash) = 32),
    bytes  INTEGER NOT NULL,
    codec  TEXT    NOT NULL CHECK (codec IN ('raw', 'zstd', 'sealed')),
    key_id TEXT,
    data   BLOB    NOT NULL
) STRICT;

CREATE TABLE requests (
    id         INTEGER PRIMARY KEY,
    session_no INTEGER NOT NULL REFERENCES sessions (no),
    kind       TEXT    NOT NULL,
    task       TEXT    NOT NULL,
    step       TEXT    NOT NULL,
    digest     TEXT    NOT NULL,
    reason     TEXT    NOT NULL,
    scope      TEXT    NOT NULL,
    by         TEXT    NOT NULL,
    mac        BLOB    NOT NULL CHECK (length(mac) = 32)
) STRICT;

CREATE VIEW journal AS
SELECT s.id AS session, e.seq AS seq, e.time_us AS time_us,
       strftime('%Y-%m-%dT%H:%M:%fZ', e.time_us / 1000000.0, 'unixepoch') AS time,
       lower(hex(e.id)) AS id, e.type AS type, coalesce(e.actor, 'acode') AS actor, e.epoch AS epoch,
       e.payload AS payload, lower(hex(e.hash)) AS hash
FROM events e JOIN sessions s ON s.no = e.session;

-- What a checkpoint holds besides its event, see docs/format.md.
CREATE VIEW checkpoints AS
SELECT s.id AS session, e.seq AS seq, strftime('%Y-%m-%dT%H:%M:%fZ', e.time_us / 1000000.0, 'unixepoch') AS time,
       e.type AS type, lower(hex(substr(e.checkpoint, 2, 32))) AS hmac, lower(hex(substr(e.checkpoint, 34, 32))) AS steps,
       CASE WHEN substr(e.checkpoint, 1, 1) IN (x'01', x'03') THEN lower(hex(substr(e.checkpoint, 66, 32))) END AS files
FROM events e JOIN sessions s ON s.no = e.session WHERE e.checkpoint IS NOT NULL;

-- +goose StatementBegin
CREATE TRIGGER events_insert BEFORE INSERT ON events
WHEN EXISTS (SELECT 1 FROM events WHERE pos = NEW.pos)
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER events_update BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER events_delete BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
-- +goose StatementEnd

-- How far each session is delivered. Like everything below, a claim about a server, which the
-- server corrects: nothing of it is signed. A session without a row is delivered to nowhere.
CREATE TABLE lanes (
    session_no INTEGER PRIMARY KEY REFERENCES sessions (no),
    acked      INTEGER NOT NULL CHECK (acked >= 0),
    verified   INTEGER NOT NULL CHECK (verified >= 0),
    epoch      INTEGER NOT NULL CHECK (epoch >= 0),
    attempts   INTEGER NOT NULL,
    next_us    INTEGER NOT NULL,
    parked     INTEGER NOT NULL CHECK (parked >= 0),
    state      TEXT    NOT NULL CHECK (state IN ('', 'synced', 'pending', 'retrying', 'parked', 'fenced', 'forked')),
    reason     TEXT    NOT NULL,
    remote     TEXT    NOT NULL
) STRICT;

CREATE INDEX lanes_in_trouble ON lanes (session_no) WHERE state IN ('parked', 'fenced', 'forked');

-- Sessions that may have more than was acknowledged: those that have, and some that had. A commit
-- puts its session here, unless no one else committed since the same writer did so before.
CREATE TABLE outbox (
    session_no INTEGER PRIMARY KEY REFERENCES sessions (no)
) STRICT;

-- The heartbeat of the process that drains; its row comes with the first one.
CREATE TABLE drainer (
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    pid        INTEGER NOT NULL,
    started_us INTEGER NOT NULL,
    beat_us    INTEGER NOT NULL,
    since_us   INTEGER NOT NULL,
    last_us    INTEGER NOT NULL,
    attempt_us INTEGER NOT NULL,
    next_us    INTEGER NOT NULL,
    command    TEXT    NOT NULL,
    state      TEXT    NOT NULL,
    reason     TEXT    NOT NULL,
    remote     TEXT    NOT NULL,
    address    TEXT    NOT NULL
) STRICT;

-- What people decided about delivery, and the number of the session that was committed to last, so
-- that a writer need not look through all sessions for the time after each commit of a drainer.
CREATE TABLE sync (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    paused INTEGER NOT NULL CHECK (paused IN (0, 1)),
    turn   INTEGER NOT NULL
) STRICT;

INSERT INTO sync (one, paused, turn) VALUES (1, 0, 0);

-- What processes noted of their work, for metrics, because no event tells it. Nothing here is signed,
-- and it only grows.
CREATE TABLE work (
    kind    TEXT    NOT NULL,
    mode    TEXT    NOT NULL,
    outcome TEXT    NOT NULL,
    n       INTEGER NOT NULL CHECK (n >= 0),
    PRIMARY KEY (kind, mode, outcome)
) STRICT, WITHOUT ROWID;

-- How long the phases of resumes took: the number and the sum of those above the bound of the row
-- before and not above that of this one.
CREATE TABLE phases (
    phase  TEXT    NOT NULL,
    le_us  INTEGER NOT NULL,
    n      INTEGER NOT NULL CHECK (n >= 0),
    sum_us INTEGER NOT NULL CHECK (sum_us >= 0),
    PRIMARY KEY (phase, le_us)
) STRICT, WITHOUT ROWID;

-- Attempts of steps that did not complete, so that metrics count them without reading all events.
CREATE INDEX events_of_failures ON events (type) WHERE type = 'StepFailed' OR type = 'StepUnknown';
