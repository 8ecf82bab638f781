CREATE TABLE operator_token (
    name    text COLLATE "C" PRIMARY KEY,
    scope   text COLLATE "C" NOT NULL,
    digest  bytea  NOT NULL UNIQUE,
    created bigint NOT NULL,
    expires bigint NOT NULL
);

CREATE INDEX operator_token_expires ON operator_token (expires);
