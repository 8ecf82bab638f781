CREATE TABLE answer (
    did    text COLLATE "C" NOT NULL,
    key    text COLLATE "C" NOT NULL,
    digest bytea NOT NULL,
    event  text COLLATE "C" NOT NULL,
    status integer NOT NULL,
    body   bytea,
    at     bigint NOT NULL,
    PRIMARY KEY (did, key)
);

CREATE INDEX answer_at ON answer (at);

CREATE TABLE declaration (
    did  text COLLATE "C" PRIMARY KEY,
    caps text COLLATE "C" NOT NULL,
    at   bigint NOT NULL
);
