module github.com/ringfold/ringfold

go 1.25.0

require (
	github.com/aquasecurity/libbpfgo v0.6.0-libbpf-1.3
	github.com/stretchr/testify v1.12.1
	golang.org/x/sys v0.38.0
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect
