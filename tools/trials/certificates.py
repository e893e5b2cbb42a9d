"""Certificates for the loopback, made by `openssl`, so that no repository has their keys."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from noted_time import Rejected

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
DAYS = ("-days", "36500")
NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"


def make_authority(directory: Path, name: str = "certificate", key: str = "key.pem") -> Path:
    """Write a self-signed certificate and its key, and return the certificate's file."""
    subject = ("-subj", "/CN=noted-time test", "-addext", NAMES)
    _call(directory, "req", "-x509", *KEY, *DAYS, *subject, "-keyout", key, "-out", f"{name}.pem")
    return directory / f"{name}.pem"


def make_certificates(directory: Path, *names: str) -> None:
    """Write `ca.pem`, and for each name a file with a key, its certificate and `ca.pem`.

    Files that are there already stay.
    """
    if all((directory / f"{name}.pem").exists() for name in names):
        return
    authority = make_authority(directory, "ca", "ca.key").read_text()
    signing_options = (
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        *DAYS,
        "-extfile",
        "names",
    )
    (directory / "names").write_text(NAMES)
    for name in names:
        key = f"{name}.key"
        csr = f"{name}.csr"
        _call(directory, "req", "-new", *KEY, "-subj", f"/CN={name}", "-keyout", key, "-out", csr)
        certificate = _call(directory, "x509", "-req", "-in", csr, *signing_options)
        (directory / f"{name}.pem").write_text(
            (directory / key).read_text() + certificate + authority
        )


def _call(directory: Path, *words: str) -> str:
    directory.mkdir(parents=True, exist_ok=True)
    program = shutil.which("openssl")
    if program is None:
        raise Rejected("certificates need the program openssl: install it")
    process = subprocess.run(
        [program, *words], cwd=directory, capture_output=True, text=True, check=False
    )
    if process.returncode:
        raise Rejected(f"openssl {words[0]} failed: {process.stderr.strip()}")
    return process.stdout
