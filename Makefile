# Short names for ./run; `make check` is exactly what a build runs.
.PHONY: check demo test bench chaos serve lock clean

check:
	.ci/run

demo test bench chaos serve lock clean:
	./run $@
