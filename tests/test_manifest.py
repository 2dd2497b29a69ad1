from __future__ import annotations

import os
import resource
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from releasekit import manifest
from releasekit.errors import BrokenManifest, UnreadableManifest, WrongManifest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "manifest"


def read_json(file: Path, warnings: list[str] | None = None) -> dict[str, object] | None:
    return manifest.read_json(file, warn=(warnings if warnings is not None else []).append)


READERS = {"toml": manifest.read_toml, "json": read_json, "yaml": manifest.read_yaml}


@pytest.mark.parametrize("format_", READERS)
def test_no_file_is_none(file: Path, format_: str) -> None:
    assert READERS[format_](file) is None
    assert READERS[format_](file / "below-nothing") is None


@pytest.mark.parametrize("format_", READERS)
def test_a_byte_order_mark_is_dropped(file: Path, format_: str) -> None:
    text = {"toml": 'a = "1"', "json": '{"a": "1"}', "yaml": "a: '1'"}[format_]
    file.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert READERS[format_](file) == {"a": "1"}


@pytest.mark.parametrize("format_", READERS)
def test_a_pipe_without_a_writer_does_not_hang(file: Path, format_: str) -> None:
    os.mkfifo(file)
    with pytest.raises(UnreadableManifest, match="not a regular file"):
        READERS[format_](file)


@pytest.mark.parametrize("format_", READERS)
def test_a_device_and_a_folder_are_not_read(tmp_path: Path, file: Path, format_: str) -> None:
    file.symlink_to("/dev/zero")
    for path in (file, tmp_path):
        with pytest.raises(UnreadableManifest, match="not a regular file"):
            READERS[format_](path)


@pytest.mark.parametrize("format_", READERS)
def test_a_file_of_five_megabytes_is_not_parsed(file: Path, format_: str) -> None:
    file.write_bytes(b" " * 5_000_000)
    with pytest.raises(UnreadableManifest, match="larger than 1,000,000 bytes"):
        READERS[format_](file)


def test_a_file_at_the_limit_is_read(file: Path) -> None:
    file.write_bytes(b"#" * manifest.MAX_BYTES)
    assert manifest.read_toml(file) == {}


def test_permission_denied_is_an_error_with_the_reason(file: Path) -> None:
    file.write_text("{}")
    file.chmod(0)
    code = (
        "import os, sys; from pathlib import Path\n"
        "from releasekit import manifest, errors\n"
        "if os.getuid() == 0: os.setuid(65534)\n"  # root may read everything
        "try: manifest.read_toml(Path(sys.argv[1]))\n"
        "except errors.UnreadableManifest as error: print(error.message)\n"
    )
    file.parent.chmod(0o755)
    for folder in list(file.parents)[:4]:
        folder.chmod(folder.stat().st_mode | 0o111)
    child = subprocess.run(
        [sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=True
    )
    assert child.stdout == f"{file}: cannot be read: Permission denied\n"


@pytest.mark.parametrize(
    ("format_", "text", "place"),
    [
        ("toml", "a = 1\nb = = 2\n", ":2:5: Invalid value"),
        ("toml", "a = 1\na = 2\n", ":2:6: Cannot overwrite a value"),
        ("json", '{\n  "a": 1,\n}\n', ":3:1: Expecting property name"),
        ("json", '{"a": NaN}', ": `NaN` is not JSON"),
        ("json", '{"a": -Infinity}', ": `-Infinity` is not JSON"),
        ("json", "[]", ": this is not a JSON object"),
        ("json", "", ":1:1: Expecting value"),
        ("json", '{"a": ' + "1" * 5_000 + "}", ": Exceeds the limit"),
        ("yaml", "a: 1\nb: [\n", ":3:1: "),
        ("yaml", "- a\n", ": this is not a YAML mapping"),
    ],
)
def test_broken_files_are_told_with_line_and_column(
    file: Path, format_: str, text: str, place: str
) -> None:
    file.write_text(text)
    with pytest.raises(BrokenManifest) as caught:
        READERS[format_](file)
    assert caught.value.message.startswith(f"{file}{place}")


@pytest.mark.parametrize("format_", READERS)
def test_bytes_that_are_not_utf_8_are_told_with_their_place(file: Path, format_: str) -> None:
    file.write_bytes(b"# \n# caf\xe9\n")
    with pytest.raises(BrokenManifest, match=r":2:6: this is not UTF-8"):
        READERS[format_](file)


@pytest.mark.parametrize(
    "key",
    [
        ".".join("a" * 10_000),
        " . ".join(["a"] * 100),
        ".".join(['"a.b"'] * 100),
        ".".join(["'a'", "b-c", '""'] * 40),
    ],
)
@pytest.mark.parametrize("shape", ["{} = 1", "[{}]", "[[{}]]", "a = {{ {} = 1 }}"])
def test_deep_keys_are_refused_before_they_are_parsed(file: Path, key: str, shape: str) -> None:
    file.write_text("x = 1\n" + shape.format(key) + "\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(BrokenManifest, match=r":2: a key is more than 64 levels deep"):
        manifest.read_toml(file)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


def test_dots_that_are_no_keys_are_fine(file: Path) -> None:
    file.write_text(
        f'a = "{"." * 200}"\nb = """\n{"." * 100}\n{". " * 100}\n"""\n'
        f"{'.'.join('c' * 64)} = 1\nd = [{', '.join(['1.5'] * 100)}]\n"
    )
    found = manifest.read_toml(file)
    assert found is not None
    assert found["a"] == "." * 200


@pytest.mark.parametrize("letter", ['"', "a", "a.", "a. ", "'", '"a".', "a ", "é."])
def test_no_text_makes_the_look_at_keys_slow(letter: str) -> None:
    text = (letter * 1_000_000)[:1_000_000]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    manifest._DEEP_KEY.search(text)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 5


@pytest.mark.parametrize(
    ("format_", "text"),
    [
        ("toml", "a = " + "[" * 100_000),
        ("toml", "a = " + "{a=" * 100_000),
        ("json", "[" * 100_000),
        ("json", '{"a":' * 100_000),
        ("yaml", "a: " + "[" * 100_000),
        ("yaml", "a: " + "{a: " * 100_000),
    ],
)
def test_deep_values_are_refused(file: Path, format_: str, text: str) -> None:
    file.write_text(text)
    with pytest.raises(BrokenManifest):
        READERS[format_](file)


def test_a_json_key_that_stands_twice_is_warned_of_and_the_last_counts(file: Path) -> None:
    file.write_text('{"name": "a", "x": {"y": 1, "y": 2}, "name": "b"}')
    warnings: list[str] = []
    assert read_json(file, warnings) == {"name": "b", "x": {"y": 2}}
    assert warnings == [
        f"{file}: the key `y` stands twice; the last one counts",
        f"{file}: the key `name` stands twice; the last one counts",
    ]


def test_yaml_scalars_stay_text_and_aliases_do_not_explode(file: Path) -> None:
    file.write_text("version: 1.10\non: yes\n")
    assert manifest.read_yaml(file) == {"version": "1.10", "on": "yes"}
    bomb = "a0: &a0 [x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30)
    )
    file.write_text(bomb)
    assert manifest.read_yaml(file) is not None


def test_an_empty_yaml_file_is_an_empty_mapping(file: Path) -> None:
    file.write_text("# nothing\n")
    assert manifest.read_yaml(file) == {}


def test_a_key_of_the_wrong_type_is_named(file: Path) -> None:
    with pytest.raises(WrongManifest, match=r"`tool\.uv` must be a table"):
        manifest.table(file, {"tool": {"uv": 1}}, "tool", "uv", "workspace")
    with pytest.raises(WrongManifest, match="`members` must be a list of strings"):
        manifest.strings(file, "members", ["a", 1])
