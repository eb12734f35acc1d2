module github.com/ringfold/ringfold/bench

go 1.26.0

replace github.com/ringfold/ringfold => ../

require (
	github.com/cilium/ebpf v0.22.0
	github.com/ringfold/ringfold v0.0.0-00010101000000-000000000000
	golang.org/x/sys v0.49.0
)

require github.com/aquasecurity/libbpfgo v0.10.0-libbpf-1.5.1 // indirect
