package tail

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/bpfmaps"
)

// list prints all perf event arrays and ring buffers.
func list(w io.Writer, asJSON bool) error {
	maps, err := bpfmaps.List()
	if err != nil {
		return err
	}
	if asJSON {
		return listJSON(w, maps)
	}
	if len(maps) == 0 {
		_, err := fmt.Fprintln(w, "There is no perf event array or BPF ring buffer on this system: start the program that loads one.")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tTYPE\tNAME\tENTRIES\tPROGRAMS\tPROCESSES\tPINS")
	for _, m := range maps {
		fmt.Fprintf(t, "%d\t%s\t%s\t%d\t%s\t%s\t%s\n", m.ID, m.Type, dash(m.Name), m.MaxEntries,
			words(m.Programs, func(p bpfmaps.Program) string { return fmt.Sprintf("%s (id %d)", dash(p.Name), p.ID) }),
			words(m.Processes, func(p bpfmaps.Process) string { return process(m, p) }), words(m.Pins, func(s string) string { return s }))
	}
	if unseen := maps[0].Unseen; unseen != "" {
		fmt.Fprintf(t, "There may be other processes: %s.\n", unseen)
	}
	return t.Flush()
}

func process(m bpfmaps.Map, p bpfmaps.Process) string {
	switch {
	case p.Rings <= 0:
		return p.String()
	case m.RingBuf():
		return fmt.Sprintf("%s (pid %d, has maps mapped)", p.Comm, p.PID)
	case p.Rings == 1:
		return fmt.Sprintf("%s (pid %d, has 1 ring)", p.Comm, p.PID)
	default:
		return fmt.Sprintf("%s (pid %d, has %d rings)", p.Comm, p.PID, p.Rings)
	}
}

// words lists some things, a dash if there are none, and not more than fit into a line.
func words[T any](all []T, word func(T) string) string {
	const most = 3
	var s []string
	for i, one := range all {
		if i == most && len(all) > most+1 {
			s = append(s, fmt.Sprintf("%d more", len(all)-most))
			break
		}
		s = append(s, word(one))
	}
	return dash(strings.Join(s, ", "))
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// listJSON prints an object per map, with the keys that bpftool's "map list -j" has, and our own.
func listJSON(w io.Writer, maps []bpfmaps.Map) error {
	type program struct {
		ID   uint32 `json:"id"`
		Name string `json:"name"`
		Type string `json:"type"`
	}
	type process struct {
		PID   int    `json:"pid"`
		Comm  string `json:"comm"`
		Rings int    `json:"rings"`
	}
	type object struct {
		ID         uint32    `json:"id"`
		Type       string    `json:"type"`
		Name       string    `json:"name"`
		MaxEntries uint32    `json:"max_entries"`
		Programs   []program `json:"programs"`
		PIDs       []process `json:"pids"`
		Pinned     []string  `json:"pinned"`
		Unseen     string    `json:"unseen,omitempty"`
	}
	objects := []object{}
	for _, m := range maps {
		o := object{m.ID, m.Type, m.Name, m.MaxEntries, []program{}, []process{}, append([]string{}, m.Pins...), m.Unseen}
		for _, p := range m.Programs {
			o.Programs = append(o.Programs, program(p))
		}
		for _, p := range m.Processes {
			o.PIDs = append(o.PIDs, process(p))
		}
		objects = append(objects, o)
	}
	return json.NewEncoder(w).Encode(objects)
}
