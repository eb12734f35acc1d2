package bpf_test

import (
	"testing"

	"github.com/ringfold/ringfold/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }
