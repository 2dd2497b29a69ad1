from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from releasekit import config
from releasekit.config import Config, RegistrySettings
from releasekit.errors import BadValue, ManifestError, TwoConfigs, UnknownKey, WrongType

if TYPE_CHECKING:
    from pathlib import Path


def write(root: Path, text: str, name: str = "releasekit.toml") -> Path:
    file = root / name
    file.write_text(text, encoding="utf-8")
    return root


def test_a_repository_without_configuration_gets_the_defaults(tmp_path: Path) -> None:
    assert config.load(tmp_path) == Config()
    assert config.file_of(tmp_path) is None


def test_every_key_is_read(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
roots = ["py", "js"]
exclude = ["internal-*"]
[registries.pypi]
upload-url = "http://127.0.0.1:1/"
index-url = "http://127.0.0.1:1/simple/"
[registries.npm]
url = "http://127.0.0.1:2/"
""",
    )
    assert config.load(tmp_path) == Config(
        roots=("py", "js"),
        exclude=("internal-*",),
        registries={
            "pypi": RegistrySettings(
                upload_url="http://127.0.0.1:1/", index_url="http://127.0.0.1:1/simple/"
            ),
            "npm": RegistrySettings(url="http://127.0.0.1:2/"),
        },
    )


def test_the_table_in_pyproject_is_read_with_a_byte_order_mark_too(tmp_path: Path) -> None:
    text = '\ufeff[project]\nname = "x"\n[tool.releasekit]\nexclude = ["x"]\n'
    write(tmp_path, text, "pyproject.toml")
    assert config.load(tmp_path).exclude == ("x",)
    assert config.file_of(tmp_path) == tmp_path / "pyproject.toml"


def test_two_configurations_are_refused(tmp_path: Path) -> None:
    write(tmp_path, 'exclude = ["x"]\n')
    write(tmp_path, "[tool.releasekit]\n", "pyproject.toml")
    with pytest.raises(TwoConfigs):
        config.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "where"),
    [
        ("releasekit.toml", '\n# x\nexlude = ["x"]\n', "releasekit.toml:3: there is no key `exlud"),
        (
            "pyproject.toml",
            '[project]\nexlude = 1\n[tool.releasekit]\n\nexlude = ["x"]\n',
            "pyproject.toml:5: there is no key `exlude`",
        ),
        (
            "releasekit.toml",
            '[registries.pypi]\nupload-url = "http://x/"\nindexurl = "http://x/"\n',
            "releasekit.toml:3: there is no key `registries.pypi.indexurl`",
        ),
        (
            "releasekit.toml",
            'registries = { pypi = { uplod-url = "http://x/" } }\n',
            "releasekit.toml:1: there is no key `registries.pypi.uplod-url`",
        ),
    ],
)
def test_an_unknown_key_names_file_line_and_the_closest_key(
    tmp_path: Path, name: str, text: str, where: str
) -> None:
    write(tmp_path, text, name)
    with pytest.raises(UnknownKey) as caught:
        config.load(tmp_path)
    assert where in caught.value.message
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("did you mean `")


def test_a_key_like_no_other_gets_the_list_of_keys(tmp_path: Path) -> None:
    write(tmp_path, "zzz = 1\n")
    with pytest.raises(UnknownKey) as caught:
        config.load(tmp_path)
    keys = "`roots`, `exclude`, `groups`, `pins`, `build`, `inspect`, `journal`, "
    keys += "`registries`, `packages`"
    assert caught.value.hint == f"the keys here are {keys}"


@pytest.mark.parametrize(
    ("text", "expected", "got", "line"),
    [
        ('exclude = "x"\n', "a list of strings", "a string", 1),
        ("exclude = [1]\n", "a list of strings", "a mixed list", 1),
        ("registries = 3\n", "a table", "a whole number", 1),
        ("[registries]\nnpm = true\n", "a table", "true or false", 2),
        ("\n[registries.npm]\nurl = 4\n", "a string", "a whole number", 3),
        ('note = """\nexclude = 1\n"""\n', None, None, 1),
    ],
)
def test_a_wrong_type_says_what_was_expected(
    tmp_path: Path, text: str, expected: str | None, got: str | None, line: int
) -> None:
    write(tmp_path, text)
    with pytest.raises((WrongType, UnknownKey)) as caught:
        config.load(tmp_path)
    assert f"releasekit.toml:{line}: " in caught.value.message
    if expected:
        assert caught.value.message.endswith(f"must be {expected}, not {got}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[registries.npm]\nurl = "ftp://x"\n', "an address starts with"),
        ('[registries.npm]\nurl = "localhost:4873"\n', "an address starts with"),
        ('roots = ["../elsewhere"]\n', "leads out of the repository"),
        ('roots = ["/etc"]\n', "leads out of the repository"),
        ('exclude = [""]\n', "an empty name"),
        ('[pins]\npolicy = "exakt"\n', "it is one of `exact`, `compatible`, `minimum`, `keep`"),
        ('[pins.packages]\n"a-*" = "x"\n', "it is one of `exact`"),
    ],
)
def test_a_bad_value_says_why(tmp_path: Path, text: str, problem: str) -> None:
    write(tmp_path, text)
    with pytest.raises(BadValue, match=problem):
        config.load(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"exclude = [\n",
        b"\xff\xfe",
        b"a" + b".a" * 500 + b" = 1\n",
        b"# " + b"x" * 1_100_000,
    ],
)
def test_a_broken_file_is_a_config_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "releasekit.toml").write_bytes(content)
    with pytest.raises(ManifestError, match=r"releasekit\.toml"):
        config.load(tmp_path)


def test_a_broken_file_names_the_line(tmp_path: Path) -> None:
    write(tmp_path, 'exclude = ["x"]\nroots = [\n"a" "b"]\n')
    with pytest.raises(ManifestError, match=r"releasekit\.toml:3:"):
        config.load(tmp_path)
