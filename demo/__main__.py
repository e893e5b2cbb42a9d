"""`./run demo`."""

from demo.cli import app

app(prog_name="./run demo")
