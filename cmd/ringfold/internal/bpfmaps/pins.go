package bpfmaps

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
)

// findPins adds to each map the paths where it is pinned, in all BPF file systems that are mounted here.
// It skips directories that it may not read.
func findPins(maps []Map) {
	for _, root := range bpfMounts() {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil
			}
			m, err := ebpf.LoadPinnedMap(path, &ebpf.LoadPinOptions{ReadOnly: true})
			if err != nil {
				return nil // a program or a link
			}
			defer m.Close()
			pinned, _ := mapOf(m)
			for i := range maps {
				if maps[i].ID == pinned.ID && !slices.Contains(maps[i].Pins, path) {
					maps[i].Pins = append(maps[i].Pins, path)
				}
			}
			return nil
		})
	}
	for i := range maps {
		slices.Sort(maps[i].Pins)
	}
}

// bpfMounts returns where file systems of BPF are mounted.
func bpfMounts() (dirs []string) {
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		// Device, directory, type, ...; a blank in a name is \040.
		if f := strings.Fields(line); len(f) > 2 && f[2] == "bpf" {
			dirs = append(dirs, strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(f[1]))
		}
	}
	return dirs
}
