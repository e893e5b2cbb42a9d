"""The words that the controller and the command line share."""

from noted_time.wording.log_facts import describe_fact
