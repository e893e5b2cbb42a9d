# Short names for ./run; `make ci` is what a build runs.
.PHONY: ci check demo test bench chaos serve lock clean

ci:
	.ci/run

check demo test bench chaos serve lock clean:
	./run $@
