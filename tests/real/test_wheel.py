"""The wheel as a user without a clone gets it: its contents, the systems on which it runs, and the files that it
writes."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bufferlab.spec import builtin_experiments
from support.core import ROOT

pytestmark = pytest.mark.slow

OLDEST_GLIBC = (2, 28)


def ran(*command: object, **settings: object) -> subprocess.CompletedProcess[str]:
    words = list(map(str, command))
    return subprocess.run(words, capture_output=True, text=True, check=False, **settings)  # type: ignore[call-overload, no-any-return]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a wheel and a source distribution; the wheel is built from the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    # Noted now, because a commit may come during the build.
    (folder / "commit").write_text(ran("git", "rev-parse", "HEAD", cwd=ROOT).stdout)
    done = ran("tools/build-wheel", "--out", folder, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (file,) = built.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@dataclass(frozen=True)
class Installed:
    """A virtual environment with the wheel, in a folder that every user may read."""

    folder: Path

    @property
    def packages(self) -> Path:
        (found,) = self.folder.glob("lab/lib/python*/site-packages")
        return found

    def bufferlab(self, *arguments: object, home: Path, **more: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": os.defpath, "HOME": str(home), **more}
        return ran(self.folder / "lab/bin/bufferlab", *arguments, env=environment, cwd=self.folder / "work")


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Iterator[Installed]:
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="bufferlab-wheel-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "work").mkdir()
        ran(sys.executable, "-m", "venv", folder / "lab")
        done = ran(folder / "lab/bin/pip", "install", "--quiet", wheel)
        assert done.returncode == 0, done.stderr
        yield Installed(folder)


def test_the_core_needs_no_newer_c_library_than_the_wheels_name_says(wheel: Path, unpacked: Path) -> None:
    symbols = ran("objdump", "-T", unpacked / "bufferlab/_native.abi3.so").stdout
    wanted = {(int(major), int(minor)) for major, minor in re.findall(r"GLIBC_(\d+)\.(\d+)", symbols)}
    assert max(wanted) <= OLDEST_GLIBC
    assert len(wanted) > 3
    assert wheel.name.endswith("-cp311-abi3-manylinux_2_28_x86_64.whl")


def test_the_core_is_stripped(unpacked: Path) -> None:
    sections = ran("objdump", "-h", unpacked / "bufferlab/_native.abi3.so").stdout
    assert ".text" in sections
    assert ".debug" not in sections
    assert ".symtab" not in sections


def test_the_wheel_has_experiments_manual_pages_and_its_commit_but_no_figures_and_tests(
    built: Path, unpacked: Path
) -> None:
    files = {str(file.relative_to(unpacked)) for file in unpacked.rglob("*") if file.is_file()}
    experiments = {name for name in files if name.startswith("bufferlab/experiments/")}
    assert {name.split("/")[2] for name in experiments if name.endswith("/experiment.toml")} == set(
        builtin_experiments()
    )
    assert any(name.endswith(".sql") for name in experiments)
    assert {name.rpartition(".")[2] for name in experiments} == {"toml", "sql", "md"}
    assert any(name.endswith("data/share/man/man1/bufferlab-run.1") for name in files)
    commit = (unpacked / "bufferlab/commit.txt").read_text().strip()
    assert len(commit) == 12
    assert (built / "commit").read_text().startswith(commit)
    assert not [name for name in files if "test" in name.split("/")[0] or name.endswith(".pyc")]


def test_the_description_leads_nowhere_in_the_repository(unpacked: Path) -> None:
    (metadata,) = unpacked.glob("*.dist-info/METADATA")
    text = metadata.read_text()
    assert "Requires-Python: >=3.11" in text
    assert "Project-URL: Repository, " in text
    assert re.findall(r"\]\((?!https?:)[^)]*\)", text) == []


@pytest.mark.parametrize(
    "asked",
    [
        ("--python-version", "3.10"),
        ("--platform", "musllinux_1_2_x86_64"),
        ("--platform", "manylinux_2_28_aarch64"),
        ("--platform", "manylinux_2_17_x86_64"),
    ],
)
def test_pip_refuses_where_the_wheel_cannot_run(wheel: Path, tmp_path: Path, asked: tuple[str, str]) -> None:
    options = ("--target", tmp_path, "--only-binary=:all:", "--no-deps", "--dry-run")
    done = ran(sys.executable, "-m", "pip", "install", *options, *asked, wheel)
    assert done.returncode != 0
    assert "is not a supported wheel on this platform" in done.stderr


def test_an_installed_wheel_runs_an_experiment_to_its_report_and_writes_nothing_beside_itself(
    installed: Installed,
) -> None:
    def files() -> dict[str, int]:
        return {str(file): file.stat().st_mtime_ns for file in installed.packages.rglob("*")}

    home = installed.folder / "home"
    home.mkdir()
    before = files()
    ended = installed.bufferlab("run", "buffer-size", "--smoke", home=home)
    assert ended.returncode == 0, ended.stderr
    (report,) = installed.folder.glob("work/runs/buffer-size-*/report.html")
    assert report.stat().st_size > 50_000
    doctor = json.loads(installed.bufferlab("doctor", "--json", home=home).stdout)
    (found,) = (finding for finding in doctor["findings"] if finding["name"] == "experiments")
    assert found["detail"] == f"{len(builtin_experiments())} in {installed.packages}/bufferlab/experiments"
    assert files() == before


def test_a_home_that_cannot_be_written_is_told_and_another_cache_helps(installed: Installed) -> None:
    cache = installed.folder / "cache"
    # Not even root can make folders in /proc.
    refused = installed.bufferlab("run", "buffer-size", "--smoke", home=Path("/proc"))
    assert refused.returncode == 3, refused.stderr
    assert "BUFFERLAB_CACHE" in refused.stderr
    assert "Traceback" not in refused.stderr
    helped = installed.bufferlab("run", "buffer-size", "--smoke", home=Path("/proc"), BUFFERLAB_CACHE=str(cache))
    assert helped.returncode == 0, helped.stderr
    assert "Traceback" not in helped.stderr


@pytest.mark.skipif(not shutil.which("cargo"), reason="the core is built with Rust, of which there is no cargo on PATH")
def test_pip_installs_the_source_distribution(built: Path, tmp_path: Path) -> None:
    (source,) = built.glob("*.tar.gz")
    ran(sys.executable, "-m", "venv", tmp_path / "lab")
    # Crates that were compiled before are not compiled again: the test checks the contents of the archive.
    environment = os.environ | {"CARGO_TARGET_DIR": str(ROOT / "target")}
    done = ran(tmp_path / "lab/bin/pip", "install", "--quiet", source, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    environment = {"PATH": os.defpath, "HOME": str(tmp_path)}
    told = ran(tmp_path / "lab/bin/bufferlab", "--version", env=environment, cwd=tmp_path).stdout
    commit = (built / "commit").read_text()[:12]
    assert f"commit {commit}" in told
    found = json.loads(ran(tmp_path / "lab/bin/bufferlab", "list", "--json", env=environment, cwd=tmp_path).stdout)
    assert {one["name"] for one in found["experiments"]} == set(builtin_experiments())


def steps_of(dockerfile: str) -> str:
    """Return a shell script of the Dockerfile's steps after its base image."""
    script = ["set -eu"]
    for line in dockerfile.replace("\\\n", " ").splitlines():
        word, _, rest = line.strip().partition(" ")
        match word:
            case "RUN":
                script.append(f"(cd / && {rest})")
            case "COPY":
                script.append(f"cp {rest}")
            case "ENV":
                name, _, value = rest.partition("=")
                script.append(f"export {name}={shlex.quote(value)}")
    return "\n".join(script)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("debootstrap"), reason="a chroot needs root and debootstrap")
@pytest.mark.parametrize("debian", ["bookworm", "trixie"])
def test_the_steps_of_the_dockerfile_make_an_image_that_measures(wheel: Path, debian: str) -> None:
    script = steps_of((ROOT / "Dockerfile").read_text())
    assert script.count("(cd /") >= 3
    script += (
        "\ncd / && bufferlab --version && bufferlab run buffer-size --smoke && ls runs/buffer-size-*/report.html\n"
    )
    done = ran("tools/try-in-chroot.sh", debian, "--put", wheel, "sh", "-c", script, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "commit " in done.stdout
    assert "report.html" in done.stdout
