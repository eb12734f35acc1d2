package source

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf/btf"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// frame is a perfdata.Compressor, whose frame says that it needs a window of 512 MiB.
type frame struct{ to io.Writer }

func (f *frame) Reset(to io.Writer)        { f.to = to }
func (*frame) Write(b []byte) (int, error) { return len(b), nil }
func (f *frame) Flush() error {
	_, err := f.to.Write([]byte{0x28, 0xb5, 0x2f, 0xfd, 0, 19 << 3, 3, 0, 8, 0}) // one block: a byte, 64 Ki times
	return err
}

// A compressed recording does not say how much memory is taken.
func TestLargeWindow(t *testing.T) {
	_, _, err := read(t, recordingOf(t, nil, &frame{}))
	require.ErrorContains(t, err, "window size exceeded")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// recordingOf makes one of a few events, whose BTF is blob.
func recordingOf(t testing.TB, blob []byte, compress perfdata.Compressor) []byte {
	path := filepath.Join(t.TempDir(), "events.data")
	clitest.Recording(t, path, perfdata.Options{Events: []perfdata.EventInfo{{Name: "events", BTF: blob}}, Compress: compress}, time.Millisecond,
		bytes.Repeat([]byte{1, 7}, 60), bytes.Repeat([]byte{2, 7}, 60), bytes.Repeat([]byte{3, 7}, 60))
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	return file
}

// read reads a recording, and returns all that is printed of its fields.
func read(t testing.TB, file []byte, args ...string) (events int, text []byte, err error) {
	path := filepath.Join(t.TempDir(), "events.data")
	require.NoError(t, os.WriteFile(path, file, 0o600))
	f := &Flags{}
	cmd := &cobra.Command{Use: "test", Args: f.Args, SilenceErrors: true, SilenceUsage: true}
	for _, define := range []func(){func() { f.Which(cmd.Flags()) }, func() { f.What(cmd.Flags()) }, func() { f.Order(cmd.Flags()) }, func() { f.Types(cmd.Flags()) }} {
		define()
	}
	cmd.SetOut(io.Discard)
	cmd.SetErr(io.Discard)
	cmd.SetArgs(append([]string{"file", path}, args...))
	cmd.RunE = func(*cobra.Command, []string) error {
		set, err := f.Choose()
		if err != nil {
			return err
		}
		defer set.Close()
		if _, err := set.Events(); err != nil {
			return err
		}
		in, err := set.Open(perfbuf.Options{})
		if err != nil {
			return err
		}
		return set.Run(context.Background(), in, func(ev Event) error {
			events++
			before := len(text)
			text = ev.Fields.AppendJSON(ev.Fields.AppendText(text))
			// Every 16 bytes of names, and every byte of text, are charged: of each, escapes make some bytes, twice.
			require.LessOrEqual(t, len(text)-before, 400*int(newBudget(ev.Bytes())))
			return nil
		}, func() error { return nil })
	}
	return events, text, cmd.Execute()
}

// types is BTF that cilium/ebpf's encoder does not make.
func types(list ...[]uint32) []byte {
	const names = "\x00event\x00x\x00"
	var b []byte
	for _, typ := range list {
		for _, word := range typ {
			b = binary.NativeEndian.AppendUint32(b, word)
		}
	}
	head := binary.NativeEndian.AppendUint16(nil, 0xeb9f)
	head = append(head, 1, 0)
	for _, n := range []int{24, 0, len(b), len(b), len(names)} {
		head = binary.NativeEndian.AppendUint32(head, uint32(n))
	}
	return append(append(head, b...), names...)
}

// bombs are BTF. The key says, behind a number, what is wrong with it.
func bombs(t testing.TB) map[string][]byte {
	u8, char := &btf.Int{Name: "u8", Size: 1}, &btf.Int{Name: "char", Size: 1, Encoding: btf.Char}
	made := map[string][]byte{}
	add := func(want string, typ btf.Type, more ...btf.Type) {
		blob, err := encode(append(more, typ))
		require.NoError(t, err)
		made[fmt.Sprint(len(made), ": ", want)] = blob
	}
	event := func(members ...btf.Member) *btf.Struct { return &btf.Struct{Name: "event", Size: 8, Members: members} }
	many := func(n int, typ btf.Type) (members []btf.Member) {
		for i := range n {
			members = append(members, btf.Member{Name: "m" + strconv.Itoa(i), Type: typ})
		}
		return members
	}
	self := event(btf.Member{Name: "a"})
	self.Members[0].Type = self
	add("contains itself", self)
	mutual := &btf.Union{Size: 8, Members: many(1, nil)}
	mutual.Members[0].Type = &btf.Array{Type: event(btf.Member{Type: mutual}), Index: u8, Nelems: 1}
	add("contains itself", mutual)
	loop := &btf.Typedef{Name: "event"}
	loop.Type = &btf.Const{Type: loop}
	add("contains itself", loop)
	for _, width := range []int{1, 2} {
		var nested btf.Type = u8
		for range 40 {
			nested = &btf.Struct{Size: 8, Members: many(width, nested)}
		}
		add([]string{"", "more than 16384 members"}[width-1], event(btf.Member{Name: "x", Type: nested}))
	}
	var deep btf.Type = u8
	for range 10_000 {
		deep = &btf.Struct{Size: 1, Members: many(1, deep)}
	}
	add("nested more than 64 deep", event(many(1, deep)...))
	add("more than 16384 members", event(many(1_000, &btf.Struct{Size: 8, Members: many(1_000, u8)})...))
	// These are decoded, to no more than the payload is worth.
	const cut = "(incomplete)"
	arr := &btf.Array{Type: char, Index: u8, Nelems: math.MaxUint32}
	add("", event(btf.Member{Name: "a", Type: arr}, btf.Member{Name: "b", Type: &btf.Array{Type: arr, Index: u8, Nelems: math.MaxUint32}}))
	add(cut, event(many(16_000, &btf.Array{Type: char, Index: u8, Nelems: 100})...))
	add(cut, event(btf.Member{Name: "a", Type: &btf.Array{Type: &btf.Struct{Size: 1, Members: many(16_000, u8)}, Index: u8, Nelems: 8}}))
	color := &btf.Enum{Name: "color", Size: 1}
	for i := range 20_000 {
		color.Values = append(color.Values, btf.EnumValue{Name: "c" + strconv.Itoa(i), Value: uint64(i + 2)})
	}
	add(cut, event(many(5_000, color)...))
	long := strings.Repeat("long", 100_000)
	add(cut, event(btf.Member{Name: "x", Type: u8}, btf.Member{Name: long, Type: u8}))
	add(cut, event(btf.Member{Name: "e", Type: &btf.Enum{Size: 1, Values: []btf.EnumValue{{Name: long, Value: 1}, {Name: long, Value: 2}, {Name: long, Value: 3}}}}))
	var pointer btf.Type = &btf.Pointer{Target: &btf.Void{}}
	for range 10_000 {
		pointer = &btf.Pointer{Target: pointer}
	}
	add("", event(btf.Member{Name: "p", Type: pointer}))
	same := event()
	for range 2_000 {
		same.Members = append(same.Members, btf.Member{Name: strings.Repeat("same", 1000), Type: u8})
	}
	add("names of more than 4194304 bytes", same)

	const structOf = 4 << 24
	good := []uint32{1, structOf | 1, 8, 7, 2, 0}
	u32 := []uint32{0, 1 << 24, 4, 32}
	for want, blob := range map[string][]byte{
		"":                                 types(good, u32),
		"type 3 is not there: there are 2": types([]uint32{1, structOf | 1, 8, 7, 3, 0}, u32),
		"type 2 is of the unknown kind 31": types(good, []uint32{0, 31 << 24, 4}),
		"type 2 is of the unknown kind 0":  types(good, []uint32{0, 0, 4}),
		"type 2 is cut off":                types(good, []uint32{0, structOf | 2, 8, 0, 0, 0}),
		"type 3 is cut off":                types(good, u32, []uint32{0}),
		"type 1 has its name at 2":         types([]uint32{2, structOf | 1, 8, 7, 2, 0}, u32),
		"type 1 has its name at 99":        types([]uint32{1, structOf | 1, 8, 99, 2, 0}, u32),
		"does not begin as BTF":            bytes.Repeat([]byte{1}, 100),
		"fewer than its header":            types()[:20],
		"a section of it ends at":          types(good, u32)[:60],
		"has no struct or union \"event\"": types(u32),
		"it has 5000000 bytes, more than":  append(types(good, u32), make([]byte, 5_000_000-len(types(good, u32)))...),
	} {
		made[fmt.Sprint(len(made), ": ", want)] = blob
	}
	return made
}

// Whatever a recording has as BTF, the type is refused, or decoded within limits, and nothing of that matters without --type.
func TestForeignBTF(t *testing.T) {
	limitMemory(t)
	for name, blob := range bombs(t) {
		_, want, _ := strings.Cut(name, ": ")
		file := recordingOf(t, blob, nil)
		n, text, err := read(t, file, "--type", "event")
		if want != "" && want != "(incomplete)" {
			require.ErrorContains(t, err, want)
			require.Zero(t, n)
		} else {
			require.NoError(t, err, name)
			require.Equal(t, 3, n)
			require.NotEmpty(t, text)
			require.Equal(t, want != "", bytes.Contains(text, []byte("(incomplete)")), name)
		}
		n, _, err = read(t, file)
		require.NoError(t, err)
		require.Equal(t, 3, n)
	}
}

// Fields are found by paths, those of nameless structs without one.
func TestMember(t *testing.T) {
	u8 := &btf.Int{Name: "u8", Size: 1}
	inner := &btf.Struct{Size: 2, Members: []btf.Member{{Name: "x", Type: u8}, {Name: "y", Type: &btf.Pointer{}, Offset: 8}}}
	typ := &btf.Struct{Name: "e", Size: 4, Members: []btf.Member{{Name: "at", Type: &btf.Typedef{Type: inner}}, {Type: &btf.Union{Members: inner.Members}, Offset: 16}}}
	d, err := describe("e", typ)
	require.NoError(t, err)
	for path, want := range map[string]btf.Type{"at": inner, "at.x": u8, "x": u8, "y": inner.Members[1].Type, "at.z": nil, "z": nil, "at.x.y": nil, "": nil, "x.": nil} {
		for range 2 {
			require.Equal(t, want, d.member(path), path)
		}
	}
	require.Equal(t, []string{"at", "x", "y"}, d.fields())
}

// FuzzRecording reads damaged recordings, with and without a type. They take little memory, and what their BTF is like matters to no one
// who asks for no type.
func FuzzRecording(f *testing.F) {
	limitMemory(f)
	for _, blob := range bombs(f) {
		if len(blob) < 10_000 {
			f.Add(recordingOf(f, blob, nil), "event")
		}
	}
	object, err := btf.LoadSpec("decode.bpf.o")
	require.NoError(f, err)
	blob, err := encode(named(object))
	require.NoError(f, err)
	f.Add(recordingOf(f, blob, nil), "sample_t")
	f.Fuzz(func(t *testing.T, file []byte, typ string) {
		if len(file) > 1<<20 {
			return
		}
		plain, _, err := read(t, file)
		with, _, withErr := read(t, file, "--type="+typ)
		if with > 0 {
			require.Equal(t, plain, with)
			require.Equal(t, err == nil, withErr == nil)
		}
	})
}

// limitMemory ends the process, which names the input, if it takes a lot more memory than now.
func limitMemory(t testing.TB) {
	more := uint64(1 << 30)
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		more *= 10 // for the detector's shadow, of which little is used
	}
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	_, data, _ := strings.Cut(string(status), "\nVmData:")
	kilobytes, err := strconv.ParseUint(strings.Fields(data)[0], 10, 64)
	require.NoError(t, err)
	var old syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_DATA, &old))
	limit := old
	limit.Cur = min(old.Max, kilobytes<<10+more)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_DATA, &limit))
	t.Cleanup(func() { syscall.Setrlimit(syscall.RLIMIT_DATA, &old) })
}
