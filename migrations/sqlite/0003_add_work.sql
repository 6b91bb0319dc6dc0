-- +goose Up
PRAGMA user_version = 3;

-- What was done in the store, by what came of it. Nothing here is signed, and it only grows:
-- figures for metrics, which whoever shows them brings up to date from the events.
CREATE TABLE work (
    kind    TEXT    NOT NULL,
    mode    TEXT    NOT NULL,
    outcome TEXT    NOT NULL,
    n       INTEGER NOT NULL CHECK (n >= 0),
    PRIMARY KEY (kind, mode, outcome)
) STRICT, WITHOUT ROWID;

-- How far the events of each session are counted in it, the session's state then, and the mode
-- of a resume whose outcome is not known yet. A session without a row is not counted at all.
CREATE TABLE counted (
    session_no INTEGER PRIMARY KEY REFERENCES sessions (no),
    seq        INTEGER NOT NULL CHECK (seq >= 0),
    state      TEXT    NOT NULL,
    resume     TEXT    NOT NULL
) STRICT;

-- How long the phases of resumes took, which no event tells: the number and the sum of those
-- above the bound of the row before and not above that of this one.
CREATE TABLE phases (
    phase  TEXT    NOT NULL,
    le_us  INTEGER NOT NULL,
    n      INTEGER NOT NULL CHECK (n >= 0),
    sum_us INTEGER NOT NULL CHECK (sum_us >= 0),
    PRIMARY KEY (phase, le_us)
) STRICT, WITHOUT ROWID;
