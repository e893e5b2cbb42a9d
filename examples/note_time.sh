#!/bin/sh
# Note time from a shell: three hours of receipts are written to a file, and each hour is noted.
# Needs a controller: `noted-time serve`. NOTED_TIME_URL has its address if it is another machine's.
set -e
# time waits for till-1 from the start, and up to two hours between its notes
noted-time stream create receipts --writer-timeout 2h --expected-writer till-1

noted-time note receipts till-1 --join
for hour in 09 10 11; do
    echo "receipt at 2013-01-01T$hour:30Z" >> till-1.log && sync till-1.log
    noted-time note receipts till-1 "2013-01-01T$hour:59Z" --position "0:$(wc -l < till-1.log)"
done
noted-time note receipts till-1 --state finished

noted-time wait receipts 2013-01-01T11:59Z --timeout 1m
