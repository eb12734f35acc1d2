package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"runtime"
	"strings"

	libbpf "github.com/ringfold/ringfold/cgo"
	"golang.org/x/sys/unix"
)

// fact is a line about the machine or the versions.
type fact struct{ name, value string }

// machine is what the figures depend on. What cannot be told is left out, with a message.
func machine(binary, date string) []fact {
	facts := []fact{{"date", date}}
	if model, err := cpuModel(); err != nil {
		fmt.Fprintln(os.Stderr, "bench/plot: the CPU's model is left out:", err)
	} else {
		facts = append(facts, fact{"CPU", fmt.Sprintf("%s, %d cores", model, runtime.NumCPU())})
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		fmt.Fprintln(os.Stderr, "bench/plot: the kernel's version is left out:", err)
	} else {
		facts = append(facts, fact{"kernel", fmt.Sprintf("Linux %s %s", unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Machine[:]))})
	}
	if v, err := libbpf.Version(); err != nil {
		fmt.Fprintln(os.Stderr, "bench/plot: libbpf's version is left out:", err)
	} else {
		facts = append(facts, fact{"libbpf", strings.TrimPrefix(v.Version, "v")})
	}
	return append(facts, modules(binary)...)
}

// modules are the versions of Go and of the peers that the measuring program was built with.
func modules(binary string) (facts []fact) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/plot: versions of Go and of the peers are left out, name the program that measured with -binary:", err)
		return nil
	}
	facts = append(facts, fact{"Go", strings.TrimPrefix(info.GoVersion, "go")})
	for _, dep := range info.Deps {
		switch dep.Path {
		case "github.com/cilium/ebpf":
			facts = append(facts, fact{"cilium/ebpf", dep.Version})
		case "github.com/aquasecurity/libbpfgo":
			facts = append(facts, fact{"libbpfgo", dep.Version})
		}
	}
	for _, s := range info.Settings {
		// `make bench` has the linker set it, to a version and a checksum.
		if _, library, ok := strings.Cut(s.Value, "main.ayaLibrary="); ok && s.Key == "-ldflags" {
			version, _, _ := strings.Cut(library, "+")
			facts = append(facts, fact{"aya", version})
		}
	}
	return facts
}

// cpuModel is from /proc/cpuinfo, which does not have it on all architectures.
func cpuModel() (string, error) {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("/proc/cpuinfo has no model name on %s", runtime.GOARCH)
}
