"""Reads the metrics of a scrape."""

import re
from collections.abc import Iterator

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from controller.service.controller import Controller

Labels = tuple[str, ...]

PARTS = re.compile(r"_(?:bucket|sum|count)$")
"""The suffixes of the samples of a histogram."""


def families(text: str) -> dict[str, str]:
    """Return the type of each family with a HELP line, by the name of its samples."""
    kinds = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            kinds[name] = kind
    return kinds


def samples(text: str, name: str) -> dict[Labels, float]:
    """Return the values of samples by their labels' values."""
    values = {}
    for sample in _list_samples(text):
        if sample.name == name:
            values_of_labels = tuple(value for _, value in sorted(sample.labels.items()))
            values[values_of_labels] = sample.value
    return values


def labels(text: str) -> dict[str, set[str]]:
    """Return the labels of each family with samples, without a histogram's buckets."""
    names = {}
    for sample in _list_samples(text):
        names[PARTS.sub("", sample.name)] = set(sample.labels) - {"le"}
    return names


def _list_samples(text: str) -> Iterator[Sample]:
    for family in text_string_to_metric_families(text):
        yield from family.samples


def scrape(controller: Controller, name: str) -> dict[Labels, float]:
    return samples(generate_latest(controller.measure()).decode(), name)
