"""The shell around every command: options, errors, exit codes, and what a cold start may load."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from releasekit import __version__, errors
from releasekit.__main__ import exit_code
from tests.sample import write_sample

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import ReleaseKit

COMMANDS = (
    "init", "check", "publish", "demo", "discover", "graph", "recover", "status", "pause", "resume",
    "cancel", "clean",
)  # fmt: skip


def test_version(releasekit: ReleaseKit) -> None:
    result = releasekit("--version")
    assert (result.code, result.out) == (0, f"releasekit {__version__}\n")


def test_every_command_shows_help_with_examples(releasekit: ReleaseKit) -> None:
    top = releasekit("--help")
    assert top.code == 0
    assert "Examples:" in top.out
    for command in COMMANDS:
        assert f"  {command} " in top.out
        shown = releasekit(command, "--help")
        assert shown.code == 0
        assert "Examples:" in shown.out
        assert f"releasekit {command}" in shown.out
        assert "--root" in shown.out


def test_alone_it_shows_the_workspace_and_what_to_do_next(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    write_sample(tmp_path)
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    result = releasekit(cwd=tmp_path)
    assert result.code == 0
    assert "5 of 6 packages are publishable" in result.out
    assert "releasekit publish" in result.out
    below = releasekit(cwd=tmp_path / "python/acme-app/src")
    assert below.out == result.out


@pytest.mark.parametrize("order", ["before", "after"])
def test_global_options_stand_before_or_after_the_command(
    releasekit: ReleaseKit, tmp_path: Path, order: str
) -> None:
    write_sample(tmp_path / "repo")
    options = ("-C", str(tmp_path / "repo"), "--output", "json")
    arguments = (
        (*options, "init", "--print") if order == "before" else ("init", "--print", *options)
    )
    result = releasekit(*arguments, cwd=tmp_path)
    assert result.code == 0, result.err
    assert result.json()["file"] == str(tmp_path / "repo/releasekit.toml")


def test_the_later_of_two_options_wins(releasekit: ReleaseKit, tmp_path: Path) -> None:
    write_sample(tmp_path)
    result = releasekit("--output", "json", "init", "--print", "--output", "text", cwd=tmp_path)
    assert result.out.startswith("# releasekit.toml")


def test_overview_as_json(releasekit: ReleaseKit, tmp_path: Path) -> None:
    write_sample(tmp_path)
    assert releasekit("--output", "json", cwd=tmp_path).json()["publishable"] == 5


def test_an_error_is_a_message_a_hint_and_an_exit_code(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    (tmp_path / "releasekit.toml").write_text("exlude = []\n")
    (tmp_path / "package.json").write_text('{"name": "x", "version": "1.0.0"}')
    result = releasekit(cwd=tmp_path)
    assert result.code == 2
    assert result.out == ""
    first, second = result.err.splitlines()
    assert first == f"error: {tmp_path / 'releasekit.toml'}:1: there is no key `exlude`"
    assert second == "hint: did you mean `exclude`?"


def test_an_error_is_also_json_for_programs(releasekit: ReleaseKit, tmp_path: Path) -> None:
    result = releasekit("-C", tmp_path / "nowhere", "--output", "json")
    assert result.code == 2
    error = result.json()["error"]
    assert error["kind"] == "NoSuchFolder"
    assert error["exit_code"] == 2
    assert error["hint"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("pubish",),
        ("publish", "--concurency", "3"),
        ("publish", "--registry", "npm"),
        ("publish", "--registry", "npm=ftp://x"),
        ("publish", "--registry", "pypi=http://a,http://b,http://c"),
        ("--output", "yaml"),
        ("-C", "/dev/null"),
        ("-C", "/nowhere"),
    ],
)
def test_wrong_usage_exits_2_with_a_hint_and_no_traceback(
    releasekit: ReleaseKit, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    write_sample(tmp_path)
    result = releasekit(*arguments, cwd=tmp_path)
    assert result.code == 2
    assert result.err.startswith("error: ")
    assert "hint: " in result.err
    assert "Traceback" not in result.err


def test_a_folder_without_packages_says_so(releasekit: ReleaseKit, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    result = releasekit(cwd=tmp_path)
    assert result.code == 2
    assert "hint: " in result.err


def test_debug_shows_the_traceback(releasekit: ReleaseKit, tmp_path: Path) -> None:
    result = releasekit("-C", tmp_path / "nowhere", "--debug")
    assert "Traceback" in result.err
    assert "error: there is no folder" in result.err


def test_every_error_class_maps_to_a_documented_exit_code() -> None:
    assert exit_code(errors.ReleaseKitError("x")) == 1
    assert exit_code(errors.NoSuchFolder(folder=__import__("pathlib").Path("x"))) == 2
    assert exit_code(errors.Interrupted("x")) == 3
    assert issubclass(errors.Locked, errors.ReleaseKitError)
    assert issubclass(errors.NeedsRecovery, errors.ReleaseKitError)


def in_terminal(arguments: list[str], cwd: Path, env: dict[str, str]) -> str:
    """What the command prints when its stdout is a terminal."""
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "releasekit", *arguments],
        cwd=cwd,
        env=os.environ | {"TERM": "xterm-256color"} | env,
        stdin=follower,
        stdout=follower,
        stderr=follower,
    ) as child:
        os.close(follower)
        shown = b""
        try:
            while chunk := os.read(leader, 65536):
                shown += chunk
        except OSError:  # EIO: the other side is closed
            pass
        child.wait()
    os.close(leader)
    return shown.decode()


@pytest.mark.parametrize(
    ("arguments", "env", "colored"),
    [
        ([], {}, True),
        (["--color", "never"], {}, False),
        ([], {"NO_COLOR": "1"}, False),
        ([], {"NO_COLOR": ""}, True),
        (["--color", "always"], {"NO_COLOR": "1"}, True),
        ([], {"TERM": "dumb"}, False),
    ],
)
def test_color_follows_the_terminal_the_option_and_no_color(
    tmp_path: Path, arguments: list[str], env: dict[str, str], colored: bool
) -> None:
    write_sample(tmp_path)
    assert ("\x1b[" in in_terminal(arguments, tmp_path, env)) is colored


def test_a_pipe_gets_no_color_unless_asked(releasekit: ReleaseKit, tmp_path: Path) -> None:
    write_sample(tmp_path)
    assert "\x1b[" not in releasekit(cwd=tmp_path).out
    assert "\x1b[" in releasekit("--color", "always", cwd=tmp_path).out


def test_text_from_outside_cannot_reach_the_terminal_raw(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    (tmp_path / "releasekit.toml").write_text('"\\u001b]0;owned\\u0007\\u202e" = 1\n')
    (tmp_path / "package.json").write_text('{"name": "x", "version": "1.0.0"}')
    result = releasekit(cwd=tmp_path)
    assert result.code == 2
    assert "\x1b" not in result.err
    assert "\u202e" not in result.err


def test_a_closed_pipe_is_no_traceback(tmp_path: Path) -> None:
    write_sample(tmp_path)
    command = f"{sys.executable} -m releasekit init --print | true"
    shown = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert shown.stderr == ""


def test_verbose_logs_to_stderr_and_never_to_stdout(releasekit: ReleaseKit, tmp_path: Path) -> None:
    write_sample(tmp_path, node={})
    nowhere = "pypi=http://127.0.0.1:9/,http://127.0.0.1:9/"
    arguments = ("publish", "--output", "json", "--registry", nowhere)
    quiet = releasekit(*arguments, cwd=tmp_path)
    loud = releasekit(*arguments, "-v", cwd=tmp_path)
    assert "request failed" in loud.err
    assert "request failed" not in quiet.err
    assert loud.json()["error"]["kind"] == quiet.json()["error"]["kind"] == "RegistryUnreachable"


def test_a_terminal_that_knows_only_ascii_ends_nothing(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    write_sample(tmp_path, node={})
    (tmp_path / "releasekit.toml").write_text('"ü" = 1\n', encoding="utf-8")
    for env in ({"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}):
        result = releasekit(cwd=tmp_path, env=env)
        assert result.code == 2
        assert "there is no key" in result.err


def test_what_the_system_refuses_is_said_with_the_file(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    write_sample(tmp_path / "repo")
    (tmp_path / "repo/releasekit.toml").symlink_to(tmp_path / "nowhere/releasekit.toml")
    result = releasekit("init", cwd=tmp_path / "repo")
    assert result.code == 1
    assert result.err.startswith("error: `")
    assert "No such file or directory" in result.err


def test_completion_can_be_shown(releasekit: ReleaseKit) -> None:
    result = releasekit("--show-completion", "bash")
    assert result.code == 0, result.err
    assert "_RELEASEKIT_COMPLETE" in result.out
    completed = releasekit(
        env={"_RELEASEKIT_COMPLETE": "complete_bash", "COMP_WORDS": "releasekit pu",
             "COMP_CWORD": "1"},
    )  # fmt: skip
    assert completed.out.split() == ["publish"]


HEAVY = ("asyncio", "filelock", "httpx", "packaging.metadata", "pydantic", "rich", "structlog",
         "tomlkit", "twine", "waitress")  # fmt: skip


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["discover"]])
def test_a_cold_start_loads_no_heavy_module(tmp_path: Path, arguments: list[str]) -> None:
    write_sample(tmp_path)
    script = f"""
import sys
from releasekit.__main__ import main
sys.argv = ["releasekit", *{arguments!r}]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""
    shown = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0, shown.stderr
    assert shown.stderr == "[]\n"


def test_init_writes_a_config_that_loads_and_never_overwrites(
    releasekit: ReleaseKit, tmp_path: Path
) -> None:
    write_sample(tmp_path)
    first = releasekit("init", cwd=tmp_path)
    assert first.code == 0, first.err
    file = tmp_path / "releasekit.toml"
    text = file.read_text()
    assert "[registries.pypi]" in text
    assert "[registries.npm]" in text
    assert releasekit(cwd=tmp_path).code == 0
    again = releasekit("init", cwd=tmp_path)
    assert again.code == 2
    assert file.read_text() == text
    # Every example, uncommented, is a valid configuration.
    examples = [
        line.removeprefix("# ")
        for line in text.splitlines()
        if line.startswith("# ") and (" = " in line or line.startswith("# ["))
    ]
    file.write_text("\n".join(example for example in examples if "roots" not in example))
    assert releasekit(cwd=tmp_path).code == 0
