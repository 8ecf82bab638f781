-- Other homes that operators added while the gateway ran.
CREATE TABLE known_home (
    home  text COLLATE "C" PRIMARY KEY,
    url   text COLLATE "C" NOT NULL,
    path  text COLLATE "C" NOT NULL,
    since bigint NOT NULL
);
