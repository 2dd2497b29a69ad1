"""Where each package goes: chosen by name, so that a wrong name is found before anything starts."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from releasekit import config
from releasekit.ecosystems import Choice, Registry, all_ecosystems
from releasekit.errors import RegistryOfOtherKind, UnknownRegistry
from releasekit.secrets import redact

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from releasekit.config import RegistrySettings
    from releasekit.ecosystems import Ecosystem
    from releasekit.events import Event
    from releasekit.model import Package, Workspace
    from releasekit.publish import PublishRequest

SNAPSHOT_TAG = "snapshot"
_WORDS = ("words", "reason", "hint", "again")


def choose(
    request: PublishRequest, found: Workspace, packages: Sequence[Package]
) -> dict[str, Registry]:
    """By package id, the registry that takes it."""
    named = {world.name: world.named_registries(found) for world in all_ecosystems()}
    _refuse_unknown(request, {name for registries in named.values() for name in registries})
    chosen: dict[str, Registry] = {}
    for world in all_ecosystems():
        own = [package for package in packages if package.ecosystem == world.name]
        choices = [_choice(request, named[world.name], world, package) for package in own]
        if choices:
            chosen.update(world.registries_for(choices, found, request.environ))
    return {package.id: chosen[package.id] for package in packages}


def _choice(
    request: PublishRequest,
    named: Mapping[str, RegistrySettings],
    world: Ecosystem,
    package: Package,
) -> Choice:
    configured = request.config.registry_of(package)
    name = configured[0] if configured else world.registry
    settings = request.settings_of(name, named)
    addressed = settings is not None and settings.has_address
    if settings and addressed and not settings.has(world.registry_keys):
        raise RegistryOfOtherKind(registry=name, package=package.id, keys=world.registry_keys)
    if not addressed and name != world.registry:
        raise RegistryOfOtherKind(registry=name, package=package.id, keys=world.registry_keys)
    return Choice(
        package=package,
        registry=name,
        settings=settings,
        tag=request.tag or (SNAPSHOT_TAG if request.snapshot is not None else None),
        access=request.access,
    )


def _refuse_unknown(request: PublishRequest, named: set[str]) -> None:
    known = {world.registry for world in all_ecosystems()} | set(request.config.registries) | named
    wanted = {settings.registry for settings in request.config.packages.values()}
    for name in request.registries:
        _require(name, known | wanted, place="--registry")
    for pattern, settings in request.config.packages.items():
        if settings.registry:
            place = config.place_of(request.root, "packages", pattern, "registry")
            _require(settings.registry, known | set(request.registries), place=place)


def _require(name: str, known: Iterable[str], *, place: str) -> None:
    names = sorted(known)
    if name not in names:
        close = difflib.get_close_matches(name, names, n=1)
        raise UnknownRegistry(
            place=place, registry=name, did_you_mean=close[0] if close else None, known=names
        )


def without_secrets(event: Event) -> Event:
    """The event with its words from outside redacted; names and hashes are left alone."""
    told: dict[str, Any] = {
        name: cleaned
        for name in _WORDS
        if isinstance(text := getattr(event, name, None), str) and (cleaned := redact(text)) != text
    }
    return replace(event, **told) if told else event
