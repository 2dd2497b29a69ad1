"""What can go wrong in the middle of a release, each followed by the same command once more.

The registries are real; a relay before them counts what comes in, and misbehaves where asked.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from releasekit import embedded, process
from releasekit.journal import FILE_NAME
from tests.faults import Fault, Watch, faulty_registry
from tests.monorepos import committed
from tests.sample import write_sample
from tests.test_publish import outcomes, pypi_option, served
from tests.victim_publish import POINTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from releasekit.config import RegistrySettings
    from tests.conftest import ReleaseKit, Result

VICTIM = Path(__file__).with_name("victim_publish.py")


@pytest.fixture(scope="module")
def pypi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistrySettings]:
    """One for all tests here: each publishes under names of its own."""
    with embedded.pypi_registry(tmp_path_factory.mktemp("pypi")) as settings:
        yield settings


@pytest.fixture(scope="module")
def npm(tmp_path_factory: pytest.TempPathFactory, npm_modules: Path) -> Iterator[RegistrySettings]:
    with embedded.npm_registry(tmp_path_factory.mktemp("npm"), modules=npm_modules) as settings:
        yield settings


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """Of this test's packages: no other test has published them."""
    return f"p{abs(hash(request.node.nodeid)) % 10**9}"


def python_repository(root: Path, prefix: str) -> Path:
    """Three packages in a chain; two of their manifests are pinned."""
    names = {"app": ("models",), "models": ("text",), "text": ()}
    write_sample(
        root,
        node={},
        python={
            f"{prefix}-{name}": tuple(f"{prefix}-{need}" for need in needs)
            for name, needs in names.items()
        },
    )
    return committed(root, {})


def files_of(prefix: str) -> list[str]:
    names = [f"{prefix}_{name}-1.0.0" for name in ("app", "models", "text")]
    return sorted(f"{name}{kind}" for name in names for kind in ("-py3-none-any.whl", ".tar.gz"))


def manifests(root: Path) -> dict[Path, bytes]:
    return {
        file: file.read_bytes()
        for pattern in ("*/*/pyproject.toml", "*/*/package.json")
        for file in root.glob(pattern)
    }


def publish(releasekit: ReleaseKit, root: Path, registry: str, *more: str) -> Result:
    return releasekit(
        "publish", "--yes", "--output", "json", "--registry", registry, *more, cwd=root
    )


def killed(point: str, root: Path, registry: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, VICTIM, point, "publish", "--yes", "--registry", registry],
        cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True,
        env=os.environ | {"PYTHONPATH": str(VICTIM.parent.parent)},
    )  # fmt: skip


def journals(root: Path) -> list[Path]:
    return sorted(root.glob(f".git/releasekit/runs/*/{FILE_NAME}"))


@pytest.mark.parametrize("point", [*POINTS, "stored"])
def test_after_kill_9_at_each_point_everything_is_published_exactly_once(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings, prefix: str, point: str
) -> None:
    root = python_repository(tmp_path / "repo", prefix)
    before, watch = manifests(root), Watch()
    child: list[subprocess.Popen[bytes]] = []
    begun = threading.Event()
    if point == "stored":  # the registry holds the file, and we never hear of it

        def kill(_: str) -> None:
            begun.wait()
            child[0].kill()
            child[0].wait()

        watch.on_stored = kill
    with faulty_registry(pypi, watch=watch) as faulty:
        registry = pypi_option(faulty)
        child.append(killed(point, root, registry))
        begun.set()
        assert child[0].wait(timeout=60) == -signal.SIGKILL
        sent_before = len(watch.uploads)
        watch.on_stored = lambda _: None
        again = publish(releasekit, root, registry)
        assert again.code == 0, again.out + again.err
    assert set(outcomes(again).values()) <= {"published", "already there"}
    assert manifests(root) == before
    assert sorted(watch.uploads) == sorted(watch.stored) == files_of(prefix)  # nothing twice
    expected = {"answer": 1, "confirm": 2, "finish": 6, "stored": 1}
    assert sent_before == expected.get(point, 0)
    for name in ("app", "models", "text"):
        assert len(served(pypi, f"{prefix}-{name}")) == 2


@pytest.mark.parametrize("point", ["send", "answer", "stored"])
def test_npm_after_kill_9_everything_is_published_exactly_once(
    releasekit: ReleaseKit, tmp_path: Path, npm: RegistrySettings, prefix: str, point: str
) -> None:
    names = {f"@{prefix}/cli": (f"@{prefix}/parser",), f"@{prefix}/parser": ()}
    write_sample(tmp_path / "repo", python={}, node=names)
    root = committed(tmp_path / "repo", {})
    before, watch = manifests(root), Watch()
    child: list[subprocess.Popen[bytes]] = []
    begun = threading.Event()
    if point == "stored":

        def kill(_: str) -> None:
            begun.wait()
            child[0].kill()
            child[0].wait()

        watch.on_stored = kill
    with faulty_registry(npm, watch=watch) as faulty:
        child.append(killed(point, root, f"npm={faulty.url}"))
        begun.set()
        assert child[0].wait(timeout=60) == -signal.SIGKILL
        watch.on_stored = lambda _: None
        again = publish(releasekit, root, f"npm={faulty.url}")
        assert again.code == 0, again.out + again.err
    assert set(outcomes(again).values()) <= {"published", "already there"}
    assert manifests(root) == before
    assert len(watch.uploads) == len(watch.stored) == len(set(watch.stored)) == 2


@pytest.mark.parametrize("fault", [
    Fault(status=503, words="Service Unavailable", stored=True),
    Fault(stored=True),
], ids=["503", "reset"])  # fmt: skip
def test_npm_what_was_stored_is_done_and_sent_once(
    releasekit: ReleaseKit, tmp_path: Path, npm: RegistrySettings, prefix: str, fault: Fault
) -> None:
    names = {f"@{prefix}/cli": (f"@{prefix}/parser",), f"@{prefix}/parser": ()}
    write_sample(tmp_path / "repo", python={}, node=names)
    watch = Watch()
    faults = {f"@{prefix}/parser": [fault]}
    with faulty_registry(npm, uploads=faults, watch=watch) as faulty:
        result = publish(releasekit, tmp_path / "repo", f"npm={faulty.url}")
    assert result.code == 0, result.out + result.err
    assert set(outcomes(result).values()) == {"published"}
    assert len(watch.uploads) == len(set(watch.stored)) == 2


def test_a_connection_that_ends_in_the_middle_of_a_body_is_tried_again(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings, prefix: str
) -> None:
    root, watch = python_repository(tmp_path / "repo", prefix), Watch()
    # More than the kernel keeps for us: the cut is noticed while the body is being sent.
    big = root / f"python/{prefix}-text/src/{prefix}_text/data.bin"
    big.write_bytes(os.urandom(12 << 20))
    committed(root, {})
    faults = {f"{prefix}-text": [Fault(cut=True)]}
    with faulty_registry(pypi, uploads=faults, watch=watch) as faulty:
        result = publish(releasekit, root, pypi_option(faulty))
    assert result.code == 0, result.out + result.err
    assert sorted(watch.stored) == files_of(prefix)
    retries = [event for event in result.events() if event["event"] == "retry-scheduled"]
    assert [event["package"] for event in retries] == [f"pypi:{prefix}-text"]


SERVER = """
import socket, sys, threading, os
import pypiserver, waitress
app = pypiserver.app(roots=[sys.argv[1]], disable_fallback=True, hash_algo="sha256",
                     authenticate=[], password_file=".")
listener = socket.create_server(("127.0.0.1", int(sys.argv[2])))
threading.Thread(target=lambda: (sys.stdin.buffer.read(), os._exit(0)), daemon=True).start()
print(f"http://127.0.0.1:{listener.getsockname()[1]}/", flush=True)
waitress.serve(app, sockets=[listener], threads=8, _quiet=True)
"""


def test_a_registry_that_ends_half_way_and_comes_back_is_waited_for(
    tmp_path: Path, prefix: str
) -> None:
    """The same port, the same files; the process in between is gone."""
    root = python_repository(tmp_path / "repo", prefix)
    (tmp_path / "packages").mkdir()

    def server(port: int) -> list[str]:
        return [sys.executable, "-c", SERVER, str(tmp_path / "packages"), str(port)]

    log = tmp_path / "log"
    ended = False
    with process.server(server(0), cwd=tmp_path, env=os.environ, log=log) as address:
        port = int(address.rstrip("/").rpartition(":")[2])
        child = subprocess.Popen(
            [sys.executable, "-m", "releasekit", "publish", "--yes", "--output", "json",
             "--registry", f"pypi={address},{address}simple/"],
            cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert child.stdout is not None
        told = ""
        for line in child.stdout:
            told += line
            if '"confirmed"' in line:
                ended = True
                break
    assert ended, told
    time.sleep(0.3)  # the time that it is away
    with process.server(server(port), cwd=tmp_path, env=os.environ, log=log):
        told += child.communicate(timeout=120)[0]
        assert child.returncode == 0, told
    stored = sorted(file.name for file in (tmp_path / "packages").iterdir())
    assert stored == files_of(prefix)


def test_a_token_that_expires_half_way_stops_loudly_and_a_new_one_goes_on(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings, prefix: str
) -> None:
    root, watch = python_repository(tmp_path / "repo", prefix), Watch()
    old, new = "Basic X190b2tlbl9fOm9sZA==", "Basic X190b2tlbl9fOm5ldw=="  # __token__:old, …:new
    watch.accepts = (old,)
    watch.on_stored = lambda _: first_ends(watch)
    with faulty_registry(pypi, watch=watch) as first:
        result = publish_with(releasekit, root, first, "old")
    assert result.code == 1
    ends = outcomes(result)
    assert ends[f"pypi:{prefix}-text"] == "published"
    assert ends[f"pypi:{prefix}-models"] == "failed"
    assert ends[f"pypi:{prefix}-app"] == "blocked"
    [failed] = [event for event in result.events() if event.get("outcome") == "failed"]
    assert "401" in failed["reason"]
    assert "RELEASEKIT_PYPI_TOKEN" in failed["hint"]
    assert f"pypi:{prefix}-models" in failed["hint"]
    assert "old" not in failed["reason"]
    watch.accepts = (new,)
    watch.on_stored = lambda _: None
    with faulty_registry(pypi, watch=watch) as second:
        again = publish_with(releasekit, root, second, "new")
    assert again.code == 0, again.out + again.err
    assert sorted(watch.stored) == files_of(prefix)


def first_ends(watch: Watch) -> None:
    """After the two files of the first package, its token is worth nothing."""
    if len(watch.stored) == 2:
        watch.accepts = ("none",)


def publish_with(
    releasekit: ReleaseKit, root: Path, faulty: RegistrySettings, token: str
) -> Result:
    return releasekit(
        "publish", "--yes", "--output", "json", "--registry", pypi_option(faulty), cwd=root,
        env={"RELEASEKIT_PYPI_TOKEN": token},
    )  # fmt: skip


def test_of_two_publishes_in_one_checkout_the_second_is_told_of_the_first(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings, prefix: str
) -> None:
    root = python_repository(tmp_path / "repo", prefix)
    arrived, go_on = threading.Event(), threading.Event()
    watch = Watch()

    def hold(_: str) -> None:
        arrived.set()
        go_on.wait(60)

    watch.on_arrival = hold
    with faulty_registry(pypi, watch=watch) as faulty:
        registry = pypi_option(faulty)
        first = subprocess.Popen(
            [sys.executable, "-m", "releasekit", "publish", "--yes", "--registry", registry],
            cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert arrived.wait(60)
            second = publish(releasekit, root, registry)
        finally:
            go_on.set()
            out, _ = first.communicate(timeout=60)
    assert second.code == 4
    assert "`releasekit publish`" in second.err + second.out
    assert f"process {first.pid}" in second.err + second.out
    assert first.returncode == 0, out
    assert sorted(watch.uploads) == files_of(prefix)


def test_a_full_disk_stops_loudly_and_the_next_run_goes_on(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings, prefix: str
) -> None:
    """From the first upload on, no file of the run may grow by more than a few bytes."""
    root, watch = python_repository(tmp_path / "repo", prefix), Watch()
    child: list[subprocess.Popen[str]] = []
    begun = threading.Event()

    def fill(_: str) -> None:
        begun.wait()
        limit = journals(root)[0].stat().st_size + 10
        resource.prlimit(child[0].pid, resource.RLIMIT_FSIZE, (limit, limit))
        watch.on_arrival = lambda _: None

    watch.on_arrival = fill
    with faulty_registry(pypi, watch=watch) as faulty:
        registry = pypi_option(faulty)
        child.append(
            subprocess.Popen(
                [sys.executable, "-m", "releasekit", "publish", "--yes", "--registry", registry],
                cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True,
            )
        )  # fmt: skip
        begun.set()
        out, told = child[0].communicate(timeout=60)
        assert child[0].returncode == 1, out + told
        assert "File too large" in told
        assert FILE_NAME in told
        assert "Traceback" not in told
        assert len(watch.uploads) == 1  # nothing is sent that no journal knows
        again = publish(releasekit, root, registry)
        assert again.code == 0, again.out + again.err
    assert sorted(watch.uploads) == files_of(prefix)
