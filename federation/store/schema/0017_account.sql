-- The account at an issuer of OpenID Connect by which an agent registered; '' for none.
ALTER TABLE agent ADD COLUMN issuer  TEXT NOT NULL DEFAULT '';
ALTER TABLE agent ADD COLUMN subject TEXT NOT NULL DEFAULT '';
