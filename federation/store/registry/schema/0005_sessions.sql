-- An account registers one agent by a token that names no registration.
CREATE INDEX agent_account ON agent (issuer, subject) WHERE issuer <> '';

-- A released handle keeps its row: whoever registers the handle next gets its DID, inbox and
-- consent.
ALTER TABLE agent ADD COLUMN released INTEGER NOT NULL DEFAULT 0; -- when an operator released it; 0 for a handle in use

-- First contacts have shares by source.
ALTER TABLE consent ADD COLUMN source TEXT NOT NULL DEFAULT ''; -- site, link or registry of the sender when it asked last; '' if unknown
