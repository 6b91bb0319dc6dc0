-- +goose Up
SET LOCAL ROLE acode_owner;

-- Content that events name by the SHA-256 of what it is before compression. The server cannot
-- decompress it, so whoever sends it is part of the key: nobody can give another's hash a
-- content of his own.
CREATE TABLE acode.blobs (
    owner      name    NOT NULL,
    hash       bytea   NOT NULL CHECK (octet_length(hash) = 32),
    bytes      bigint  NOT NULL CHECK (bytes >= 0), -- before compression
    chunks     integer NOT NULL CHECK (chunks >= 1),
    stored     bigint  NOT NULL, -- compressed
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (owner, hash)
);

-- A blob without its row in blobs is on its way. Data is one zstd stream, cut.
CREATE TABLE acode.blob_chunks (
    owner name    NOT NULL,
    hash  bytea   NOT NULL CHECK (octet_length(hash) = 32),
    n     integer NOT NULL CHECK (n BETWEEN 0 AND 1000000),
    sum   bytea   NOT NULL CHECK (octet_length(sum) = 32),
    data  bytea   NOT NULL CHECK (octet_length(data) <= 1048576),
    PRIMARY KEY (owner, hash, n)
);
ALTER TABLE acode.blob_chunks ALTER COLUMN data SET STORAGE EXTERNAL;

-- +goose StatementBegin
-- missing_blobs gives those of the hashes that the caller has not sent whole.
CREATE FUNCTION acode.missing_blobs(p_hashes bytea[]) RETURNS TABLE (hash bytea)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, acode, pg_temp AS $$
    SELECT DISTINCT u.hash FROM unnest(p_hashes) u (hash)
    WHERE NOT EXISTS (SELECT 1 FROM blobs b WHERE b.owner = session_user AND b.hash = u.hash)
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- blob_sums lists which chunks of a blob that is on its way are there.
CREATE FUNCTION acode.blob_sums(p_hash bytea) RETURNS TABLE (n integer, sum bytea)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, acode, pg_temp AS $$
    SELECT c.n, c.sum FROM blob_chunks c WHERE c.owner = session_user AND c.hash = p_hash ORDER BY c.n
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- put_chunk stores a chunk whose content has the SHA-256 p_sum. Those of a whole blob stay.
CREATE FUNCTION acode.put_chunk(p_hash bytea, p_n integer, p_sum bytea, p_data bytea) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, acode, pg_temp AS $$
BEGIN
    PERFORM be_durable();
    IF sha256(p_data) IS DISTINCT FROM p_sum THEN
        RAISE EXCEPTION 'a chunk is not what was sent' USING ERRCODE = 'AC005';
    END IF;
    IF NOT EXISTS (SELECT 1 FROM blobs b WHERE b.owner = session_user AND b.hash = p_hash) THEN
        INSERT INTO blob_chunks AS c (owner, hash, n, sum, data) VALUES (session_user, p_hash, p_n, p_sum, p_data)
        ON CONFLICT (owner, hash, n) DO UPDATE SET sum = excluded.sum, data = excluded.data WHERE c.sum <> excluded.sum;
    END IF;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- finish_blob declares a blob whole, which is of p_chunks chunks whose sums, put together,
-- have the SHA-256 p_sums. Doing it again changes nothing.
CREATE FUNCTION acode.finish_blob(p_hash bytea, p_bytes bigint, p_chunks integer, p_sums bytea) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, acode, pg_temp AS $$
DECLARE
    x record;
BEGIN
    PERFORM be_durable();
    IF EXISTS (SELECT 1 FROM blobs b WHERE b.owner = session_user AND b.hash = p_hash) THEN
        RETURN;
    END IF;
    DELETE FROM blob_chunks c WHERE c.owner = session_user AND c.hash = p_hash AND c.n >= p_chunks;
    SELECT sha256(string_agg(c.sum, ''::bytea ORDER BY c.n)) AS sums, sum(octet_length(c.data)) AS stored INTO x
    FROM blob_chunks c WHERE c.owner = session_user AND c.hash = p_hash;
    IF x.sums IS DISTINCT FROM p_sums THEN
        RAISE EXCEPTION 'the chunks are not those that were sent' USING ERRCODE = 'AC005';
    END IF;
    INSERT INTO blobs (owner, hash, bytes, chunks, stored) VALUES (session_user, p_hash, p_bytes, p_chunks, x.stored)
    ON CONFLICT DO NOTHING;
END
$$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION acode.missing_blobs(bytea[]), acode.blob_sums(bytea), acode.put_chunk(bytea, integer, bytea, bytea),
    acode.finish_blob(bytea, bigint, integer, bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION acode.missing_blobs(bytea[]), acode.blob_sums(bytea), acode.put_chunk(bytea, integer, bytea, bytea),
    acode.finish_blob(bytea, bigint, integer, bytea) TO acode_writer;

UPDATE acode.meta SET schema_version = 3;
RESET ROLE;
