//go:build linux

// Package vm tests the scripts that run virtual machines, with a program in QEMU's place.
package vm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// machine runs machine.sh, for which QEMU is a shell script that may be silent for so many seconds, and returns what it prints.
func machine(t *testing.T, accel string, silence int, qemu string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "qemu-system-x86_64"), []byte("#!/bin/sh\n"+qemu+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("./machine.sh", "amd64", "2", accel, "kernel", "initramfs", filepath.Join(dir, "log"))
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), fmt.Sprint("SILENCE=", silence), "LIMIT=1h")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil || string(log) != string(out) {
		t.Errorf("the log has %q (%v), not %q", log, err, out)
	}
	return string(out)
}

// QEMU stays when KVM fails, and so do these: what ends is the machine, because of what it has said.
func TestBrokenKVM(t *testing.T) {
	for name, tt := range map[string]struct {
		silence    int
		qemu, want string
	}{
		"message":      {1000, `printf 'Booting from ROM...'; echo 'KVM internal error. Suberror: 1'; exec sleep 1000`, "### BROKEN KVM internal error. Suberror: 1\n"},
		"message late": {1000, `echo '### KERNEL'; sleep 1; echo 'KVM: entry failed, hardware error 0x7'; exec sleep 1000`, "### BROKEN KVM: entry failed, hardware error 0x7\n"},
		"message last": {1000, `echo '### KERNEL'; echo 'error: kvm run failed Bad address'; exit 1`, "### BROKEN kvm run failed Bad address\n"},
		"silence":      {2, `echo SeaBIOS; exec sleep 1000`, "### BROKEN the guest has said nothing in 2 s\n"},
		"no start":     {1000, `echo 'qemu: failed to initialize kvm: Permission denied'; exit 1`, "### BROKEN the machine ended before the guest began\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out := machine(t, "kvm", tt.silence, tt.qemu); !strings.HasSuffix(out, tt.want) {
				t.Errorf("got %q, not %q at its end", out, tt.want)
			}
		})
	}
}

// A guest that has begun may be silent, and one under software emulation may take its time.
func TestSoundMachine(t *testing.T) {
	t.Run("kvm", func(t *testing.T) {
		t.Parallel()
		for silence := 2; ; silence *= 2 {
			out := machine(t, "kvm", silence, fmt.Sprintf(`printf '\033c### KERNEL\r\n'; sleep %d; echo '### DONE 0'`, 2*silence))
			if out == "### KERNEL\n### DONE 0\n" {
				return
			}
			// On a busy machine, the script may be too slow to say anything in so little time.
			if !strings.HasSuffix(out, fmt.Sprintf("### BROKEN the guest has said nothing in %d s\n", silence)) || silence > 60 {
				t.Fatalf("got %q", out)
			}
		}
	})
	t.Run("tcg", func(t *testing.T) {
		t.Parallel()
		if out := machine(t, "tcg", 2, `sleep 4; echo '### KERNEL'`); out != "### KERNEL\n" {
			t.Errorf("got %q", out)
		}
	})
}

func TestAppend(t *testing.T) {
	t.Setenv("APPEND", "isolcpus=1 nohz_full=1")
	if out := machine(t, "tcg", 2, `echo "### KERNEL $*"`); !strings.HasSuffix(out, " isolcpus=1 nohz_full=1\n") {
		t.Errorf("the kernel's command line lacks what was to be appended: %q", out)
	}
}
