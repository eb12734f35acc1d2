package record

import (
	"testing"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/internal/leak"
)

func TestMain(m *testing.M) {
	clitest.Program(Command)
	leak.Main(m)
}
