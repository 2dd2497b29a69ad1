"""The packages of the sample and their history: small, but every one does something.

Every kind of edge is there: runtime, extra, build-time, peer, optional peer and optional.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

CHECKER = "acme-typed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One package; its ecosystem is in its name."""

    name: str
    about: str
    code: str
    needs: tuple[str, ...] = ()
    third_party: tuple[str, ...] = ()
    extras: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    backend: str = "uv_build"
    checked: bool = False
    """A sibling checks it while it is built: a plugin that must be built before."""
    peers: tuple[str, ...] = ()
    optional_peers: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    command: str | None = None
    private: bool = False

    @property
    def is_node(self) -> bool:
        return self.name.startswith("@")

    @property
    def folder(self) -> str:
        return f"node/{self.name.rpartition('/')[2]}" if self.is_node else f"python/{self.name}"

    @property
    def program(self) -> str:
        module = self.name.replace("-", "_")
        return (
            f"{self.folder}/index.js" if self.is_node else f"{self.folder}/src/{module}/__init__.py"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One commit."""

    message: str
    adds: tuple[str, ...] = ()
    mends: tuple[tuple[str, str, str], ...] = ()
    """Packages, and what in their programs becomes what."""
    releases: str | None = None


# Named against the alphabet: an order that only sorts names would be wrong.
PACKAGES = (
    Sample(
        name="acme-zones",
        about="Where the stations are, and what time it is there.",
        code="""\
from datetime import datetime, timedelta, timezone

STATIONS = {"lisbon": timezone(timedelta()), "tokyo": timezone(timedelta(hours=9))}


def now(station: str) -> datetime:
    return datetime.now(STATIONS[station])
""",
    ),
    Sample(
        name="acme-units",
        about="Degrees of both kinds.",
        code="""\
def fahrenheit(celsius: float) -> float:
    return celsius * 9 / 5 + 32
""",
    ),
    Sample(
        name=CHECKER,
        about="A hatchling plugin: packages ship a py.typed or are not built.",
        third_party=("hatchling",),
        code="""\
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.plugin import hookimpl


class Typed(BuildHookInterface):
    PLUGIN_NAME = "acme-typed"

    def initialize(self, version, build_data):
        if not any(Path(self.root, "src").glob("*/py.typed")):
            raise SystemExit(f"{self.root} ships no py.typed")


@hookimpl
def hatch_register_build_hook():
    return Typed
""",
    ),
    Sample(
        name="acme-text",
        about="Words in lines.",
        code="""\
import textwrap


def lines(text: str, width: int = 20) -> list[str]:
    return textwrap.wrap(text, width)
""",
    ),
    Sample(
        name="acme-tables",
        about="Rows and columns.",
        needs=("acme-text", "acme-units"),
        code="""\
from acme_text import lines
from acme_units import fahrenheit


def row(station: str, celsius: float) -> str:
    return " | ".join([*lines(station), f"{celsius} C", f"{fahrenheit(celsius)} F"])
""",
    ),
    Sample(
        name="acme-store",
        about="Keeps what was measured.",
        needs=("acme-text",),
        extras={"tables": ("acme-tables",)},
        backend="hatchling",
        code="""\
from acme_text import lines


class Store:
    def __init__(self) -> None:
        self.kept: dict[str, float] = {}

    def keep(self, station: str, celsius: float) -> None:
        self.kept[lines(station)[0]] = celsius

    def report(self) -> str:
        from acme_tables import row  # with the extra `tables`

        return "\\n".join(row(station, celsius) for station, celsius in self.kept.items())
""",
    ),
    Sample(
        name="acme-schedule",
        about="When to measure.",
        needs=("acme-zones",),
        code="""\
from acme_zones import STATIONS, now


def due() -> list[str]:
    return [station for station in STATIONS if now(station).minute % 10 == 0]
""",
    ),
    Sample(
        name="acme-models",
        about="The weather, roughly.",
        needs=("acme-units", "acme-zones"),
        backend="hatchling",
        checked=True,
        code="""\
from acme_units import fahrenheit
from acme_zones import now


def warmth(station: str) -> float:
    return fahrenheit(20 - abs(12 - now(station).hour))
""",
    ),
    Sample(
        name="acme-forecast",
        about="The weather, tomorrow.",
        needs=("acme-models", "acme-schedule"),
        code="""\
from acme_models import warmth
from acme_schedule import due


def tomorrow() -> dict[str, float]:
    return {station: warmth(station) for station in due()}
""",
    ),
    Sample(
        name="acme-charts",
        about="Bars of text.",
        needs=("acme-models", "acme-tables"),
        backend="hatchling",
        code="""\
from acme_models import warmth
from acme_tables import row


def bar(station: str) -> str:
    return row(station, warmth(station)) + " " + "#" * int(warmth(station) / 4)
""",
    ),
    Sample(
        name="acme-feed",
        about="Forecasts, kept.",
        needs=("acme-forecast", "acme-store"),
        code="""\
from acme_forecast import tomorrow
from acme_store import Store


def forecasts() -> Store:
    store = Store()
    for station, celsius in tomorrow().items():
        store.keep(station, celsius)
    return store
""",
    ),
    Sample(
        name="acme-app",
        about="The weather on a terminal.",
        needs=("acme-feed", "acme-charts", "acme-store[tables]"),
        command="acme",
        code="""\
from acme_feed import forecasts
from acme_charts import bar


def main() -> None:
    print(bar("tokyo"), forecasts().report(), sep="\\n")
""",
    ),
    Sample(
        name="acme-bench",
        about="How quick the app is; for us alone.",
        needs=("acme-app",),
        private=True,
        code="from acme_app import main\n",
    ),
    Sample(
        name="@acme/wire",
        about="Messages as they travel.",
        code="exports.frame = (text) => JSON.stringify({ text });\n",
    ),
    Sample(
        name="@acme/theme",
        about="Colours.",
        code='module.exports = { warm: "orange", cold: "blue" };\n',
    ),
    Sample(
        name="@acme/parser",
        about="What a message says.",
        needs=("@acme/wire",),
        code="""\
const { frame } = require("@acme/wire");
exports.parse = (message) => JSON.parse(message).text;
exports.echo = (text) => exports.parse(frame(text));
""",
    ),
    Sample(
        name="@acme/icons",
        about="Sun and rain, in the colours of a theme.",
        peers=("@acme/theme",),
        code="""\
const theme = require("@acme/theme");
module.exports = { sun: `<i style="color: ${theme.warm}">o</i>` };
""",
    ),
    Sample(
        name="@acme/grid",
        about="Cells beside each other, with icons where there are any.",
        needs=("@acme/theme",),
        optional_peers=("@acme/icons",),
        code="""\
const theme = require("@acme/theme");
exports.cell = (text) => `<td style="color: ${theme.cold}">${text}</td>`;
""",
    ),
    Sample(
        name="@acme/client",
        about="Asks the service.",
        needs=("@acme/parser",),
        code='const { echo } = require("@acme/parser");\nexports.ask = (text) => echo(text);\n',
    ),
    Sample(
        name="@acme/board",
        about="All stations at a glance.",
        needs=("@acme/client", "@acme/grid"),
        optional=("@acme/icons",),
        code="""\
const { ask } = require("@acme/client");
const { cell } = require("@acme/grid");
exports.show = (station) => cell(ask(station));
""",
    ),
    Sample(
        name="@acme/app",
        about="The board on a terminal.",
        needs=("@acme/board",),
        command="acme-board",
        code="""\
#!/usr/bin/env node
const { show } = require("@acme/board");
console.log(show(process.argv[2] || "tokyo"));
""",
    ),
    Sample(
        name="@acme/example",
        about="How the board is used; for us alone.",
        needs=("@acme/board",),
        private=True,
        code='console.log(require("@acme/board").show("lisbon"));\n',
    ),
)

HISTORY = (
    Change(message="chore: a uv workspace and an npm workspace"),
    Change(
        message="feat: units, zones, text and tables",
        adds=("acme-units", "acme-zones", "acme-text", "acme-tables"),
    ),
    Change(message="feat: the wire and its parser", adds=("@acme/wire", "@acme/parser")),
    Change(message="build: a plugin that asks for py.typed", adds=(CHECKER,)),
    Change(
        message="feat: models, forecasts and what they are kept in",
        adds=("acme-models", "acme-schedule", "acme-forecast", "acme-store"),
    ),
    Change(
        message="feat: a client, theme and icons",
        adds=("@acme/client", "@acme/theme", "@acme/icons"),
    ),
    Change(message="chore(release): 1.3.0", releases="1.3.0"),
    Change(message="feat(charts): bars of text", adds=("acme-charts",)),
    Change(
        message="fix(text): leave long words whole",
        mends=(("acme-text", "(text, width)\n", "(text, width, break_long_words=False)\n"),),
    ),
    Change(message="feat(grid)!: icons are optional", adds=("@acme/grid", "@acme/board")),
    Change(
        message="feat: one app for the terminal, one for the board",
        adds=("acme-feed", "acme-app", "acme-bench", "@acme/app", "@acme/example"),
    ),
    Change(message="chore(release): 1.4.0", releases="1.4.0"),
)
