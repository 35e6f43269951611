-- Reads every page of the database once, before the warm-up counts anything: what a script will read is not known.

-- name: every_page
SELECT count(*) FROM dbstat;
