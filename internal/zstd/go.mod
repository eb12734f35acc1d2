module github.com/ringfold/ringfold/internal/zstd

go 1.26.0

replace github.com/ringfold/ringfold => ../..

require (
	github.com/klauspost/compress v1.20.3
	github.com/ringfold/ringfold v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/aquasecurity/libbpfgo v0.10.0-libbpf-1.5.1 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
