package grace

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A run ends, or fails. It leaves its thread as it was, and alive: the death of the thread that
// started a child would send the child its Pdeathsig.
func TestRun(t *testing.T) {
	kerneltest.Require(t)
	fd, err := bpf.ProgLoad(bpf.ProgTypeSocketFilter, "test", "BSD", []bpf.Insn{
		{Code: unix.BPF_ALU64 | unix.BPF_MOV | unix.BPF_K}, {Code: unix.BPF_JMP | unix.BPF_EXIT},
	})
	require.NoError(t, err)
	defer unix.Close(fd)
	for size, want := range map[int]error{64: nil, 1: syscall.EINVAL} {
		r := startRun(fd, size)
		for !r.ended() {
			runtime.Gosched()
		}
		require.ErrorIs(t, r.join(), want)
	}
	var children []*exec.Cmd
	for range 20 {
		child := exec.Command("sleep", "1h")
		child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		require.NoError(t, child.Start())
		children = append(children, child)
		require.NoError(t, startRun(fd, 64).join())
	}
	for _, child := range children {
		status := "/proc/" + strconv.Itoa(child.Process.Pid) + "/stat" // Z: killed already
		stat, err := os.ReadFile(status)
		require.NoError(t, err)
		require.NotContains(t, string(stat), ") Z ")
		require.NoError(t, child.Process.Kill())
		child.Wait()
	}
}
