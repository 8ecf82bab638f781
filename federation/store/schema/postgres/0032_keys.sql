-- The keys and secrets that this record was written with, by fingerprint: the newest of each.
CREATE TABLE own_key (
    name        text COLLATE "C" NOT NULL PRIMARY KEY, -- of its file
    fingerprint text COLLATE "C" NOT NULL,
    since       bigint NOT NULL -- unix nanoseconds
);
