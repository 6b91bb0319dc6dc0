-- +goose Up
PRAGMA user_version = 2;

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

-- Sessions that may have more than was acknowledged: those that have, and some that had. Whoever
-- commits to a session puts it here, unless nobody committed anything since it did so before.
CREATE TABLE outbox (
    session_no INTEGER PRIMARY KEY REFERENCES sessions (no)
) STRICT;

INSERT INTO outbox (session_no) SELECT no FROM sessions;

-- What the lanes add up to, for each database that acknowledged.
CREATE TABLE totals (
    remote TEXT    PRIMARY KEY,
    acked  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- +goose StatementBegin
CREATE TRIGGER lanes_insert AFTER INSERT ON lanes
BEGIN
    INSERT INTO totals (remote, acked) VALUES (NEW.remote, NEW.acked)
    ON CONFLICT (remote) DO UPDATE SET acked = acked + excluded.acked;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER lanes_update AFTER UPDATE ON lanes WHEN OLD.acked <> NEW.acked OR OLD.remote <> NEW.remote
BEGIN
    UPDATE totals SET acked = acked - OLD.acked WHERE remote = OLD.remote;
    INSERT INTO totals (remote, acked) VALUES (NEW.remote, NEW.acked)
    ON CONFLICT (remote) DO UPDATE SET acked = acked + excluded.acked;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER lanes_delete AFTER DELETE ON lanes
BEGIN
    UPDATE totals SET acked = acked - OLD.acked WHERE remote = OLD.remote;
END;
-- +goose StatementEnd

-- The heartbeat of whoever drains; its row comes with the first one.
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

-- What people decided about delivery, and which connection committed events last, so that it
-- need not look through all sessions for the time after each commit of a drainer.
CREATE TABLE sync (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    paused INTEGER NOT NULL CHECK (paused IN (0, 1)),
    remote TEXT    NOT NULL,
    turn   INTEGER NOT NULL
) STRICT;

INSERT INTO sync (one, paused, remote, turn) VALUES (1, 0, '', 0);
