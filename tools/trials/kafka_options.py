"""The options of `./run kafka`. They need no packages, so `--help` installs nothing."""

from __future__ import annotations

import argparse
from pathlib import Path

from tools.trials.ports import parse_port

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "build" / "kafka"


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./run kafka",
        description="Run a Kafka broker for trials, on this machine alone. Its topics stay.",
    )
    parser.add_argument(
        "--port", type=parse_port, default=9092, help="where it listens; 9092 by default"
    )
    parser.add_argument(
        "--topic",
        type=topic,
        action="append",
        default=[],
        metavar="NAME:PARTITIONS",
        help="create a topic unless it is there, also while another ./run kafka has that port; "
        "may be repeated",
    )
    parser.add_argument("--data", type=Path, default=DATA, help="a directory; build/kafka if none")
    parser.add_argument(
        "--secured",
        action="store_true",
        help="listen on the next two ports, too, for TLS with a login and with a certificate, and "
        "give tokens on the third",
    )
    parser.add_argument("--repository", metavar="URL", help="to fetch jars from there")
    parser.add_argument(
        "--fetch", action="store_true", help="only fetch the jars of all tests, 88 MB"
    )
    return parser


def topic(text: str) -> tuple[str, int]:
    """Return the name and the number of partitions of `flights:4`."""
    from noted_time.values import NAME_PATTERN  # noqa: PLC0415 - needs packages

    name, _, partitions = text.partition(":")
    if not (NAME_PATTERN.fullmatch(name) and (partitions or "1").isdecimal() and partitions != "0"):
        why = "a name of A-Z a-z 0-9 . _ -, and a number of partitions, such as flights:2"
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME:PARTITIONS: {why}")
    return name, int(partitions or 1)
