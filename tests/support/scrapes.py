"""Reads the metrics of a scrape."""

import re

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from controller.service.controller import Controller

Labels = tuple[str, ...]

PARTS = re.compile(r"_(?:bucket|sum|count)$")
"""The suffixes of the samples of a histogram."""


def families(text: str) -> dict[str, str]:
    """Return the type of each family with a HELP line, by the name of its samples."""
    type_lines = (line.split(" ") for line in text.splitlines() if line.startswith("# TYPE "))
    return {name: kind for _, _, name, kind in type_lines}


def samples(text: str, name: str) -> dict[Labels, float]:
    """Return the values of samples by their labels' values."""
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }


def labels(text: str) -> dict[str, set[str]]:
    """Return the labels of each family with samples, without a histogram's buckets."""
    return {
        PARTS.sub("", sample.name): set(sample.labels) - {"le"}
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def scrape(controller: Controller, name: str) -> dict[Labels, float]:
    return samples(generate_latest(controller.measure()).decode(), name)
