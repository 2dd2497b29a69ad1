"""The answer table: each class as a pure decision, and each against a misbehaving registry."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from releasekit.ecosystems import Answer
from releasekit.net import wait_of
from releasekit.publish.answers import Verdict, classify
from tests.faults import Fault, faulty_registry
from tests.sample import write_sample
from tests.test_publish import outcomes, pypi_option, served

if TYPE_CHECKING:
    from pathlib import Path

    from releasekit.config import RegistrySettings
    from tests.conftest import ReleaseKit


@pytest.mark.parametrize(
    ("status", "words", "headers", "verdict"),
    [
        (200, "200 OK", {}, Verdict.ACCEPTED),
        (201, "201 Created", {}, Verdict.ACCEPTED),
        (400, "400 File already exists (…)", {}, Verdict.REFUSED),
        (400, "400 Invalid metadata", {}, Verdict.REFUSED),
        (403, "403 You cannot publish over the previously published versions", {}, Verdict.REFUSED),
        (401, "401 Unauthorized", {}, Verdict.NOT_AUTHORISED),
        (403, "403 Forbidden", {}, Verdict.NOT_AUTHORISED),
        (404, "404 Not Found", {}, Verdict.NOT_AUTHORISED),
        (409, "409 Failed to save packument", {}, Verdict.TRANSIENT),
        (408, "", {}, Verdict.TRANSIENT),
        (500, "", {}, Verdict.TRANSIENT),
        (503, "", {}, Verdict.TRANSIENT),
        (503, "", {"retry-after": "5"}, Verdict.RATE_LIMITED),
        (429, "429 Too Many Requests", {}, Verdict.RATE_LIMITED),
        (429, "429 Too many new projects created", {}, Verdict.QUOTA),
        (413, "413 Too large", {}, Verdict.REFUSED),
        (302, "302 Found", {}, Verdict.REFUSED),
    ],
)
def test_the_table(status: int, words: str, headers: dict[str, str], verdict: Verdict) -> None:
    assert classify(Answer(status=status, words=words, headers=headers)) is verdict


def test_a_lost_answer_is_unknown() -> None:
    assert classify(None) is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "120"}, 120.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 90.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"ratelimit": "limit=10, remaining=0, reset=20"}, 20.0),
        ({"ratelimit": '"default";r=0;t=7'}, 7.0),
        ({"ratelimit": '"default";r=3;t=7'}, None),
        ({}, None),
    ],
)
def test_how_long_the_registry_asks_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert wait_of(headers, now=10.0) == seconds


def publish(
    releasekit: ReleaseKit, root: Path, behind: RegistrySettings, faults: list[Fault]
) -> tuple[dict[str, str], list[dict[str, object]], int]:
    with faulty_registry(behind, uploads={"acme-text": faults}) as faulty:
        result = releasekit(
            "publish", "--yes", "--output", "json", "--registry", pypi_option(faulty), cwd=root
        )
    return outcomes(result), result.events(), result.code


def reason(events: list[dict[str, object]]) -> str:
    [failed] = [event for event in events if event.get("outcome") == "failed"]
    return f"{failed['reason']}\n{failed['hint']}"


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=503, words="Service Unavailable", stored=True),
        Fault(stored=True),
        Fault(status=500, words="Oops", stored=True),
        Fault(status=409, words="Conflict", stored=True),
    ],
    ids=["503 after storing", "reset after storing", "500 after storing", "same bytes there"],
)
def test_what_was_stored_is_done_and_sent_once(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings, fault: Fault
) -> None:
    write_sample(tmp_path / "repo", node={})
    ends, events, code = publish(releasekit, tmp_path / "repo", pypi, [fault])
    assert code == 0
    assert set(ends.values()) == {"published"}
    assert not [event for event in events if event["event"] == "retry-scheduled"]
    sent = [event["file"] for event in events if event["event"] == "upload-sent"]
    assert len(sent) == len(set(sent)) == 6


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=503, words="Service Unavailable"),
        Fault(),
        Fault(status=502, words="Bad Gateway"),
    ],
    ids=["503", "reset", "502"],
)
def test_what_was_not_stored_is_sent_again_with_the_same_bytes(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings, fault: Fault
) -> None:
    write_sample(tmp_path / "repo", node={}, python={"acme-text": ()})
    ends, events, code = publish(releasekit, tmp_path / "repo", pypi, [fault])
    assert code == 0
    assert ends == {"pypi:acme-text": "published"}
    assert len([event for event in events if event["event"] == "retry-scheduled"]) == 1
    sent = [event["sha256"] for event in events if event["event"] == "upload-sent"]
    assert len(sent) == 3
    assert len(set(sent)) == 2
    assert set(served(pypi, "acme-text").values()) == set(sent)


def test_retry_after_holds_the_lane_of_that_registry_and_no_other(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings, npm: RegistrySettings
) -> None:
    write_sample(tmp_path / "repo", python={"acme-text": (), "acme-zero": ()})
    limit = Fault(status=429, words="Too Many Requests", headers={"Retry-After": "3"})
    started = time.monotonic()
    with faulty_registry(pypi, uploads={"acme-text": [limit], "acme-zero": [limit]}) as faulty:
        result = releasekit(
            "publish", "--yes", "--output", "json", "--registry", pypi_option(faulty),
            "--registry", f"npm={npm.url}", cwd=tmp_path / "repo",
        )  # fmt: skip
    assert result.code == 0, result.err
    assert time.monotonic() - started > 3
    ended = {
        event["package"]: event["at"]
        for event in result.events()
        if event["event"] == "release-ended"
    }
    first_npm, first_pypi = ended["npm:@acme/cli"], ended["pypi:acme-text"]
    assert first_npm < first_pypi
    waits = [event for event in result.events() if event["event"] == "retry-scheduled"]
    assert {event["package"] for event in waits} == {"pypi:acme-text", "pypi:acme-zero"}
    assert all(event["seconds"] > 2 for event in waits)


def test_a_quota_is_not_retried_and_names_the_date(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    write_sample(tmp_path / "repo", node={})
    quota = Fault(
        status=429, words="Too many new projects created", headers={"Retry-After": "86400"}
    )
    ends, events, code = publish(releasekit, tmp_path / "repo", pypi, [quota])
    assert code == 1
    assert ends["pypi:acme-text"] == "failed"
    assert not [event for event in events if event["event"] == "retry-scheduled"]
    tomorrow = time.strftime("%Y-%m-%d", time.localtime(time.time() + 86400))
    assert f"again at {tomorrow}" in reason(events)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault(status=401, words="Unauthorized"), "check the credential for pypi:acme-text"),
        (Fault(status=400, words="Bad metadata"), "refused `acme_text-1.0.0-py3-none-any.whl`"),
    ],
)
def test_what_no_retry_can_mend_fails_at_once_with_the_registrys_words(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings, fault: Fault, words: str
) -> None:
    write_sample(tmp_path / "repo", node={})
    ends, events, code = publish(releasekit, tmp_path / "repo", pypi, [fault])
    assert code == 1
    assert ends == {
        "pypi:acme-text": "failed",
        "pypi:acme-models": "blocked",
        "pypi:acme-app": "blocked",
    }
    assert not [event for event in events if event["event"] == "retry-scheduled"]
    assert words in reason(events)
    assert fault.words in reason(events)


def test_a_version_taken_by_other_bytes_stops(
    releasekit: ReleaseKit, tmp_path: Path, pypi: RegistrySettings
) -> None:
    """Somebody else publishes the same version between our look and our upload."""
    write_sample(tmp_path / "repo", node={}, python={"acme-text": ()})
    with faulty_registry(
        pypi, uploads={"acme-text": [Fault(status=409, words="Conflict", stored=True)]},
        corrupt="acme-text",
    ) as faulty:  # fmt: skip
        result = releasekit(
            "publish", "--yes", "--registry", pypi_option(faulty), cwd=tmp_path / "repo"
        )
    assert result.code == 1
    assert "the registry serves other bytes as" in result.out
    assert "release a new one" in result.out


def test_npm_a_collision_is_tried_again_and_a_404_is_a_missing_right(
    releasekit: ReleaseKit, tmp_path: Path, npm: RegistrySettings
) -> None:
    write_sample(tmp_path / "repo", python={}, node={"@acme/parser": (), "@acme/cli": ()})
    faults = {
        "@acme/parser": [Fault(status=409, words="Failed to save packument")],
        "@acme/cli": [Fault(status=404, words="Not Found")],
    }
    with faulty_registry(npm, uploads=faults) as faulty:
        result = releasekit(
            "publish", "--yes", "--output", "json", "--registry", f"npm={faulty.url}",
            cwd=tmp_path / "repo",
        )  # fmt: skip
    assert outcomes(result) == {"npm:@acme/parser": "published", "npm:@acme/cli": "failed"}
    assert "check the credential for npm:@acme/cli" in reason(result.events())
