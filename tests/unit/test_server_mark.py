"""The mark of a schema on a server that bufferlab did not start; tested without a server."""

from __future__ import annotations

from bufferlab.engines.servers import run


def test_names_of_tables_are_found_in_the_statements_that_make_them() -> None:
    made = run.made_by(
        """
        SET x = 1; -- CREATE TABLE of_a_comment
        create table if not exists "Mixed" (id INT) ; CREATE UNLOGGED TABLE b AS SELECT 'CREATE TABLE of_a_string';
        INSERT INTO b VALUES ('; CREATE TABLE of_another (');
        CREATE ALGORITHM = MERGE VIEW lab.v AS SELECT 1; CREATE MATERIALIZED VIEW m AS SELECT 1; CREATE SEQUENCE s;
        CREATE FUNCTION f() RETURNS TABLE (a INT) AS 'SELECT 1'; CREATE LOCAL TEMP TABLE gone (id INT)
        """
    )
    assert made == ('"Mixed"', "b", "lab.v", "m", "s")
