"""The alert rules and the scrape job of the pages, as Prometheus reads them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.operations.handbook import MONITORING

pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="no promtool: apt install prometheus"
)
RULES = Path(__file__).with_name("rules")


def run_promtool(*words: str, cwd: Path) -> tuple[int, str]:
    """Return the exit status and the output of `promtool`."""
    process = subprocess.run(
        ["promtool", *words], cwd=cwd, capture_output=True, text=True, check=False
    )
    return process.returncode, process.stdout + process.stderr


def test_alert_rules_pass_their_timing_tests() -> None:
    """The tests have the default settings and a scrape every 15 s."""
    status, output = run_promtool("test", "rules", "alerts.yml", cwd=RULES)

    assert status == 0, output


def test_scrape_job_of_the_page_is_valid(tmp_path: Path) -> None:
    (block,) = re.findall(r"(?ms)^```yaml\n(scrape_configs:.*?)^```$", MONITORING.read_text())
    (tmp_path / "prometheus.yml").write_text(block)

    status, output = run_promtool(
        "check", "config", "--syntax-only", "prometheus.yml", cwd=tmp_path
    )

    assert status == 0, output
