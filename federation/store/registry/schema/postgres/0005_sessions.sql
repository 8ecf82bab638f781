-- An account registers one agent by a token that names no registration.
CREATE INDEX agent_account ON agent (issuer, subject) WHERE issuer <> '';

-- See the version in the folder above.
ALTER TABLE agent ADD COLUMN released bigint NOT NULL DEFAULT 0;
ALTER TABLE consent ADD COLUMN source text COLLATE "C" NOT NULL DEFAULT '';
