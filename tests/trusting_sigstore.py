"""A Sigstore on loopback: a certificate authority, a log of certificates and a log of signatures.

Their answers are as the real ones give them, signed with keys made for one test, so that the real
clients and the real verifiers, in Python and in JavaScript, have no reason to see a difference.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import struct
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from tests.trusting_registry import claims_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SCT_LIST = ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
_ISSUER = ObjectIdentifier("1.3.6.1.4.1.57264.1.8")
_SOURCE = ObjectIdentifier("1.3.6.1.4.1.57264.1.12")
_P256 = "PKIX_ECDSA_P256_SHA_256"
_BEGAN = "2020-01-01T00:00:00Z"
WORKFLOW = "https://ci.example/acme/mono/release.yml"


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _spki(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _utf8(value: str) -> bytes:
    raw = value.encode()
    return bytes([0x0C, len(raw)]) + raw


@dataclass
class TrustingSigstore:
    address: str = ""
    refuse: str = ""
    """`fulcio` or `rekor`: who answers 503."""
    identities: list[str] = field(default_factory=list)
    """Every one that was traded for a certificate."""
    entries: list[dict[str, Any]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    _ca_key: ec.EllipticCurvePrivateKey = field(default_factory=_new_key)
    _root_key: ec.EllipticCurvePrivateKey = field(default_factory=_new_key)
    _ct_key: ec.EllipticCurvePrivateKey = field(default_factory=_new_key)
    _log_key: ec.EllipticCurvePrivateKey = field(default_factory=_new_key)

    def __post_init__(self) -> None:
        self._root = self._authority("root", self._root_key, None)
        self._ca = self._authority("intermediate", self._ca_key, self._root)

    def trust_config(self, folder: Path) -> Path:
        """What a client is given to sign here and to verify what was signed here."""
        service = {
            "majorApiVersion": 1, "operator": "tests", "validFor": {"start": _BEGAN},
            "url": self.address.rstrip("/"),
        }  # fmt: skip
        file = folder / "sigstore.json"
        file.write_text(
            json.dumps(
                {
                    "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
                    "trustedRoot": self.trusted_root(),
                    "signingConfig": {
                        "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
                        "caUrls": [service],
                        "oidcUrls": [],
                        "rekorTlogUrls": [service],
                        "rekorTlogConfig": {"selector": "ANY"},
                        "tsaUrls": [],
                        "tsaConfig": {"selector": "ANY"},
                    },
                }
            )
        )
        return file

    def trusted_root(self) -> dict[str, Any]:
        chain = [
            {"rawBytes": _text(one.public_bytes(serialization.Encoding.DER))}
            for one in (self._ca, self._root)
        ]
        authority = {
            "subject": {"organization": "tests", "commonName": "tests"},
            "uri": self.address,
            "certChain": {"certificates": chain},
            "validFor": {"start": _BEGAN},
        }
        return {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [self._log(self._log_key)],
            "certificateAuthorities": [authority],
            "ctlogs": [self._log(self._ct_key)],
            "timestampAuthorities": [],
        }

    def _log(self, key: ec.EllipticCurvePrivateKey) -> dict[str, Any]:
        public = _spki(key.public_key())
        return {
            "baseUrl": self.address.rstrip("/"),
            "hashAlgorithm": "SHA2_256",
            "publicKey": {
                "rawBytes": _text(public), "keyDetails": _P256, "validFor": {"start": _BEGAN}
            },
            "logId": {"keyId": _text(hashlib.sha256(public).digest())},
        }  # fmt: skip

    def _authority(
        self, name: str, key: ec.EllipticCurvePrivateKey, issuer: x509.Certificate | None
    ) -> x509.Certificate:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        uses = dict.fromkeys(
            ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
             "key_agreement", "encipher_only", "decipher_only"), False,
        )  # fmt: skip
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer.subject if issuer else subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.KeyUsage(**uses, key_cert_sign=True, crl_sign=True), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._root_key.public_key()),
                critical=False,
            )
            .sign(self._root_key, hashes.SHA256())
        )

    def answer(self, path: str, authorization: str, body: bytes) -> tuple[int, object]:
        asked = json.loads(body)
        if path == "/api/v2/signingCert":
            if self.refuse == "fulcio":
                return 503, {"message": "down"}
            return 200, self._certify(asked, authorization)
        if path == "/api/v1/log/entries":
            if self.refuse == "rekor":
                return 503, {"code": 503, "message": "down"}
            return 201, self._enter(asked)
        return 404, {}

    def _certify(self, asked: dict[str, Any], authorization: str) -> object:
        """Python's client sends a request, JavaScript's a key; both an identity."""
        if "certificateSigningRequest" in asked:
            pem = base64.b64decode(asked["certificateSigningRequest"])
            key: object = x509.load_pem_x509_csr(pem).public_key()
            identity = authorization.removeprefix("Bearer ")
        else:
            pem = asked["publicKeyRequest"]["publicKey"]["content"].encode()
            key = serialization.load_pem_public_key(pem)
            identity = asked["credentials"]["oidcIdentityToken"]
        assert isinstance(key, ec.EllipticCurvePublicKey)
        claims = claims_of(identity)
        assert claims["aud"] == "sigstore", claims
        self.identities.append(identity)
        pems = [
            one.public_bytes(serialization.Encoding.PEM).decode()
            for one in (self._leaf(key, claims), self._ca, self._root)
        ]
        return {"signedCertificateEmbeddedSct": {"chain": {"certificates": pems}}}

    def _leaf(self, key: ec.EllipticCurvePublicKey, claims: dict[str, Any]) -> x509.Certificate:
        now = datetime.now(UTC).replace(microsecond=0)
        uses = dict.fromkeys(
            ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
             "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"), False,
        )  # fmt: skip
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(self._ca.subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(seconds=5))
            .not_valid_after(now + timedelta(minutes=10))
            .add_extension(x509.KeyUsage(**uses, digital_signature=True), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._ca_key.public_key()),
                critical=False,
            )
            .add_extension(
                x509.SubjectAlternativeName([x509.UniformResourceIdentifier(claims["sub"])]),
                critical=True,
            )
            .add_extension(
                x509.UnrecognizedExtension(_ISSUER, _utf8(claims["iss"])), critical=False
            )
            .add_extension(
                x509.UnrecognizedExtension(_SOURCE, _utf8("https://github.com/acme/mono")),
                critical=False,
            )
        )
        draft = builder.sign(self._ca_key, hashes.SHA256())
        proof = x509.UnrecognizedExtension(_SCT_LIST, self._sct(draft.tbs_certificate_bytes))
        return builder.add_extension(proof, critical=False).sign(self._ca_key, hashes.SHA256())

    def _sct(self, draft: bytes) -> bytes:
        """RFC 6962: the log's promise about this certificate, as the extension's value."""
        milliseconds = int(datetime.now(UTC).timestamp()) * 1000
        issuer = hashlib.sha256(_spki(self._ca_key.public_key())).digest()
        length = struct.pack("!I", len(draft))[1:]
        signed = struct.pack("!BBQH", 0, 0, milliseconds, 1) + issuer + length + draft + b"\x00\x00"
        signature = self._ct_key.sign(signed, ec.ECDSA(hashes.SHA256()))
        log = hashlib.sha256(_spki(self._ct_key.public_key())).digest()
        sct = (
            b"\x00" + log + struct.pack("!QH", milliseconds, 0)
            + b"\x04\x03" + struct.pack("!H", len(signature)) + signature
        )  # fmt: skip
        listed = struct.pack("!H", len(sct)) + sct
        value = struct.pack("!H", len(listed)) + listed
        return bytes([0x04, len(value)]) + value

    def _enter(self, asked: dict[str, Any]) -> object:
        """A tree of one leaf for each entry: the proof is as real, and needs no neighbours."""
        assert asked["kind"] == "dsse"
        proposed = asked["spec"]["proposedContent"]
        envelope = json.loads(proposed["envelope"])
        payload = base64.b64decode(envelope["payload"])
        self._check(envelope, base64.b64decode(proposed["verifiers"][0]), payload)
        [signature] = envelope["signatures"]
        spec = {
            "envelopeHash": {
                "algorithm": "sha256",
                "value": hashlib.sha256(proposed["envelope"].encode()).hexdigest(),
            },
            "payloadHash": {"algorithm": "sha256", "value": hashlib.sha256(payload).hexdigest()},
            "signatures": [{"signature": signature["sig"], "verifier": proposed["verifiers"][0]}],
        }
        entry = {"apiVersion": "0.0.1", "kind": "dsse", "spec": spec}
        body = json.dumps(entry, sort_keys=True, separators=(",", ":")).encode()
        self.entries.append(json.loads(payload))
        index, moment = 1000 + len(self.entries), int(datetime.now(UTC).timestamp())
        log = hashlib.sha256(_spki(self._log_key.public_key())).digest()
        promise = {
            "body": _text(body), "integratedTime": moment, "logID": log.hex(), "logIndex": index
        }  # fmt: skip
        canonical = json.dumps(promise, sort_keys=True, separators=(",", ":")).encode()
        root = hashlib.sha256(b"\x00" + body).digest()
        note = f"tests - 1\n1\n{_text(root)}\n"
        stamp = log[:4] + self._log_key.sign(note.encode(), ec.ECDSA(hashes.SHA256()))
        proof = {
            "checkpoint": f"{note}\n— 127.0.0.1 {_text(stamp)}\n",
            "hashes": [],
            "logIndex": 0,
            "rootHash": root.hex(),
            "treeSize": 1,
        }
        set_ = self._log_key.sign(canonical, ec.ECDSA(hashes.SHA256()))
        verification = {"inclusionProof": proof, "signedEntryTimestamp": _text(set_)}
        return {f"{index:064x}": {**promise, "verification": verification}}

    def _check(self, envelope: dict[str, Any], pem: bytes, payload: bytes) -> None:
        """Rekor takes nothing that is not signed by the certificate beside it."""
        key = x509.load_pem_x509_certificate(pem).public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        kind = envelope["payloadType"]
        signed = f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload
        signature = base64.b64decode(envelope["signatures"][0]["sig"])
        key.verify(signature, signed, ec.ECDSA(hashes.SHA256()))


@contextlib.contextmanager
def trusting_sigstore() -> Iterator[TrustingSigstore]:
    place = TrustingSigstore()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with place.lock:
                status, content = place.answer(
                    self.path, self.headers.get("Authorization", ""), body
                )
            answer = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    place.address = f"http://127.0.0.1:{server.server_port}/"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield place
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
