package main

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// The test binary is the program too.
func TestMain(m *testing.M) {
	if os.Getenv("EXEC_TEST_PROGRAM") == "1" {
		main()
		return
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // with the race detector, each process would take a second to end
	os.Exit(m.Run())
}

func program(args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), "EXEC_TEST_PROGRAM=1")
	return cmd
}

// It prints what is executed, until Ctrl-C.
func TestExec(t *testing.T) {
	kerneltest.Require(t)
	cmd := program()
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	seen := make(chan bool, 1)
	file, err := exec.LookPath("true")
	require.NoError(t, err)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.Contains(lines.Text(), " sample "+file+" 0") {
				select {
				case seen <- true:
				default:
				}
			}
		}
		ended <- cmd.Wait()
	}()
	for tries := true; tries; { // until it has attached its program
		require.NoError(t, exec.Command(file).Run())
		select {
		case <-seen:
			tries = false
		case err := <-ended:
			t.Fatal("the program has ended: ", err)
		default:
		}
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.NoError(t, <-ended)
}

func TestArguments(t *testing.T) {
	out, err := program("-version").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), perfbuf.Version().String())
}

func TestNoPrivilege(t *testing.T) {
	kerneltest.RequireRoot(t)
	cmd := program()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "operation not permitted")
}
