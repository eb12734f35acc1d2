package bpfmaps

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
)

// findPins adds to each map the paths where it is pinned, in whatever file systems of BPF are mounted here. It skips what it
// may not look into.
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
			id, _ := idOf(m)
			for i := range maps {
				if maps[i].ID == id && !slices.Contains(maps[i].Pins, path) {
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

// idOf returns a map's id.
func idOf(m *ebpf.Map) (uint32, error) {
	info, err := m.Info()
	if err != nil {
		return 0, err
	}
	id, _ := info.ID()
	return uint32(id), nil
}
