"""The option files of MySQL's clients: in random files MySQL's own reader finds the same values as ours."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from bufferlab.engines.innodb import connection
from bufferlab.engines.servers.child_process import environment, loaded
from support import innodb

pytestmark = [pytest.mark.real, pytest.mark.servers, pytest.mark.slow]

GROUPS = ("client", "bufferlab")
LETTERS = st.text(st.sampled_from("ab '\"#\\;=![] \t"), max_size=12)
LINES = st.one_of(
    st.sampled_from(["[client]", "[bufferlab]", "[other]", "[client", "# c", "password", "!include inner.cnf"]),
    LETTERS,
    LETTERS.map(lambda value: f"password={value}"),
)
TEXTS = st.lists(LINES, max_size=8).map("\n".join)


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much],
)
@given(TEXTS, TEXTS)
@example("[client]\npassword='a # b\\'' # c\n", "")
@example("[client]\n!include inner.cnf\npassword=b", "[client]\npassword=a")
def test_mysqls_own_reader_finds_the_same_options(tmp_path: Path, text: str, inner: str) -> None:
    build = innodb.build("mysql-9")
    path = tmp_path / "random.cnf"
    (tmp_path / "inner.cnf").write_text(inner)
    path.write_text(text.replace("inner.cnf", str(tmp_path / "inner.cnf")))
    program = build.binary.parents[1] / "bin" / "my_print_defaults"
    command = [*loaded([str(program)], build.libraries), f"--defaults-file={path}", "--show", *GROUPS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(environment(build.libraries)))
    # MySQL's programs end at a mistake in a file; ours reads it up to the mistake. A value without a name is not an
    # option.
    assume(done.returncode == 0 and not re.search(r"^[ \t\v\f\r]*=", f"{text}\n{inner}", re.MULTILINE))
    ours = [f"--{name}" + ("" if value is None else f"={value}") for name, value, _ in connection.options(path, GROUPS)]
    assert "".join(f"{line}\n" for line in ours) == done.stdout
