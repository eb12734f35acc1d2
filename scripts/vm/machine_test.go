//go:build linux

// Package vm tests the scripts that run virtual machines, with a program in QEMU's place.
package vm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// machine runs machine.sh, for which QEMU is a shell script, and returns what it prints.
func machine(t *testing.T, accel, qemu string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "qemu-system-x86_64"), []byte("#!/bin/sh\n"+qemu+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("./machine.sh", "amd64", "2", accel, "kernel", "initramfs", filepath.Join(dir, "log"))
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "SILENCE=2", "LIMIT=300s")
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
	for name, tt := range map[string]struct{ qemu, want string }{
		"message":      {`printf 'Booting from ROM...'; echo 'KVM internal error. Suberror: 1'; exec sleep 1000`, "### BROKEN KVM internal error. Suberror: 1\n"},
		"message late": {`echo '### KERNEL'; sleep 1; echo 'KVM: entry failed, hardware error 0x7'; exec sleep 1000`, "### BROKEN KVM: entry failed, hardware error 0x7\n"},
		"message last": {`echo '### KERNEL'; echo 'error: kvm run failed Bad address'; exit 1`, "### BROKEN kvm run failed Bad address\n"},
		"silence":      {`echo SeaBIOS; exec sleep 1000`, "### BROKEN the guest has said nothing in 2 s\n"},
		"no start":     {`echo 'qemu: failed to initialize kvm: Permission denied'; exit 1`, "### BROKEN the machine ended before the guest began\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out := machine(t, "kvm", tt.qemu); !strings.HasSuffix(out, tt.want) {
				t.Errorf("got %q, not %q at its end", out, tt.want)
			}
		})
	}
}

// A guest that has begun may be silent, and one under software emulation may take its time.
func TestSoundMachine(t *testing.T) {
	for name, tt := range map[string]struct{ accel, qemu, want string }{
		"kvm": {"kvm", `printf '\033c### KERNEL\r\n'; sleep 4; echo '### DONE 0'`, "### KERNEL\n### DONE 0\n"},
		"tcg": {"tcg", `sleep 4; echo '### KERNEL'`, "### KERNEL\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out := machine(t, tt.accel, tt.qemu); out != tt.want {
				t.Errorf("got %q, not %q", out, tt.want)
			}
		})
	}
}

func TestAppend(t *testing.T) {
	t.Setenv("APPEND", "isolcpus=1 nohz_full=1")
	if out := machine(t, "tcg", `echo "### KERNEL $*"`); !strings.HasSuffix(out, " no_timer_check isolcpus=1 nohz_full=1\n") {
		t.Errorf("the kernel's command line lacks what was to be appended: %q", out)
	}
}
